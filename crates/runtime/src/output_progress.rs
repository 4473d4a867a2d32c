//! The progress of a task's output, shared by every server of a store: a row next to the log, with
//! the sealed end of the last chunk that is held back.
//!
//! The row is written before the chunk's text goes into the log. So no server mistakes an output
//! that another one continued for a finished one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::coordinator::assignment_name;
use kernel::ids::{Seq, StreamId};
use kernel::run::event::OutputChannel;
use kernel::sealed::Sealed;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Conflict, KeyRow, Store, StoreError};

use crate::door::CoordinatorName;
use crate::redact::{RedactedStream, Redactor, Tail};
use crate::seal::Seal;

/// How long progress is kept after its last change.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// Outputs cached in a process.
const MAX_KNOWN: usize = 256;

/// One output of one assignment of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) named: CoordinatorName,
    pub(crate) assignment: Seq,
    pub(crate) channel: OutputChannel,
}

/// The progress of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The number of the next chunk.
    pub(crate) next: u64,
    /// The text before it that is held back.
    pub(crate) rest: Rest,
    /// The text held back before the last chunk: needed to add that chunk again if its write is in
    /// doubt.
    pub(crate) before: Rest,
    /// The rest is in the log; further chunks are rejected.
    pub(crate) is_over: bool,
    /// Ranges of missing chunks before the next one, from and up to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<(u64, u64)>,
}

/// Separate ranges of missing chunks. Above this number the first ones are merged with what lies
/// between them.
const MAX_MISSING: usize = 64;

impl Progress {
    /// Whether a chunk before the next one is missing.
    pub(crate) fn is_missing(&self, seq: u64) -> bool {
        let mut stretches = self.missing.iter();
        stretches.any(|(from, to)| (*from..*to).contains(&seq))
    }
}

/// Records missing chunks.
pub(crate) fn note_missing(missing: &mut Vec<(u64, u64)>, from: u64, to: u64) {
    if from < to {
        missing.push((from, to));
    }
    if missing.len() > MAX_MISSING {
        let (_, to) = missing.remove(1);
        missing[0].1 = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_pieces_are_known_and_their_list_is_bounded() {
        let mut progress = Progress::default();
        for n in 0..1_000 {
            note_missing(&mut progress.missing, 10 * n, 10 * n + n % 2);
        }
        assert_eq!(progress.missing.len(), MAX_MISSING);
        // Each tenth chunk of the odd ones is missing; the oldest ranges were merged.
        assert!(progress.is_missing(10) && progress.is_missing(9_990));
        assert!(!progress.is_missing(9_991) && !progress.is_missing(9_980));
        assert!(progress.is_missing(15));
    }
}

/// The text that the next chunk continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rest {
    /// The sealed text held back, if any.
    pub(crate) held: Option<Value>,
    /// A chunk is missing: the beginning of the first word is unknown.
    pub(crate) is_torn: bool,
}

impl Rest {
    /// After a missing chunk.
    pub(crate) fn torn() -> Self {
        Self {
            held: None,
            is_torn: true,
        }
    }

    /// The part that a stream holds back.
    pub(crate) fn new(stream: &RedactedStream, seal: &Seal) -> Result<Self, StoreError> {
        let tail = stream.tail().map(|tail| {
            let tail = serde_json::to_value(tail).expect("a tail is always JSON");
            seal.seal(&tail).map_err(StoreError::unavailable)
        });
        Ok(Self {
            held: tail.transpose()?,
            is_torn: false,
        })
    }

    /// A stream that continues with the text held back.
    pub(crate) fn stream(
        &self,
        redactor: &Redactor,
        seal: &Seal,
    ) -> Result<RedactedStream, StoreError> {
        let Some(held) = &self.held else {
            return Ok(redactor.stream());
        };
        let corrupt = || StoreError::Corrupt("the end of an output is not readable".into());
        let sealed = Sealed::from_value(held).ok_or_else(corrupt)?;
        let tail = seal.open(&sealed).map_err(StoreError::unavailable)?;
        let tail: Tail = serde_json::from_value(tail).map_err(|_| corrupt())?;
        redactor.stream_from(&tail).ok_or_else(corrupt)
    }
}

impl Place {
    /// The two outputs of an assignment.
    pub(crate) fn both(named: &CoordinatorName, assignment: Seq) -> [Self; 2] {
        [OutputChannel::Stdout, OutputChannel::Stderr].map(|channel| Self {
            named: named.clone(),
            assignment,
            channel,
        })
    }

    fn namespace(&self) -> String {
        format!("{}/output", self.named.stream())
    }

    fn key(&self) -> String {
        let channel = match self.channel {
            OutputChannel::Stderr => "stderr",
            _ => "stdout",
        };
        format!("{}/{channel}", assignment_name(self.assignment))
    }

    /// The row of this output.
    pub(crate) async fn row(&self, store: &dyn Store) -> Result<Option<KeyRow>, StoreError> {
        let (tenant, key) = (&self.named.tenant, self.key());
        store.key(tenant, &self.namespace(), &key).await
    }

    /// Replaces the observed row. `None` if another server won.
    pub(crate) async fn put(
        &self,
        store: &dyn Store,
        seen: Option<KeyRow>,
        progress: &Progress,
    ) -> Result<Option<KeyRow>, StoreError> {
        let answer = serde_json::to_vec(progress).expect("progress is always JSON");
        let row = KeyRow {
            stream: None,
            digest: None,
            answer: Some(answer),
            expires_at: Some(store.now().plus(REMEMBERED)),
        };
        let claim = KeyClaim {
            namespace: self.namespace(),
            key: self.key(),
            digest: None,
            answer: row.answer.clone(),
            expires_at: row.expires_at,
        };
        match store.put_key(&self.named.tenant, claim, seen).await {
            Ok(()) => Ok(Some(row)),
            Err(StoreError::Conflict(Conflict::Key { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Parses a row.
pub(crate) fn read(row: Option<&KeyRow>) -> Result<Option<Progress>, StoreError> {
    let Some(row) = row else {
        return Ok(None);
    };
    let answer = row.answer.as_deref().unwrap_or_default();
    let progress = serde_json::from_slice(answer);
    let corrupt = |_| StoreError::Corrupt("how far an output has come is not readable".into());
    progress.map(Some).map_err(corrupt)
}

/// The cached state of an output, valid while the row is unchanged.
#[derive(Default)]
pub(crate) struct Known {
    /// The row: all chunks before its next one are in the log.
    pub(crate) row: Option<KeyRow>,
    /// The stream that continues with its rest.
    pub(crate) stream: Option<RedactedStream>,
}

type Name = (StreamId, Seq, OutputChannel);

/// The cached outputs.
#[derive(Default)]
pub(crate) struct HeldBack {
    // The outer lock is held for a look-up, the inner one while a chunk is added, so that chunks of
    // one output are processed in turn.
    outputs: Mutex<BTreeMap<Name, Arc<tokio::sync::Mutex<Known>>>>,
}

impl HeldBack {
    pub(crate) fn known(&self, place: &Place) -> Arc<tokio::sync::Mutex<Known>> {
        let name = name(place);
        let mut outputs = self.outputs.lock();
        if outputs.len() >= MAX_KNOWN && !outputs.contains_key(&name) {
            // Most likely of a lost task that its worker never settles.
            outputs.pop_first();
        }
        outputs.entry(name).or_default().clone()
    }

    pub(crate) fn forget(&self, place: &Place) {
        self.outputs.lock().remove(&name(place));
    }
}

fn name(place: &Place) -> Name {
    (place.named.stream(), place.assignment, place.channel)
}

//! How far an output of a task has come, as every server of a store sees it: a row beside the
//! log, with the end of the last piece that is held back, sealed.
//!
//! The row is put on record before what a piece gives goes into the log. So no server takes for
//! the end of an output what another one has seen going on.

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
use crate::seal::{Seal, SealError};

/// How long it is known how far an output has come, from its last change.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// Outputs that a process has in memory at a time.
const MAX_KNOWN: usize = 256;

/// Which output of which assignment of a queue.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) named: CoordinatorName,
    pub(super) assignment: Seq,
    pub(super) channel: OutputChannel,
}

/// How far an output has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The place of the next piece.
    pub(super) next: u64,
    /// What it begins with.
    pub(super) rest: Rest,
    /// What the last piece began with: it is taken in again where nobody knows that it was.
    pub(super) before: Rest,
    /// The rest went into the log, nothing more is taken in.
    pub(super) is_over: bool,
    /// Places before the next one whose pieces did not come, from and up to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<(u64, u64)>,
}

/// Stretches of missing pieces that are told apart. Of more the first ones count as one, with what
/// is between them.
const MAX_MISSING: usize = 64;

impl Progress {
    /// Whether a piece before the next one did not come.
    pub(super) fn is_missing(&self, seq: u64) -> bool {
        let mut stretches = self.missing.iter();
        stretches.any(|(from, to)| (*from..*to).contains(&seq))
    }
}

/// Notes that pieces did not come.
pub(super) fn note_missing(missing: &mut Vec<(u64, u64)>, from: u64, to: u64) {
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
        // Each tenth piece of the odd ones is missing; those long ago are not told apart.
        assert!(progress.is_missing(10) && progress.is_missing(9_990));
        assert!(!progress.is_missing(9_991) && !progress.is_missing(9_980));
        assert!(progress.is_missing(15));
    }
}

/// What a piece goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rest {
    /// What is held back, sealed; `None` where nothing is.
    pub(super) held: Option<Value>,
    /// A piece is missing: nobody knows how the first word began.
    pub(super) is_torn: bool,
}

impl Rest {
    /// Nobody knows what was before.
    pub(super) fn torn() -> Self {
        Self {
            held: None,
            is_torn: true,
        }
    }

    /// What a stream holds back.
    pub(super) fn of(stream: &RedactedStream, seal: &Seal) -> Result<Self, StoreError> {
        let tail = stream.tail().map(|tail| {
            let tail = serde_json::to_value(tail).expect("a tail is always JSON");
            seal.seal(&tail).map_err(unavailable)
        });
        Ok(Self {
            held: tail.transpose()?,
            is_torn: false,
        })
    }

    /// Goes on with what was held back.
    pub(super) fn stream(
        &self,
        redactor: &Redactor,
        seal: &Seal,
    ) -> Result<RedactedStream, StoreError> {
        let Some(held) = &self.held else {
            return Ok(redactor.stream());
        };
        let corrupt = || StoreError::Corrupt("the end of an output is not readable".into());
        let sealed = Sealed::of(held).ok_or_else(corrupt)?;
        let tail = seal.open(&sealed).map_err(unavailable)?;
        let tail: Tail = serde_json::from_value(tail).map_err(|_| corrupt())?;
        redactor.stream_from(&tail).ok_or_else(corrupt)
    }
}

fn unavailable(error: SealError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

impl Place {
    /// The outputs of an assignment.
    pub(super) fn both(named: &CoordinatorName, assignment: Seq) -> [Self; 2] {
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
    pub(super) async fn row(&self, store: &dyn Store) -> Result<Option<KeyRow>, StoreError> {
        let (tenant, key) = (&self.named.tenant, self.key());
        store.key(tenant, &self.namespace(), &key).await
    }

    /// Puts progress in the place of the row that was seen. `None` where another server was
    /// faster.
    pub(super) async fn put(
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

/// What a row says.
pub(super) fn read(row: Option<&KeyRow>) -> Result<Option<Progress>, StoreError> {
    let Some(row) = row else {
        return Ok(None);
    };
    let answer = row.answer.as_deref().unwrap_or_default();
    let progress = serde_json::from_slice(answer);
    let corrupt = |_| StoreError::Corrupt("how far an output has come is not readable".into());
    progress.map(Some).map_err(corrupt)
}

/// What this process knows of an output, as long as the row is as it left it.
#[derive(Default)]
pub(super) struct Known {
    /// The row: all pieces before its next one are in the log.
    pub(super) row: Option<KeyRow>,
    /// What goes on with its rest.
    pub(super) stream: Option<RedactedStream>,
}

type Name = (StreamId, Seq, OutputChannel);

/// The outputs that this process knows of.
#[derive(Default)]
pub(crate) struct HeldBack {
    // The outer lock is held for a look-up; the inner one while a piece is taken in, so that
    // pieces of one output wait for each other.
    outputs: Mutex<BTreeMap<Name, Arc<tokio::sync::Mutex<Known>>>>,
}

impl HeldBack {
    pub(super) fn of(&self, place: &Place) -> Arc<tokio::sync::Mutex<Known>> {
        let name = name(place);
        let mut outputs = self.outputs.lock();
        if outputs.len() >= MAX_KNOWN && !outputs.contains_key(&name) {
            // Most likely of a task that was lost: its worker does not end it.
            outputs.pop_first();
        }
        outputs.entry(name).or_default().clone()
    }

    pub(super) fn forget(&self, place: &Place) {
        self.outputs.lock().remove(&name(place));
    }
}

fn name(place: &Place) -> Name {
    (place.named.stream(), place.assignment, place.channel)
}

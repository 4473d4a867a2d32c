//! Folded documents as bytes.
//!
//! `VERSION SEAL JSON\nDOCUMENT`: the folded state, and the document itself as canonical JSON. The
//! seal is the SHA-256 of all following bytes, which detects a damaged checkpoint; the log is then
//! read instead.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::body::Body;
use super::canonical::Canonical;
use super::history::{Base, History};
use super::{Document, SaveRecord, View};
use crate::digest::Digest;
use crate::ids::Seq;
use crate::json;
use crate::run::RunEvent;
use crate::stream::StreamHeader;
use crate::time::Timestamp;

/// Increased whenever a checkpoint of an earlier build would be misread.
const VERSION: &str = "1";

/// Why a checkpoint cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Another build wrote it.
    OtherBuild,
    /// It differs from the written bytes.
    Damaged,
}

#[derive(Deserialize, Serialize)]
struct Folded {
    next_seq: Seq,
    chain: Digest,
    at: Timestamp,
    trace_at: usize,
    saves: Vec<Arc<SaveRecord>>,
    made: BTreeSet<String>,
    implied: Vec<Arc<(Seq, Timestamp, RunEvent)>>,
}

impl Document {
    /// The state as bytes, for a checkpoint. `None` before anything was saved.
    pub fn checkpoint(&self) -> Option<Vec<u8>> {
        let canonical = self.canonical()?;
        let folded = Folded {
            next_seq: self.next_seq,
            chain: self.chain,
            at: self.at,
            trace_at: canonical.trace_at(),
            saves: self.state.saves.clone(),
            made: self.state.made.clone(),
            implied: self.state.view.events().to_vec(),
        };
        let mut sealed = serde_json::to_vec(&folded).expect("a state is always JSON");
        sealed.push(b'\n');
        sealed.extend_from_slice(canonical.as_ref());
        let mut state = format!("{VERSION} {} ", Digest::compute(&sealed)).into_bytes();
        state.append(&mut sealed);
        Some(state)
    }
}

impl History {
    /// A log that was read up to a checkpoint: after `next_seq` events, the last of which has this
    /// link of the hash chain.
    ///
    /// # Errors
    /// The log has to be folded from its start.
    pub fn from_checkpoint(
        header: StreamHeader,
        next_seq: Seq,
        chain: Digest,
        state: &[u8],
    ) -> Result<Self, Unusable> {
        let digits = state.iter().take_while(|byte| byte.is_ascii_digit());
        let (version, rest) = state.split_at(digits.count());
        let rest = match (version, rest) {
            ([_, ..], [b' ', rest @ ..]) => rest,
            _ => return Err(Unusable::Damaged),
        };
        if version != VERSION.as_bytes() {
            return Err(Unusable::OtherBuild);
        }
        let resumed = resume(header, rest).filter(|history| {
            let document = history.document();
            document.next_seq == next_seq && document.chain == chain
        });
        resumed.ok_or(Unusable::Damaged)
    }
}

fn resume(header: StreamHeader, state: &[u8]) -> Option<History> {
    let (seal, sealed) = state.split_at_checked(2 * size_of::<Digest>())?;
    let sealed = sealed.strip_prefix(b" ")?;
    (seal == Digest::compute(sealed).to_string().as_bytes()).then_some(())?;
    let end = sealed.iter().position(|byte| *byte == b'\n')?;
    let folded: Folded = json::from_slice(&sealed[..end]).ok()?;
    let text = &sealed[end + 1..];
    let body = Arc::new(Body::read(text)?);
    let mut view = View::default();
    for event in folded.implied {
        view.fold(event);
    }
    let number = folded.saves.len() as u64;
    let mut document = Document::at_start(header);
    document.next_seq = folded.next_seq;
    document.chain = folded.chain;
    document.at = folded.at;
    document.state.saves = folded.saves;
    document.state.made = folded.made;
    document.state.view = view;
    let canonical = Canonical::new(text.to_vec(), folded.trace_at);
    Some(History::on(
        document,
        Base {
            number,
            body,
            canonical,
        },
    ))
}

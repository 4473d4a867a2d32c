//! A document: the run that a browser app records by itself, saved whole each time.
//!
//! A stream of its own. A save appends the events that are new, so that a hundred saves take
//! little more room than the last one alone; each of them can be read again. Beside it stand the
//! events of a run that the save implies (`view.rs`), until that run has ended.
//!
//! Two clients may save without knowing of each other. The last one counts, and what it replaced
//! is kept as a branch. What was decided here (a gate, a cancellation) and a client does not know
//! yet is put back onto its save: see `decide`.

mod body;
mod canonical;
mod checkpoint;
mod decide;
mod draft;
mod entries;
mod event;
mod gates;
mod history;
mod sent;
mod summary;
#[cfg(test)]
mod tests;
mod text;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::batch::IndexRow;
use crate::digest::Digest;
use crate::ids::{Seq, StreamId};
use crate::stream::{FORMAT_VERSION, Owner, Policy, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use body::{Body, Derived, Residual};
pub use canonical::Canonical;
pub use checkpoint::Unusable;
pub use decide::{
    Attribution, Audited, Decided, DocumentCommand, DocumentRejection, Expected, Save,
};
pub use entries::{Delta, Entries};
pub use event::{DocumentEvent, Event, EventBody, Extension, External, Form, Saved, Via};
pub use gates::{GateDecision, PendingGate};
pub use history::History;
pub use sent::{Sent, Shared};
pub use summary::{ModelUse, run_status};
pub use text::{Edit, Text};
pub use view::{STEP_TYPE, View};

/// The namespace of unique keys in which a document claims the id its client chose.
pub const KEY_NAMESPACE: &str = "workbench";

/// Begins the tag by which an index row is found as a child of a run. No tag of a client has it.
pub const PARENT_MARK: &str = "\u{1}parent:";

/// The tag of an index row whose document has a gate that waits.
pub const GATE_MARK: &str = "\u{1}gate";

/// Whether a tag of an index row is a mark, and no tag of a client.
pub fn is_mark(tag: &str) -> bool {
    tag == GATE_MARK || tag.starts_with(PARENT_MARK)
}

/// The kinds of trace events that are known. Others are kept, and counted.
pub const EVENT_KINDS: &[&str] = &[
    "step_started",
    "step_completed",
    "artifact_written",
    "artifact_patch",
    "model_io",
    "tool_call",
    "human_gate_requested",
    "human_gate_resolved",
    "rule_changed",
    "policy_changed",
    "error",
    "run_forked",
    "annotation",
    "run_status_changed",
    "span_started",
    "span_ended",
];

/// A save, as its history lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaveRecord {
    /// Which one, from 1.
    pub number: u64,
    /// The event that says it.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The document's own count.
    pub revision: u64,
    /// How many events its trace has.
    pub events: u64,
    /// SHA-256 of the document's canonical JSON.
    pub digest: Digest,
    /// By which way it came.
    pub via: Via,
    /// By whom.
    pub by: Option<String>,
    /// The save it took the place of without knowing it.
    pub replaced: Option<u64>,
    /// How many events made here were put back onto it.
    pub put_back: u64,
}

/// The document as it was saved last.
#[derive(Clone, Debug)]
struct Head {
    body: Arc<Body>,
    canonical: Canonical,
    tally: summary::Tally,
}

/// The state of a document. A copy shares what it has in lists.
#[derive(Clone, Debug)]
pub struct Document {
    header: StreamHeader,
    next_seq: Seq,
    chain: Digest,
    at: Timestamp,
    saves: Vec<Arc<SaveRecord>>,
    made: BTreeSet<String>,
    view: View,
    head: Option<Head>,
}

impl Document {
    /// A document nothing was saved of yet.
    pub fn unborn(stream: StreamId, owner: Owner, now: Timestamp) -> Self {
        Self::at_start(
            StreamHeader {
                stream,
                kind: StreamKind::Document,
                owner,
                format: FORMAT_VERSION,
                engine_version: None,
                created_at: now,
                definition: None,
                origin: None,
                parent: None,
                trace: None,
                policy: Policy::default(),
                genesis: Digest([0; 32]),
                predecessor: None,
                nonce: None,
            }
            .seal_genesis(),
        )
    }

    fn at_start(header: StreamHeader) -> Self {
        Self {
            next_seq: 0,
            chain: header.genesis,
            at: header.created_at,
            saves: Vec::new(),
            made: BTreeSet::new(),
            view: View::default(),
            head: None,
            header,
        }
    }

    /// The key that a client's id is claimed by. Each workspace has ids of its own.
    pub fn key(owner: &Owner, id: &str) -> String {
        format!("{}/{id}", owner.workspace.as_deref().unwrap_or_default())
    }

    /// What is said once.
    pub fn header(&self) -> &StreamHeader {
        &self.header
    }

    /// How many events its log has.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The last link of the hash chain.
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// Every save, oldest first.
    pub fn saves(&self) -> &[Arc<SaveRecord>] {
        &self.saves
    }

    /// The document as it was saved last.
    pub fn head(&self) -> Option<&Arc<Body>> {
        self.head.as_ref().map(|head| &head.body)
    }

    /// The canonical JSON of the document as it was saved last.
    pub fn canonical(&self) -> Option<&Canonical> {
        self.head.as_ref().map(|head| &head.canonical)
    }

    /// The run it tells of.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The saves that another took the place of and that nothing was built on.
    pub fn is_branch(&self, number: u64) -> bool {
        self.saves.iter().any(|save| save.replaced == Some(number))
    }

    /// The last save of a revision that is not a branch, else the last one.
    pub fn save_of(&self, revision: u64) -> Option<&SaveRecord> {
        let of = || {
            let saves = self.saves.iter().rev().map(|save| &**save);
            saves.filter(|save| save.revision == revision)
        };
        of().find(|save| !self.is_branch(save.number))
            .or_else(|| of().next())
    }

    /// Folds an event; gives back what a save says.
    fn fold(&mut self, event: Event) -> Option<Saved> {
        self.next_seq += 1;
        self.at = event.at;
        match event.body {
            EventBody::Document(DocumentEvent::Saved(saved)) => {
                self.made.extend(saved.made.iter().cloned());
                self.saves.push(Arc::new(SaveRecord {
                    number: self.saves.len() as u64 + 1,
                    seq: event.seq,
                    at: event.at,
                    revision: saved.revision,
                    events: saved.events,
                    digest: saved.digest,
                    via: saved.via,
                    by: saved.by.clone(),
                    replaced: saved.replaced,
                    put_back: saved.put_back,
                }));
                Some(saved)
            }
            EventBody::Implied(implied) => {
                self.view.fold(Arc::new((event.seq, event.at, implied)));
                None
            }
        }
    }

    /// The index row of this state; `None` before anything was saved.
    pub fn index(&self) -> Option<IndexRow> {
        let head = self.head.as_ref()?;
        Some(summary::index(self, &head.body, &head.tally))
    }

    /// How many events of the trace are of a kind that is not known here. They are kept.
    pub fn unknown_events(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.tally.unknown)
    }

    /// The index row of this state where `body` is the document as it was saved last.
    pub fn index_with(&self, body: &Body) -> IndexRow {
        summary::index(self, body, &body.tally())
    }
}

/// How many saves others took the place of.
fn branches(saves: &[Arc<SaveRecord>]) -> usize {
    saves.iter().filter(|save| save.replaced.is_some()).count()
}

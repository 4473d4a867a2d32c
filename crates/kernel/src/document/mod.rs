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
use serde_json::Value;

use crate::batch::IndexRow;
use crate::digest::Digest;
use crate::ids::{Seq, StreamId};
use crate::json;
use crate::log::{Aggregate, Log};
use crate::stream::{Owner, StreamHeader, StreamKind};
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

/// A document: its log, and what it folds to.
pub type Document = Log<Content>;

/// The state of a document. A copy shares the parts of its lists.
#[derive(Clone, Debug, Default)]
pub struct Content {
    saves: Vec<Arc<SaveRecord>>,
    /// Ids of the trace events that were made here.
    made: BTreeSet<String>,
    view: View,
    head: Option<Head>,
}

impl Aggregate for Content {
    type Event = Event;
    type Body = EventBody;

    fn at_start() -> Self {
        Self::default()
    }

    fn event(log: &Document, at: Timestamp, body: EventBody) -> Event {
        Event::next(log, at, body)
    }

    fn place(event: &Event) -> (Seq, Timestamp) {
        (event.seq, event.at)
    }

    fn accepts(_: &Document, _: &Event) -> bool {
        true
    }

    fn fold(&mut self, _: &StreamHeader, event: &Event, _: &[u8]) {
        match &event.body {
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
            }
            EventBody::Implied(implied) => {
                let implied = (event.seq, event.at, implied.clone());
                self.view.fold(Arc::new(implied));
            }
        }
    }

    fn index(log: &Document) -> IndexRow {
        match &log.state.head {
            Some(head) => summary::index(log, &head.body, &head.tally),
            None => log.index_with(&Body::default()),
        }
    }

    /// The events of a large save are moved into its content, not copied.
    fn content(event: &mut Event) -> Vec<u8> {
        let appended = match &mut event.body {
            EventBody::Document(DocumentEvent::Saved(saved)) => match &mut saved.form {
                Form::Opened { extension, .. } | Form::Extended(extension) => {
                    std::mem::take(&mut extension.appended)
                }
                Form::Whole { .. } | Form::Text { .. } | Form::Edited { .. } => Vec::new(),
            },
            EventBody::Implied(_) => Vec::new(),
        };
        let mut content = serde_json::to_value(event).expect("kernel values are always JSON");
        if !appended.is_empty() {
            content["data"]["form"]["appended"] = Value::Array(appended);
        }
        json::canonical_of(&content)
    }
}

impl Document {
    /// A document without saves.
    pub fn unborn(stream: StreamId, owner: Owner, now: Timestamp) -> Self {
        let header = StreamHeader::new(stream, StreamKind::Document, owner, now);
        Self::at_start(header.seal_genesis())
    }

    /// The key that a client's id is claimed by. Each workspace has ids of its own.
    pub fn key(owner: &Owner, id: &str) -> String {
        format!("{}/{id}", owner.workspace.as_deref().unwrap_or_default())
    }

    /// Every save, oldest first.
    pub fn saves(&self) -> &[Arc<SaveRecord>] {
        &self.state.saves
    }

    /// The document as it was saved last.
    pub fn head(&self) -> Option<&Arc<Body>> {
        self.state.head.as_ref().map(|head| &head.body)
    }

    /// The canonical JSON of the document as it was saved last.
    pub fn canonical(&self) -> Option<&Canonical> {
        self.state.head.as_ref().map(|head| &head.canonical)
    }

    /// The run it tells of.
    pub fn view(&self) -> &View {
        &self.state.view
    }

    /// The saves that another took the place of and that nothing was built on.
    pub fn is_branch(&self, number: u64) -> bool {
        self.state
            .saves
            .iter()
            .any(|save| save.replaced == Some(number))
    }

    /// The last save of a revision that is not a branch, else the last one.
    pub fn save_of(&self, revision: u64) -> Option<&SaveRecord> {
        let of = || {
            let saves = self.state.saves.iter().rev().map(|save| &**save);
            saves.filter(|save| save.revision == revision)
        };
        of().find(|save| !self.is_branch(save.number))
            .or_else(|| of().next())
    }

    /// How many events of the trace are of a kind that is not known here. They are kept.
    pub fn unknown_events(&self) -> usize {
        self.state
            .head
            .as_ref()
            .map_or(0, |head| head.tally.unknown)
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

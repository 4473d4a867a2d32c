//! A document: the run that a browser app records by itself, saved whole each time.
//!
//! Each document has a stream of its own. A save appends the new events, so that a hundred saves
//! take little more space than the last one alone; each of them can be read again. The log also
//! contains the events of a run that the save implies (`view.rs`), until that run has ended.
//!
//! Two clients may save without knowing of each other. The last save counts, and the replaced one
//! is kept as a branch. A decision made here (a gate, a cancellation) that a client does not know
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
pub use summary::run_status;
pub use text::{Edit, Text};
pub use view::{STEP_TYPE, View};

/// The namespace of unique keys in which a document claims the id its client chose.
pub const KEY_NAMESPACE: &str = "workbench";

/// The prefix of the tag by which an index row is found as a child of a run. Clients' tags cannot
/// contain it.
pub const PARENT_MARK: &str = "\u{1}parent:";

/// The tag of an index row whose document has a waiting gate.
pub const GATE_MARK: &str = "\u{1}gate";

/// Whether a tag of an index row is a mark instead of a client's tag.
pub fn is_mark(tag: &str) -> bool {
    tag == GATE_MARK || tag.starts_with(PARENT_MARK)
}

/// The known kinds of trace events. Others are kept, and counted.
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
    /// Its number, from 1.
    pub number: u64,
    /// Its event.
    pub seq: Seq,
    /// Its time.
    pub at: Timestamp,
    /// The document's own count.
    pub revision: u64,
    /// How many events its trace has.
    pub events: u64,
    /// SHA-256 of the document's canonical JSON.
    pub digest: Digest,
    /// How it was sent.
    pub via: Via,
    /// The principal.
    pub by: Option<String>,
    /// The save that it replaced without knowing it.
    pub replaced: Option<u64>,
    /// Number of events made here that were put back onto it.
    pub put_back: u64,
}

/// The last saved document.
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

    /// The last saved document.
    pub fn head(&self) -> Option<&Arc<Body>> {
        self.state.head.as_ref().map(|head| &head.body)
    }

    /// The canonical JSON of the last saved document.
    pub fn canonical(&self) -> Option<&Canonical> {
        self.state.head.as_ref().map(|head| &head.canonical)
    }

    /// The implied run.
    pub fn view(&self) -> &View {
        &self.state.view
    }

    /// Whether another save replaced this one without continuing it.
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

    /// Number of events of the trace of unknown kinds. They are kept.
    pub fn unknown_events(&self) -> usize {
        self.state
            .head
            .as_ref()
            .map_or(0, |head| head.tally.unknown)
    }

    /// The index row of this state, with `body` as the last saved document.
    pub fn index_with(&self, body: &Body) -> IndexRow {
        summary::index(self, body, &body.tally())
    }
}

/// Number of replaced saves.
fn branches(saves: &[Arc<SaveRecord>]) -> usize {
    saves.iter().filter(|save| save.replaced.is_some()).count()
}

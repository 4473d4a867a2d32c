//! A batch of a document in the making.

use serde_json::Value;

use super::body::text;
use super::decide::{Attribution, Audited, Decided};
use super::event::{DocumentEvent, Event, EventBody, Form, Saved, Via};
use super::view::{Implying, clip};
use super::{Body, Document};
use crate::audit::{self, AuditAction, Entry, Outcome, Subject};
use crate::batch::{Batch, KeyClaim, Message, Record};
use crate::digest::Digest;
use crate::ids::MessageId;
use crate::json;
use crate::time::Timestamp;

/// A batch in the making.
pub(super) struct Draft {
    document: Document,
    first: u64,
    now: Timestamp,
    records: Vec<Record>,
    outbox: Vec<Message>,
}

impl Draft {
    pub(super) fn new(document: Document, now: Timestamp) -> Self {
        Self {
            first: document.next_seq,
            document,
            now,
            records: Vec::new(),
            outbox: Vec::new(),
        }
    }

    /// Writes a save and what it implies.
    pub(super) fn write(&mut self, saved: Saved, body: &Body, common: usize, told: &Attribution) {
        let is_first = self.first == 0;
        self.audit(&saved, body, told);
        let is_made_here = matches!(saved.via, Via::Gate | Via::Cancel);
        let stream = self.document.header.stream.clone();
        let (at, next) = (self.now, self.document.next_seq);
        // The run's own beginning stands first, as in every log of a run; then the save.
        let mut view = self.document.view.clone();
        let mut implying = Implying {
            view: &mut view,
            stream: &stream,
            next,
            at,
            by: is_made_here.then_some(told.by.principal.as_str()),
            made: Vec::new(),
        };
        if is_first {
            implying.begin(&body.derived);
        }
        let beginning = std::mem::take(&mut implying.made);
        implying.next += 1;
        implying.follow(&body.trace[common..], body);
        let following = implying.made;
        for event in beginning {
            self.emit(EventBody::Implied(event));
        }
        self.emit(EventBody::Document(DocumentEvent::Saved(saved)));
        for event in following {
            self.emit(EventBody::Implied(event));
        }
    }

    fn emit(&mut self, mut body: EventBody) {
        // The events of a large save are moved into its content, not copied.
        let appended = match &mut body {
            EventBody::Document(DocumentEvent::Saved(saved)) => match &mut saved.form {
                Form::Opened { extension, .. } | Form::Extended(extension) => {
                    std::mem::take(&mut extension.appended)
                }
                Form::Whole { .. } | Form::Text { .. } | Form::Edited { .. } => Vec::new(),
            },
            EventBody::Implied(_) => Vec::new(),
        };
        let event = Event {
            seq: self.document.next_seq,
            at: self.now,
            body,
        };
        let mut content = serde_json::to_value(&event).expect("kernel values are always JSON");
        if !appended.is_empty() {
            content["data"]["form"]["appended"] = Value::Array(appended);
        }
        let content = json::canonical_of(&content);
        let chain = self.document.chain.chain(&content);
        self.document.fold(event);
        self.document.chain = chain;
        self.records.push(Record { content, chain });
    }

    /// Tells the tenant's audit trail what it hears of.
    fn audit(&mut self, saved: &Saved, body: &Body, told: &Attribution) {
        let (action, kind, id) = match saved.via {
            Via::Gate => (AuditAction::GateDecided, "gate", gate(body)),
            Via::Cancel => (AuditAction::RunCancelled, "document", body.id().to_owned()),
            Via::Fork => (AuditAction::RunForked, "document", body.id().to_owned()),
            Via::Client | Via::Import if told.audited == Audited::Saves => {
                (AuditAction::DocumentSaved, "document", body.id().to_owned())
            }
            Via::Client | Via::Import => return,
        };
        let header = &self.document.header;
        let mut on = Subject::new(kind, id);
        on.workspace.clone_from(&header.owner.workspace);
        let entry = Entry {
            message: MessageId::new(format!("{}.{}.audit", header.stream, self.first)),
            decided_at: self.now,
            action,
            by: told.by.clone(),
            on,
            outcome: Outcome::Done,
        };
        self.outbox.push(audit::message(header.tenant(), entry));
    }

    /// The batch, with the blobs that have to be there before it.
    pub(super) fn seal(self, blobs: Vec<Vec<u8>>) -> Decided {
        let document = self.document;
        let header = &document.header;
        let head = document.head().expect("a save was written");
        let is_first = self.first == 0;
        let claim = || KeyClaim {
            namespace: super::KEY_NAMESPACE.to_owned(),
            key: Document::key(&header.owner, head.id()),
            digest: None,
            answer: None,
            expires_at: None,
        };
        let batch = Batch {
            stream: header.stream.clone(),
            tenant: header.tenant().clone(),
            header: is_first.then(|| header.clone()),
            first_seq: self.first,
            records: self.records,
            index: document.index().expect("a save was written"),
            timers: Vec::new(),
            keys: is_first.then(claim).into_iter().collect(),
            outbox: self.outbox,
            blobs: blobs.iter().map(|blob| Digest::of(blob)).collect(),
        };
        Decided {
            blobs,
            batch,
            document,
        }
    }
}

/// What a trail calls the gate that was decided last: run, step and gate.
fn gate(body: &Body) -> String {
    let last = body.trace.last().and_then(|event| match &**event {
        Value::Object(event) => Some((text(event, "stepId"), text(event, "gate"))),
        _ => None,
    });
    let (step, gate) = last.unwrap_or_default();
    format!("{}/{}/{}", body.id(), clip(step), clip(gate))
}

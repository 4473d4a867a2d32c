//! Batches of a document.

use serde_json::Value;

use super::body::text;
use super::decide::{Attribution, Audited, Decided};
use super::event::{DocumentEvent, EventBody, Saved, Via};
use super::view::{Implying, clip};
use super::{Body, Content, Document};
use crate::audit::{AuditAction, Subject};
use crate::batch::KeyClaim;
use crate::digest::Digest;
use crate::log::Draft;

impl Draft<Content> {
    /// Writes a save and its implied events.
    pub(super) fn write(&mut self, saved: Saved, body: &Body, common: usize, told: &Attribution) {
        let is_first = self.first_seq == 0;
        self.audit_save(&saved, body, told);
        let is_made_here = matches!(saved.via, Via::Gate | Via::Cancel);
        let stream = self.log.header.stream.clone();
        let (at, next) = (self.now, self.log.next_seq);
        // The run's own beginning is first, as in every log of a run; then the save.
        let mut view = self.log.state.view.clone();
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

    /// Sends the tenant's audit trail an entry, where it keeps one of such saves.
    fn audit_save(&mut self, saved: &Saved, body: &Body, told: &Attribution) {
        let (action, kind, id) = match saved.via {
            Via::Gate => (AuditAction::GateDecided, "gate", gate(body)),
            Via::Cancel => (AuditAction::RunCancelled, "document", body.id().to_owned()),
            Via::Fork => (AuditAction::RunForked, "document", body.id().to_owned()),
            Via::Client | Via::Import if told.audited == Audited::Saves => {
                (AuditAction::DocumentSaved, "document", body.id().to_owned())
            }
            Via::Client | Via::Import => return,
        };
        let mut on = Subject::new(kind, id);
        on.workspace.clone_from(&self.log.header.owner.workspace);
        self.audit(action, on, &told.by);
    }

    /// The batch, with the blobs that have to be stored before it.
    pub(super) fn finish(mut self, blobs: Vec<Vec<u8>>) -> Decided {
        if self.first_seq == 0 {
            let head = self.log.head().expect("a save was written");
            let key = Document::key(&self.log.header.owner, head.id());
            self.keys
                .push(KeyClaim::permanent(super::KEY_NAMESPACE, key));
        }
        self.blobs = blobs.iter().map(|blob| Digest::compute(blob)).collect();
        let (batch, document) = self.seal();
        Decided {
            blobs,
            batch,
            document,
        }
    }
}

/// The name of the last decided gate in a trail: run, step and gate.
fn gate(body: &Body) -> String {
    let last = body.trace.last().and_then(|event| match &**event {
        Value::Object(event) => Some((text(event, "stepId"), text(event, "gate"))),
        _ => None,
    });
    let (step, gate) = last.unwrap_or_default();
    format!("{}/{}/{}", body.id(), clip(step), clip(gate))
}

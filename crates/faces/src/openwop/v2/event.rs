//! The envelope: a stored event as a `RunEventDoc` of v2.

use kernel::ids::Seq;
use kernel::run::{CausedBy, Event, RunEvent};
use kernel::stream::{Owner, StreamHeader};
use serde_json::{Map, Value, json};

use super::super::v1;
use super::id::bind;
use super::kind::owned_kind;
use super::payload::{Beyond, number, project_payload};
use crate::mask::Mask;

/// The fields of the closed envelope.
const ENVELOPE: [&str; 10] = [
    "eventId",
    "runId",
    "type",
    "payload",
    "timestamp",
    "sequence",
    "nodeId",
    "schemaVersion",
    "engineVersion",
    "causationId",
];

/// A stored event, with the sequence of the first event of its batch.
pub fn event(header: &StreamHeader, mask: Mask<'_>, event: &Event, cause: Option<Seq>) -> Value {
    let doc = v1::event_caused_by(header, mask, event, cause);
    let beyond = Beyond {
        interrupt: interrupt(&event.body),
        issuer: issuer(event),
    };
    project(&header.owner, doc, beyond)
}

/// A v1 document of an event of an owner's run, as v2 shows it.
pub fn project_event(owner: &Owner, doc: Value) -> Value {
    project(owner, doc, Beyond::default())
}

/// The issuer of an answerer's credential, which the command of the batch has.
fn issuer(event: &Event) -> Option<&str> {
    match &event.cause.as_ref()?.command {
        CausedBy::Resolve { capacity } => capacity.issuer.as_deref(),
        _ => None,
    }
}

fn project(owner: &Owner, doc: Value, beyond: Beyond<'_>) -> Value {
    let Value::Object(mut doc) = doc else {
        return doc;
    };
    let kind = owned_kind(doc.get("type").and_then(Value::as_str).unwrap_or_default());
    let payload = doc.remove("payload").unwrap_or_else(|| json!({}));
    let payload = project_payload(owner, &kind, payload, beyond);
    let run = doc.get("runId").and_then(Value::as_str).unwrap_or_default();
    let run = bind(&owner.tenant, run);
    doc.insert("runId".into(), json!(run));
    doc.insert("type".into(), json!(kind));
    doc.insert("payload".into(), payload);
    number(&mut doc, "engineVersion");
    Value::Object(closed(doc))
}

fn closed(mut doc: Map<String, Value>) -> Map<String, Value> {
    doc.retain(|name, _| ENVELOPE.contains(&name.as_str()));
    doc
}

/// The question of a gate event; v1 payloads do not always have it.
fn interrupt(body: &RunEvent) -> Option<&str> {
    match body {
        RunEvent::ApprovalRequested { interrupt_id, .. }
        | RunEvent::ApprovalReceived { interrupt_id, .. }
        | RunEvent::ApprovalGranted { interrupt_id, .. }
        | RunEvent::ApprovalRejected { interrupt_id, .. }
        | RunEvent::ApprovalOverridden { interrupt_id, .. }
        | RunEvent::ClarificationRequested { interrupt_id, .. }
        | RunEvent::ClarificationResolved { interrupt_id, .. } => Some(interrupt_id.as_str()),
        _ => None,
    }
}

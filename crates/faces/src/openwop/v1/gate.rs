//! The payloads of gates: approvals and clarifications.

use kernel::run::event::ApprovalAction;
use kernel::run::{Event, InterruptKind, RunEvent};
use serde_json::{Value, json};

use super::fields::Fields;

/// The decider when an approval times out.
pub(crate) const BY_TIMEOUT: &str = "host:timeout";

/// The payload of an event of a gate, of the fields that are stored.
pub(super) fn gate(event: &Event, fields: Fields) -> Fields {
    match &event.body {
        RunEvent::ApprovalRequested { actions, .. } => {
            let actions: Vec<Value> = actions.iter().map(requested).collect();
            fields.with("actions", actions)
        }
        RunEvent::ApprovalReceived { decided_by, .. } => fields
            // Where the time ran out, the host decided.
            .with("decidedBy", decided_by.as_deref().unwrap_or(BY_TIMEOUT))
            .text("decidedAt", event.at),
        RunEvent::ApprovalGranted {
            granted, required, ..
        } => vote(fields).without(&["granted", "required"]).with(
            "quorumProgress",
            json!({ "granted": granted, "required": required }),
        ),
        RunEvent::ApprovalRejected { .. } | RunEvent::ApprovalOverridden { .. } => vote(fields),
        RunEvent::ApprovalAsked { .. } => fields.renamed("resolvedBy", "askedBy"),
        _ => fields,
    }
}

/// A vote, without the answer: `interrupt.resolved` has it once the gate is decided.
fn vote(fields: Fields) -> Fields {
    fields
        .without(&["interruptId", "visit", "resumeValue", "resolvedBy"])
        .renamed("nodeId", "gateId")
}

/// The decision at a governance gate: `granted` or `rejected`. Other answers have none.
pub(super) fn outcome(kind: InterruptKind, answer: &Value) -> Option<&'static str> {
    match answer.get("decision")?.as_str()? {
        "granted" | "overridden" if kind == InterruptKind::Approval => Some("granted"),
        "rejected" if kind == InterruptKind::Approval => Some("rejected"),
        _ => None,
    }
}

/// This event still has the older name of one action.
fn requested(action: &ApprovalAction) -> Value {
    match action {
        ApprovalAction::EditAccept => json!("edit"),
        other => json!(other),
    }
}

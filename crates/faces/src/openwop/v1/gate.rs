//! The payloads of gates: approvals and clarifications.

use kernel::run::event::ApprovalAction;
use kernel::run::{Event, RunEvent};
use serde_json::{Value, json};

use super::fields::Fields;

/// The decider when an approval times out.
pub(crate) const BY_TIMEOUT: &str = "host:timeout";

/// The payload of an event of a gate; empty for any other event.
pub(super) fn gate(event: &Event) -> Fields {
    match &event.body {
        RunEvent::ApprovalRequested {
            interrupt_id,
            node_id,
            visit,
            artifact_id,
            artifact_type,
            title,
            actions,
            approvers_list,
            required_approvals,
        } => {
            let actions: Vec<Value> = actions.iter().map(requested).collect();
            Fields::new()
                .text("nodeId", node_id)
                .text("interruptId", interrupt_id)
                .with("visit", visit)
                .with("artifactId", artifact_id)
                .with("artifactType", artifact_type)
                .with("title", title)
                .with("actions", actions)
                .filled("approversList", approvers_list)
                .with("requiredApprovals", required_approvals)
        }
        RunEvent::ApprovalReceived {
            interrupt_id,
            node_id,
            visit,
            action,
            decided_by,
            comment,
            feedback,
            refine_feedback,
            edited_artifact_data,
        } => Fields::new()
            .text("nodeId", node_id)
            .text("interruptId", interrupt_id)
            .with("visit", visit)
            .with("action", action)
            // At a timeout the log has no decider: the host decided.
            .with("decidedBy", decided_by.as_deref().unwrap_or(BY_TIMEOUT))
            .text("decidedAt", event.at)
            .maybe("comment", comment.as_ref())
            .maybe("feedback", feedback.as_ref())
            .maybe("refineFeedback", refine_feedback.as_ref())
            .maybe("editedArtifactData", edited_artifact_data.as_ref()),
        RunEvent::ApprovalGranted {
            interrupt_id: _,
            node_id,
            visit: _,
            principal,
            granted,
            required,
            // The answer is part of `interrupt.resolved` once the gate is decided.
            vote: _,
        } => Fields::new()
            .text("gateId", node_id)
            .with("principal", principal)
            .with(
                "quorumProgress",
                json!({ "granted": granted, "required": required }),
            ),
        RunEvent::ApprovalRejected {
            interrupt_id: _,
            node_id,
            visit: _,
            principal,
            reason,
            vote: _,
        } => Fields::new()
            .text("gateId", node_id)
            .with("principal", principal)
            .maybe("reason", reason.as_ref()),
        RunEvent::ApprovalOverridden {
            interrupt_id: _,
            node_id,
            visit: _,
            principal,
            reason,
            vote: _,
        } => Fields::new()
            .text("gateId", node_id)
            .with("principal", principal)
            .with("reason", reason),
        RunEvent::ApprovalAsked {
            interrupt_id,
            node_id,
            visit,
            vote,
        } => Fields::new()
            .text("nodeId", node_id)
            .text("interruptId", interrupt_id)
            .with("visit", visit)
            .maybe("resumeValue", vote.resume_value.as_ref())
            .maybe("askedBy", vote.resolved_by.as_ref()),
        RunEvent::ClarificationRequested {
            interrupt_id,
            node_id,
            visit,
            questions,
        } => Fields::new()
            .text("nodeId", node_id)
            .text("interruptId", interrupt_id)
            .with("visit", visit)
            .with("questions", questions),
        RunEvent::ClarificationResolved {
            interrupt_id,
            node_id,
            visit,
            answers,
            answered_by,
        } => Fields::new()
            .text("nodeId", node_id)
            .text("interruptId", interrupt_id)
            .with("visit", visit)
            .with("answers", answers)
            .maybe("answeredBy", answered_by.as_ref()),
        _ => Fields::new(),
    }
}

/// The outcome of a decision at a governance gate: `granted` or `rejected`. `None` for other
/// answers.
pub(super) fn outcome(kind: &str, answer: &Value) -> Option<&'static str> {
    match answer.get("decision")?.as_str()? {
        "granted" | "overridden" if kind == "approval" => Some("granted"),
        "rejected" if kind == "approval" => Some("rejected"),
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

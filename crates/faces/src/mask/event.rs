//! Masks events. The match names every kind, so that a new one does not compile without a decision
//! about its values.

use kernel::definition::Plan;
use kernel::run::RunEvent;
use kernel::run::event::{ApprovalAction, Ending, Vote};
use serde::Deserialize;
use serde_json::Value;

use super::{
    MASK, cover, hide_inputs, hide_outputs, hide_run_outputs, mask, node_of, question, shortened,
};

/// The kinds of a decision.
const KINDS_OF_DECISION: [&str; 3] = ["next-worker", "ask-user", "terminate"];

/// Masks the sensitive values of an event.
pub(super) fn hide(plan: &Plan, body: &mut RunEvent) {
    use RunEvent as E;
    match body {
        E::RunStarted {
            inputs, variables, ..
        } => {
            mask(inputs, |name| plan.hides_variable(name));
            mask(variables, |name| plan.hides_variable(name));
        }
        E::RunCompleted { outputs, .. } => hide_run_outputs(plan, outputs),
        E::RunFailed {
            error,
            failed_node_id: node,
            ..
        }
        | E::RunStopping {
            ending:
                Ending::Failed {
                    error,
                    node_id: node,
                },
        } => {
            if node.as_ref().is_some_and(|node| plan.hides_answers(node)) {
                *error = shortened(error);
            }
        }
        E::NodeStarted {
            node_id,
            inputs: Some(inputs),
            ..
        } => hide_inputs(plan, node_id, inputs),
        E::NodeCompleted {
            node_id, outputs, ..
        } => hide_outputs(plan, node_id, outputs),
        E::NodeFailed { node_id, error, .. }
        | E::NodeRetried {
            node_id,
            last_error: error,
            ..
        } => {
            // A gate's event contains the answer.
            if plan.hides_answers(node_id) {
                *error = shortened(error);
            }
        }
        E::NodeDispatched {
            node_id,
            child_workflow_id,
            inputs,
            ..
        } => {
            let hidden = plan.hidden_of_parent(node_id, child_workflow_id.as_str());
            mask(inputs, |name| {
                hidden.as_ref().is_none_or(|names| names.contains(name))
            });
        }
        E::ChildSettled {
            variables,
            outputs,
            error,
            ..
        } => {
            mask(variables, |name| plan.hides_of_child(name));
            if plan.hides_all() {
                mask(outputs, |_| true);
                *error = error.as_ref().map(shortened);
            }
        }
        E::AgentDecided {
            node_id, decision, ..
        }
        | E::OrchestratorDecided {
            node_id, decision, ..
        }
        | E::ConfidenceEscalated {
            node_id,
            original_decision: decision,
            ..
        } => {
            if plan.hides_decision(node_id) {
                hide_decision(decision);
            }
        }
        E::AgentHandedOff {
            node_id,
            reason: Some(reason),
            ..
        } => {
            if plan.hides_decision(node_id) {
                MASK.clone_into(reason);
            }
        }
        E::ChainStepped {
            node_id,
            error: Some(error),
            ..
        } => {
            if plan.hides_talk(node_id) {
                *error = shortened(error);
            }
        }
        E::InterruptRequested { node_id, data, .. } => {
            question::hide(plan, node_of(plan, node_id), data);
        }
        E::InterruptResolved {
            node_id,
            resume_value,
            ..
        } => {
            if plan.hides_answers(node_id) {
                hide_answer(resume_value);
            }
        }
        E::ApprovalRequested {
            node_id,
            artifact_id,
            artifact_type,
            title,
            ..
        } => {
            for (field, text) in [
                ("artifactId", artifact_id),
                ("artifactType", artifact_type),
                ("title", title),
            ] {
                if question::asks_hidden(plan, node_id, field) {
                    MASK.clone_into(text);
                }
            }
        }
        E::ApprovalReceived {
            node_id,
            comment,
            feedback,
            refine_feedback,
            edited_artifact_data,
            ..
        } => {
            if plan.hides_answers(node_id) {
                hide_texts([comment, feedback]);
                if let Some(Value::Object(fields)) = refine_feedback {
                    mask(fields, |name| name != "scope");
                }
                edited_artifact_data.iter_mut().for_each(cover);
            }
        }
        E::ApprovalGranted { node_id, vote, .. } | E::ApprovalAsked { node_id, vote, .. } => {
            if plan.hides_answers(node_id) {
                hide_vote(vote);
            }
        }
        E::ApprovalRejected {
            node_id,
            reason,
            vote,
            ..
        } => {
            if plan.hides_answers(node_id) {
                hide_texts([reason]);
                hide_vote(vote);
            }
        }
        E::ApprovalOverridden {
            node_id,
            reason,
            vote,
            ..
        } => {
            if plan.hides_answers(node_id) {
                MASK.clone_into(reason);
                hide_vote(vote);
            }
        }
        E::ClarificationRequested {
            node_id, questions, ..
        } => {
            if question::asks_hidden(plan, node_id, "questions") {
                questions.iter_mut().for_each(question::hide_text);
            }
        }
        E::ClarificationResolved {
            node_id, answers, ..
        } => {
            if plan.hides_answers(node_id) {
                mask(answers, |_| true);
            }
        }
        E::SignalReceived { payload, .. } => {
            if plan.hides_signals() {
                hide_answer(payload);
            }
        }
        E::ChannelWritten { channel, value, .. } => {
            if plan.hides_channel(channel) {
                cover(value);
            }
        }
        E::VariableChanged { name, next, .. } => {
            if plan.hides_variable(name) {
                cover(next);
            }
        }
        E::OutputChunk {
            node_id,
            chunk,
            meta,
            ..
        } => {
            if plan.hides_talk(node_id) {
                if !chunk.is_empty() {
                    MASK.clone_into(chunk);
                }
                if let Some(Value::Object(meta)) = meta {
                    // Amounts and their sources stay.
                    meta.retain(|name, _| {
                        matches!(name.as_str(), "finishReason" | "model" | "usage")
                    });
                }
            }
        }
        E::LogAppended {
            message,
            attempt: Some(attempt),
            ..
        } => {
            if plan.hides_talk(&attempt.node) {
                MASK.clone_into(message);
            }
        }
        E::ToolCalled(call) => {
            if plan.hides_talk(&call.node_id)
                && let Some(inputs) = &mut call.inputs
            {
                cover(inputs);
                // A hash of a short value can be guessed. A value that is too large for the log is
                // not short: only its hash is known.
                MASK.clone_into(&mut call.args_hash);
            }
        }
        E::ToolReturned(call) => {
            if plan.hides_talk(&call.node_id) {
                call.outcome.iter_mut().for_each(cover);
                call.error = call.error.as_ref().map(shortened);
            }
        }
        E::EnvelopeRetried(of) => {
            if plan.hides_talk(&of.node_id) {
                hide_texts([&mut of.previous_error]);
            }
        }
        E::PromptComposed(of) => {
            // Hashes of these are left out for the same reason.
            let node = node_of(plan, &of.node_id);
            of.variable_hashes
                .retain(|name, _| !node.is_some_and(|node| plan.hides_input(node, name)));
        }
        E::RunStopping {
            ending: Ending::Cancelled { .. },
        }
        | E::NodeStarted { inputs: None, .. }
        | E::AgentHandedOff { reason: None, .. }
        | E::ChainStepped { error: None, .. }
        | E::LogAppended { attempt: None, .. } => {}
        // Nothing but names, numbers, times and reasons of the engine or of the person who steers.
        E::RunCancelled { .. }
        | E::RunDraining { .. }
        | E::RunPaused { .. }
        | E::RunResumed { .. }
        | E::RunResuming { .. }
        | E::RunForked { .. }
        | E::RunDeadLettered { .. }
        | E::AttemptRestarted { .. }
        | E::NodeSkipped { .. }
        | E::NodeCancelled { .. }
        | E::NodeSuspended { .. }
        | E::NodeResumed { .. }
        | E::ChildReported { .. }
        | E::FannedOut { .. }
        | E::Joined { .. }
        | E::LoopbackLimited { .. }
        | E::ArtifactCreated { .. }
        | E::CapBreached { .. }
        | E::ProviderUsage { .. }
        | E::EnvelopeRefused(_)
        | E::EnvelopeTruncated(_)
        | E::EnvelopesExhausted(_)
        | E::EnvelopeRecovered(_)
        | E::EnvelopeCoerced(_)
        | E::BudgetReserved { .. }
        | E::BudgetSettled { .. }
        | E::BudgetAnnounced { .. }
        | E::BudgetThresholdCrossed { .. }
        | E::BudgetExhausted { .. }
        | E::ReplayDiverged { .. } => {}
    }
}

/// Masks an answer; the decision stays where it is a plain keyword.
fn hide_answer(answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                if !matches!(name.as_str(), "action" | "decision") || !decides(value) {
                    cover(value);
                }
            }
        }
        other => cover(other),
    }
}

/// Whether a value is one of the keywords that decide questions. Signals and the answers to
/// questions without a kind may have anything in its place.
fn decides(value: &Value) -> bool {
    let of_governance = ["granted", "rejected", "overridden"];
    let of_failure = ["retry", "skip", "abort"];
    let is_of = |words: [&str; 3]| words.iter().any(|word| value == word);
    ApprovalAction::deserialize(value).is_ok() || is_of(of_governance) || is_of(of_failure)
}

fn hide_vote(vote: &mut Vote) {
    vote.resume_value.iter_mut().for_each(hide_answer);
}

fn hide_texts<const N: usize>(texts: [&mut Option<String>; N]) {
    for text in texts.into_iter().flatten() {
        MASK.clone_into(text);
    }
}

/// Masks the text of a decision. Its outcome stays, if its value can only be that: a field of a
/// known name may hold anything.
fn hide_decision(decision: &mut Value) {
    let Value::Object(fields) = decision else {
        return cover(decision);
    };
    for (name, value) in fields {
        match (name.as_str(), &mut *value) {
            ("kind", Value::String(kind)) if KINDS_OF_DECISION.contains(&kind.as_str()) => {}
            ("confidence", Value::Number(sure))
                if sure
                    .as_f64()
                    .is_some_and(|sure| (0.0..=1.0).contains(&sure)) => {}
            // The named workflows are visible in their runs anyway.
            ("nextWorkerIds", Value::Array(workers)) => workers
                .iter_mut()
                .filter(|worker| !worker.as_str().is_some_and(is_workflow_id))
                .for_each(cover),
            ("successCriteria", Value::Array(criteria)) => {
                criteria.iter_mut().for_each(hide_criterion);
            }
            _ => cover(value),
        }
    }
}

/// Masks the name of a criterion; whether it is met stays.
fn hide_criterion(criterion: &mut Value) {
    match criterion {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name != "met" || !value.is_boolean() {
                    cover(value);
                }
            }
        }
        other => cover(other),
    }
}

/// Whether a text has the form of a workflow id.
fn is_workflow_id(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hidden_decision_shows_only_its_outcome() {
        let hides = |decision: Value, shown: Value| {
            let mut hidden = decision;
            hide_decision(&mut hidden);
            assert_eq!(hidden, shown);
        };
        let plain =
            json!({ "kind": "next-worker", "nextWorkerIds": ["stamps"], "confidence": 0.25 });
        hides(plain.clone(), plain);
        hides(
            json!({
                "kind": "terminate", "reason": "canary", "confidence": 1,
                "successCriteria": [{ "key": "canary", "met": true }, "canary"],
            }),
            json!({
                "kind": "terminate", "reason": MASK, "confidence": 1,
                "successCriteria": [{ "key": MASK, "met": true }, MASK],
            }),
        );
        hides(
            json!({
                "kind": "canary kind", "nextWorkerIds": ["Canary 4111", { "a": "canary" }, "stamps"],
                "confidence": 4111, "canary": 1,
            }),
            json!({
                "kind": MASK, "nextWorkerIds": [MASK, MASK, "stamps"],
                "confidence": MASK, "canary": MASK,
            }),
        );
        hides(
            json!({ "nextWorkerIds": "canary", "successCriteria": { "canary": true } }),
            json!({ "nextWorkerIds": MASK, "successCriteria": MASK }),
        );
        hides(json!("canary"), json!(MASK));
    }
}

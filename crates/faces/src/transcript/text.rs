//! The text of each kind of event.

use kernel::run::budget::{COST, shown};
use kernel::run::event::{CapKind, Ending, SkipReason};
use kernel::run::{Event, RunEvent};

use super::due;
use super::words::{
    amounts_text, artifact_text, by, count, failure, given, join, millis, names, retried, round,
    said, took, tried, usage_text, value, why, word,
};

/// The text in addition to kind and node.
pub(super) fn text(event: &Event) -> String {
    use RunEvent as E;
    match &event.body {
        E::RunStarted {
            workflow_id,
            inputs,
            transport,
            ..
        } => join([
            workflow_id.to_string(),
            by(Some(transport.as_str()).filter(|transport| !transport.is_empty())),
            given("inputs", inputs),
        ]),
        E::RunCompleted {
            outputs,
            duration_ms,
        } => join([took(*duration_ms), given("outputs", outputs)]),
        E::RunFailed {
            error, duration_ms, ..
        } => join([failure(error), took(*duration_ms)]),
        E::RunCancelled {
            reason,
            cancelled_by,
            parent_run_id,
            duration_ms,
        } => join([
            why(reason.as_deref()),
            by(cancelled_by.as_deref()),
            said("with parent", parent_run_id.as_ref()),
            took(*duration_ms),
        ]),
        E::RunStopping { ending } => match ending {
            Ending::Failed { error, .. } => format!("to fail: {}", failure(error)),
            Ending::Cancelled {
                reason, by: who, ..
            } => join([
                "to be cancelled".to_owned(),
                why(reason.as_deref()),
                by(who.as_deref()),
            ]),
        },
        E::RunDraining { reason } | E::RunResumed { reason } => why(reason.as_deref()),
        E::RunPaused {
            reason,
            drain_policy,
        } => join([word(drain_policy), why(reason.as_deref())]),
        E::RunResuming { from_status } => format!("was {from_status}"),
        E::RunForked {
            source_run_id,
            from_sequence,
            ..
        } => format!("from {source_run_id} at {from_sequence}"),
        E::RunDeadLettered {
            reason, attempts, ..
        } => format!("{reason} after {}", count(*attempts, "attempt")),
        E::NodeStarted {
            type_id,
            visit,
            attempt,
            due_at,
            timeout_at,
            ..
        } => join([
            tried(*visit, *attempt),
            type_id.clone(),
            said("due", due_at.map(|at| due(at, event.at))),
            said("times out", timeout_at.map(|at| due(at, event.at))),
        ]),
        E::AttemptRestarted {
            visit,
            attempt,
            restarts,
            ..
        } => join([tried(*visit, *attempt), format!("restart {restarts}")]),
        E::NodeCompleted {
            visit,
            attempt,
            outputs,
            port,
            declined_edges,
            duration_ms,
            ..
        } => join([
            retried(*visit, *attempt),
            took(*duration_ms),
            said("port", port.as_ref()),
            given("outputs", outputs),
            names("not followed", declined_edges),
        ]),
        E::NodeFailed {
            visit,
            error,
            attempts,
            declined_edges,
            ..
        } => join([
            round(*visit),
            failure(error),
            match attempts {
                0 => "before its first attempt".to_owned(),
                n => format!("after {}", count(*n, "attempt")),
            },
            names("not followed", declined_edges),
        ]),
        E::NodeRetried {
            visit,
            attempt,
            delay_ms,
            last_error,
            ..
        } => join([
            format!("{} in {}", tried(*visit, *attempt), millis(*delay_ms)),
            failure(last_error),
        ]),
        E::NodeSkipped { visit, reason, .. } => join([
            round(*visit),
            match reason {
                SkipReason::RuleNotMet => "its trigger rule cannot be met",
                SkipReason::Disabled => "it is disabled",
                SkipReason::OnFailure => "it failed and may be skipped",
            }
            .to_owned(),
        ]),
        E::NodeCancelled { visit, reason, .. } => join([round(*visit), reason.clone()]),
        E::NodeSuspended {
            visit,
            interrupt_id,
            kind,
            ..
        } => join([
            round(*visit),
            format!("waits for {kind}"),
            interrupt_id.to_string(),
        ]),
        E::NodeResumed {
            visit,
            interrupt_id,
            ..
        } => join([round(*visit), interrupt_id.to_string()]),
        E::NodeDispatched {
            visit,
            child_run_id,
            child_workflow_id,
            ..
        } => join([
            round(*visit),
            format!("{child_workflow_id} as {child_run_id}"),
        ]),
        E::ChildSettled {
            child_run_id,
            status,
            error,
            ..
        } => join([
            format!("{child_run_id} {}", word(status)),
            error.as_ref().map(failure).unwrap_or_default(),
        ]),
        E::InterruptRequested {
            interrupt_id,
            kind,
            data,
            timeout_at,
            ..
        } => join([
            kind.to_string(),
            data.get("title").map(value).unwrap_or_default(),
            interrupt_id.to_string(),
            said("expires", timeout_at.map(|at| due(at, event.at))),
        ]),
        E::InterruptResolved {
            kind,
            resume_value,
            resolved_by,
            ..
        } => join([
            kind.to_string(),
            value(resume_value),
            by(resolved_by.as_deref()),
        ]),
        E::ApprovalRequested {
            visit,
            title,
            actions,
            approvers_list,
            required_approvals,
            ..
        } => {
            let actions: Vec<_> = actions.iter().map(word).collect();
            join([
                round(*visit),
                title.clone(),
                names("may be answered", &actions),
                names("by", approvers_list),
                match required_approvals {
                    0 | 1 => String::new(),
                    n => format!("needs {n} approvals"),
                },
            ])
        }
        E::ApprovalReceived {
            visit,
            action,
            decided_by,
            comment,
            feedback,
            ..
        } => join([
            round(*visit),
            word(action),
            by(decided_by.as_deref()),
            why(comment.as_deref().or(feedback.as_deref())),
        ]),
        E::ApprovalGranted {
            visit,
            principal,
            granted,
            required,
            ..
        } => join([
            round(*visit),
            by(Some(principal)),
            format!("{granted} of {required}"),
        ]),
        E::ApprovalRejected {
            visit,
            principal,
            reason,
            ..
        } => join([round(*visit), by(Some(principal)), why(reason.as_deref())]),
        E::ApprovalOverridden {
            visit,
            principal,
            reason,
            ..
        } => join([round(*visit), by(Some(principal)), why(Some(reason))]),
        E::ApprovalAsked { visit, vote, .. } => join([
            round(*visit),
            vote.resume_value.as_ref().map(value).unwrap_or_default(),
            by(vote.resolved_by.as_deref()),
        ]),
        E::ClarificationRequested {
            visit, questions, ..
        } => {
            let asked: Vec<_> = questions
                .iter()
                .filter_map(|question| Some(question.get("question")?.as_str()?.to_owned()))
                .collect();
            join([round(*visit), names("asks", &asked)])
        }
        E::ClarificationResolved {
            visit,
            answers,
            answered_by,
            ..
        } => join([
            round(*visit),
            given("answers to", answers),
            by(answered_by.as_deref()),
        ]),
        E::SignalReceived { name, id, .. } => join([name.clone(), format!("id {id}")]),
        E::ChannelWritten {
            channel,
            value: written,
            reducer,
            ..
        } => format!("{channel} {} {}", reducer.as_str(), value(written)),
        E::VariableChanged { name, next, .. } => format!("{name} = {}", value(next)),
        E::ArtifactCreated { artifact, .. } => artifact_text(artifact),
        E::OutputChunk {
            channel,
            chunk,
            is_last,
            ..
        } => join([
            format!("{}: {chunk}", word(channel)),
            if *is_last { "(end)" } else { "" }.to_owned(),
        ]),
        E::LogAppended { level, message, .. } => format!("{level}: {message}"),
        E::CapBreached {
            kind,
            limit,
            observed,
            ..
        } => match kind {
            CapKind::BudgetCost => {
                let usd = |amount| shown(COST, amount);
                format!(
                    "{} {} of at most {}",
                    word(kind),
                    usd(*observed),
                    usd(*limit)
                )
            }
            _ => format!("{} {observed} of at most {limit}", word(kind)),
        },
        E::ProviderUsage { usage, .. } => usage_text(usage),
        E::ToolCalled(call) => call.tool_name.clone(),
        E::ToolReturned(call) => join([
            call.tool_name.clone(),
            word(&call.status),
            call.error.as_ref().map(failure).unwrap_or_default(),
            call.duration_ms.map(took).unwrap_or_default(),
        ]),
        E::EnvelopeRefused(of) => join([of.model.clone(), why(of.safety_category.as_deref())]),
        E::EnvelopeTruncated(of) => of.model.clone(),
        E::EnvelopeRetried(of) => join([format!("asked {} times", of.asked), word(&of.reason)]),
        E::EnvelopeRecovered(of) => word(&of.path),
        E::EnvelopeCoerced(of) => of.envelope.clone(),
        E::PromptComposed(of) => of.refs.join(", "),
        E::EnvelopesExhausted(of) => join([format!("asked {} times", of.asked), word(&of.reason)]),
        E::BudgetReserved { amounts, .. } => amounts_text(amounts),
        E::BudgetSettled { spent, .. } => amounts_text(spent),
        E::BudgetAnnounced { limits, .. } => amounts_text(limits),
        E::BudgetThresholdCrossed {
            dimension,
            consumed,
            limit,
            ..
        }
        | E::BudgetExhausted {
            dimension,
            consumed,
            limit,
        } => format!(
            "{} of {}",
            shown(dimension, *consumed),
            shown(dimension, *limit)
        ),
        E::ReplayDiverged {
            source_run_id,
            at_sequence,
            divergence_kind,
            ..
        } => format!(
            "from {source_run_id} at {at_sequence}: {}",
            word(divergence_kind)
        ),
        body => super::agents::text(body),
    }
}

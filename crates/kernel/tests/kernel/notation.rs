//! Events as one line each, short enough to read a log at a glance.
//!
//! `node.started a@2/1` is visit 2, attempt 1 of node `a`; zeros and the vendor prefix are omitted.

use kernel::run::event::{ChildStatus, DrainPolicy, Ending, SkipReason};
use kernel::run::{Event, RunEvent};
use serde_json::Value;

/// One line per event.
pub(crate) fn lines(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| line(&event.body)).collect()
}

/// Statements separated by `;` or line ends.
pub(crate) fn statements(text: &str) -> Vec<String> {
    text.split([';', '\n'])
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect()
}

fn line(event: &RunEvent) -> String {
    let tag = tag(event);
    let tag = tag.strip_prefix("runwright.").unwrap_or(&tag).to_owned();
    let rest = details(event);
    if rest.is_empty() {
        tag
    } else {
        format!("{tag} {rest}")
    }
}

/// The stored type of an event.
pub(crate) fn tag(event: &RunEvent) -> String {
    let value = serde_json::to_value(event).expect("an event is JSON");
    value["type"].as_str().expect("a type").to_owned()
}

fn details(event: &RunEvent) -> String {
    match event {
        RunEvent::RunStarted { .. }
        | RunEvent::RunCompleted { .. }
        | RunEvent::RunCancelled { .. }
        | RunEvent::RunDraining { .. }
        | RunEvent::RunResumed { .. } => String::new(),
        RunEvent::RunFailed { error, .. } => error.code.clone(),
        RunEvent::RunStopping { ending } => match ending {
            Ending::Failed { error, .. } => error.code.clone(),
            Ending::Cancelled { .. } => "cancelled".into(),
        },
        RunEvent::RunPaused { drain_policy, .. } => match drain_policy {
            DrainPolicy::Immediate => "immediate".into(),
            DrainPolicy::DrainCurrentNode => "drained".into(),
        },
        RunEvent::RunResuming { from_status } => from_status.clone(),
        RunEvent::RunForked { from_sequence, .. } => from_sequence.to_string(),
        RunEvent::RunDeadLettered {
            node_id, attempts, ..
        } => format!("{node_id} x{attempts}"),
        RunEvent::NodeStarted {
            node_id,
            visit,
            attempt,
            ..
        } => at(node_id.as_str(), *visit, *attempt),
        RunEvent::AttemptRestarted {
            node_id,
            visit,
            attempt,
            restarts,
        } => format!("{} #{restarts}", at(node_id.as_str(), *visit, *attempt)),
        RunEvent::NodeCompleted {
            node_id,
            visit,
            attempt,
            port,
            ..
        } => {
            let port = port.as_ref().map(|port| format!(" -> {port}"));
            at(node_id.as_str(), *visit, *attempt) + &port.unwrap_or_default()
        }
        RunEvent::NodeFailed {
            node_id,
            visit,
            error,
            ..
        } => format!("{} {}", at(node_id.as_str(), *visit, 0), error.code),
        RunEvent::NodeRetried {
            node_id,
            visit,
            attempt,
            delay_ms,
            last_error,
        } => format!(
            "{} +{delay_ms}ms {}",
            at(node_id.as_str(), *visit, *attempt),
            last_error.code
        ),
        RunEvent::NodeSkipped {
            node_id,
            visit,
            reason,
        } => {
            let node = at(node_id.as_str(), *visit, 0);
            match reason {
                SkipReason::RuleNotMet => node,
                SkipReason::Disabled => node + " disabled",
                SkipReason::OnFailure => node + " on_failure",
            }
        }
        RunEvent::NodeCancelled { node_id, visit, .. }
        | RunEvent::NodeSuspended { node_id, visit, .. }
        | RunEvent::NodeResumed { node_id, visit, .. }
        | RunEvent::NodeDispatched { node_id, visit, .. }
        | RunEvent::InterruptRequested { node_id, visit, .. } => at(node_id.as_str(), *visit, 0),
        RunEvent::ApprovalRequested { node_id, visit, .. }
        | RunEvent::ApprovalAsked { node_id, visit, .. }
        | RunEvent::ClarificationRequested { node_id, visit, .. } => {
            at(node_id.as_str(), *visit, 0)
        }
        RunEvent::ApprovalReceived {
            node_id,
            visit,
            action,
            ..
        } => format!("{} {}", at(node_id.as_str(), *visit, 0), json_word(action)),
        RunEvent::ApprovalGranted {
            node_id,
            visit,
            principal,
            granted,
            required,
            ..
        } => format!(
            "{} {principal} {granted}/{required}",
            at(node_id.as_str(), *visit, 0)
        ),
        RunEvent::ApprovalRejected {
            node_id,
            visit,
            principal,
            ..
        }
        | RunEvent::ApprovalOverridden {
            node_id,
            visit,
            principal,
            ..
        } => format!("{} {principal}", at(node_id.as_str(), *visit, 0)),
        RunEvent::ClarificationResolved {
            node_id,
            visit,
            answers,
            ..
        } => format!(
            "{} {}",
            at(node_id.as_str(), *visit, 0),
            Value::Object(answers.clone())
        ),
        RunEvent::InterruptResolved {
            node_id,
            resume_value,
            ..
        } => format!("{node_id} = {resume_value}"),
        RunEvent::ChildSettled { status, .. } => match status {
            ChildStatus::Completed => "completed".into(),
            ChildStatus::Failed => "failed".into(),
            ChildStatus::Cancelled => "cancelled".into(),
        },
        RunEvent::ChildReported { status, .. } => status.clone().unwrap_or_default(),
        RunEvent::FannedOut {
            node_id,
            visit,
            child_count,
            max_concurrency,
            join_mode,
        } => format!(
            "{} {child_count} by {max_concurrency} {join_mode}",
            at(node_id.as_str(), *visit, 0)
        ),
        RunEvent::Joined {
            node_id,
            visit,
            join_outcome,
            completed_count,
            failed_count,
            cancelled_count,
            ..
        } => format!(
            "{} {} {completed_count}/{failed_count}/{cancelled_count}",
            at(node_id.as_str(), *visit, 0),
            json_word(join_outcome)
        ),
        RunEvent::AgentDecided {
            node_id,
            visit,
            confidence,
            ..
        } => format!(
            "{} {}",
            at(node_id.as_str(), *visit, 0),
            confidence.unwrap_or_default()
        ),
        RunEvent::AgentHandedOff {
            from_agent_id,
            to_agent_id,
            ..
        } => format!("{from_agent_id} -> {to_agent_id}"),
        RunEvent::OrchestratorDecided {
            node_id,
            visit,
            decision,
            ..
        } => format!(
            "{} {}",
            at(node_id.as_str(), *visit, 0),
            decision["kind"].as_str().unwrap_or_default()
        ),
        RunEvent::ChainStepped {
            node_id,
            visit,
            phase,
            worker_id,
            ..
        } => format!(
            "{} {} {worker_id}",
            at(node_id.as_str(), *visit, 0),
            json_word(phase)
        ),
        RunEvent::ConfidenceEscalated {
            node_id,
            visit,
            confidence,
            floor,
            ..
        } => format!("{} {confidence} < {floor}", at(node_id.as_str(), *visit, 0)),
        RunEvent::LoopbackLimited {
            node_id,
            iterations,
            ..
        } => format!("{node_id} {iterations}"),
        RunEvent::SignalReceived { name, id, .. } => format!("{name} {id}"),
        RunEvent::ChannelWritten { channel, value, .. } => format!("{channel} = {value}"),
        RunEvent::VariableChanged { name, next, .. } => format!("{name} = {next}"),
        RunEvent::ArtifactCreated { node_id, artifact } => {
            format!("{node_id} {}", artifact.artifact_type)
        }
        RunEvent::OutputChunk {
            node_id,
            chunk,
            restart,
            ..
        } => {
            let again = if *restart > 0 {
                format!(" again x{restart}")
            } else {
                String::new()
            };
            format!("{node_id} {}{again}", Value::from(chunk.as_str()))
        }
        RunEvent::ToolCalled(call) => format!("{} {}", call.node_id, call.call_id),
        RunEvent::ToolReturned(call) => format!("{} {}", call.node_id, call.call_id),
        RunEvent::EnvelopeRefused(of) => of.node_id.to_string(),
        RunEvent::EnvelopeTruncated(of) => of.node_id.to_string(),
        RunEvent::EnvelopeRetried(of) => of.node_id.to_string(),
        RunEvent::EnvelopesExhausted(of) => of.node_id.to_string(),
        RunEvent::EnvelopeRecovered(of) => of.node_id.to_string(),
        RunEvent::EnvelopeCoerced(of) => of.node_id.to_string(),
        RunEvent::PromptComposed(of) => of.node_id.to_string(),
        RunEvent::LogAppended { level, message, .. } => format!("{level} {message}"),
        RunEvent::CapBreached {
            limit, observed, ..
        } => format!("{limit} < {observed}"),
        RunEvent::ProviderUsage { node_id, .. } => node_id.to_string(),
        RunEvent::BudgetReserved { attempt, amounts } => {
            format!(
                "{} {}",
                at(attempt.node.as_str(), attempt.visit, attempt.attempt),
                amount(amounts)
            )
        }
        RunEvent::BudgetSettled { attempt, spent } => {
            format!(
                "{} {}",
                at(attempt.node.as_str(), attempt.visit, attempt.attempt),
                amount(spent)
            )
        }
        RunEvent::BudgetAnnounced { limits, scope } => format!("{scope} {}", amount(limits)),
        RunEvent::BudgetThresholdCrossed {
            dimension,
            consumed,
            limit,
            percent,
        } => format!("{dimension} {consumed}/{limit} {percent}%"),
        RunEvent::BudgetExhausted {
            dimension,
            consumed,
            limit,
        } => format!("{dimension} {consumed}/{limit}"),
        RunEvent::ReplayDiverged {
            at_sequence,
            divergence_kind,
            ..
        } => format!("{at_sequence} {}", json_word(divergence_kind)),
    }
}

fn at(node: &str, visit: u32, attempt: u32) -> String {
    let mut text = node.to_owned();
    if visit > 0 {
        text += &format!("@{visit}");
    }
    if attempt > 0 {
        text += &format!("/{attempt}");
    }
    text
}

fn amount(amounts: &std::collections::BTreeMap<String, u64>) -> String {
    let of = |(dimension, n): (&String, &u64)| format!("{dimension}:{n}");
    amounts.iter().map(of).collect::<Vec<_>>().join(",")
}

fn json_word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).expect("JSON");
    value.as_str().expect("a word").to_owned()
}

//! Messages of events for viewers.

use kernel::coordinator::awaited_queue;
use kernel::run::budget::{self, COST};
use kernel::run::event::{CapKind, Ending, LogLevel, SkipReason};
use kernel::run::{NodeError, RunEvent};
use serde_json::{Map, Value};

use super::runs_view::{RunsView, name};
use crate::follow::RunUpdate;
use crate::lookup::short;
use crate::questions;
use crate::{style, talk, text};

/// The longest error in the live display; the final message has it in full.
const ERROR_WIDTH: usize = 160;

/// A mark before a message.
enum Mark {
    Go,
    Done,
    Failed,
    Again,
    Skipped,
    Ask,
}

impl Mark {
    fn show(&self) -> String {
        let symbol = talk::has_symbols();
        let pick = |sign: &'static str, word: &'static str| if symbol { sign } else { word };
        match self {
            Self::Go => style::busy(pick("▶", ">")),
            Self::Done => style::good(pick("✓", "+")),
            Self::Failed => style::bad(pick("✗", "x")),
            Self::Again => style::warn(pick("↻", "~")),
            Self::Skipped => style::dim(pick("○", "-")),
            Self::Ask => style::warn("?"),
        }
    }
}

/// The message of an event for a viewer; `None` for minor ones.
pub(crate) fn sentence(runs_view: &dyn RunsView, news: &RunUpdate) -> Option<String> {
    use RunEvent as E;
    let name = |node: &str| style::strong(name(runs_view, news.of, node));
    let (mark, sentence) = match &news.event.body {
        E::NodeStarted {
            node_id, attempt, ..
        } => {
            let again = match attempt {
                0 => String::new(),
                n => format!(", attempt {}", n + 1),
            };
            (
                Mark::Go,
                format!("{} started{again}", name(node_id.as_str())),
            )
        }
        E::AttemptRestarted {
            node_id, restarts, ..
        } => {
            let times = match restarts {
                0 | 1 => String::new(),
                n => format!(" (restart {n})"),
            };
            (
                Mark::Again,
                format!(
                    "{} starts again: it was in flight when its engine ended{times}",
                    name(node_id.as_str())
                ),
            )
        }
        E::NodeCompleted {
            node_id,
            duration_ms,
            port,
            outputs,
            ..
        } if failed_round(outputs).is_none() => {
            let port = match port {
                Some(port) => format!(", port {}", text::one_line(port, 40)),
                None => String::new(),
            };
            let took = style::dim(format!("in {}", text::ms(*duration_ms)));
            (
                Mark::Done,
                format!("{} completed {took}{port}", name(node_id.as_str())),
            )
        }
        E::NodeCompleted {
            node_id, outputs, ..
        } => {
            let error = failed_round(outputs).unwrap_or_default();
            let error = text::one_line(error, ERROR_WIDTH);
            let text = format!(
                "{} failed; its loop continues: {error}",
                name(node_id.as_str())
            );
            (Mark::Again, text)
        }
        E::NodeFailed { node_id, error, .. } => (
            Mark::Failed,
            format!("{} failed: {}", name(node_id.as_str()), shown(error)),
        ),
        E::NodeRetried {
            node_id,
            attempt,
            delay_ms,
            last_error,
            ..
        } => {
            let text = format!(
                "{} failed and will be retried in {} (attempt {}): {}",
                name(node_id.as_str()),
                text::ms(*delay_ms),
                attempt + 1,
                shown(last_error),
            );
            (Mark::Again, text)
        }
        E::NodeSkipped {
            node_id, reason, ..
        } => {
            let why = match reason {
                SkipReason::RuleNotMet => "its condition was not met",
                SkipReason::Disabled => "it is disabled",
                SkipReason::OnFailure => "it failed and may be skipped",
            };
            (
                Mark::Skipped,
                format!("{} skipped: {why}", name(node_id.as_str())),
            )
        }
        E::NodeCancelled { node_id, .. } => {
            (Mark::Skipped, format!("{} stopped", name(node_id.as_str())))
        }
        E::NodeDispatched {
            node_id,
            child_run_id,
            child_workflow_id,
            ..
        } => {
            let child = short(child_run_id);
            (
                Mark::Go,
                format!(
                    "{} runs {child_workflow_id} as {child}",
                    name(node_id.as_str())
                ),
            )
        }
        E::InterruptRequested { node_id, data, .. } if data.get("reason").is_some() => {
            let error = data["error"]["message"].as_str().unwrap_or_default();
            let text = format!(
                "{} failed: {}; retry, skip or abort?",
                name(node_id.as_str()),
                text::one_line(error, ERROR_WIDTH)
            );
            (Mark::Failed, text)
        }
        E::InterruptRequested { node_id, data, .. } if awaited_queue(data).is_some() => {
            let queue = awaited_queue(data).unwrap_or_default();
            let node = name(node_id.as_str());
            let text = format!("{node} waits for a worker of the queue {queue}");
            (Mark::Ask, text)
        }
        E::InterruptRequested {
            node_id,
            kind,
            data,
            ..
        } => {
            let how = questions::how(
                short(runs_view.id(news.of)),
                node_id.as_str(),
                kind.as_str(),
                data,
            );
            let text = format!(
                "{} waits for {kind}; answer with {how}",
                name(node_id.as_str())
            );
            (Mark::Ask, text)
        }
        E::InterruptResolved { node_id, .. } => (
            Mark::Done,
            format!("{} has been answered", name(node_id.as_str())),
        ),
        E::RunResuming { .. } => (
            Mark::Again,
            "taken over from an engine that has ended".to_owned(),
        ),
        E::RunPaused { reason, .. } => (Mark::Ask, format!("paused{}", why(reason.as_deref()))),
        E::RunDraining { reason } => (
            Mark::Ask,
            format!(
                "pauses when its running nodes have ended{}",
                why(reason.as_deref())
            ),
        ),
        E::RunResumed { .. } => (Mark::Go, "continues after a pause".to_owned()),
        E::RunStopping {
            ending: Ending::Failed { .. },
        } => (
            Mark::Failed,
            "fails; its running nodes are stopped".to_owned(),
        ),
        E::RunStopping {
            ending: Ending::Cancelled { reason, .. },
        } => (
            Mark::Skipped,
            format!("is being cancelled{}", why(reason.as_deref())),
        ),
        E::CapBreached {
            kind,
            limit,
            observed,
            ..
        } => {
            let amount = |n: u64| match kind {
                CapKind::BudgetCost => budget::shown(COST, n),
                _ => n.to_string(),
            };
            let (observed, limit) = (amount(*observed), amount(*limit));
            (
                Mark::Failed,
                format!("reached a limit: {observed} requested, {limit} allowed"),
            )
        }
        E::LogAppended { level, message, .. } if *level >= LogLevel::Warn => {
            (Mark::Ask, text::one_line(message, ERROR_WIDTH))
        }
        E::SignalReceived { name, .. } => (
            Mark::Go,
            format!("received the signal {}", text::one_line(name, 80)),
        ),
        _ => return None,
    };
    Some(format!("{} {sentence}", mark.show()))
}

/// The error of the first node of a session's loop, in a round that others follow.
fn failed_round(outputs: &Map<String, Value>) -> Option<&str> {
    outputs.get("exit_code")?;
    outputs.get("error")?.as_str()
}

fn shown(error: &NodeError) -> String {
    text::one_line(&error.message, ERROR_WIDTH)
}

fn why(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(": {}", text::one_line(reason, ERROR_WIDTH)))
        .unwrap_or_default()
}

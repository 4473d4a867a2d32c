//! Legal predecessors of each event of the run as a whole.

use std::collections::{BTreeMap, BTreeSet};

use super::Log;
use super::nodes::{Place, WaitsFor};
use super::rules::Judgement;
use crate::coordinator::WORKER_NODE;
use crate::definition::{NodeIx, Reducer};
use crate::ids::Seq;
use crate::limits;
use crate::run::event::{CapKind, ChainPhase, DrainPolicy, Ending};
use crate::run::{CausedBy, Event, Report, RunEvent};
use crate::time::Timestamp;

/// The run so far.
#[derive(Debug, Default)]
pub(super) struct RunSoFar {
    stage: Stage,
    at: Timestamp,
    pub(super) executions: u64,
    /// Ids of all interrupts ever requested.
    pub(super) interrupts: BTreeSet<String>,
    /// Child runs.
    pub(super) children: BTreeMap<String, Child>,
    /// The orchestrator and its decisions so far.
    pub(super) orchestrator: Option<String>,
    pub(super) decisions: u64,
    /// The event of the last decision.
    pub(super) decided_at: Option<Seq>,
    /// An unhandled failure: the run must end.
    pub(super) unhandled: Option<String>,
    /// A limit was reached: the run must end.
    pub(super) breached: bool,
    reserved: BTreeMap<String, BTreeMap<String, u64>>,
    spent: BTreeMap<String, u64>,
    /// Ids of tool calls that were made.
    tool_calls: BTreeSet<String>,
    batch_at: Timestamp,
}

/// A child run.
#[derive(Debug)]
pub(super) struct Child {
    /// The node that started it.
    pub(super) node: NodeIx,
    pub(super) settled: bool,
    /// The length of its log at its latest report.
    reported: Option<Seq>,
}

impl Child {
    pub(super) fn new(node: NodeIx) -> Self {
        Self {
            node,
            settled: false,
            reported: None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Unborn,
    Running,
    Draining,
    Paused,
    Stopping(Ending),
    Settled,
}

impl RunSoFar {
    pub(super) fn may_start(&self) -> bool {
        self.stage == Stage::Running && self.unhandled.is_none() && !self.breached
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.stage, Stage::Stopping(_))
    }
}

impl Log<'_> {
    /// Only an attempt in flight reports.
    fn reports(&mut self, body: &RunEvent) {
        if let Some(report) = Report::from_event(body) {
            self.require_live(&report.attempt());
        }
    }

    /// Checks one event.
    pub(super) fn event(&mut self, index: usize, event: &Event) {
        self.seq = event.seq;
        self.envelope(index, event);
        match &event.body {
            RunEvent::RunStarted { .. } => {
                self.require(index == 0, || "run.started must be first and once".into());
                self.run.stage = Stage::Running;
            }
            RunEvent::RunCompleted { .. } => self.completes(),
            RunEvent::RunFailed { error, .. } => {
                let expected = match &self.run.stage {
                    Stage::Stopping(Ending::Failed { error, .. }) => Some(error.code.clone()),
                    Stage::Stopping(Ending::Cancelled { .. }) => Some(String::new()),
                    _ => self.run.unhandled.clone(),
                };
                self.require(expected.is_none_or(|code| code == error.code), || {
                    format!("the run fails as {}, which is not why it ends", error.code)
                });
                self.ends();
            }
            RunEvent::RunCancelled { .. } => {
                let fits = !matches!(self.run.stage, Stage::Stopping(Ending::Failed { .. }));
                self.require(fits, || "the run is cancelled while it fails".into());
                let waits = self.has_running_children();
                self.require(!waits, || "the run is cancelled before its children".into());
                self.ends();
            }
            RunEvent::RunStopping { ending } => {
                self.require(!self.run.is_stopping(), || "the run stops twice".into());
                let cancels = matches!(ending, Ending::Cancelled { .. });
                let waits = cancels && self.has_running_children();
                self.require(self.live_work() > 0 || waits, || {
                    "the run stops without anything to stop".into()
                });
                self.run.unhandled = None;
                self.run.stage = Stage::Stopping(ending.clone());
            }
            RunEvent::RunDraining { .. } => {
                self.require(self.run.stage == Stage::Running, || {
                    "only a running run drains".into()
                });
                self.run.stage = Stage::Draining;
            }
            RunEvent::RunPaused { drain_policy, .. } => self.pauses(*drain_policy),
            RunEvent::RunResumed { .. } => {
                let drains = self.run.stage == Stage::Draining;
                self.require(drains || self.run.stage == Stage::Paused, || {
                    "only a run that is paused, or about to be, is resumed".into()
                });
                self.run.stage = Stage::Running;
            }
            RunEvent::RunResuming { .. } => {
                self.require(self.live_work() > 0, || {
                    "a take-over without attempts in flight changes nothing".into()
                });
            }
            RunEvent::RunForked { .. } => self.forks(),
            RunEvent::CapBreached {
                kind,
                limit,
                observed,
                ..
            } => self.breaches(*kind, *limit, *observed),
            RunEvent::ChildSettled { child_run_id, .. } => {
                let child = self.run.children.get_mut(child_run_id.as_str());
                let fits = child.is_some_and(|child| !std::mem::replace(&mut child.settled, true));
                self.require(fits, || "a child settles that does not run".into());
                self.run.reserved.remove(child_run_id.as_str());
            }
            RunEvent::ChildReported {
                child_run_id,
                child_sequence,
                ..
            } => {
                let child = self.run.children.get_mut(child_run_id.as_str());
                let fits = child.is_some_and(|child| {
                    let before = child.reported.replace(*child_sequence);
                    !child.settled && before.is_none_or(|before| before < *child_sequence)
                });
                self.require(fits, || "a child reports late, or does not run".into());
            }
            RunEvent::SignalReceived { name, id, .. } => {
                let fresh = self.signals.insert((name.clone(), id.clone()));
                self.require(fresh, || "a signal is received twice".into());
            }
            RunEvent::ChannelWritten {
                channel, reducer, ..
            } => {
                let declared = self.plan.channels.get(channel);
                let expected = declared.map_or(&Reducer::Replace, |channel| &channel.reducer);
                self.require(reducer == expected, || {
                    "a channel is written by another reducer than it has".into()
                });
            }
            RunEvent::LogAppended {
                attempt: Some(attempt),
                ..
            } => self.require_live(attempt),
            RunEvent::ToolCalled(call) => {
                self.reports(&event.body);
                let fresh = self.run.tool_calls.insert(call.call_id.clone());
                self.require(fresh, || "a tool call is made twice".into());
            }
            RunEvent::ToolReturned(call) => {
                self.reports(&event.body);
                let made = self.run.tool_calls.contains(&call.call_id);
                self.require(made, || "a tool returns that was not called".into());
            }
            RunEvent::EnvelopeRefused(_)
            | RunEvent::EnvelopeTruncated(_)
            | RunEvent::EnvelopeRetried(_)
            | RunEvent::EnvelopeRecovered(_)
            | RunEvent::EnvelopeCoerced(_)
            | RunEvent::PromptComposed(_)
            | RunEvent::EnvelopesExhausted(_) => self.reports(&event.body),
            RunEvent::BudgetReserved { attempt, amounts } => {
                self.require_live(attempt);
                self.reserves(&attempt.to_string(), amounts);
            }
            RunEvent::BudgetSettled { attempt, spent } => {
                self.require_live(attempt);
                self.run.reserved.remove(&attempt.to_string());
                add(&mut self.run.spent, spent);
            }
            RunEvent::BudgetAnnounced { limits, .. } => {
                let of_run = self.plan.limits_of_runs(&self.header.policy.budget);
                self.require(event.seq == 1 && *limits == of_run, || {
                    "a budget is named that the run does not have, or too late".into()
                });
            }
            RunEvent::BudgetThresholdCrossed {
                dimension, limit, ..
            }
            | RunEvent::BudgetExhausted {
                dimension, limit, ..
            } => {
                let limits = self.plan.limits_of_runs(&self.header.policy.budget);
                self.require(limits.get(dimension) == Some(limit), || {
                    format!("the run has no such limit of {dimension}")
                });
            }
            body => {
                self.node_event(body);
                if let RunEvent::NodeDispatched {
                    child_run_id,
                    budget,
                    ..
                } = body
                {
                    self.reserves(child_run_id.as_str(), budget);
                }
            }
        }
        if let RunEvent::ChildSettled { spent, .. } = &event.body {
            add(&mut self.run.spent, spent);
        }
    }

    /// Sequence, time and cause.
    fn envelope(&mut self, index: usize, event: &Event) {
        self.require(event.seq == index as u64, || {
            format!("the sequence should be {index}")
        });
        self.require(self.run.stage != Stage::Settled, || {
            "an event follows the end of the run".into()
        });
        if index == 0 {
            let first = matches!(event.body, RunEvent::RunStarted { .. });
            self.require(first, || "a run must start with run.started".into());
        } else {
            let at = self.run.at;
            self.require(event.at >= at, || "time runs backwards".into());
        }
        self.run.at = event.at;
        match &event.cause {
            None => {
                self.require(index > 0, || "a batch must start with its cause".into());
                let at = self.run.batch_at;
                self.require(event.at == at, || {
                    "the events of a batch must have one time".into()
                });
            }
            Some(cause) => {
                self.run.batch_at = event.at;
                self.require(begins(&cause.command, &event.body), || {
                    "an event that its cause does not lead to first".into()
                });
                if let Some(message) = &cause.message {
                    let fresh = self.messages.insert(message.to_string());
                    self.require(fresh, || "a message is taken twice".into());
                }
            }
        }
    }

    fn completes(&mut self) {
        let fits =
            self.run.stage == Stage::Running && self.run.unhandled.is_none() && !self.run.breached;
        self.require(fits, || {
            "a run completes only while it runs and nothing failed unhandled".into()
        });
        let waiting = (0..self.nodes.len() as u32).map(NodeIx).find(|ix| {
            match &self.nodes[ix.index()].place {
                Place::Before => self.judge(*ix) != Judgement::Open,
                Place::Ended(ended) => ended.is_in_body() && self.is_round_over(*ix),
                Place::Attempt { .. } | Place::Between { .. } => true,
            }
        });
        if let Some(ix) = waiting {
            let id = &self.plan.node(ix).id;
            self.violation(format!("the run completes but {id} has not ended"));
        }
        self.run.stage = Stage::Settled;
    }

    /// The run failed or was cancelled.
    fn ends(&mut self) {
        let open = self.open_nodes();
        self.require(open == 0, || {
            format!("the run ends but {open} nodes are under way")
        });
        self.run.stage = Stage::Settled;
    }

    fn pauses(&mut self, policy: DrainPolicy) {
        let may = matches!(self.run.stage, Stage::Running | Stage::Draining);
        self.require(may, || "only a running run pauses".into());
        match policy {
            DrainPolicy::Immediate => {
                self.abandon(|_, waits_for| matches!(waits_for, WaitsFor::Work | WaitsFor::Time))
            }
            DrainPolicy::DrainCurrentNode => {
                let live = self.unfinished();
                self.require(live == 0, || {
                    format!("the run is drained but {live} attempts are in flight")
                });
            }
        }
        self.run.stage = Stage::Paused;
    }

    /// Whether children are running that end with this run.
    fn has_running_children(&self) -> bool {
        self.run.children.values().any(|child| {
            let config = &self.plan.node(child.node).config;
            let stays =
                config.get("propagateCancellation") == Some(&serde_json::Value::Bool(false));
            !child.settled && !stays
        })
    }

    fn forks(&mut self) {
        let is_fork = self.header.origin.is_some();
        self.require(is_fork, || "only a fork can be parked as a fork".into());
        // A fork requests its own work from workers, regardless of its source's.
        self.abandon(|node, waits_for| {
            let is_asked = matches!(waits_for, WaitsFor::Answer(_)) && !waits_for.is_answered();
            node.type_id == WORKER_NODE || !is_asked
        });
        self.run.children.retain(|_, child| child.settled);
        self.run.reserved.clear();
    }

    fn breaches(&mut self, kind: CapKind, limit: u64, observed: u64) {
        self.require(observed > limit, || {
            "a limit is reported as exceeded, but it was not exceeded".into()
        });
        if kind == CapKind::NodeExecutions {
            let executions = self.run.executions;
            self.require(executions == limit, || {
                format!("{executions} nodes were started when the bound of {limit} was breached")
            });
        }
        // Some caps end the run.
        self.run.breached |= kind.ends_the_run();
    }

    fn reserves(&mut self, holder: &str, amounts: &BTreeMap<String, u64>) {
        add(
            self.run.reserved.entry(holder.to_owned()).or_default(),
            amounts,
        );
        let of_run = &self.header.policy.budget;
        let limits = self.plan.limits_of_runs(of_run);
        for (dimension, limit) in &limits {
            let of = |amounts: &BTreeMap<String, u64>| amounts.get(dimension).copied().unwrap_or(0);
            let held: u64 = self.run.reserved.values().map(of).sum();
            let committed = held.saturating_add(of(&self.run.spent));
            if of(amounts) > 0 {
                self.require(committed <= *limit, || {
                    format!("{committed} {dimension} are committed, allowed are {limit}")
                });
            }
        }
    }

    /// Limits that apply at every start.
    pub(super) fn check_executions(&mut self) {
        let limit = self.header.policy.max_node_executions.unwrap_or(u64::MAX);
        let limit = limit.min(limits::MAX_NODE_EXECUTIONS);
        let executions = self.run.executions;
        self.require(executions <= limit, || {
            format!("{executions} nodes were started, allowed are {limit}")
        });
    }
}

fn add(to: &mut BTreeMap<String, u64>, amounts: &BTreeMap<String, u64>) {
    for (dimension, amount) in amounts {
        let sum = to.entry(dimension.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

/// Whether a batch with this cause may begin with this event.
fn begins(cause: &CausedBy, event: &RunEvent) -> bool {
    match cause {
        CausedBy::Create { .. } => matches!(event, RunEvent::RunStarted { .. }),
        CausedBy::TakeOver { .. } => matches!(event, RunEvent::RunResuming { .. }),
        CausedBy::Output => matches!(event, RunEvent::OutputChunk { .. }),
        CausedBy::Log => matches!(event, RunEvent::LogAppended { .. }),
        CausedBy::Report => Report::from_event(event).is_some(),
        CausedBy::Reserve => matches!(event, RunEvent::BudgetReserved { .. }),
        CausedBy::Pause { .. } => matches!(
            event,
            RunEvent::RunDraining { .. }
                | RunEvent::RunPaused { .. }
                | RunEvent::BudgetSettled { .. }
        ),
        CausedBy::Resume { .. } => matches!(event, RunEvent::RunResumed { .. }),
        CausedBy::Resolve { .. } => match event {
            RunEvent::InterruptResolved { .. } => true,
            // An answer that leaves its gate open is an event of its own.
            RunEvent::ApprovalGranted { vote, .. }
            | RunEvent::ApprovalRejected { vote, .. }
            | RunEvent::ApprovalOverridden { vote, .. }
            | RunEvent::ApprovalAsked { vote, .. } => vote.resume_value.is_some(),
            _ => false,
        },
        CausedBy::Signal => matches!(event, RunEvent::SignalReceived { .. }),
        CausedBy::ChildSettled => matches!(event, RunEvent::ChildSettled { .. }),
        CausedBy::ChildReported => matches!(event, RunEvent::ChildReported { .. }),
        CausedBy::Fork => matches!(event, RunEvent::RunForked { .. }),
        CausedBy::Diverge => matches!(event, RunEvent::ReplayDiverged { .. }),
        CausedBy::Cancel { .. } => matches!(
            event,
            RunEvent::NodeCancelled { .. }
                | RunEvent::ChainStepped {
                    phase: ChainPhase::ChildCancelled,
                    ..
                }
                | RunEvent::RunStopping { .. }
                | RunEvent::RunCancelled { .. }
        ),
        CausedBy::FailReplay => matches!(
            event,
            RunEvent::NodeCancelled { .. }
                | RunEvent::ChainStepped {
                    phase: ChainPhase::ChildCancelled,
                    ..
                }
                | RunEvent::RunFailed { .. }
        ),
        CausedBy::Dispatch { .. } => matches!(
            event,
            RunEvent::NodeDispatched { .. }
                | RunEvent::ChainStepped {
                    phase: ChainPhase::DispatchFailed,
                    ..
                }
                | RunEvent::CapBreached { .. }
                | RunEvent::BudgetThresholdCrossed { .. }
                | RunEvent::BudgetExhausted { .. }
                | RunEvent::NodeFailed { .. }
                | RunEvent::NodeRetried { .. }
        ),
        CausedBy::Advance | CausedBy::Finish { .. } | CausedBy::Fire { .. } => {
            !matches!(event, RunEvent::RunStarted { .. })
        }
    }
}

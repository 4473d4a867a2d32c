//! The state of a run: the fold of its log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::decision::WORKER_INPUTS;
use crate::control::dispatch::Dispatch;
use crate::control::sub_workflow::SubWorkflow;
use crate::definition::{ControlKind, NodeIx, NodeKind, Plan};
use crate::digest::Digest;
use crate::ids::{AttemptId, InterruptId, MessageId, NodeId, Seq, StreamId, WorkflowId};
use crate::run::budget::{Budget, BudgetPolicy};
use crate::run::event::{
    ApprovalAction, Artifact, ChildStatus, Ending, NodeError, SkipReason, Usage,
};
use crate::run::fan::Fan;
use crate::run::{InterruptKind, RunStatus};
use crate::stream::{ForkMode, StreamHeader};
use crate::time::Timestamp;

/// A run as folded from its log, with the objects that the log refers to.
#[derive(Clone, Debug)]
pub struct Run {
    /// The stream's header.
    pub header: Arc<StreamHeader>,
    /// The definition it runs.
    pub plan: Arc<Plan>,
    /// The end of the log.
    pub head: Head,
    /// The folded state.
    pub state: RunState,
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// How many events it holds.
    pub next_seq: Seq,
    /// The last link of its hash chain.
    pub chain: Digest,
    /// The last timestamp; later events are never earlier.
    pub at: Timestamp,
}

/// The state of a run by phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RunState {
    /// The log is empty.
    Unborn,
    /// The run is active.
    Active {
        /// Its phase.
        phase: Phase,
        /// Everything else.
        facts: Box<Facts>,
    },
    /// The run has ended: no event will be appended.
    Settled {
        /// How it ended.
        end: End,
        /// When.
        at: Timestamp,
        /// Everything else.
        facts: Box<Facts>,
    },
}

/// The phase of an active run. Waiting is not a phase: a running run with nothing in flight is
/// parked on its timers, interrupts and children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Phase {
    /// Created, not yet driven.
    Pending,
    /// Nodes start as they become ready.
    Running,
    /// Nodes in flight finish, none starts; then it pauses.
    Draining {
        /// The reason.
        reason: Option<String>,
    },
    /// Nothing starts until it is resumed.
    Paused {
        /// The reason.
        reason: Option<String>,
        /// Since when.
        at: Timestamp,
    },
    /// It must end; attempts in flight are being stopped.
    Stopping {
        /// How it will end.
        ending: Ending,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum End {
    /// Every node settled and none failed unhandled.
    Completed {
        /// Its outputs.
        outputs: Map<String, Value>,
    },
    /// It failed.
    Failed {
        /// The error.
        error: NodeError,
        /// The node it came from.
        node: Option<NodeId>,
    },
    /// It was cancelled.
    Cancelled {
        /// The reason.
        reason: Option<String>,
    },
}

/// The data of a run in any phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// When `run.started` was written.
    pub started_at: Timestamp,
    /// The engine that created it.
    pub engine_version: u32,
    /// The face that received the request.
    pub transport: String,
    /// The request that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Inputs as given; always an object.
    pub inputs: Value,
    /// The current variables; always an object.
    pub variables: Value,
    /// The current channels, after reduction; always an object.
    pub channels: Value,
    /// Tags.
    pub tags: Vec<String>,
    /// Metadata.
    pub metadata: Map<String, Value>,
    /// Overlay of settings.
    pub configurable: Map<String, Value>,
    /// One per node of the plan, in its order.
    pub nodes: Vec<NodeRun>,
    /// Positions of nodes that are neither idle nor settled.
    pub active: BTreeSet<u32>,
    /// `node.started` events so far.
    pub executions: u64,
    /// Interrupts that wait for an answer, oldest first.
    pub interrupts: Vec<OpenInterrupt>,
    /// Interrupts that are closed, and why.
    pub closed_interrupts: BTreeMap<InterruptId, Closed>,
    /// Events from outside that answered an interrupt, by their sender's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub taken_events: BTreeMap<InterruptId, String>,
    /// The latest interrupt of each node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last_asked: BTreeMap<NodeId, InterruptId>,
    /// Number of questions with each key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked_keys: BTreeMap<String, u32>,
    /// Signals that no node has asked for yet, and the ids of all received ones.
    pub inbox: Inbox,
    /// Child runs, by id.
    pub children: BTreeMap<StreamId, Child>,
    /// Named timers and their due times.
    pub timers: BTreeMap<String, Timestamp>,
    /// Working time of the run, if it is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Budget counters.
    pub budget: Budget,
    /// Total usage of model calls.
    pub usage: Option<UsageTotal>,
    /// Artifacts, in the order of creation.
    pub artifacts: Vec<(NodeId, Artifact)>,
    /// Received outbox messages.
    pub seen: BTreeSet<MessageId>,
    /// How often a new holder took the run over with attempts in flight.
    pub takeovers: u32,
    /// The source of the run's latest branch.
    pub forked_from: Option<StreamId>,
    /// The agent that has the work: pinned to the node that started last, or reached by a hand-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Value>,
    /// The agent of the first supervisor; it never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator: Option<Value>,
    /// The orchestrator's latest decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// Decisions of the orchestrator so far.
    #[serde(default, skip_serializing_if = "none_yet")]
    pub decisions: u64,
    /// The sequence of the latest decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Seq>,
}

/// Working time of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Milliseconds of completed work.
    pub done_ms: u64,
    /// Since when it works; `None` while it waits.
    pub since: Option<Timestamp>,
}

/// A node in its current visit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRun {
    /// Number of earlier visits.
    pub visit: u32,
    /// Number of started attempts of this visit.
    pub attempts: u32,
    /// Attempts of this visit that failed and were followed by another.
    pub retries: u32,
    /// When the visit's first attempt started.
    pub started_at: Option<Timestamp>,
    /// When the visit settled.
    pub settled_at: Option<Timestamp>,
    /// Number of questions of its current attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u32,
    /// The resolved values of its ports, while it is active.
    pub inputs: Option<Map<String, Value>>,
    /// Its current worker, by its place in the decision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub worker: u32,
    /// The sequence of the last step of each worker of this visit, by its place in the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<(u32, Seq)>,
    /// A held decision that a person is asked about; it is carried out if they confirm it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The index of the round before, for a loop's head that was entered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
    /// Its status.
    pub status: NodeStatus,
}

impl NodeRun {
    /// The sequence of the last step of a worker of this visit.
    pub fn last_step(&self, worker: u32) -> Option<Seq> {
        let of_it = self.steps.iter().find(|(of, _)| *of == worker);
        of_it.map(|(_, seq)| *seq)
    }

    /// Sets the sequence of the last step of a worker of this visit.
    pub(super) fn stepped(&mut self, worker: u32, seq: Seq) {
        match self.steps.iter_mut().find(|(of, _)| *of == worker) {
            Some((_, last)) => *last = seq,
            None => self.steps.push((worker, seq)),
        }
    }
}

/// A decision below the floor of confidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The decision.
    pub decision: Value,
    /// Its confidence.
    pub confidence: f64,
    /// The required confidence.
    pub floor: f64,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn none_yet(n: &u64) -> bool {
    *n == 0
}

/// The status of a node in its current visit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum NodeStatus {
    /// Not reached.
    #[default]
    Idle,
    /// An attempt is in flight: its start is durable, its outcome is not.
    InFlight {
        /// The attempt.
        attempt: u32,
        /// How often it was restarted after its holder was lost.
        restarts: u32,
    },
    /// It waits for a delay to pass.
    Delayed {
        /// The attempt.
        attempt: u32,
    },
    /// It waits for a child run.
    Dispatched {
        /// The attempt.
        attempt: u32,
        /// The child.
        child: StreamId,
    },
    /// It waits for several concurrent child runs.
    FannedOut {
        /// The attempt.
        attempt: u32,
        /// Their progress.
        fan: Box<Fan>,
    },
    /// It waits for an answer.
    Suspended {
        /// The attempt.
        attempt: u32,
        /// The interrupt.
        interrupt: InterruptId,
    },
    /// It waits before the next attempt.
    Backoff {
        /// The attempt to come.
        attempt: u32,
        /// Why the last one failed.
        last_error: NodeError,
    },
    /// The wait is over, or a pause abandoned it: the next attempt may start.
    Ready {
        /// The attempt to come.
        attempt: u32,
    },
    /// It completed.
    Completed {
        /// Its outputs; always an object.
        outputs: Value,
        /// The chosen port.
        port: Option<String>,
        /// Positions of edges that are not followed.
        declined: Vec<u32>,
    },
    /// It failed.
    Failed {
        /// The last error.
        error: NodeError,
        /// Positions of edges that are not followed.
        declined: Vec<u32>,
    },
    /// It will not run in this visit.
    Skipped {
        /// The reason.
        reason: SkipReason,
    },
    /// It was stopped because the run ends.
    Cancelled,
}

impl NodeStatus {
    /// Whether this visit has ended.
    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Completed { .. } | Self::Failed { .. } | Self::Skipped { .. } | Self::Cancelled
        )
    }

    /// The name in snapshots.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Idle => "pending",
            Self::InFlight { .. }
            | Self::Delayed { .. }
            | Self::Dispatched { .. }
            | Self::FannedOut { .. } => "running",
            Self::Suspended { .. } => "suspended",
            Self::Backoff { .. } | Self::Ready { .. } => "retrying",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Skipped { .. } => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An interrupt that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenInterrupt {
    /// Its id.
    pub id: InterruptId,
    /// The node that asks, by position.
    pub node: u32,
    /// Its kind.
    pub kind: InterruptKind,
    /// The key a signal resolves it by.
    pub key: String,
    /// How often the run had asked with this key before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_before: u32,
    /// The data of the question.
    pub data: Value,
    /// The schema of an answer.
    pub resume_schema: Option<Value>,
    /// When it was requested.
    pub requested_at: Timestamp,
    /// When it expires.
    pub timeout_at: Option<Timestamp>,
    /// Whether the event of its kind was written (`approval.requested` and the like).
    pub announced: bool,
    /// Votes so far, where several people decide.
    pub votes: Vec<Ballot>,
}

impl OpenInterrupt {
    /// Whether it asks about a failure because the host lacks something that its operator can
    /// provide.
    pub fn is_for_want(&self) -> bool {
        self.data["error"]["hostLacks"] == true
    }
}

/// A vote at a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ballot {
    /// The voter.
    pub by: String,
    /// The vote.
    pub action: ApprovalAction,
    /// The voter's version of the artifact.
    pub edited: Option<Value>,
}

/// Why an interrupt is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Closed {
    /// It was answered.
    Answered,
    /// Its time to answer has passed.
    Expired,
    /// Its node stopped waiting, or the run ended.
    Withdrawn,
}

/// Signals that arrived before their question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inbox {
    /// Waiting signals by name, oldest first.
    pub waiting: BTreeMap<String, Vec<Signal>>,
    /// (name, id) of every received signal.
    pub seen: BTreeSet<(String, String)>,
}

/// A signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The sender's id of it.
    pub id: String,
    /// Its content.
    pub payload: Value,
}

/// A child run as known to its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// The node that started it, by position.
    pub node: u32,
    /// The visit that started it.
    pub visit: u32,
    /// Its workflow.
    pub workflow: WorkflowId,
    /// How it ended; `None` while it runs.
    pub status: Option<ChildStatus>,
    /// The place of a worker in the decision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub worker: u32,
    /// The status it waits in, as reported, and the length of its log at that report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<(Option<String>, Seq)>,
}

impl Child {
    /// The status it waits in.
    pub fn waits(&self) -> Option<&str> {
        match (&self.status, &self.reported) {
            (None, Some((status, _))) => status.as_deref(),
            _ => None,
        }
    }
}

/// Usage of all model calls of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageTotal {
    /// Sum of estimated cost.
    pub usd: Option<f64>,
    /// Sum of input tokens.
    pub input_tokens: u64,
    /// Sum of output tokens.
    pub output_tokens: u64,
    /// Sum of durations.
    pub duration_ms: u64,
    /// The last call's provider.
    pub provider: String,
    /// The last call's model.
    pub model: String,
}

impl UsageTotal {
    pub(crate) fn add(total: &mut Option<Self>, usage: &Usage) {
        let total = total.get_or_insert_with(|| Self {
            usd: None,
            input_tokens: 0,
            output_tokens: 0,
            duration_ms: 0,
            provider: String::new(),
            model: String::new(),
        });
        if let Some(cost) = usage.cost_estimate_usd {
            total.usd = Some((total.usd.unwrap_or(0.0) + cost).clamp(f64::MIN, f64::MAX));
        }
        let add = |sum: &mut u64, n: u64| *sum = sum.saturating_add(n);
        add(&mut total.input_tokens, usage.input_tokens);
        add(&mut total.output_tokens, usage.output_tokens);
        add(&mut total.duration_ms, usage.duration_ms.unwrap_or(0));
        total.provider.clone_from(&usage.provider);
        total.model.clone_from(&usage.model);
    }
}

/// An attempt that the holder must be running now.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveAttempt<'a> {
    /// The node's position.
    pub node: NodeIx,
    /// The attempt.
    pub id: AttemptId,
    /// How often it was restarted.
    pub restarts: u32,
    /// The resolved values of its ports.
    pub inputs: &'a Map<String, Value>,
    /// When it must have ended.
    pub timeout_at: Option<Timestamp>,
}

impl Run {
    /// A run before its first event.
    pub fn unborn(header: Arc<StreamHeader>, plan: Arc<Plan>) -> Self {
        let head = Head {
            next_seq: 0,
            chain: header.genesis,
            // The copied events of a fork are older than the fork.
            at: match header.origin {
                None => header.created_at,
                Some(_) => Timestamp(i64::MIN),
            },
        };
        Self {
            header,
            plan,
            head,
            state: RunState::Unborn,
        }
    }

    /// The facts, once there are any.
    pub fn facts(&self) -> Option<&Facts> {
        match &self.state {
            RunState::Unborn => None,
            RunState::Active { facts, .. } | RunState::Settled { facts, .. } => Some(facts),
        }
    }

    /// The phase, while active.
    pub fn phase(&self) -> Option<&Phase> {
        match &self.state {
            RunState::Active { phase, .. } => Some(phase),
            RunState::Unborn | RunState::Settled { .. } => None,
        }
    }

    /// The end, if it has ended.
    pub fn end(&self) -> Option<&End> {
        match &self.state {
            RunState::Settled { end, .. } => Some(end),
            RunState::Unborn | RunState::Active { .. } => None,
        }
    }

    /// Whether the run has ended: no event will be appended.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, RunState::Settled { .. })
    }

    /// Whether this is a replay: it repeats its source's records.
    pub fn is_replay(&self) -> bool {
        let origin = self.header.origin.as_ref();
        origin.is_some_and(|origin| origin.mode == ForkMode::Replay)
    }

    /// Whether this is a branch whose copied beginning does not yet end in `RunForked`. It is not
    /// driven, and only its fork may be decided on it.
    pub fn is_copying(&self) -> bool {
        let Some(origin) = &self.header.origin else {
            return false;
        };
        let forked_from = self.facts().and_then(|facts| facts.forked_from.as_ref());
        origin.mode == ForkMode::Branch && origin.seq > 0 && forked_from != Some(&origin.source)
    }

    /// The version of a newer engine that has decided on it, if one has: its rules are unknown
    /// here.
    pub fn newer_engine(&self) -> Option<u32> {
        let told = self.facts().map(|facts| facts.engine_version);
        let wrote = self.header.engine_version.max(told);
        wrote.filter(|wrote| wrote > crate::ENGINE_VERSIONS.end())
    }

    /// Whether this is an unfinished fork: a branch that is still copied, or a replay that has not
    /// ended.
    pub fn is_forking(&self) -> bool {
        self.is_copying() || (self.is_replay() && !self.is_settled())
    }

    /// The status of the run.
    pub fn status(&self) -> RunStatus {
        if self.is_copying() {
            return RunStatus::Pending;
        }
        match &self.state {
            RunState::Unborn => RunStatus::Pending,
            RunState::Settled { end, .. } => match end {
                End::Completed { .. } => RunStatus::Completed,
                End::Failed { .. } => RunStatus::Failed,
                End::Cancelled { .. } => RunStatus::Cancelled,
            },
            RunState::Active { phase, facts } => match phase {
                Phase::Pending => RunStatus::Pending,
                Phase::Draining { .. } => RunStatus::Running,
                Phase::Paused { .. } => RunStatus::Paused,
                Phase::Stopping {
                    ending: Ending::Cancelled { .. },
                } => RunStatus::Cancelling,
                Phase::Stopping {
                    ending: Ending::Failed { .. },
                } => RunStatus::Running,
                Phase::Running if self.has_live_work() => RunStatus::Running,
                Phase::Running => match facts.interrupts.first() {
                    Some(open) => RunStatus::for_interrupt(open.kind),
                    None => self.awaited_status(facts).unwrap_or(RunStatus::Running),
                },
            },
        }
    }

    /// The status of the awaited child, while the child itself waits.
    fn awaited_status(&self, facts: &Facts) -> Option<RunStatus> {
        let waits = |child: &StreamId| {
            let status = RunStatus::parse(facts.children.get(child)?.waits()?);
            status.filter(|status| status.is_waiting())
        };
        facts.active.iter().find_map(|ix| {
            match &facts.nodes[*ix as usize].status {
                NodeStatus::Dispatched { child, .. } => waits(child),
                // As long as one of them works, the node does.
                NodeStatus::FannedOut { fan, .. } if fan.pending.is_none() => {
                    let all: Option<Vec<_>> = fan.running.keys().map(waits).collect();
                    all?.first().copied()
                }
                _ => None,
            }
        })
    }

    /// Running children that end with this run, unless it completes.
    pub(crate) fn children_to_stop(&self) -> Vec<StreamId> {
        let Some(facts) = self.facts().filter(|_| !self.is_settled()) else {
            return Vec::new();
        };
        let stays = |node: u32| {
            let config = &self.plan.node(NodeIx(node)).config;
            !SubWorkflow::from_config(config).propagates_cancellation
        };
        let children = facts.children.iter();
        let running = children.filter(|(_, child)| child.status.is_none() && !stays(child.node));
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a question's deadline has passed although its log does not show it yet, because the
    /// timer has not fired. A paused run has no such timer until it is resumed.
    pub fn is_past_deadline(&self, open: &OpenInterrupt, now: Timestamp) -> bool {
        open.timeout_at.is_some_and(|deadline| deadline <= now)
    }

    /// Children whose end comes after that of this run, whose log is closed and cannot record it.
    pub fn untold_children(&self) -> Vec<StreamId> {
        let facts = self.facts().filter(|_| self.is_settled());
        let children = facts.into_iter().flat_map(|facts| &facts.children);
        let untold = children.filter(|(_, child)| child.status.is_none());
        untold.map(|(id, _)| id.clone()).collect()
    }

    /// Sets the status of such a child from its own log. Only for showing the run: afterwards the
    /// state is not the fold of its log alone.
    pub fn tell_of_child(&mut self, child: &StreamId, status: &str) {
        let RunState::Settled { facts, .. } = &mut self.state else {
            return;
        };
        if let Some(known) = facts.children.get_mut(child) {
            match ChildStatus::parse(status) {
                Some(end) => known.status = Some(end),
                None => known.reported = Some((Some(status.to_owned()), 0)),
            }
        }
    }

    /// The workflow that a node wants to run as a child now, if it names one.
    pub fn wanted_child(&self, ix: NodeIx) -> Option<String> {
        let node = self.plan.node(ix);
        match node.kind {
            NodeKind::Control(ControlKind::Dispatch) => {
                let state = &self.facts()?.nodes[ix.index()];
                let decision = state.inputs.as_ref()?.get("decision")?;
                let workers = decision.get("nextWorkerIds")?;
                Some(workers.get(state.worker as usize)?.as_str()?.to_owned())
            }
            _ => SubWorkflow::from_config(&node.config).workflow_id,
        }
    }

    /// The current inputs for such a child.
    pub fn child_inputs(&self, ix: NodeIx) -> Map<String, Value> {
        let config = &self.plan.node(ix).config;
        let child = match self.wanted_child(ix) {
            Some(worker) if self.plan.node(ix).kind == NodeKind::Control(ControlKind::Dispatch) => {
                Dispatch(config).worker(&worker)
            }
            _ => SubWorkflow::from_config(config),
        };
        let Some(facts) = self.facts() else {
            return Map::new();
        };
        let mut inputs = child.child_inputs(&facts.variables);
        inputs.extend(
            self.brought_for_child(facts, ix)
                .cloned()
                .unwrap_or_default(),
        );
        inputs
    }

    /// The decision's inputs for the current worker of a dispatch node. They override the mapped
    /// inputs for all workers of that workflow.
    fn brought_for_child<'a>(
        &self,
        facts: &'a Facts,
        ix: NodeIx,
    ) -> Option<&'a Map<String, Value>> {
        let is_dispatch = self.plan.node(ix).kind == NodeKind::Control(ControlKind::Dispatch);
        if !is_dispatch {
            return None;
        }
        let state = &facts.nodes[ix.index()];
        let brought = state.inputs.as_ref()?.get("decision")?.get(WORKER_INPUTS)?;
        brought.get(state.worker as usize)?.as_object()
    }

    /// Attempts of work nodes whose start is durable and whose outcome is not: the holder must be
    /// running exactly these. While the run is stopping they must be stopped.
    pub fn live_attempts(&self) -> impl Iterator<Item = LiveAttempt<'_>> {
        self.in_flight(|kind| kind == NodeKind::Work)
    }

    /// Started nodes whose child's definition has to be looked up.
    pub fn undispatched(&self) -> impl Iterator<Item = LiveAttempt<'_>> {
        self.in_flight(|kind| kind != NodeKind::Work)
    }

    /// Whether a node that starts a child waits for a part of the budget that attempts have
    /// reserved: its child may use what they return.
    pub fn waits_for_budget(&self, ix: NodeIx) -> bool {
        let Some(facts) = self.facts() else {
            return false;
        };
        let budget = &facts.budget;
        let config = self.plan.node(ix).config.get("budget");
        let wanted = BudgetPolicy::of_stored(config).limits;
        let is_child = |holder: &str| facts.children.keys().any(|child| child.as_str() == holder);
        budget.limits.iter().any(|(dimension, limit)| {
            let wanted = wanted.get(dimension).copied().unwrap_or(1);
            let held = budget.reserved.iter();
            let held = held.filter(|(holder, _)| !is_child(holder));
            let held: u64 = held.filter_map(|(_, amounts)| amounts.get(dimension)).sum();
            let committed = budget.committed(dimension);
            held > 0
                && committed.saturating_add(wanted) > *limit
                && (committed - held.min(committed)).saturating_add(wanted) <= *limit
        })
    }

    fn in_flight(&self, of: impl Fn(NodeKind) -> bool) -> impl Iterator<Item = LiveAttempt<'_>> {
        let facts = match &self.state {
            RunState::Active { facts, .. } => Some(facts),
            RunState::Unborn | RunState::Settled { .. } => None,
        };
        facts
            .into_iter()
            .flat_map(move |facts| facts.active.iter().map(move |&ix| (facts, NodeIx(ix))))
            .filter_map(move |(facts, ix)| {
                let node = self.plan.node(ix);
                let run = &facts.nodes[ix.index()];
                let (attempt, restarts) = match &run.status {
                    NodeStatus::InFlight { attempt, restarts } => (*attempt, *restarts),
                    NodeStatus::FannedOut { attempt, fan } if fan.pending.is_some() => {
                        (*attempt, 0)
                    }
                    _ => return None,
                };
                let inputs = run.inputs.as_ref()?;
                of(node.kind).then(|| LiveAttempt {
                    node: ix,
                    id: AttemptId {
                        node: node.id.clone(),
                        visit: run.visit,
                        attempt,
                    },
                    restarts,
                    inputs,
                    timeout_at: facts.timers.get(&timer::timeout(&node.id)).copied(),
                })
            })
    }

    /// Whether any attempt of a work node is in flight.
    pub fn has_live_work(&self) -> bool {
        self.live_attempts().next().is_some()
    }

    /// Whether a node is at work that a drained pause lets finish: an attempt in flight, or a
    /// delay. Waits for outside events may be endless and do not delay a pause.
    pub fn has_unfinished_nodes(&self) -> bool {
        let is_delayed = |facts: &Facts| {
            let active = facts.active.iter();
            let mut statuses = active.map(|ix| &facts.nodes[*ix as usize].status);
            statuses.any(|status| matches!(status, NodeStatus::Delayed { .. }))
        };
        self.has_live_work() || self.facts().is_some_and(is_delayed)
    }

    /// The latest interrupt of a node, and why it is closed, if it is.
    pub fn last_question(&self, node: &NodeId) -> Option<(&InterruptId, Option<Closed>)> {
        let facts = self.facts()?;
        let id = facts.last_asked.get(node)?;
        Some((id, facts.closed_interrupts.get(id).copied()))
    }

    /// Timers that count in the run's phase: a paused run keeps only its own timeout, and a
    /// stopping run none, so that no due timer would be rejected.
    pub fn timers(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let active = match &self.state {
            RunState::Active { phase, facts } if !self.is_copying() => Some((phase, facts)),
            _ => None,
        };
        active.into_iter().flat_map(|(phase, facts)| {
            let counts = move |name: &str| match phase {
                Phase::Pending | Phase::Running => true,
                Phase::Draining { .. } => !name.starts_with("retry/"),
                Phase::Paused { .. } => name == timer::RUN,
                Phase::Stopping { .. } => false,
            };
            facts
                .timers
                .iter()
                .filter(move |(name, _)| counts(name))
                .map(|(name, due)| (name.as_str(), *due))
        })
    }

    /// The earliest timer.
    pub fn next_timer(&self) -> Option<(&str, Timestamp)> {
        self.timers().min_by_key(|(_, due)| *due)
    }

    /// The node of the oldest open interrupt.
    pub fn current_node(&self) -> Option<&NodeId> {
        let open = self.facts()?.interrupts.first()?;
        Some(&self.plan.node(NodeIx(open.node)).id)
    }
}

/// Names of timers. One per node and purpose is enough: a node has one visit at a time.
pub mod timer {
    use crate::ids::{InterruptId, NodeId};

    /// The end of a delay.
    pub fn delay(node: &NodeId) -> String {
        format!("delay/{node}")
    }

    /// Whether a timer is the end of a delay.
    pub fn is_delay(name: &str) -> bool {
        name.starts_with("delay/")
    }

    /// An attempt's timeout.
    pub fn timeout(node: &NodeId) -> String {
        format!("timeout/{node}")
    }

    /// The end of a wait between attempts.
    pub fn retry(node: &NodeId) -> String {
        format!("retry/{node}")
    }

    /// An interrupt's expiry.
    pub fn interrupt(id: &InterruptId) -> String {
        format!("interrupt/{id}")
    }

    /// The run's timeout.
    pub const RUN: &str = "run-timeout";

    /// The end of the run's working time.
    pub const WORK: &str = "work-timeout";
}

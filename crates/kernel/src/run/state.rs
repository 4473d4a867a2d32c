//! The state of a run: what a fold of its log says.

use crate::run::RunStatus;
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
use crate::stream::{ForkMode, StreamHeader};
use crate::time::Timestamp;

/// A run as its log tells it, with what the log refers to.
#[derive(Clone, Debug)]
pub struct Run {
    /// The stream's header.
    pub header: Arc<StreamHeader>,
    /// The definition it runs.
    pub plan: Arc<Plan>,
    /// Where the log ends.
    pub head: Head,
    /// What its events say.
    pub state: RunState,
}

/// Where a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// How many events it holds.
    pub next_seq: Seq,
    /// The last link of its hash chain.
    pub chain: Digest,
    /// The last timestamp; none is ever earlier.
    pub at: Timestamp,
}

/// The state of a run by phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RunState {
    /// Nothing was appended yet.
    Unborn,
    /// Something may still happen.
    Active {
        /// Which part of its life.
        phase: Phase,
        /// Everything else.
        facts: Box<Facts>,
    },
    /// Nothing will be appended any more.
    Settled {
        /// How it ended.
        end: End,
        /// When.
        at: Timestamp,
        /// Everything else.
        facts: Box<Facts>,
    },
}

/// The part of its life an active run is in. Waiting is not a phase: a running run with nothing
/// in flight is parked on its timers, interrupts and children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Phase {
    /// Created, not yet driven.
    Pending,
    /// Nodes start as they become ready.
    Running,
    /// What is in flight may end; nothing starts; then it pauses.
    Draining {
        /// Why.
        reason: Option<String>,
    },
    /// Nothing starts until it is resumed.
    Paused {
        /// Why.
        reason: Option<String>,
        /// Since when.
        at: Timestamp,
    },
    /// It must end; what is in flight is being stopped.
    Stopping {
        /// As what it ends.
        ending: Ending,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum End {
    /// Every node settled and none failed unhandled.
    Completed {
        /// What it gives back.
        outputs: Map<String, Value>,
    },
    /// In an error.
    Failed {
        /// The error.
        error: NodeError,
        /// The node it came from.
        node: Option<NodeId>,
    },
    /// Cancelled.
    Cancelled {
        /// Why.
        reason: Option<String>,
    },
}

/// What is true of a run in any phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// When `run.started` was written.
    pub started_at: Timestamp,
    /// The engine that created it.
    pub engine_version: u32,
    /// Which face it came in by.
    pub transport: String,
    /// The request that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Inputs as given; always an object.
    pub inputs: Value,
    /// The variables now; always an object.
    pub variables: Value,
    /// The channels now, after reduction; always an object.
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
    /// Interrupts that wait no more, and why.
    pub closed_interrupts: BTreeMap<InterruptId, Closed>,
    /// Events from outside that answered an interrupt, by the id their sender gave them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub taken_events: BTreeMap<InterruptId, String>,
    /// The interrupt each node asked last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last_asked: BTreeMap<NodeId, InterruptId>,
    /// How often was asked with each key. Of runs since version 5.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked_keys: BTreeMap<String, u32>,
    /// Signals nobody has asked for yet, and the ids of all that came.
    pub inbox: Inbox,
    /// Child runs, by id.
    pub children: BTreeMap<StreamId, Child>,
    /// Named timers and when they are due.
    pub timers: BTreeMap<String, Timestamp>,
    /// How long the run has worked, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Budget counters.
    pub budget: Budget,
    /// What model calls used, summed.
    pub usage: Option<UsageTotal>,
    /// Artifacts, in the order they came.
    pub artifacts: Vec<(NodeId, Artifact)>,
    /// Outbox messages that were taken in.
    pub seen: BTreeSet<MessageId>,
    /// How often a new holder took the run over with attempts in flight.
    pub takeovers: u32,
    /// The run this one last branched off.
    pub forked_from: Option<StreamId>,
    /// The agent that has the work: pinned to the node that started last, or handed the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Value>,
    /// The agent of the first supervisor, for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator: Option<Value>,
    /// What the orchestrator decided last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// Decisions of the orchestrator so far.
    #[serde(default, skip_serializing_if = "none_yet")]
    pub decisions: u64,
    /// Where the last of them stands in the log. Of runs since version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Seq>,
}

/// How long a run has worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Milliseconds of work that are over.
    pub done_ms: u64,
    /// Since when it works; `None` while it waits.
    pub since: Option<Timestamp>,
}

/// A node in its current visit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRun {
    /// How often it was entered before.
    pub visit: u32,
    /// Attempts of this visit that were started.
    pub attempts: u32,
    /// Attempts of this visit that failed and were followed by another.
    pub retries: u32,
    /// When the visit's first attempt started.
    pub started_at: Option<Timestamp>,
    /// When the visit settled.
    pub settled_at: Option<Timestamp>,
    /// Questions its current attempt has asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u32,
    /// What its ports resolved to, while it is active.
    pub inputs: Option<Map<String, Value>>,
    /// The worker it dispatches now, by its place in the decision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub worker: u32,
    /// Where the last step of each worker of this visit stands in the log, by its place in the
    /// decision. Of runs since version 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<(u32, Seq)>,
    /// A decision that a person is asked about, and that is carried out if they say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Of a loop's head that was entered again: the index of the round before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
    /// Where it stands.
    pub status: NodeStatus,
}

impl NodeRun {
    /// Where the last step of a worker of this visit stands in the log.
    pub fn last_step(&self, worker: u32) -> Option<Seq> {
        let of_it = self.steps.iter().find(|(of, _)| *of == worker);
        of_it.map(|(_, seq)| *seq)
    }

    /// The last step of a worker of this visit stands here.
    pub(super) fn stepped(&mut self, worker: u32, seq: Seq) {
        match self.steps.iter_mut().find(|(of, _)| *of == worker) {
            Some((_, last)) => *last = seq,
            None => self.steps.push((worker, seq)),
        }
    }
}

/// A decision that is not sure enough to be carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The decision.
    pub decision: Value,
    /// How sure it is.
    pub confidence: f64,
    /// How sure it must be.
    pub floor: f64,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn none_yet(n: &u64) -> bool {
    *n == 0
}

/// Where a node stands in its current visit.
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
    /// It waits for several child runs at the same time.
    FannedOut {
        /// The attempt.
        attempt: u32,
        /// How far they are.
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
    /// Ended well.
    Completed {
        /// Its outputs; always an object.
        outputs: Value,
        /// The port it chose.
        port: Option<String>,
        /// Positions of edges that are not followed.
        declined: Vec<u32>,
    },
    /// Ended in an error.
    Failed {
        /// The last error.
        error: NodeError,
        /// Positions of edges that are not followed.
        declined: Vec<u32>,
    },
    /// Will not run in this visit.
    Skipped {
        /// Why.
        reason: SkipReason,
    },
    /// Was stopped because the run ends.
    Cancelled,
}

impl NodeStatus {
    /// Nothing more happens in this visit.
    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Completed { .. } | Self::Failed { .. } | Self::Skipped { .. } | Self::Cancelled
        )
    }

    /// The word snapshots show.
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
    pub kind: String,
    /// The key a signal resolves it by.
    pub key: String,
    /// How often the run had asked with this key before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_before: u32,
    /// What is asked.
    pub data: Value,
    /// What an answer must look like.
    pub resume_schema: Option<Value>,
    /// When it was asked.
    pub requested_at: Timestamp,
    /// When it expires.
    pub timeout_at: Option<Timestamp>,
    /// Whether the event of its kind was written (`approval.requested` and the like).
    pub announced: bool,
    /// Votes so far, where several people decide.
    pub votes: Vec<Ballot>,
}

impl OpenInterrupt {
    /// Whether it asks about a failure for want of something that the host's operator provides.
    pub fn is_for_want(&self) -> bool {
        self.data["error"]["hostLacks"] == true
    }
}

/// What somebody has voted at a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ballot {
    /// Who.
    pub by: String,
    /// How.
    pub action: ApprovalAction,
    /// What they changed the artifact to.
    pub edited: Option<Value>,
}

/// Why an interrupt takes no answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Closed {
    /// It was answered.
    Answered,
    /// Nobody answered in time.
    Expired,
    /// Its node waits for it no more, or the run ended.
    Withdrawn,
}

/// Signals that came before anybody asked for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inbox {
    /// Waiting signals by name, oldest first.
    pub waiting: BTreeMap<String, Vec<Signal>>,
    /// (name, id) of every signal that came.
    pub seen: BTreeSet<(String, String)>,
}

/// A signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The sender's id of it.
    pub id: String,
    /// What it carries.
    pub payload: Value,
}

/// A child run as its parent knows it.
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
    /// Of a worker: its place in the decision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub worker: u32,
    /// What it waits for, as far as it told, and how long its log was then.
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
    /// Sum of tokens in.
    pub input_tokens: u64,
    /// Sum of tokens out.
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

/// An attempt that somebody must be running now.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveAttempt<'a> {
    /// The node's position.
    pub node: NodeIx,
    /// The attempt.
    pub id: AttemptId,
    /// How often it was restarted.
    pub restarts: u32,
    /// What its ports resolved to.
    pub inputs: &'a Map<String, Value>,
    /// When it must be over.
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

    /// Facts, once there are any.
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

    /// How it ended, once it has.
    pub fn end(&self) -> Option<&End> {
        match &self.state {
            RunState::Settled { end, .. } => Some(end),
            RunState::Unborn | RunState::Active { .. } => None,
        }
    }

    /// Whether nothing will be appended any more.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, RunState::Settled { .. })
    }

    /// Whether this is a replay: it repeats what its source recorded, and nothing else.
    pub fn is_replay(&self) -> bool {
        let origin = self.header.origin.as_ref();
        origin.is_some_and(|origin| origin.mode == ForkMode::Replay)
    }

    /// Whether this is a branch whose copied beginning does not end yet in `RunForked`. Nobody
    /// drives it and nothing but its fork is decided on it.
    pub fn is_copying(&self) -> bool {
        let Some(origin) = &self.header.origin else {
            return false;
        };
        let forked_from = self.facts().and_then(|facts| facts.forked_from.as_ref());
        origin.mode == ForkMode::Branch && origin.seq > 0 && forked_from != Some(&origin.source)
    }

    /// The version of an engine newer than this one that has decided on it, if one has: its rules
    /// are not known here.
    pub fn newer_engine(&self) -> Option<u32> {
        let told = self.facts().map(|facts| facts.engine_version);
        let wrote = self.header.engine_version.max(told);
        wrote.filter(|wrote| wrote > crate::ENGINE_VERSIONS.end())
    }

    /// Whether this is a fork whose making is not over: a branch that is still copied, or a replay
    /// that has not come to its end.
    pub fn is_forking(&self) -> bool {
        self.is_copying() || (self.is_replay() && !self.is_settled())
    }

    /// Where the run stands.
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
                    Some(open) => RunStatus::for_interrupt(&open.kind),
                    None => self.awaited_status(facts).unwrap_or(RunStatus::Running),
                },
            },
        }
    }

    /// The status of a child that a node waits for, while the child itself waits.
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

    /// Children that still run and end with this run, unless it completes.
    pub(crate) fn children_to_stop(&self) -> Vec<StreamId> {
        let Some(facts) = self.facts().filter(|_| !self.is_settled()) else {
            return Vec::new();
        };
        let stays = |node: u32| {
            let config = &self.plan.node(NodeIx(node)).config;
            !SubWorkflow::of(config).propagates_cancellation
        };
        let children = facts.children.iter();
        let running = children.filter(|(_, child)| child.status.is_none() && !stays(child.node));
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a question takes no answer any more at a time, though nothing in the log says so
    /// yet: its deadline has passed, and the timer that tells of it has not fired. A run that is
    /// paused has no such timer until it is resumed.
    pub fn is_past_deadline(&self, open: &OpenInterrupt, now: Timestamp) -> bool {
        open.timeout_at.is_some_and(|deadline| deadline <= now)
    }

    /// Children whose end came, or comes, after that of this run: its log takes nothing more and
    /// cannot tell of it.
    pub fn untold_children(&self) -> Vec<StreamId> {
        let facts = self.facts().filter(|_| self.is_settled());
        let children = facts.into_iter().flat_map(|facts| &facts.children);
        let untold = children.filter(|(_, child)| child.status.is_none());
        untold.map(|(id, _)| id.clone()).collect()
    }

    /// Says of such a child how it stands by its own log. Only for whoever shows the run: the
    /// state is no longer the fold of its log alone.
    pub fn tell_of_child(&mut self, child: &StreamId, status: &str) {
        let RunState::Settled { facts, .. } = &mut self.state else {
            return;
        };
        if let Some(known) = facts.children.get_mut(child) {
            match ChildStatus::of(status) {
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
            _ => SubWorkflow::of(&node.config).workflow_id,
        }
    }

    /// The inputs that such a child would be given now.
    pub fn child_inputs(&self, ix: NodeIx) -> Map<String, Value> {
        let config = &self.plan.node(ix).config;
        let child = match self.wanted_child(ix) {
            Some(worker) if self.plan.node(ix).kind == NodeKind::Control(ControlKind::Dispatch) => {
                Dispatch(config).worker(&worker)
            }
            _ => SubWorkflow::of(config),
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

    /// What a decision brings for the worker that a dispatch node is at. It is stronger than what
    /// is mapped for all workers of that workflow.
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

    /// Attempts of work nodes whose start is durable and whose outcome is not: whoever holds
    /// the run must be running exactly these. While the run is stopping they must be stopped.
    pub fn live_attempts(&self) -> impl Iterator<Item = LiveAttempt<'_>> {
        self.in_flight(|kind| kind == NodeKind::Work)
    }

    /// Nodes that started and whose child's definition has to be looked up.
    pub fn undispatched(&self) -> impl Iterator<Item = LiveAttempt<'_>> {
        self.in_flight(|kind| kind != NodeKind::Work)
    }

    /// Whether a node that starts a child waits for a part of the budget that attempts have set
    /// aside: what they do not use, its child may.
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
    /// delay. What waits for somebody outside may wait for ever, and keeps no pause.
    pub fn has_unfinished_nodes(&self) -> bool {
        let is_delayed = |facts: &Facts| {
            let active = facts.active.iter();
            let mut statuses = active.map(|ix| &facts.nodes[*ix as usize].status);
            statuses.any(|status| matches!(status, NodeStatus::Delayed { .. }))
        };
        self.has_live_work() || self.facts().is_some_and(is_delayed)
    }

    /// The interrupt that a node asked last, and why it takes no answer any more if it does not.
    pub fn last_question(&self, node: &NodeId) -> Option<(&InterruptId, Option<Closed>)> {
        let facts = self.facts()?;
        let id = facts.last_asked.get(node)?;
        Some((id, facts.closed_interrupts.get(id).copied()))
    }

    /// Timers that count in the phase the run is in: a paused run keeps its own timeout only,
    /// and a stopping run none, so that nothing is due that would be refused.
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

    /// The timer that is due first.
    pub fn next_timer(&self) -> Option<(&str, Timestamp)> {
        self.timers().min_by_key(|(_, due)| *due)
    }

    /// The node that holds the oldest open interrupt.
    pub fn current_node(&self) -> Option<&NodeId> {
        let open = self.facts()?.interrupts.first()?;
        Some(&self.plan.node(NodeIx(open.node)).id)
    }
}

/// The kinds of questions that runs ask.
pub const QUESTION_KINDS: [&str; 5] = [
    "approval",
    "clarification",
    "external-event",
    "low-confidence",
    "custom",
];

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

    /// The end of the time in which the run may work.
    pub const WORK: &str = "work-timeout";
}

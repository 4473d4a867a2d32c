//! The state of a run: the fold of its log.

mod queries;
mod shares;
pub mod timer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::Plan;
use crate::digest::Digest;
use crate::ids::{InterruptId, MessageId, NodeId, Seq, StreamId, WorkflowId};
use crate::json::is_default;
use crate::run::InterruptKind;
use crate::run::budget::Budget;
use crate::run::event::{
    ApprovalAction, Artifact, ChildStatus, Ending, NodeError, SkipReason, Usage,
};
use crate::run::fan::Fan;
use crate::stream::StreamHeader;
use crate::time::Timestamp;
use crate::usage::ModelUse;

pub use queries::LiveAttempt;

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
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum End {
    /// Every node settled and none failed unhandled.
    Completed { outputs: Map<String, Value> },
    /// It failed.
    Failed {
        error: NodeError,
        /// The node it came from.
        node: Option<NodeId>,
    },
    /// It was cancelled.
    Cancelled { reason: Option<String> },
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
    /// The run's own usage by provider and model: without the calls that a fork has copied.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub usage_by_model: BTreeMap<String, ModelUse>,
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub asked: u32,
    /// The resolved values of its ports, while it is active.
    pub inputs: Option<Map<String, Value>>,
    /// Its current worker, by its place in the decision.
    #[serde(default, skip_serializing_if = "is_default")]
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

fn none_yet(n: &u64) -> bool {
    *n == 0
}

/// The status of a node in its current visit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum NodeStatus {
    /// Not reached.
    #[default]
    Idle,
    /// An attempt is in flight: its start is durable, its outcome is not.
    InFlight {
        attempt: u32,
        /// How often it was restarted after its holder was lost.
        restarts: u32,
    },
    /// It waits for a delay to pass.
    Delayed { attempt: u32 },
    /// It waits for a child run.
    Dispatched { attempt: u32, child: StreamId },
    /// It waits for several concurrent child runs.
    FannedOut {
        attempt: u32,
        /// Their progress.
        fan: Box<Fan>,
    },
    /// It waits for an answer.
    Suspended {
        attempt: u32,
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
    Skipped { reason: SkipReason },
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
    #[serde(default, skip_serializing_if = "is_default")]
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
    #[serde(default, skip_serializing_if = "is_default")]
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

/// Models counted separately; the rest is under `other`.
const MAX_MODELS: usize = 16;

impl Facts {
    /// Counts a call of a model that this run made itself.
    pub(crate) fn count_use(&mut self, usage: &Usage) {
        let names = [usage.provider.as_str(), usage.model.as_str()];
        let mut name = names.join("/");
        let known = &self.usage_by_model;
        if known.len() >= MAX_MODELS && !known.contains_key(&name) {
            name = "other".to_owned();
        }
        let cost = usage.cost_estimate_usd.filter(|usd| usd.is_finite());
        self.usage_by_model.entry(name).or_default().add(&ModelUse {
            calls: 1,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: usage.input_tokens.saturating_add(usage.output_tokens),
            cost: cost
                .map(|usd| ("USD".to_owned(), usd))
                .into_iter()
                .collect(),
        });
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

//! The files of a session, field by field.

use serde::Serialize as Derive;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// `session-state.json`.
#[derive(Clone, Debug, PartialEq, Derive)]
pub struct SessionState {
    /// The run.
    pub session_id: String,
    /// The template's own id.
    pub template_id: String,
    /// The path of the template, from the project folder.
    pub template_path: String,
    /// For people.
    pub template_name: String,
    /// The state of the session.
    pub status: Status,
    /// Its context.
    pub context: Map<String, Value>,
    /// Its steps.
    pub execution_plan: Vec<PlannedBatch>,
    /// The step it is at, from 1.
    pub current_batch: usize,
    /// The first node of that step.
    pub current_node: String,
    /// The last saved checkpoint.
    pub last_checkpoint: Option<String>,
    /// Every node, in the order they run.
    pub node_states: NodeStates,
    /// When it began.
    pub created_at: String,
    /// The time of the last change.
    pub updated_at: String,
    /// When it ended.
    pub completed_at: Option<String>,
    /// Our additions, unknown to other players.
    pub x_play: Extra,
}

kernel::words! {
    /// The state of a session.
    pub enum Status {
        /// In progress, or ready to be continued.
        Running = "running",
        /// It waits at a checkpoint, or was paused.
        Paused = "paused",
        /// Every node completed or was skipped.
        Completed = "completed",
        /// A node failed, and its failure needs a decision or has one.
        Failed = "failed",
        /// Aborted by a person.
        Aborted = "aborted",
        /// Completed and put away.
        Archived = "archived",
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
pub struct PlannedBatch {
    /// From 1.
    pub batch: usize,
    /// Node ids.
    pub nodes: Vec<String>,
    /// Whether they run at the same time.
    pub parallel: bool,
}

/// Nodes by id, in the order they run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeStates(pub Vec<(String, NodeState)>);

impl Serialize for NodeStates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (id, state) in &self.0 {
            map.serialize_entry(id, state)?;
        }
        map.end()
    }
}

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Derive)]
#[serde(untagged)]
pub enum NodeState {
    /// A node that calls something.
    Work(WorkState),
    /// A checkpoint.
    Checkpoint(CheckpointState),
}

impl NodeState {
    /// Its status.
    pub fn status(&self) -> NodeStatus {
        match self {
            Self::Work(state) => state.status,
            Self::Checkpoint(state) => state.status,
        }
    }

    /// The error, if it failed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Work(state) => state.error.as_deref(),
            Self::Checkpoint(_) => None,
        }
    }
}

kernel::words! {
    /// The words for a node's status.
    #[derive(Default)]
    pub enum NodeStatus {
        /// Not started yet.
        #[default]
        Pending = "pending",
        /// Started.
        Running = "running",
        /// Ended well.
        Completed = "completed",
        /// Left out.
        Skipped = "skipped",
        /// Ended in an error.
        Failed = "failed",
    }
}

impl NodeStatus {
    /// Whether the node is final by itself, so that the next step may begin.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped)
    }
}

/// A node that calls something.
#[derive(Clone, Debug, Default, PartialEq, Derive)]
pub struct WorkState {
    /// Its status.
    pub status: NodeStatus,
    /// When its first attempt started.
    pub started_at: Option<String>,
    /// The time of its end.
    pub completed_at: Option<String>,
    /// The session it worked in, as reported.
    pub session_id: Option<String>,
    /// The main file it wrote, as reported.
    pub output_path: Option<String>,
    /// The files it wrote, as reported.
    pub artifacts: Vec<String>,
    /// The error.
    pub error: Option<String>,
    /// The task of a `cli` node that has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_task_id: Option<String>,
}

/// A checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Derive)]
pub struct CheckpointState {
    /// Its status.
    pub status: NodeStatus,
    /// When its snapshot was taken.
    pub saved_at: Option<String>,
    /// The path of its snapshot, from the project folder.
    pub snapshot_path: Option<String>,
    /// Whether it continues without asking; known once it is saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_continue: Option<bool>,
}

/// Our additions, unknown to other players.
#[derive(Clone, Debug, Default, PartialEq, Derive)]
pub struct Extra {
    /// The last event of the log that this state includes. It only grows.
    pub seq: u64,
    /// The workflow definition of the run.
    pub workflow: String,
    /// The node whose checkpoint waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_at: Option<String>,
    /// The checkpoint whose question was open when the session was aborted: it was saved and not
    /// passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aborted_at: Option<String>,
    /// Nodes whose failure needs a decision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
    /// Nodes that failed in a round of a loop that others follow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_rounds: Vec<String>,
    /// Nodes that wait for a callback, with the task each one waits for.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub callbacks: Map<String, Value>,
    /// The limits of the session.
    #[serde(skip_serializing_if = "Budget::is_nothing")]
    pub budget: Budget,
    /// The usage over all nodes, as far as executors report it.
    #[serde(skip_serializing_if = "Used::is_nothing")]
    pub used: Used,
    /// More about each node that has started.
    pub nodes: Map<String, Value>,
}

/// The limits of a session; an absent one is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Derive)]
pub struct Budget {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens, in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    /// Whether it has no limits.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Whether any limit is reached.
    pub fn is_used_up(&self, used: &Used) -> bool {
        let tokens = used.input_tokens.saturating_add(used.output_tokens);
        let usd = used.usd.unwrap_or(0.0);
        self.usd.is_some_and(|limit| usd >= limit)
            || self.tokens.is_some_and(|limit| tokens >= limit)
    }
}

/// The usage of model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Derive)]
pub struct Used {
    /// Cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
}

impl Used {
    /// Whether no usage was reported.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the usage of a call.
    pub fn add(&mut self, usd: Option<f64>, input_tokens: u64, output_tokens: u64) {
        if let Some(usd) = usd {
            self.usd = Some(self.usd.unwrap_or(0.0) + usd);
        }
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
    }
}

/// `checkpoints/<id>.json`.
#[derive(Clone, Debug, PartialEq, Derive)]
pub struct Snapshot {
    /// The run.
    pub session_id: String,
    /// The checkpoint.
    pub checkpoint_id: String,
    /// For people.
    pub checkpoint_name: String,
    /// When it was taken.
    pub saved_at: String,
    /// The context of the session.
    pub context_snapshot: Map<String, Value>,
    /// The state of every node at that time, this checkpoint included.
    pub node_states_snapshot: NodeStates,
    /// The last completed node, in the order they run.
    pub last_completed_node: Option<String>,
    /// The next node.
    pub next_node: Option<String>,
}

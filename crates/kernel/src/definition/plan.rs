//! A checked definition in the form the scheduler reads.

use std::collections::BTreeMap;

use serde_json::Value;

use super::channel::Channel;
use super::condition::Condition;
use super::document::{Trigger, TriggerRule};
use super::sensitivity::Sensitivity;
use super::variable::Variable;
use crate::control::children::Children;
use crate::control::{ControlKind, ControlNode};
use crate::digest::Digest;
use crate::expr::Expression;
use crate::ids::{NodeId, WorkflowId};
use crate::problem::Problem;
use crate::run::budget::BudgetPolicy;

/// The position of a node in [`Plan::nodes`]; the order is that of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

/// The position of an edge in [`Plan::edges`]; the order is that of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeIx(pub u32);

impl NodeIx {
    /// As an index of a vector with one element per node.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeIx {
    /// As an index of a vector with one element per edge.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A definition that passed every check. Built once and shared by all runs of the same digest.
#[derive(Debug)]
pub struct Plan {
    /// The workflow.
    pub workflow: WorkflowId,
    /// The version the document claims.
    pub version: String,
    /// The workflow's name for people.
    pub name: String,
    /// The digest of the document's canonical JSON.
    pub digest: Digest,
    /// In document order.
    pub nodes: Vec<PlanNode>,
    /// In document order.
    pub edges: Vec<PlanEdge>,
    /// In document order; names are unique.
    pub variables: Vec<Variable>,
    /// By name. If empty, channels are undeclared and nodes may still write to any.
    pub channels: BTreeMap<String, Channel>,
    /// The declared starts of runs.
    pub triggers: Vec<Trigger>,
    /// Limits of every run.
    pub settings: Settings,
    /// Maximum spending of every run.
    pub budget: BudgetPolicy,
    /// Nodes that no edge but a back edge leads to, disabled ones included; at least one of
    /// them is not disabled.
    pub entries: Vec<NodeIx>,
    /// JSON Schema of the `configurable` a run of this workflow accepts.
    pub configurable_schema: Option<Value>,
    /// A capability that this engine lacks: no run of the workflow can be created.
    pub unmet: Option<Unmet>,
    /// Oddities that do not keep the workflow from running.
    pub warnings: Vec<Problem>,
    /// Sensitivity of the definition as a whole.
    pub sensitivity: Sensitivity,
    pub(super) by_id: BTreeMap<NodeId, NodeIx>,
}

/// Limits of every run of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Longest run.
    pub timeout_ms: Option<u64>,
    /// Maximum working time of a run. Excluded is the time in which it is paused or waits only for
    /// outside events.
    pub work_timeout_ms: Option<u64>,
    /// Retries of a node without its own setting.
    pub max_retries: u32,
    /// Rounds of a supervisor and its dispatch.
    pub max_loop_iterations: u32,
}

/// A node with resolved references.
#[derive(Debug)]
pub struct PlanNode {
    /// The id, unique in the workflow.
    pub id: NodeId,
    /// The node type.
    pub type_id: String,
    /// Name for people.
    pub name: String,
    /// Which part of the engine executes it.
    pub kind: NodeKind,
    /// Interpreted by its type.
    pub config: Value,
    /// The child runs that it starts.
    pub(crate) children: Children,
    /// The expressions in the config of a control node, by their key.
    pub expressions: BTreeMap<&'static str, Expression>,
    /// Input ports and the sources of their values, in document order.
    pub inputs: Vec<(String, PortValue)>,
    /// Retries after a failed attempt.
    pub retry: RetryPolicy,
    /// Longest attempt.
    pub timeout_ms: Option<u64>,
    /// When all attempts have failed.
    pub on_failure: OnFailure,
    /// Skipped whenever it is reached.
    pub disabled: bool,
    /// Output ports whose values are masked (true) or not (false), overriding the type's own
    /// declaration.
    pub output_sensitivity: BTreeMap<String, bool>,
    /// The agent pinned to the node, as declared.
    pub agent: Option<Value>,
    /// Edges that lead here, back edges included.
    pub incoming: Vec<EdgeIx>,
    /// Edges that lead away, back edges included.
    pub outgoing: Vec<EdgeIx>,
    /// The head of the innermost loop this node is in. A head is not in its own loop.
    pub within: Option<NodeIx>,
    /// The body, if this node is the head of a loop.
    pub body: Option<LoopBody>,
}

/// Which part of the engine executes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The kernel.
    Control(ControlKind),
    /// The runtime, which calls a program or a service.
    Work,
}

impl NodeKind {
    /// The rules of a control node.
    pub(crate) fn control(self) -> Option<&'static dyn ControlNode> {
        match self {
            Self::Control(kind) => Some(kind.node()),
            Self::Work => None,
        }
    }
}

/// The inside of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBody {
    /// The output port of the head that begins a round.
    pub port: &'static str,
    /// Every node of the body, those of inner loops included, in document order.
    pub nodes: Vec<NodeIx>,
    /// The edges from the body to the head: a round is over when they are settled.
    pub back_edges: Vec<EdgeIx>,
    /// Rounds before the run fails.
    pub max_iterations: u32,
    /// The edges that begin a round.
    pub starts: Vec<EdgeIx>,
    /// The edges that leave the loop.
    pub exits: Vec<EdgeIx>,
}

/// How often and when a failed attempt is retried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub max_retries: u32,
    /// The waits between them.
    pub backoff: Backoff,
}

/// Waits that grow: `initial_ms * factor^n`, at most `max_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait before the first retry.
    pub initial_ms: u64,
    /// At least 1.
    pub factor: f64,
    /// The longest wait.
    pub max_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial_ms: 1_000,
            factor: 2.0,
            max_ms: 300_000,
        }
    }
}

impl Backoff {
    /// Milliseconds to wait before the `retry`-th retry, counted from 0. Without jitter, because a
    /// replay must compute the same time.
    pub fn delay_ms(&self, retry: u32) -> u64 {
        let max = self.max_ms as f64;
        let mut delay = self.initial_ms as f64;
        // Multiplied step by step: `powf` may differ in the last bit between machines.
        for _ in 0..retry {
            if delay >= max || self.factor <= 1.0 || delay == 0.0 {
                break;
            }
            delay *= self.factor;
        }
        delay.min(max) as u64
    }
}

/// The effect on the run when all attempts of a node have failed and no edge handles the failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The run fails.
    #[default]
    Fail,
    /// The node counts as skipped and the run continues.
    Skip,
    /// A person decides: retry, skip or fail. Only for work nodes; a control node fails.
    Ask,
}

/// The source of an input port's value.
#[derive(Debug)]
pub enum PortValue {
    /// Written in the definition.
    Static(Value),
    /// Computed when the node starts.
    Expression(Expression),
    /// An output of another node.
    Connection {
        /// The node.
        node: NodeIx,
        /// Its output port.
        output: String,
        /// A missing value leaves the port unset instead of failing the node.
        optional: bool,
    },
    /// A variable of the run.
    Variable {
        /// Its name.
        name: String,
        /// A missing value leaves the port unset instead of failing the node.
        optional: bool,
    },
}

/// An edge with both ends resolved.
#[derive(Debug)]
pub struct PlanEdge {
    /// The id, unique in the workflow.
    pub id: String,
    /// Where it comes from.
    pub source: NodeIx,
    /// Where it leads.
    pub target: NodeIx,
    /// The output port of the source, when named.
    pub source_output: Option<String>,
    /// The input port of the target, when named.
    pub target_input: Option<String>,
    /// Followed only when this holds.
    pub condition: Option<Condition>,
    /// When the target may start, according to this edge.
    pub rule: TriggerRule,
    /// It closes a loop: it never keeps its target from starting the first time.
    pub back: bool,
}

impl PlanNode {
    /// Whether leaving this node by a port begins a round of the loop it is the head of.
    pub fn begins_round(&self, port: Option<&str>) -> bool {
        self.body
            .as_ref()
            .is_some_and(|body| port == Some(body.port))
    }
}

impl Plan {
    /// Whether the definition declares a channel of this name. A channel that only a node describes
    /// is also kept in the variable of its name, and does not count.
    pub fn declares_channel(&self, name: &str) -> bool {
        let channel = self.channels.get(name);
        channel.is_some_and(|channel| !channel.in_variable)
    }

    /// The node with an id.
    pub fn node_ix(&self, id: &str) -> Option<NodeIx> {
        self.by_id.get(id).copied()
    }

    /// The node at a position.
    ///
    /// # Panics
    /// When the position comes from another plan and is out of range.
    pub fn node(&self, ix: NodeIx) -> &PlanNode {
        &self.nodes[ix.index()]
    }

    /// The edge at a position.
    ///
    /// # Panics
    /// When the position comes from another plan and is out of range.
    pub fn edge(&self, ix: EdgeIx) -> &PlanEdge {
        &self.edges[ix.index()]
    }

    /// Every node's position, in document order.
    pub fn node_ixs(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..self.nodes.len() as u32).map(NodeIx)
    }
}

/// A capability that a definition needs and this engine lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("needs {capability}, which this engine does not have; remove it to run the workflow")]
pub struct Unmet {
    /// The protocol's code for it.
    pub code: &'static str,
    /// The protocol's capability family.
    pub capability: &'static str,
    /// Its place in the definition.
    pub place: String,
}

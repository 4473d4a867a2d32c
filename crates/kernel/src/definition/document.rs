//! A workflow definition as it was written, with its shape checked and nothing resolved.

use std::collections::BTreeMap;

use serde_json::Value;

use super::channel::Channel;
use super::plan::{Backoff, OnFailure};
use super::variable::Variable;
use crate::digest::Digest;
use crate::ids::{NodeId, WorkflowId};
use crate::problem::Problem;
use crate::run::budget::BudgetPolicy;

/// A workflow definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The workflow.
    pub id: WorkflowId,
    /// For people.
    pub name: String,
    /// The version it claims.
    pub version: String,
    /// At least one.
    pub nodes: Vec<Node>,
    /// How they follow one another.
    pub edges: Vec<Edge>,
    /// What begins a run.
    pub triggers: Vec<Trigger>,
    /// What a run is given and keeps.
    pub variables: Vec<Variable>,
    /// Shared state, by name.
    pub channels: BTreeMap<String, Channel>,
    /// Bounds of a run.
    pub settings: DocumentSettings,
    /// What a run may spend at most.
    pub budget: BudgetPolicy,
    /// JSON Schema of the `configurable` a run accepts.
    pub configurable_schema: Option<Value>,
    /// Its `metadata.complianceClass`.
    pub compliance_class: Option<String>,
    /// Where it first says how something is to be compensated.
    pub compensation: Option<String>,
    /// The digest of the document's canonical JSON.
    pub digest: Digest,
    /// What is odd but does not make the document wrong.
    pub warnings: Vec<Problem>,
}

/// Bounds of a run, as far as the document says them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentSettings {
    /// Longest run; 0 in the document means none.
    pub timeout_ms: Option<u64>,
    /// How long a run may work; 0 in the document means any time.
    pub work_timeout_ms: Option<u64>,
    /// Retries of a node that says nothing of its own.
    pub max_retries: Option<u32>,
    /// Rounds of a loop that says nothing of its own.
    pub max_loop_iterations: Option<u32>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// The id.
    pub id: NodeId,
    /// The node type.
    pub type_id: String,
    /// For people.
    pub name: String,
    /// What its type makes of it.
    pub config: Value,
    /// Input ports, in document order.
    pub inputs: Vec<(String, Port)>,
    /// What it says about failures.
    pub settings: NodeSettings,
    /// Skipped whenever it is reached.
    pub disabled: bool,
    /// Output ports to mask or not.
    pub output_sensitivity: BTreeMap<String, bool>,
    /// The pinned agent.
    pub agent: Option<Value>,
}

/// What a node says about time and failure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeSettings {
    /// Longest attempt.
    pub timeout_ms: Option<u64>,
    /// Attempts after the first.
    pub max_retries: Option<u32>,
    /// The waits between attempts.
    pub backoff: Option<Backoff>,
    /// When no attempt is left.
    pub on_failure: OnFailure,
}

/// Where the value of an input port comes from, unresolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Port {
    /// The value itself.
    Static(Value),
    /// The text of an expression.
    Expression(String),
    /// An output of a node.
    Connection {
        /// The node.
        node: String,
        /// The output port.
        output: String,
        /// Whether it may be missing.
        optional: bool,
    },
    /// A variable.
    Variable {
        /// Its name.
        name: String,
        /// Whether it may be missing.
        optional: bool,
    },
}

/// An edge.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The id.
    pub id: String,
    /// Where it comes from.
    pub source: String,
    /// Where it leads.
    pub target: String,
    /// The output port of the source.
    pub source_output: Option<String>,
    /// The input port of the target.
    pub target_input: Option<String>,
    /// Followed only when this holds.
    pub condition: Option<ConditionText>,
    /// When the target may start.
    pub rule: TriggerRule,
}

/// A condition, not compiled yet.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionText {
    /// A boolean expression.
    Expression(String),
    /// A comparison of an operand with a value.
    Compare {
        /// How.
        test: Comparison,
        /// The operand.
        left: String,
        /// The value.
        right: Value,
    },
    /// Whether an operand is truthy.
    Truthy(String),
    /// Whether an operand is falsy.
    Falsy(String),
}

/// How a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Equals,
    /// Not equal.
    NotEquals,
    /// A text holds a text, an array an element, an object a key.
    Contains,
    /// A text matches a pattern.
    Regex,
}

/// When the target of an edge may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TriggerRule {
    /// Every source completed.
    #[default]
    AllSuccess,
    /// At least one source completed.
    AnySuccess,
    /// Every source finished in any way.
    AllComplete,
    /// Every source finished and none failed.
    NoneFailed,
    /// At least one source failed.
    AnyFailed,
}

impl TriggerRule {
    /// The names, in the order of the variants.
    pub const NAMES: [&'static str; 5] = [
        "all_success",
        "any_success",
        "all_complete",
        "none_failed",
        "any_failed",
    ];

    /// The rule of a name, if it is one.
    pub fn of(name: &str) -> Option<Self> {
        [
            Self::AllSuccess,
            Self::AnySuccess,
            Self::AllComplete,
            Self::NoneFailed,
            Self::AnyFailed,
        ]
        .into_iter()
        .find(|rule| rule.as_str() == name)
    }

    /// The name, as documents write it.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What begins a run, or fires a node within one.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The id, unique in the workflow.
    pub id: String,
    /// The kind, one of [`Trigger::KINDS`].
    pub kind: String,
    /// What the kind makes of it.
    pub config: Value,
    /// Whether it fires at all.
    pub enabled: bool,
    /// The node it fires.
    pub node: Option<NodeId>,
}

impl Trigger {
    /// The kinds of triggers there are.
    pub const KINDS: [&'static str; 10] = [
        "manual",
        "schedule",
        "webhook",
        "event",
        "artifact",
        "canvas",
        "envelope",
        "command",
        "chat-message",
        "channel-write",
    ];
}

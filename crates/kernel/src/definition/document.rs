//! A workflow definition as written, with its shape checked and nothing resolved.

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
    /// Name for people.
    pub name: String,
    /// The version stated in the document.
    pub version: String,
    /// At least one.
    pub nodes: Vec<Node>,
    /// Edges between the nodes.
    pub edges: Vec<Edge>,
    /// Starts of runs.
    pub triggers: Vec<Trigger>,
    /// Inputs and variables of a run.
    pub variables: Vec<Variable>,
    /// Shared state, by name.
    pub channels: BTreeMap<String, Channel>,
    /// Limits of a run.
    pub settings: DocumentSettings,
    /// Maximum spending of a run.
    pub budget: BudgetPolicy,
    /// JSON Schema of the `configurable` a run accepts.
    pub configurable_schema: Option<Value>,
    /// Its `metadata.complianceClass`.
    pub compliance_class: Option<String>,
    /// The first place in it that declares a compensation.
    pub compensation: Option<String>,
    /// The digest of the document's canonical JSON.
    pub digest: Digest,
    /// Oddities that do not make the document invalid.
    pub warnings: Vec<Problem>,
}

/// Limits of a run, if the document sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentSettings {
    /// Longest run; 0 in the document means none.
    pub timeout_ms: Option<u64>,
    /// Maximum working time of a run; 0 in the document means unlimited.
    pub work_timeout_ms: Option<u64>,
    /// Retries of a node without its own setting.
    pub max_retries: Option<u32>,
    /// Rounds of a loop without its own setting.
    pub max_loop_iterations: Option<u32>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// The id.
    pub id: NodeId,
    /// The node type.
    pub type_id: String,
    /// Name for people.
    pub name: String,
    /// Interpreted by its type.
    pub config: Value,
    /// Input ports, in document order.
    pub inputs: Vec<(String, Port)>,
    /// Its settings for failures.
    pub settings: NodeSettings,
    /// Skipped whenever it is reached.
    pub disabled: bool,
    /// Whether each output port is masked.
    pub output_sensitivity: BTreeMap<String, bool>,
    /// The pinned agent.
    pub agent: Option<Value>,
}

/// Time and failure settings of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeSettings {
    /// Longest attempt.
    pub timeout_ms: Option<u64>,
    /// Attempts after the first.
    pub max_retries: Option<u32>,
    /// The waits between attempts.
    pub backoff: Option<Backoff>,
    /// When all attempts have failed.
    pub on_failure: OnFailure,
}

/// The unresolved source of an input port's value.
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

/// An uncompiled condition.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionText {
    /// A boolean expression.
    Expression(String),
    /// A comparison of an operand with a value.
    Compare {
        /// The comparison.
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

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Equals,
    /// Not equal.
    NotEquals,
    /// A text contains a text, an array an element, an object a key.
    Contains,
    /// A text matches a pattern.
    Regex,
}

crate::words! {
    /// When the target of an edge may start.
    #[derive(Default)]
    pub enum TriggerRule {
        /// Every source completed.
        #[default]
        AllSuccess = "all_success",
        /// At least one source completed.
        AnySuccess = "any_success",
        /// Every source finished with any result.
        AllComplete = "all_complete",
        /// Every source finished and none failed.
        NoneFailed = "none_failed",
        /// At least one source failed.
        AnyFailed = "any_failed",
    }
}

/// Starts a run, or fires a node within one.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The id, unique in the workflow.
    pub id: String,
    /// The kind, one of [`Trigger::KINDS`].
    pub kind: String,
    /// Interpreted by the kind.
    pub config: Value,
    /// Whether it is active.
    pub enabled: bool,
    /// The node it fires.
    pub node: Option<NodeId>,
}

impl Trigger {
    /// All kinds of triggers.
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

//! Control nodes: they change what runs next and touch nothing outside.
//!
//! One file each. A control node is a pure function from its config, its inputs and the scope of
//! the run to a `Began`. A new one extends the meaning of the event format.

pub mod answer;
pub mod approval;
pub mod channel_write;
pub mod clarification;
pub mod conditional;
pub(crate) mod decision;
pub mod delay;
pub mod dispatch;
pub mod get_variable;
pub mod governance;
pub mod interrupt;
pub(crate) mod join;
pub mod loop_head;
pub(crate) mod schema;
mod schema_words;
pub mod set_variable;
pub mod sub_workflow;
pub mod supervisor;

use serde_json::{Map, Value};

use crate::definition::{ControlKind, EdgeIx, NodeIx, NodeKind, Plan, PlanNode};
use crate::expr::{ExprError, Scope};
use crate::run::command::ChannelWrite;
use crate::run::event::NodeError;
use crate::run::scope;
use crate::stream::Policy;

/// The input of a control node's decision.
pub(crate) struct Context<'a> {
    /// The node.
    pub(crate) node: &'a PlanNode,
    /// The resolved values of its ports.
    pub(crate) inputs: &'a Map<String, Value>,
    /// The scope of its expressions.
    pub(crate) scope: &'a dyn Scope,
    /// How the run is driven.
    pub(crate) policy: &'a Policy,
    /// For a loop's head that is entered again: the index of the last round, and how it ended.
    pub(crate) round: Option<(Option<u64>, loop_head::Left)>,
}

/// The result of starting a control node.
#[derive(Debug, PartialEq)]
pub(crate) enum Began {
    /// It has completed.
    Completed(Done),
    /// It failed.
    Failed(NodeError),
    /// It would exceed the limit of rounds.
    LoopLimit {
        /// Maximum number of rounds.
        limit: u64,
    },
    /// It asks a question.
    Asks(Ask),
    /// It waits for a timer, or for a definition to be looked up.
    Waits,
    /// It decides which workers run next.
    Supervises,
    /// It carries out a supervisor's decision.
    Dispatches,
}

/// A control node that has completed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Done {
    pub(crate) outputs: Map<String, Value>,
    pub(crate) port: Option<String>,
    pub(crate) variables: Vec<(String, Value)>,
    pub(crate) channel_writes: Vec<ChannelWrite>,
}

/// A question of a node.
#[derive(Debug, PartialEq)]
pub(crate) struct Ask {
    pub(crate) kind: String,
    pub(crate) key: String,
    pub(crate) data: Value,
    pub(crate) resume_schema: Option<Value>,
    pub(crate) timeout_ms: Option<u64>,
}

pub(crate) fn begin(kind: ControlKind, cx: &Context<'_>) -> Began {
    match kind {
        ControlKind::Delay => delay::begin(),
        ControlKind::Loop => loop_head::begin(cx),
        ControlKind::Conditional => conditional::begin(cx),
        ControlKind::SubWorkflow => Began::Waits,
        ControlKind::Interrupt => interrupt::begin(cx),
        ControlKind::ApprovalGate => approval::begin(cx),
        ControlKind::GovernanceGate => governance::begin(cx),
        ControlKind::ClarificationGate => clarification::begin(cx),
        ControlKind::ChannelWrite => channel_write::begin(cx),
        ControlKind::SetVariable => set_variable::begin(cx),
        ControlKind::GetVariable => get_variable::begin(cx),
        ControlKind::Supervisor => Began::Supervises,
        ControlKind::Dispatch => Began::Dispatches,
    }
}

/// The output ports among which a node of this kind chooses.
pub(crate) fn ports(kind: NodeKind) -> &'static [&'static str] {
    match kind {
        NodeKind::Control(ControlKind::Conditional) => &["true", "false"],
        NodeKind::Control(ControlKind::Loop) => &["body", "done"],
        NodeKind::Control(ControlKind::ApprovalGate) => &approval::PORTS,
        NodeKind::Control(ControlKind::GovernanceGate) => &governance::PORTS,
        NodeKind::Control(ControlKind::Supervisor) => &supervisor::PORTS,
        _ => &[],
    }
}

/// The names of the outputs of a node of this kind; `None` if they are not known in advance.
pub(crate) fn outputs(kind: ControlKind, config: &Value) -> Option<Vec<String>> {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let named = || {
        let named = ["name", "variableName"].iter();
        named.filter_map(|key| Some(config.get(*key)?.as_str()?.to_owned()))
    };
    match kind {
        ControlKind::Delay => Some(Vec::new()),
        ControlKind::Conditional => Some(names(&["result"])),
        ControlKind::ChannelWrite => Some(names(&["value"])),
        ControlKind::Loop => Some(names(&["index", "item", "rounds", "reason"])),
        ControlKind::GetVariable if named().next().is_some() => {
            Some(named().chain(["value".to_owned()]).collect())
        }
        ControlKind::SetVariable => {
            let several = config.get("variables").and_then(Value::as_object);
            let several = several
                .into_iter()
                .flat_map(|several| several.keys().cloned());
            Some(several.chain(named()).collect())
        }
        _ => None,
    }
}

/// The output port of a choosing node that an edge belongs to; `None` for an edge that is followed
/// for every port.
pub(crate) fn port_of_edge(plan: &Plan, source: NodeIx, edge: EdgeIx) -> Option<&str> {
    let (node, edge_ix, edge) = (plan.node(source), edge, plan.edge(edge));
    let named = edge.source_output.as_deref();
    if let Some(named) = named.filter(|named| ports(node.kind).contains(named)) {
        return Some(named);
    }
    match (node.kind, &node.body) {
        (NodeKind::Control(ControlKind::ApprovalGate | ControlKind::GovernanceGate), _) => {
            Some("accept")
        }
        (NodeKind::Control(ControlKind::Supervisor), Some(body)) => {
            if body.starts.contains(&edge_ix) {
                Some(supervisor::DISPATCH)
            } else {
                Some(supervisor::TERMINATE)
            }
        }
        (NodeKind::Control(ControlKind::Supervisor), None) => {
            let target = plan.node(edge.target).kind;
            (target == NodeKind::Control(ControlKind::Dispatch)).then_some(supervisor::DISPATCH)
        }
        _ => None,
    }
}

/// Faults in the config of a control node of a new definition, by its key.
pub(crate) fn check_config(kind: ControlKind, config: &Value) -> Vec<(&'static str, String)> {
    let mut problems = match kind {
        ControlKind::ApprovalGate => approval::check_config(config),
        // Its answer schema is for people: the gate has rules of its own.
        ControlKind::GovernanceGate => return governance::check_config(config),
        ControlKind::ClarificationGate => clarification::check_config(config),
        ControlKind::Supervisor => supervisor::check_config(config),
        ControlKind::Dispatch => dispatch::check_config(config),
        ControlKind::Interrupt => interrupt::check_config(config),
        ControlKind::SubWorkflow => sub_workflow::check_config(config),
        _ => return Vec::new(),
    };
    if let Some(Err(what)) = config.get("resumeSchema").map(|of| schema::check(of, "")) {
        problems.push(("resumeSchema", what));
    }
    problems
}

/// A setting of a control node: an input port overrides the config. A config text is only an
/// expression if its key says so.
pub(crate) fn setting<'a>(cx: &'a Context<'_>, key: &str) -> Option<&'a Value> {
    cx.inputs.get(key).or_else(|| cx.node.config.get(key))
}

/// The error of a config expression `what` without a value.
pub(crate) fn without_value(cx: &Context<'_>, what: &str, error: &ExprError) -> Began {
    match error {
        ExprError::Denied { channel } => Began::Failed(scope::not_a_reader(cx.node, channel)),
        error => misconfigured(cx, format_args!("{what} has no value: {error}")),
    }
}

/// The error of an incomplete or invalid config.
pub(crate) fn misconfigured(cx: &Context<'_>, what: impl std::fmt::Display) -> Began {
    Began::Failed(NodeError::new("invalid_config", format!("node {}: {what}", cx.node.id)).fatal())
}

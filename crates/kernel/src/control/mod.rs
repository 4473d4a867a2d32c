//! Control nodes: they change what runs next and touch nothing outside.
//!
//! One file each. A control node is a pure function from its config, its inputs and the scope of
//! the run to what `Began` can say; adding one is a change of the event format's meaning.

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

/// What a control node decides from.
pub(crate) struct Context<'a> {
    /// The node.
    pub(crate) node: &'a PlanNode,
    /// What its ports resolved to.
    pub(crate) inputs: &'a Map<String, Value>,
    /// What its expressions see.
    pub(crate) scope: &'a dyn Scope,
    /// How the run is driven.
    pub(crate) policy: &'a Policy,
    /// For a loop's head that is entered again: the index of the last round, and how it ended.
    pub(crate) round: Option<(Option<u64>, loop_head::Left)>,
}

/// What became of a control node when it was started.
#[derive(Debug, PartialEq)]
pub(crate) enum Began {
    /// It is over.
    Completed(Done),
    /// It cannot do what it should.
    Failed(NodeError),
    /// It would run one round too many.
    LoopLimit {
        /// The most rounds.
        limit: u64,
    },
    /// It asks somebody outside.
    Asks(Ask),
    /// It waits for a timer, or for a definition to be looked up.
    Waits,
    /// It decides who goes next.
    Supervises,
    /// It carries out what a supervisor decided.
    Dispatches,
}

/// A control node that is over.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Done {
    pub(crate) outputs: Map<String, Value>,
    pub(crate) port: Option<String>,
    pub(crate) variables: Vec<(String, Value)>,
    pub(crate) channel_writes: Vec<ChannelWrite>,
}

/// What a node asks somebody outside.
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

/// The output ports a node of a kind chooses among.
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

/// The names of what a node of a kind gives; `None` where that is not known before.
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

/// The output port of a choosing node that an edge belongs to; `None` for an edge that is
/// followed whichever port is chosen.
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

/// What is wrong with the config of a control node of a new definition, by its key.
pub(crate) fn check_config(kind: ControlKind, config: &Value) -> Vec<(&'static str, String)> {
    let mut problems = match kind {
        ControlKind::ApprovalGate => approval::check_config(config),
        // What it says of answers is for people: the rules are the gate's own.
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

/// A value of a control node: an input port wins over the config; a config text is not an
/// expression unless its key says so.
pub(crate) fn setting<'a>(cx: &'a Context<'_>, key: &str) -> Option<&'a Value> {
    cx.inputs.get(key).or_else(|| cx.node.config.get(key))
}

/// The error of an expression of the config, `what` it is, that comes to nothing.
pub(crate) fn without_value(cx: &Context<'_>, what: &str, error: &ExprError) -> Began {
    match error {
        ExprError::Denied { channel } => Began::Failed(scope::not_a_reader(cx.node, channel)),
        error => misconfigured(cx, format_args!("{what} has no value: {error}")),
    }
}

/// The error of a config that says too little or something wrong.
pub(crate) fn misconfigured(cx: &Context<'_>, what: impl std::fmt::Display) -> Began {
    Began::Failed(NodeError::new("invalid_config", format!("node {}: {what}", cx.node.id)).fatal())
}

//! Control nodes: they change what runs next and touch nothing outside.
//!
//! One file each, which implements `ControlNode`, and one row of the table below. A control node
//! is a pure function from its config, its inputs and the scope of the run to a `Began`. A new
//! one extends the meaning of the event format.

/// A config key with its other names, its values and its purpose.
macro_rules! key {
    ($name:literal $(| $alias:literal)* : $takes:expr, $what:literal) => {
        $crate::definition::ConfigKey {
            name: $name,
            aliases: &[$($alias),*],
            takes: $takes,
            what: $what,
        }
    };
}

pub mod answer;
pub mod approval;
pub mod channel_write;
pub(crate) mod children;
pub mod clarification;
pub mod conditional;
pub(crate) mod decision;
pub mod delay;
pub mod dispatch;
pub(crate) mod doubt;
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

use crate::definition::config_keys::ConfigKey;
use crate::definition::{EdgeIx, Node, NodeIx, Plan, PlanNode};
use crate::expr::{ExprError, Scope};
use crate::ids::NodeId;
use crate::problem::pointer;
use crate::run::InterruptKind;
use crate::run::capacity::Answerer;
use crate::run::command::ChannelWrite;
use crate::run::event::{ApprovalAction, NodeError, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::scope;
use crate::run::state::{Held, OpenInterrupt};
use crate::stream::Policy;
use crate::time::Timestamp;
use approval::Answer;
use children::Children;
use decision::Decided;
use governance::Ruling;

/// The input of a control node's decision.
pub(crate) struct Context<'a> {
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
    pub(crate) kind: InterruptKind,
    pub(crate) key: String,
    pub(crate) data: Value,
    pub(crate) resume_schema: Option<Value>,
    pub(crate) timeout_ms: Option<u64>,
}

/// Keys of which a config needs one, and the problem without any of them.
pub(crate) type OneOf = (&'static [&'static str], &'static str);

/// Problems of a config, each with its key.
pub(crate) type ConfigProblems = Vec<(&'static str, String)>;

/// The origin of an output port's value that can make it sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortSensitivity {
    /// The value is public.
    Public,
    /// The value comes from a declared sensitive variable or channel.
    Hidden,
    /// The value comes from the question of the node.
    Question,
    /// The value comes from an input of the node.
    Input(&'static str),
}

impl PortSensitivity {
    fn hidden_if(is_hidden: bool) -> Self {
        if is_hidden {
            Self::Hidden
        } else {
            Self::Public
        }
    }
}

/// The longest time that a node waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Milliseconds.
    AtMost(u64),
    /// Without a limit.
    Unlimited,
}

impl Wait {
    fn from_config(config: &Value, key: &str) -> Self {
        let ms = config.get(key).and_then(Value::as_u64);
        ms.map_or(Self::Unlimited, Self::AtMost)
    }
}

/// The effect of a question's timeout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expiry {
    /// The node fails.
    Fails,
    /// The node fails, and the log records that the gate got no decision.
    Undecided,
    /// The timeout counts as this decision.
    Decides {
        /// The action of the decision.
        action: ApprovalAction,
        /// The recorded answer.
        value: Value,
    },
}

/// The effect of a gate's decision that no edge routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrouted {
    /// The node completes.
    Completes,
    /// The gate asks again.
    AsksAgain,
    /// The node fails with `interrupt_rejected` and this message.
    Fails(&'static str),
}

/// An answer to a question of a control node.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// The node that asked.
    pub(crate) node: &'a PlanNode,
    /// Its open question.
    pub(crate) open: &'a OpenInterrupt,
    /// The answer.
    pub(crate) value: &'a Value,
    /// Who answers.
    pub(crate) who: Answerer<'a>,
    /// The held decision that the question is about.
    pub(crate) held: Option<&'a Held>,
}

/// The meaning of a valid answer to a control node.
pub(crate) enum Reply {
    /// The node passes it on unchanged.
    Value,
    /// A gate is decided.
    Decided(Answer),
    /// A gate has one more vote.
    Voted(Answer),
    /// A person has asked back.
    Asked,
    /// Every question is answered.
    Answers(Map<String, Value>),
    /// A held decision is carried out or, without one, rejected.
    Judged {
        /// The decision.
        decided: Option<Decided>,
        /// The answers, if a clarification asked.
        answers: Option<Map<String, Value>>,
    },
    /// A person with the right to it has granted, rejected or overridden.
    Governed(Ruling),
}

impl Reply {
    /// Whether it closes the question.
    pub(crate) fn ends_the_question(&self) -> bool {
        match self {
            Self::Voted(_) | Self::Asked => false,
            Self::Governed(ruling) => ruling.decides,
            _ => true,
        }
    }
}

/// The fixed properties of a kind of control node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// The node type id.
    pub(crate) type_id: &'static str,
    /// The noun for the node in messages.
    pub(crate) noun: &'static str,
    /// A summary for people.
    pub(crate) summary: &'static str,
    /// The config keys. An input port of the same name overrides a key, except keys that hold
    /// expressions.
    pub(crate) config_keys: &'static [ConfigKey],
    /// Keys of which the config must have one.
    pub(crate) needs: Option<OneOf>,
    /// Keys of which the config or an input should have one; without it there is a warning.
    pub(crate) expects: Option<OneOf>,
    /// Config keys that hold expressions. They are compiled with the plan, so that a mistake is
    /// reported before anything runs.
    pub(crate) expressions: &'static [&'static str],
    /// Config keys that name the channel to which it writes.
    pub(crate) channel_keys: &'static [&'static str],
    /// The output ports among which it chooses.
    pub(crate) ports: &'static [&'static str],
    /// The port of an edge that names none of them. Without one, such an edge is followed for every
    /// port.
    pub(crate) default_port: Option<&'static str>,
    /// Whether it starts child runs. It then counts against `maxParallel`, and its `budget` is a
    /// part of the run's.
    pub(crate) runs_children: bool,
    /// Whether only people with a role or a scope may answer.
    pub(crate) is_governed: bool,
}

impl Spec {
    const DEFAULT: Self = Self {
        type_id: "",
        noun: "this node",
        summary: "",
        config_keys: &[],
        needs: None,
        expects: None,
        expressions: &[],
        channel_keys: &[],
        ports: &[],
        default_port: None,
        runs_children: false,
        is_governed: false,
    };
}

/// A kind of control node: all of its rules in one file. A default is the rule of a node that asks
/// no question, chooses among no ports and touches no variable.
pub(crate) trait ControlNode: Sync {
    /// Its fixed properties.
    fn spec(&self) -> &'static Spec;

    /// The port of an edge that names none of them.
    fn unnamed_port(&self, _: &Plan, _: &PlanNode, _: EdgeIx) -> Option<&'static str> {
        self.spec().default_port
    }

    /// The names of its outputs; `None` if they are not known in advance.
    fn outputs(&self, _config: &Value) -> Option<Vec<String>> {
        None
    }

    /// The variables of the run that a config reads, each with its place in the config.
    fn reads<'c>(&self, _config: &'c Value) -> Vec<(String, &'c str)> {
        Vec::new()
    }

    /// The variables of the run that a config sets, each with its place in the config.
    fn sets<'c>(&self, _config: &'c Value) -> Vec<(String, &'c str)> {
        Vec::new()
    }

    /// Problems of the config of a new definition.
    fn check_config(&self, _: &Node) -> ConfigProblems {
        Vec::new()
    }

    /// The child runs that a config starts.
    fn children(&self, _config: &Value) -> Children {
        Children::None
    }

    /// The end of its wait for a timer. `None` means that it does not wait.
    ///
    /// # Errors
    /// `invalid_config` if an input is not a duration.
    fn due(
        &self,
        _config: &Value,
        _inputs: &Map<String, Value>,
        _now: Timestamp,
    ) -> Result<Option<Timestamp>, NodeError> {
        Ok(None)
    }

    /// The longest time that it waits for a person; `None` if it asks no person.
    fn wait(&self, _config: &Value) -> Option<Wait> {
        None
    }

    /// The origin of an output port's value that can make it sensitive.
    fn sensitivity(&self, _: &Plan, _: &PlanNode, _port: &str) -> PortSensitivity {
        PortSensitivity::Public
    }

    /// Begins a visit.
    fn begin(&self, cx: &Context<'_>) -> Began;

    /// The kind whose rules apply to a question of this node, if that is another one.
    fn asks_as(&self, _: &OpenInterrupt) -> Option<ControlKind> {
        None
    }

    /// The event that announces a question in the form of its kind, in addition to
    /// `interrupt.requested`.
    fn announcement(&self, _: &OpenInterrupt, _node: &NodeId, _visit: u32) -> Option<RunEvent> {
        None
    }

    /// Judges an answer.
    ///
    /// # Errors
    /// The answer does not fit; the question stays open.
    fn judge(&self, given: &Given<'_>) -> Result<Reply, Rejection> {
        answer::check(given)?;
        Ok(Reply::Value)
    }

    /// The effect of a decision that no edge routes.
    fn unrouted(&self, _: &Answer) -> Unrouted {
        Unrouted::Completes
    }

    /// The effect of a question's timeout.
    fn expiry(&self, _config: &Value) -> Expiry {
        Expiry::Fails
    }
}

macro_rules! control_nodes {
    ($($(#[$doc:meta])* $kind:ident => $node:expr,)+) => {
        /// A node that changes what runs next. The kernel decides its outcome; nothing is called.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ControlKind {
            $($(#[$doc])* $kind,)+
        }

        impl ControlKind {
            /// Every control kind.
            pub const ALL: [Self; [$(stringify!($kind)),+].len()] = [$(Self::$kind),+];

            /// The rules of the kind.
            pub(crate) fn node(self) -> &'static dyn ControlNode {
                match self {
                    $(Self::$kind => &$node,)+
                }
            }
        }
    };
}

control_nodes! {
    /// Waits for a time.
    Delay => delay::Delay,
    /// The head of a loop: port `body` begins a round, port `done` leaves.
    Loop => loop_head::LoopHead,
    /// Chooses among its output ports.
    Conditional => conditional::Conditional,
    /// Starts another workflow as a child run.
    SubWorkflow => sub_workflow::SubWorkflowNode,
    /// Waits for an answer from outside.
    Interrupt => interrupt::Interrupt,
    /// Waits for a decision of one or more people.
    ApprovalGate => approval::ApprovalGate,
    /// Waits for a decision of people with a role or a scope.
    GovernanceGate => governance::GovernanceGate,
    /// Waits for answers to questions.
    ClarificationGate => clarification::ClarificationGate,
    /// Writes a value to a channel.
    ChannelWrite => channel_write::ChannelWriteNode,
    /// Sets variables.
    SetVariable => set_variable::SetVariable,
    /// Reads a variable.
    GetVariable => get_variable::GetVariable,
    /// Decides which workers run next.
    Supervisor => supervisor::Supervisor,
    /// Starts the workers that a supervisor chose.
    Dispatch => dispatch::DispatchNode,
}

impl ControlKind {
    /// The control kind of a node type id, if it is one.
    pub fn parse(type_id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_id() == type_id)
    }

    /// The node type id.
    pub fn type_id(self) -> &'static str {
        self.node().spec().type_id
    }

    /// A summary of the node kind for people.
    pub fn summary(self) -> &'static str {
        self.node().spec().summary
    }

    /// The config keys of this node kind. An input port of the same name overrides a key, except
    /// keys that hold expressions.
    pub fn config_keys(self) -> &'static [ConfigKey] {
        self.node().spec().config_keys
    }
}

/// The output port of a choosing node that an edge belongs to; `None` for an edge that is followed
/// for every port.
pub(crate) fn port_of_edge(plan: &Plan, source: NodeIx, edge: EdgeIx) -> Option<&str> {
    let node = plan.node(source);
    let control = node.kind.control()?;
    let named = plan.edge(edge).source_output.as_deref();
    named
        .filter(|named| control.spec().ports.contains(named))
        .or_else(|| control.unnamed_port(plan, node, edge))
}

/// The config keys that name a variable.
const NAME_KEYS: [&str; 2] = ["name", "variableName"];

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The texts of a config at these keys, each with its place.
fn texts<'c>(config: &'c Value, keys: &[&str]) -> Vec<(String, &'c str)> {
    let text = |key: &&str| Some((format!("/{key}"), config.get(*key)?.as_str()?));
    keys.iter().filter_map(text).collect()
}

/// The names in an object of a config, each with its place.
pub(crate) fn names<'c>(config: &'c Value, of: &str) -> Vec<(String, &'c str)> {
    let fields = config.pointer(of).and_then(Value::as_object);
    let names = fields.into_iter().flat_map(|fields| fields.keys());
    names
        .map(|name| (pointer(of, name), name.as_str()))
        .collect()
}

/// Adds the problem of an answer schema.
fn with_resume_schema(mut problems: ConfigProblems, config: &Value) -> ConfigProblems {
    if let Some(Err(what)) = config.get("resumeSchema").map(|of| schema::check(of, "")) {
        problems.push(("resumeSchema", what));
    }
    problems
}

/// The sensitivity of a gate's output: the decision and its author are public.
fn sensitivity_of_gate(port: &str) -> PortSensitivity {
    match port {
        "action" | "decision" | "decidedBy" => PortSensitivity::Public,
        _ => PortSensitivity::Question,
    }
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

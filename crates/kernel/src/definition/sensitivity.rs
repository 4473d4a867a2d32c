//! What a definition declares sensitive, and what that hides.
//!
//! Three things say it: a variable's or a channel's `sensitive`, a node's `outputSensitivity`, and
//! the `complianceClass` of the whole workflow. A value is hidden where it was declared and where
//! a node of the kernel shows it again under another name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ControlKind, NodeKind, Plan, PlanNode, PortValue};
use crate::control::dispatch::Dispatch;
use crate::control::sub_workflow::SubWorkflow;
use crate::ids::NodeId;

/// The class that asks for nothing.
const PUBLIC: &str = "public";

/// What a plan says of its values as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensitivity {
    /// The compliance class, where the definition has one.
    pub class: Option<String>,
    /// Whether anything in it is sensitive.
    pub any: bool,
}

impl Sensitivity {
    /// What a plan says that was just made, but for its class.
    pub(super) fn of(plan: &Plan, class: Option<String>) -> Self {
        let any = class.as_deref().is_some_and(|class| class != PUBLIC)
            || plan.variables.iter().any(|variable| variable.sensitive)
            || plan.channels.values().any(|channel| channel.sensitive)
            || plan.nodes.iter().any(PlanNode::declares_sensitive);
        Self { class, any }
    }
}

impl PlanNode {
    /// Whether any of its output ports is declared sensitive.
    pub fn declares_sensitive(&self) -> bool {
        self.output_sensitivity.values().any(|is| *is)
    }

    /// Whether an output port is declared sensitive.
    pub fn declares_port_sensitive(&self, port: &str) -> bool {
        self.output_sensitivity.get(port).copied().unwrap_or(false)
    }

    fn config_text(&self, keys: [&str; 2]) -> Option<&str> {
        keys.iter().find_map(|key| self.config.get(key)?.as_str())
    }
}

/// Where a value stands: at an output port, or an input port.
#[derive(Clone, Copy)]
enum Place<'p> {
    Port(&'p PlanNode, &'p str),
    Input(&'p PlanNode, &'p str),
}

impl<'p> Place<'p> {
    fn name(self) -> (bool, &'p str, &'p str) {
        match self {
            Self::Port(node, port) => (false, node.id.as_str(), port),
            Self::Input(node, port) => (true, node.id.as_str(), port),
        }
    }
}

impl Plan {
    /// Whether every value of a run is sensitive, by the class of its workflow.
    pub fn hides_all(&self) -> bool {
        let class = self.sensitivity.class.as_deref();
        class.is_some_and(|class| class != PUBLIC)
    }

    /// Whether a variable is hidden. An input is a variable's first value.
    pub fn hides_variable(&self, name: &str) -> bool {
        self.hides_all() || self.declares_variable_sensitive(name)
    }

    /// Whether a variable itself is declared sensitive.
    pub fn declares_variable_sensitive(&self, name: &str) -> bool {
        let mut variables = self.variables.iter();
        variables.any(|variable| variable.sensitive && variable.name == name)
    }

    /// Whether a channel is hidden. It may be kept in a variable of the same name.
    pub fn hides_channel(&self, name: &str) -> bool {
        self.hides_all() || self.declares_channel_sensitive(name)
    }

    /// Whether a channel itself, or the variable it is kept in, is declared sensitive.
    pub fn declares_channel_sensitive(&self, name: &str) -> bool {
        let declared = self.channels.get(name);
        declared.is_some_and(|channel| channel.sensitive) || self.declares_variable_sensitive(name)
    }

    /// Whether an output port of a node is hidden: declared, or what a node of the kernel puts
    /// there again of a variable or channel that is, or of what it is given.
    pub fn hides_port<'p>(&'p self, node: &'p PlanNode, port: &'p str) -> bool {
        self.hides(vec![Place::Port(node, port)])
    }

    /// Whether an input port of a node is hidden: it is given what is hidden elsewhere.
    pub fn hides_input<'p>(&'p self, node: &'p PlanNode, port: &'p str) -> bool {
        self.hides(vec![Place::Input(node, port)])
    }

    /// Whether any of these places is hidden, or is given what is. Each is looked at once, however
    /// many ways lead there, and loops lead back.
    fn hides<'p>(&'p self, mut places: Vec<Place<'p>>) -> bool {
        if self.hides_all() {
            return true;
        }
        let mut seen = BTreeSet::new();
        while let Some(place) = places.pop() {
            if !seen.insert(place.name()) {
                continue;
            }
            let is_hidden = match place {
                Place::Port(node, port) => self.port(node, port, &mut places),
                Place::Input(node, port) => self.input(node, port, &mut places),
            };
            if is_hidden {
                return true;
            }
        }
        false
    }

    /// Whether an output port is hidden by itself; `more` is where it comes from else.
    fn port<'p>(&'p self, node: &'p PlanNode, port: &'p str, more: &mut Vec<Place<'p>>) -> bool {
        if node.declares_port_sensitive(port) {
            return true;
        }
        match node.kind {
            NodeKind::Control(ControlKind::SetVariable) => self.hides_variable(port),
            NodeKind::Control(ControlKind::ChannelWrite) => node
                .config_text(["channel", "channelName"])
                .is_some_and(|channel| self.hides_channel(channel)),
            NodeKind::Control(ControlKind::GetVariable) => {
                match node.config_text(["name", "variableName"]) {
                    Some(name) => self.hides_variable(name),
                    // Which one it reads is only known when it does.
                    None => self.variables.iter().any(|variable| variable.sensitive),
                }
            }
            // They give on what they ask about, and what was answered to it.
            NodeKind::Control(
                ControlKind::Interrupt
                | ControlKind::ApprovalGate
                | ControlKind::ClarificationGate
                | ControlKind::GovernanceGate,
            ) => {
                if !matches!(port, "action" | "decision" | "decidedBy") {
                    more.extend(self.asked_about(node));
                }
                false
            }
            NodeKind::Control(ControlKind::Supervisor) => {
                if port == "decision" {
                    more.push(Place::Input(node, "decision"));
                }
                false
            }
            NodeKind::Control(ControlKind::Dispatch) => {
                if port == "answers" {
                    more.extend(self.asked_about(node));
                }
                false
            }
            _ => false,
        }
    }

    /// Whether an input port is given what is hidden by itself; `more` is where it comes from else.
    fn input<'p>(&'p self, node: &'p PlanNode, port: &'p str, more: &mut Vec<Place<'p>>) -> bool {
        let given = node.inputs.iter().find(|(name, _)| name == port);
        match given.map(|(_, given)| given) {
            Some(PortValue::Variable { name, .. }) => self.hides_variable(name),
            Some(PortValue::Connection { node, output, .. }) => {
                more.push(Place::Port(self.node(*node), output));
                false
            }
            Some(PortValue::Expression(expression)) => {
                let read = expression.references();
                let of_node = |id: &String| {
                    let node = self.node_ix(id).map(|ix| self.node(ix));
                    node.is_some_and(PlanNode::declares_sensitive)
                };
                read.variables.iter().any(|name| self.hides_variable(name))
                    || read.nodes.iter().any(of_node)
                    || read.roots.contains("channels")
                        && self.channels.values().any(|channel| channel.sensitive)
            }
            Some(PortValue::Static(_)) | None => false,
        }
    }

    /// What a node of the kernel asks somebody about. What a dispatch asks, a supervisor has decided.
    fn asked_about<'p>(&'p self, node: &'p PlanNode) -> Vec<Place<'p>> {
        let given = |node: &'p PlanNode| {
            let inputs = node.inputs.iter();
            inputs.map(move |(port, _)| Place::Input(node, port))
        };
        match node.kind {
            NodeKind::Control(ControlKind::Dispatch) => {
                let is_boss =
                    |node: &&PlanNode| node.kind == NodeKind::Control(ControlKind::Supervisor);
                self.nodes.iter().filter(is_boss).flat_map(given).collect()
            }
            NodeKind::Control(_) => given(node).collect(),
            NodeKind::Work => Vec::new(),
        }
    }

    /// Whether what a node says while it works, and what is answered to it, is hidden: it makes
    /// something sensitive of it.
    pub fn hides_talk(&self, node: &NodeId) -> bool {
        let node = self.node_ix(node.as_str()).map(|ix| self.node(ix));
        self.hides_all() || node.is_some_and(PlanNode::declares_sensitive)
    }

    /// Whether what is answered to a node is hidden: what it says is, or it asks about something
    /// that is.
    pub fn hides_answers(&self, id: &NodeId) -> bool {
        let node = self.node_ix(id.as_str()).map(|ix| self.node(ix));
        let about = node.map(|node| self.asked_about(node)).unwrap_or_default();
        self.hides_talk(id) || self.hides(about)
    }

    /// Whether what a supervisor decides is hidden beyond who goes next.
    pub fn hides_decision(&self, id: &NodeId) -> bool {
        self.hides_answers(id)
    }

    /// Whether what comes by a signal is hidden: it may be the answer to a node of which it is.
    pub fn hides_signals(&self) -> bool {
        self.hides_all() || self.nodes.iter().any(|node| self.hides_answers(&node.id))
    }

    /// Whether what a child is given by a name is hidden: it is the value of a variable that is.
    pub fn hides_of_parent(&self, node: &NodeId, worker: &str, name: &str) -> bool {
        let Some(node) = self.node_ix(node.as_str()).map(|ix| self.node(ix)) else {
            return self.hides_all();
        };
        let config = match node.kind {
            NodeKind::Control(ControlKind::Dispatch) => Dispatch(&node.config).worker(worker),
            _ => SubWorkflow::of(&node.config),
        };
        let parent = config.parent_of(name);
        self.hides_all() || parent.is_some_and(|parent| self.hides_variable(parent))
    }

    /// Whether a variable of a child is hidden: this workflow keeps it in one of its own that is.
    pub fn hides_of_child(&self, name: &str) -> bool {
        self.hides_all() || self.declares_of_child_sensitive(name)
    }

    /// Whether this workflow keeps a variable of a child in one of its own that is declared
    /// sensitive.
    pub fn declares_of_child_sensitive(&self, name: &str) -> bool {
        let keeps = |config: &Value| {
            let mapped = SubWorkflow::of(config);
            let mut parents = mapped.parents_of(name);
            parents.any(|parent| self.declares_variable_sensitive(parent))
        };
        let keeps = |node: &PlanNode| match node.kind {
            NodeKind::Control(ControlKind::SubWorkflow) => keeps(&node.config),
            NodeKind::Control(ControlKind::Dispatch) => {
                let own = node.config.get("perWorkerOutputMappings");
                let own = own.and_then(Value::as_object).into_iter().flatten();
                let mut own = own.map(|(_, mapping)| json!({ "outputMapping": mapping }));
                keeps(&node.config) || own.any(|config| keeps(&config))
            }
            _ => false,
        };
        self.declares_variable_sensitive(name) || self.nodes.iter().any(keeps)
    }
}

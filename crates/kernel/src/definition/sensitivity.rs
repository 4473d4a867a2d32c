//! Sensitive values of a definition, and where they are hidden.
//!
//! Three declarations make values sensitive: a variable's or a channel's `sensitive`, a node's
//! `outputSensitivity`, and the `complianceClass` of the whole workflow. A value is hidden where it
//! is declared and where a control node passes it on under another name.

use std::collections::{BTreeMap, BTreeSet};

use super::{ControlKind, NodeKind, Plan, PlanNode, PortValue};
use crate::control::PortSensitivity;
use crate::control::sub_workflow::{Mapping, parents_of};
use crate::ids::NodeId;

/// The class that demands nothing.
const PUBLIC: &str = "public";

/// Sensitivity of a plan as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensitivity {
    /// The compliance class, where the definition has one.
    pub class: Option<String>,
    /// Whether anything in it is sensitive.
    pub any: bool,
    /// The nodes whose questions contain hidden values. Empty with a compliance class, which hides
    /// everything.
    asking: BTreeSet<NodeId>,
}

impl Sensitivity {
    /// Computes the sensitivity of a new plan.
    pub(super) fn from_plan(plan: &Plan, class: Option<String>) -> Self {
        let is_classed = class.as_deref().is_some_and(|class| class != PUBLIC);
        let declares = plan.variables.iter().any(|variable| variable.sensitive)
            || plan.channels.values().any(|channel| channel.sensitive)
            || plan.nodes.iter().any(PlanNode::declares_sensitive);
        Self {
            class,
            any: is_classed || declares,
            asking: if declares && !is_classed {
                plan.asking()
            } else {
                BTreeSet::new()
            },
        }
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

    pub(crate) fn config_text(&self, keys: [&str; 2]) -> Option<&str> {
        keys.iter().find_map(|key| self.config.get(key)?.as_str())
    }
}

/// A place that may hold a hidden value.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// At an output port.
    Port(&'p PlanNode, &'p str),
    /// At an input port.
    Input(&'p PlanNode, &'p str),
    /// In the question of a node.
    Asked(&'p PlanNode),
    /// In a supervisor's decision.
    Decided,
}

/// The unique name of a place.
type PlaceName<'p> = (u8, &'p str, &'p str);

impl<'p> Place<'p> {
    fn name(self) -> PlaceName<'p> {
        match self {
            Self::Port(node, port) => (0, node.id.as_str(), port),
            Self::Input(node, port) => (1, node.id.as_str(), port),
            Self::Asked(node) => (2, node.id.as_str(), ""),
            Self::Decided => (3, "", ""),
        }
    }
}

impl Plan {
    /// Whether every value of a run is sensitive, by the class of its workflow.
    pub fn hides_all(&self) -> bool {
        let class = self.sensitivity.class.as_deref();
        class.is_some_and(|class| class != PUBLIC)
    }

    /// Whether a variable is hidden. An input is a variable's initial value.
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

    /// Whether a channel, or the variable it is kept in, is declared sensitive.
    pub fn declares_channel_sensitive(&self, name: &str) -> bool {
        let declared = self.channels.get(name);
        declared.is_some_and(|channel| channel.sensitive) || self.declares_variable_sensitive(name)
    }

    /// Whether an output port of a node is hidden: it is declared so, or a control node passes on a
    /// hidden variable, channel or input there.
    pub fn hides_port<'p>(&'p self, node: &'p PlanNode, port: &'p str) -> bool {
        self.hides(vec![Place::Port(node, port)])
    }

    /// Whether an input port of a node is hidden: its value is hidden elsewhere.
    pub fn hides_input<'p>(&'p self, node: &'p PlanNode, port: &'p str) -> bool {
        self.hides(vec![Place::Input(node, port)])
    }

    /// Whether any of these places is hidden or receives a hidden value. Each place is visited
    /// once, even with many paths and loops.
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
                Place::Asked(node) => self.asks_about_hidden(&node.id),
                place => self.is_hidden(place, &mut places),
            };
            if is_hidden {
                return true;
            }
        }
        false
    }

    /// Whether a place itself is hidden; adds the sources of its value to `more`.
    fn is_hidden<'p>(&'p self, place: Place<'p>, more: &mut Vec<Place<'p>>) -> bool {
        match place {
            Place::Port(node, port) => return self.port(node, port, more),
            Place::Input(node, port) => return self.input(node, port, more),
            Place::Asked(node) => self.asked(node, more),
            Place::Decided => {
                let is_boss =
                    |node: &&PlanNode| node.kind == NodeKind::Control(ControlKind::Supervisor);
                more.extend(self.nodes.iter().filter(is_boss).map(Place::Asked));
            }
        }
        false
    }

    /// Whether an output port itself is hidden; adds the sources of its value to `more`.
    fn port<'p>(&'p self, node: &'p PlanNode, port: &'p str, more: &mut Vec<Place<'p>>) -> bool {
        if node.declares_port_sensitive(port) {
            return true;
        }
        let Some(control) = node.kind.control() else {
            return false;
        };
        match control.sensitivity(self, node, port) {
            PortSensitivity::Public => {}
            PortSensitivity::Hidden => return true,
            PortSensitivity::Question => more.push(Place::Asked(node)),
            PortSensitivity::Input(name) => more.push(Place::Input(node, name)),
        }
        false
    }

    /// Whether an input port receives a value that itself is hidden; adds other sources to `more`.
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
                let nodes = read.nodes.iter();
                let nodes = nodes.filter_map(|id| Some(self.node(self.node_ix(id)?)));
                // Hidden values that a gate passes on are not sealed: an expression can read them.
                more.extend(nodes.clone().map(Place::Asked));
                read.variables.iter().any(|name| self.hides_variable(name))
                    || nodes.clone().any(PlanNode::declares_sensitive)
                    || read.roots.contains("channels")
                        && self.channels.values().any(|channel| channel.sensitive)
            }
            Some(PortValue::Static(_)) | None => false,
        }
    }

    /// Pushes the data of a control node's question. A dispatch asks the question that a supervisor
    /// decided.
    fn asked<'p>(&'p self, node: &'p PlanNode, more: &mut Vec<Place<'p>>) {
        match node.kind {
            NodeKind::Control(ControlKind::Dispatch) => more.push(Place::Decided),
            NodeKind::Control(_) => {
                let inputs = node.inputs.iter();
                more.extend(inputs.map(|(port, _)| Place::Input(node, port)));
            }
            NodeKind::Work => {}
        }
    }

    /// The nodes whose questions contain hidden values. Each place is visited once, even with many
    /// paths and loops.
    fn asking(&self) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut given_on: BTreeMap<PlaceName<'_>, Vec<Place<'_>>> = BTreeMap::new();
        let mut hidden = Vec::new();
        let mut places: Vec<Place<'_>> = self.nodes.iter().map(Place::Asked).collect();
        while let Some(place) = places.pop() {
            if !seen.insert(place.name()) {
                continue;
            }
            let mut from = Vec::new();
            if self.is_hidden(place, &mut from) {
                hidden.push(place);
            }
            for from in from {
                given_on.entry(from.name()).or_default().push(place);
                places.push(from);
            }
        }
        while let Some(place) = hidden.pop() {
            if let Place::Asked(node) = place {
                found.insert(node.id.clone());
            }
            // Removed, because a place is hidden once.
            hidden.extend(given_on.remove(&place.name()).into_iter().flatten());
        }
        found
    }

    /// Whether the question of a node contains hidden values.
    fn asks_about_hidden(&self, node: &NodeId) -> bool {
        self.hides_all() || self.sensitivity.asking.contains(node)
    }

    /// Whether a node's reports during its work, and the answers to it, are hidden: it produces a
    /// sensitive output.
    pub fn hides_talk(&self, node: &NodeId) -> bool {
        let node = self.node_ix(node.as_str()).map(|ix| self.node(ix));
        self.hides_all() || node.is_some_and(PlanNode::declares_sensitive)
    }

    /// Whether the answers to a node are hidden: its reports are, or its question contains hidden
    /// values.
    pub fn hides_answers(&self, id: &NodeId) -> bool {
        self.hides_talk(id) || self.asks_about_hidden(id)
    }

    /// Whether a supervisor's decision is hidden except for its next workers.
    pub fn hides_decision(&self, id: &NodeId) -> bool {
        self.hides_answers(id)
    }

    /// Whether the data of a signal is hidden: it may be the answer to a node with hidden answers.
    pub fn hides_signals(&self) -> bool {
        self.hides_all()
            || !self.sensitivity.asking.is_empty()
            || self.nodes.iter().any(PlanNode::declares_sensitive)
    }

    /// The names by which a child receives values of hidden variables. `None` if all are hidden.
    pub fn hidden_of_parent(&self, node: &NodeId, worker: &str) -> Option<BTreeSet<String>> {
        if self.hides_all() {
            return None;
        }
        let sensitive = self.variables.iter().filter(|variable| variable.sensitive);
        let sensitive: BTreeSet<&str> = sensitive.map(|variable| &*variable.name).collect();
        let node = self.node_ix(node.as_str()).map(|ix| self.node(ix));
        let Some(node) = node.filter(|_| !sensitive.is_empty()) else {
            return Some(BTreeSet::new());
        };
        let given = node.worker(worker).into_iter();
        let given = given.flat_map(|child| child.input_mapping);
        let hidden = given.filter(|(_, from)| sensitive.contains(from.as_str()));
        Some(hidden.map(|(to, _)| to).collect())
    }

    /// Whether a variable of a child is hidden: this workflow keeps it in a hidden variable.
    pub fn hides_of_child(&self, name: &str) -> bool {
        self.hides_all() || self.declares_of_child_sensitive(name)
    }

    /// Whether this workflow keeps a variable of a child in a variable that is declared sensitive.
    pub fn declares_of_child_sensitive(&self, name: &str) -> bool {
        let is_kept = |mapping: &Mapping| {
            let mut parents = parents_of(mapping, name);
            parents.any(|parent| self.declares_variable_sensitive(parent))
        };
        self.declares_variable_sensitive(name)
            || self.nodes.iter().any(|node| match node.dispatch() {
                Some(dispatch) => dispatch.output_mappings().any(is_kept),
                None => node
                    .child()
                    .is_some_and(|child| is_kept(&child.output_mapping)),
            })
    }
}

//! Required configs of control nodes, and the ports of their edges.
//!
//! OpenWOP leaves configs open, so an unknown key is a warning, unless it resembles a known one. A
//! config that makes the node's work impossible is a problem.

use serde_json::Value;

use super::Compiler;
use crate::control::ControlKind;
use crate::definition::config_keys::ConfigKey;
use crate::definition::document::{Edge, Node, Port};
use crate::definition::fitting::misfit;
use crate::definition::plan::NodeIx;
use crate::problem::{Path, ProblemCode, closest, instead, quoted};

/// A conditional's output that is its result as a boolean; an edge from it is followed for both
/// results.
const RESULT: &str = "result";
/// OpenWOP's default source port of an edge.
const OUTPUT: &str = "output";
/// OpenWOP's default target port of an edge.
const INPUT: &str = "input";

impl Compiler<'_> {
    /// Checks the config of a control node.
    pub(super) fn control_config(&mut self, node_path: &Path<'_>, node: &Node, kind: ControlKind) {
        let path = Path::Key(node_path, "config");
        let known: Vec<&ConfigKey> = kind.config_keys().iter().collect();
        for (key, value) in node.config.as_object().into_iter().flatten() {
            let read = known
                .iter()
                .find(|known| known.names().any(|name| name == key));
            match read {
                Some(read) => self.config_value(&path, key, read, value),
                None => self.unread_key(&path, key, node, kind),
            }
        }
        // A value at a port replaces the one of the config.
        let inputs = Path::Key(node_path, "inputs");
        for (port, value) in &node.inputs {
            let read = known
                .iter()
                .find(|known| known.names().any(|name| name == port));
            if let (Some(read), Port::Static(value)) = (read, value) {
                self.config_value(&Path::Key(&inputs, port), "value", read, value);
            }
        }
        self.lacks(&path, node, kind);
        self.config_variables(&path, node, kind);
    }

    fn config_value(&mut self, path: &Path<'_>, key: &str, read: &ConfigKey, value: &Value) {
        if let Some((code, message)) = misfit(read.takes, value) {
            let path = Path::Key(path, key);
            self.checked.insert(path.pointer());
            self.problem(&path, code, message);
        }
    }

    fn unread_key(&mut self, path: &Path<'_>, key: &str, node: &Node, kind: ControlKind) {
        let names: Vec<&str> = kind
            .config_keys()
            .iter()
            .flat_map(ConfigKey::names)
            .collect();
        let free = names.iter().copied();
        let meant = closest(key, free.filter(|name| node.config.get(name).is_none()));
        let (path, shown) = (Path::Key(path, key), quoted(key));
        match meant {
            Some(meant) => {
                let message = format!("the field {shown} is not read; did you mean `{meant}`?");
                self.problem(&path, ProblemCode::UnknownField, message);
            }
            // The data of a question may contain more than the engine reads.
            None if kind.node().wait(&node.config).is_some() => {}
            None => {
                let names = listed(&names);
                let message = format!("the field {shown} is not read; this node reads {names}");
                self.warnings
                    .add(path.pointer(), ProblemCode::UnknownField, message);
            }
        }
    }

    /// Checks that a node has all required config keys.
    fn lacks(&mut self, path: &Path<'_>, node: &Node, kind: ControlKind) {
        let in_config = |key: &&str| node.config.get(*key).is_some();
        let is_given =
            |key: &&str| in_config(key) || node.inputs.iter().any(|(port, _)| port == *key);
        if let Some((keys, message)) = kind.node().spec().needs {
            if !keys.iter().any(in_config) {
                self.problem(path, ProblemCode::MissingField, message);
            }
        } else if let Some((keys, message)) = kind.node().spec().expects
            && !keys.iter().any(is_given)
        {
            self.warnings
                .add(path.pointer(), ProblemCode::MissingField, message);
        }
    }

    /// Checks the variables of this run that a config reads.
    fn config_variables(&mut self, path: &Path<'_>, node: &Node, kind: ControlKind) {
        for (place, name) in kind.node().reads(&node.config) {
            // A child run may be given variables that it does not declare.
            if !self.may_exist(name) {
                let message = self.unknown_variable(name);
                let place = path.pointer() + &place;
                self.warnings
                    .add(place, ProblemCode::UnknownReference, message);
            }
        }
        // A run may set variables that are not declared, but rarely one with nearly the name of a
        // declared one.
        for (place, name) in kind.node().sets(&node.config) {
            let declared = self.variables.iter().copied();
            if !self.variables.contains(name) && closest(name, declared).is_some() {
                let message = self.unknown_variable(name);
                let place = path.pointer() + &place;
                self.warnings
                    .add(place, ProblemCode::UnknownReference, message);
            }
        }
    }

    /// Checks the source port of an edge.
    pub(super) fn port_of_edge(&mut self, path: &Path<'_>, edge: &Edge, source: NodeIx) {
        let definition = self.definition;
        let node = &definition.nodes[source.index()];
        let Some(kind) = ControlKind::parse(&node.type_id) else {
            let outputs = self.types.outputs(&node.type_id, &node.config);
            self.port_of_work(path, edge, node, outputs);
            return;
        };
        let ports = kind.node().spec().ports;
        let place = Path::Key(path, "sourceOutput");
        match (&edge.source_output, kind) {
            // A loop's ports are checked with its body.
            (_, ControlKind::Loop) => {}
            (Some(port), _) if ports.contains(&port.as_str()) => {}
            (Some(port), ControlKind::Conditional) if port == RESULT => {}
            (None, ControlKind::Conditional) => {
                let message = format!(
                    "is followed for both results of the conditional; set `sourceOutput` to {} to \
                     follow it for one",
                    listed(ports)
                );
                self.warnings
                    .add(path.pointer(), ProblemCode::MissingField, message);
            }
            (None, _) => {}
            (Some(port), _) if ports.is_empty() => {
                let outputs = kind.node().outputs(&node.config);
                if port != OUTPUT {
                    self.port_of_work(path, edge, node, outputs.or(Some(Vec::new())));
                }
            }
            (Some(port), kind) if port == OUTPUT && kind != ControlKind::Conditional => {}
            (Some(port), _) => {
                let what = kind.node().spec().noun;
                let hint = match closest(port, ports.iter().copied()) {
                    Some(meant) => format!("; did you mean `{meant}`?"),
                    None => String::new(),
                };
                let message = format!(
                    "{what} has no port {}; it leaves by {}{hint}",
                    quoted(port),
                    listed(ports)
                );
                self.problem(&place, ProblemCode::InvalidValue, message);
            }
        }
    }

    /// Rejects a port of a node that does not choose among ports: all of its edges are followed.
    fn port_of_work(
        &mut self,
        path: &Path<'_>,
        edge: &Edge,
        node: &Node,
        outputs: Option<Vec<String>>,
    ) {
        let Some(port) = edge.source_output.as_deref().filter(|port| *port != OUTPUT) else {
            return;
        };
        if outputs.is_none_or(|outputs| outputs.iter().any(|output| output == port)) {
            return;
        }
        let message = format!(
            "node {} has no port {}: each edge from it is followed when it completes; remove \
             `sourceOutput`, or give the edge a `condition`",
            quoted(node.id.as_str()),
            quoted(port)
        );
        let place = Path::Key(path, "sourceOutput");
        self.problem(&place, ProblemCode::InvalidValue, message);
    }

    /// Warns of an edge to an input that its target does not have: edges carry no values.
    pub(super) fn input_of_edge(&mut self, path: &Path<'_>, edge: &Edge, target: NodeIx) {
        let definition = self.definition;
        let node = &definition.nodes[target.index()];
        let Some(port) = edge.target_input.as_deref().filter(|port| *port != INPUT) else {
            return;
        };
        if node.inputs.iter().any(|(name, _)| name == port) {
            return;
        }
        let names = node.inputs.iter().map(|(name, _)| name.as_str());
        let hint = instead(port, names).map_or(String::new(), |hint| format!("; {hint}"));
        let message = format!(
            "node {} has no input {}, and an edge gives no value: bind it in the node's \
             `inputs`{hint}",
            quoted(node.id.as_str()),
            quoted(port)
        );
        let place = Path::Key(path, "targetInput").pointer();
        self.warnings
            .add(place, ProblemCode::UnknownReference, message);
    }
}

fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
        None => String::new(),
    }
}

//! What the configs of control nodes must say, and the ports that edges leave them by.
//!
//! OpenWOP leaves configs open, so a key nobody reads is a warning; a node that could not do
//! anything at all is a problem.

use serde_json::Value;

use super::Compiler;
use crate::control;
use crate::definition::config_keys::ConfigKey;
use crate::definition::control::ControlKind;
use crate::definition::document::{Edge, Node};
use crate::definition::plan::{NodeIx, NodeKind};
use crate::problem::{Path, ProblemCode, closest, quoted};

/// The output of a conditional that tells both ways, and the edge by it is followed either way.
const RESULT: &str = "result";

/// The config keys a kind reads. `None` where a key nobody reads is no mistake: what is asked
/// goes to people, who may be told more than an engine reads.
fn keys(kind: ControlKind) -> Option<Vec<&'static str>> {
    matches!(
        kind,
        ControlKind::Delay
            | ControlKind::Conditional
            | ControlKind::SetVariable
            | ControlKind::Loop
    )
    .then(|| {
        let keys = kind.config_keys().iter();
        keys.flat_map(ConfigKey::names).collect()
    })
}

impl Compiler<'_> {
    /// Checks the config of a control node.
    pub(super) fn control_config(&mut self, node_path: &Path<'_>, node: &Node, kind: ControlKind) {
        let path = Path::Key(node_path, "config");
        let has = |key: &str| node.config.get(key).is_some();
        let is_given = |key: &str| has(key) || node.inputs.iter().any(|(port, _)| port == key);
        let Some(known) = keys(kind) else { return };
        for key in node
            .config
            .as_object()
            .into_iter()
            .flat_map(|map| map.keys())
        {
            if known.contains(&key.as_str()) {
                continue;
            }
            let free = known.iter().copied().filter(|known| !has(known));
            let shown = quoted(key);
            let message = match closest(key, free) {
                Some(meant) => format!("the field {shown} is not read; did you mean `{meant}`?"),
                None => format!(
                    "the field {shown} is not read; this node reads {}",
                    listed(&known)
                ),
            };
            let path = Path::Key(&path, key);
            self.warnings
                .add(path.pointer(), ProblemCode::UnknownField, message);
        }
        let texts = |keys: &[&str]| {
            keys.iter()
                .any(|key| node.config.get(key).is_some_and(Value::is_string))
        };
        let lacks = match kind {
            ControlKind::Conditional if !texts(&["expression", "condition"]) => {
                "needs `expression`, a text that comes to true or false"
            }
            ControlKind::SetVariable
                if !["name", "variableName", "variables"]
                    .iter()
                    .any(|key| has(key)) =>
            {
                "needs `name` with `value` or `expression`, or `variables`"
            }
            ControlKind::Delay if !known.iter().any(|key| is_given(key)) => {
                let message = "waits for no time: set `ms`, or an input `delayMs`";
                self.warnings
                    .add(path.pointer(), ProblemCode::MissingField, message);
                return;
            }
            ControlKind::Loop
                if !["times", "items", "while", "condition", "until"]
                    .iter()
                    .any(|key| is_given(key)) =>
            {
                let message =
                    "fails when it is reached: it needs one of `times`, `items`, `while`, `until`";
                self.warnings
                    .add(path.pointer(), ProblemCode::MissingField, message);
                return;
            }
            _ => return,
        };
        self.problem(&path, ProblemCode::MissingField, lacks.to_owned());
    }

    /// Checks the port an edge leaves a conditional by.
    pub(super) fn port_of_edge(&mut self, path: &Path<'_>, edge: &Edge, source: NodeIx) {
        let node = &self.definition.nodes[source.index()];
        let kind = ControlKind::of(&node.type_id);
        if kind != Some(ControlKind::Conditional) {
            return;
        }
        let ports = control::ports(NodeKind::Control(ControlKind::Conditional));
        match &edge.source_output {
            Some(port) if ports.contains(&port.as_str()) || port == RESULT => {}
            Some(port) => {
                let message = format!(
                    "a conditional has no port {}; it leaves by {}",
                    quoted(port),
                    listed(ports)
                );
                let path = Path::Key(path, "sourceOutput");
                self.problem(&path, ProblemCode::InvalidValue, message);
            }
            None => {
                let message = format!(
                    "is followed whichever way the conditional goes; set `sourceOutput` to {} \
                     if that is not meant",
                    listed(ports)
                );
                self.warnings
                    .add(path.pointer(), ProblemCode::MissingField, message);
            }
        }
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

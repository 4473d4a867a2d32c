//! What the parts of a definition refer to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Compiler, ExpressionKind, UnknownTypes, mapped_variables};
use crate::definition::age::Age;
use crate::definition::control::ControlKind;
use crate::definition::document::Definition;
use crate::definition::plan::{NodeIx, NodeKind};
use crate::expr::{ExprError, Expression};
use crate::ids::NodeId;
use crate::limits::MAX_EXPRESSIONS_BYTES;
use crate::problem::{Path, Problem, ProblemCode, closest, quoted};

/// Names of variables that nodes write without a declaration, as far as their configs tell.
pub(super) fn written_variables(definition: &Definition) -> BTreeSet<&str> {
    let mut written = BTreeSet::new();
    for node in &definition.nodes {
        let object = |key| {
            node.config
                .get(key)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
        };
        let texts = |keys: &[&str]| {
            keys.iter()
                .filter_map(|key| node.config.get(key)?.as_str())
                .collect::<Vec<_>>()
        };
        // A node's result may be kept under its own id.
        written.insert(node.id.as_str());
        written.extend(
            mapped_variables(&node.config)
                .into_iter()
                .map(|(_, name)| name),
        );
        match ControlKind::of(&node.type_id) {
            Some(ControlKind::SetVariable) => {
                written.extend(object("variables").map(|(name, _)| name.as_str()));
                written.extend(texts(&["name", "variableName"]));
            }
            Some(ControlKind::ChannelWrite) => written.extend(texts(&CHANNEL_KEYS)),
            _ => {}
        }
        if node.type_id == "core.identity" {
            written.extend(node.inputs.iter().map(|(port, _)| port.as_str()));
        }
    }
    written
}

/// The keys under which a node's config may hold an expression. They are compiled with the plan,
/// so that a mistake shows before anything runs.
pub(super) fn expression_keys(kind: NodeKind) -> &'static [&'static str] {
    match kind {
        NodeKind::Control(ControlKind::Conditional) => &["expression", "condition"],
        NodeKind::Control(ControlKind::Loop) => &["items", "while", "condition", "until"],
        NodeKind::Control(ControlKind::SetVariable | ControlKind::ChannelWrite) => &["expression"],
        _ => &[],
    }
}

/// The keys under which a `core.channelWrite` names its channel.
pub(in crate::definition) const CHANNEL_KEYS: [&str; 2] = ["channel", "channelName"];

impl<'d> Compiler<'d> {
    pub(super) fn problem(
        &mut self,
        path: &Path<'_>,
        code: ProblemCode,
        message: impl Into<String>,
    ) {
        self.problems.add(path.pointer(), code, message);
    }

    /// As [`Compiler::problem`], of a rule that what was stored before is not held to.
    pub(super) fn rule(&mut self, path: &Path<'_>, code: ProblemCode, message: impl Into<String>) {
        if self.age == Age::New {
            self.problem(path, code, message);
        }
    }

    pub(super) fn index_nodes(&mut self) {
        for (index, node) in self.definition.nodes.iter().enumerate() {
            // What had no readable id was reported already.
            if !node.id.as_str().is_empty() {
                self.by_id
                    .entry(node.id.clone())
                    .or_insert(NodeIx(index as u32));
            }
        }
    }

    pub(super) fn check_unique(&mut self) {
        let definition = self.definition;
        self.unique(
            "nodes",
            "id",
            definition.nodes.iter().map(|node| node.id.as_str()),
        );
        self.unique(
            "edges",
            "id",
            definition.edges.iter().map(|edge| edge.id.as_str()),
        );
        self.unique(
            "triggers",
            "id",
            definition.triggers.iter().map(|t| t.id.as_str()),
        );
        self.unique(
            "variables",
            "name",
            definition.variables.iter().map(|v| v.name.as_str()),
        );
    }

    pub(super) fn unique(&mut self, list: &str, field: &str, names: impl Iterator<Item = &'d str>) {
        let list = Path::Key(&Path::Root, list);
        let mut seen = BTreeMap::new();
        for (index, name) in names.enumerate().filter(|(_, name)| !name.is_empty()) {
            let first = *seen.entry(name).or_insert(index);
            if first != index {
                let at = Path::Index(&list, index);
                let message = format!(
                    "{} is already the {field} of {}; choose another one",
                    quoted(name),
                    Path::Index(&list, first).pointer()
                );
                self.problem(&Path::Key(&at, field), ProblemCode::DuplicateId, message);
            }
        }
    }

    /// The node of an id. When some node has no readable id, an unknown one may be that.
    pub(super) fn node_ref(&mut self, path: &Path<'_>, id: &str) -> Option<NodeIx> {
        if let Some(&ix) = self.by_id.get(id) {
            return Some(ix);
        }
        let complete = !self.definition.nodes.is_empty()
            && self
                .definition
                .nodes
                .iter()
                .all(|node| !node.id.as_str().is_empty());
        if complete && !id.is_empty() {
            let hint = match closest(id, self.by_id.keys().map(NodeId::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "add it, or name another one".to_owned(),
            };
            let message = format!("there is no node {}; {hint}", quoted(id));
            self.problem(path, ProblemCode::UnknownReference, message);
        }
        None
    }

    pub(super) fn unknown_type(&mut self, path: &Path<'_>, type_id: &str) {
        if type_id.is_empty() {
            return;
        }
        let types = self.types.type_ids();
        let mut known: Vec<&str> = types.iter().map(String::as_str).collect();
        known.extend(ControlKind::ALL.map(ControlKind::type_id));
        let hint = match closest(type_id, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "use one that this engine has".to_owned(),
        };
        let message = format!("there is no node type {}; {hint}", quoted(type_id));
        let problem = Problem::new(path.pointer(), ProblemCode::UnknownType, message);
        match self.unknown {
            UnknownTypes::Refuse => self.problems.push(problem),
            UnknownTypes::Warn => self.warnings.push(problem),
        }
    }

    /// Checks the name of a channel, where channels are declared.
    pub(super) fn channel(&mut self, config: &Path<'_>, key: &str, value: &Value) {
        let channels = &self.definition.channels;
        let Some(name) = value.get(key).and_then(Value::as_str) else {
            return;
        };
        if channels.is_empty() || channels.contains_key(name) {
            return;
        }
        let hint = match closest(name, channels.keys().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "declare it in `channels`".to_owned(),
        };
        let message = format!("there is no channel {}; {hint}", quoted(name));
        self.rule(
            &Path::Key(config, key),
            ProblemCode::UnknownReference,
            message,
        );
    }

    pub(super) fn may_exist(&self, variable: &str) -> bool {
        self.variables.contains(variable) || self.written.contains(variable)
    }

    pub(super) fn unknown_variable(&self, name: &str) -> String {
        let hint = match closest(name, self.variables.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "declare it in `variables`".to_owned(),
        };
        format!("there is no variable {}; {hint}", quoted(name))
    }

    pub(super) fn expression(
        &mut self,
        path: &Path<'_>,
        text: &'d str,
        kind: ExpressionKind,
    ) -> Option<Expression> {
        if let Some(known) = self.expressions.get(&(kind, text)) {
            let known = known.clone();
            return self.compiled(path, known);
        }
        // Plain paths need no parser.
        if !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
        {
            self.expression_bytes += text.len();
        }
        if self.expression_bytes > MAX_EXPRESSIONS_BYTES && self.age == Age::New {
            let message = format!(
                "the expressions of the workflow have more than {MAX_EXPRESSIONS_BYTES} bytes \
                 together; split the workflow"
            );
            self.problem(path, ProblemCode::TooLarge, message);
            return None;
        }
        let compiled = match kind {
            ExpressionKind::Expression => Expression::parse(text),
            ExpressionKind::Operand => Expression::parse_operand(text),
        };
        self.expressions.insert((kind, text), compiled.clone());
        self.compiled(path, compiled)
    }

    pub(super) fn compiled(
        &mut self,
        path: &Path<'_>,
        compiled: Result<Expression, ExprError>,
    ) -> Option<Expression> {
        let expression = match compiled {
            Ok(expression) => expression,
            Err(error) => {
                self.problem(path, ProblemCode::InvalidExpression, error.to_string());
                return None;
            }
        };
        let references = expression.references();
        for id in &references.nodes {
            self.node_ref(path, id);
        }
        for name in &references.variables {
            if !self.may_exist(name) {
                let message = self.unknown_variable(name);
                self.warnings
                    .add(path.pointer(), ProblemCode::UnknownReference, message);
            }
        }
        Some(expression)
    }
}

//! Resolving references between the parts of a definition.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::channels::IDENTITY;
use super::{Compiler, ExpressionKind, UnknownTypes, mapped_variables};
use crate::control::ControlKind;
use crate::definition::document::{Definition, Node};
use crate::definition::plan::NodeIx;
use crate::definition::validation_mode::ValidationMode;
use crate::expr::{ExprError, Expression};
use crate::limits::MAX_EXPRESSIONS_BYTES;
use crate::problem::{Path, Problem, ProblemCode, closest, instead, pointer, quoted};

/// Names of undeclared variables that nodes write, as far as their configs show.
pub(super) fn written_variables(definition: &Definition) -> BTreeSet<&str> {
    let mut written = BTreeSet::new();
    for node in &definition.nodes {
        // A node's result may be kept under its own id.
        written.insert(node.id.as_str());
        written.extend(
            mapped_variables(&node.config)
                .into_iter()
                .map(|(_, name)| name),
        );
        if let Some(kind) = ControlKind::parse(&node.type_id) {
            let control = kind.node();
            written.extend(control.sets(&node.config).into_iter().map(|(_, name)| name));
            let channels = control.spec().channel_keys.iter();
            written.extend(channels.filter_map(|key| node.config.get(*key)?.as_str()));
        }
        if node.type_id == IDENTITY {
            written.extend(node.inputs.iter().map(|(port, _)| port.as_str()));
        }
    }
    written
}

impl<'d> Compiler<'d> {
    pub(super) fn problem(
        &mut self,
        path: &Path<'_>,
        code: ProblemCode,
        message: impl Into<String>,
    ) {
        self.problems.add(path.pointer(), code, message);
    }

    /// As [`Compiler::problem`], for a rule that does not apply to stored definitions.
    pub(super) fn rule(&mut self, path: &Path<'_>, code: ProblemCode, message: impl Into<String>) {
        if self.validation_mode == ValidationMode::New {
            self.problem(path, code, message);
        }
    }

    pub(super) fn index_nodes(&mut self) {
        for (index, node) in self.definition.nodes.iter().enumerate() {
            // An unreadable id was reported already.
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

    /// The node with an id. If some node has no readable id, an unknown id may refer to it.
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
            let hint = instead(
                id,
                self.definition.nodes.iter().map(|node| node.id.as_str()),
            );
            let hint = hint.unwrap_or_else(|| "add it".to_owned());
            let message = format!("unknown node {}; {hint}", quoted(id));
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
            None => "`runwright workflow nodes` lists the types".to_owned(),
        };
        let message = format!("unknown node type {}; {hint}", quoted(type_id));
        let problem = Problem::new(path.pointer(), ProblemCode::UnknownType, message);
        match self.unknown {
            UnknownTypes::Refuse => self.problems.push(problem),
            UnknownTypes::Warn => self.warnings.push(problem),
        }
    }

    /// Checks the name of a channel if channels are declared.
    pub(super) fn channel(&mut self, config: &Path<'_>, key: &str, value: &Value) {
        let channels = &self.definition.channels;
        let Some(name) = value.get(key).and_then(Value::as_str) else {
            return;
        };
        if channels.is_empty() || channels.contains_key(name) {
            return;
        }
        let hint = match instead(name, channels.keys().map(String::as_str)) {
            Some(hint) => hint,
            None => "declare it in `channels`".to_owned(),
        };
        let message = format!("unknown channel {}; {hint}", quoted(name));
        self.rule(
            &Path::Key(config, key),
            ProblemCode::UnknownReference,
            message,
        );
    }

    /// Checks that a node has an output of this name, as far as that is known.
    pub(super) fn output_of(&mut self, path: &Path<'_>, source: NodeIx, output: &str) {
        let definition = self.definition;
        let node = &definition.nodes[source.index()];
        let outputs = match ControlKind::parse(&node.type_id) {
            Some(kind) => kind.node().outputs(&node.config),
            None if node.type_id == IDENTITY => {
                Some(node.inputs.iter().map(|(port, _)| port.clone()).collect())
            }
            None => self.types.outputs(&node.type_id, &node.config),
        };
        let Some(outputs) = outputs.filter(|_| self.validation_mode == ValidationMode::New) else {
            return;
        };
        // `output` means all of them together.
        if output == "output" || outputs.iter().any(|known| known == output) {
            return;
        }
        let hint = instead(output, outputs.iter().map(String::as_str))
            .unwrap_or_else(|| "it gives none".to_owned());
        let message = format!(
            "node {} gives no output {}; {hint}",
            quoted(node.id.as_str()),
            quoted(output)
        );
        self.problem(path, ProblemCode::UnknownReference, message);
    }

    /// Checks that a node has the inputs that its config reads.
    pub(super) fn check_reads(&mut self, config: &Path<'_>, node: &Node) {
        let reads = self.types.reads(&node.type_id, &node.config);
        let names = || node.inputs.iter().map(|(name, _)| name.as_str());
        for (place, name) in reads.inputs {
            // An input with the name of a config text replaces that text.
            let stands = |known: &str| place.strip_prefix('/') == Some(known);
            if names().any(|known| known == name || stands(known)) {
                continue;
            }
            let hint = instead(&name, names()).map_or(String::new(), |hint| format!("; {hint}"));
            let message = format!(
                "the node has no input {}: bind it in the node's `inputs`{hint}",
                quoted(&name)
            );
            let code = ProblemCode::UnknownReference;
            self.problems.add(config.pointer() + &place, code, message);
        }
        for place in reads.unfilled {
            let message = "`{{ }}` is not replaced here; for an input write `${inputs.NAME}`";
            let code = ProblemCode::NotDone;
            self.warnings.add(config.pointer() + &place, code, message);
        }
    }

    /// Refuses placeholders in the config of a control node, which fills none.
    pub(super) fn check_unfilled(&mut self, path: String, value: &Value) {
        match value {
            Value::String(text) if text.contains("${inputs.") => {
                let message = "`${inputs.NAME}` is not replaced in the config of this node; write \
                               the value itself, or bind it to an input port that the node reads";
                self.problems.add(path, ProblemCode::NotDone, message);
            }
            Value::String(text) if text.contains("{{") && text.contains("}}") => {
                let message = "`{{ }}` is not replaced in the config of this node; write the value \
                               itself, or bind it to an input port that the node reads";
                self.warnings.add(path, ProblemCode::NotDone, message);
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.check_unfilled(pointer(&path, at), item);
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    self.check_unfilled(pointer(&path, key), field);
                }
            }
            _ => {}
        }
    }

    pub(super) fn may_exist(&self, variable: &str) -> bool {
        self.variables.contains(variable) || self.written.contains(variable)
    }

    pub(super) fn unknown_variable(&self, name: &str) -> String {
        let hint = match instead(name, self.variables.iter().copied()) {
            Some(hint) => hint,
            None => "declare it in `variables`".to_owned(),
        };
        format!("unknown variable {}; {hint}", quoted(name))
    }

    pub(super) fn expression(
        &mut self,
        path: &Path<'_>,
        text: &'d str,
        kind: ExpressionKind,
    ) -> Option<Expression> {
        if let Some(known) = self.expressions.get(&(kind, text)) {
            let known = known.clone();
            return self.compiled(path, kind, known);
        }
        // Plain paths need no parser.
        if !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
        {
            self.expression_bytes += text.len();
        }
        if self.expression_bytes > MAX_EXPRESSIONS_BYTES
            && self.validation_mode == ValidationMode::New
        {
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
        self.compiled(path, kind, compiled)
    }

    /// Checks the fields that an expression reads of a node, other than its outputs.
    fn field_of_node(&mut self, path: &Path<'_>, id: &str, field: &str) {
        const FIELDS: [&str; 4] = ["outputs", "status", "visit", "error"];
        if FIELDS.contains(&field) {
            return;
        }
        let hint = match closest(field, FIELDS) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("for an output write `nodes.{id}.outputs.{field}`"),
        };
        let message = format!(
            "`nodes.{id}` has no {}; it has {}; {hint}",
            quoted(field),
            FIELDS.map(|field| format!("`{field}`")).join(", ")
        );
        self.rule(path, ProblemCode::UnknownReference, message);
    }

    pub(super) fn compiled(
        &mut self,
        path: &Path<'_>,
        kind: ExpressionKind,
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
        for (id, field) in &references.fields {
            self.field_of_node(path, id, field);
        }
        for (id, output) in &references.outputs {
            if let Some(&source) = self.by_id.get(id.as_str()) {
                self.output_of(path, source, output);
            }
        }
        for name in references.variables.iter().chain(&references.inputs) {
            if self.may_exist(name) {
                continue;
            }
            let message = self.unknown_variable(name);
            // A run may be given undeclared variables, but rarely one with nearly the name of a
            // declared one. Names inside `has` may be missing, and an operand reads missing ones as
            // `null`.
            let meant = closest(name, self.variables.iter().copied());
            let is_slip = meant.is_some() && name.len() > 1;
            let may_miss = kind == ExpressionKind::Operand || references.asked.contains(name);
            if may_miss || !is_slip {
                self.warnings
                    .add(path.pointer(), ProblemCode::UnknownReference, message);
            } else {
                self.rule(path, ProblemCode::UnknownReference, message);
            }
        }
        Some(expression)
    }
}

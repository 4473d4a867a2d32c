//! From a definition to a plan: references resolved, expressions compiled, the graph checked.

mod agents;
mod channels;
mod control;
mod resolve;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::condition::Condition;
use super::document::{Comparison, ConditionText, Definition, Edge, Node, Port, Trigger};
use super::plan::{
    EdgeIx, NodeIx, NodeKind, Plan, PlanEdge, PlanNode, PortValue, RetryPolicy, Settings,
};
use super::sensitivity::Sensitivity;
use super::validation_mode::ValidationMode;
use super::{cycles, loops, parse, undeclared_channels, upstream};
use crate::control::ControlKind;
use crate::expr::{ExprError, Expression, compile_pattern};
use crate::ids::NodeId;
use crate::json::{self, Limits};
use crate::problem::{Path, Problem, ProblemCode, Problems};
use crate::run::budget::{BudgetPlace, BudgetPolicy};
pub use agents::is_model_class;
use channels::mapped_variables;
use resolve::written_variables;

/// The node types other than the kernel's own.
pub trait NodeTypes {
    /// Which part of the engine executes nodes of a type; `None` for an unknown type. Not called
    /// for the types of [`ControlKind`].
    fn kind(&self, type_id: &str) -> Option<NodeKind>;

    /// All type ids, for suggestions.
    fn type_ids(&self) -> Vec<String>;

    /// Problems of a node's config, with paths into the config. Called for the types of
    /// [`ControlKind`] too.
    fn check_config(&self, type_id: &str, config: &Value) -> Vec<Problem>;

    /// Inputs that a config without problems reads.
    fn reads(&self, _type_id: &str, _config: &Value) -> Reads {
        Reads::default()
    }

    /// The names of a node's outputs with this config; `None` if they are not known in advance.
    fn outputs(&self, _type_id: &str, _config: &Value) -> Option<Vec<String>> {
        None
    }
}

/// Inputs of the node that a config reads, with paths into the config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Places that contain an input's value, each with the input's name.
    pub inputs: Vec<(String, String)>,
    /// Texts with a `{{ name }}`, which is not replaced.
    pub unfilled: Vec<String>,
}

/// How unknown node types are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownTypes {
    /// The definition does not compile.
    Refuse,
    /// It compiles with a warning. The node counts as work and fails when it is reached.
    Warn,
}

/// Default number of rounds of a supervisor and its dispatch.
const DEFAULT_LOOPBACKS: u32 = 5;

impl Plan {
    /// Parses the text of a definition and compiles it. Problems of its shape and its references
    /// are listed together.
    ///
    /// # Errors
    /// All problems, with paths into the document.
    pub fn load(
        text: &[u8],
        types: &dyn NodeTypes,
        unknown: UnknownTypes,
    ) -> Result<Self, Problems> {
        Self::from_json(&json::parse(text, Limits::DEFINITION)?, types, unknown)
    }

    /// As [`Plan::load`], for a document that is parsed already.
    ///
    /// # Errors
    /// All problems, with paths into the document.
    pub fn from_json(
        document: &Value,
        types: &dyn NodeTypes,
        unknown: UnknownTypes,
    ) -> Result<Self, Problems> {
        match parse::read(document, ValidationMode::New) {
            (None, problems) => Err(problems),
            (Some(definition), problems) => {
                compile(&definition, types, (unknown, ValidationMode::New), problems)
            }
        }
    }

    /// As [`Plan::from_json`], for a stored document. An earlier version may have accepted it
    /// against today's rules, and its runs continue.
    ///
    /// # Errors
    /// All problems that make it meaningless, with paths into the document.
    pub fn from_stored(
        document: &Value,
        types: &dyn NodeTypes,
        unknown: UnknownTypes,
    ) -> Result<Self, Problems> {
        match parse::read(document, ValidationMode::Stored) {
            (None, problems) => Err(problems),
            (Some(definition), problems) => compile(
                &definition,
                types,
                (unknown, ValidationMode::Stored),
                problems,
            ),
        }
    }

    /// Resolves every reference of a definition and checks its graph.
    ///
    /// # Errors
    /// All problems, with paths into the document.
    pub fn compile(
        definition: &Definition,
        types: &dyn NodeTypes,
        unknown: UnknownTypes,
    ) -> Result<Self, Problems> {
        compile(
            definition,
            types,
            (unknown, ValidationMode::New),
            Problems::new(),
        )
    }
}

fn compile(
    definition: &Definition,
    types: &dyn NodeTypes,
    (unknown, validation_mode): (UnknownTypes, ValidationMode),
    problems: Problems,
) -> Result<Plan, Problems> {
    let mut compiler = Compiler {
        definition,
        types,
        unknown,
        validation_mode,
        problems,
        warnings: Problems::new(),
        by_id: BTreeMap::new(),
        variables: definition
            .variables
            .iter()
            .map(|v| v.name.as_str())
            .collect(),
        written: written_variables(definition),
        expressions: BTreeMap::new(),
        expression_bytes: 0,
        checked: BTreeSet::new(),
    };
    compiler
        .warnings
        .extend(definition.warnings.iter().cloned());
    compiler.index_nodes();
    compiler.check_unique();
    compiler.check_defaults();
    if validation_mode == ValidationMode::New {
        compiler.check_channels();
        compiler.check_agents();
    }
    compiler.warn_of_unmet();
    let nodes = compiler.nodes();
    let (edges, places) = compiler.edges();
    compiler.triggers();
    let Compiler {
        mut problems,
        mut warnings,
        by_id,
        checked,
        ..
    } = compiler;
    let mut plan = Plan {
        workflow: definition.id.clone(),
        version: definition.version.clone(),
        name: definition.name.clone(),
        digest: definition.digest,
        nodes,
        edges,
        variables: definition.variables.clone(),
        channels: undeclared_channels::channels(definition, validation_mode, &mut problems),
        triggers: definition.triggers.clone(),
        settings: Settings {
            timeout_ms: definition.settings.timeout_ms,
            work_timeout_ms: definition.settings.work_timeout_ms,
            max_retries: definition.settings.max_retries.unwrap_or(0),
            max_loop_iterations: definition
                .settings
                .max_loop_iterations
                .unwrap_or(DEFAULT_LOOPBACKS),
        },
        budget: definition.budget.clone(),
        entries: Vec::new(),
        configurable_schema: definition.configurable_schema.clone(),
        unmet: agents::unmet(definition),
        warnings: Vec::new(),
        sensitivity: Sensitivity::default(),
        by_id,
    };
    plan.sensitivity = Sensitivity::from_plan(&plan, definition.compliance_class.clone());
    link(&mut plan);
    loops::mark(
        &mut plan,
        &places,
        definition.settings.max_loop_iterations,
        &mut problems,
    );
    let cyclic = cycles::check(&plan, &places, &mut problems);
    plan.entries = plan
        .node_ixs()
        .filter(|&ix| {
            plan.node(ix)
                .incoming
                .iter()
                .all(|&edge| plan.edge(edge).back)
        })
        .collect();
    if !cyclic && !plan.nodes.is_empty() && !plan.entries.iter().any(|&ix| !plan.node(ix).disabled)
    {
        problems.add(
            "/nodes",
            ProblemCode::NoStart,
            "no node can start the run: every node without an incoming edge is disabled; enable one",
        );
    }
    upstream::check(&plan, &mut warnings);
    waits::check(&plan, &mut warnings);
    plan.warnings = warnings.listed;
    said_once(&mut problems, checked);
    problems.or(plan)
}

/// Keeps one problem at each place whose value does not fit its key. Later ones there report the
/// same fault in other words.
fn said_once(problems: &mut Problems, places: BTreeSet<String>) {
    let mut said = BTreeSet::new();
    problems
        .listed
        .retain(|problem| !places.contains(&problem.path) || said.insert(problem.path.clone()));
}

/// Links every node to its edges.
fn link(plan: &mut Plan) {
    for (index, edge) in plan.edges.iter().enumerate() {
        let ix = EdgeIx(index as u32);
        plan.nodes[edge.source.index()].outgoing.push(ix);
        plan.nodes[edge.target.index()].incoming.push(ix);
    }
}

struct Compiler<'d> {
    definition: &'d Definition,
    types: &'d dyn NodeTypes,
    unknown: UnknownTypes,
    validation_mode: ValidationMode,
    problems: Problems,
    warnings: Problems,
    by_id: BTreeMap<NodeId, NodeIx>,
    variables: BTreeSet<&'d str>,
    written: BTreeSet<&'d str>,
    /// Compiled once per text.
    expressions: BTreeMap<(ExpressionKind, &'d str), Result<Expression, ExprError>>,
    expression_bytes: usize,
    /// Places in configs whose values do not fit their keys.
    checked: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ExpressionKind {
    Expression,
    Operand,
}

impl<'d> Compiler<'d> {
    fn nodes(&mut self) -> Vec<PlanNode> {
        let list = Path::Key(&Path::Root, "nodes");
        let definition = self.definition;
        definition
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| self.node(&Path::Index(&list, index), node))
            .collect()
    }

    fn node(&mut self, path: &Path<'_>, node: &'d Node) -> PlanNode {
        let inputs = Path::Key(path, "inputs");
        let inputs = node
            .inputs
            .iter()
            .filter_map(|(port, value)| {
                let value = self.port(&Path::Key(&inputs, port), value)?;
                Some((port.clone(), value))
            })
            .collect();
        let kind = self.kind(path, node);
        let config = Path::Key(path, "config");
        let keys = kind
            .control()
            .map_or(&[][..], |control| control.spec().expressions);
        let expressions = keys
            .iter()
            .filter_map(|key| {
                let text = node.config.get(key)?.as_str()?;
                let path = Path::Key(&config, key);
                let expression = self.expression(&path, text, ExpressionKind::Expression)?;
                Some((*key, expression))
            })
            .collect();
        let settings = node.settings;
        PlanNode {
            id: node.id.clone(),
            type_id: node.type_id.clone(),
            name: node.name.clone(),
            kind,
            config: node.config.clone(),
            children: kind
                .control()
                .map(|control| control.children(&node.config))
                .unwrap_or_default(),
            expressions,
            inputs,
            retry: RetryPolicy {
                max_retries: settings
                    .max_retries
                    .or(self.definition.settings.max_retries)
                    .unwrap_or(0),
                backoff: settings.backoff.unwrap_or_default(),
            },
            timeout_ms: settings.timeout_ms,
            on_failure: settings.on_failure,
            disabled: node.disabled,
            output_sensitivity: node.output_sensitivity.clone(),
            agent: node.agent.clone(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            within: None,
            body: None,
        }
    }

    fn kind(&mut self, path: &Path<'_>, node: &Node) -> NodeKind {
        let control = ControlKind::parse(&node.type_id).map(NodeKind::Control);
        let known = control.or_else(|| self.types.kind(&node.type_id));
        let Some(kind) = known else {
            self.unknown_type(&Path::Key(path, "typeId"), &node.type_id);
            return NodeKind::Work;
        };
        // Stored definitions skip this: a node checks its config again when it runs.
        if self.validation_mode == ValidationMode::New {
            self.check_config(path, node, kind);
        }
        kind
    }

    fn check_config(&mut self, path: &Path<'_>, node: &Node, kind: NodeKind) {
        let config = Path::Key(path, "config");
        let problems = self.types.check_config(&node.type_id, &node.config);
        if problems.is_empty() {
            self.check_reads(&config, node);
        }
        for problem in problems {
            let path = config.pointer() + &problem.path;
            self.problems.push(Problem { path, ..problem });
        }
        let NodeKind::Control(kind) = kind else {
            return;
        };
        self.check_unfilled(config.pointer(), &node.config);
        if kind.node().spec().runs_children
            && let Some(budget) = node.config.get("budget")
        {
            let path = Path::Key(&config, "budget");
            for wrong in BudgetPolicy::read(budget, BudgetPlace::Definition).1 {
                let path = match &wrong.field {
                    Some(field) => Path::Key(&path, field).pointer(),
                    None => path.pointer(),
                };
                self.problems.add(path, wrong.code, wrong.what);
            }
        }
        self.control_config(path, node, kind);
        for (key, message) in kind.node().check_config(node) {
            self.problem(&Path::Key(&config, key), ProblemCode::InvalidValue, message);
        }
        for key in kind.node().spec().channel_keys {
            self.channel(&config, key, &node.config);
        }
    }

    fn port(&mut self, path: &Path<'_>, port: &'d Port) -> Option<PortValue> {
        Some(match port {
            Port::Static(value) => PortValue::Static(value.clone()),
            Port::Expression(text) => {
                let path = Path::Key(path, "expression");
                PortValue::Expression(self.expression(&path, text, ExpressionKind::Expression)?)
            }
            Port::Connection {
                node,
                output,
                optional,
            } => {
                let source = self.node_ref(&Path::Key(path, "nodeId"), node)?;
                self.output_of(&Path::Key(path, "outputKey"), source, output);
                PortValue::Connection {
                    node: source,
                    output: output.clone(),
                    optional: *optional,
                }
            }
            Port::Variable { name, optional } => {
                let known = *optional || self.may_exist(name);
                if !known {
                    let message = self.unknown_variable(name);
                    let path = Path::Key(path, "variableName");
                    self.rule(&path, ProblemCode::UnknownReference, message);
                }
                PortValue::Variable {
                    name: name.clone(),
                    optional: *optional,
                }
            }
        })
    }

    /// The edges with both ends known, and their places in the document. A plan is only made if all
    /// edges are among them.
    fn edges(&mut self) -> (Vec<PlanEdge>, Vec<usize>) {
        let list = Path::Key(&Path::Root, "edges");
        let definition = self.definition;
        definition
            .edges
            .iter()
            .enumerate()
            .filter_map(|(index, edge)| Some((self.edge(&Path::Index(&list, index), edge)?, index)))
            .unzip()
    }

    fn edge(&mut self, path: &Path<'_>, edge: &'d Edge) -> Option<PlanEdge> {
        let source = self.node_ref(&Path::Key(path, "sourceNodeId"), &edge.source);
        let target = self.node_ref(&Path::Key(path, "targetNodeId"), &edge.target);
        let condition = edge
            .condition
            .as_ref()
            .and_then(|condition| self.condition(&Path::Key(path, "condition"), condition));
        if let (Some(source), Some(condition)) = (source, &condition) {
            let path = Path::Key(path, "condition");
            for output in &condition.expression().references().own_outputs {
                self.output_of(&path, source, output);
            }
        }
        if let Some(source) = source.filter(|_| self.validation_mode == ValidationMode::New) {
            self.port_of_edge(path, edge, source);
        }
        if let Some(target) = target.filter(|_| self.validation_mode == ValidationMode::New) {
            self.input_of_edge(path, edge, target);
        }
        Some(PlanEdge {
            id: edge.id.clone(),
            source: source?,
            target: target?,
            source_output: edge.source_output.clone(),
            target_input: edge.target_input.clone(),
            condition,
            rule: edge.rule,
            back: false,
        })
    }

    fn condition(&mut self, path: &Path<'_>, condition: &'d ConditionText) -> Option<Condition> {
        let mut operand =
            |text| self.expression(&Path::Key(path, "left"), text, ExpressionKind::Operand);
        Some(match condition {
            ConditionText::Truthy(left) => Condition::Truthy(operand(left)?),
            ConditionText::Falsy(left) => Condition::Falsy(operand(left)?),
            ConditionText::Compare { test, left, right } => {
                let left = operand(left);
                match test {
                    Comparison::Equals => Condition::Equals(left?, right.clone()),
                    Comparison::NotEquals => Condition::NotEquals(left?, right.clone()),
                    Comparison::Contains => Condition::Contains(left?, right.clone()),
                    Comparison::Regex => {
                        let pattern = compile_pattern(right.as_str().unwrap_or_default());
                        match pattern {
                            Ok(pattern) => Condition::Regex(left?, pattern),
                            Err(error) => {
                                let path = Path::Key(path, "right");
                                let code = ProblemCode::InvalidExpression;
                                self.problem(&path, code, error.to_string());
                                return None;
                            }
                        }
                    }
                }
            }
            ConditionText::Expression(text) => Condition::Expression(self.expression(
                &Path::Key(path, "expression"),
                text,
                ExpressionKind::Expression,
            )?),
        })
    }

    /// Definitions are not secret, and defaults are not sealed.
    fn check_defaults(&mut self) {
        let list = Path::Key(&Path::Root, "variables");
        for (index, variable) in self.definition.variables.iter().enumerate() {
            if variable.sensitive && variable.default.is_some() {
                let path = Path::Index(&list, index);
                let message = "the definition shows this value of a sensitive variable to its \
                               readers; give it as an input instead";
                let path = Path::Key(&path, "defaultValue").pointer();
                self.warnings.add(path, ProblemCode::InvalidValue, message);
            }
        }
    }

    fn triggers(&mut self) {
        let list = Path::Key(&Path::Root, "triggers");
        let definition = self.definition;
        for (index, trigger) in definition.triggers.iter().enumerate() {
            let path = Path::Index(&list, index);
            let Trigger {
                kind,
                config,
                node,
                enabled,
                ..
            } = trigger;
            if let Some(node) = node {
                self.node_ref(&Path::Key(&path, "nodeId"), node.as_str());
            }
            let message = match kind.as_str() {
                "channel-write" => {
                    self.channel(&Path::Key(&path, "config"), "channel", config);
                    "is kept and starts no node: a write to a channel starts nothing here; add an \
                     edge from the writing node to the node to start"
                }
                // Unreadable values are reported already.
                "" | "manual" => continue,
                _ => {
                    "is kept and starts no run: this server has no scheduler; start runs with \
                     `POST /v1/runs` or `runwright run`"
                }
            };
            if *enabled {
                let place = Path::Key(&path, "type").pointer();
                self.warnings.add(place, ProblemCode::NotDone, message);
            }
        }
    }
}

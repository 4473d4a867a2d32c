//! From a template to a workflow definition.
//!
//! Each node stays one node under its own id. Batches follow one another by edges with the rule
//! `none_failed`, so that a skipped node lets its successors run. A barrier separates two parallel
//! batches, so that edges do not multiply. A node without a failure policy asks (`onFailure: ask`).
//! A checkpoint that asks is an approval gate.
//!
//! References become input ports, resolved by the engine when the node starts and kept in the
//! log with its start.

use std::collections::{BTreeMap, BTreeSet};

use kernel::limits::MAX_NAME_BYTES;
use serde_json::{Map, Value, json};

use super::foreign::Recorded;
use super::names;
use super::plan::ExecutionPlan;
use super::reference::{Field, Part};
use super::state::NodeStatus;
use super::template::{Call, Kind, Node, OnFail, Round, Template, Work};

/// Maximum bytes of all expressions of a definition together, below the engine's limit.
const EXPRESSION_BYTES: usize = 900 << 10;
/// Maximum bytes of an expression, below the engine's limit.
const MAX_EXPRESSION: usize = 4_000;

/// Settings of a node outside its template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePolicy {
    /// Retries, where the template does not set them.
    pub retries: u32,
    /// The timeout of an attempt, where the template does not set it.
    pub timeout_ms: Option<u64>,
}

/// Settings outside the template.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The names of the session's context variables.
    pub context: BTreeSet<String>,
    /// By position in the template; missing values come from the template.
    pub policies: Vec<NodePolicy>,
    /// Checkpoints that ask even if the template lets them continue.
    pub pause_at: BTreeSet<String>,
    /// Results of another player, by node id.
    pub recorded: BTreeMap<String, Recorded>,
}

/// The definition of a template, by its plan.
pub fn compile(template: &Template, plan: &ExecutionPlan, settings: &Settings) -> Value {
    let compiler = Compiler {
        template,
        plan,
        batch_of: plan.batch_of(template.nodes.len()),
        copies: copies(template),
        settings,
        bytes_per_reference: bytes_per_reference(template),
    };
    let (mut nodes, edges) = compiler.graph();
    for (n, node) in nodes.iter_mut().enumerate() {
        node["position"] = json!({ "x": 0, "y": n });
    }
    let variables: Vec<Value> = (settings.context.iter())
        .map(|name| json!({ "name": name, "type": "string", "required": true }))
        .collect();
    json!({
        "id": workflow_id(&template.id),
        "name": shown(&template.name, 200, "workflow"),
        "version": shown(&template.version, 200, "1.0"),
        "nodes": nodes,
        "edges": edges,
        "triggers": [],
        "variables": variables,
        "metadata": {},
        "settings": {},
    })
}

/// A display text as a name: in one line, not empty and not too long.
fn shown(text: &str, most_chars: usize, otherwise: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().map(visible).take(most_chars).collect();
    while shown.len() > MAX_NAME_BYTES {
        shown.pop();
    }
    match shown.trim() {
        "" => otherwise.to_owned(),
        text => text.to_owned(),
    }
}

/// The workflow id of a template id.
pub fn workflow_id(template: &str) -> String {
    let id = names::slug(template);
    if id.starts_with(|c: char| c.is_ascii_lowercase()) {
        id
    } else {
        format!("wft-{id}")
    }
}

/// Maximum bytes for the expression of one reference to an earlier node.
fn bytes_per_reference(template: &Template) -> usize {
    let references = template.nodes.iter().filter_map(|node| match &node.kind {
        Kind::Work(work) => Some(previous(work).len() + of_loops(template, work)),
        Kind::Checkpoint { .. } => None,
    });
    let references: usize = references.sum();
    MAX_EXPRESSION.min(EXPRESSION_BYTES / references.max(1))
}

/// The fields of the previous node that a node refers to.
fn previous(work: &Work) -> BTreeSet<Field> {
    let of = |part: &Part| match part {
        Part::Previous(field) => Some(*field),
        _ => None,
    };
    work.args.iter().filter_map(of).collect()
}

/// The number of a node's references to nodes of loops.
fn of_loops(template: &Template, work: &Work) -> usize {
    let is_one =
        |part: &&Part| matches!(part, Part::Node(of, _) if template.nodes[*of].round.is_some());
    work.args.iter().filter(is_one).count()
}

struct Compiler<'a> {
    template: &'a Template,
    plan: &'a ExecutionPlan,
    batch_of: Vec<usize>,
    /// For each node of a loop, itself and its copies, in the order of their rounds.
    copies: BTreeMap<usize, Vec<usize>>,
    settings: &'a Settings,
    bytes_per_reference: usize,
}

fn copies(template: &Template) -> BTreeMap<usize, Vec<usize>> {
    let mut copies: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, node) in template.nodes.iter().enumerate() {
        if let Some(round) = node.round {
            copies.entry(round.of).or_default().push(at);
        }
    }
    copies
}

impl Compiler<'_> {
    fn graph(&self) -> (Vec<Value>, Vec<Value>) {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut before: Vec<String> = Vec::new();
        let connect = |from: &[String], to: &str, edges: &mut Vec<Value>| {
            for from in from {
                edges.push(json!({
                    "id": format!("e{}", edges.len() + 1),
                    "sourceNodeId": from,
                    "targetNodeId": to,
                    "triggerRule": "none_failed",
                }));
            }
        };
        let connect_failed = |from: &str, to: &str, edges: &mut Vec<Value>| {
            edges.push(json!({
                "id": format!("e{}", edges.len() + 1),
                "sourceNodeId": from,
                "targetNodeId": to,
                "triggerRule": "all_success",
                "condition": { "type": "expression", "expression": "has(output.error)" },
            }));
        };
        for (number, batch) in self.plan.batches.iter().enumerate() {
            if before.len() > 1 && batch.is_parallel() {
                let id = self.barrier_id(number);
                nodes.push(json!({
                    "id": id, "typeId": "core.merge", "name": "Barrier", "config": {}, "inputs": {},
                }));
                connect(&before, &id, &mut edges);
                before = vec![id];
            }
            let mut ids = Vec::new();
            for &at in &batch.nodes {
                let node = &self.template.nodes[at];
                connect(&before, &node.id, &mut edges);
                if let Some(failed) = node.round.and_then(|round| round.after) {
                    connect_failed(&self.template.nodes[failed].id, &node.id, &mut edges);
                }
                nodes.push(self.node(at, node));
                ids.push(node.id.clone());
            }
            before = ids;
        }
        (nodes, edges)
    }

    fn barrier_id(&self, number: usize) -> String {
        let mut id = format!("barrier-{number}");
        while self.template.nodes.iter().any(|node| node.id == id) {
            id.push('_');
        }
        id
    }

    fn node(&self, at: usize, node: &Node) -> Value {
        let mut session = json!({ "batch": self.batch_of[at] + 1 });
        if let Some(round) = &node.round {
            session["round"] = json!(round.number);
        }
        let recorded = self.settings.recorded.get(&node.id);
        if let Some(recorded) = recorded {
            session["recorded"] = recorded.to_json();
        }
        let is_over = recorded.is_some_and(|recorded| recorded.status == NodeStatus::Completed);
        let mut document = match &node.kind {
            Kind::Checkpoint {
                description,
                auto_continue,
            } => {
                let is_auto = *auto_continue && !self.settings.pause_at.contains(&node.id);
                let kind = if is_auto || is_over {
                    "core.noop"
                } else {
                    "core.approvalGate"
                };
                json!({
                    "typeId": kind,
                    "config": {
                        "title": node.name,
                        "description": description,
                        "autoContinue": auto_continue,
                        "checkpoint": true,
                    },
                    "inputs": {},
                })
            }
            Kind::Work(work) => self.work(at, node, work),
        };
        document["id"] = json!(node.id);
        document["name"] = json!(shown(&node.name, 60, &node.id));
        document["config"]["session"] = session;
        if recorded.is_some_and(|recorded| recorded.status == NodeStatus::Skipped) {
            document["disabled"] = json!(true);
        }
        document
    }

    fn work(&self, at: usize, node: &Node, work: &Work) -> Value {
        let policy = self.settings.policies.get(at).copied().unwrap_or_default();
        let mut inputs = Map::new();
        let args: Vec<Value> = (work.args.iter())
            .filter_map(|part| self.part(at, part, &mut inputs))
            .collect();
        let mut config = json!({ "executor": work.executor, "args": args });
        if let Call::Cli { tool, mode, rule } = &work.call {
            config["cliTool"] = json!(tool);
            config["cliMode"] = json!(mode);
            if let Some(rule) = rule {
                config["cliRule"] = json!(rule);
            }
        }
        if let Some(ms) = work.timeout_ms.or(policy.timeout_ms) {
            config["timeoutMs"] = json!(ms);
        }
        let round = node.round.as_ref();
        if round.is_some_and(Round::may_fail) {
            config["failureIsResult"] = json!(true);
        }
        let mut settings = settings(work, policy);
        if round.is_some_and(Round::is_first) {
            settings["retry"]["maxRetries"] = json!(0);
        }
        json!({
            "typeId": format!("runwright.{}", work.call.as_str()),
            "config": config,
            "inputs": inputs,
            "settings": settings,
        })
    }

    /// A part of the arguments in the form of the node's config, and its input port.
    fn part(&self, at: usize, part: &Part, inputs: &mut Map<String, Value>) -> Option<Value> {
        Some(match part {
            Part::Text(text) => json!(text),
            Part::Variable(name) => {
                let port = format!("{{{name}}}");
                let value = json!({ "type": "variable", "variableName": name, "optional": true });
                inputs.insert(port.clone(), value);
                json!({ "input": port })
            }
            Part::Node(of, field) => {
                let port = format!("{{{}.{}}}", self.template.nodes[*of].id, field.port());
                // A node that has not run has no values.
                inputs.insert(port.clone(), self.latest(at, *of, *field)?);
                match field {
                    Field::Artifact(index) => json!({ "input": port, "index": index }),
                    _ => json!({ "input": port }),
                }
            }
            Part::Previous(field) => {
                let port = format!("{{prev_{}}}", field.port());
                inputs.insert(port.clone(), self.previous(at, *field)?);
                json!({ "input": port })
            }
        })
    }

    /// The value of an earlier node; for one in a loop, that of its latest round.
    fn latest(&self, at: usize, of: usize, field: Field) -> Option<Value> {
        let Some(copies) = self.copies.get(&of) else {
            let has_run = self.batch_of[of] < self.batch_of[at];
            return has_run.then(|| self.connection(of, field));
        };
        let earlier = copies.iter().copied();
        let mut earlier = earlier
            .filter(|copy| self.batch_of[*copy] < self.batch_of[at])
            .rev();
        let nearest = earlier.next()?;
        let mut choices = vec![self.choice(nearest, field)];
        choices.extend(earlier.map(|copy| self.choice(copy, field)));
        let mut expression = String::new();
        for choice in choices {
            if expression.len() + choice.len() + 2 > self.bytes_per_reference {
                break;
            }
            expression.push_str(&choice);
        }
        let otherwise = match field {
            Field::Status => format!("nodes[{}].status", json!(self.template.nodes[of].id)),
            _ => "\"\"".to_owned(),
        };
        Some(json!({ "type": "expression", "expression": format!("{expression}{otherwise}") }))
    }

    /// The beginning of an expression: the value of a node, if it ran.
    fn choice(&self, node: usize, field: Field) -> String {
        let id = json!(self.template.nodes[node].id);
        let port = field.port();
        match field {
            Field::Status => format!(
                "has(nodes[{id}].outputs) ? (has(nodes[{id}].outputs.error) ? \"failed\" : \
                 nodes[{id}].status) : "
            ),
            Field::Error | Field::ExitCode => format!(
                "has(nodes[{id}].outputs) ? (has(nodes[{id}].outputs.{port}) ? \
                 nodes[{id}].outputs.{port} : \"\") : "
            ),
            _ => format!("has(nodes[{id}].outputs) ? nodes[{id}].outputs.{port} : "),
        }
    }

    fn connection(&self, of: usize, field: Field) -> Value {
        if field == Field::Status {
            let id = json!(self.template.nodes[of].id);
            let expression = format!("has(nodes[{id}].status) ? nodes[{id}].status : \"\"");
            return json!({ "type": "expression", "expression": expression });
        }
        json!({
            "type": "connection",
            "nodeId": self.template.nodes[of].id,
            "outputKey": field.port(),
            "optional": true,
        })
    }

    /// The nearest earlier completed work node: the last one of the previous batch; if that was
    /// skipped the one before it, and so on up to the limit of an expression.
    fn previous(&self, at: usize, field: Field) -> Option<Value> {
        let earlier = self.plan.batches[..self.batch_of[at]].iter().rev();
        let nodes = earlier.flat_map(|batch| batch.nodes.iter().rev().copied());
        let is_work = |node: &usize| matches!(self.template.nodes[*node].kind, Kind::Work(_));
        let mut candidates = nodes.filter(is_work).peekable();
        let nearest = *candidates.peek()?;
        let mut choices = String::new();
        for node in candidates {
            let choice = self.choice(node, field);
            if choices.len() + choice.len() + 2 > self.bytes_per_reference {
                break;
            }
            choices.push_str(&choice);
        }
        Some(if choices.is_empty() {
            self.connection(nearest, field)
        } else {
            json!({ "type": "expression", "expression": format!("{choices}\"\"") })
        })
    }
}

fn settings(work: &Work, policy: NodePolicy) -> Value {
    let (retries, base_ms, max_ms) = match (work.retry, work.on_fail) {
        (Some(retry), _) => (retry.retries, retry.base_ms, retry.max_ms),
        (None, OnFail::Retry) if policy.retries == 0 => (1, 0, 0),
        (None, _) => (policy.retries, 500, 30_000),
    };
    json!({
        "onFailure": match work.on_fail {
            OnFail::Skip => "skip",
            OnFail::Abort | OnFail::Retry => "ask",
        },
        "retry": {
            "maxRetries": retries,
            "initialDelayMs": base_ms,
            "factor": 2,
            "maxDelayMs": max_ms,
        },
    })
}

//! Workflows in a few lines of text.
//!
//! ```text
//! a -> b -> c                            edges; nodes are named as they appear
//! c -> d any_failed                      with a trigger rule
//! c -> e if output.n > 1                 with a condition
//! gate.true -> f                         from an output port
//! gate: core.conditional {"config":{}}   a node's type and more of its fields
//! d: {"settings":{"timeout":5}}          more fields of a node of type test.work
//! workflow: {"settings":{}}              more fields of the document
//! ```

use std::sync::Arc;

use kernel::coordinator::WORKER_NODE;
use kernel::definition::{Definition, NodeKind, NodeTypes, Plan, TriggerRule, UnknownTypes};
use kernel::problem::{Problem, Problems};
use serde_json::{Map, Value, json};

/// The default type of nodes. The test decides the outcome of its attempts.
pub(crate) const WORK: &str = "test.work";

/// A type of nodes that call a model.
pub(crate) const MODEL: &str = "core.ai.callPrompt";

/// The plan of a workflow in the notation above.
pub(crate) fn plan(text: &str) -> Arc<Plan> {
    compile(&document(text))
}

/// The plan of a document.
pub(crate) fn compile(document: &Value) -> Arc<Plan> {
    let definition = Definition::parse(document).expect("the document of a test is well formed");
    let plan = Plan::compile(&definition, &Types, UnknownTypes::Refuse);
    Arc::new(plan.expect("the workflow of a test compiles"))
}

/// The plan of a document that an earlier version may have registered.
pub(crate) fn stored(text: &str) -> Arc<Plan> {
    compile_stored(&document(text))
}

/// The same of a document in JSON.
pub(crate) fn compile_stored(document: &Value) -> Arc<Plan> {
    let plan = Plan::from_stored(document, &Types, UnknownTypes::Refuse);
    Arc::new(plan.expect("what was registered is read"))
}

/// The problems of a document that does not compile.
pub(crate) fn problems(document: &Value) -> Problems {
    let definition = Definition::parse(document).expect("the document of a test is well formed");
    let plan = Plan::compile(&definition, &Types, UnknownTypes::Refuse);
    plan.map(drop).expect_err("the workflow does not compile")
}

/// The document of a workflow in the notation above.
pub(crate) fn document(text: &str) -> Value {
    let mut flow = Flow::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        flow.line(line);
    }
    let mut document = json!({
        "id": "w",
        "name": "w",
        "version": "1.0.0",
        "nodes": flow.nodes,
        "edges": flow.edges,
        "triggers": [{ "id": "t", "type": "manual", "enabled": true, "config": {} }],
        "variables": [],
        "metadata": {},
        "settings": {},
    });
    merge(&mut document, flow.more);
    document
}

#[derive(Default)]
struct Flow {
    nodes: Vec<Value>,
    edges: Vec<Value>,
    more: Map<String, Value>,
}

impl Flow {
    fn line(&mut self, line: &str) {
        match line.split_once("->") {
            Some(_) if !line.contains(": ") || line.find("->") < line.find(": ") => {
                self.edges_of(line);
            }
            _ => self.declaration(line),
        }
    }

    fn declaration(&mut self, line: &str) {
        let (id, rest) = line.split_once(':').unwrap_or((line, ""));
        let (type_id, fields) = match rest.find('{') {
            Some(at) => {
                let fields = serde_json::from_str(&rest[at..]).expect("the fields are JSON");
                (rest[..at].trim(), fields)
            }
            None => (rest.trim(), Map::new()),
        };
        if id == "workflow" {
            self.more = fields;
            return;
        }
        let at = self.node(id);
        if !type_id.is_empty() {
            self.nodes[at]["typeId"] = json!(type_id);
        }
        merge(&mut self.nodes[at], fields);
    }

    fn edges_of(&mut self, line: &str) {
        let (line, condition) = match line.split_once(" if ") {
            Some((line, condition)) => (line, Some(condition.trim())),
            None => (line, None),
        };
        let mut ends: Vec<&str> = line.split("->").map(str::trim).collect();
        let last = ends.last_mut().expect("an edge has an end");
        let (end, rule) = last.split_once(' ').unwrap_or((last, "all_success"));
        *last = end;
        let rule = TriggerRule::parse(rule.trim()).expect("a trigger rule");
        for pair in ends.windows(2) {
            let (source, port) = match pair[0].split_once('.') {
                Some((source, port)) => (source, Some(port)),
                None => (pair[0], None),
            };
            let target = pair[1].split('.').next().expect("a name");
            self.node(source);
            self.node(target);
            let mut edge = json!({
                "id": format!("{source}>{target}"),
                "sourceNodeId": source,
                "targetNodeId": target,
                "triggerRule": rule.as_str(),
            });
            if self.edges.iter().any(|other| other["id"] == edge["id"]) {
                edge["id"] = json!(format!("{source}>{target}.{}", self.edges.len()));
            }
            if let Some(port) = port {
                edge["sourceOutput"] = json!(port);
            }
            if let Some(text) = condition {
                edge["condition"] = json!({ "type": "expression", "expression": text });
            }
            self.edges.push(edge);
        }
    }

    fn node(&mut self, id: &str) -> usize {
        if let Some(at) = self.nodes.iter().position(|node| node["id"] == id) {
            return at;
        }
        self.nodes.push(json!({
            "id": id,
            "typeId": WORK,
            "name": id,
            "position": { "x": 0, "y": 0 },
            "config": {},
            "inputs": {},
        }));
        self.nodes.len() - 1
    }
}

fn merge(object: &mut Value, fields: Map<String, Value>) {
    for (key, value) in fields {
        object[key] = value;
    }
}

pub(crate) struct Types;

impl NodeTypes for Types {
    fn kind(&self, type_id: &str) -> Option<NodeKind> {
        [WORK, MODEL, WORKER_NODE]
            .contains(&type_id)
            .then_some(NodeKind::Work)
    }

    fn type_ids(&self) -> Vec<String> {
        [WORK, MODEL, WORKER_NODE].map(str::to_owned).into()
    }

    fn check_config(&self, _: &str, _: &Value) -> Vec<Problem> {
        Vec::new()
    }
}

//! Given a document, these are its problems, or this is its plan.

mod conditions;
mod control;
mod graph;
mod references;
mod samples;
mod shape;
mod stored;
mod variables;

use serde_json::{Map, Value, json};

use super::{NodeKind, NodeTypes, Plan, UnknownTypes};
use crate::problem::{Problem, ProblemCode, Problems};

/// A few work types; `work.picky` wants `config.size`.
struct Types;

const WORK: [&str; 5] = [
    "core.noop",
    "core.identity",
    "core.fail",
    "work.picky",
    "work.send",
];

impl NodeTypes for Types {
    fn kind(&self, type_id: &str) -> Option<NodeKind> {
        WORK.contains(&type_id).then_some(NodeKind::Work)
    }

    fn type_ids(&self) -> Vec<String> {
        WORK.map(str::to_owned).into()
    }

    fn check_config(&self, type_id: &str, config: &Value) -> Vec<Problem> {
        if type_id == "work.picky" && config.get("size").is_none() {
            return vec![Problem::new(
                "/size",
                ProblemCode::MissingField,
                "say a size",
            )];
        }
        Vec::new()
    }
}

fn load(document: &Value) -> Result<Plan, Problems> {
    Plan::from_json(document, &Types, UnknownTypes::Refuse)
}

/// A definition of one node, changed at the given JSON pointers. `null` removes.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut document = json!({
        "id": "sample", "name": "Sample", "version": "1.0",
        "nodes": [node("a", "core.noop")], "edges": [],
        "triggers": [{"id": "manual", "type": "manual"}], "variables": [],
        "metadata": {}, "settings": {},
    });
    for (path, value) in changes {
        let (parent, key) = path.rsplit_once('/').unwrap_or_default();
        match document.pointer_mut(parent) {
            Some(Value::Object(object)) if value.is_null() => {
                object.remove(key);
            }
            Some(Value::Object(object)) => {
                object.insert(key.to_owned(), value.clone());
            }
            Some(Value::Array(items)) => items.push(value.clone()),
            _ => panic!("nothing at {parent}"),
        }
    }
    document
}

fn node(id: &str, type_id: &str) -> Value {
    json!({
        "id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0},
        "config": {}, "inputs": {},
    })
}

/// A definition from a line of nodes (`id` or `id:type`) and a line of edges (`a>b` or
/// `a.port>b`).
fn graph(nodes: &str, edges: &str) -> Value {
    let nodes: Vec<Value> = nodes
        .split_whitespace()
        .map(|text| {
            let (id, type_id) = text.split_once(':').unwrap_or((text, "core.noop"));
            node(id, type_id)
        })
        .collect();
    let edges: Vec<Value> = edges
        .split_whitespace()
        .enumerate()
        .map(|(index, text)| {
            let (source, target) = text.split_once('>').unwrap_or_default();
            let mut edge = json!({"id": format!("e{index}"), "targetNodeId": target});
            let (source, port) = source.split_once('.').unwrap_or((source, ""));
            edge["sourceNodeId"] = json!(source);
            if !port.is_empty() {
                edge["sourceOutput"] = json!(port);
            }
            edge
        })
        .collect();
    with(&[("/nodes", json!(nodes)), ("/edges", json!(edges))])
}

/// The problems of a document as `path: code: message` lines.
#[track_caller]
fn check(document: &Value, expected: &[&str]) {
    let problems = load(document)
        .map_err(|problems| problems.listed)
        .err()
        .unwrap_or_default();
    assert_lines(&problems, expected);
}

#[track_caller]
fn check_warnings(document: &Value, expected: &[&str]) {
    match load(document) {
        Ok(plan) => assert_lines(&plan.warnings, expected),
        Err(problems) => panic!("{problems}"),
    }
}

#[track_caller]
fn assert_lines(problems: &[Problem], expected: &[&str]) {
    let lines: Vec<String> = problems
        .iter()
        .map(|p| format!("{}: {}: {}", p.path, p.code.as_str(), p.message))
        .collect();
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
}

#[track_caller]
fn plan(document: &Value) -> Plan {
    match load(document) {
        Ok(plan) => plan,
        Err(problems) => panic!("{problems}"),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

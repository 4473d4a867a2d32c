//! Masks questions: the values from an input port with hidden data, in the shape that the protocol
//! requires. The text of the definition is public.

use kernel::definition::{ControlKind, NodeKind, Plan, PlanNode};
use kernel::ids::NodeId;
use kernel::run::NodeError;
use serde_json::{Map, Value};

use super::{MASK, cover, mask, node_of, shortened};

/// Fields with the possible answerers and actions.
const TERMS: [&str; 11] = [
    "actions",
    "agentId",
    "approverGroupRefs",
    "approverRoleRefs",
    "approversList",
    "audience",
    "observed",
    "overrideBypassesQuorum",
    "rejectionPolicy",
    "requiredApprovals",
    "threshold",
];

/// Masks hidden values in the data of a question.
pub(super) fn hide(plan: &Plan, node: Option<&PlanNode>, data: &mut Value) {
    let Some(node) = node else {
        if plan.hides_all() {
            cover(data);
        }
        return;
    };
    let Value::Object(fields) = data else {
        if plan.hides_answers(&node.id) {
            cover(data);
        }
        return;
    };
    if node.kind == NodeKind::Work {
        if plan.hides_talk(&node.id) {
            hide_failure(fields);
        }
        return;
    }
    for (name, value) in fields {
        if is_hidden(plan, node, name) {
            hide_field(name, value);
        }
    }
}

/// Whether a field of a node's question is hidden, by the node's id.
pub(super) fn asks_hidden(plan: &Plan, node: &NodeId, field: &str) -> bool {
    let node = node_of(plan, node);
    node.map_or(plan.hides_all(), |node| is_hidden(plan, node, field))
}

/// Whether a field of a node's question is hidden.
fn is_hidden(plan: &Plan, node: &PlanNode, field: &str) -> bool {
    let is_given = |port: &str| node.inputs.iter().any(|(name, _)| name == port);
    let by_port = |port: &str| is_given(port) && plan.hides_input(node, port);
    match node.kind {
        // Their questions derive from a decision.
        NodeKind::Control(ControlKind::Supervisor | ControlKind::Dispatch) => {
            plan.hides_decision(&node.id)
        }
        NodeKind::Control(ControlKind::Interrupt) => by_port("data") || by_port(field),
        _ => by_port(field),
    }
}

fn hide_field(name: &str, value: &mut Value) {
    match (name, value) {
        (name, _) if TERMS.contains(&name) => {}
        ("questions", Value::Array(questions)) => questions.iter_mut().for_each(hide_text),
        ("correlation", Value::Object(fields)) => mask(fields, |_| true),
        (_, value) => cover(value),
    }
}

/// Masks one of several questions: its text and its possible answers.
pub(super) fn hide_text(question: &mut Value) {
    if let Value::Object(fields) = question {
        fields.retain(|name, _| name == "id" || name == "question");
        mask(fields, |name| name == "question");
    }
}

/// Masks a work node's error in a question about its failure.
fn hide_failure(fields: &mut Map<String, Value>) {
    let Some(told) = fields.get_mut("error") else {
        return;
    };
    let error = serde_json::from_value::<NodeError>(told.take());
    *told = match error.map(|error| serde_json::to_value(shortened(&error))) {
        Ok(Ok(error)) => error,
        _ => MASK.into(),
    };
}

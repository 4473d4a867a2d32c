//! A workflow, or a run of it, for programs that draw it themselves.

use kernel::definition::{NodeKind, Plan, PlanEdge};
use kernel::run::Run;
use serde_json::{Map, Value, json};

/// Nodes and edges in document order, under the names of the workflow document. With a run, each
/// node has its status and attempts from the run's snapshot, and the run has its own.
pub(super) fn describe(plan: &Plan, run: Option<&Run>) -> Value {
    let facts = run.and_then(Run::facts);
    let nodes = plan.nodes.iter().enumerate().map(|(at, node)| {
        let mut described = json!({
            "id": node.id,
            "name": node.name,
            "typeId": node.type_id,
            "kind": match node.kind {
                NodeKind::Control(_) => "control",
                _ => "work",
            },
            "disabled": node.disabled,
        });
        if let Some(state) = facts.and_then(|facts| facts.nodes.get(at)) {
            described["status"] = json!(state.status.as_str());
            described["attempts"] = json!(state.attempts);
        }
        described
    });
    let edges = plan.edges.iter().map(|edge| described_edge(plan, edge));
    let mut graph = json!({
        "workflowId": plan.workflow,
        "version": plan.version,
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
    });
    if let Some(run) = run {
        graph["runId"] = json!(run.header.stream);
        graph["status"] = json!(run.status());
    }
    graph
}

fn described_edge(plan: &Plan, edge: &PlanEdge) -> Value {
    let mut described = Map::from_iter([
        ("id".to_owned(), json!(edge.id)),
        ("sourceNodeId".into(), json!(plan.node(edge.source).id)),
        ("targetNodeId".into(), json!(plan.node(edge.target).id)),
        ("triggerRule".into(), json!(edge.rule.as_str())),
        ("isConditional".into(), json!(edge.condition.is_some())),
        ("closesLoop".into(), json!(edge.back)),
    ]);
    let ports = [
        ("sourceOutput", &edge.source_output),
        ("targetInput", &edge.target_input),
    ];
    for (name, port) in ports {
        if let Some(port) = port {
            described.insert(name.into(), json!(port));
        }
    }
    Value::Object(described)
}

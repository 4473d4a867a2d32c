//! Components of drawings.

use serde_json::{Value, json};

use super::reference;

pub(super) fn schemas() -> Value {
    let (text, number) = (json!({ "type": "string" }), json!({ "type": "number" }));
    let flag = json!({ "type": "boolean" });
    let place = ["x", "y", "width", "height"];
    let placed = |mut properties: Value| {
        for name in place {
            properties[name] = number.clone();
        }
        properties
    };
    let closed = |properties: Value| {
        let names: Vec<_> = properties.as_object().into_iter().flatten().collect();
        let required: Vec<_> = names.iter().map(|(name, _)| name).collect();
        json!({
            "type": "object", "required": required, "additionalProperties": false,
            "properties": properties,
        })
    };
    let list = |schema: &str| json!({ "type": "array", "items": reference(schema) });
    json!({
        "Graph": closed(json!({
            "workflowId": text, "version": text, "name": text, "width": number, "height": number,
            "nodes": list("GraphNode"), "edges": list("GraphEdge"), "loops": list("GraphLoop"),
        })),
        "GraphNode": closed(placed(json!({
            "id": text, "name": text, "typeId": text, "kind": text, "disabled": flag,
        }))),
        "GraphEdge": closed(json!({
            "source": text, "target": text, "label": text, "labelX": number, "labelY": number,
            "path": text, "tip": text, "onFailure": flag, "closesLoop": flag,
        })),
        "GraphLoop": closed(placed(json!({ "name": text, "maxRounds": number }))),
        "WorkflowCheck": {
            "type": "object", "required": ["valid", "problems", "warnings"],
            "additionalProperties": false,
            "properties": {
                "valid": flag, "graph": reference("Graph"),
                "problems": list("WorkflowProblem"), "warnings": list("WorkflowProblem"),
            },
        },
        "WorkflowProblem": {
            "type": "object", "required": ["path", "code", "message"],
            "properties": {
                "path": text, "code": text, "message": text,
                "line": { "type": "integer" }, "column": { "type": "integer" },
            },
        },
    })
}

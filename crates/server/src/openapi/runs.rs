//! Components of runs: lists, snapshots and their parts.

use kernel::run::RunStatus;
use serde_json::{Value, json};

use super::reference;

pub(super) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let (object, count) = (json!({ "type": "object" }), json!({ "type": "integer" }));
    let time = json!({ "type": "string", "format": "date-time" });
    let run = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let status = json!({ "type": "string", "enum": RunStatus::ALL });
    let texts = json!({ "type": "array", "items": text });
    let list = |schema: &str| json!({ "type": "array", "items": reference(schema) });
    json!({
        "RunList": {
            "type": "object", "required": ["runs"],
            "properties": { "runs": list("RunRow"), "nextCursor": text },
        },
        "RunRow": {
            "type": "object",
            "required": ["runId", "workflowId", "status", "createdAt", "updatedAt"],
            "properties": {
                "runId": run, "workflowId": text, "status": status,
                "createdAt": time, "updatedAt": time, "settled": { "type": "boolean" },
                "events": count, "tags": texts, "parentRunId": run, "workspace": text,
                "principal": text, "attributes": object,
                "error": { "type": "object", "properties": { "code": text } },
                "workbench": object,
            },
        },
        "RunCounts": {
            "type": "object", "required": ["total", "byStatus", "complete"],
            "properties": {
                "total": count, "complete": { "type": "boolean" },
                "byStatus": { "type": "object", "additionalProperties": count },
            },
        },
        "ChangedRuns": {
            "type": "object", "required": ["runIds", "more"],
            "properties": {
                "runIds": { "type": "array", "items": run }, "more": { "type": "boolean" },
            },
        },
        "SignalOrder": {
            "type": "object", "required": ["name"], "additionalProperties": false,
            "properties": {
                "name": { "type": "string", "minLength": 1, "maxLength": 256 },
                "id": { "type": ["string", "null"], "minLength": 1, "maxLength": 256 },
                "payload": {},
            },
        },
        "Purged": {
            "type": "object", "required": ["runId", "purged"],
            "properties": { "runId": run, "purged": { "const": true } },
        },
        "Costs": {
            "type": "object", "required": ["runs", "complete", "by", "total", "groups"],
            "properties": {
                "runs": count, "complete": { "type": "boolean" }, "by": text,
                "total": reference("ModelUse"),
                "groups": {
                    "type": "array",
                    "items": {
                        "type": "object", "required": ["name", "used"],
                        "properties": { "name": text, "used": reference("ModelUse") },
                    },
                },
            },
        },
        "ModelUse": {
            "type": "object",
            "required": ["calls", "inputTokens", "outputTokens", "totalTokens", "cost"],
            "properties": {
                "calls": count, "inputTokens": count, "outputTokens": count,
                "totalTokens": count,
                "cost": { "type": "object", "additionalProperties": { "type": "number" } },
            },
        },
        "RunSnapshot": {
            "type": "object", "required": ["runId", "workflowId", "status"],
            "properties": {
                "runId": run, "workflowId": text, "status": status, "engineVersion": text,
                "owner": object, "startedAt": time, "completedAt": time, "endedAt": time,
                "currentNodeId": text, "parentRunId": run, "parentNodeId": text,
                "forkedFrom": reference("ForkOrigin"), "childRuns": list("ChildRun"),
                "tags": texts, "metadata": object, "configurable": object, "inputs": object,
                "variables": object, "channels": object, "outputs": object,
                "error": reference("RunError"), "failedNodeId": text,
                "cancelReason": { "type": ["string", "null"] },
                "nodeStates": {
                    "type": "object", "additionalProperties": reference("NodeState"),
                },
                "interrupts": list("OpenInterrupt"), "metrics": reference("RunMetrics"),
            },
        },
        "NodeState": {
            "type": "object", "required": ["status"],
            "properties": {
                "status": text, "visit": count, "attempts": count, "startedAt": time,
                "completedAt": time, "dueAt": time, "port": { "type": ["string", "null"] },
                "outputs": object, "error": reference("RunError"),
                "lastError": reference("RunError"), "reason": text, "childRunId": run,
            },
        },
        "RunError": {
            "type": "object", "required": ["code", "message"],
            "properties": {
                "code": text, "message": text, "details": object,
                "retryable": { "type": ["boolean", "null"] },
            },
        },
        "ForkOrigin": {
            "type": "object", "required": ["runId", "mode"],
            "properties": {
                "runId": run, "mode": { "enum": ["branch", "replay"] },
                "fromSeq": count, "copiedBelow": count,
            },
        },
        "ChildRun": {
            "type": "object", "required": ["runId", "status"],
            "properties": {
                "runId": run, "status": text, "workflowId": text, "nodeId": text, "visit": count,
            },
        },
        "OpenInterrupt": {
            "type": "object", "required": ["nodeId", "kind", "payload"],
            "properties": {
                "interruptId": text, "runId": run, "workflowId": text, "nodeId": text,
                "kind": text, "payload": reference("Interrupt"), "requestedAt": time,
                "expiresAt": time, "interruptToken": text, "callbackUrl": text,
            },
        },
        "RunMetrics": {
            "type": "object",
            "properties": {
                "openwopCost": {
                    "type": "object",
                    "properties": {
                        "usd": { "type": ["number", "null"] }, "model": text, "provider": text,
                        "duration_ms": count,
                        "tokens": {
                            "type": "object", "required": ["input", "output"],
                            "properties": { "input": count, "output": count },
                        },
                    },
                },
                "runwrightBudget": object,
            },
        },
        "Artifact": {
            "type": "object", "required": ["artifactId"],
            "properties": {
                "artifactId": text, "nodeId": text, "mediaType": text, "name": text,
                "size": count, "sha256": text, "createdAt": time,
            },
        },
    })
}

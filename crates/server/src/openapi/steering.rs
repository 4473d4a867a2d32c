//! What steering runs and answering them takes and gives.

use serde_json::{Value, json};

/// The schemas of these bodies.
pub(super) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let object = json!({ "type": "object" });
    let time = json!({ "type": "string", "format": "date-time" });
    let run = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let status = json!({ "type": "string", "enum": faces::openwop::v1::RUN_STATUSES });
    json!({
        "PauseOrder": {
            "type": "object",
            "properties": {
                "reason": text,
                "drainPolicy": { "enum": ["drain-current-node", "immediate"] },
            },
        },
        "PausedRun": {
            "type": "object", "required": ["runId", "status"],
            "properties": { "runId": run, "status": { "const": "paused" }, "pausedAt": time },
        },
        "ResumeOrder": { "type": "object", "properties": { "reason": text } },
        "ResumedRun": {
            "type": "object", "required": ["runId", "status"],
            "properties": { "runId": run, "status": { "const": "running" }, "resumedAt": time },
        },
        "BulkCancelOrder": {
            "type": "object", "required": ["runIds"],
            "properties": {
                "runIds": { "type": "array", "minItems": 1, "maxItems": 100, "items": text },
                "reason": { "type": "string", "maxLength": 512 },
            },
        },
        "BulkCancelled": {
            "type": "object", "required": ["results"],
            "properties": { "results": { "type": "array", "items": {
                "type": "object", "required": ["runId", "ok"],
                "properties": {
                    "runId": text, "ok": { "type": "boolean" }, "status": status, "error": object,
                },
            } } },
        },
        "Answer": {
            "type": "object", "required": ["resumeValue"], "additionalProperties": false,
            "properties": { "resumeValue": {} },
        },
        "Answered": {
            "type": "object", "required": ["runId", "nodeId", "status"],
            "properties": { "runId": run, "nodeId": text, "status": status },
        },
        "Interrupt": {
            "type": "object", "required": ["kind", "key", "data"],
            "properties": {
                "kind": text, "key": text, "data": object, "resumeSchema": object,
                "timeoutMs": { "type": "integer" }, "requestedAt": time, "expiresAt": time,
            },
        },
        "InterruptList": {
            "type": "object", "required": ["runId", "status", "interrupts"],
            "properties": {
                "runId": run, "status": status,
                "interrupts": { "type": "array", "items": object },
            },
        },
        "OpenInterrupts": {
            "type": "object", "required": ["interrupts"],
            "properties": {
                "interrupts": { "type": "array", "items": object }, "nextCursor": text,
            },
        },
        "TokenOrder": {
            "type": "object", "additionalProperties": false,
            "properties": {
                "intent": { "enum": ["resolve", "inspect"] }, "subject": text,
                "expiresInMs": { "type": "integer", "minimum": 1 },
            },
        },
        "InterruptToken": {
            "type": "object", "required": ["interruptToken", "callbackUrl", "expiresAt", "intent"],
            "properties": {
                "interruptToken": text, "callbackUrl": text, "expiresAt": time, "intent": text,
            },
        },
    })
}

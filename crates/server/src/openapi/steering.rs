//! Schemas for steering runs and answering their questions.

use kernel::run::RunStatus;
use serde_json::{Value, json};

use super::reference;

/// The schemas of these bodies.
pub(super) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let object = json!({ "type": "object" });
    let time = json!({ "type": "string", "format": "date-time" });
    let run = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let status = json!({ "type": "string", "enum": RunStatus::ALL });
    let reason = json!({ "type": ["string", "null"], "maxLength": 4_096 });
    json!({
        "PauseOrder": {
            "type": "object",
            "properties": {
                "reason": reason,
                "drainPolicy": { "enum": ["drain-current-node", "immediate", null] },
            },
        },
        "PausedRun": {
            "type": "object", "required": ["runId", "status"],
            "properties": { "runId": run, "status": { "const": "paused" }, "pausedAt": time },
        },
        "ResumeOrder": { "type": "object", "properties": { "reason": reason } },
        "ResumedRun": {
            "type": "object", "required": ["runId", "status"],
            "properties": { "runId": run, "status": { "const": "running" }, "resumedAt": time },
        },
        "BulkCancelOrder": {
            "type": "object", "required": ["runIds"],
            "properties": {
                "runIds": { "type": "array", "minItems": 1, "maxItems": 100, "items": text },
                "reason": { "type": ["string", "null"], "maxLength": 512 },
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
            "properties": {
                "resumeValue": {},
                "interruptId": {
                    "type": ["string", "null"],
                    "description": "the answered question (extension): refused once the node asks another",
                },
            },
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
                "interrupts": { "type": "array", "items": reference("OpenInterrupt") },
            },
        },
        "OpenInterrupts": {
            "type": "object", "required": ["interrupts"],
            "properties": {
                "interrupts": { "type": "array", "items": reference("OpenInterrupt") },
                "nextCursor": text,
            },
        },
        "ReadTokenOrder": {
            "type": "object", "additionalProperties": false,
            "properties": {
                "expiresInMs": { "type": "integer", "minimum": 1_000, "maximum": 900_000 },
            },
        },
        "ReadToken": {
            "type": "object", "required": ["runId", "token", "expiresAt"],
            "properties": {
                "runId": { "type": "string" }, "token": { "type": "string" },
                "expiresAt": { "type": "string", "format": "date-time" },
            },
        },
        "TokenOrder": {
            "type": "object", "additionalProperties": false,
            "properties": {
                "intent": { "enum": ["resolve", "inspect"] },
                "subject": { "type": "string", "minLength": 1, "maxLength": 256 },
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

//! Snapshots in the OpenAPI document.

use serde_json::{Value, json};

/// The components of these routes.
pub(super) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let document: Value =
        serde_json::from_str(faces::provenance::schema::SCHEMA).unwrap_or_default();
    // A component has neither a version nor definitions of its own.
    let mut document = document;
    if let Some(members) = document.as_object_mut() {
        members.remove("$schema");
        members.remove("$defs");
    }
    let texts = json!({ "type": "array", "items": text });
    inline(&mut document, &texts);
    json!({
        "SnapshotCreate": {
            "type": "object", "required": ["runId"],
            "properties": {
                "runId": { "type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$" },
                "name": { "type": ["string", "null"], "maxLength": 256 },
            },
            "additionalProperties": false,
        },
        "ExecutionSnapshot": document,
        "SnapshotList": {
            "type": "object", "required": ["snapshots"],
            "properties": {
                "snapshots": { "type": "array", "items": { "type": "object" } },
                "next": { "type": ["string", "null"] },
                "broken": { "type": "integer" },
            },
        },
        "SnapshotPin": {
            "type": "object", "required": ["snapshot_id", "pinned"],
            "properties": { "snapshot_id": text, "pinned": { "type": "boolean" } },
        },
        "SnapshotPruneOrder": {
            "type": "object",
            "properties": { "apply": { "type": "boolean", "default": false } },
            "additionalProperties": false,
        },
        "SnapshotPrune": {
            "type": "object", "required": ["applied", "snapshots", "pruned"],
            "properties": {
                "applied": { "type": "boolean" },
                "snapshots": { "type": "array", "items": {
                    "type": "object", "required": ["snapshot_id", "verdict"],
                    "properties": {
                        "snapshot_id": text,
                        "verdict": { "enum": ["pinned", "needed", "clock_behind", "kept", "expired"] },
                        "until": { "type": ["string", "null"], "format": "date-time" },
                    },
                } },
                "pruned": { "type": ["object", "null"] },
            },
        },
        "SnapshotExport": { "type": "object" },
        "SnapshotBundle": {
            "type": "object", "required": ["snapshot"],
            "properties": {
                "snapshot": { "type": "object" },
                "calls": { "type": "array", "items": { "type": "object" } },
                "replays": { "type": "array", "items": { "type": "object" } },
                "signature": { "type": "object" },
                "contents": { "type": "object", "additionalProperties": {
                    "type": "object", "minProperties": 1, "maxProperties": 1,
                    "properties": { "text": text, "base64": text },
                } },
            },
            "additionalProperties": false,
        },
        "SnapshotVerification": {
            "type": "object", "required": ["is_valid", "findings"],
            "properties": {
                "snapshot_id": text, "is_valid": { "type": "boolean" },
                "state": { "enum": ["valid", "unverified", "unsealed", "tampered"] }, "signed_by": text,
                "contents": { "type": "integer" },
                "findings": { "type": "array", "items": { "type": "object" } },
            },
        },
        "SnapshotComparison": {
            "type": "object", "required": ["match_status", "pass", "verdict", "strategy"],
            "properties": {
                "match_status": { "type": ["string", "null"] }, "pass": { "type": "boolean" },
                "verdict": { "type": "string", "enum": ["match", "mismatch", "needs_review"] },
                "strategy": text, "first_divergence": { "type": ["object", "null"] },
            },
        },
    })
}

/// Replaces references to a definition by the definition.
fn inline(value: &mut Value, texts: &Value) {
    match value {
        Value::Object(members) if members.contains_key("$ref") => *value = texts.clone(),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| inline(member, texts)),
        Value::Array(items) => items.iter_mut().for_each(|item| inline(item, texts)),
        _ => {}
    }
}

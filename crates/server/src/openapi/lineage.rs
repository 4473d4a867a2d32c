//! Schemas for forking, comparing and tracing the lineage of runs.

use kernel::run::RunStatus;
use serde_json::{Value, json};

use super::{or_null, reference};

/// The schemas of these bodies.
pub(super) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let some = json!({ "type": ["string", "null"] });
    let object = json!({ "type": "object" });
    let run = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let status = json!({ "type": "string", "enum": RunStatus::ALL });
    json!({
        "ArtifactList": {
            "type": "object", "required": ["artifacts"],
            "properties": { "artifacts": { "type": "array", "items": reference("Artifact") } },
        },
        "AnnotationCreate": {
            "type": "object", "required": ["signal"], "additionalProperties": false,
            "properties": {
                "target": or_null(&json!({
                    "type": "object", "additionalProperties": false,
                    "properties": { "eventId": some, "nodeId": some },
                })),
                "signal": {
                    "type": "object", "required": ["kind"], "additionalProperties": false,
                    "properties": {
                        "kind": { "enum": ["rating", "correction", "label", "flag"] },
                        "rating": { "type": "integer", "minimum": 1, "maximum": 5 },
                        "correction": some, "label": some,
                    },
                },
                "note": some,
            },
        },
        "Annotation": {
            "type": "object", "additionalProperties": false,
            "required": ["annotationId", "target", "signal", "actor", "createdAt"],
            "properties": {
                "annotationId": text, "target": object, "signal": object, "actor": object,
                "note": text, "createdAt": { "type": "string", "format": "date-time" },
            },
        },
        "AnnotationList": {
            "type": "object", "required": ["annotations"],
            "properties": {
                "annotations": { "type": "array", "items": reference("Annotation") },
            },
        },
        "DebugBundle": {
            "type": "object",
            "required": ["bundleVersion", "generatedAt", "host", "run", "events",
                         "redactionApplied", "redactionMode"],
            "properties": {
                "bundleVersion": text, "run": reference("RunSnapshot"),
                "events": { "type": "array", "items": reference("RunEvent") },
                "annotations": { "type": "array", "items": reference("Annotation") },
                "truncated": { "type": "boolean" }, "truncatedReason": text,
            },
        },
        "ForkOrder": {
            "type": "object", "required": ["mode"],
            "properties": {
                "mode": { "enum": ["replay", "branch"] },
                "fromSeq": { "type": ["integer", "null"], "minimum": 0 },
                "definition": {
                    "type": ["object", "null"],
                    "description": "an edited definition for a branch (extension); needs \
                                    workflows:write. It keeps the nodes that have begun.",
                },
                "runOptionsOverlay": or_null(&json!({
                    "type": "object", "additionalProperties": false,
                    "properties": {
                        "configurable": or_null(&object), "metadata": or_null(&object),
                        "tags": or_null(&json!({ "type": "array", "items": text })),
                    },
                })),
            },
        },
        "ForkedRun": {
            "type": "object",
            "required": ["runId", "sourceRunId", "fromSeq", "mode", "status", "eventsUrl"],
            "properties": {
                "runId": run, "sourceRunId": run, "status": status, "eventsUrl": text,
                "fromSeq": { "type": "integer", "minimum": 0 },
                "mode": { "enum": ["replay", "branch"] },
                "divergedAtSeq": { "type": "integer", "minimum": 0 },
            },
        },
        "RunDiff": {
            "type": "object", "required": ["a", "b", "eventDiffs", "stateDiff"],
            "properties": {
                "a": run, "b": run, "divergedAtSeq": { "type": ["integer", "null"] },
                "eventDiffs": { "type": "array", "items": object }, "stateDiff": object,
                "truncated": { "type": "boolean" },
            },
        },
        "RunAncestry": {
            "type": "object", "required": ["runId", "hostId", "parent"],
            "properties": { "runId": run, "hostId": text, "parent": { "type": ["object", "null"] } },
        },
    })
}

//! This face's own description, and its availability.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use kernel::document::EVENT_KINDS;
use serde_json::{Value, json};

use super::answer::described;
use crate::openapi::{self, About, Credentials};
use crate::problem::Problem;
use crate::reply::{JSON, Reply};
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let doc = |operation, summary, responses| Doc {
        operation,
        summary,
        parameters: &[],
        request: None,
        responses,
    };
    vec![
        Route::new(
            Method::GET,
            "/api/openapi.json",
            Access::Anyone,
            description,
            doc("getOpenApi", "This document", &[(200, "OpenApi")]),
        ),
        Route::new(
            Method::GET,
            "/api/health",
            Access::Anyone,
            health,
            doc(
                "getHealth",
                "Whether the server answers",
                &[(200, "Health")],
            ),
        ),
    ]
}

async fn description(cx: Cx) -> Result<Reply, Problem> {
    let document: Bytes = cx.app.workbench_openapi();
    Ok(described(
        Reply::bytes(StatusCode::OK, JSON, document),
        None,
    ))
}

async fn health(_: Cx) -> Result<Reply, Problem> {
    Ok(described(Reply::ok(&json!({ "status": "ok" })), None))
}

/// The document of this face's routes.
pub(crate) fn document(credentials: Credentials) -> Value {
    let about = About {
        title: "LLM Workbench REST API",
        description: "Runs recorded by browser apps, by tenant. Operations beyond the API's \
                      clients are marked as extensions.",
        error: "ErrorBody",
        schemas: schemas(),
    };
    openapi::document(&super::routes(), about, credentials)
}

fn entries(value: Value) -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "array", "minItems": 2, "maxItems": 2,
            "prefixItems": [{ "type": "string" }, value],
        },
    })
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let time = json!({ "type": "string", "format": "date-time" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let object = json!({ "type": "object" });
    let run = json!({ "type": "string", "pattern": "^run_[-a-zA-Z0-9_]+$", "maxLength": 128 });
    let list = |of: &str| json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{of}") } });
    json!({
        "SerializedRunStoreState": {
            "type": "object",
            "required": [
                "revision", "run", "trace", "artifactsByKey", "ruleSetsById", "stepStatus",
                "gateState", "idempotency",
            ],
            "properties": {
                "revision": count,
                "run": { "type": "object", "additionalProperties": true },
                "trace": list("TraceEvent"),
                "artifactsByKey": entries(json!({})),
                "ruleSetsById": entries(json!({})),
                "stepStatus":
                    entries(json!({ "enum": ["pending", "running", "completed", "failed"] })),
                "gateState": entries(object.clone()),
                "idempotency": entries(json!({
                    "type": "object", "required": ["artifactKey", "version"],
                    "properties": {
                        "artifactKey": text, "version": { "type": "integer", "minimum": 1 },
                    },
                })),
            },
        },
        "SavedRunMeta": {
            "type": "object",
            "required": ["id", "workflowId", "startedAt", "status"],
            "properties": {
                "id": text, "workflowId": text, "startedAt": time, "endedAt": time,
                "status": text, "tags": { "type": "array", "items": text },
                "title": text, "revision": count, "events": count, "updatedAt": time,
                "parents": { "type": "array", "items": text }, "pendingGates": count,
                "branches": count, "unknownEvents": count,
            },
        },
        "SavedRunMetas": list("SavedRunMeta"),
        "TraceEvent": {
            "type": "object",
            "required": ["id", "type", "runId", "ts"],
            "properties": {
                "id": text, "runId": text, "ts": time,
                "type": { "type": "string", "enum": EVENT_KINDS },
            },
            "additionalProperties": true,
        },
        "ErrorBody": {
            "type": "object", "required": ["error"],
            "properties": { "error": text, "code": text, "requiredScope": text },
        },
        "Revisions": {
            "type": "object", "required": ["runId", "saves", "revisions"],
            "properties": { "runId": run, "saves": count, "revisions": {
                "type": "array", "items": {
                    "type": "object", "required": ["save", "revision", "savedAt", "digest"],
                    "properties": {
                        "save": count, "revision": count, "events": count, "savedAt": time,
                        "digest": text, "via": text, "savedBy": text,
                        "branch": { "type": "boolean" }, "replaced": count, "putBack": count,
                    },
                },
            } },
        },
        "Comparison": {
            "type": "object", "required": ["from", "to", "trace", "run", "artifacts"],
            "properties": { "from": object, "to": object, "trace": object, "run": object,
                            "artifacts": object },
        },
        "PendingGates": {
            "type": "object", "required": ["gates"],
            "properties": { "nextCursor": text, "gates": { "type": "array", "items": {
                "type": "object", "required": ["runId", "stepId", "gate", "waitingSince"],
                "properties": {
                    "runId": text, "workflowId": text, "stepId": text, "gate": text,
                    "checkpoint": text, "reason": text, "requestedAt": text, "waitingSince": text,
                },
            } } },
        },
        "GateDecision": {
            "type": "object", "required": ["stepId", "gate", "decision"],
            "properties": {
                "stepId": text, "gate": { "enum": ["PAUSE_BEFORE", "PAUSE_AFTER", "CHECKPOINT"] },
                "decision": { "enum": ["approved", "rejected", "edited"] },
                "checkpoint": text, "note": text,
            },
        },
        "Saved": { "type": "object", "properties": { "revision": count } },
        "Children": {
            "type": "object", "required": ["runId", "children"],
            "properties": { "runId": run, "children": list("SavedRunMeta"), "nextCursor": text },
        },
        "CancelOrder": { "type": "object", "properties": { "reason": text } },
        "Cascade": {
            "type": "object", "required": ["cancelled", "skipped", "complete"],
            "properties": {
                "cancelled": { "type": "array", "items": text },
                "skipped": { "type": "array", "items": object },
                "complete": { "type": "boolean" },
            },
        },
        "ForkOrder": {
            "type": "object",
            "properties": {
                "id": run, "revision": count, "forkedFromStepId": text,
                "tags": { "type": "array", "items": text },
            },
        },
        "Forked": {
            "type": "object", "required": ["id", "parentRunId"],
            "properties": { "id": run, "parentRunId": run, "revision": count },
        },
        "RunBundle": {
            "type": "object",
            "required": ["protocolVersion", "run", "trace", "artifacts", "ruleSets"],
            "properties": {
                "protocolVersion": { "const": "1.0.0" }, "run": object,
                "trace": list("TraceEvent"), "artifacts": { "type": "array", "items": object },
                "ruleSets": { "type": "array", "items": object }, "engine": object,
                "integrity": { "type": "object", "properties": { "sha256": text } },
            },
        },
        "Imported": {
            "type": "object", "required": ["id"],
            "properties": { "id": run, "revision": count, "unchanged": { "type": "boolean" } },
        },
        "VerifiedBundle": {
            "type": "object", "required": ["sha256", "integrity", "structure"],
            "properties": {
                "runId": text, "sha256": text,
                "integrity": { "enum": ["valid", "mismatch", "missing"] }, "structure": text,
                "stalePayloadHashes": { "type": "array", "items": text }, "unknownEvents": count,
            },
        },
        "Costs": {
            "type": "object", "required": ["runs", "complete", "total", "groups"],
            "properties": {
                "runs": count, "complete": { "type": "boolean" }, "by": text, "total": object,
                "groups": { "type": "array", "items": object },
            },
        },
        "OpenApi": { "type": "object", "required": ["openapi", "info", "paths"] },
        "Health": { "type": "object", "required": ["status"], "properties": { "status": text } },
    })
}

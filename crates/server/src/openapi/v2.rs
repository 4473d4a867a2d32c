//! The document of OpenWOP 2.

use faces::openwop::v2;
use kernel::run::RunStatus;
use kernel::run::effects::{EffectState, Keying};
use serde_json::{Value, json};

use super::{About, Credentials, reference};
use crate::contract::{self, Contract};
use crate::route::Route;

/// The document of the routes of version 2.
pub(crate) fn document(routes: &[Route], credentials: Credentials) -> Value {
    let is_ours =
        |route: &&Route| route.contract == Contract::Two || route.path == contract::WELL_KNOWN;
    let routes: Vec<Route> = routes.iter().filter(is_ours).cloned().collect();
    let about = About {
        title: "Runwright",
        description: "Runs of workflows over OpenWOP 2.",
        error: "Error",
        schemas: schemas(),
    };
    let mut document = super::document(&routes, about, credentials);
    for path in document["paths"].as_object_mut().into_iter().flatten() {
        for operation in path.1.as_object_mut().into_iter().flatten() {
            if let Some(parameters) = operation.1["parameters"].as_array_mut() {
                parameters.push(json!({
                    "in": "header", "name": "OpenWOP-Version",
                    "schema": { "type": "string", "enum": ["2", v2::VERSION] },
                }));
            }
        }
    }
    document
}

/// The components: those of version 1, but for what differs.
fn schemas() -> Value {
    let mut schemas = super::schemas();
    let text = json!({ "type": "string" });
    let object = json!({ "type": "object" });
    let status = json!({ "type": "string", "enum": RunStatus::ALL });
    let run = json!({ "type": "string", "pattern": "^[^/]+/[A-Za-z0-9._-]{16,128}$" });
    let owner = json!({
        "type": "object", "additionalProperties": false, "required": ["tenant", "subject"],
        "properties": { "tenant": text, "workspace": text, "subject": object },
    });
    let different = json!({
        "Capabilities": {
            "type": "object", "required": ["protocolVersions", "preferredVersion"],
            "properties": {
                "protocolVersions": { "type": "array", "items": text }, "preferredVersion": text,
            },
        },
        "RunOrder": {
            "type": "object", "required": ["workflowId"], "additionalProperties": false,
            "properties": {
                "workflowId": text, "inputs": object, "tenantId": text, "scopeId": text,
                "callbackUrl": {
                    "type": "string", "format": "uri", "maxLength": 2_048,
                    "description": "receives a notice of each question, with a token that \
                                    answers it. Also needs approvals:respond",
                },
                "configurable": {
                    "type": "object", "required": ["version"],
                    "properties": { "version": { "const": 1 } },
                },
                "tags": {
                    "type": "array", "maxItems": 100,
                    "items": { "type": "string", "minLength": 1, "maxLength": 256 },
                },
                "metadata": object,
            },
        },
        "CreatedRun": {
            "type": "object", "additionalProperties": false,
            "required": ["runId", "status", "eventsUrl"],
            "properties": {
                "runId": run, "status": status, "eventsUrl": text, "statusUrl": text,
            },
        },
        "RunSnapshot": {
            "type": "object",
            "required": ["runId", "workflowId", "status", "owner", "eventLogSchemaVersion"],
            "properties": {
                "runId": run, "workflowId": text, "status": status, "owner": owner,
                "eventLogSchemaVersion": { "const": v2::EVENT_LOG_SCHEMA_VERSION },
            },
        },
        "RunStatus": {
            "type": "object", "additionalProperties": false, "required": ["runId", "status"],
            "properties": { "runId": run, "status": status },
        },
        "RunList": {
            "type": "object", "additionalProperties": false, "required": ["runs"],
            "properties": {
                "runs": { "type": "array", "items": reference("RunSnapshot") },
                "nextCursor": text,
            },
        },
        "EventPage": {
            "type": "object", "additionalProperties": false,
            "required": ["runId", "events", "lastSequence", "status", "isTerminal"],
            "properties": {
                "runId": run,
                "events": { "type": "array", "items": reference("RunEvent") },
                "lastSequence": { "type": "integer", "minimum": -1 },
                "status": status,
                "isTerminal": { "type": "boolean" },
            },
        },
        "RunEvent": {
            "type": "object", "additionalProperties": false,
            "required": [
                "eventId", "runId", "type", "payload", "timestamp", "sequence", "schemaVersion",
            ],
            "properties": {
                "eventId": text, "runId": run, "type": text, "payload": {},
                "timestamp": { "type": "string", "format": "date-time" },
                "sequence": { "type": "integer", "minimum": 0 },
                "schemaVersion": { "type": "integer", "minimum": 1 },
                "engineVersion": { "type": "integer", "minimum": 0 },
                "nodeId": text, "causationId": text,
            },
        },
        "EffectSeams": {
            "type": "object", "additionalProperties": false,
            "required": ["manifestVersion", "host", "seams"],
            "properties": {
                "manifestVersion": { "const": "1" }, "host": object,
                "seams": { "type": "array", "items": object },
            },
        },
        "Effects": {
            "type": "object", "additionalProperties": false, "required": ["runId", "effects"],
            "properties": {
                "runId": run,
                "effects": { "type": "array", "items": reference("EffectAttempt") },
            },
        },
        "EffectAttempt": {
            "type": "object", "additionalProperties": false,
            "required": ["effectId", "nodeId", "attempt", "keying", "state", "at"],
            "properties": {
                "effectId": run, "nodeId": text, "invocationId": text, "providerKey": text,
                "attempt": { "type": "integer", "minimum": 1 },
                "keying": { "type": "string", "enum": Keying::WORDS },
                "state": { "type": "string", "enum": EffectState::WORDS },
                "at": { "type": "string", "format": "date-time" },
            },
        },
        "DeadLetters": {
            "type": "object", "additionalProperties": false, "required": ["deliveries"],
            "properties": {
                "deliveries": { "type": "array", "items": object }, "nextCursor": text,
            },
        },
    });
    if let (Value::Object(all), Value::Object(different)) = (&mut schemas, different) {
        all.extend(different);
    }
    schemas
}

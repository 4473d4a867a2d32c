//! The OpenAPI document, generated from the table of routes.

mod graphs;
mod lineage;
mod parameters;
mod runs;
mod snapshots;
mod steering;
pub(crate) mod v2;

use kernel::run::RunStatus;
use runtime::access::Action;
use serde_json::{Map, Value, json};

use crate::contract::Contract;
use crate::route::{Access, Route};
use crate::routes::{console, workbench};
use crate::webhooks::{SIGNATURES, STANDARD};

/// The parts of a face's document that are not routes.
pub(crate) struct About {
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    /// The component that describes an error.
    pub(crate) error: &'static str,
    /// The components.
    pub(crate) schemas: Value,
}

/// Whether requests need a credential.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    Needed,
    /// On a server of one developer.
    Optional,
}

/// The document of OpenWOP, including the routes of every server.
pub(crate) fn openwop(routes: &[Route], credentials: Credentials) -> Value {
    let is_ours = |route: &&Route| {
        route.contract == Contract::One
            && !route.path.starts_with(workbench::ROOT)
            && !console::is_asset(route.path)
    };
    let routes: Vec<Route> = routes.iter().filter(is_ours).cloned().collect();
    let about = About {
        title: "Runwright",
        description: "Runs of workflows over OpenWOP v1. Operations marked \
                      x-runwright-extension go beyond the protocol.",
        error: "Error",
        schemas: schemas(),
    };
    document(&routes, about, credentials)
}

/// The document of these routes.
pub(crate) fn document(routes: &[Route], about: About, credentials: Credentials) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        let method = route.method.as_str().to_ascii_lowercase();
        path[method] = operation(route, about.error, credentials);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": about.description,
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": "__session" },
            },
            "schemas": about.schemas,
        },
    })
}

fn operation(route: &Route, error: &str, credentials: Credentials) -> Value {
    let doc = &route.doc;
    let in_path = route.path.split('{').skip(1).map(|part| {
        let name = part.split('}').next().unwrap_or_default();
        json!({ "in": "path", "name": name, "required": true, "schema": { "type": "string" } })
    });
    let others = doc
        .parameters
        .iter()
        .map(|(place, name, what)| parameters::parameter(route, place, name, what));
    let (least, most) = match route.contract {
        Contract::Two => (22, 128),
        Contract::One | Contract::Workbench => (1, 255),
    };
    let keyed = route.is_keyed.then(|| {
        let what =
            format!("{least} to {most} characters; equal requests with one key have one effect");
        json!({ "in": "header", "name": "Idempotency-Key", "description": what,
                "schema": { "type": "string", "minLength": least, "maxLength": most } })
    });
    let parameters: Vec<Value> = in_path.chain(others).chain(keyed).collect();
    let mut responses = Map::new();
    for (status, schema) in doc.responses {
        let response = match *schema {
            "" => json!({ "description": "no body" }),
            "metrics" => json!({
                "description": "counters",
                "content": {
                    "application/openmetrics-text": { "schema": { "type": "string" } },
                },
            }),
            "stream" => json!({
                "description": "frames of events",
                "content": { "text/event-stream": { "schema": { "type": "string" } } },
            }),
            "events" => json!({
                "description": "frames of events, or the present ones as JSON",
                "content": {
                    "text/event-stream": { "schema": { "type": "string" } },
                    "application/json": { "schema": reference("EventPage") },
                },
            }),
            "bytes" => json!({
                "description": "bytes of the artifact's media type",
                "content": { "*/*": {} },
            }),
            schema => json!({
                "description": schema,
                "content": { "application/json": { "schema": reference(schema) } },
            }),
        };
        responses.insert(status.to_string(), response);
    }
    let refused = json!({
        "description": "refused",
        "content": { "application/json": { "schema": reference(error) } },
    });
    responses.insert("default".into(), refused);
    let mut operation = json!({
        "operationId": doc.operation,
        "summary": doc.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(request) = doc.request {
        operation["requestBody"] = json!({
            "required": !OPTIONAL.contains(&request) && route.path != WORKBENCH_FORK,
            "content": { "application/json": { "schema": reference(request) } },
        });
    }
    match route.access {
        Access::Anyone => operation["security"] = json!([]),
        Access::May(action) => {
            let mut ways = vec![json!({ "bearer": [] })];
            if route.path.starts_with(workbench::ROOT) {
                ways.push(json!({ "session": [] }));
            }
            if credentials == Credentials::Optional {
                ways.push(json!({}));
            }
            operation["security"] = json!(ways);
            operation["x-runwright-scope"] = json!(scope(action));
        }
    }
    operation
}

/// Its body's name is needed elsewhere, and the body is optional.
const WORKBENCH_FORK: &str = "/api/runs/{runId}/fork";

/// Optional bodies.
const OPTIONAL: [&str; 6] = [
    "CancelOrder",
    "PauseOrder",
    "ReadTokenOrder",
    "ResumeOrder",
    "SnapshotPruneOrder",
    "TokenOrder",
];

/// The schema of a member that may also be null, which counts as missing.
fn or_null(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn scope(action: Action) -> String {
    action.scope().to_string()
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// The names of the fields of a request body.
pub(crate) fn fields(component: &str) -> Vec<String> {
    let schemas = schemas();
    let fields = schemas[component]["properties"].as_object();
    fields
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

/// The components of OpenWOP 1.
pub(crate) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let object = json!({ "type": "object" });
    let name = json!({ "type": "string", "minLength": 1, "maxLength": 2_048 });
    let callback = json!({
        "type": "string", "minLength": 1, "maxLength": 2_048, "pattern": "^https?://",
        "description": "receives a notice of each question, with a token that answers it. Also \
                        needs approvals:respond",
    });
    let not_provided = json!({
        "type": ["string", "null"], "minLength": 1, "maxLength": 2_048,
        "description": "part of the protocol, not provided here: 501 unless it is null",
    });
    let run = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let status = json!({ "type": "string", "enum": RunStatus::ALL });
    let word = json!({
        "type": "string", "minLength": 1, "maxLength": 256,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
    });
    let secret = json!({ "type": "string", "pattern": "^[!-~]{24,256}$" });
    let standard_secret =
        json!({ "type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$" });
    let events = json!({
        "type": "array", "minItems": 1,
        "items": { "anyOf": [{ "enum": faces::openwop::v1::EVENT_TYPES }, { "const": "*" }] },
    });
    let mut schemas = json!({
        "Error": {
            "type": "object", "required": ["error", "message"], "additionalProperties": false,
            "properties": { "error": text, "message": text, "details": object },
        },
        "Capabilities": {
            "type": "object",
            "required": ["protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"],
            "properties": { "protocolVersion": text, "limits": object },
        },
        "OpenApi": { "type": "object", "required": ["openapi", "info", "paths"] },
        "Expired": { "type": "object", "required": ["runId", "expired"],
            "properties": { "runId": text, "expired": { "const": true } } },
        "Health": { "type": "object", "required": ["status"], "properties": { "status": text } },
        "RunOrder": {
            "type": "object", "required": ["workflowId"], "additionalProperties": false,
            "properties": {
                "workflowId": name, "inputs": or_null(&object), "tenantId": or_null(&name),
                "scopeId": or_null(&name),
                "configurable": or_null(&object),
                "tags": or_null(&json!({
                    "type": "array", "maxItems": 100,
                    "items": { "type": "string", "minLength": 1, "maxLength": 256 },
                })),
                "metadata": or_null(&object),
                "callbackUrl": or_null(&callback),
                "mode": { "enum": ["eval", null], "description": "not provided here: 501" },
                "evalSuiteRef": not_provided, "agentId": not_provided,
            },
        },
        "CreatedRun": {
            "type": "object", "required": ["runId", "status", "eventsUrl"],
            "properties": {
                "runId": run, "status": status, "eventsUrl": text, "statusUrl": text,
            },
        },
        "RunStatus": {
            "type": "object", "required": ["runId", "status"],
            "properties": { "runId": run, "status": status },
        },
        "CancelOrder": {
            "type": "object", "additionalProperties": true,
            "properties": { "reason": { "type": ["string", "null"], "maxLength": 4_096 } },
        },
        "EventPage": {
            "type": "object", "required": ["events", "isComplete"],
            "properties": {
                "runId": run,
                "events": { "type": "array", "items": reference("RunEvent") },
                "isComplete": { "type": "boolean" },
                "lastEventSeq": { "type": "integer" },
                "runStatus": status,
                "isTerminal": { "type": "boolean" },
            },
        },
        "RunEvent": {
            "type": "object",
            "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
            "properties": {
                "eventId": text, "runId": run, "type": text, "payload": {},
                "timestamp": { "type": "string", "format": "date-time" },
                "sequence": { "type": "integer", "minimum": 0 },
                "nodeId": text, "causationId": text,
            },
        },
        "Workflow": {
            "type": "object",
            "required": [
                "id", "name", "version", "nodes", "edges", "triggers", "variables", "metadata",
                "settings",
            ],
            "properties": {
                "id": { "type": "string", "pattern": "^[a-z][a-z0-9_-]{0,127}$" },
                "name": { "type": "string", "minLength": 1 },
                "version": { "type": "string", "minLength": 1 },
                "nodes": { "type": "array", "minItems": 1, "items": {
                    "type": "object",
                    "required": ["id", "typeId", "name", "position", "config", "inputs"],
                } },
                "edges": { "type": "array", "items": object },
                "triggers": { "type": "array", "items": object },
                "variables": { "type": "array", "items": object },
                "metadata": object, "settings": object,
            },
        },
        "WorkflowList": {
            "type": "object", "required": ["workflows"],
            "properties": { "workflows": { "type": "array", "items": {
                "type": "object", "required": ["workflowId", "version"],
                "properties": {
                    "id": text, "workflowId": text, "version": text, "digest": text,
                    "shared": { "type": "boolean" },
                },
            } } },
        },
        "AuditEntries": {
            "type": "object", "required": ["entries", "nextBefore"],
            "properties": {
                "nextBefore": { "type": ["integer", "null"] },
                "entries": { "type": "array", "items": {
                    "type": "object", "required": ["sequence", "recordedAt", "action", "on"],
                    "properties": {
                        "sequence": { "type": "integer" }, "recordedAt": text,
                        "decidedAt": text, "action": text, "outcome": {},
                        "by": {
                            "type": "object", "required": ["principal"],
                            "properties": {
                                "principal": text, "issuer": text, "requestId": text,
                            },
                        },
                        "on": {
                            "type": "object", "required": ["kind"],
                            "properties": { "kind": text, "id": text, "workspace": text },
                        },
                    },
                } },
            },
        },
        "KeyOrder": {
            "type": "object", "required": ["scopes"], "additionalProperties": false,
            "properties": {
                "scopes": { "type": "array", "minItems": 1, "items": text },
                "name": { "type": ["string", "null"], "minLength": 1, "maxLength": 256 },
                "workspace": { "type": ["string", "null"], "minLength": 1, "maxLength": 256 },
                "expiresInMs": { "type": ["integer", "null"], "minimum": 1_000 },
            },
        },
        "Key": {
            "type": "object",
            "required": ["keyId", "principal", "scopes", "status", "createdAt"],
            "properties": {
                "keyId": text, "principal": text, "status": text, "createdAt": text,
                "scopes": { "type": "array", "items": text }, "name": text, "workspace": text,
                "expiresAt": text, "revokedAt": text, "revokeReason": text,
            },
        },
        "CreatedKey": {
            "type": "object", "required": ["keyId", "token"],
            "properties": {
                "keyId": text, "token": { "type": "string", "description": "shown once" },
            },
        },
        "KeyList": {
            "type": "object", "required": ["keys"],
            "properties": { "keys": { "type": "array", "items": reference("Key") } },
        },
        "AuditVerification": {
            "type": "object", "additionalProperties": false,
            "required": ["fromSeq", "toSeq", "chainValid", "checkpoints", "anomalies"],
            "properties": {
                "fromSeq": { "type": "integer" }, "toSeq": { "type": "integer" },
                "chainValid": { "type": "boolean" }, "checkpointsValid": { "type": "boolean" },
                "checkpoints": { "type": "array", "items": object },
                "anomalies": { "type": "array", "items": object },
            },
        },
        "WebhookOrder": {
            "type": "object", "required": ["url"],
            "anyOf": [
                { "required": ["events"], "properties": { "events": events } },
                { "required": ["eventTypes"], "properties": { "eventTypes": events } },
            ],
            "properties": {
                "url": { "type": "string", "format": "uri", "minLength": 1, "maxLength": 2_048 },
                "events": or_null(&events), "eventTypes": or_null(&events),
                "tenantId": or_null(&name), "scopeId": or_null(&name),
                "tags": or_null(&json!({ "type": "array", "maxItems": 100, "items": word })),
                "secret": or_null(&secret),
                "signatureAlgorithms": or_null(&json!({
                    "type": "array", "minItems": 1, "uniqueItems": true,
                    "items": { "type": "string", "enum": SIGNATURES },
                    "contains": { "const": "v1" },
                })),
            },
            "if": {
                "required": ["signatureAlgorithms"],
                "properties": { "signatureAlgorithms": {
                    "type": "array", "contains": { "const": STANDARD },
                } },
            },
            "then": { "required": ["secret"], "properties": { "secret": standard_secret } },
        },
        "Webhook": {
            "type": "object",
            "required": ["webhookId", "subscriptionId", "url", "events", "secretFingerprint"],
            "properties": {
                "webhookId": text, "subscriptionId": text, "url": text, "secret": text,
                "events": { "type": "array", "items": text }, "secretFingerprint": text,
            },
        },
        "WebhookList": {
            "type": "object", "required": ["webhooks"],
            "properties": { "webhooks": { "type": "array", "items": reference("Webhook") } },
        },
        "WebhookReport": {
            "type": "object", "required": ["webhookId", "deliveries"],
            "properties": { "webhookId": text, "deliveries": object },
        },
        "WebhookSecret": {
            "type": "object", "required": ["secret"], "properties": { "secret": secret },
            "description": "a webhook with the signature standard-webhooks-1 needs whsec_ and the \
                            base64 of 24 to 64 bytes; any other takes 24 to 256 visible characters",
        },
        "RotatedWebhook": {
            "type": "object", "required": ["rotatedAt", "previousSecretExpiresAt"],
            "properties": { "rotatedAt": text, "previousSecretExpiresAt": text },
        },
        "RegisteredWorkflow": {
            "type": "object", "required": ["id", "workflowId", "version", "digest"],
            "properties": { "id": text, "workflowId": text, "version": text, "digest": text,
                            "warnings": { "type": "array", "items": object } },
        },
    });
    for more in [
        steering::schemas(),
        lineage::schemas(),
        runs::schemas(),
        graphs::schemas(),
        console::schemas(),
        snapshots::schemas(),
        crate::routes::coordinator::schemas(),
    ] {
        if let (Value::Object(all), Value::Object(more)) = (&mut schemas, more) {
            all.extend(more);
        }
    }
    schemas
}

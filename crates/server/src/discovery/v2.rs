//! The capabilities document of OpenWOP 2: a closed root of records, one for each family that is
//! served. A family that is not there answers 404.

use kernel::limits::{
    MAX_DELIVERY_ATTEMPTS, MAX_LOOP_ITERATIONS, MAX_NODE_EXECUTIONS, MAX_SCHEMA_ROUNDS, MAX_WAIT_MS,
};
use kernel::{ENGINE_VERSION, ENGINE_VERSIONS};
use runtime::access::checkpoints;
use runtime::models::{Provider, Providers};
use runtime::nodes::{ASKS, TEST_PROVIDERS};
use runtime::webhooks::OVERLAP_MS;
use serde_json::{Map, Value, json};

use super::Configured;
use crate::admission;
use crate::auth::Gate;
use crate::contract;
use crate::fixtures;
use crate::limits::Limits;
use crate::routes::forks::HOST_ID;
use crate::routes::v2::{runs, webhooks};
use crate::token;
use crate::webhooks::SIGNATURES;
use faces::openwop::v2;

/// The first version with a family.
const SINCE: &str = "2.0";
/// When a family that is not stable is looked at again.
const UNTIL: &str = "2.1";
/// How a claim is checked: from outside, by what the server answers.
const WITNESSABLE: &str = "witnessable-gated";
/// How a claim is checked: by its text alone.
const CLAIMED: &str = "claims-check";

/// The document.
pub(crate) fn document(limits: &Limits, gate: &Gate, configured: Configured<'_>) -> Value {
    let Configured {
        models,
        key,
        test_provider,
        exports,
        node_types,
        secret_scopes,
        has_canary,
        workflows,
        can_expire,
        ..
    } = configured;
    let fixtures = fixtures::claimed(workflows, test_provider, has_canary);
    let mut root = Map::new();
    let mut put = |name: &str, value: Value| root.insert(name.to_owned(), value);
    put("protocolVersion", json!(contract::PREFERRED));
    put("protocolVersions", json!(contract::VERSIONS));
    put("preferredVersion", json!(contract::PREFERRED));
    put(
        "implementation",
        json!({
            "name": "runwright",
            "version": env!("CARGO_PKG_VERSION"),
            "vendor": "runwright",
        }),
    );
    put("engineVersion", json!(ENGINE_VERSION));
    put("eventLogSchemaVersion", json!(v2::EVENT_LOG_SCHEMA_VERSION));
    put("runtimeCapabilities", json!(node_types));
    put("compliance", json!({ "defaultMode": "mask" }));
    if !fixtures.is_empty() {
        put("fixtures", json!(fixtures));
    }
    if test_provider {
        let range = json!({ "min": ENGINE_VERSIONS.start(), "max": ENGINE_VERSIONS.end() });
        put(
            "testing",
            json!({
                "mockProviders": TEST_PROVIDERS,
                "testKeyPrefix": "rw_",
                "forceEngineVersionRange": range,
            }),
        );
    }
    if exports {
        let otel = json!({ "exportProtocols": ["http/json", "http/protobuf"] });
        put("observability", json!({ "otel": otel }));
    }
    put("limits", stable(WITNESSABLE, bounds(limits)));
    let ordering = json!({ "crossEngineOrdering": { "orderingModel": "global-sequencer" } });
    put("eventLog", record(CLAIMED, ordering));
    put(
        "runList",
        record(
            WITNESSABLE,
            json!({ "maxPageSize": runs::MAX_PAGE, "filters": runs::FILTERS }),
        ),
    );
    put(
        "feedback",
        record(
            WITNESSABLE,
            json!({
                "targets": ["run", "event", "node"],
                "signals": ["rating", "correction", "label", "flag"],
            }),
        ),
    );
    put(
        "subWorkflow",
        record(CLAIMED, json!({ "inputMapping": true })),
    );
    // Emitting the events of these families is the claim.
    put(
        "agents",
        record(
            WITNESSABLE,
            json!({ "orchestrator": true, "dispatch": true }),
        ),
    );
    if let Some(budget) = facets(super::budget()) {
        put("budget", record(WITNESSABLE, budget));
    }
    let causation = json!({ "hostId": HOST_ID, "ancestryEndpointSupported": true });
    let model = json!({
        "version": 1,
        "confidenceEscalationInterruptKind": "clarification",
        "crossHostCausation": causation,
    });
    put(
        "multiAgent",
        record(CLAIMED, json!({ "executionModel": model })),
    );
    let reliability = json!({ "reliability": { "maxRetryAttempts": ASKS } });
    put("envelopes", record(CLAIMED, reliability));
    let kinds = json!({ "kinds": ["clarification.request"] });
    put("supportedEnvelopes", record(WITNESSABLE, kinds));
    if let Some(secrets) = facets(super::secrets(secret_scopes)) {
        put("secrets", record(WITNESSABLE, secrets));
    }
    put(
        "replay",
        record(
            WITNESSABLE,
            json!({
                "modes": ["replay", "branch"],
                "effectSeamsManifest": "/host/effect-seams",
            }),
        ),
    );
    put(
        "interrupt",
        record(
            WITNESSABLE,
            json!({
                "tokenAlgs": [token::ALGORITHM],
                "refKinds": ["principal", "group", "role"],
                "callbackDelivery": true,
            }),
        ),
    );
    put(
        "webhooks",
        record(
            WITNESSABLE,
            json!({
                "signatureAlgorithms": SIGNATURES,
                "retryPolicy": { "maxAttempts": MAX_DELIVERY_ATTEMPTS, "backoff": "exponential" },
                "deadLetter": {
                    "retentionDays": webhooks::RETENTION_DAYS,
                    "maxPageSize": webhooks::MAX_PAGE,
                },
                "secretRotation": { "overlapSeconds": OVERLAP_MS / 1_000 },
            }),
        ),
    );
    if admission::keeps_effects(limits) {
        put(
            "idempotency",
            record(WITNESSABLE, json!({ "crossRegion": "single-region" })),
        );
    }
    if gate.asks() {
        put("auth", record(WITNESSABLE, auth()));
    }
    put("aiProviders", record(CLAIMED, providers(models)));
    put(
        "providerUsage",
        record(
            CLAIMED,
            json!({ "costEstimates": models.all().any(Provider::has_prices) }),
        ),
    );
    let production = admission::production(limits, gate, can_expire);
    if let Some(mut production) = production.and_then(facets) {
        // Version 2 has no such route.
        if let Some(fields) = production.as_object_mut() {
            fields.remove("debugBundle");
        }
        put("production", record(WITNESSABLE, production));
    }
    if let Some(sink) = facets(admission::dead_letter(limits)) {
        put("deadLetter", record(CLAIMED, sink));
    }
    if let Some(key) = key {
        put(
            "auditLogIntegrity",
            record(
                WITNESSABLE,
                json!({
                    "hashChain": true,
                    "checkpointSignatureAlgorithm": "ed25519",
                    "checkpointPublicKey": key.spki(),
                    "checkpointIntervalEntries": checkpoints::INTERVAL_ENTRIES,
                    "checkpointIntervalSeconds": checkpoints::INTERVAL.as_secs(),
                }),
            ),
        );
    }
    Value::Object(root)
}

/// A family whose contract is finished.
fn stable(witness: &str, facets: Value) -> Value {
    with(
        json!({ "status": "stable", "since": SINCE, "witness": witness }),
        facets,
    )
}

/// A family that the protocol itself does not call stable yet.
fn record(witness: &str, facets: Value) -> Value {
    let head = json!({
        "status": "experimental", "since": SINCE, "until": UNTIL, "witness": witness,
    });
    with(head, facets)
}

fn with(mut head: Value, facets: Value) -> Value {
    if let (Value::Object(head), Value::Object(facets)) = (&mut head, facets) {
        head.extend(facets);
    }
    head
}

/// The facets of a record of version 1: presence is the claim, so `supported` goes. `None` for one
/// that is not supported; such a part is left out.
fn facets(family: Value) -> Option<Value> {
    let Value::Object(mut fields) = family else {
        return Some(family);
    };
    if fields.remove("supported") == Some(Value::Bool(false)) {
        return None;
    }
    let kept = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, facets(value)?)));
    Some(Value::Object(kept.collect()))
}

fn bounds(limits: &Limits) -> Value {
    json!({
        "clarificationRounds": 3,
        "schemaRounds": MAX_SCHEMA_ROUNDS,
        "envelopesPerTurn": 10,
        "maxNodeExecutions": MAX_NODE_EXECUTIONS,
        "maxRunDurationMs": MAX_WAIT_MS,
        "maxLoopIterations": MAX_LOOP_ITERATIONS,
        "maxRequestBodyBytes": limits.body_bytes,
    })
}

/// Credentials by the lane they come in. JWTs are taken too, and not claimed: the protocol binds
/// their lane to metadata of the resource that is not served.
fn auth() -> Value {
    json!({
        "lanes": [{
            "lane": "api-key",
            "issuers": [v2::KEY_ISSUER],
            "revocation": "next-request",
            "minimumAssurance": "bearer",
        }],
    })
}

fn providers(models: &Providers) -> Value {
    let names = |wanted: fn(&Provider) -> bool| -> Vec<&str> {
        let names = models.all().filter(|provider| wanted(provider));
        names.map(|provider| provider.name.as_str()).collect()
    };
    json!({ "providers": names(|_| true), "byok": names(|provider| provider.byok) })
}

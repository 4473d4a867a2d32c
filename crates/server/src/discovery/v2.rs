//! The capabilities document of OpenWOP 2: a closed root of records, one for each family that is
//! served. A family that is not there answers 404.

use kernel::limits::{
    MAX_DELIVERY_ATTEMPTS, MAX_FAN_OUT, MAX_NODE_EXECUTIONS, MAX_SCHEMA_ROUNDS, MAX_WAIT_MS,
};
use kernel::{ENGINE_VERSION, ENGINE_VERSIONS};
use runtime::access::checkpoints;
use runtime::models::{Provider, Providers};
use runtime::nodes::TEST_PROVIDERS;
use runtime::webhooks::OVERLAP_MS;
use serde_json::{Map, Value, json};

use super::Configured;
use crate::admission;
use crate::auth::Gate;
use crate::contract;
use crate::fixtures;
use crate::limits::Limits;
use crate::routes::v2::{runs, token, webhooks};
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
    put(
        "dispatch",
        record(
            CLAIMED,
            json!({
                "fanOutSupported": true,
                "fanOutPolicies": ["sequential", "parallel", "reject"],
                "joinModes": ["wait-all", "quorum", "first", "race"],
                "maxFanOut": MAX_FAN_OUT,
            }),
        ),
    );
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
    if let Some(production) = admission::production(limits, gate, can_expire) {
        put("production", record(WITNESSABLE, facets(production)));
    }
    let sink = facets(admission::dead_letter(limits));
    put("deadLetter", record(CLAIMED, sink));
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

/// The facets of a record of version 1: its presence is the claim, so `supported` goes.
fn facets(mut family: Value) -> Value {
    if let Some(fields) = family.as_object_mut() {
        fields.remove("supported");
    }
    family
}

fn bounds(limits: &Limits) -> Value {
    json!({
        "clarificationRounds": 3,
        "schemaRounds": MAX_SCHEMA_ROUNDS,
        "envelopesPerTurn": 10,
        "maxNodeExecutions": MAX_NODE_EXECUTIONS,
        "maxRunDurationMs": MAX_WAIT_MS,
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

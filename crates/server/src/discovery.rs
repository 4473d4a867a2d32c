//! The capabilities document: exactly the features of this server.

pub(crate) mod v2;

use kernel::limits::{
    MAX_FAN_OUT, MAX_LOOP_ITERATIONS, MAX_NODE_EXECUTIONS, MAX_SCHEMA_ROUNDS, MAX_WAIT_MS,
};
use kernel::{ENGINE_VERSION, ENGINE_VERSIONS};
use runtime::access::checkpoints;
use runtime::access::signing::PublicKey;
use runtime::api::ACK_TIMEOUT;
use runtime::models::{LAYERS, Mode, Provider, Providers};
use runtime::nodes::{ASKS, TEST_PROVIDERS};
use runtime::secrets::Scope;
use runtime::telemetry;
use runtime::webhooks::OVERLAP_MS;
use serde_json::{Map, Value, json};

use crate::admission;
use crate::auth::Gate;
use crate::contract;
use crate::encode::ENCODINGS;
use crate::fixtures;
use crate::limits::Limits;
use crate::webhooks::SIGNATURES;

/// The version of the contract between log and reader.
const EVENT_LOG_SCHEMA_VERSION: u32 = 2;

/// The operator's configuration.
#[derive(Clone, Copy)]
pub(crate) struct Configured<'a> {
    /// The configured models.
    pub(crate) models: &'a Providers,
    /// The key that audit trails are signed with.
    pub(crate) key: Option<PublicKey>,
    /// Whether runs may use the test provider.
    pub(crate) test_provider: bool,
    /// Whether traces and metrics are sent to a collector.
    pub(crate) exports: bool,
    /// The types of nodes that run here.
    pub(crate) node_types: &'a [String],
    /// The scopes of stored secrets.
    pub(crate) secret_scopes: &'a [Scope],
    /// Whether the secret that one of the protocol's definitions needs exists.
    pub(crate) has_canary: bool,
    /// Workflows that every tenant may run, by their ids.
    pub(crate) workflows: &'a [String],
    /// Whether a caller may end the retention of a run.
    pub(crate) can_expire: bool,
}

/// The document. Capabilities are at the root; `capabilities` mirrors them for older readers.
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
    } = configured;
    let fixtures = fixtures::claimed(workflows, test_provider, has_canary);
    let mut families = families(limits);
    let configured = [
        ("auth", auth(gate, key)),
        (
            "production",
            admission::production(limits, gate, can_expire),
        ),
        ("deadLetter", Some(admission::dead_letter(limits))),
        ("testing", test_provider.then(testing)),
        ("observability", exports.then(observability)),
        ("aiProviders", Some(providers(models))),
        ("providerUsage", Some(usage(models))),
        ("secrets", Some(secrets(secret_scopes))),
        ("runtimeCapabilities", Some(json!(node_types))),
        ("fixtures", (!fixtures.is_empty()).then(|| json!(fixtures))),
    ];
    for (family, value) in configured {
        families.extend(value.map(|value| (family.to_owned(), value)));
    }
    let mirror = families.clone();
    families.insert("protocolVersion".into(), json!(contract::VERSION_1));
    families.insert("protocolVersions".into(), json!(contract::VERSIONS));
    families.insert("preferredVersion".into(), json!(contract::PREFERRED));
    families.insert("capabilities".into(), Value::Object(mirror));
    Value::Object(families)
}

/// Test features, if every key is a test key.
fn testing() -> Value {
    json!({
        "mockProviders": TEST_PROVIDERS,
        "testKeyPrefix": "rw_",
        "forceEngineVersionRange": { "min": ENGINE_VERSIONS.start(), "max": ENGINE_VERSIONS.end() },
    })
}

/// The exported telemetry.
fn observability() -> Value {
    let names = telemetry::METRICS.map(|metric| metric.name);
    json!({
        "otel": { "exportProtocols": ["http/json", "http/protobuf"] },
        "metrics": { "supported": true, "names": names },
    })
}

/// The providers that may be used, and their policies.
fn providers(models: &Providers) -> Value {
    let all = || models.all();
    let names = |wanted: fn(&Provider) -> bool| -> Vec<&str> {
        let names = all().filter(|provider| wanted(provider));
        names.map(|provider| provider.name.as_str()).collect()
    };
    let modes: Vec<&str> = Mode::ALL.iter().map(|(name, _)| *name).collect();
    json!({
        "supported": names(|_| true),
        "byok": names(|provider| provider.byok),
        "policies": { "modes": modes, "scopes": LAYERS, "errorCode": "provider_policy_denied" },
    })
}

/// The scopes in which the host stores secrets; runs only ever hold references to them.
fn secrets(scopes: &[Scope]) -> Value {
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    if scopes.is_empty() {
        json!({ "supported": false })
    } else {
        json!({ "supported": true, "scopes": scopes, "resolution": "host-managed" })
    }
}

/// Every call is counted; its cost is reported if prices are configured.
fn usage(models: &Providers) -> Value {
    json!({ "supported": true, "costEstimates": models.all().any(Provider::has_prices) })
}

/// The dimensions of a budget. A run that would exceed it fails.
pub(crate) fn budget() -> Value {
    json!({
        "supported": true,
        "dimensions": ["tokens", "cost", "toolCalls", "retries", "model"],
        "enforce": "hard",
        "scopes": ["run", "workflow"],
    })
}

/// Authentication profiles, and that of the audit trail.
fn auth(gate: &Gate, key: Option<PublicKey>) -> Option<Value> {
    let Some(key) = key else {
        return gate.advertised();
    };
    let mut auth = gate.advertised().unwrap_or(json!({ "profiles": [] }));
    if let Some(profiles) = auth["profiles"].as_array_mut() {
        profiles.push(json!("openwop-audit-log-integrity"));
    }
    auth["auditLogIntegrity"] = json!({
        "hashChain": true,
        "checkpointSignatureAlgorithm": "ed25519",
        "checkpointPublicKey": key.spki(),
        "checkpointIntervalEntries": checkpoints::INTERVAL_ENTRIES,
        "checkpointIntervalSeconds": checkpoints::INTERVAL.as_secs(),
    });
    Some(auth)
}

fn families(limits: &Limits) -> Map<String, Value> {
    let document = json!({
        "supportedEnvelopes": ["clarification.request"],
        "schemaVersions": {},
        "limits": {
            // The protocol requires a positive value even of an engine that asks no clarifications.
            "clarificationRounds": 3,
            "schemaRounds": MAX_SCHEMA_ROUNDS,
            "envelopesPerTurn": 10,
            "maxNodeExecutions": MAX_NODE_EXECUTIONS,
            "maxRunDurationMs": MAX_WAIT_MS,
            "maxLoopIterations": MAX_LOOP_ITERATIONS,
            "maxRequestBodyBytes": limits.body_bytes,
        },
        "implementation": {
            "name": "runwright",
            "version": env!("CARGO_PKG_VERSION"),
            "vendor": "runwright",
        },
        "engineVersion": ENGINE_VERSION,
        "eventLogSchemaVersion": EVENT_LOG_SCHEMA_VERSION,
        "supportedTransports": ["rest"],
        "configurable": {
            "recursionLimit": { "type": "integer", "minimum": 1, "maximum": MAX_NODE_EXECUTIONS },
            "runTimeoutMs": { "type": "integer", "minimum": 1, "maximum": MAX_WAIT_MS },
            "maxLoopIterations": { "type": "integer", "minimum": 1, "maximum": MAX_LOOP_ITERATIONS },
            "model": { "type": "string" },
            "temperature": { "type": "number", "minimum": 0, "maximum": 2 },
            "maxTokens": { "type": "integer", "minimum": 1 },
            "promptOverrides": { "type": "object", "additionalProperties": { "type": "string" } },
            "ai.provider": { "type": "string" },
            "ai.model": { "type": "string" },
            "ai.credentialRef": { "type": "string" },
        },
        "budget": budget(),
        "restTransport": {
            "conditionalRunGet": true,
            "contentEncodings": ENCODINGS,
        },
        "replay": {
            "supported": true,
            "modes": ["replay", "branch"],
            "sideEffectSuppression": "recorded-outcome",
        },
        "runs": {
            "pauseResume": {
                "supported": true,
                "drainPolicies": ["immediate", "drain-current-node"],
            },
        },
        "interrupt": {
            "approverRouting": { "supported": true, "refKinds": ["group", "role"] },
        },
        "extensions": {
            "interrupts": {
                "profiles": [
                    "openwop-interrupt-quorum",
                    "openwop-interrupt-auth-required",
                    "openwop-interrupt-external-event",
                    "openwop-interrupt-cascade-cancel",
                ],
                "signedCallbackTokens": true,
            },
        },
        "debugBundle": { "supported": true },
        "feedback": {
            "supported": true,
            "targets": ["run", "event", "node"],
            "signals": ["rating", "correction", "label", "flag"],
        },
        "compliance": { "defaultMode": "mask" },
        "envelopes": {
            "reliability": {
                "supported": true,
                "events": [
                    "envelope.retry.attempted",
                    "envelope.retry.exhausted",
                    "envelope.refusal",
                    "envelope.truncated",
                    "envelope.nlToFormat.engaged",
                    "envelope.recovery.applied",
                ],
                "maxRetryAttempts": ASKS,
            },
        },
        "subWorkflow": { "inputMapping": true },
        "webhooks": {
            "supported": true,
            "signatureAlgorithms": SIGNATURES,
            "secretRotation": { "overlapSeconds": OVERLAP_MS / 1_000 },
        },
        "agents": {
            "supported": true,
            "orchestrator": true,
            "dispatch": true,
            "dispatchMapping": true,
        },
        "orchestrator": { "supported": true, "fanOutSupported": true },
        "dispatch": {
            "supported": true,
            "fanOutSupported": true,
            "fanOutPolicies": ["sequential", "parallel", "reject"],
            "joinModes": ["wait-all", "quorum", "first", "race"],
            "onChildFailureModes": ["collect", "fail-fast", "absorb"],
            "maxFanOut": MAX_FAN_OUT,
            "perItemInput": true,
        },
        "multiAgent": {
            "executionModel": {
                "supported": true,
                // Version 2 would also define the fate of an agent's memory.
                "version": 1,
                "confidenceEscalationInterruptKind": "clarification",
            },
        },
        "idempotency": {
            "crossRegion": "single-region",
            "idempotencyAckTimeoutSec": ACK_TIMEOUT.as_secs(),
        },
    });
    match document {
        Value::Object(families) => families,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_matches_the_root() {
        let gate = Gate::open_to("acme".into());
        let configured = Configured {
            models: &Providers::default(),
            key: None,
            test_provider: true,
            exports: true,
            node_types: &["core.noop".to_owned()],
            secret_scopes: &Scope::ALL,
            has_canary: true,
            workflows: &["conformance-noop".to_owned()],
            can_expire: true,
        };
        let document = document(&Limits::default(), &gate, configured);
        let mirror = document["capabilities"].as_object().unwrap();
        assert!(mirror.contains_key("limits"));
        for (family, value) in mirror {
            assert_eq!(&document[family], value, "{family}");
        }
    }
}

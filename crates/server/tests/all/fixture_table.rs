//! Every workflow definition of the protocol, and its treatment by this host.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::fixtures::{definitions, host, missing};

/// Definitions that are run, by test module. Unless noted otherwise each ends as section 10.2 of
/// the protocol's digest says.
const RUN: [(&str, &[&str]); 6] = [
    (
        "fixtures",
        &[
            "conformance-agent-identity",
            "conformance-cancellable",
            "conformance-cap-breach",
            "conformance-capability-missing",
            "conformance-channel-ttl",
            "conformance-configurable-schema",
            "conformance-delay",
            "conformance-dispatch-cancellable-child",
            "conformance-dispatch-cross-worker-handoff",
            "conformance-dispatch-cross-worker-handoff-child-a",
            "conformance-dispatch-cross-worker-handoff-child-b",
            "conformance-dispatch-deterministic-fail-child",
            "conformance-dispatch-input-mapping",
            "conformance-dispatch-input-mapping-child",
            "conformance-dispatch-input-mapping-no-default",
            "conformance-dispatch-loop",
            "conformance-dispatch-output-mapping",
            "conformance-dispatch-output-mapping-child",
            "conformance-dispatch-per-worker-override",
            "conformance-failure",
            "conformance-idempotent",
            "conformance-identity",
            "conformance-interrupt-parent-child-cancel",
            "conformance-interrupt-parent-child-cancel-child",
            "conformance-message-reducer",
            "conformance-multi-agent-confidence-escalation",
            "conformance-multi-agent-handoff",
            "conformance-multi-agent-handoff-child",
            "conformance-multi-node",
            "conformance-noop",
            "conformance-orchestrator-dispatch",
            "conformance-orchestrator-low-confidence",
            "conformance-orchestrator-terminate",
            "conformance-run-duration-breach",
            "conformance-stream-text",
            "conformance-subworkflow-child",
            "conformance-subworkflow-input-mapping",
            "conformance-subworkflow-input-mapping-child",
            "conformance-subworkflow-input-mapping-no-default",
            "conformance-subworkflow-mid-run-mutation",
            "conformance-subworkflow-mid-run-mutation-child",
            "conformance-subworkflow-parent",
            "conformance-version-fold",
            "openwop-smoke-cost-emit",
        ],
    ),
    (
        "protocol_gates",
        &[
            "conformance-approval",
            "conformance-clarification",
            "conformance-interrupt-auth-required",
            "conformance-interrupt-external-event",
            "conformance-interrupt-quorum",
        ],
    ),
    (
        "envelopes",
        &[
            "conformance-envelope-nl-to-format-engaged",
            "conformance-envelope-recovery-applied",
            "conformance-envelope-refusal",
            "conformance-envelope-retry-attempted",
            "conformance-envelope-retry-exhausted",
            "conformance-envelope-truncated",
            "conformance-envelope-truncation-cap-exhaustion",
            "conformance-phase4-nondet-tool",
        ],
    ),
    // cli::all
    ("secrets", &["openwop-smoke-byok-roundtrip"]),
    // cli::all, with a server of tools by the official SDK, on its streams and over HTTP.
    ("mcp", &["conformance-mcp-tool-roundtrip"]),
    // A replay calls no model, so nothing can diverge.
    ("envelopes", &["conformance-phase4-replay-divergence"]),
];

/// Definitions that load as `core.identity` and complete without their family's feature.
const WITHOUT: [(&str, &[&str]); 2] = [
    (
        "agent memory",
        &[
            "conformance-agent-memory-cross-tenant",
            "conformance-agent-memory-redaction",
            "conformance-agent-memory-roundtrip",
            "conformance-agent-memory-ttl",
        ],
    ),
    (
        "packs of agents",
        &[
            "conformance-agent-pack-export",
            "conformance-agent-pack-handoff-schema-validation",
            "conformance-agent-pack-install",
            "conformance-agent-pack-provenance",
        ],
    ),
];

/// Definitions that are rejected, by unsupported family.
const REFUSED: [(&str, &[&str]); 7] = [
    ("agents.deployment", &["conformance-agent-channel-dispatch"]),
    ("a2a", &["conformance-a2a-task-roundtrip"]),
    (
        "conformance.mockAgent",
        &[
            "conformance-agent-low-confidence",
            "conformance-agent-reasoning",
            "conformance-agent-reasoning-streaming",
        ],
    ),
    (
        "conversationPrimitive",
        &[
            "conformance-conversation-capability-negotiation",
            "conformance-conversation-lifecycle",
            "conformance-conversation-replay",
            "conformance-conversation-vs-clarification",
        ],
    ),
    (
        "modelCapabilities",
        &["conformance-model-capability-insufficient"],
    ),
    (
        "prompts",
        &[
            "conformance-prompt-all-four-kinds",
            "conformance-prompt-end-to-end",
        ],
    ),
    (
        "nodePackRuntimes",
        &[
            "conformance-wasm-pack-memory-cap-breach",
            "conformance-wasm-pack-roundtrip",
        ],
    ),
];

fn listed(table: &[(&str, &[&'static str])]) -> BTreeSet<&'static str> {
    table
        .iter()
        .flat_map(|(_, ids)| ids.iter().copied())
        .collect()
}

#[tokio::test]
async fn every_definition_is_in_one_part_of_the_table() {
    let test = "every_definition_is_in_one_part_of_the_table";
    let Some(definitions) = definitions(test) else {
        return;
    };
    let parts = [listed(&RUN), listed(&WITHOUT), listed(&REFUSED)];
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for id in parts.iter().flatten() {
        *places.entry(id).or_default() += 1;
    }
    for id in definitions.keys() {
        assert_eq!(places.get(id.as_str()), Some(&1), "{id}");
    }
    let Some(host) = host(test).await else { return };
    let claimed = host.get("/.well-known/openwop").await.json()["fixtures"].clone();
    assert_eq!(
        claimed,
        json!(null),
        "nobody put any at hand of this server"
    );
    for (id, definition) in &definitions {
        let order = json!({ "workflowId": id });
        let refused = parts[2].contains(id.as_str());
        let answer = host.post("/v1/runs", &order).await;
        assert_eq!(
            answer.status == 400 && answer.json()["error"] == missing(definition),
            refused,
            "{id}"
        );
    }
}

#[tokio::test]
async fn fixtures_complete_without_the_feature_of_their_family() {
    let test = "fixtures_complete_without_the_feature_of_their_family";
    let Some(host) = host(test).await else { return };
    for id in listed(&WITHOUT) {
        let run = host.completed(&json!({ "workflowId": id })).await;
        assert_eq!(host.snapshot(&run).await["status"], "completed", "{id}");
    }
}

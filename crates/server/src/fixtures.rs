//! The protocol's own workflow definitions that behave here as they are described. They are not
//! part of this server; discovery lists those that are installed.

/// Each of them is run by a test (`fixtures.rs`, `protocol_gates.rs`) if it is installed.
const KNOWN: [&str; 47] = [
    "conformance-agent-identity",
    "conformance-approval",
    "conformance-cancellable",
    "conformance-cap-breach",
    "conformance-capability-missing",
    "conformance-channel-ttl",
    "conformance-clarification",
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
    "conformance-interrupt-auth-required",
    "conformance-interrupt-external-event",
    "conformance-interrupt-parent-child-cancel",
    "conformance-interrupt-parent-child-cancel-child",
    "conformance-interrupt-quorum",
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
    "conformance-subworkflow-child",
    "conformance-subworkflow-input-mapping",
    "conformance-subworkflow-input-mapping-child",
    "conformance-subworkflow-input-mapping-no-default",
    "conformance-subworkflow-mid-run-mutation",
    "conformance-subworkflow-mid-run-mutation-child",
    "conformance-subworkflow-parent",
    "openwop-smoke-cost-emit",
];
/// Needs test keys: the test provider, or an older version's rules.
const TESTED: [&str; 2] = ["conformance-stream-text", "conformance-version-fold"];
/// Needs a secret that the operator has stored.
const SECRET: &str = "openwop-smoke-byok-roundtrip";
/// The name of that secret.
pub(crate) const CANARY: &str = "openwop-conformance-canary-secret";

/// The installed workflows that discovery may list.
pub(crate) fn claimed(at_hand: &[String], has_test_provider: bool, has_canary: bool) -> Vec<&str> {
    let may_be = |id: &str| match id {
        SECRET => has_canary,
        id if TESTED.contains(&id) => has_test_provider,
        id => KNOWN.contains(&id),
    };
    let ids = at_hand.iter().map(String::as_str);
    let mut claimed: Vec<&str> = ids.filter(|id| may_be(id)).collect();
    claimed.sort_unstable();
    claimed.dedup();
    claimed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_available_working_fixtures_are_claimed() {
        let at_hand = [
            "conformance-stream-text",
            "conformance-noop",
            SECRET,
            "greets",
            "conformance-noop",
        ];
        let at_hand = at_hand.map(str::to_owned);
        assert_eq!(claimed(&at_hand, false, false), ["conformance-noop"]);
        assert_eq!(
            claimed(&at_hand, true, true),
            ["conformance-noop", "conformance-stream-text", SECRET]
        );
        assert!(claimed(&[], true, true).is_empty());
    }
}

//! The registry of error codes (`errors.json`, version 2.0 of 2026-10-06) with the status that each
//! is answered with.

use std::borrow::Cow;

const REGISTRY: [(u16, &[&str]); 16] = [
    (
        400,
        &[
            "connection_provider_unresolved",
            "connector_action_unresolved",
            "credential_scope_unsupported",
            "delegation_chain_cyclic",
            "delegation_chain_too_long",
            "idempotency_key_invalid",
            "interop_version_unsupported",
            "oauth_provider_unsupported",
            "oauth_scope_unsupported",
            "pack_dependency_cycle",
            "pack_engine_unsupported",
            "pack_integrity_failure",
            "pack_kind_invalid",
            "pack_lockfile_incomplete",
            "pack_peer_dependency_missing",
            "pack_peer_dependency_undefined",
            "pack_signature_invalid",
            "pack_validation_failed",
            "protocol_version_mismatch",
            "schedule_horizon_exceeded",
            "sub_chain_cycle",
            "sub_chain_depth_exceeded",
            "unsupported_runtime",
            "unsupported_stream_mode",
            "until_in_past",
            "validation_error",
            "webhook_endpoint_unverified",
            "webhook_url_rejected",
        ],
    ),
    (
        401,
        &[
            "audience_mismatch",
            "connector_auth_declined",
            "connector_auth_expired",
            "credential_lifetime_exceeded",
            "credential_revoked",
            "delegation_expired",
            "identity_unresolvable",
            "identity_unverified",
            "interrupt_token_invalid",
            "key_revoked",
            "sender_constraint_missing",
            "unauthenticated",
        ],
    ),
    (
        403,
        &[
            "credential_forbidden",
            "credential_scope_forbidden",
            "delegation_scope_amplified",
            "egress_denied",
            "forbidden",
            "force_engine_version_forbidden",
            "id_tenant_mismatch",
            "mock_provider_forbidden",
            "pack_namespace_unauthorized",
            "run_forbidden",
            "sandbox_capability_denied",
            "sandbox_escape_attempt",
            "workspace_membership_required",
        ],
    ),
    (
        404,
        &[
            "credential_not_found",
            "interrupt_not_found",
            "not_found",
            "pack_version_not_found",
            "replay_source_missing",
            "signature_not_available",
        ],
    ),
    (406, &["protocol_version_unsupported"]),
    (
        409,
        &[
            "connection_provider_conflict",
            "envelope_correlation_conflict",
            "host_event_resync_required",
            "idempotency_in_flight",
            "idempotency_key_mismatch",
            "interrupt_already_resolved",
            "pack_dependency_conflict",
            "pack_integrity_mismatch",
            "proposal_install_conflict",
            "proposal_stale",
            "proposal_state_conflict",
            "replay_context_summary_unavailable",
            "replay_diverged_at_refusal",
            "replay_memory_snapshot_unavailable",
            "run_already_active",
            "run_state_conflict",
            "run_terminal",
            "version_conflict",
            "workspace_conflict",
        ],
    ),
    (
        410,
        &["interrupt_cancelled", "interrupt_expired", "run_expired"],
    ),
    (413, &["payload_too_large", "workspace_too_large"]),
    (415, &["unsupported_media_type"]),
    (
        422,
        &[
            "approval_rejected",
            "budget_exhausted",
            "budget_model_denied",
            "capability_not_provided",
            "capability_required",
            "connection_auth_metadata_mismatch",
            "conversation_roster_exceeded",
            "conversation_speaker_not_participant",
            "credential_required",
            "envelope_invalid",
            "envelope_refusal",
            "envelope_truncation_unrecoverable",
            "eval_gate_unmet",
            "fork_point_invalid",
            "loop_limit_exceeded",
            "mcp_mrtr_rounds_exceeded",
            "node_config_invalid",
            "pack_runtime_requirement_unmet",
            "provider_policy_denied",
            "recursion_limit_exceeded",
            "residency_unavailable",
            "run_timeout",
            "sandbox_invocation_error",
            "sandbox_memory_exceeded",
            "sandbox_timeout",
            "storage_limit_exceeded",
            "token_budget_exceeded",
            "unknown_envelope_kind",
            "unknown_schema_version",
        ],
    ),
    (426, &["client_version_unsupported"]),
    (429, &["rate_limited"]),
    (
        500,
        &[
            "event_type_unmapped",
            "internal_error",
            "pack_load_failure",
            "payload_unprojectable",
        ],
    ),
    (501, &["credential_unavailable"]),
    (502, &["mcp_error", "upstream_unavailable"]),
    (
        503,
        &[
            "pack_registry_unreachable",
            "runner_unavailable",
            "service_unavailable",
        ],
    ),
];

/// The status that a registered code is answered with; `None` for a code that is not registered.
pub fn status_of(code: &str) -> Option<u16> {
    let row = REGISTRY.iter().find(|(_, codes)| codes.contains(&code));
    row.map(|(status, _)| *status)
}

/// A code as v2 spells it: a registered one, or a vendor's, as it is; any other as one of ours,
/// `runwright.<code>`.
pub fn run_code(code: &str) -> Cow<'_, str> {
    if status_of(code).is_some() || is_vendors(code) {
        return Cow::Borrowed(code);
    }
    let plain = |c: char| match c {
        'a'..='z' | '0'..='9' => c,
        'A'..='Z' => c.to_ascii_lowercase(),
        _ => '_',
    };
    let name: String = code.chars().map(plain).collect();
    let letter = if name.starts_with(|c: char| c.is_ascii_lowercase()) {
        ""
    } else {
        "code_"
    };
    Cow::Owned(format!("runwright.{letter}{name}"))
}

/// Whether a code is `<org>.<name>`.
fn is_vendors(code: &str) -> bool {
    let Some((org, name)) = code.split_once('.') else {
        return false;
    };
    let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_lowercase());
    let plain = |text: &str, more: u8| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == more)
    };
    let is_org = org.split('-').all(|part| !part.is_empty()) && begins(org) && plain(org, b'-');
    is_org && org != "openwop" && begins(name) && plain(name, b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_registered_or_a_vendors() {
        let all: usize = REGISTRY.iter().map(|(_, codes)| codes.len()).sum();
        assert_eq!(all, 126);
        assert_eq!(status_of("run_terminal"), Some(409));
        assert_eq!(status_of("credential_unavailable"), Some(501));
        assert_eq!(run_code("run_timeout"), "run_timeout");
        assert_eq!(run_code("process_failed"), "runwright.process_failed");
        assert_eq!(run_code("acme.broken"), "acme.broken");
        assert_eq!(run_code("HTTP-500.x"), "runwright.http_500_x");
        assert_eq!(run_code("500"), "runwright.code_500");
    }
}

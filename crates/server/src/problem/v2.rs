//! Refusals in the words of OpenWOP 2: registered codes with their registered statuses, or codes of
//! ours, `runwright.<name>`.

use faces::openwop::v2;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::Problem;

/// Codes with another name in v2. Our code is kept as `details.reason`.
const RENAMED: [(&str, &str); 20] = [
    ("run_not_found", "not_found"),
    ("workflow_not_found", "not_found"),
    ("subscription_not_found", "not_found"),
    ("child_not_found", "not_found"),
    ("invalid_token", "unauthenticated"),
    ("key_expired", "unauthenticated"),
    ("key_revoked", "credential_revoked"),
    ("insufficient_scope", "forbidden"),
    ("auth_elevation_required", "forbidden"),
    ("not_an_approver", "forbidden"),
    ("origin_not_allowed", "forbidden"),
    ("host_not_allowed", "forbidden"),
    ("interrupt_gone", "interrupt_cancelled"),
    ("fork_beyond_log", "fork_point_invalid"),
    ("fork_at_end", "fork_point_invalid"),
    ("fork_definition_unfit", "fork_point_invalid"),
    ("storage_damaged", "internal_error"),
    ("INVALID_RESUME_VALUE", "validation_error"),
    ("invalid_resume_value", "validation_error"),
    ("inbox_full", "rate_limited"),
];
/// Codes that the protocol has no word for.
const OURS: [(&str, &str); 8] = [
    ("method_not_allowed", "runwright.method_not_allowed"),
    ("not_acceptable", "runwright.not_acceptable"),
    ("uri_too_long", "runwright.uri_too_long"),
    ("headers_too_large", "runwright.headers_too_large"),
    ("request_timeout", "runwright.request_timeout"),
    ("range_not_satisfiable", "runwright.range_not_satisfiable"),
    ("limit_reached", "runwright.limit_reached"),
    ("replay_diverged", "runwright.replay_diverged"),
];
/// Ids in details, which v2 names with their tenant.
const IDS: [&str; 3] = ["activeRunId", "sourceRunId", "runId"];

impl Problem {
    /// The same refusal in the words of v2. Does nothing to one that is in them already.
    pub(crate) fn in_v2(mut self, tenant: Option<&str>) -> Self {
        let before = self.code;
        if let Some((_, ours)) = OURS.iter().find(|(code, _)| *code == before) {
            self.code = ours;
        } else if v2::status_of(before).is_none() && !before.starts_with("runwright.") {
            let renamed = RENAMED.iter().find(|(code, _)| *code == before);
            self.code = renamed.map_or_else(|| by_status(self.status), |(_, code)| code);
            self.details
                .entry("reason")
                .or_insert_with(|| json!(before));
        } else if before == "key_revoked" {
            self.code = "credential_revoked";
        }
        if let Some(status) = v2::status_of(self.code)
            && let Ok(status) = StatusCode::from_u16(status)
        {
            self.status = status;
        }
        // The time to wait is in the header only.
        self.details.remove("retryAfter");
        if let Some(scope) = self.details.remove("requiredScope") {
            self.details.insert("scopeRequired".into(), scope);
        }
        for name in IDS {
            if let (Some(tenant), Some(Value::String(id))) = (tenant, self.details.get_mut(name))
                && !id.contains('/')
            {
                *id = v2::bind(tenant, &id);
            }
        }
        self.message = self.message.replace("/v1/", "/");
        self
    }

    /// 406: the protocol's major is not served.
    pub(crate) fn unsupported_version(versions: &[&str]) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "protocol_version_unsupported",
            "this server does not speak this version of OpenWOP; details.protocolVersions lists \
             those it speaks",
        )
        .with("protocolVersions", json!(versions))
    }

    /// 403: an id names another tenant than the credential's.
    pub(crate) fn foreign_tenant() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "id_tenant_mismatch",
            "the id names another tenant than the credential",
        )
    }
}

/// The code for a refusal without a better one, by its status.
fn by_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "unauthenticated",
        403 => "forbidden",
        404 => "not_found",
        409 => "run_state_conflict",
        410 => "run_expired",
        413 => "payload_too_large",
        415 => "unsupported_media_type",
        422 => "validation_error",
        429 => "rate_limited",
        501 => "capability_not_provided",
        503 => "service_unavailable",
        500..=599 => "internal_error",
        _ => "validation_error",
    }
}

#[cfg(test)]
mod tests {
    use runtime::api::{ApiError, ResourceKind};

    use super::*;

    #[test]
    fn refusals_are_registered_in_v2() {
        for (problem, status, code) in [
            (
                Problem::from(ApiError::NotFound(ResourceKind::Run)),
                404,
                "not_found",
            ),
            (Problem::invalid_token(), 401, "unauthenticated"),
            (Problem::scope("runs:read"), 403, "forbidden"),
            (Problem::method("GET"), 405, "runwright.method_not_allowed"),
            (
                Problem::from(ApiError::NotProvided { capability: "x" }),
                422,
                "capability_not_provided",
            ),
            (
                Problem::from(ApiError::InterruptCancelled),
                410,
                "interrupt_cancelled",
            ),
            (Problem::damaged(), 500, "internal_error"),
            (Problem::unavailable("later"), 503, "service_unavailable"),
        ] {
            let shown = problem.in_v2(Some("acme"));
            assert_eq!((shown.status.as_u16(), shown.code), (status, code));
            assert!(!shown.details.contains_key("retryAfter"));
            assert!(!shown.message.contains("/v1/"), "{}", shown.message);
            let again = shown.clone().in_v2(Some("acme"));
            assert_eq!(again.envelope(), shown.envelope());
        }
    }
}

//! Errors of models, by stable codes.

use kernel::limits::MAX_WAIT_MS;
use kernel::run::NodeError;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::providers::CUSTOM;
use crate::outbound::{OutboundError, retry_after_ms};

/// Characters of a provider's message quoted in details.
const QUOTED: usize = 500;

/// The answer is malformed.
pub(crate) fn bad_answer(what: &str) -> NodeError {
    let text = format!("the model's answer cannot be read: {what}");
    NodeError::new("model_bad_answer", text)
}

/// The connection broke in the middle of an answer.
pub(crate) fn broken(what: &str) -> NodeError {
    NodeError::new("model_stream_broken", what)
}

/// The call timed out.
pub(crate) fn timed_out(what: &str) -> NodeError {
    NodeError::new("model_timed_out", what)
}

/// The request does not fit into the model's context.
pub(crate) fn overflow() -> NodeError {
    let text = "the request does not fit into the model's context; shorten it, or lower maxTokens";
    NodeError::new("model_context_overflow", text).fatal()
}

/// The provider did not respond. If the workflow itself gives the address, the error names it. A
/// configured provider's address is for the operator only, in the engine's log.
pub(super) fn no_answer(error: &OutboundError, provider: &str) -> NodeError {
    let text = match provider {
        CUSTOM => error.to_string(),
        _ => {
            tracing::warn!(provider, %error, "a provider did not answer");
            of_provider(error, provider)
        }
    };
    match error {
        OutboundError::Refused { .. } => {
            let text = format!("{text}; the operator of the engine can allow it with --allow-http");
            NodeError::new("model_endpoint_refused", text).fatal()
        }
        OutboundError::BadRedirect { .. } => NodeError::new("model_endpoint_refused", text).fatal(),
        OutboundError::Unresolved { .. } | OutboundError::Unreachable { .. } => {
            NodeError::new("model_unreachable", text)
        }
        OutboundError::TimedOut { .. } => timed_out(&text),
        OutboundError::Broken { .. } => broken(&text),
    }
}

/// The failure of a provider, without its address.
fn of_provider(error: &OutboundError, provider: &str) -> String {
    match error {
        OutboundError::Refused { .. } => {
            format!("requests to the address of the provider {provider} are refused")
        }
        OutboundError::BadRedirect { .. } => {
            format!("the provider {provider} redirects, which is not followed")
        }
        OutboundError::Unresolved { .. } | OutboundError::Unreachable { .. } => {
            format!("the provider {provider} cannot be reached; the engine's log has the reason")
        }
        OutboundError::TimedOut { .. } => {
            format!("the provider {provider} gave no complete answer in time")
        }
        OutboundError::Broken { .. } => {
            format!("the connection to the provider {provider} broke")
        }
    }
}

/// The provider responded with an error. `said` is the beginning of its body.
pub(super) fn status(status: StatusCode, headers: &HeaderMap, said: &str) -> NodeError {
    let body: Value = serde_json::from_str(said).unwrap_or_default();
    let mut error = of_body(&body, Some(status));
    let details = error.details.get_or_insert_with(|| json!({}));
    details["status"] = status.as_u16().into();
    if error.retryable != Some(false)
        && let Some(ms) = retry_after_ms(headers)
    {
        details["retryAfterMs"] = ms.min(MAX_WAIT_MS).into();
    }
    error
}

/// An error in the providers' format, `{"error": {"type", "code", "message"}}`: a response, or an
/// event of a stream.
pub(super) fn of_body(body: &Value, status: Option<StatusCode>) -> NodeError {
    let error = &body["error"];
    let word = |name: &str| error[name].as_str().unwrap_or_default();
    let (kind, code, message) = (word("type"), word("code"), word("message"));
    let number = status.map_or_else(
        || error["code"].as_u64().unwrap_or_default(),
        |status| status.as_u16().into(),
    );
    let says = |any: &[&str]| any.iter().any(|text| kind == *text || code == *text);
    let lower = message.to_lowercase();
    let is_overflow = says(&["context_length_exceeded", "exceed_context_size_error"])
        || (number == 400 || number == 413)
            && [
                "prompt is too long",
                "context length",
                "context window",
                "context size",
            ]
            .iter()
            .any(|text| lower.contains(text));
    let mut failed = if is_overflow {
        overflow()
    } else if says(&["insufficient_quota", "billing_error"]) || number == 402 {
        let text = "the provider's account has no quota left; check its billing";
        NodeError::new("model_quota_exhausted", text).fatal()
    } else if says(&["overloaded_error"]) || number >= 500 {
        NodeError::new(
            "model_unavailable",
            "the provider cannot answer now; try again later",
        )
    } else if says(&["rate_limit_error", "rate_limit_exceeded"]) || number == 429 {
        NodeError::new(
            "model_rate_limited",
            "the provider limits the rate of calls; try again later",
        )
    } else if says(&[
        "authentication_error",
        "permission_error",
        "invalid_api_key",
    ]) || matches!(number, 401 | 403)
    {
        let text = "the provider does not accept the credential for this model; check \
                    credentialRef, or the credential of the provider's configuration";
        NodeError::new("model_credential_refused", text).fatal()
    } else if says(&["not_found_error", "model_not_found"]) || number == 404 {
        let text = "the provider has no such model, or its base URL is wrong";
        NodeError::new("model_not_found", text).fatal()
    } else if says(&["content_filter", "content_policy_violation"]) {
        refused()
    } else if matches!(number, 408 | 409 | 425) || says(&["api_error", "server_error"]) {
        NodeError::new(
            "model_unavailable",
            "the provider cannot answer now; try again later",
        )
    } else {
        let text = "the provider does not accept the request; its reason is in the details";
        NodeError::new("model_request_refused", text).fatal()
    };
    let mut details = json!({});
    for (name, text) in [("type", kind), ("code", code), ("providerMessage", message)] {
        if !text.is_empty() {
            details[name] = text.chars().take(QUOTED).collect::<String>().into();
        }
    }
    failed.details = Some(details);
    failed
}

/// Whether a call failed before any of the answer arrived.
pub(crate) fn is_clean(error: &NodeError) -> bool {
    let details = error.details.as_ref();
    error.code == "model_unreachable" || details.is_some_and(|it| it.get("status").is_some())
}

/// Whether a failed call may be charged: the model may have begun to answer.
pub(crate) fn may_cost(error: &NodeError) -> bool {
    !is_clean(error) && error.code != "model_endpoint_refused"
}

/// The model or its provider refuses to answer.
pub(crate) fn refused() -> NodeError {
    let text = "the model refuses to answer this; the call is not repeated";
    NodeError::new("envelope_refusal", text).fatal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: u16, body: Value, code: &str, may_retry: bool) {
        let number = StatusCode::from_u16(number).unwrap();
        let error = status(number, &HeaderMap::new(), &body.to_string());
        assert_eq!(error.code, code, "{body}");
        assert_eq!(error.retryable != Some(false), may_retry, "{body}");
        assert_eq!(error.details.unwrap()["status"], number.as_u16());
    }

    #[test]
    fn errors_are_classified_by_their_remedy() {
        let openai = |kind: &str, code: Value, message: &str| json!({ "error": { "type": kind, "code": code, "message": message } });
        let anthropic = |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message } });
        let no_code = Value::Null;
        let invalid = "invalid_request_error";
        check(
            400,
            openai(
                invalid,
                "context_length_exceeded".into(),
                "This model's maximum …",
            ),
            "model_context_overflow",
            false,
        );
        check(
            400,
            openai(
                "exceed_context_size_error",
                400.into(),
                "request (999 tokens) exceeds",
            ),
            "model_context_overflow",
            false,
        );
        check(
            400,
            anthropic(
                invalid,
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
            "model_context_overflow",
            false,
        );
        check(
            429,
            openai(
                "insufficient_quota",
                "insufficient_quota".into(),
                "You exceeded …",
            ),
            "model_quota_exhausted",
            false,
        );
        check(
            429,
            openai("requests", no_code.clone(), "slow"),
            "model_rate_limited",
            true,
        );
        check(
            429,
            anthropic("rate_limit_error", ""),
            "model_rate_limited",
            true,
        );
        check(
            529,
            anthropic("overloaded_error", ""),
            "model_unavailable",
            true,
        );
        check(500, json!("oops"), "model_unavailable", true);
        check(
            401,
            anthropic("authentication_error", ""),
            "model_credential_refused",
            false,
        );
        check(
            404,
            openai(invalid, "model_not_found".into(), ""),
            "model_not_found",
            false,
        );
        check(
            400,
            openai(invalid, "content_filter".into(), ""),
            "envelope_refusal",
            false,
        );
        check(
            400,
            openai(invalid, no_code, "bad n"),
            "model_request_refused",
            false,
        );
        check(422, json!({}), "model_request_refused", false);
    }
}

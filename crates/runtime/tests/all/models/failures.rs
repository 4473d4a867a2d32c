//! Failures of calls from a node to its model.

use kernel::run::Report;
use runtime::outbound::Outbound;
use serde_json::json;

use super::*;

#[tokio::test]
async fn failures_are_classified() {
    let refusal = sse(&[
        openai_chunk(json!({ "refusal": "planted" }), None),
        openai_chunk(json!({}), Some("stop")),
        ("", json!("[DONE]")),
    ]);
    let wait = [("retry-after", "7")];
    let overloaded = json!({ "type": "error", "error": { "type": "overloaded_error",
        "message": "Overloaded" } });
    let mut cut_off = text_block(&["a"], "end_turn");
    cut_off.truncate(cut_off.len() - 60);
    let cases: Vec<(&str, Answer, &str, Option<bool>)> = vec![
        (
            "openai",
            answer("429 Too Many Requests", &wait, ""),
            "model_rate_limited",
            None,
        ),
        (
            "openai",
            answer("401 Unauthorized", &[], ""),
            "model_credential_refused",
            Some(false),
        ),
        (
            "openai",
            answer("302 Found", &[("location", "/x")], ""),
            "model_request_refused",
            Some(false),
        ),
        (
            "openai",
            Answer::Bytes(refusal),
            "envelope_refusal",
            Some(false),
        ),
        (
            "openai",
            Answer::Bytes(openai(&["a"], "content_filter")),
            "envelope_refusal",
            Some(false),
        ),
        (
            "openai",
            Answer::Bytes(openai(&["a"], "length")),
            "envelope_truncation_unrecoverable",
            Some(false),
        ),
        (
            "openai",
            Answer::Bytes(sse(&[openai_chunk(json!({ "content": "a" }), None)])),
            "model_stream_broken",
            None,
        ),
        (
            "openai",
            Answer::Bytes(sse(&[("", json!("no json"))])),
            "model_bad_answer",
            None,
        ),
        (
            "openai",
            Answer::Begun(openai(&["a"], "stop")[..300].to_vec()),
            "model_timed_out",
            None,
        ),
        (
            "anthropic",
            Answer::Bytes(sse(&[anthropic_start(), ("error", overloaded)])),
            "model_unavailable",
            None,
        ),
        (
            "anthropic",
            Answer::Bytes(text_block(&["a"], "refusal")),
            "envelope_refusal",
            Some(false),
        ),
        (
            "anthropic",
            Answer::Bytes(text_block(&["a"], "model_context_window_exceeded")),
            "model_context_overflow",
            Some(false),
        ),
        (
            "anthropic",
            Answer::Bytes(cut_off),
            "model_stream_broken",
            None,
        ),
    ];
    for (n, (api, said, code, retryable)) in cases.into_iter().enumerate() {
        let said = std::sync::Mutex::new(Some(said));
        let peer = Peer::start(move |_| said.lock().unwrap().take().unwrap()).await;
        let lab = lab_for(&peer, api, "");
        let config = json!({ "prompt": "a", "truncation": "fail", "idleTimeoutMs": 200 });
        let (error, recorder) = failed(&lab, json!({}), config).await;
        assert_eq!(
            (error.code.as_str(), error.retryable),
            (code, retryable),
            "{n}: {error:?}"
        );
        assert!(!format!("{error:?}").contains("planted"), "{error:?}");
        if code == "model_rate_limited" {
            assert_eq!(error.details.unwrap()["retryAfterMs"], 7_000);
        }
        let reports = recorder.reports.lock().unwrap();
        let reported = match code {
            "envelope_refusal" => matches!(reports.as_slice(), [Report::EnvelopeRefused(_)]),
            "envelope_truncation_unrecoverable" => {
                matches!(reports.as_slice(), [Report::EnvelopeTruncated(_)])
            }
            _ => reports.is_empty(),
        };
        assert!(reported, "{n}: {reports:?}");
    }
}

#[tokio::test]
async fn an_address_that_is_not_public_must_be_allowed() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let mut lab = lab_for(&peer, "openai", "");
    lab.outbound = Outbound::default();
    let (error, _) = failed(&lab, json!({}), json!({ "prompt": "a" })).await;
    assert_eq!(error.code, "model_endpoint_refused");
    assert!(error.message.contains("--allow-http"), "{error:?}");
    assert_eq!(peer.got().len(), 0);
}

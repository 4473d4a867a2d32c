//! Model nodes against a real HTTP peer that follows the documented formats.

use std::sync::Arc;

use async_trait::async_trait;
use kernel::run::budget::Amounts;
use kernel::run::event::OutputChannel;
use kernel::run::report::EnvelopeFault;
use kernel::run::{Completion, NodeError, Outcome, Report};
use runtime::models::Providers;
use runtime::nodes::*;
use runtime::outbound::Outbound;
use serde_json::{Map, Value, json};

use crate::peer::*;
use crate::recorder::*;
use crate::support::*;

const CHAT: &str = "core.ai.chatCompletion";

/// A lab with one provider behind a peer.
fn lab_for(peer: &Peer, api: &str, more: &str) -> Lab {
    let mut lab = Lab::new();
    lab.outbound = Outbound::new(peer.address.to_string().parse().unwrap());
    std::fs::write(lab.work().join("key"), "host-secret\n").unwrap();
    let text = format!(
        "[provider.p]\napi = \"{api}\"\nbase_url = \"{}\"\nmodel = \"m-1\"\ncredential = \
         \"file:key\"\n{more}",
        peer.url("/v1")
    );
    lab.models = Arc::new(Providers::parse(&text, &lab.work()).unwrap());
    lab
}

async fn run_with(
    lab: &Lab,
    recorder: &Arc<Recorder>,
    settings: Value,
    config: Value,
    inputs: Value,
) -> Outcome {
    use kernel::definition::NodeTypes as _;
    let registry = Registry::standard();
    assert_eq!(registry.check_config(CHAT, &config), []);
    let object = |value: Value| -> Map<String, Value> { serde_json::from_value(value).unwrap() };
    let started = Started::unlogged(lab.run(), lab.key(), config, object(inputs));
    let started = started.settled(object(settings));
    let node = registry.get(CHAT).unwrap();
    node.run(started, recorder.context(lab)).await
}

async fn completed(lab: &Lab, config: Value) -> (Completion, Arc<Recorder>) {
    let recorder = Recorder::new();
    match run_with(lab, &recorder, json!({}), config, json!({})).await {
        Outcome::Completed(completion) => (completion, recorder),
        other => panic!("it should complete: {other:?}"),
    }
}

async fn failed(lab: &Lab, settings: Value, config: Value) -> (NodeError, Arc<Recorder>) {
    let recorder = Recorder::new();
    match run_with(lab, &recorder, settings, config, json!({})).await {
        Outcome::Failed { error, .. } => {
            let text = format!("{error:?}");
            assert!(!text.contains("secret"), "{text}");
            (error, recorder)
        }
        other => panic!("it should fail: {other:?}"),
    }
}

fn openai_chunk(delta: Value, finish: Option<&str>) -> (&'static str, Value) {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    (
        "",
        json!({ "object": "chat.completion.chunk", "model": "m-1-0102", "choices": [choice] }),
    )
}

/// An answer of OpenAI's interface as a stream.
fn openai(texts: &[&str], finish: &str) -> Vec<u8> {
    let mut events = vec![openai_chunk(
        json!({ "role": "assistant", "content": null }),
        None,
    )];
    events.extend(
        texts
            .iter()
            .map(|text| openai_chunk(json!({ "content": text }), None)),
    );
    events.push(openai_chunk(json!({}), Some(finish)));
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14,
        "prompt_tokens_details": { "cached_tokens": 6 } });
    events.push((
        "",
        json!({ "model": "m-1-0102", "choices": [], "usage": usage }),
    ));
    events.push(("", json!("[DONE]")));
    sse(&events)
}

fn anthropic_start() -> (&'static str, Value) {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "m-1-0102", "stop_reason": null, "usage": { "input_tokens": 10,
        "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1 } });
    (
        "message_start",
        json!({ "type": "message_start", "message": message }),
    )
}

/// An answer of Anthropic's interface as a stream: one block of these pieces.
fn anthropic(block: Value, deltas: &[Value], stop: &str) -> Vec<u8> {
    let mut events = vec![
        anthropic_start(),
        (
            "content_block_start",
            json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        ),
        ("ping", json!({ "type": "ping" })),
    ];
    events.extend(deltas.iter().map(|delta| {
        let data = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
        ("content_block_delta", data)
    }));
    events.extend([
        ("content_block_stop", json!({ "type": "content_block_stop", "index": 0 })),
        (
            "message_delta",
            json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
                "usage": { "output_tokens": 4 } }),
        ),
        ("message_stop", json!({ "type": "message_stop" })),
    ]);
    sse(&events)
}

fn text_block(texts: &[&str], stop: &str) -> Vec<u8> {
    let deltas: Vec<Value> = texts
        .iter()
        .map(|text| json!({ "type": "text_delta", "text": text }))
        .collect();
    anthropic(json!({ "type": "text", "text": "" }), &deltas, stop)
}

fn body(got: &Got) -> Value {
    serde_json::from_str(&got.body).unwrap()
}

/// What a stream leaves in the log: texts, and the last one with the end.
fn check_chunks(recorder: &Recorder, text: &str, finish: &str) {
    assert_eq!(recorder.text(OutputChannel::Text), text);
    let chunks = recorder.chunks.lock().unwrap();
    let (last, before) = chunks.split_last().unwrap();
    assert!(last.is_last && before.iter().all(|c| !c.is_last && c.meta.is_none()));
    assert!(!last.text.is_empty(), "the end rides on the last text");
    let meta = last.meta.as_ref().unwrap();
    assert_eq!(meta["finishReason"], finish);
    assert_eq!(
        (&meta["model"], &meta["provider"]),
        (&json!("m-1-0102"), &json!("p"))
    );
    assert_eq!(meta["usage"]["totalTokens"], 14);
}

#[tokio::test]
async fn chat_completions_are_streamed_and_counted() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["Hel", "lo ", "ü"], "stop"))).await;
    let prices = "[provider.p.price.\"m-*\"]\ninput = 1.0\noutput = 2.0\ncache_read = 0.5";
    let lab = lab_for(&peer, "openai", prices);
    let config = json!({
        "systemPrompt": "Be brief.", "prompt": "Say hello.", "temperature": 0, "seed": 7,
        "maxTokens": 12, "stop": ["\n"], "topP": 0.5,
    });
    let (completion, recorder) = completed(&lab, config).await;
    check_chunks(&recorder, "Hello ü", "stop");
    assert_eq!(completion.outputs["content"], "Hello ü");
    assert_eq!(completion.outputs["finishReason"], "stop");
    assert_eq!(completion.outputs["usage"]["totalTokens"], 14);
    let [usage] = completion.usage.try_into().unwrap();
    assert_eq!(
        (usage.provider.as_str(), usage.model.as_str()),
        ("p", "m-1-0102")
    );
    assert_eq!((usage.input_tokens, usage.output_tokens), (10, 4));
    assert_eq!(usage.cache_read_tokens, Some(6));
    assert_eq!(
        usage.cost_estimate_usd,
        Some((4.0 + 2.0 * 4.0 + 0.5 * 6.0) / 1e6)
    );
    let [got] = peer.got().try_into().unwrap();
    assert_eq!(got.line, "POST /v1/chat/completions");
    assert_eq!(got.header("authorization"), Some("Bearer host-secret"));
    assert_eq!(got.header("idempotency-key"), Some(lab.key().as_str()));
    assert_eq!(
        body(&got),
        json!({
            "model": "m-1", "stream": true, "stream_options": { "include_usage": true },
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Say hello." },
            ],
            "temperature": 0.0, "seed": 7, "max_tokens": 12, "stop": ["\n"], "top_p": 0.5,
        })
    );
}

#[tokio::test]
async fn messages_are_streamed_and_counted() {
    let peer = Peer::start(|_| Answer::Bytes(text_block(&["Hel", "lo"], "max_tokens"))).await;
    let lab = lab_for(&peer, "anthropic", "");
    let config = json!({ "systemPrompt": "Be brief.", "temperature": 2, "maxTokens": 12,
        "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" },
            { "role": "user", "content": "c" }] });
    let (completion, recorder) = completed(&lab, config).await;
    check_chunks(&recorder, "Hello", "length");
    let [usage] = completion.usage.try_into().unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (10, 4));
    assert_eq!(
        (usage.cache_read_tokens, usage.cache_write_tokens),
        (Some(7), Some(5))
    );
    assert_eq!(
        usage.cost_estimate_usd, None,
        "there is no price of our own"
    );
    let [got] = peer.got().try_into().unwrap();
    assert_eq!(got.line, "POST /v1/messages");
    assert_eq!(got.header("x-api-key"), Some("host-secret"));
    assert_eq!(got.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        body(&got),
        json!({
            "model": "m-1", "stream": true, "max_tokens": 12, "temperature": 1.0,
            "system": "Be brief.",
            "messages": [
                { "role": "user", "content": "a" },
                { "role": "assistant", "content": [{ "type": "text", "text": "b" }] },
                { "role": "user", "content": "c" },
            ],
        })
    );
}

#[tokio::test]
async fn answers_in_one_piece_are_read_too() {
    let json = [("content-type", "application/json")];
    let openai = json!({ "model": "m-2", "choices": [{ "finish_reason": "stop",
        "message": { "role": "assistant", "content": "whole" } }],
        "usage": { "prompt_tokens": 1, "completion_tokens": 2 } });
    let anthropic = json!({ "type": "message", "model": "m-2", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "whole" }],
        "usage": { "input_tokens": 1, "output_tokens": 2 } });
    for (api, said) in [("openai", openai), ("anthropic", anthropic)] {
        let peer = Peer::start(move |_| answer("200 OK", &json, said.to_string())).await;
        let lab = lab_for(&peer, api, "");
        let (silent, recorder) = completed(&lab, json!({ "prompt": "a", "stream": false })).await;
        assert_eq!(recorder.chunks.lock().unwrap().as_slice(), []);
        // A server that does not stream although it was asked to.
        let (spoken, recorder) = completed(&lab, json!({ "prompt": "a" })).await;
        assert_eq!(recorder.text(OutputChannel::Text), "whole");
        for completion in [silent, spoken] {
            assert_eq!(completion.outputs["content"], "whole");
            assert_eq!(completion.outputs["model"], "m-2");
            assert_eq!(completion.usage[0].output_tokens, 2);
        }
    }
}

fn shape() -> Value {
    json!({ "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "type": "integer" } } })
}

#[tokio::test]
async fn an_answer_of_a_shape_is_asked_for_and_judged() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["{\"n\"", ": 1}"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "prompt": "count", "outputSchema": shape() });
    let (completion, _) = completed(&lab, config.clone()).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 1 }));
    let format = &body(&peer.got()[0])["response_format"];
    assert_eq!(format["json_schema"]["schema"], shape());

    // Without means of its own a provider is asked in words.
    let lab = lab_for(&peer, "openai", "structured = \"prompt\"");
    let (completion, _) = completed(&lab, config.clone()).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 1 }));
    let asked = body(&peer.got()[1]);
    assert!(asked.get("response_format").is_none());
    let told = asked["messages"][0]["content"].as_str().unwrap();
    assert!(told.contains("\"additionalProperties\":false"), "{told}");

    let tool = json!({ "type": "tool_use", "id": "t1", "name": "answer", "input": {} });
    let deltas = ["", "{\"n\": ", "1}"]
        .map(|json| json!({ "type": "input_json_delta", "partial_json": json }));
    let said = anthropic(tool, &deltas, "tool_use");
    let peer = Peer::start(move |_| Answer::Bytes(said.clone())).await;
    let lab = lab_for(&peer, "anthropic", "");
    let (completion, recorder) = completed(&lab, config).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 1 }));
    check_chunks(&recorder, "{\"n\": 1}", "stop");
    let asked = body(&peer.got()[0]);
    assert_eq!(asked["tools"][0]["input_schema"], shape());
    assert_eq!(
        asked["tool_choice"],
        json!({ "type": "tool", "name": "answer" })
    );
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_repaired_once() {
    let answers = |good_on: usize| {
        let count = std::sync::atomic::AtomicUsize::new(1);
        move |_: &Got| {
            let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let text = if n == good_on {
                "{\"n\": 2}"
            } else {
                "{\"n\": \"planted\"}"
            };
            Answer::Bytes(openai(&[text], "stop"))
        }
    };
    let config = json!({ "prompt": "count", "outputSchema": shape() });
    let peer = Peer::start(answers(2)).await;
    let lab = lab_for(&peer, "openai", "");
    let (completion, recorder) = completed(&lab, config.clone()).await;
    assert_eq!(completion.outputs["json"], json!({ "n": 2 }));
    assert_eq!(completion.outputs["usage"]["totalTokens"], 28);
    assert_eq!(completion.usage.len(), 2);
    let reports = recorder.reports.lock().unwrap().clone();
    let [Report::EnvelopeRetried(retried)] = reports.as_slice() else {
        panic!("one repair: {reports:?}")
    };
    assert_eq!(
        (retried.asked, retried.reason),
        (2, EnvelopeFault::SchemaViolation)
    );
    let got = peer.got();
    let messages = &body(&got[1])["messages"];
    assert_eq!(messages[1]["content"], "{\"n\": \"planted\"}");
    assert!(
        messages[2]["content"]
            .as_str()
            .unwrap()
            .contains("type at /n")
    );
    assert_ne!(
        got[0].header("idempotency-key"),
        got[1].header("idempotency-key")
    );
    let last = recorder
        .chunks
        .lock()
        .unwrap()
        .iter()
        .filter(|c| c.is_last)
        .count();
    assert_eq!(last, 1, "only the good answer ends the text");

    let peer = Peer::start(answers(3)).await;
    let lab = lab_for(&peer, "openai", "");
    let (error, recorder) = failed(&lab, json!({}), config.clone()).await;
    assert_eq!(error.code, "envelope_invalid");
    assert!(!error.message.contains("planted"), "{error:?}");
    assert_eq!(peer.got().len(), 2, "one repair and no more");
    assert!(matches!(
        recorder.reports.lock().unwrap().as_slice(),
        [Report::EnvelopeRetried(_), Report::EnvelopesExhausted(_)]
    ));

    let peer = Peer::start(answers(2)).await;
    let mut config = config;
    config["repair"] = false.into();
    let (error, _) = failed(&lab_for(&peer, "openai", ""), json!({}), config).await;
    assert_eq!(
        (error.code.as_str(), peer.got().len()),
        ("envelope_invalid", 1)
    );
}

#[tokio::test]
async fn what_goes_wrong_is_told_apart() {
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

#[tokio::test]
async fn policies_are_kept_before_anything_is_sent() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let policy = |more: &str| format!("[[policy]]\n{more}");
    let own = json!({ "ai.credentialRef": "env:TOKEN" });
    let lost = json!({ "ai.credentialRef": "env:LOST" });
    for (text, settings, reason) in [
        ("mode = \"disabled\"", json!({}), "provider_disabled"),
        ("mode = \"required\"", json!({}), "byok_required"),
        ("mode = \"required\"", lost, "byok_required_but_unresolved"),
        ("mode = \"restricted\"", json!({}), "model_not_allowed"),
        (
            "mode = \"restricted\"\nmodels = [\"m-1\"]",
            json!({ "model": "m-2" }),
            "model_not_allowed",
        ),
        (
            "tenant = \"local\"\nmode = \"disabled\"",
            json!({}),
            "provider_disabled",
        ),
    ] {
        let lab = lab_for(&peer, "openai", &policy(text));
        let (error, _) = failed(&lab, settings, json!({ "prompt": "a" })).await;
        assert_eq!(error.code, "provider_policy_denied");
        let details = error.details.unwrap();
        assert_eq!(details["reason"], reason, "{text}");
        assert_eq!(details["provider"], "p");
    }
    assert_eq!(peer.got().len(), 0, "nothing was sent");
    for (text, settings) in [
        ("mode = \"required\"", own),
        ("tenant = \"other\"\nmode = \"disabled\"", json!({})),
        ("mode = \"restricted\"\nmodels = [\"m-*\"]", json!({})),
    ] {
        let lab = lab_for(&peer, "openai", &policy(text));
        let recorder = Recorder::new();
        let outcome = run_with(
            &lab,
            &recorder,
            settings,
            json!({ "prompt": "a" }),
            json!({}),
        );
        assert!(matches!(outcome.await, Outcome::Completed(_)), "{text}");
    }
    assert_eq!(
        peer.got()[0].header("authorization"),
        Some("Bearer planted-secret"),
        "the tenant's own credential is used"
    );
}

#[tokio::test]
async fn nothing_of_the_hosts_goes_to_an_address_of_a_workflow() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "baseUrl": "${inputs.url}", "model": "m-3", "prompt": "a" });
    let recorder = Recorder::new();
    let inputs = json!({ "url": peer.url("/other/v1/") });
    let outcome = run_with(&lab, &recorder, json!({}), config.clone(), inputs.clone()).await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it should complete: {outcome:?}")
    };
    assert_eq!(completion.outputs["provider"], "custom");
    let mut own = config;
    own["credentialRef"] = "env:TOKEN".into();
    run_with(&lab, &recorder, json!({}), own.clone(), inputs.clone()).await;
    let got = peer.got();
    assert_eq!(got[0].line, "POST /other/v1/chat/completions");
    assert_eq!(got[0].header("authorization"), None);
    assert_eq!(
        got[1].header("authorization"),
        Some("Bearer planted-secret")
    );
    let lab = lab_for(
        &peer,
        "openai",
        "[[policy]]\nprovider = \"custom\"\nmode = \"disabled\"",
    );
    let outcome = run_with(&lab, &recorder, json!({}), own, inputs).await;
    assert!(
        matches!(&outcome, Outcome::Failed { error, .. } if error.code == "provider_policy_denied")
    );
}

#[tokio::test]
async fn a_runs_own_settings_stand_between_node_and_provider() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let settings = json!({ "model": "m-run", "temperature": 0.25, "maxTokens": 5,
        "promptOverrides": { "greeting": "Shout ${inputs.who}." } });
    let inputs = json!({ "who": "Ada" });
    let recorder = Recorder::new();
    let config = json!({ "prompt": "Greet ${inputs.who}.", "promptId": "greeting" });
    run_with(&lab, &recorder, settings.clone(), config, inputs.clone()).await;
    let config = json!({ "prompt": "Greet ${inputs.who}.", "model": "m-node", "temperature": 1,
        "maxTokens": 9 });
    run_with(&lab, &recorder, settings, config, inputs).await;
    let got: Vec<Value> = peer.got().iter().map(body).collect();
    assert_eq!(
        (&got[0]["model"], &got[0]["temperature"]),
        (&json!("m-run"), &json!(0.25))
    );
    assert_eq!(got[0]["max_tokens"], 5);
    assert_eq!(got[0]["messages"][0]["content"], "Shout Ada.");
    assert_eq!(
        (&got[1]["model"], &got[1]["temperature"]),
        (&json!("m-node"), &json!(1.0))
    );
    assert_eq!(got[1]["max_tokens"], 9);
    assert_eq!(got[1]["messages"][0]["content"], "Greet Ada.");
}

#[tokio::test]
async fn budgets_are_set_aside_before_they_are_spent() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let recorder = Recorder::new();
    let config = |tokens: u64| json!({ "prompt": "a", "maxTokens": tokens });
    let budget = json!({ "budget": { "maxTokens": 1000 } });
    let outcome = run_with(&lab, &recorder, budget.clone(), config(900), json!({})).await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it should complete: {outcome:?}")
    };
    assert_eq!(completion.spent["tokens"], 14);
    assert_eq!(*recorder.budget.lock().unwrap(), 100);
    let outcome = run_with(&lab, &recorder, budget, config(200), json!({})).await;
    assert!(matches!(&outcome, Outcome::Failed { error, .. } if error.code == "budget_exhausted"));
    for budget in [
        json!({ "modelDeny": ["m-1"] }),
        json!({ "modelAllow": ["m-2"] }),
    ] {
        let (error, _) = failed(&lab, json!({ "budget": budget }), config(1)).await;
        assert_eq!(error.code, "budget_model_denied");
    }
    assert_eq!(peer.got().len(), 1);
}

#[tokio::test]
async fn a_stop_in_the_middle_hangs_up() {
    let begun = openai(&["Hel", "lo", " there"], "stop");
    let half = begun[..begun.len() - 400].to_vec();
    let peer = Peer::start(move |_| Answer::Begun(half.clone())).await;
    let lab = lab_for(&peer, "openai", "");
    let recorder = Recorder::new();
    let cx = recorder.context(&lab);
    let stop = cx.stop.clone();
    let running = run_in(&lab, cx, CHAT, json!({ "prompt": "a" }), json!({}));
    let stopping = async {
        recorder.wait_for(OutputChannel::Text, "Hel").await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(running, stopping);
    assert_eq!(outcome, Outcome::Stopped);
    tokio::time::timeout(DEADLINE, peer.left.notified())
        .await
        .unwrap();
}

/// A log that takes a while for each chunk.
struct Slow(Arc<Recorder>);

#[async_trait]
impl OutputSink for Slow {
    async fn chunk(
        &self,
        channel: OutputChannel,
        text: String,
        is_last: bool,
        meta: Option<Value>,
    ) -> Result<(), HoldLost> {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.0.chunk(channel, text, is_last, meta).await
    }

    async fn log(&self, level: &str, message: String) -> Result<(), HoldLost> {
        self.0.log(level, message).await
    }

    async fn report(&self, report: Report) -> Result<(), HoldLost> {
        self.0.report(report).await
    }

    async fn reserve(&self, amounts: Amounts) -> Result<(), NotReserved> {
        self.0.reserve(amounts).await
    }
}

#[tokio::test]
async fn texts_wait_together_while_the_log_is_behind() {
    let texts: Vec<String> = (0..2_000).map(|n| format!("{n} ")).collect();
    let whole = texts.concat();
    let said = openai(
        &texts.iter().map(String::as_str).collect::<Vec<_>>(),
        "stop",
    );
    let peer = Peer::start(move |_| Answer::Bytes(said.clone())).await;
    let lab = lab_for(&peer, "openai", "");
    let recorder = Recorder::new();
    let mut cx = recorder.context(&lab);
    cx.output = Arc::new(Slow(recorder.clone()));
    let outcome = run_in(&lab, cx, CHAT, json!({ "prompt": "a" }), json!({})).await;
    assert!(matches!(outcome, Outcome::Completed(_)));
    check_chunks(&recorder, &whole, "stop");
    let chunks = recorder.chunks.lock().unwrap().len();
    assert!(chunks < 1_000, "{chunks} chunks");
}

#[tokio::test]
async fn the_test_provider_streams_the_tokens_it_is_given() {
    let lab = Lab::new();
    let recorder = Recorder::new();
    let tokens = ["one", " two", " three", " four"];
    let usage = json!({ "promptTokens": 2, "completionTokens": 4, "totalTokens": 6 });
    let settings = json!({ "mockProvider": { "id": "stream-text", "config": {
        "tokens": tokens, "usage": usage, "finishReason": "length" } } });
    let config = json!({ "promptId": "p", "expectsStreaming": true });
    let outcome = run_with(&lab, &recorder, settings, config.clone(), json!({})).await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it should complete: {outcome:?}")
    };
    assert_eq!(completion.outputs["content"], "one two three four");
    let chunks = recorder.chunks.lock().unwrap().clone();
    assert_eq!(chunks.len(), tokens.len());
    let last = chunks[3].meta.as_ref().unwrap();
    assert!(chunks[3].is_last);
    assert_eq!(
        (&last["finishReason"], &last["usage"]),
        (&json!("length"), &usage)
    );
    assert_eq!(last["model"], "mock-stream-text-v1");
    let unknown = json!({ "mockProvider": { "id": "other" } });
    let (error, _) = failed(&lab, unknown, config).await;
    assert_eq!(error.code, "unsupported_mock_provider");
}

//! Requests and answers of each interface.

use std::sync::Arc;

use async_trait::async_trait;
use kernel::run::budget::Amounts;
use kernel::run::event::OutputChannel;
use kernel::run::{Outcome, Report};
use runtime::nodes::*;
use serde_json::{Value, json};

use super::*;

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
    let key = got.header("idempotency-key").unwrap();
    assert!(key.starts_with("effect-"), "{key}");
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
        // A server that does not stream although it was requested.
        let (spoken, recorder) = completed(&lab, json!({ "prompt": "a" })).await;
        assert_eq!(recorder.text(OutputChannel::Text), "whole");
        for completion in [silent, spoken] {
            assert_eq!(completion.outputs["content"], "whole");
            assert_eq!(completion.outputs["model"], "m-2");
            assert_eq!(completion.usage[0].output_tokens, 2);
        }
    }
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
    ) -> Result<(), LeaseLost> {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.0.chunk(channel, text, is_last, meta).await
    }

    async fn log(
        &self,
        level: kernel::run::event::LogLevel,
        message: String,
    ) -> Result<(), LeaseLost> {
        self.0.log(level, message).await
    }

    async fn report(&self, report: Report) -> Result<(), LeaseLost> {
        self.0.report(report).await
    }

    async fn reserve(&self, amounts: Amounts, least: Option<Amounts>) -> Result<(), NotReserved> {
        self.0.reserve(amounts, least).await
    }
}

#[tokio::test]
async fn texts_are_batched_while_the_log_is_slow() {
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

//! Model nodes against a real HTTP peer that follows the documented formats.

mod access;
mod failures;
mod formats;
mod mock;
mod shapes;
mod tools;

use std::sync::Arc;

use kernel::run::event::OutputChannel;
use kernel::run::{Completion, NodeError, Outcome};
use runtime::models::Providers;
use runtime::nodes::*;
use runtime::outbound::Outbound;
use serde_json::{Map, Value, json};

use crate::peer::*;
use crate::recorder::*;
use crate::support::*;

pub(super) const CHAT: &str = "core.ai.chatCompletion";

/// A lab with one provider at a peer.
pub(super) fn lab_for(peer: &Peer, api: &str, more: &str) -> Lab {
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

pub(super) async fn run_with(
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

pub(super) async fn completed(lab: &Lab, config: Value) -> (Completion, Arc<Recorder>) {
    let recorder = Recorder::new();
    match run_with(lab, &recorder, json!({}), config, json!({})).await {
        Outcome::Completed(completion) => (completion, recorder),
        other => panic!("it should complete: {other:?}"),
    }
}

pub(super) async fn failed(
    lab: &Lab,
    settings: Value,
    config: Value,
) -> (NodeError, Arc<Recorder>) {
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

pub(super) fn openai_chunk(delta: Value, finish: Option<&str>) -> (&'static str, Value) {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    (
        "",
        json!({ "object": "chat.completion.chunk", "model": "m-1-0102", "choices": [choice] }),
    )
}

/// A streamed answer of OpenAI's interface.
pub(super) fn openai(texts: &[&str], finish: &str) -> Vec<u8> {
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

pub(super) fn anthropic_start() -> (&'static str, Value) {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "m-1-0102", "stop_reason": null, "usage": { "input_tokens": 10,
        "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1 } });
    (
        "message_start",
        json!({ "type": "message_start", "message": message }),
    )
}

/// A streamed answer of Anthropic's interface: one block of these deltas.
pub(super) fn anthropic(block: Value, deltas: &[Value], stop: &str) -> Vec<u8> {
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

pub(super) fn text_block(texts: &[&str], stop: &str) -> Vec<u8> {
    let deltas: Vec<Value> = texts
        .iter()
        .map(|text| json!({ "type": "text_delta", "text": text }))
        .collect();
    anthropic(json!({ "type": "text", "text": "" }), &deltas, stop)
}

pub(super) fn body(got: &Got) -> Value {
    serde_json::from_str(&got.body).unwrap()
}

/// The chunks of a stream in the log: texts, the last one marked as the end.
pub(super) fn check_chunks(recorder: &Recorder, text: &str, finish: &str) {
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

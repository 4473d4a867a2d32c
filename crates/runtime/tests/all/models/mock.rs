//! The documented test providers.

use kernel::run::Outcome;
use serde_json::json;

use super::*;

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

async fn played(id: &str, config: serde_json::Value) -> (Outcome, Arc<Recorder>) {
    let (lab, recorder) = (Lab::new(), Recorder::new());
    let settings = json!({ "mockProvider": { "id": id, "config": config } });
    let outcome = run_with(
        &lab,
        &recorder,
        settings,
        json!({ "prompt": "a" }),
        json!({}),
    )
    .await;
    (outcome, recorder)
}

#[tokio::test]
async fn the_other_test_providers_follow_their_script() {
    let calls = json!({ "toolCalls": [
        { "id": "c1", "name": "look", "arguments": { "at": 1 } },
        { "id": "c2", "name": "listen", "arguments": "{}" },
    ] });
    let (outcome, recorder) = played("tool-calls", calls).await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it should complete: {outcome:?}")
    };
    assert_eq!(completion.outputs["finishReason"], "tool_calls");
    assert_eq!(
        completion.outputs["toolCalls"][0]["arguments"],
        "{\"at\":1}"
    );
    let chunks = recorder.chunks.lock().unwrap().clone();
    let names: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk.meta.as_ref().unwrap()["toolCalls"][0]["name"].clone())
        .collect();
    assert_eq!(names, ["look", "listen"]);
    assert_eq!((chunks[0].is_last, chunks[1].is_last), (false, true));

    let wanted = json!({ "code": "overloaded", "message": "later", "retryable": true });
    let (outcome, _) = played("error", wanted).await;
    let Outcome::Failed { error, .. } = outcome else {
        panic!("it should fail: {outcome:?}")
    };
    assert_eq!((error.code.as_str(), error.retryable), ("overloaded", None));

    let counted = json!({ "usage": { "promptTokens": 7, "completionTokens": 2 } });
    let (outcome, recorder) = played("usage-only", counted).await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it should complete: {outcome:?}")
    };
    assert_eq!(completion.outputs["content"], "");
    assert_eq!(completion.usage[0].input_tokens, 7);
    let chunks = recorder.chunks.lock().unwrap().clone();
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0].meta.as_ref().unwrap()["usage"]["totalTokens"], 9);
}

use std::path::Path;

use serde_json::json;

use super::*;
use crate::clean::Cleaner;

#[test]
fn routes_are_known_by_their_paths() {
    let routes = [
        ("/v1/chat/completions", Route::ChatCompletions),
        ("/responses", Route::Responses),
        ("/v1/embeddings/", Route::Embeddings),
        ("/v1/messages", Route::Messages),
        ("/v1/messages/count_tokens", Route::Other),
        ("/v1/models", Route::Other),
    ];
    for (path, route) in routes {
        assert_eq!(Route::from_path(path), route, "{path}");
    }
}

#[test]
fn an_answer_reads_the_same_whole_and_in_pieces() {
    let chat = json!({
        "model": "m-1", "system_fingerprint": "fp", "usage": { "prompt_tokens": 3, "completion_tokens": 5 },
        "choices": [{ "message": { "content": "Hello", "tool_calls": [
            { "id": "c1", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" } },
        ] } }],
    });
    let pieces = [
        r#"{"model":"m-1","choices":[{"index":0,"delta":{"content":"Hel"}}]}"#,
        r#"{"system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":"lo","tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"a\"}"}}]}}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}"#,
        "[DONE]",
    ];
    let stream: String = pieces
        .iter()
        .map(|piece| format!("data: {piece}\n\n"))
        .collect();
    let whole = answer(Route::ChatCompletions, &chat.to_string());
    assert_eq!(whole.uses[0].input(), json!({ "path": "a" }));
    assert_eq!(whole.tokens, Some((3, 5)));
    assert_eq!(answer(Route::ChatCompletions, &stream), whole);

    let message = json!({
        "model": "c-1", "usage": { "input_tokens": 3, "output_tokens": 5 },
        "content": [{ "type": "text", "text": "Hi" },
            { "type": "tool_use", "id": "t1", "name": "read", "input": { "path": "a" } }],
    });
    let pieces = [
        r#"{"type":"message_start","message":{"model":"c-1","usage":{"input_tokens":3,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":5}}"#,
    ];
    let stream: String = pieces
        .iter()
        .map(|piece| format!("event: e\ndata: {piece}\n\n"))
        .collect();
    assert_eq!(
        answer(Route::Messages, &stream),
        answer(Route::Messages, &message.to_string())
    );

    let response = json!({
        "model": "r-1", "usage": { "input_tokens": 3, "output_tokens": 5 },
        "output": [{ "type": "message", "content": [{ "type": "output_text", "text": "Hey" }] },
            { "type": "function_call", "call_id": "f1", "name": "read", "arguments": "{\"path\":\"a\"}" }],
    });
    let stream = format!(
        "data: {}\n\ndata: {}\n\n",
        json!({ "type": "response.output_text.delta", "delta": "Hey" }),
        json!({ "type": "response.completed", "response": response }),
    );
    let whole = answer(Route::Responses, &response.to_string());
    assert_eq!(
        (whole.text.as_str(), whole.uses[0].id.as_str()),
        ("Hey", "f1")
    );
    assert_eq!(answer(Route::Responses, &stream), whole);
}

#[test]
fn requests_tell_of_their_system_prompt_and_tool_results() {
    let chat = asked(
        Route::ChatCompletions,
        &json!({ "model": "m", "messages": [
        { "role": "system", "content": "Be brief." }, { "role": "user", "content": "Go" },
        { "role": "tool", "tool_call_id": "c1", "content": "done" },
    ] }),
    );
    assert_eq!(chat.system, Some(json!("Be brief.")));
    assert_eq!(
        (chat.model.as_deref(), chat.prompt.as_deref()),
        (Some("m"), Some("Go"))
    );
    assert_eq!(
        (chat.results[0].id.as_str(), &chat.results[0].output),
        ("c1", &json!("done"))
    );

    let messages = asked(
        Route::Messages,
        &json!({ "system": [{ "text": "Be brief." }], "messages": [
        { "role": "user", "content": "Go" },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": true }] },
    ] }),
    );
    assert_eq!(messages.prompt.as_deref(), Some("Go"));
    assert!(messages.results[0].is_error);

    let responses = asked(
        Route::Responses,
        &json!({ "instructions": "Be brief.", "input": [
        { "role": "user", "content": [{ "type": "input_text", "text": "Go" }] },
        { "type": "function_call_output", "call_id": "f1", "output": "done" },
    ] }),
    );
    assert_eq!(
        (responses.prompt.as_deref(), responses.results.len()),
        (Some("Go"), 1)
    );
}

#[test]
fn a_secret_that_lies_across_pieces_is_found() {
    let cleaner = Cleaner::new(provenance::Redaction::default(), &[Path::new("/srv/shop")]);
    cleaner.learn("KEY", "correct-horse-9");
    let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"it is corr\"}}]}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ect-horse\"}}]}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"-9, ok\"}}]}\n\n\
                  data: [DONE]\n\n";
    let clean = cleaner.stream(stream);
    assert_eq!(
        answer(Route::ChatCompletions, &clean).text,
        "it is [REDACTED:KEY], ok"
    );
    assert_eq!(cleaner.stream(&clean), clean);
    let without =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\nevent: x\ndata: [DONE]\n";
    assert_eq!(cleaner.stream(without), without, "kept byte for byte");
}

#[test]
fn a_known_secret_across_the_pieces_of_an_output_is_found() {
    let cleaner = Cleaner::new(provenance::Redaction::default(), &[Path::new("/srv/shop")]);
    cleaner.learn("KEY", "correct-horse-9");
    let lines = |prefix: &str, pieces: [&str; 3]| {
        pieces.map(|piece| {
            format!("{prefix}{{\"choices\":[{{\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n")
        })
    };
    for prefix in ["data: ", ""] {
        let printed = lines(prefix, ["it is corr", "ect-horse", "-9, ok"]).concat();
        let clean = lines(prefix, ["it is [REDACTED:KEY], ok", "", ""]).concat();
        assert_eq!(cleaner.text(&printed), clean);
        assert_eq!(cleaner.text(&clean), clean, "clean stays clean");
        let content = cleaner.content(printed.clone().into_bytes());
        assert_eq!(content.bytes, clean.as_bytes());
        assert_eq!((content.redacted(), content.is_verbatim), (1, false));
        let mut value = serde_json::json!([printed]);
        cleaner.value(&mut value);
        assert_eq!(value[0], clean);
    }
    // One after the other, unrelated records may look like a secret.
    let pieces = ["ghp_R7kQ2mXw9ZtL4vBn", "8sJcY6hD1fGpA3eUoK5i", " ends"];
    let records = lines("", pieces).concat();
    assert_eq!(cleaner.text(&records), records);
    let stream = cleaner.text(&lines("data: ", pieces).concat());
    assert!(!stream.contains("8sJcY6hD"), "{stream}");
}

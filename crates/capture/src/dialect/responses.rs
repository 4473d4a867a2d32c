//! Responses.

use serde_json::Value;

use super::{Answer, ModelRequest, ToolResult, ToolUse, content_text, text_of};

pub(super) fn asked(body: &Value) -> ModelRequest {
    let mut asked = ModelRequest {
        system: (!body["instructions"].is_null()).then(|| body["instructions"].clone()),
        prompt: text_of(&body["input"]),
        ..ModelRequest::default()
    };
    for item in body["input"].as_array().into_iter().flatten() {
        if item["type"] == "function_call_output" {
            asked.results.push(ToolResult {
                id: text_of(&item["call_id"]).unwrap_or_default(),
                output: item["output"].clone(),
                is_error: false,
            });
        } else if item["role"] == "user" {
            asked.prompt = content_text(&item["content"]);
        } else if (item["role"] == "system" || item["role"] == "developer")
            && asked.system.is_none()
        {
            asked.system = Some(item["content"].clone());
        }
    }
    asked
}

pub(super) fn whole(answer: &mut Answer, body: &Value) {
    if let Some(model) = text_of(&body["model"]) {
        answer.model = Some(model);
    }
    if let Some(input) = body["usage"]["input_tokens"].as_u64() {
        let output = body["usage"]["output_tokens"].as_u64().unwrap_or(0);
        answer.tokens = Some((input, output));
    }
    for item in body["output"].as_array().into_iter().flatten() {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                for part in item["content"].as_array().into_iter().flatten() {
                    answer
                        .text
                        .push_str(part["text"].as_str().unwrap_or_default());
                }
            }
            "function_call" => answer.uses.push(ToolUse {
                id: text_of(&item["call_id"]).unwrap_or_default(),
                name: text_of(&item["name"]).unwrap_or_default(),
                arguments: text_of(&item["arguments"]).unwrap_or_default(),
            }),
            _ => {}
        }
    }
}

/// The last event of a stream has the whole answer; earlier pieces count where the stream is
/// truncated.
pub(super) fn piece(answer: &mut Answer, event: &Value) {
    match event["type"].as_str().unwrap_or_default() {
        "response.output_text.delta" => {
            answer
                .text
                .push_str(event["delta"].as_str().unwrap_or_default());
        }
        "response.completed" | "response.incomplete" | "response.failed" => {
            *answer = Answer::default();
            whole(answer, &event["response"]);
        }
        _ => {}
    }
}

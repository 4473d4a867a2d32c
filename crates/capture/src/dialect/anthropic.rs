//! Messages.

use serde_json::Value;

use super::{Answer, ModelRequest, ToolResult, ToolUse, content_text, text_of};

pub(super) fn asked(body: &Value) -> ModelRequest {
    let mut asked = ModelRequest {
        system: (!body["system"].is_null()).then(|| body["system"].clone()),
        ..ModelRequest::default()
    };
    for message in body["messages"].as_array().into_iter().flatten() {
        if message["role"] != "user" {
            continue;
        }
        let mut is_result = false;
        for block in message["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                is_result = true;
                asked.results.push(ToolResult {
                    id: text_of(&block["tool_use_id"]).unwrap_or_default(),
                    output: block["content"].clone(),
                    is_error: block["is_error"].as_bool().unwrap_or(false),
                });
            }
        }
        if !is_result {
            asked.prompt = content_text(&message["content"]);
        }
    }
    asked
}

pub(super) fn whole(answer: &mut Answer, body: &Value) {
    about(answer, body);
    for block in body["content"].as_array().into_iter().flatten() {
        begin(answer, block);
    }
}

pub(super) fn piece(answer: &mut Answer, event: &Value) {
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => about(answer, &event["message"]),
        "message_delta" => usage(answer, &event["usage"]),
        "content_block_start" => begin(answer, &event["content_block"]),
        "content_block_delta" => {
            let delta = &event["delta"];
            answer
                .text
                .push_str(delta["text"].as_str().unwrap_or_default());
            // Blocks come one after the other: a piece belongs to the last one.
            if let (Some(piece), Some(tool)) =
                (delta["partial_json"].as_str(), answer.uses.last_mut())
            {
                tool.arguments.push_str(piece);
            }
        }
        _ => {}
    }
}

fn begin(answer: &mut Answer, block: &Value) {
    match block["type"].as_str().unwrap_or_default() {
        "text" => answer
            .text
            .push_str(block["text"].as_str().unwrap_or_default()),
        "tool_use" => {
            let input = &block["input"];
            let is_empty = input.as_object().is_none_or(serde_json::Map::is_empty);
            answer.uses.push(ToolUse {
                id: text_of(&block["id"]).unwrap_or_default(),
                name: text_of(&block["name"]).unwrap_or_default(),
                arguments: if is_empty {
                    String::new()
                } else {
                    input.to_string()
                },
            });
        }
        _ => {}
    }
}

fn about(answer: &mut Answer, message: &Value) {
    if let Some(model) = text_of(&message["model"]) {
        answer.model = Some(model);
    }
    usage(answer, &message["usage"]);
}

fn usage(answer: &mut Answer, usage: &Value) {
    let (input, output) = answer.tokens.unwrap_or_default();
    let input = usage["input_tokens"].as_u64().unwrap_or(input);
    let output = usage["output_tokens"].as_u64().unwrap_or(output);
    if usage.is_object() {
        answer.tokens = Some((input, output));
    }
}

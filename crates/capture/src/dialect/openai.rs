//! Chat completions.

use serde_json::Value;

use super::{Answer, ModelRequest, ToolResult, ToolUse, content_text, text_of};

pub(super) fn asked(body: &Value) -> ModelRequest {
    let mut asked = ModelRequest::default();
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" if asked.system.is_none() => {
                asked.system = Some(message["content"].clone());
            }
            "user" => asked.prompt = content_text(&message["content"]),
            "tool" => asked.results.push(ToolResult {
                id: text_of(&message["tool_call_id"]).unwrap_or_default(),
                output: message["content"].clone(),
                is_error: false,
            }),
            _ => {}
        }
    }
    asked
}

pub(super) fn whole(answer: &mut Answer, body: &Value) {
    about(answer, body);
    said(answer, &body["choices"][0]["message"]);
}

pub(super) fn piece(answer: &mut Answer, event: &Value) {
    about(answer, event);
    for choice in event["choices"].as_array().into_iter().flatten() {
        if choice["index"].as_u64().unwrap_or(0) == 0 {
            said(answer, &choice["delta"]);
        }
    }
}

fn about(answer: &mut Answer, body: &Value) {
    if let Some(model) = text_of(&body["model"]) {
        answer.model = Some(model);
    }
    if let Some(fingerprint) = text_of(&body["system_fingerprint"]) {
        answer.fingerprint = Some(fingerprint);
    }
    let usage = &body["usage"];
    if let Some(input) = usage["prompt_tokens"].as_u64() {
        answer.tokens = Some((input, usage["completion_tokens"].as_u64().unwrap_or(0)));
    }
}

fn said(answer: &mut Answer, message: &Value) {
    answer
        .text
        .push_str(message["content"].as_str().unwrap_or_default());
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    for (place, call) in calls.enumerate() {
        let place = call["index"].as_u64().map_or(place, |index| index as usize);
        if place > 1_024 {
            continue;
        }
        if answer.uses.len() <= place {
            answer.uses.resize_with(place + 1, ToolUse::default);
        }
        let tool = &mut answer.uses[place];
        if let Some(id) = call["id"].as_str().filter(|id| !id.is_empty()) {
            id.clone_into(&mut tool.id);
        }
        let function = &call["function"];
        tool.name
            .push_str(function["name"].as_str().unwrap_or_default());
        tool.arguments
            .push_str(function["arguments"].as_str().unwrap_or_default());
    }
}

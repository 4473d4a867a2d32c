//! The chat completions of OpenAI, and of the many compatible servers.

use kernel::run::NodeError;
use serde_json::{Value, json};

use super::ask::{Ask, Finish, Message, Tokens};
use super::failure;
use super::providers::Structured;
use super::reading::Reading;

/// The path below the base URL.
pub(super) const PATH: &str = "chat/completions";

/// The body of a request.
pub(super) fn body(ask: &Ask, structured: Structured) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if let Some(system) = &ask.system {
        messages.push(json!({ "role": "system", "content": system }));
    }
    for message in &ask.messages {
        match message {
            Message::User(text) => messages.push(json!({ "role": "user", "content": text })),
            Message::Assistant { text, calls } if calls.is_empty() => {
                messages.push(json!({ "role": "assistant", "content": text }));
            }
            Message::Assistant { text, calls } => {
                let calls: Vec<Value> = calls
                    .iter()
                    .map(|call| {
                        json!({
                            "id": call.id, "type": "function",
                            "function": { "name": call.name, "arguments": call.arguments },
                        })
                    })
                    .collect();
                messages.push(json!({ "role": "assistant", "content": text, "tool_calls": calls }));
            }
            Message::Results(results) => messages.extend(results.iter().map(|result| {
                // The interface has no flag for errors; the text states it.
                json!({ "role": "tool", "tool_call_id": result.id, "content": result.text })
            })),
        }
    }
    let mut body = json!({ "model": ask.model, "messages": messages, "stream": ask.stream });
    if ask.stream {
        body["stream_options"] = json!({ "include_usage": true });
    }
    let numbers = [
        ("temperature", ask.temperature.map(Value::from)),
        ("top_p", ask.top_p.map(Value::from)),
        ("seed", ask.seed.map(Value::from)),
        ("max_tokens", ask.max_tokens.map(Value::from)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    if !ask.stop.is_empty() {
        body["stop"] = json!(ask.stop);
    }
    if let (Some(schema), Structured::Native) = (&ask.shape, structured) {
        body["response_format"] = json!({
            "type": "json_schema", "json_schema": { "name": "answer", "schema": schema },
        });
    }
    if !ask.tools.is_empty() {
        let tools: Vec<Value> = ask
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "type": "function",
                    "function": {
                        "name": tool.name, "description": tool.description,
                        "parameters": tool.parameters,
                    },
                })
            })
            .collect();
        body["tools"] = tools.into();
    }
    body
}

/// Reads one event of a stream and returns its text.
pub(super) fn take(reading: &mut Reading, data: &str) -> Result<Option<String>, NodeError> {
    if data == "[DONE]" {
        reading.is_whole = true;
        return Ok(None);
    }
    let chunk = parse(data)?;
    about(reading, &chunk);
    let choice = &chunk["choices"][0];
    let text = said(reading, &choice["delta"])?;
    finish(reading, choice);
    Ok(text)
}

/// Reads a complete answer.
pub(super) fn whole(reading: &mut Reading, body: &str) -> Result<(), NodeError> {
    let body = parse(body)?;
    about(reading, &body);
    let choice = &body["choices"][0];
    if !choice.is_object() {
        return Err(failure::bad_answer("it has no choices"));
    }
    said(reading, &choice["message"])?;
    finish(reading, choice);
    reading.is_whole = true;
    Ok(())
}

fn parse(data: &str) -> Result<Value, NodeError> {
    let value: Value =
        serde_json::from_str(data).map_err(|_| failure::bad_answer("it is not JSON"))?;
    if value["error"].is_object() {
        Err(failure::of_body(&value, None))
    } else {
        Ok(value)
    }
}

fn about(reading: &mut Reading, of: &Value) {
    if let Some(model) = of["model"].as_str() {
        reading.answer.model = Some(model.to_owned());
    }
    let usage = &of["usage"];
    if usage.is_object() {
        let count = |value: &Value| value.as_u64();
        reading.answer.tokens = Some(Tokens {
            input: count(&usage["prompt_tokens"]).unwrap_or(0),
            output: count(&usage["completion_tokens"]).unwrap_or(0),
            cache_read: count(&usage["prompt_tokens_details"]["cached_tokens"]),
            cache_write: None,
        });
    }
}

/// The text of a message, or of a part of one.
fn said(reading: &mut Reading, message: &Value) -> Result<Option<String>, NodeError> {
    if message["refusal"]
        .as_str()
        .is_some_and(|text| !text.is_empty())
    {
        // The text of a refusal may repeat the prompt: it is not kept.
        reading.answer.finish = Finish::Refused;
    }
    for (place, call) in message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let place = call["index"].as_u64().map_or(place, |n| n as usize);
        let function = &call["function"];
        reading.call(
            place,
            call["id"].as_str(),
            function["name"].as_str(),
            function["arguments"].as_str().unwrap_or_default(),
        )?;
    }
    match message["content"].as_str() {
        Some(text) if !text.is_empty() => {
            reading.text(text)?;
            Ok(Some(text.to_owned()))
        }
        _ => Ok(None),
    }
}

fn finish(reading: &mut Reading, choice: &Value) {
    let Some(reason) = choice["finish_reason"].as_str() else {
        return;
    };
    // Some servers send no [DONE].
    reading.is_whole = true;
    if reading.answer.finish == Finish::Refused {
        return;
    }
    reading.answer.finish = match reason {
        "length" => Finish::Length,
        "content_filter" => {
            reading.answer.category = Some("content_filter".to_owned());
            Finish::Refused
        }
        _ if !reading.answer.calls.is_empty() => Finish::ToolCalls,
        _ => Finish::Stop,
    };
}

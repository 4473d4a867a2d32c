//! The messages API of Anthropic.

use kernel::run::NodeError;
use serde_json::{Value, json};

use super::ask::{Ask, Finish, Message};
use super::failure;
use super::providers::Structured;
use super::reading::Reading;

/// The path below the base URL.
pub(super) const PATH: &str = "messages";
/// The version of the interface.
pub(super) const VERSION: &str = "2023-06-01";
/// The default bound, as the interface requires one.
pub(super) const DEFAULT_MAX_TOKENS: u64 = 4_096;
/// The tool whose arguments are an answer with a schema.
const ANSWER: &str = "answer";

/// The body of a request. An answer with a schema is requested as the arguments of a tool that the
/// model must call: every model with tools supports that.
pub(super) fn body(ask: &Ask, structured: Structured) -> Value {
    let messages: Vec<Value> = ask.messages.iter().map(message).collect();
    let mut body = json!({
        "model": ask.model, "messages": messages, "stream": ask.stream,
        "max_tokens": ask.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
    });
    if let Some(system) = &ask.system {
        body["system"] = json!(system);
    }
    // The interface accepts temperatures from 0 to 1, and no seed.
    if let Some(temperature) = ask.temperature {
        body["temperature"] = json!(temperature.min(1.0));
    }
    if let Some(top_p) = ask.top_p {
        body["top_p"] = json!(top_p);
    }
    if !ask.stop.is_empty() {
        body["stop_sequences"] = json!(ask.stop);
    }
    let mut tools: Vec<Value> = ask
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name, "description": tool.description,
                "input_schema": tool.parameters,
            })
        })
        .collect();
    if let (Some(schema), Structured::Native) = (&ask.shape, structured) {
        body["tool_choice"] = if tools.is_empty() {
            json!({ "type": "tool", "name": ANSWER })
        } else {
            json!({ "type": "any" })
        };
        let description = "Gives the answer. Call it once, when the answer is ready.";
        tools.push(json!({ "name": ANSWER, "description": description, "input_schema": schema }));
    }
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::User(text) => json!({ "role": "user", "content": text }),
        Message::Assistant { text, calls } => {
            let mut content = Vec::new();
            if !text.is_empty() {
                content.push(json!({ "type": "text", "text": text }));
            }
            content.extend(calls.iter().map(|call| {
                let input: Value = serde_json::from_str(&call.arguments).unwrap_or(json!({}));
                json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
            }));
            json!({ "role": "assistant", "content": content })
        }
        Message::Results(results) => {
            let content: Vec<Value> = results
                .iter()
                .map(|result| {
                    json!({
                        "type": "tool_result", "tool_use_id": result.id,
                        "content": result.text, "is_error": result.is_error,
                    })
                })
                .collect();
            json!({ "role": "user", "content": content })
        }
    }
}

/// The state of an answer's content blocks during streaming.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The block with the answer.
    answer: Option<u64>,
    /// The block of each call.
    calls: Vec<u64>,
}

/// Reads one event of a stream and returns its text.
pub(super) fn take(
    reading: &mut Reading,
    blocks: &mut Blocks,
    data: &str,
    has_shape: bool,
) -> Result<Option<String>, NodeError> {
    let event = parse(data)?;
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => about(reading, &event["message"]),
        "content_block_start" => {
            let at = event["index"].as_u64().unwrap_or(0);
            return block(reading, blocks, at, &event["content_block"], has_shape);
        }
        "content_block_delta" => {
            let at = event["index"].as_u64().unwrap_or(0);
            let delta = &event["delta"];
            match delta["type"].as_str().unwrap_or_default() {
                "text_delta" => return text(reading, &delta["text"]),
                "input_json_delta" if blocks.answer == Some(at) => {
                    return text(reading, &delta["partial_json"]);
                }
                "input_json_delta" => {
                    let piece = delta["partial_json"].as_str().unwrap_or_default();
                    if let Some(place) = blocks.calls.iter().position(|block| *block == at) {
                        reading.call(place, None, None, piece)?;
                    }
                }
                _ => {}
            }
        }
        "message_delta" => {
            counted(reading, &event["usage"]);
            finish(reading, blocks, &event["delta"]);
        }
        "message_stop" => reading.is_whole = true,
        // Pings, and events of later versions.
        _ => {}
    }
    Ok(None)
}

/// Reads a complete answer.
pub(super) fn whole(reading: &mut Reading, body: &str, has_shape: bool) -> Result<(), NodeError> {
    let body = parse(body)?;
    let content = body["content"].as_array();
    let content = content.ok_or_else(|| failure::bad_answer("it has no content"))?;
    about(reading, &body);
    let mut blocks = Blocks::default();
    for (at, of) in content.iter().enumerate() {
        let at = at as u64;
        block(reading, &mut blocks, at, of, has_shape)?;
        if of["type"] == "tool_use" {
            let input = of["input"].to_string();
            match blocks.calls.iter().position(|block| *block == at) {
                Some(place) => reading.call(place, None, None, &input)?,
                None => reading.text(&input)?,
            }
        }
    }
    finish(reading, &blocks, &body);
    reading.is_whole = true;
    Ok(())
}

fn parse(data: &str) -> Result<Value, NodeError> {
    let value: Value =
        serde_json::from_str(data).map_err(|_| failure::bad_answer("it is not JSON"))?;
    if value["type"] == "error" {
        Err(failure::of_body(&value, None))
    } else {
        Ok(value)
    }
}

fn about(reading: &mut Reading, message: &Value) {
    if let Some(model) = message["model"].as_str() {
        reading.answer.model = Some(model.to_owned());
    }
    counted(reading, &message["usage"]);
}

/// A stream's counts are running totals; those that are not repeated stay.
fn counted(reading: &mut Reading, usage: &Value) {
    if !usage.is_object() {
        return;
    }
    let tokens = reading.tokens();
    let set = |to: &mut u64, value: &Value| *to = value.as_u64().unwrap_or(*to);
    set(&mut tokens.input, &usage["input_tokens"]);
    set(&mut tokens.output, &usage["output_tokens"]);
    let cached = |to: &mut Option<u64>, value: &Value| *to = value.as_u64().or(*to);
    cached(&mut tokens.cache_read, &usage["cache_read_input_tokens"]);
    cached(
        &mut tokens.cache_write,
        &usage["cache_creation_input_tokens"],
    );
}

fn block(
    reading: &mut Reading,
    blocks: &mut Blocks,
    at: u64,
    of: &Value,
    has_shape: bool,
) -> Result<Option<String>, NodeError> {
    match of["type"].as_str().unwrap_or_default() {
        "text" => return text(reading, &of["text"]),
        "tool_use" if has_shape && of["name"] == ANSWER => {
            // Text before the answer is not part of it.
            reading.answer.text.clear();
            blocks.answer = Some(at);
        }
        "tool_use" => {
            blocks.calls.push(at);
            let place = blocks.calls.len() - 1;
            reading.call(place, of["id"].as_str(), of["name"].as_str(), "")?;
        }
        _ => {}
    }
    Ok(None)
}

fn text(reading: &mut Reading, piece: &Value) -> Result<Option<String>, NodeError> {
    match piece.as_str() {
        Some(text) if !text.is_empty() => {
            reading.text(text)?;
            Ok(Some(text.to_owned()))
        }
        _ => Ok(None),
    }
}

fn finish(reading: &mut Reading, blocks: &Blocks, of: &Value) {
    let Some(reason) = of["stop_reason"].as_str() else {
        return;
    };
    reading.answer.finish = match reason {
        "max_tokens" => Finish::Length,
        "refusal" => {
            let category = of["stop_details"]["category"].as_str();
            reading.answer.category = category.map(str::to_owned);
            Finish::Refused
        }
        "model_context_window_exceeded" => Finish::Overflow,
        "tool_use" if blocks.answer.is_some() => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        _ => Finish::Stop,
    };
    if blocks.answer.is_some() {
        // Other calls are moot once there is an answer.
        reading.answer.calls.clear();
    }
}

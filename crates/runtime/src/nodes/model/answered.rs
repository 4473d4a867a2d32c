//! Evaluating an answer, and building the node's outputs.

use kernel::run::{NodeError, Usage};
use serde_json::{Map, Value, json};

use super::access::Access;
use super::shape::Misshapen;
use crate::models::ask::Answer;

/// The verdict on an answer.
pub(super) enum Judged {
    /// Valid; with its JSON value if one was requested.
    Good(Option<Value>),
    /// Does not match the schema.
    Misshapen(Misshapen),
}

/// The usage of a call. Every call is counted. If the provider reports no tokens, the usage has
/// none and its cost is unknown.
pub(super) fn usage(answer: &Answer, access: &Access, took: u64) -> Usage {
    let told = answer.tokens;
    let tokens = told.unwrap_or_default();
    let model = answer.model.as_deref().unwrap_or(&access.model);
    Usage {
        provider: access.provider.name.clone(),
        model: model.to_owned(),
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cost_estimate_usd: told
            .and_then(|tokens| access.provider.cost([&access.model, model], &tokens)),
        duration_ms: Some(took),
        cache_read_tokens: tokens.cache_read,
        cache_write_tokens: tokens.cache_write,
    }
}

/// The names of the node's outputs.
pub(super) const NAMES: [&str; 8] = [
    "content",
    "json",
    "finishReason",
    "model",
    "provider",
    "usage",
    "toolCalls",
    "contentTrust",
];

/// The node's outputs.
pub(super) fn outputs(
    answer: &Answer,
    access: &Access,
    usage: &[Usage],
    json: Option<Value>,
) -> Map<String, Value> {
    let mut outputs = Map::new();
    outputs.insert("content".into(), answer.text.clone().into());
    if let Some(json) = json {
        outputs.insert("json".into(), json);
    }
    outputs.insert("finishReason".into(), answer.finish.as_str().into());
    let model = answer.model.as_deref().unwrap_or(&access.model);
    outputs.insert("model".into(), model.into());
    outputs.insert("provider".into(), access.provider.name.clone().into());
    let sum = |of: fn(&Usage) -> u64| usage.iter().map(of).fold(0, u64::saturating_add);
    let (input, output) = (
        sum(|usage| usage.input_tokens),
        sum(|usage| usage.output_tokens),
    );
    if input > 0 || output > 0 {
        outputs.insert(
            "usage".into(),
            json!({
                "inputTokens": input, "outputTokens": output,
                "totalTokens": input.saturating_add(output),
            }),
        );
    }
    outputs
}

/// The metadata of an answer in the log, next to its text.
pub(super) fn meta(answer: &Answer, access: &Access) -> Value {
    let model = answer.model.as_deref().unwrap_or(&access.model);
    let mut meta = json!({
        "finishReason": answer.finish.as_str(), "model": model,
        "provider": access.provider.name,
    });
    if let Some(tokens) = &answer.tokens {
        meta["usage"] = json!({
            "promptTokens": tokens.input, "completionTokens": tokens.output,
            "totalTokens": tokens.total(),
        });
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter();
        let calls: Vec<Value> = calls
            .map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }))
            .collect();
        meta["toolCalls"] = calls.into();
    }
    meta
}

/// Makes an error final: the attempt has called tools that may have had effects, and must not be
/// repeated.
pub(super) fn for_good(error: NodeError) -> NodeError {
    let message = format!(
        "{}; tools were called, so the call is not repeated",
        error.message
    );
    NodeError { message, ..error }.fatal()
}

//! What an answer is worth, and what is kept of it.

use kernel::run::{NodeError, Usage};
use serde_json::{Map, Value, json};

use super::access::Access;
use super::shape::Misshapen;
use crate::models::ask::Answer;

/// What an answer is worth.
pub(super) enum Judged {
    /// It is what was asked for; as JSON where that was asked for.
    Good(Option<Value>),
    /// It does not have its shape.
    Misshapen(Misshapen),
}

/// What a call used. Every call is counted, also where the provider does not say how much it was:
/// then it has no tokens, and nobody knows what it cost.
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

/// The names of what the node gives.
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

/// What the node gives.
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

/// What there is to say about an answer in the log, beside its text.
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

/// An error after which the attempt must not be made again: tools were called that may have had
/// their effect.
pub(super) fn for_good(error: NodeError) -> NodeError {
    let message = format!(
        "{}; tools were called, so it does not begin again",
        error.message
    );
    NodeError { message, ..error }.fatal()
}

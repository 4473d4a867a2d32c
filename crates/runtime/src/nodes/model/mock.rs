//! The documented test provider (OpenWOP v1, `mockProvider` of a run's `configurable`): `stream-text`
//! streams the tokens it is given. Who may ask for it is decided where runs are created.

use std::time::Duration;

use kernel::run::event::OutputChannel;
use kernel::run::{Completion, NodeError, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::{HoldLost, NodeContext};
use super::speak::Silenced;

/// The one test provider there is.
pub(crate) const STREAM_TEXT: &str = "stream-text";
const MODEL: &str = "mock-stream-text-v1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StreamText {
    tokens: Vec<String>,
    delay_ms_per_token: u64,
    finish_reason: String,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: Option<u64>,
}

impl Default for StreamText {
    fn default() -> Self {
        Self {
            tokens: vec!["mock".to_owned(), " response".to_owned()],
            delay_ms_per_token: 0,
            finish_reason: "stop".to_owned(),
            usage: None,
        }
    }
}

/// What a run says about a test provider.
pub(super) fn asked_for(settings: &Map<String, Value>) -> Option<&Value> {
    settings.get("mockProvider").filter(|mock| !mock.is_null())
}

/// Plays a test provider: as many chunks as tokens, the last one with the end.
pub(super) async fn play(mock: &Value, cx: &NodeContext) -> Result<Completion, Silenced> {
    if mock["id"] != STREAM_TEXT {
        let text = "there is no such test provider; this engine has stream-text";
        return Err(NodeError::new("unsupported_mock_provider", text)
            .fatal()
            .into());
    }
    let config = match &mock["config"] {
        Value::Null => StreamText::default(),
        config => serde_json::from_value(config.clone()).map_err(|error| {
            super::config::invalid(format!("the config of mockProvider: {error}"))
        })?,
    };
    let delay = Duration::from_millis(config.delay_ms_per_token.min(5_000));
    let mut meta = json!({ "finishReason": config.finish_reason, "model": MODEL });
    if let Some(usage) = &config.usage {
        let sum = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        meta["usage"] = json!({
            "promptTokens": usage.prompt_tokens,
            "completionTokens": usage.completion_tokens,
            "totalTokens": usage.total_tokens.unwrap_or(sum),
        });
    }
    let mut left = config.tokens.len();
    for token in &config.tokens {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        left -= 1;
        let is_last = left == 0;
        say(cx, token, is_last, is_last.then(|| meta.clone())).await?;
    }
    if config.tokens.is_empty() {
        say(cx, "", true, Some(meta)).await?;
    }
    let mut outputs = Map::new();
    outputs.insert("content".into(), config.tokens.concat().into());
    outputs.insert("finishReason".into(), config.finish_reason.into());
    outputs.insert("provider".into(), "mock".into());
    outputs.insert("model".into(), MODEL.into());
    let usage = config.usage.map(|tokens| Usage {
        provider: "mock".to_owned(),
        model: MODEL.to_owned(),
        input_tokens: tokens.prompt_tokens,
        output_tokens: tokens.completion_tokens,
        cost_estimate_usd: None,
        duration_ms: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
    });
    Ok(Completion {
        outputs,
        usage: usage.into_iter().collect(),
        ..Completion::default()
    })
}

async fn say(
    cx: &NodeContext,
    token: &str,
    is_last: bool,
    meta: Option<Value>,
) -> Result<(), HoldLost> {
    let text = OutputChannel::Text;
    cx.output.chunk(text, token.to_owned(), is_last, meta).await
}

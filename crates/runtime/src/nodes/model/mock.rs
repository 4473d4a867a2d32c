//! The documented test providers (OpenWOP v1, `mockProvider` of a run's `configurable`):
//! `stream-text` streams the given tokens, `tool-calls` requests the given tools, `error` fails as
//! configured, `usage-only` only reports usage. The permission to use one is checked when a run is
//! created.

use std::time::Duration;

use kernel::problem::pointer;
use kernel::run::event::OutputChannel;
use kernel::run::{Completion, NodeError, Usage};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::super::{LeaseLost, NodeContext};
use super::speak::Silenced;

/// Every test provider.
pub(crate) const PROVIDERS: [&str; 4] = ["stream-text", "tool-calls", "error", "usage-only"];
/// Characters of a test provider's id.
const MAX_ID_CHARS: usize = 128;
/// The longest delay of a test provider in milliseconds.
const MAX_DELAY_MS: u64 = 5_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StreamText {
    tokens: Vec<String>,
    delay_ms_per_token: u64,
    finish_reason: String,
    usage: Option<Tokens>,
    model: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ToolCalls {
    tool_calls: Vec<ToolCall>,
    delay_ms_per_token: u64,
}

#[derive(Deserialize)]
struct ToolCall {
    id: String,
    name: String,
    /// JSON as a text, or the value itself.
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Failing {
    code: String,
    message: String,
    retryable: bool,
    fail_after_ms: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageOnly {
    usage: Tokens,
}

#[derive(Clone, Default, Deserialize)]
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
            model: "mock-stream-text-v1".to_owned(),
        }
    }
}

impl Default for Failing {
    fn default() -> Self {
        Self {
            code: "mock_provider_error".to_owned(),
            message: "the test provider fails as configured".to_owned(),
            retryable: false,
            fail_after_ms: 0,
        }
    }
}

impl Tokens {
    fn shown(&self) -> Value {
        let sum = self.prompt_tokens.saturating_add(self.completion_tokens);
        json!({
            "promptTokens": self.prompt_tokens,
            "completionTokens": self.completion_tokens,
            "totalTokens": self.total_tokens.unwrap_or(sum),
        })
    }

    fn used(&self, model: &str) -> Usage {
        Usage {
            provider: "mock".to_owned(),
            model: model.to_owned(),
            input_tokens: self.prompt_tokens,
            output_tokens: self.completion_tokens,
            cost_estimate_usd: None,
            duration_ms: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
        }
    }
}

/// The problems of a run's test provider settings, each with its place. Values are not echoed.
pub(crate) fn check(mock: &Value) -> Vec<(String, String)> {
    let Some(fields) = mock.as_object() else {
        return vec![(String::new(), "must be an object with an `id`".to_owned())];
    };
    let mut found = Vec::new();
    let mut wrong = |place: &str, what: &str| found.push((place.to_owned(), what.to_owned()));
    let has_length = |id: &str| (1..=MAX_ID_CHARS).contains(&id.chars().count());
    let id = mock["id"].as_str().filter(|id| has_length(id));
    if id.is_none() {
        wrong("/id", "must be a text of 1 to 128 characters");
    }
    for name in fields.keys() {
        if !["id", "config"].contains(&name.as_str()) {
            wrong(
                &pointer("", name),
                "is an unknown field; the fields are id and config",
            );
        }
    }
    match (&mock["config"], id) {
        (Value::Null, _) => {}
        (Value::Object(config), Some(id)) => {
            for (name, value) in config {
                if let Some(what) = check_field(id, name, value) {
                    wrong(&pointer("/config", name), what);
                }
            }
        }
        (Value::Object(_), None) => {}
        _ => wrong("/config", "must be an object"),
    }
    found
}

/// The expected form of a field of a test provider's config, if it has another. Fields that the
/// provider does not read are ignored, as the protocol leaves its config open.
fn check_field(id: &str, name: &str, value: &Value) -> Option<&'static str> {
    if ["delayMsPerToken", "failAfterMs"].contains(&name) {
        let ms = value.as_u64().filter(|ms| *ms <= MAX_DELAY_MS);
        return match ms {
            Some(_) => None,
            None => Some("must be a whole number from 0 to 5000"),
        };
    }
    let alone = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
    let is_read = match id {
        "stream-text" => serde_json::from_value::<StreamText>(alone).is_ok(),
        "tool-calls" => serde_json::from_value::<ToolCalls>(alone).is_ok(),
        "error" => serde_json::from_value::<Failing>(alone).is_ok(),
        "usage-only" => serde_json::from_value::<UsageOnly>(alone).is_ok(),
        _ => true,
    };
    if is_read {
        return None;
    }
    Some(match name {
        "tokens" => "must be a list of texts",
        "usage" => "must be an object with the whole numbers promptTokens and completionTokens",
        "toolCalls" => "must be a list of objects with the texts id and name",
        "retryable" => "must be true or false",
        _ => "must be a text",
    })
}

/// The run's settings for a test provider.
pub(super) fn asked_for(settings: &Map<String, Value>) -> Option<&Value> {
    settings.get("mockProvider").filter(|mock| !mock.is_null())
}

/// Runs a test provider.
pub(super) async fn play(mock: &Value, cx: &NodeContext) -> Result<Completion, Silenced> {
    let config = &mock["config"];
    match mock["id"].as_str() {
        Some("stream-text") => stream_text(read(config)?, cx).await,
        Some("tool-calls") => tool_calls(read(config)?, cx).await,
        Some("error") => fail(read(config)?).await,
        Some("usage-only") => usage_only(read(config)?, cx).await,
        _ => {
            let text = format!(
                "unknown test provider; the test providers are {}",
                PROVIDERS.join(", ")
            );
            Err(NodeError::new("unsupported_mock_provider", text)
                .fatal()
                .into())
        }
    }
}

fn read<T: DeserializeOwned + Default>(config: &Value) -> Result<T, NodeError> {
    match config {
        Value::Null => Ok(T::default()),
        config => serde_json::from_value(config.clone()).map_err(|error| {
            super::config::invalid(format!("the config of mockProvider: {error}"))
        }),
    }
}

async fn wait(ms: u64) {
    let delay = Duration::from_millis(ms.min(MAX_DELAY_MS));
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// One chunk per token; the last one is marked as the end.
async fn stream_text(config: StreamText, cx: &NodeContext) -> Result<Completion, Silenced> {
    let mut meta = json!({ "finishReason": config.finish_reason, "model": config.model });
    if let Some(usage) = &config.usage {
        meta["usage"] = usage.shown();
    }
    let mut left = config.tokens.len();
    for token in &config.tokens {
        wait(config.delay_ms_per_token).await;
        left -= 1;
        let is_last = left == 0;
        say(cx, token, is_last, is_last.then(|| meta.clone())).await?;
    }
    if config.tokens.is_empty() {
        say(cx, "", true, Some(meta)).await?;
    }
    let content = config.tokens.concat();
    let usage = config.usage.map(|tokens| tokens.used(&config.model));
    Ok(completion(
        content,
        &config.finish_reason,
        &config.model,
        usage,
    ))
}

/// One chunk per call. No tool is called: the test is about clients.
async fn tool_calls(config: ToolCalls, cx: &NodeContext) -> Result<Completion, Silenced> {
    let model = "mock-tool-calls-v1";
    let mut calls = Vec::new();
    let mut left = config.tool_calls.len();
    for call in config.tool_calls {
        wait(config.delay_ms_per_token).await;
        left -= 1;
        let arguments = match call.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text,
            value => value.to_string(),
        };
        let call = json!({ "id": call.id, "name": call.name, "arguments": arguments });
        let mut meta = json!({ "model": model, "toolCalls": [&call] });
        if left == 0 {
            meta["finishReason"] = "tool_calls".into();
        }
        say(cx, "", left == 0, Some(meta)).await?;
        calls.push(call);
    }
    let mut completion = completion(String::new(), "tool_calls", model, None);
    completion.outputs.insert("toolCalls".into(), calls.into());
    Ok(completion)
}

async fn fail(config: Failing) -> Result<Completion, Silenced> {
    wait(config.fail_after_ms).await;
    let error = NodeError::new(&config.code, config.message);
    Err(if config.retryable {
        error
    } else {
        error.fatal()
    }
    .into())
}

async fn usage_only(config: UsageOnly, cx: &NodeContext) -> Result<Completion, Silenced> {
    let model = "mock-usage-only-v1";
    let meta = json!({ "finishReason": "stop", "model": model, "usage": config.usage.shown() });
    say(cx, "", true, Some(meta)).await?;
    let usage = Some(config.usage.used(model));
    Ok(completion(String::new(), "stop", model, usage))
}

fn completion(content: String, finish: &str, model: &str, usage: Option<Usage>) -> Completion {
    let mut outputs = Map::new();
    outputs.insert("content".into(), content.into());
    outputs.insert("finishReason".into(), finish.into());
    outputs.insert("provider".into(), "mock".into());
    outputs.insert("model".into(), model.into());
    Completion {
        outputs,
        usage: usage.into_iter().collect(),
        ..Completion::default()
    }
}

async fn say(
    cx: &NodeContext,
    token: &str,
    is_last: bool,
    meta: Option<Value>,
) -> Result<(), LeaseLost> {
    let text = OutputChannel::Text;
    cx.output.chunk(text, token.to_owned(), is_last, meta).await
}

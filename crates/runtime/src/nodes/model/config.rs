//! The config of a model node.

use std::time::Duration;

use kernel::definition::Reads;
use kernel::limits::MAX_SCHEMA_ROUNDS;
use kernel::problem::{Problem, ProblemCode};
use kernel::run::NodeError;
use serde::Deserialize;
use serde_json::Value;

use super::super::mcp::Mcp;
use super::super::process::Process;
use super::super::template::{Template, note_texts};
use super::super::{Past, Repeat, WorkNode as _, parsed};
use super::tools::{ProcessTool, has_result, narrows};
use crate::models::Api;
use crate::models::base_url;
use crate::models::call::Patience;
use crate::schema_words::schema_problem;
use crate::secrets::wrong_reference;

pub(super) const DEFAULT_TIMEOUT_MS: u64 = 300_000;
pub(super) const DEFAULT_IDLE_TIMEOUT_MS: u64 = 120_000;
pub(super) const DEFAULT_TOOL_ROUNDS: u32 = 8;
pub(super) const DEFAULT_TOOL_TIMEOUT_MS: u64 = 60_000;
/// How often a model is called by default for an answer with a schema, including repairs.
pub(super) const DEFAULT_ASKS: u32 = 2;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub api: Option<Api>,
    pub model: Option<String>,
    pub credential_ref: Option<String>,
    pub system_prompt: Option<String>,
    pub prompt: Option<String>,
    pub prompt_id: Option<String>,
    pub messages: Option<Vec<ChatMessage>>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub seed: Option<i64>,
    pub max_tokens: Option<u64>,
    #[serde(default)]
    pub stop: Vec<String>,
    stream: Option<bool>,
    expects_streaming: Option<bool>,
    pub output_schema: Option<Value>,
    #[serde(default = "yes")]
    pub repair: bool,
    #[serde(default)]
    pub truncation: Truncation,
    #[serde(default = "timeout")]
    timeout_ms: u64,
    #[serde(default = "idle_timeout")]
    idle_timeout_ms: u64,
    repeat: Option<RepeatWord>,
    mcp: Option<Value>,
    /// Servers whose tools the model may call.
    #[serde(default)]
    pub mcp_servers: Vec<String>,
    /// Programs the model may call.
    #[serde(default)]
    pub tools: Vec<ProcessTool>,
    allowed_tools: Option<Vec<String>>,
    #[serde(default = "tool_rounds")]
    pub max_tool_rounds: u32,
    #[serde(default = "tool_timeout")]
    tool_timeout_ms: u64,
    pub max_asks: Option<u32>,
    /// Accepted for workflows of other hosts and ignored: `maxAsks` replaces it.
    #[serde(rename = "retryOnInvalidJson")]
    _retry_on_invalid_json: Option<u32>,
    /// Whether a last call turns prose into the schema's form. Set by the type of the node.
    #[serde(skip)]
    pub coerces: bool,
}

/// A message in a config or an input.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChatMessage {
    pub role: Role,
    pub content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

/// The treatment of a truncated answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Truncation {
    /// Accept it.
    #[default]
    Keep,
    /// Fail.
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RepeatWord {
    Repeatable,
    Once,
}

fn tool_rounds() -> u32 {
    DEFAULT_TOOL_ROUNDS
}

fn tool_timeout() -> u64 {
    DEFAULT_TOOL_TIMEOUT_MS
}

fn yes() -> bool {
    true
}

fn timeout() -> u64 {
    DEFAULT_TIMEOUT_MS
}

fn idle_timeout() -> u64 {
    DEFAULT_IDLE_TIMEOUT_MS
}

/// Checks that a schema cannot express.
pub(super) fn check(config: &Value, process: &Process) -> Vec<Problem> {
    let config: Config = match parsed(config) {
        Ok(config) => config,
        Err(error) => return vec![Problem::new("", ProblemCode::InvalidValue, error.message)],
    };
    let mut problems = Vec::new();
    let named = [
        ("/systemPrompt".to_owned(), &config.system_prompt),
        ("/prompt".to_owned(), &config.prompt),
        ("/baseUrl".to_owned(), &config.base_url),
        ("/model".to_owned(), &config.model),
    ];
    let named = named
        .iter()
        .filter_map(|(path, text)| Some((path.clone(), text.as_ref()?)));
    let messages = config.messages.iter().flatten().enumerate();
    let messages = messages.map(|(at, said)| (format!("/messages/{at}/content"), &said.content));
    for (path, text) in named.chain(messages) {
        if let Err(message) = Template::parse(text) {
            problems.push(Problem::new(path, ProblemCode::InvalidExpression, message));
        }
    }
    let mut refuse = |path: &str, message: &str| {
        problems.push(Problem::new(path, ProblemCode::InvalidValue, message));
    };
    if let Some(url) = config.base_url.as_ref().filter(|url| !url.contains("${"))
        && let Err(message) = base_url(url)
    {
        refuse("/baseUrl", message);
    }
    if let Some(message) = config.credential_ref.as_deref().and_then(wrong_reference) {
        refuse("/credentialRef", &message);
    }
    if config.base_url.is_some() && config.provider.is_some() {
        refuse("/baseUrl", "give `provider` or `baseUrl`, not both");
    }
    if config.api.is_some() && config.base_url.is_none() {
        refuse(
            "/api",
            "the provider's configuration sets this; it is allowed only with `baseUrl`",
        );
    }
    if config.prompt.is_some() && config.messages.is_some() {
        refuse("/messages", "give `prompt` or `messages`, not both");
    }
    if let Some(schema) = &config.output_schema {
        problems.extend(schema_problem("/outputSchema", schema));
    }
    for (at, tool) in config.tools.iter().enumerate() {
        let path = |rest: &str| format!("/tools/{at}{rest}");
        if config.tools[..at]
            .iter()
            .any(|other| other.name == tool.name)
        {
            let message = "another tool has this name";
            problems.push(Problem::new(
                path("/name"),
                ProblemCode::InvalidValue,
                message,
            ));
        }
        problems.extend(schema_problem(&path("/parameters"), &tool.parameters));
    }
    for (at, tool) in config.tools.iter().enumerate() {
        problems.extend(
            process
                .check(&tool.process)
                .into_iter()
                .map(|problem| Problem {
                    path: format!("/tools/{at}/process{}", problem.path),
                    ..problem
                }),
        );
    }
    if let Some(call) = &config.mcp {
        for problem in Mcp::Call.check(call) {
            problems.push(Problem {
                path: format!("/mcp{}", problem.path),
                ..problem
            });
        }
    }
    problems
}

/// The node inputs that a config reads. The texts of its tools read the arguments of a call
/// instead.
pub(super) fn reads(config: &Value) -> Reads {
    let mut reads = Reads::default();
    for key in ["systemPrompt", "prompt", "baseUrl", "model"] {
        note_texts(&mut reads, &format!("/{key}"), &config[key]);
    }
    let messages = config["messages"].as_array().into_iter().flatten();
    for (at, message) in messages.enumerate() {
        note_texts(
            &mut reads,
            &format!("/messages/{at}/content"),
            &message["content"],
        );
    }
    reads
}

impl Config {
    pub(super) fn parse(config: &Value) -> Result<Self, NodeError> {
        parsed(config)
    }

    /// Whether an attempt whose engine was lost is repeated. Tools may have effects.
    pub(super) fn repeat(&self) -> Repeat {
        match self.repeat {
            Some(RepeatWord::Once) => Repeat::Once,
            Some(RepeatWord::Repeatable) => Repeat::Repeatable,
            None if self.has_tools() => Repeat::Once,
            None => Repeat::Repeatable,
        }
    }

    /// Whether an attempt whose holder was lost resumes from its recorded calls: the results of all
    /// of them are known, and calling the model again is harmless.
    pub(super) fn goes_on(&self, past: &Past<'_>) -> bool {
        let in_flight = past.calls.last().filter(|call| call.returned.is_none());
        let is_known = in_flight.is_none_or(|call| has_result(call, past));
        self.repeat.is_none() && self.has_tools() && is_known
    }

    fn has_tools(&self) -> bool {
        !self.mcp_servers.is_empty() || !self.tools.is_empty()
    }

    /// Whether the model may be offered a tool, by its name with the server's prefix.
    pub(super) fn allows_tool(&self, full: &str) -> bool {
        let patterns = self.allowed_tools.as_ref();
        patterns.is_none_or(|patterns| narrows(patterns, full))
    }

    pub(super) fn tool_patience(&self) -> Duration {
        Duration::from_millis(self.tool_timeout_ms)
    }

    /// The most calls of the model for an answer with a schema.
    pub(super) fn asks(&self) -> u32 {
        if self.repair {
            // Stored definitions may exceed the present limit.
            self.max_asks.unwrap_or(DEFAULT_ASKS).min(MAX_SCHEMA_ROUNDS)
        } else {
            1
        }
    }

    pub(super) fn streams(&self) -> bool {
        self.stream.or(self.expects_streaming).unwrap_or(true)
    }

    pub(super) fn patience(&self) -> Patience {
        Patience {
            whole: Duration::from_millis(self.timeout_ms),
            idle: Duration::from_millis(self.idle_timeout_ms),
        }
    }
}

pub(super) fn invalid(message: impl Into<String>) -> NodeError {
    NodeError::new("invalid_config", message.into()).fatal()
}

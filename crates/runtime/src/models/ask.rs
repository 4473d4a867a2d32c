//! Requests to models and their answers, independent of the interface.

use serde_json::Value;

use super::providers::Api;

/// A request to a model with the conversation so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    /// Which model.
    pub model: String,
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The nucleus sampling threshold.
    pub top_p: Option<f64>,
    /// The sampling seed, if the provider supports one.
    pub seed: Option<i64>,
    /// The most tokens of the answer.
    pub max_tokens: Option<u64>,
    /// Texts at which it stops.
    pub stop: Vec<String>,
    /// The JSON Schema of the answer.
    pub shape: Option<Value>,
    /// Tools it may call.
    pub tools: Vec<Tool>,
    /// Whether the answer is streamed.
    pub stream: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// From the user.
    User(String),
    /// From the model.
    Assistant {
        text: String,
        /// Its tool calls.
        calls: Vec<Call>,
    },
    /// The results of the calls, one for each.
    Results(Vec<CallResult>),
}

/// The result of a call, as sent to the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallResult {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's output, or why there is none.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// A tool call of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// The provider's id of the call.
    pub id: String,
    pub name: String,
    /// JSON, as the model wrote it.
    pub arguments: String,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The answer is complete.
    #[default]
    Stop,
    /// The token limit was reached.
    Length,
    /// It calls tools.
    ToolCalls,
    /// It, or its provider, refused.
    Refused,
    /// The request does not fit into the context.
    Overflow,
}

impl Finish {
    /// The protocol's word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length | Self::Overflow => "length",
            Self::ToolCalls => "tool_calls",
            Self::Refused => "content_filter",
        }
    }
}

/// Tokens as a provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
}

impl Tokens {
    pub(crate) fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// All tokens that the model read and wrote, cached ones included.
    pub(crate) fn with_cached(&self, api: Api) -> u64 {
        let cached = match api {
            // OpenAI includes cached tokens in the input …
            Api::OpenAi => [None, None],
            // … and Anthropic counts them separately.
            Api::Anthropic => [self.cache_read, self.cache_write],
        };
        let counts = cached.into_iter().flatten();
        counts.fold(self.total(), u64::saturating_add)
    }
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub text: String,
    pub calls: Vec<Call>,
    pub finish: Finish,
    /// The provider's category of a refusal: one word.
    pub category: Option<String>,
    /// The model that answered, by the provider's name.
    pub model: Option<String>,
    /// `None` if the provider does not report it.
    pub tokens: Option<Tokens>,
}

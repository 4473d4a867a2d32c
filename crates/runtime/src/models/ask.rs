//! What a model is asked, and what it answers, whatever its interface.

use serde_json::Value;

/// One question to a model, with all that was said before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    /// Which model.
    pub model: String,
    /// What it is told before everything else.
    pub system: Option<String>,
    /// What was said so far.
    pub messages: Vec<Message>,
    /// How freely it chooses words.
    pub temperature: Option<f64>,
    /// The share of likely words it chooses from.
    pub top_p: Option<f64>,
    /// Makes the choice repeatable, where the provider can.
    pub seed: Option<i64>,
    /// Tokens it may answer with.
    pub max_tokens: Option<u64>,
    /// Texts at which it stops.
    pub stop: Vec<String>,
    /// The JSON Schema its answer must fit.
    pub shape: Option<Value>,
    /// Tools it may ask for.
    pub tools: Vec<Tool>,
    /// Whether the answer comes in pieces.
    pub stream: bool,
}

/// Something said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// By whoever asks.
    User(String),
    /// By the model.
    Assistant {
        /// What it said.
        text: String,
        /// What it wants called.
        calls: Vec<Call>,
    },
    /// By the tools it wanted called, one result for each call.
    Results(Vec<CallResult>),
}

/// What became of a call, as the model is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallResult {
    /// The provider's id of the call.
    pub id: String,
    /// What the tool gave, or why it gave nothing.
    pub text: String,
    /// Whether it gave nothing.
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

/// A model wants a tool called.
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
    /// It was done.
    #[default]
    Stop,
    /// It might not say more.
    Length,
    /// It wants tools called.
    ToolCalls,
    /// It, or its provider, refused.
    Refused,
    /// What was said did not fit into it.
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
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub text: String,
    pub calls: Vec<Call>,
    pub finish: Finish,
    /// What the provider says of a refusal: one word.
    pub category: Option<String>,
    /// The model that answered, by the provider's name of it.
    pub model: Option<String>,
    /// `None` where the provider says nothing of it.
    pub tokens: Option<Tokens>,
}

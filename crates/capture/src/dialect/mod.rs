//! Reads requests to models and their answers, in each supported interface.

mod anthropic;
mod openai;
mod responses;
mod stream;

use serde_json::{Map, Value};

pub(crate) use stream::{Line, gathered};

/// An interface of a model server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/chat/completions`, of OpenAI and many others.
    ChatCompletions,
    /// `/responses`, of OpenAI.
    Responses,
    /// `/embeddings`, of OpenAI and many others.
    Embeddings,
    /// `/v1/messages`, of Anthropic.
    Messages,
    /// Any other interface: recorded without interpretation.
    Other,
}

impl Route {
    /// The route of a path below a provider's base.
    pub fn from_path(path: &str) -> Self {
        let path = path.trim_end_matches('/');
        match path {
            _ if path.ends_with("/chat/completions") => Self::ChatCompletions,
            _ if path.ends_with("/responses") => Self::Responses,
            _ if path.ends_with("/embeddings") => Self::Embeddings,
            _ if path.ends_with("/messages") => Self::Messages,
            _ => Self::Other,
        }
    }

    /// Whether an answer is sampled, as controlled by settings.
    pub fn samples(self) -> bool {
        !matches!(self, Self::Embeddings | Self::Other)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "the chat completions interface",
            Self::Responses => "the responses interface",
            Self::Embeddings => "the embeddings interface",
            Self::Messages => "the messages interface",
            Self::Other => "this interface",
        }
    }

    /// The name of a setting in a request; `None` if the interface does not have it.
    pub(crate) fn field(
        self,
        param: &'static str,
        request: &Map<String, Value>,
    ) -> Option<&'static str> {
        match (self, param) {
            (Self::Messages | Self::Responses, "seed") => None,
            (Self::Responses, "max_tokens") => Some("max_output_tokens"),
            (Self::ChatCompletions, "max_tokens")
                if request.contains_key("max_completion_tokens") =>
            {
                Some("max_completion_tokens")
            }
            _ => Some(param),
        }
    }
}

/// The content of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelRequest {
    /// The requested model.
    pub model: Option<String>,
    /// The system prompt: a text, or blocks.
    pub system: Option<Value>,
    /// The last user message, if it is a text.
    pub prompt: Option<String>,
    /// Results of tools, by the id of their calls, in order.
    pub results: Vec<ToolResult>,
}

/// A result of a tool that is returned to the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolResult {
    pub id: String,
    pub output: Value,
    pub is_error: bool,
}

/// The content of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// The model that answered.
    pub model: Option<String>,
    /// The provider's fingerprint of its build.
    pub fingerprint: Option<String>,
    /// The text.
    pub text: String,
    /// The requested tool calls.
    pub uses: Vec<ToolUse>,
    /// Tokens in and out.
    pub tokens: Option<(u64, u64)>,
}

/// A tool call that a model requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolUse {
    pub id: String,
    pub name: String,
    /// Its arguments, parsed; a text while they arrive in pieces.
    pub arguments: String,
}

impl ToolUse {
    /// The arguments as a value; invalid JSON stays a text.
    pub(crate) fn input(&self) -> Value {
        match self.arguments.trim() {
            "" => Value::Object(Map::new()),
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        }
    }
}

/// Reads a request.
pub(crate) fn asked(route: Route, body: &Value) -> ModelRequest {
    let mut asked = match route {
        Route::ChatCompletions => openai::asked(body),
        Route::Responses => responses::asked(body),
        Route::Messages => anthropic::asked(body),
        Route::Embeddings | Route::Other => ModelRequest::default(),
    };
    asked.model = body["model"].as_str().map(str::to_owned);
    asked
}

/// Reads an answer: a value, or the text of a stream.
pub(crate) fn answer(route: Route, body: &str) -> Answer {
    let mut answer = Answer::default();
    if let Ok(whole) = serde_json::from_str::<Value>(body) {
        match route {
            Route::ChatCompletions => openai::whole(&mut answer, &whole),
            Route::Responses => responses::whole(&mut answer, &whole),
            Route::Messages => anthropic::whole(&mut answer, &whole),
            Route::Embeddings | Route::Other => {}
        }
        return answer;
    }
    for event in stream::events(body) {
        match route {
            Route::ChatCompletions => openai::piece(&mut answer, &event),
            Route::Responses => responses::piece(&mut answer, &event),
            Route::Messages => anthropic::piece(&mut answer, &event),
            Route::Embeddings | Route::Other => {}
        }
    }
    answer.uses.retain(|tool| !tool.name.is_empty());
    answer
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The text of a content that is a text, or a list of parts.
fn content_text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

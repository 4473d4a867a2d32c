//! `core.ai.chatCompletion` and `core.ai.callPrompt`: a question to a model and its answer.
//!
//! ```json
//! { "provider": "local", "systemPrompt": "You are brief.", "prompt": "Summarise: ${inputs.text}",
//!   "temperature": 0, "maxTokens": 200 }
//! ```
//!
//! What the config does not say comes from the run's `configurable` (`model`, `temperature`,
//! `maxTokens`, `promptOverrides`, `ai.provider`, `ai.model`, `ai.credentialRef`), then from the
//! provider's configuration. The answer is streamed into the log as it comes. Asking a model has no
//! effect outside, so an attempt whose engine was lost asks again, unless the config says `once`.
//!
//! With `mcp` in its config the node calls that tool itself, as `core.mcp.toolCall` does.

mod access;
mod config;
mod mock;
mod prompt;
mod schema;
mod shape;
mod speak;
mod turn;

use std::sync::Arc;

use async_trait::async_trait;
use kernel::problem::Problem;
use kernel::run::Outcome;
use serde_json::Value;

use super::mcp::Mcp;
use super::{NodeContext, Repeat, Started, WorkNode};
use config::Config;
pub(crate) use mock::STREAM_TEXT as TEST_PROVIDER_ID;

/// Asks a model, under the type id it is given.
pub(super) struct Model {
    type_id: &'static str,
    summary: &'static str,
}

impl Model {
    /// The node under every type id it has.
    pub(super) fn all() -> [Self; 2] {
        [
            Self {
                type_id: "core.ai.chatCompletion",
                summary: "Asks a model and gives its answer, as text or as JSON of a given shape.",
            },
            Self {
                type_id: "core.ai.callPrompt",
                summary: "Asks a model by a prompt that the run's creator may replace.",
            },
        ]
    }
}

#[async_trait]
impl WorkNode for Model {
    fn type_id(&self) -> &'static str {
        self.type_id
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn repeat(&self, config: &Value) -> Repeat {
        match config.get("mcp").filter(|call| !call.is_null()) {
            Some(call) => Mcp::Call.repeat(call),
            None => Config::of(config).map_or(Repeat::Once, |config| config.repeat()),
        }
    }

    fn config_schema(&self) -> Value {
        schema::schema()
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        config::check(config)
    }

    fn leaves_results(&self) -> bool {
        true
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        if let Some(call) = started.config().get("mcp").filter(|call| !call.is_null()) {
            let config = Arc::new(call.clone());
            return Mcp::Call.run(Started { config, ..started }, cx).await;
        }
        tokio::select! {
            biased;
            // What was sent is dropped with its connection, by which the provider learns of it.
            () = cx.stop.cancelled() => Outcome::Stopped,
            outcome = turn::run(&started, &cx) => outcome,
        }
    }
}

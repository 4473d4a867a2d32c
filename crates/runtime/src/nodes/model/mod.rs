//! `core.ai.chatCompletion` and `core.ai.callPrompt`: a request to a model and its answer.
//!
//! ```json
//! { "provider": "local", "systemPrompt": "You are brief.", "prompt": "Summarise: ${inputs.text}",
//!   "temperature": 0, "maxTokens": 200 }
//! ```
//!
//! Values missing from the config come from the run's `configurable` (`model`, `temperature`,
//! `maxTokens`, `promptOverrides`, `ai.provider`, `ai.model`, `ai.credentialRef`), then from the
//! provider's configuration. The answer is streamed into the log. A model call has no effect
//! outside, so an attempt whose engine was lost calls again, unless the config sets `once`.
//!
//! With `mcpServers` or `tools` in its config the model may call tools before it answers, in at
//! most `maxToolRounds` successive rounds; each call is in the log. An attempt whose engine was
//! lost resumes from the completed calls and repeats none of them. With `mcp` in its config the
//! node calls that tool itself, as `core.mcp.toolCall` does.

mod access;
mod answered;
mod config;
mod judge;
mod mock;
mod prompt;
mod schema;
mod shape;
mod speak;
mod tools;
mod turn;

use std::sync::Arc;

use async_trait::async_trait;
use kernel::definition::Reads;
use kernel::problem::Problem;
use kernel::run::{NodeError, Outcome};
use serde_json::{Value, json};

use super::mcp::{Mcp, note_call};
use super::process::{Process, ProcessHost};
use super::{NodeContext, Past, Repeat, Started, WorkNode};
use crate::models::{CHAT, MODEL_NODES, PROMPT, STRUCTURED};
use crate::tools::TenantTools;
use config::Config;
pub(crate) use mock::{PROVIDERS as TEST_PROVIDERS, check as check_mock};

/// Calls a model, under a given type id.
pub(super) struct Model {
    type_id: &'static str,
    summary: &'static str,
    /// The default number of calls for an answer with a schema.
    asks: Option<u32>,
    /// Runs programs that models call.
    process: Arc<Process>,
}

impl Model {
    /// One node per type id, with a host's rules for programs.
    pub(super) fn all(host: &ProcessHost) -> [Self; MODEL_NODES.len()] {
        let process = Arc::new(Process::new(host.clone()));
        [
            Self {
                type_id: CHAT,
                summary: "Calls a model and returns its answer, as text or as JSON with a schema.",
                asks: None,
                process: process.clone(),
            },
            Self {
                type_id: PROMPT,
                summary: "Calls a model with a prompt that the run's creator may replace.",
                asks: None,
                process: process.clone(),
            },
            Self {
                type_id: STRUCTURED,
                summary: "Calls a model for JSON with a schema, up to three times.",
                asks: Some(ASKS),
                process,
            },
        ]
    }

    fn config(&self, config: &Value) -> Result<Config, NodeError> {
        let mut config = Config::parse(config)?;
        config.max_asks = config.max_asks.or(self.asks);
        config.coerces = self.type_id == STRUCTURED && config.repair;
        Ok(config)
    }
}

/// The default number of calls of the type for answers with a schema.
pub(crate) const ASKS: u32 = kernel::limits::MAX_SCHEMA_ROUNDS;
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
            None => self
                .config(config)
                .map_or(Repeat::Once, |config| config.repeat()),
        }
    }

    fn config_schema(&self) -> Value {
        let mut schema = schema::schema(&self.process);
        if self.type_id == STRUCTURED {
            schema["required"] = json!(["outputSchema"]);
        }
        schema
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        config::check(config, &self.process)
    }

    fn reads(&self, config: &Value) -> Reads {
        match config.get("mcp").filter(|call| !call.is_null()) {
            Some(call) => note_call(call, "/mcp"),
            None => config::reads(config),
        }
    }

    fn outputs(&self, config: &Value) -> Option<Vec<String>> {
        match config.get("mcp").filter(|call| !call.is_null()) {
            Some(call) => Mcp::Call.outputs(call),
            None => {
                let has_json = !config["outputSchema"].is_null();
                let names = answered::NAMES.iter();
                let names = names.filter(|name| has_json || **name != "json");
                Some(names.map(|name| (*name).to_owned()).collect())
            }
        }
    }

    fn runs_programs(&self, config: &Value, tools: &TenantTools<'_>) -> bool {
        if let Some(call) = config.get("mcp").filter(|call| !call.is_null()) {
            return Mcp::Call.runs_programs(call, tools);
        }
        let Ok(config) = self.config(config) else {
            return false;
        };
        let mut servers = config.mcp_servers.iter();
        !config.tools.is_empty() || servers.any(|name| tools.starts_program(Some(name)))
    }

    fn check_of_tenant(&self, config: &Value) -> Vec<Problem> {
        let config = self.config(config);
        let tools = config.iter().flat_map(|config| config.tools.iter());
        let problems = tools.enumerate().flat_map(|(at, tool)| {
            let problems = self.process.check_of_tenant(&tool.process);
            problems.into_iter().map(move |problem| Problem {
                path: format!("/tools/{at}/process{}", problem.path),
                ..problem
            })
        });
        problems.collect()
    }

    fn leaves_results(&self) -> bool {
        true
    }

    fn remembers_calls(&self) -> bool {
        true
    }

    fn goes_on(&self, past: &Past<'_>) -> bool {
        let calls_itself = past.config.get("mcp").is_some_and(|call| !call.is_null());
        let config = self.config(past.config);
        !calls_itself && config.is_ok_and(|config| config.goes_on(past))
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        if let Some(call) = started.config().get("mcp").filter(|call| !call.is_null()) {
            let config = Arc::new(call.clone());
            return Mcp::Call.run(Started { config, ..started }, cx).await;
        }
        match self.config(started.config()) {
            Ok(config) => turn::run(&config, &started, &cx, &self.process).await,
            Err(error) => Outcome::failed(error),
        }
    }
}

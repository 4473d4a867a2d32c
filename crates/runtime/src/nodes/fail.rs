//! `core.fail`: fails on purpose.

use async_trait::async_trait;
use kernel::problem::{Problem, ProblemCode};
use kernel::run::{NodeError, Outcome};
use serde_json::{Map, Value, json};

use super::{Given, NodeContext, ReceiverKey, Repeat, Started, WorkNode};

/// Fails with the code and message of its config.
pub(super) struct Fail;

#[async_trait]
impl WorkNode for Fail {
    fn type_id(&self) -> &'static str {
        "core.fail"
    }

    fn summary(&self) -> &'static str {
        "Fails, with a code and a message of your choice."
    }

    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn effect(&self, _config: &Value, _inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        None
    }

    fn config_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "code": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 200,
                    "default": "conformance_test_failure",
                    "description": "The error code.",
                },
                "message": {
                    "type": "string",
                    "maxLength": 4096,
                    "description": "The error message.",
                },
                "retryable": {
                    "type": "boolean",
                    "description": "Whether a retry may help; true by default.",
                },
            },
            "additionalProperties": false,
        })
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        let text = config["message"].as_str().unwrap_or_default();
        let is_filled = !text.contains("${inputs.");
        let message = "`${inputs.NAME}` is not replaced in this message; write the text itself";
        let problem = || Problem::new("/message", ProblemCode::NotDone, message);
        (!is_filled).then(problem).into_iter().collect()
    }

    fn compute(&self, given: &Given<'_>) -> Option<Outcome> {
        Some(fail(given.config))
    }

    async fn run(&self, started: Started, _cx: NodeContext) -> Outcome {
        fail(started.config())
    }
}

fn fail(config: &Value) -> Outcome {
    let text = |name: &str| config[name].as_str();
    let code = text("code").unwrap_or("conformance_test_failure");
    let message = text("message").unwrap_or("this node fails on purpose");
    let mut error = NodeError::new(code, message);
    error.retryable = config["retryable"].as_bool();
    Outcome::failed(error)
}

//! The config of a node of a session.

use std::path::Path;

use kernel::limits::MAX_WAIT_MS;
use kernel::run::{NodeError, Outcome};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::parsed;
use super::super::template::as_text;
use super::paths::present;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    pub(super) executor: String,
    #[serde(default)]
    args: Vec<Part>,
    #[serde(default)]
    pub(super) cli_tool: String,
    #[serde(default)]
    pub(super) cli_mode: String,
    #[serde(default)]
    pub(super) cli_rule: String,
    pub(super) timeout_ms: Option<u64>,
    /// Whether a failure of the work is an ordinary result, so that a loop continues after it.
    #[serde(default)]
    pub(super) failure_is_result: bool,
    #[serde(default)]
    session: Session,
}

/// A text, or an input or a part of one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Part {
    Text(String),
    Input { input: String, index: Option<usize> },
}

#[derive(Debug, Default, Deserialize)]
struct Session {
    recorded: Option<Recorded>,
}

/// The recorded work of another player.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    status: String,
    session_id: Option<String>,
    output_path: Option<String>,
    #[serde(default)]
    artifacts: Vec<String>,
    output: Option<String>,
}

impl Config {
    pub(super) fn parse(config: &Value) -> Result<Self, NodeError> {
        parsed(config)
    }

    /// The arguments; inputs without a value are empty. A path into a session that was archived
    /// since is mapped to its present place.
    pub(super) fn args(&self, inputs: &Map<String, Value>, project: &Path) -> String {
        let mut text = String::new();
        for part in &self.args {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Input { input, index } => {
                    let value = inputs.get(input).filter(|value| !value.is_null());
                    let value = match index {
                        Some(index) => value.and_then(|list| list.get(index)),
                        None => value,
                    };
                    let value = value.map(as_text).unwrap_or_default();
                    if index.is_some() || input.ends_with("output_path}") {
                        text.push_str(&present(project, &value))
                    } else {
                        text.push_str(&value)
                    }
                }
            }
        }
        text
    }

    /// The outcome of work that another player has already done.
    pub(super) fn recorded(&self) -> Option<Outcome> {
        let recorded = self.session.recorded.as_ref()?;
        if recorded.status != "completed" {
            return None;
        }
        let outputs = json!({
            "session_id": recorded.session_id.clone().unwrap_or_default(),
            "output_path": recorded.output_path.clone().unwrap_or_default(),
            "artifacts": recorded.artifacts,
            "output": recorded.output.clone().unwrap_or_default(),
        });
        let Value::Object(outputs) = outputs else {
            return None;
        };
        Some(Outcome::completed(outputs))
    }
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["executor"],
        "properties": {
            "executor": {
                "type": "string",
                "description": "The name of the skill, command or agent.",
            },
            "args": {
                "type": "array",
                "description": "The arguments: texts, and inputs as {\"input\": NAME}, with an `index` into a list.",
                "items": {
                    "anyOf": [
                        { "type": "string" },
                        {
                            "type": "object",
                            "required": ["input"],
                            "properties": {
                                "input": { "type": "string" },
                                "index": { "type": "integer", "minimum": 0 },
                            },
                            "additionalProperties": false,
                        },
                    ],
                    "description": "a text, or {\"input\": NAME}",
                },
            },
            "cliTool": { "type": "string", "description": "The tool of a cli node, as gemini." },
            "cliMode": { "type": "string", "description": "The mode of a cli node: analysis or write." },
            "cliRule": { "type": "string", "description": "The name of a prompt rule of a cli node." },
            "timeoutMs": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_WAIT_MS,
                "description": "The time limit of an attempt.",
            },
            "failureIsResult": {
                "type": "boolean",
                "description": "Whether work that failed completes the node, with an output `error`.",
            },
            "session": {
                "type": "object",
                "description": "Its position in a session, and the results of another player.",
            },
        },
        "additionalProperties": false,
    })
}

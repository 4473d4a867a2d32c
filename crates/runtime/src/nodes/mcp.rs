//! `core.mcp.toolCall` and `core.mcp.listTools`: tools over the Model Context Protocol.
//!
//! ```json
//! { "server": "files", "tool": "read", "arguments": { "path": "${inputs.path}" } }
//! ```
//!
//! A tool's output comes from outside and is not trusted: the output `contentTrust` is `untrusted`.
//! A tool may have effects, so an attempt whose engine was lost is not repeated unless the config
//! sets `repeatable`.

use std::time::Duration;

use async_trait::async_trait;
use kernel::definition::Reads;
use kernel::limits::MAX_WAIT_MS;
use kernel::problem::Problem;
use kernel::run::budget::{Amounts, TOOL_CALLS};
use kernel::run::report::{ToolStatus, ToolTransport};
use kernel::run::{Completion, NodeError, Outcome};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::called::{self, Called, NotMade};
use super::template::{check_texts, fill_texts};
use super::{LeaseLost, NodeContext, Repeat, Started, WorkNode, parsed};
use crate::tools::{Session, TenantTools, ToolAnswer, ToolServer, patience_over};

const DEFAULT_TIMEOUT_MS: u64 = 60_000;

/// The operation on a server of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mcp {
    /// Call a tool.
    Call,
    /// List the tools.
    List,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    server: Option<String>,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default = "timeout")]
    timeout_ms: u64,
    repeat: Option<RepeatWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RepeatWord {
    Repeatable,
    Once,
}

fn timeout() -> u64 {
    DEFAULT_TIMEOUT_MS
}

impl Config {
    fn parse(config: &Value) -> Result<Self, NodeError> {
        parsed(config)
    }
}

#[async_trait]
impl WorkNode for Mcp {
    fn type_id(&self) -> &'static str {
        match self {
            Self::Call => "core.mcp.toolCall",
            Self::List => "core.mcp.listTools",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::Call => "Calls a tool of a Model Context Protocol server.",
            Self::List => "Lists the tools of a Model Context Protocol server.",
        }
    }

    fn repeat(&self, config: &Value) -> Repeat {
        let said = Config::parse(config).ok().and_then(|config| config.repeat);
        match (self, said) {
            (Self::List, None) | (_, Some(RepeatWord::Repeatable)) => Repeat::Repeatable,
            (Self::Call, None) | (_, Some(RepeatWord::Once)) => Repeat::Once,
        }
    }

    fn leaves_results(&self) -> bool {
        true
    }

    fn runs_programs(&self, config: &Value, tools: &TenantTools<'_>) -> bool {
        tools.starts_program(config["server"].as_str())
    }

    fn config_schema(&self) -> Value {
        let mut properties = json!({
            "server": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "A server of the engine's configuration; optional if only one is \
                                configured.",
            },
            "timeoutMs": {
                "type": "integer", "minimum": 1, "maximum": MAX_WAIT_MS,
                "default": DEFAULT_TIMEOUT_MS,
                "description": "The time limit for the whole call, in milliseconds.",
            },
            "repeat": {
                "enum": ["repeatable", "once"],
                "description": "Whether an attempt calls again after its engine was lost.",
            },
        });
        let mut required: Vec<&str> = Vec::new();
        if *self == Self::Call {
            properties["tool"] = json!({
                "type": "string", "minLength": 1, "maxLength": 256,
                "description": "The tool.",
            });
            properties["arguments"] = json!({
                "type": "object",
                "description": "The arguments; ${inputs.NAME} in a text is replaced by an input, \
                                and a text that is nothing else by its value. An input `arguments` \
                                overrides it.",
            });
            required.push("tool");
        }
        json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        })
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        let mut problems = Vec::new();
        check_texts(&config["arguments"], "/arguments", &mut problems);
        problems
    }

    fn reads(&self, config: &Value) -> Reads {
        note_call(config, "")
    }

    fn outputs(&self, _config: &Value) -> Option<Vec<String>> {
        let names: &[&str] = match self {
            Self::Call => &["content", "text", "structured", "contentTrust"],
            Self::List => &["tools", "contentTrust"],
        };
        Some(names.iter().map(|&name| name.to_owned()).collect())
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        let config = match Config::parse(started.config()) {
            Ok(config) => config,
            Err(error) => return Outcome::failed(error),
        };
        let once = self.repeat(started.config()) == Repeat::Once;
        match self.go(&config, &started, &cx, once).await {
            Ok(outputs) => Outcome::Completed(Completion {
                outputs,
                spent: spent(*self, &started),
                ..Completion::default()
            }),
            Err(Ended::Stopped) => Outcome::Stopped,
            Err(Ended::Forbidden(error)) => Outcome::failed(error),
            Err(Ended::Failed(error)) => Outcome::Failed {
                error,
                artifacts: Vec::new(),
                usage: Vec::new(),
                spent: spent(*self, &started),
            },
        }
    }
}

fn spent(of: Mcp, started: &Started) -> Amounts {
    match (of, started.is_budgeted()) {
        (Mcp::Call, true) => Amounts::from([(TOOL_CALLS.to_owned(), 1)]),
        _ => Amounts::new(),
    }
}

/// Why an attempt has no output.
enum Ended {
    Stopped,
    /// The budget allows no call.
    Forbidden(NodeError),
    Failed(NodeError),
}

impl From<NodeError> for Ended {
    fn from(error: NodeError) -> Self {
        Self::Failed(error)
    }
}

impl From<LeaseLost> for Ended {
    fn from(_: LeaseLost) -> Self {
        Self::Stopped
    }
}

impl From<NotMade> for Ended {
    fn from(not_made: NotMade) -> Self {
        match not_made {
            NotMade::LeaseLost => Self::Stopped,
            NotMade::Exhausted(error) => Self::Forbidden(error),
        }
    }
}

impl Mcp {
    async fn go(
        self,
        config: &Config,
        started: &Started,
        cx: &NodeContext,
        once: bool,
    ) -> Result<Map<String, Value>, Ended> {
        let servers = cx.ports.models.tools();
        let server = servers.named(started.tenant(), config.server.as_deref())?;
        let patience = Duration::from_millis(config.timeout_ms);
        let call = match self {
            Self::List => None,
            Self::Call => Some(begin(config, server, started, cx).await?),
        };
        let since = tokio::time::Instant::now();
        let result = talk(server, started, cx, patience, call.as_ref()).await;
        let Some(call) = call else {
            return result;
        };
        let result = match result {
            // The next attempt would repeat a call that may have had its effect.
            Err(Ended::Failed(error)) if once && is_open(&error) => {
                let text = format!(
                    "{}; the tool may have had its effect, so it is not called again",
                    error.message
                );
                let error = NodeError {
                    message: text,
                    ..error
                };
                Err(Ended::Failed(error.fatal()))
            }
            result => result,
        };
        let took = called::since(since);
        let (status, outcome, error) = match &result {
            Ok(outputs) => (ToolStatus::Ok, Some(outputs["content"].clone()), None),
            Err(Ended::Failed(error)) => (ToolStatus::Error, None, Some(error.clone())),
            Err(Ended::Stopped | Ended::Forbidden(_)) => return result,
        };
        call.called
            .over(cx, status, outcome, error, Some(took))
            .await?;
        result
    }
}

/// Whether an error leaves the tool's effect unknown.
pub(super) fn is_open(error: &NodeError) -> bool {
    matches!(error.code.as_str(), "mcp_timed_out" | "mcp_lost")
}

/// A call of a tool.
struct Call {
    called: Called,
    tool: String,
    arguments: Map<String, Value>,
}

/// Records that a tool is about to be called, if that is allowed.
async fn begin(
    config: &Config,
    server: &ToolServer,
    started: &Started,
    cx: &NodeContext,
) -> Result<Call, Ended> {
    let arguments = match started.inputs().get("arguments") {
        Some(Value::Object(given)) => given.clone(),
        Some(_) => {
            let text = "the input `arguments` must be an object";
            return Err(NodeError::new("invalid_config", text).fatal().into());
        }
        None => {
            let mut arguments = config.arguments.clone();
            for value in arguments.values_mut() {
                fill_texts(value, started.inputs())?;
            }
            arguments
        }
    };
    let name = format!("{}.{}", server.name, config.tool);
    let called = Called::begin(started, cx, None, name, ToolTransport::Mcp, &arguments).await?;
    if !server.allows(&config.tool) {
        let text = format!(
            "{} is not an allowed tool; choose an allowed one",
            called.tool_name()
        );
        let error = NodeError::new("tool_not_allowed", text).fatal();
        called.forbid(cx, error.clone()).await?;
        return Err(error.into());
    }
    called.reserve(started, cx).await?;
    Ok(Call {
        called,
        tool: config.tool.clone(),
        arguments,
    })
}

/// Opens a session, performs one operation, and closes it in every case.
async fn talk(
    server: &ToolServer,
    started: &Started,
    cx: &NodeContext,
    patience: Duration,
    call: Option<&Call>,
) -> Result<Map<String, Value>, Ended> {
    let deadline = tokio::time::Instant::now() + patience;
    let given_up = async {
        tokio::select! {
            biased;
            () = cx.stop.cancelled() => Ended::Stopped,
            () = tokio::time::sleep_until(deadline) => patience_over(&server.name).into(),
        }
    };
    tokio::pin!(given_up);
    let opened = Session::open(server, &cx.ports, started, patience, given_up.as_mut());
    let session = opened.await?;
    let result = tokio::select! {
        biased;
        why = given_up => Err(why),
        done = act(&session, server, call) => done.map_err(Ended::Failed),
    };
    session.close().await;
    result
}

async fn act(
    session: &Session,
    server: &ToolServer,
    call: Option<&Call>,
) -> Result<Map<String, Value>, NodeError> {
    let mut outputs = Map::new();
    let Some(call) = call else {
        let tools = session.tools().await?;
        let tools: Vec<Value> = tools
            .into_iter()
            .filter(|tool| server.allows(&tool.name))
            .map(|tool| json!(tool))
            .collect();
        outputs.insert("tools".into(), tools.into());
        outputs.insert("contentTrust".into(), "untrusted".into());
        return Ok(outputs);
    };
    let answer = session.call(&call.tool, call.arguments.clone()).await?;
    let ToolAnswer {
        content,
        structured,
        text,
        is_error,
    } = answer;
    if is_error {
        return Err(said_failed(&text));
    }
    outputs.insert("content".into(), content);
    outputs.insert("text".into(), text.into());
    if let Some(structured) = structured {
        outputs.insert("structured".into(), structured);
    }
    outputs.insert("contentTrust".into(), "untrusted".into());
    Ok(outputs)
}

/// The error of a tool that reports failure.
pub(super) fn said_failed(text: &str) -> NodeError {
    let said: String = text.chars().take(1_000).collect();
    let message = "the tool reports a failure; its message is in the details";
    NodeError::new("mcp_tool_error", message)
        .with_details(json!({ "contentTrust": "untrusted", "text": said }))
}

/// The node inputs read by the config of a call at `path`.
pub(super) fn note_call(call: &Value, path: &str) -> Reads {
    let mut reads = Reads::default();
    let path = format!("{path}/arguments");
    super::template::note_texts(&mut reads, &path, &call["arguments"]);
    reads
}

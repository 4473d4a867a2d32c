//! The tools of a model node: those of MCP servers, and programs of the project.
//!
//! A call is in the log before it is made, and its result before it is sent to the model. A tool's
//! output is untrusted: marks around it tell the model so, and the tool cannot close them.

mod offer;
mod past;
mod untrusted;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use kernel::ids::{AttemptKey, EffectKey};
use kernel::run::report::{ToolStatus, ToolTransport};
use kernel::run::{NodeError, Outcome};
use serde_json::{Map, Value};
use tokio::time::Instant;

use offer::{Offer, Via, name_them};
pub(super) use offer::{ProcessTool, narrows};
pub(super) use past::has_result;

use super::super::called::{self, Called, NotMade, Nth, Returned};
use super::super::mcp::{is_open, said_failed};
use super::super::process::Process;
use super::super::{NodeContext, Repeat, Started, WorkNode as _};
use super::config::Config;
use super::speak::Silenced;
use crate::models::ask::{Call, CallResult, Tool};
use crate::tools::{Session, patience_over};
use untrusted::marked;

/// The most tools offered to a model.
const MAX_TOOLS: usize = 128;

/// The tools of an attempt, with their sessions. Must be closed.
#[derive(Default)]
pub(super) struct Toolbox {
    offers: Vec<Offer>,
    sessions: BTreeMap<String, Session>,
    patience: Duration,
    repeat: Option<Repeat>,
    /// Calls that were recorded.
    said: u32,
    /// Calls that were made.
    made: u64,
    /// Answers that requested calls, in all lives of the attempt.
    rounds: u32,
    returned: Returned,
}

/// The result of a call.
struct Done {
    /// The part kept in the log.
    kept: Value,
    /// The text for the model.
    told: String,
}

/// Why a call failed.
enum Undone {
    /// The model receives the error and may continue.
    Reported(NodeError),
    /// The attempt ends.
    Over(NodeError),
    Stopped,
}

impl Toolbox {
    /// Connects to the servers of a config and lists their tools.
    pub(super) async fn fill(
        &mut self,
        config: &Config,
        started: &Started,
        cx: &NodeContext,
    ) -> Result<(), Silenced> {
        self.patience = config.tool_patience();
        self.repeat = Some(config.repeat());
        self.returned = Returned::from_past(started.past());
        let servers = cx.ports.models.tools();
        for name in &config.mcp_servers {
            let server = servers.named(started.tenant(), Some(name))?;
            let deadline = Instant::now() + self.patience;
            let given_up = async {
                let Err(why) = until(cx, deadline, &server.name, pending::<Never>()).await;
                why
            };
            let opened = Session::open(server, &cx.ports, started, self.patience, given_up);
            let session = opened.await?;
            let listed = until(cx, deadline, &server.name, session.tools()).await;
            self.sessions.insert(server.name.clone(), session);
            for tool in listed? {
                let full = format!("{}.{}", server.name, tool.name);
                if server.allows(&tool.name) && config.allows_tool(&full) {
                    self.offers.push(Offer::of_server(&server.name, full, tool));
                }
            }
        }
        let programs = config.tools.iter().map(Offer::of_process);
        self.offers.extend(programs);
        if self.offers.len() > MAX_TOOLS {
            let text = format!("a model can have at most {MAX_TOOLS} tools; narrow allowedTools");
            return Err(NodeError::new("too_many_tools", text).fatal().into());
        }
        name_them(&mut self.offers);
        Ok(())
    }

    /// The tools as offered to the model.
    pub(super) fn offers(&self) -> Vec<Tool> {
        self.offers
            .iter()
            .map(|offer| offer.shown.clone())
            .collect()
    }

    /// Calls that were made, as a budget counts them.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Whether the attempt must not be repeated as a whole: a call may have had its effect.
    pub(super) fn is_spent(&self) -> bool {
        self.made > 0 && self.repeat == Some(Repeat::Once)
    }

    /// Begins a round of calls. Returns the number of rounds so far, in all lives of the attempt.
    pub(super) fn begin_round(&mut self) -> u32 {
        self.rounds = self.rounds.saturating_add(1);
        self.rounds
    }

    /// Makes the calls of an answer in order.
    pub(super) async fn answer(
        &mut self,
        calls: &[Call],
        started: &Started,
        cx: &NodeContext,
        process: &Process,
    ) -> Result<Vec<CallResult>, Silenced> {
        let mut results = Vec::new();
        for call in calls {
            let done = self.one(call, started, cx, process).await;
            results.push(result(call, done, cx)?);
        }
        Ok(results)
    }

    /// Ends every session and the servers' processes; returns when they are gone.
    pub(super) async fn close(&mut self) {
        for session in std::mem::take(&mut self.sessions).into_values() {
            session.close().await;
        }
    }

    async fn one(
        &mut self,
        call: &Call,
        started: &Started,
        cx: &NodeContext,
        process: &Process,
    ) -> Result<String, Undone> {
        let offer = self
            .offers
            .iter()
            .find(|offer| offer.shown.name == call.name);
        let (name, transport) = match offer {
            Some(offer) => (offer.full.clone(), offer.transport()),
            None => (named_anyway(&call.name), ToolTransport::Mcp),
        };
        let arguments = match call.arguments.trim() {
            "" => Some(Map::new()),
            text => serde_json::from_str(text).ok(),
        };
        let said = arguments.clone().unwrap_or_default();
        self.said += 1;
        let nth = Nth {
            call: self.said,
            round: self.rounds,
        };
        let called = Called::begin(started, cx, Some(nth), name, transport, &said);
        let called = called.await.map_err(|_| Undone::Stopped)?;
        let Some(offer) = offer else {
            let text = "unknown tool; call one of the offered tools";
            let error = NodeError::new("tool_not_allowed", text);
            return Err(forbidden(&called, cx, error).await);
        };
        let fits = arguments.ok_or_else(|| "they are not a JSON object".to_owned());
        let arguments = match fits.and_then(|arguments| offer.check(arguments)) {
            Ok(arguments) => arguments,
            Err(what) => {
                let text = format!("the arguments do not fit the tool: {what}");
                let error = NodeError::new("tool_arguments_invalid", text);
                return Err(forbidden(&called, cx, error).await);
            }
        };
        match called.reserve(started, cx).await {
            Ok(()) => {}
            Err(NotMade::LeaseLost) => return Err(Undone::Stopped),
            Err(NotMade::Exhausted(error)) => return Err(Undone::Over(error)),
        }
        self.made += 1;
        let effect = self.returned.effect(started, &called);
        let since = Instant::now();
        let done = match &offer.via {
            Via::Server { server, tool } => self.ask(server, tool, arguments, cx).await,
            Via::Process(config) => {
                // A model that is called again may request other tools: results of an earlier life
                // do not apply.
                let key = past::key(started.key(), started.restarts(), self.said);
                let keys = (key, effect);
                run(process, config.clone(), arguments, started, cx, keys).await
            }
        };
        self.returned.count(&called);
        over(&called, done, since, cx).await
    }

    /// Calls a tool of a server.
    async fn ask(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        cx: &NodeContext,
    ) -> Result<Done, Undone> {
        let Some(session) = self.sessions.get(server) else {
            let text = format!("the tool server {server} was lost");
            return Err(Undone::Over(NodeError::new("mcp_lost", text)));
        };
        let deadline = Instant::now() + self.patience;
        let answer = until(cx, deadline, server, session.call(tool, arguments)).await;
        let answer = answer.map_err(|silenced| match silenced {
            Silenced::Failed(error) if is_open(&error) => Undone::Over(error),
            Silenced::Failed(error) => Undone::Reported(error),
            Silenced::Stopped => Undone::Stopped,
        })?;
        if answer.is_error {
            return Err(Undone::Reported(said_failed(&answer.text)));
        }
        let told = match (answer.text.is_empty(), &answer.structured) {
            (false, _) => answer.text,
            (true, Some(structured)) => structured.to_string(),
            (true, None) => answer.content.to_string(),
        };
        let kept = answer.content;
        Ok(Done { kept, told })
    }
}

/// Records the result of a call. Returns the text for the model.
async fn over(
    called: &Called,
    done: Result<Done, Undone>,
    since: Instant,
    cx: &NodeContext,
) -> Result<String, Undone> {
    let took = Some(called::since(since));
    let (status, outcome, error) = match &done {
        Ok(done) => (ToolStatus::Ok, Some(done.kept.clone()), None),
        Err(Undone::Reported(error) | Undone::Over(error)) => {
            (ToolStatus::Error, None, Some(error.clone()))
        }
        Err(Undone::Stopped) => return Err(Undone::Stopped),
    };
    let said = called.over(cx, status, outcome, error, took).await;
    said.map_err(|_| Undone::Stopped)?;
    Ok(marked(called.tool_name(), &done?.told))
}

/// Runs a program as a tool: the arguments are its inputs.
async fn run(
    process: &Process,
    config: Value,
    arguments: Map<String, Value>,
    started: &Started,
    cx: &NodeContext,
    (key, effect): (AttemptKey, EffectKey),
) -> Result<Done, Undone> {
    let started = Started {
        config: std::sync::Arc::new(config),
        inputs: arguments,
        key,
        effect,
        ..started.clone()
    };
    match process.run(started, cx.clone()).await {
        Outcome::Completed(completion) => {
            let said = completion.outputs.get("stdout").and_then(Value::as_str);
            let told = said.unwrap_or_default().to_owned();
            let kept = Value::Object(completion.outputs);
            Ok(Done { kept, told })
        }
        Outcome::Failed { error, .. } => Err(Undone::Reported(error)),
        Outcome::Stopped => Err(Undone::Stopped),
        // Processes never wait for an answer.
        Outcome::Waits { .. } => Err(Undone::Stopped),
    }
}

/// The type of a wait that only ends by giving up.
type Never = Result<Infallible, NodeError>;

/// Waits for a server, unless the run stops or the time is over.
async fn until<T>(
    cx: &NodeContext,
    deadline: Instant,
    server: &str,
    what: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, Silenced> {
    tokio::select! {
        biased;
        () = cx.stop.cancelled() => Err(Silenced::Stopped),
        done = tokio::time::timeout_at(deadline, what) => match done {
            Ok(done) => Ok(done?),
            Err(_) => Err(patience_over(server).into()),
        },
    }
}

/// The result of a call as sent to the model.
fn result(
    call: &Call,
    done: Result<String, Undone>,
    cx: &NodeContext,
) -> Result<CallResult, Silenced> {
    let (text, is_error) = match done {
        Ok(text) => (text, false),
        Err(Undone::Reported(error)) => (told(&error), true),
        Err(Undone::Over(error)) => return Err(error.into()),
        Err(Undone::Stopped) => return Err(Silenced::Stopped),
    };
    // The model's provider must not receive the run's secrets, in either case.
    let text = cx.ports.secrets.redacted(&text);
    let id = call.id.clone();
    Ok(CallResult { id, text, is_error })
}

async fn forbidden(called: &Called, cx: &NodeContext, error: NodeError) -> Undone {
    match called.forbid(cx, error.clone()).await {
        Ok(()) => Undone::Reported(error),
        Err(_) => Undone::Stopped,
    }
}

/// The text of an error for a model. The tool's own words are marked as untrusted.
fn told(error: &NodeError) -> String {
    let said = error.details.as_ref().and_then(|details| {
        let said = details
            .get("text")
            .or_else(|| details.get("serverMessage"))?;
        said.as_str()
    });
    let said = said.map(|said| format!("\n{}", marked("its own words", said)));
    format!(
        "error {}: {}{}",
        error.code,
        error.message,
        said.unwrap_or_default()
    )
}

/// The name of an unknown tool, as far as it can be shown.
fn named_anyway(name: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().filter(plain).take(64).collect();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

//! `runwright snapshot mcp`: a proxy between a captured command and a tool server on standard
//! streams.

mod asked;
mod notifications;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, Write};
use std::process::Stdio;

use capture::environment::CAPTURE_URL;
use capture::proxy::environment_of_server;
use capture::tool::{ASK, BEGIN, Client, END};
use faces::provenance::hash::canonical_json;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use self::asked::{ClientRequest, Part, Telling};
use self::notifications::{Notifications, ToldAgain, kept};
use super::command::{said, surroundings};
use crate::exit::{Exit, Failure, no_thread};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Configure it in place of a tool server on standard streams. Its calls are recorded. A replay that
takes tools from the recording does not start the server. Outside a capture everything is passed on
unchanged.

  runwright snapshot mcp -- npx some-server --stdio"
)]
pub(crate) struct Args {
    /// The server and its arguments
    #[arg(last = true, required = true, value_name = "SERVER")]
    argv: Vec<String>,
}

/// A tool server, its input and its lines.
type Server = (Child, ChildStdin, Lines<BufReader<ChildStdout>>);

/// The state between client and server.
struct Between {
    capture: Option<Client>,
    argv: Vec<String>,
    server: Option<Server>,
    /// The client's initial request.
    hello: Option<String>,
    /// Requests without an answer of the server: the number of their call, by their id.
    open: BTreeMap<String, Pending>,
    /// Tools without effects, as the server declares.
    readers: BTreeSet<String>,
    /// The number of the server's notifications.
    count: u64,
    /// The last answered call, and the server's messages since then while no call was open.
    last: Option<(u64, Notifications)>,
    /// Its messages before the first request.
    early: Notifications,
    /// Recorded messages already sent to the client.
    told: ToldAgain,
    /// The server's requests to the client without an answer yet, by id.
    asked: BTreeMap<String, ClientRequest>,
    /// The recording's requests to the client, with the messages after their answer.
    asked_again: BTreeMap<String, (ClientRequest, Telling)>,
    /// The recording's requests to the client without a recorded answer.
    asked_in_vain: BTreeSet<String>,
}

struct Pending {
    seq: u64,
    lists_tools: bool,
    /// The token of its progress notifications.
    progress: Value,
    /// The server's messages while it was open.
    notifications: Notifications,
}

/// Passes messages on until either side ends.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let capture = match std::env::var(CAPTURE_URL) {
        Ok(url) => Some(Client::new(&url).map_err(said)?),
        Err(_) => None,
    };
    let serves = match &capture {
        Some(client) => client.ask(ASK, &json!({})).await.map_err(said)?["serves"] == true,
        None => false,
    };
    let mut between = Between {
        capture,
        server: if serves {
            None
        } else {
            Some(start(&args.argv)?)
        },
        argv: args.argv,
        hello: None,
        open: BTreeMap::new(),
        readers: BTreeSet::new(),
        count: 0,
        last: None,
        early: Notifications::default(),
        told: ToldAgain::default(),
        asked: BTreeMap::new(),
        asked_again: BTreeMap::new(),
        asked_in_vain: BTreeSet::new(),
    };
    let mut client = client_lines()?;
    loop {
        tokio::select! {
            line = client.recv() => match line {
                Some(line) => between.heard_client(&line).await?,
                None => break,
            },
            line = server_line(&mut between.server) => match line {
                Some(line) => between.heard_server(&line).await?,
                None => break,
            },
        }
    }
    if let Some((mut child, input, _)) = between.server.take() {
        drop(input);
        let _ = child.wait().await;
    }
    Ok(Exit::Done)
}

fn start(argv: &[String]) -> Result<Server, Failure> {
    let child = Command::new(&argv[0])
        .args(&argv[1..])
        // The server's own calls belong to the calls it serves.
        .envs(environment_of_server(&surroundings(), own_number()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let no_server = |error: &dyn std::fmt::Display| {
        Failure::new(format!("{} cannot be started: {error}", argv[0]))
    };
    let mut child = child.map_err(|error| no_server(&error))?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => Ok((child, input, BufReader::new(output).lines())),
        _ => Err(no_server(&"it has no standard streams")),
    }
}

/// The number of this server in its capture.
fn own_number() -> u64 {
    std::process::id().into()
}

async fn server_line(server: &mut Option<Server>) -> Option<String> {
    match server {
        Some((_, _, lines)) => lines.next_line().await.ok().flatten(),
        // Without a server, wait forever.
        None => std::future::pending().await,
    }
}

/// The content of an answer: its result, or its error.
fn output_of(message: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    let name = if message["error"].is_null() {
        "result"
    } else {
        "error"
    };
    std::iter::once((name, &message[name]))
}

/// The answer to a batch, which is not passed on: its parts would be neither recorded nor answered.
fn refusal(batch: &[Value]) -> Value {
    let refused = |id: &Value| {
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32600,
            "message": "a batch is not recorded and was not passed on; send each request by itself" } })
    };
    let requests = batch.iter().filter(|one| !one["method"].is_null());
    let answers = requests.map(|one| &one["id"]).filter(|id| !id.is_null());
    let answers: Vec<Value> = answers.map(refused).collect();
    if answers.is_empty() {
        refused(&Value::Null)
    } else {
        Value::Array(answers)
    }
}

/// The lines from the client. They are read on a separate thread, since a blocking read cannot be
/// cancelled.
fn client_lines() -> Result<mpsc::Receiver<String>, Failure> {
    let (lines, coming) = mpsc::channel(64);
    let read = move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().spawn(read);
    started.map_err(|error| no_thread(&error))?;
    Ok(coming)
}

fn to_client(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(said)
}

async fn write(to: &mut (impl AsyncWrite + Unpin), line: &str) -> Result<(), Failure> {
    to.write_all(line.as_bytes()).await.map_err(said)?;
    to.write_all(b"\n").await.map_err(said)?;
    to.flush().await.map_err(said)
}

impl Between {
    async fn heard_client(&mut self, line: &str) -> Result<(), Failure> {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        if let (Some(batch), Some(_)) = (message.as_array(), &self.capture) {
            return to_client(&canonical_json(&refusal(batch)));
        }
        let method = message["method"].as_str().unwrap_or_default();
        let is_request = !method.is_empty() && !message["id"].is_null();
        if let (true, Some(capture)) = (is_request, &self.capture) {
            let mut order = match method {
                "tools/call" => json!({
                    "kind": "tool", "name": message["params"]["name"],
                    "input": message["params"]["arguments"],
                }),
                method => {
                    let mut params = message["params"].clone();
                    if let Some(params) = params.as_object_mut() {
                        params.remove("_meta");
                    }
                    json!({ "kind": "protocol", "name": format!("mcp/{method}"), "input": params })
                }
            };
            if order["name"]
                .as_str()
                .is_some_and(|name| self.readers.contains(name))
            {
                order["effect"] = json!("read");
            }
            order["server"] = json!(own_number());
            let answer = capture.ask(BEGIN, &order).await.map_err(said)?;
            if let Some(message_of) = answer["diverged"].as_str() {
                let error = json!({ "jsonrpc": "2.0", "id": message["id"],
                    "error": { "code": -32000, "message": message_of } });
                return to_client(&error.to_string());
            }
            if method == "initialize" {
                self.hello = Some(line.to_owned());
            }
            let progress = &message["params"]["_meta"]["progressToken"];
            if let Some(recorded) = answer["recorded"].as_object() {
                if method == "tools/list" {
                    self.learn(&answer["recorded"]["result"]);
                }
                let mut reply = json!({ "jsonrpc": "2.0", "id": message["id"] });
                for (name, value) in recorded {
                    reply[name] = value.clone();
                }
                let told = |side: &str| {
                    let told = answer[side].as_array().cloned().unwrap_or_default();
                    told.into_iter()
                        .map(Part::Notification)
                        .collect::<VecDeque<_>>()
                };
                let mut rest = told("before");
                rest.push_back(Part::Answer(canonical_json(&reply)));
                rest.extend(told("after"));
                let telling = Telling {
                    id: message["id"].clone(),
                    seq: answer["seq"].as_u64(),
                    progress: progress.clone(),
                    rest,
                };
                return self.tell(telling).await;
            }
            if let Some(seq) = answer["run"].as_u64() {
                let pending = Pending {
                    seq,
                    lists_tools: method == "tools/list",
                    progress: progress.clone(),
                    notifications: std::mem::take(&mut self.early),
                };
                self.asked_within(seq);
                self.open.insert(message["id"].to_string(), pending);
                self.need_server().await?;
            }
        }
        let is_answer = method.is_empty() && !message["id"].is_null();
        if is_answer && !self.answered(&message).await? {
            return Ok(());
        }
        match &mut self.server {
            Some((_, input, _)) => write(input, line).await,
            // Without a server, a notification is dropped.
            None => Ok(()),
        }
    }

    /// Starts the server after the recorded answers, and repeats the client's initial request.
    async fn need_server(&mut self) -> Result<(), Failure> {
        if self.server.is_some() {
            return Ok(());
        }
        let (child, mut input, mut lines) = start(&self.argv)?;
        if let Some(hello) = &self.hello {
            write(&mut input, hello).await?;
            let id = serde_json::from_str::<Value>(hello).unwrap_or_default()["id"].clone();
            // The client knows the server's greeting from the recording.
            while let Some(line) = lines.next_line().await.map_err(said)? {
                let message: Value = serde_json::from_str(&line).unwrap_or_default();
                if message["method"].is_null() && message["id"] == id {
                    break;
                }
            }
            let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            write(&mut input, &begun.to_string()).await?;
        }
        self.server = Some((child, input, lines));
        Ok(())
    }

    /// Learns from a list of tools which of them have no effects.
    fn learn(&mut self, list: &Value) {
        let tools = list["tools"].as_array().into_iter().flatten();
        let readers = tools.filter(|tool| tool["annotations"]["readOnlyHint"] == true);
        let readers = readers.filter_map(|tool| tool["name"].as_str());
        self.readers.extend(readers.map(str::to_owned));
    }

    async fn heard_server(&mut self, line: &str) -> Result<(), Failure> {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let is_answer = message["method"].is_null();
        if !is_answer && message["id"].is_null() && self.capture.is_some() {
            self.notified(&message).await?;
            return to_client(&canonical_json(&message));
        }
        if !is_answer && self.capture.is_some() {
            self.asks(&message).await?;
            return to_client(&canonical_json(&message));
        }
        let mut pending = if is_answer {
            self.open.remove(&message["id"].to_string())
        } else {
            None
        };
        if let Some(pending) = &mut pending {
            self.leave_open(pending);
        }
        if pending.as_ref().is_some_and(|pending| pending.lists_tools) {
            self.learn(&message["result"]);
        }
        if let (Some(mut pending), Some(capture)) = (pending, &self.capture) {
            let notifications = &mut pending.notifications;
            notifications.record(capture, pending.seq, "before").await?;
            self.last = Some((pending.seq, Notifications::default()));
            let is_error = !message["error"].is_null() || message["result"]["isError"] == true;
            let output: serde_json::Map<String, Value> = output_of(&message)
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect();
            let order = json!({ "seq": pending.seq, "output": output, "is_error": is_error });
            capture.ask(END, &order).await.map_err(said)?;
            // The bytes that a replay will send.
            let mut reply = json!({ "jsonrpc": "2.0", "id": message["id"] });
            for (name, value) in output_of(&message) {
                reply[name] = value.clone();
            }
            return to_client(&canonical_json(&reply));
        }
        to_client(line)
    }

    /// Keeps an unrequested message of the server: with the call whose progress it reports, else
    /// with every open call, as any of them may be answered first in a replay, else after the last.
    async fn notified(&mut self, message: &Value) -> Result<(), Failure> {
        self.count += 1;
        let token = &message["params"]["progressToken"];
        let is_its = |pending: &&mut Pending| !token.is_null() && pending.progress == *token;
        if let Some(pending) = self.open.values_mut().find(is_its) {
            let kept = kept(self.count, message, true);
            pending.notifications.push(kept);
            return Ok(());
        }
        self.keep_with_calls(kept(self.count, message, false)).await
    }

    async fn keep_with_calls(&mut self, kept: Value) -> Result<(), Failure> {
        if !self.open.is_empty() {
            for pending in self.open.values_mut() {
                pending.notifications.push(kept.clone());
            }
            return Ok(());
        }
        match (&mut self.last, &self.capture) {
            (Some((seq, notifications)), Some(capture)) => {
                notifications.push(kept);
                notifications.record(capture, *seq, "after").await
            }
            _ => {
                self.early.push(kept);
                Ok(())
            }
        }
    }
}

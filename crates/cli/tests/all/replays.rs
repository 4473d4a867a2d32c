//! Replays and forks over the wire and through crashes: completed work is not repeated, and
//! interrupted forks leave nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernel::ids::StreamId;
use kernel::run::{Command, Envelope};
use runtime::door::Door;
use runtime::hints::Hints;
use runtime::nodes::Registry;
use runtime::plans::Plans;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use store_sqlite::{Access, Options, SqliteStore};

use crate::forks::forge;
use crate::serving::Serving;
use crate::support::*;

/// A streamed answer of a model.
const COMPLETION: &str = concat!(
    r#"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"}}]}"#,
    "\n\n",
    r#"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    "\n\n",
    r#"data: {"id":"c","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#,
    "\n\ndata: [DONE]\n\n",
);

/// An HTTP peer that counts its requests.
struct Peer {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Peer {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
        };
        let asked = peer.asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let count = asked.fetch_add(1, Ordering::SeqCst) + 1;
                let mut stream = BufReader::new(stream);
                let (mut line, mut length, mut is_model) = (String::new(), 0, false);
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    let line_of = line.to_ascii_lowercase();
                    is_model |= line_of.contains("/chat/completions ");
                    if let Some(value) = line_of.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut asked = vec![0; length];
                stream.read_exact(&mut asked).unwrap();
                let (media, body) = if is_model {
                    ("text/event-stream", COMPLETION.to_owned())
                } else {
                    ("text/plain", format!("answer {count}"))
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.get_mut().write_all(head.as_bytes());
            }
        });
        peer
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A program that writes a line each time it runs, a request and a question to a peer, and a step
/// after all of them.
fn effects(peer: &Peer) -> Value {
    let fetch = node(
        "fetch",
        "runwright.http",
        json!({ "url": format!("http://{}/", peer.address) }),
    );
    let ask = node(
        "ask",
        "core.ai.chatCompletion",
        json!({ "prompt": "hello" }),
    );
    let nodes = [
        script("write", "echo ran >> ran; echo said"),
        fetch,
        ask,
        node("after", "core.noop", json!({})),
    ];
    let edges = [("write", "after"), ("fetch", "after"), ("ask", "after")];
    workflow("effects", &nodes, &edges)
}

/// Makes the peer a lab's model provider.
fn provide(lab: &Lab, peer: &Peer) {
    let base = format!("http://{}/v1", peer.address);
    lab.write(
        "providers.toml",
        format!("[provider.small]\nbase_url = \"{base}\"\nmodel = \"m\"\n"),
    );
}

/// A request over its own connection: status and body.
fn send(serving: &Serving, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let address = serving.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    (status, body)
}

fn fork(serving: &Serving, run: &str, body: Value) -> Value {
    let (status, answer) = send(
        serving,
        "POST",
        &format!("/v1/runs/{run}:fork"),
        Some(&body),
    );
    assert_eq!(status, 201, "{answer}");
    answer
}

/// The events of a run after its end.
fn events_of(serving: &Serving, run: &str) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let after = events.last().map_or(String::new(), |event| {
            format!("?lastSequence={}", event["sequence"])
        });
        let path = format!("/v1/runs/{run}/events/poll{after}");
        let (_, page) = send(serving, "GET", &path, None);
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        if page["isComplete"] == true {
            return events;
        }
    }
}

/// The content of an event without its own id, its run's and its time.
fn told(events: &[Value]) -> Vec<Value> {
    let told = |event: &Value| {
        let mut event = event.clone();
        for own in ["eventId", "runId", "causationId"] {
            event.as_object_mut().unwrap().remove(own);
        }
        event
    };
    events.iter().map(told).collect()
}

#[test]
fn a_replay_over_http_causes_no_effects() {
    let (lab, peer) = (Lab::new(), Peer::new());
    lab.write_flow(&effects(&peer));
    provide(&lab, &peer);
    let allowed = peer.address.to_string();
    let able = [
        "--dev",
        "--allow-http",
        &allowed,
        "--providers",
        "providers.toml",
    ];
    let serving = Serving::start(&lab, &able);
    let (status, created) = send(
        &serving,
        "POST",
        "/v1/runs",
        Some(&json!({ "workflowId": "effects" })),
    );
    assert_eq!(status, 201, "{created}");
    let source = created["runId"].as_str().unwrap().to_owned();
    let events = events_of(&serving, &source);
    assert_eq!(
        events.last().unwrap()["type"],
        "run.completed",
        "{events:#?}"
    );
    assert_eq!((peer.asked(), lab.read("ran").as_str()), (2, "ran\n"));
    serving.stop();

    // Programs cannot be found there, and addresses of this machine are not allowed.
    let nowhere = lab.path().join("nowhere");
    let serving = Serving::with(&lab, &["--dev"], |command| {
        command.env("PATH", &nowhere);
    });
    for body in [
        json!({ "mode": "replay" }),
        json!({ "mode": "replay", "fromSeq": 0 }),
        json!({ "mode": "replay", "fromSeq": 3 }),
    ] {
        let forked = fork(&serving, &source, body);
        assert_eq!(forked["status"], "completed");
        assert_eq!(forked.get("divergedAtSeq"), None);
        let replay = forked["runId"].as_str().unwrap();
        assert_eq!(told(&events_of(&serving, replay)), told(&events));
        let diff = format!("/v1/runs/{source}:diff?against={replay}");
        let (_, diff) = send(&serving, "GET", &diff, None);
        assert_eq!(diff["divergedAtSeq"], Value::Null);
    }
    assert_eq!((peer.asked(), lab.read("ran").as_str()), (2, "ran\n"));

    // A branch tries, and is refused: no effect was possible.
    let branch = fork(&serving, &source, json!({ "mode": "branch", "fromSeq": 0 }));
    let branch = branch["runId"].as_str().unwrap();
    let tried = events_of(&serving, branch);
    assert_eq!(tried.last().unwrap()["type"], "run.failed", "{tried:#?}");
    assert_eq!((peer.asked(), lab.read("ran").as_str()), (2, "ran\n"));
    serving.stop();

    // With permission, it performs each effect once more.
    let serving = Serving::start(&lab, &able);
    let branch = fork(&serving, &source, json!({ "mode": "branch", "fromSeq": 0 }));
    let again = events_of(&serving, branch["runId"].as_str().unwrap());
    assert_eq!(again.last().unwrap()["type"], "run.completed");
    assert_eq!((peer.asked(), lab.read("ran").as_str()), (4, "ran\nran\n"));
    serving.stop();
}

/// The system calls of a replay: it starts no program and opens no connection.
#[test]
fn a_replay_starts_no_program_and_connects_to_nothing() {
    let name = "a_replay_starts_no_program_and_connects_to_nothing";
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("strace"));
    let Some(strace) = places.find(|place: &PathBuf| place.is_file()) else {
        return testkit::skip(name, "strace is not installed");
    };
    let (lab, peer) = (Lab::new(), Peer::new());
    let file = lab.workflow(&effects(&peer));
    let allowed = peer.address.to_string();
    provide(&lab, &peer);
    let options = ["--allow-http", &allowed, "--providers", "providers.toml"];
    let run: Vec<&str> = ["run", &file].into_iter().chain(options).collect();
    lab.call(&run).with(0);
    let source = lab.last_run();
    let trace = |args: &[&str]| {
        let mut traced = lab.command(args);
        let program = traced.get_program().to_owned();
        let mut command = std::process::Command::new(&strace);
        command
            .args([
                "-f",
                "-qq",
                "-o",
                "trace",
                "-e",
                "trace=execve,execveat,connect",
            ])
            .arg(program)
            .args(args)
            .current_dir(lab.path());
        for (name, value) in traced.envs(std::iter::empty::<(&str, &str)>()).get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let ended = command.output().unwrap();
        (ended.status.code(), lab.read("trace"))
    };
    let (code, calls) = trace(&["runs", "fork", &source, "--mode", "replay"]);
    if code != Some(0) && !calls.contains("execve(") {
        return testkit::skip(name, "strace may not trace here");
    }
    assert_eq!(code, Some(0));
    assert_eq!(
        calls.matches("execve").count(),
        1,
        "only the program itself: {calls}"
    );
    assert!(!calls.contains("connect("), "{calls}");
    let (_, calls) = trace(&["runs", "fork", &source, "--at", "0"]);
    assert!(
        calls.matches("execve").count() > 1,
        "a branch does: {calls}"
    );
    assert_eq!(peer.asked(), 2, "its requests are refused without leave");
}

#[test]
fn a_diverging_log_is_reported_over_http_at_its_first_event() {
    let lab = Lab::new();
    let mut document = one_script("w", "echo hi");
    document["variables"] = json!([{ "name": "limit", "type": "number", "defaultValue": 1234 }]);
    let file = lab.workflow(&document);
    lab.call(&["run", &file, "--detach"]).with(0);
    let source = lab.last_run();
    forge(&lab, "\"limit\":1234", "\"limit\":9999");
    let serving = Serving::at(&lab, ".runwright", &["--dev"]);
    let forked = fork(&serving, &source, json!({ "mode": "replay" }));
    assert_eq!(forked["divergedAtSeq"], 0);
    let replay = forked["runId"].as_str().unwrap();
    let events = events_of(&serving, replay);
    let diverged = events
        .iter()
        .find(|event| event["type"] == "replay.diverged");
    let diverged = &diverged.expect("the log says so")["payload"];
    assert_eq!(diverged["sourceRunId"], source.as_str());
    assert_eq!(diverged["atSequence"], 0);
    assert_eq!(diverged["originalEventId"], format!("{source}.0").as_str());
    assert_eq!(diverged["divergenceKind"], "output");
    serving.stop();
}

/// A waiting run, with more events than one append of a fork takes.
fn long_run(lab: &Lab) -> String {
    let waits = workflow(
        "waits",
        &[node("wait", "core.delay", json!({ "delayMs": 3_600_000 }))],
        &[],
    );
    let file = lab.workflow(&waits);
    lab.call(&["run", &file, "--detach"]).with(0);
    let run = lab.last_run();
    let options = Options {
        access: Access::Write,
        ..Options::default()
    };
    let store = SqliteStore::open(lab.path().join(".runwright/store.db"), options).unwrap();
    let registry = Arc::new(Registry::standard());
    let door = Door::new(
        Arc::new(store),
        Arc::new(Plans::new(registry)),
        Hints::default(),
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for n in 0..40 {
            let signal = Command::Signal {
                name: "big".into(),
                id: format!("{n}"),
                payload: json!("x".repeat(1 << 20)),
            };
            let stream = StreamId::new(&run);
            door.transact(&stream, &Envelope::from(signal))
                .await
                .unwrap();
        }
    });
    run
}

/// The number of events of each stream of the lab, from the store's rows.
fn lengths(lab: &Lab) -> Vec<(String, u64)> {
    let path = lab.path().join(".runwright/store.db");
    let store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut rows = store
        .prepare("SELECT name, next_seq FROM streams WHERE name LIKE 'run-%'")
        .unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_fork_killed_in_the_middle_is_cleared_away() {
    let lab = Lab::new();
    let source = long_run(&lab);
    let mut left = Vec::new();
    // The source has 41 events: a branch continues after them, a replay decides the last again.
    for (mode, at, whole) in [("branch", "41", 42), ("replay", "40", 42)] {
        // A fork may be complete before it is killed: then repeat.
        let half = (0..50).find_map(|_| {
            let known = lengths(&lab);
            let args = ["runs", "fork", &source, "--mode", mode, "--at", at];
            let mut command = lab.command(&args);
            if mode == "branch" {
                command.arg("--detach");
            }
            let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
            let begun = loop {
                let now = lengths(&lab);
                if let Some(begun) = now
                    .into_iter()
                    .find(|row| !known.iter().any(|k| k.0 == row.0))
                {
                    break begun.0;
                }
                assert!(child.try_wait().unwrap().is_none(), "it makes a fork");
                std::thread::yield_now();
            };
            child.kill().unwrap();
            child.wait().unwrap();
            let length = lengths(&lab)
                .into_iter()
                .find(|row| row.0 == begun)
                .unwrap()
                .1;
            (length < whole - 1).then_some(begun)
        });
        left.push(half.expect("one of fifty kills comes in the middle"));
    }
    lab.call(&["verify"]).with(0);
    lab.call(&["resume", &left[0]]).with(2).says("incomplete");

    // The maintenance of the next engine removes both.
    let serving = Serving::at(&lab, ".runwright", &["--dev"]);
    for half in &left {
        loop {
            let (status, answer) = send(&serving, "GET", &format!("/v1/runs/{half}"), None);
            if status == 410 {
                let reason = answer["details"]["reason"].as_str().unwrap();
                assert!(reason.contains("incomplete"), "{answer}");
                break;
            }
            assert_eq!(status, 200, "{answer}");
        }
    }
    let again = fork(
        &serving,
        &source,
        json!({ "mode": "replay", "fromSeq": 40 }),
    );
    assert_eq!(again["fromSeq"], 40);
    let (status, _) = send(&serving, "GET", &format!("/v1/runs/{source}"), None);
    assert_eq!(status, 200);
    serving.stop();
    lab.call(&["verify"]).with(0);
}

#[test]
fn a_purge_killed_in_the_middle_is_ended_by_the_next() {
    let lab = Lab::new();
    let child = lab.workflow(&one_script("child", "echo hi"));
    let start = |id: &str| node(id, "core.subWorkflow", json!({ "workflowId": "child" }));
    let file = lab.workflow(&workflow("parent", &[start("a"), start("b")], &[]));
    for _ in 0..8 {
        lab.call(&["run", &file, "--with", &child]).with(0);
    }
    let runs: Vec<String> = lengths(&lab).into_iter().map(|row| row.0).collect();
    assert_eq!(runs.len(), 24);
    let parents = |lab: &Lab| -> Vec<String> {
        let listed = lab.call(&["runs", "list", "--json"]).with(0).json_lines();
        let parents = listed.iter().filter(|run| run["workflowId"] == "parent");
        parents
            .map(|run| run["runId"].as_str().unwrap().to_owned())
            .collect()
    };
    let purge = |lab: &Lab, doomed: &[String]| {
        let mut command = lab.command(&["runs", "purge", "--yes"]);
        command.args(doomed);
        command
    };
    let doomed = parents(&lab);
    let mut child = purge(&lab, &doomed)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while lengths(&lab).len() == runs.len() {
        assert!(child.try_wait().unwrap().is_none(), "it erases runs");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = lengths(&lab);
    assert!(!left.is_empty(), "it was killed before it was done");
    // The rest is complete: named runs are removed first.
    lab.call(&["verify"]).with(0);
    let named = parents(&lab);
    assert!(!named.is_empty());
    let ended: Ended = purge(&lab, &named).output().unwrap().into();
    ended.with(0);
    assert_eq!(lengths(&lab), []);
    lab.call(&["verify"]).with(0);
    let attempts = lab.path().join(".runwright/attempts");
    assert_eq!(std::fs::read_dir(attempts).unwrap().count(), 0);
    for run in &runs {
        lab.call(&["runs", "show", run]).with(2).says("was purged");
    }
}

#[test]
fn expired_runs_are_erased_by_a_server_and_return_gone() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo hi"));
    lab.call(&["run", &file]).with(0);
    let run = lab.last_run();
    let serving = Serving::at(&lab, ".runwright", &["--dev"]);
    let (status, _) = send(&serving, "GET", &format!("/v1/runs/{run}"), None);
    assert_eq!(status, 200, "without a retention runs are kept");
    serving.stop();
    let args = ["--dev", "--retain-finished", "1s"];
    let serving = Serving::at(&lab, ".runwright", &args);
    let gone = loop {
        let (status, answer) = send(&serving, "GET", &format!("/v1/runs/{run}"), None);
        if status == 410 {
            break answer;
        }
        assert_eq!(status, 200, "{answer}");
    };
    let details = &gone["details"];
    assert_eq!(gone["error"], "run_expired");
    assert!(details["expiredAt"].as_str().unwrap().ends_with('Z'));
    assert!(details["events"].as_u64().unwrap() > 3);
    assert_eq!(details["lastChain"].as_str().unwrap().len(), 64);
    for path in [
        "events/poll",
        "artifacts",
        "annotations",
        "debug-bundle",
        "ancestry",
    ] {
        let (status, _) = send(&serving, "GET", &format!("/v1/runs/{run}/{path}"), None);
        assert_eq!(status, 410, "{path}");
    }
    serving.stop();
    assert!(!lab.path().join(".runwright/attempts").join(&run).exists());
    lab.call(&["runs", "show", &run]).with(2).says("was purged");
}

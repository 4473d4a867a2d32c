//! `worker`: real processes that take tasks from a real server, are killed, frozen and stopped.

mod authority;
mod chaos;
mod crashes;
mod kept;
mod output;
mod people;
mod refused;
mod said;
mod scratch;
mod soak;
mod stopping;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use kernel::coordinator::{Coordinator, CoordinatorEvent, Event};
use kernel::stream::StreamKind;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use store::{ListQuery, Listed, ReadFrom, Store};
use store_sqlite::{Access, Options, SqliteStore};

use crate::serving::{Serving, call};
use crate::support::*;

/// No step here takes longer unless it hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// A worker, and its output line by line.
struct Worker {
    child: Child,
}

/// A worker's output: its name, and the line. `None` when it has ended.
type Said = (String, Option<Value>);

impl Worker {
    /// A worker of a queue on a server, or at `place`.
    fn start(lab: &Lab, place: &[&str], name: &str, script: &str, said: &Sender<Said>) -> Self {
        let args = ["worker", "--queue", "q", "--id", name, "--json"];
        let program = ["--", "sh", "-euc", script];
        let args: Vec<&str> = args.iter().chain(place).chain(&program).copied().collect();
        let mut child = lab
            .command(&args)
            // A killed worker leaves its folder.
            .env("TMPDIR", lab.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let (said, teller) = (said.clone(), name.to_owned());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("a line of JSON");
                if said.send((teller.clone(), Some(line))).is_err() {
                    return;
                }
            }
            let _ = said.send((teller, None));
        });
        Self { child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it end in order.
    fn stop(mut self) {
        self.signal(Signal::TERM);
        let end = self.child.wait().unwrap();
        // A newly started one may not handle signals yet.
        let is_unborn = end.signal() == Some(Signal::TERM.as_raw());
        assert!(end.success() || is_unborn, "{end}");
    }
}

/// Waits for a line of a status.
fn until(said: &Receiver<Said>, status: &str) -> Value {
    loop {
        let (_, line) = said.recv_timeout(DEADLINE).expect("it is said in time");
        if let Some(line) = line.filter(|line| line["status"] == status) {
            return line;
        }
    }
}

/// A workflow of `nodes` nodes that workers carry out.
fn flow(lab: &Lab, id: &str, nodes: usize, config: &Value) {
    let nodes: Vec<Value> = (0..nodes)
        .map(|n| {
            let mut node = node(&format!("n{n}"), "runwright.worker", config.clone());
            node["inputs"] = json!({ "n": { "type": "static", "value": n } });
            node
        })
        .collect();
    lab.write_flow(&workflow(id, &nodes, &[]));
}

fn config() -> Value {
    json!({ "queue": "q", "repeat": "repeatable", "heartbeatTimeoutMs": 1_000,
            "maxAssignments": 100 })
}

/// The log of the queue of `--dev`'s tenant, from the store itself.
fn log(lab: &Lab) -> Vec<Event> {
    let options = Options {
        access: Access::Read,
        ..Options::default()
    };
    let store = SqliteStore::open(lab.path().join("store/store.db"), options).unwrap();
    let stream = Coordinator::stream(&"local".into(), "q");
    let load = store.load(&stream, ReadFrom::Seq(0), usize::MAX);
    let loaded = tokio::runtime::Runtime::new().unwrap().block_on(load);
    let records = loaded.expect("a log").records.into_iter();
    records
        .map(|record| serde_json::from_slice(&record.content).expect("an event"))
        .collect()
}

/// Every task was queued once, assigned with growing fences, and settled once, by its last worker.
fn judge(events: &[Event]) -> BTreeMap<String, u32> {
    let (mut queued, mut fences) = (BTreeMap::new(), BTreeMap::new());
    let mut settled = BTreeMap::new();
    for event in events {
        match &event.body {
            CoordinatorEvent::DispatchQueued { request_id, .. } => {
                let again = queued.insert(request_id.to_string(), event.seq);
                assert_eq!(again, None, "{request_id} was queued twice");
            }
            CoordinatorEvent::WorkerAssigned {
                task_id,
                handed: Some(handed),
                ..
            } => {
                assert!(!settled.contains_key(task_id), "{task_id} goes out again");
                let before = fences.insert(task_id.clone(), handed.fence).unwrap_or(0);
                assert_eq!(handed.fence, before + 1);
            }
            CoordinatorEvent::DispatchDelivered { request_id, report } => {
                let report = report.as_deref().expect("a worker said so");
                assert_eq!(fences.get(request_id.as_str()), Some(&report.fence));
                let again = settled.insert(request_id.to_string(), report.fence);
                assert_eq!(again, None, "{request_id} was settled twice");
            }
            CoordinatorEvent::DispatchFailed {
                request_id, reason, ..
            } => {
                panic!("{request_id} failed: {reason}");
            }
            _ => {}
        }
    }
    assert_eq!(queued.len(), settled.len(), "tasks are left");
    settled
}

/// Unfinished runs of the store, and unsuccessful ones.
fn runs_left(lab: &Lab) -> (usize, usize) {
    let options = Options {
        access: Access::Read,
        ..Options::default()
    };
    let store = SqliteStore::open(lab.path().join("store/store.db"), options).unwrap();
    let query = ListQuery {
        kind: Some(StreamKind::Run),
        limit: usize::MAX,
        ..ListQuery::default()
    };
    let list = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(store.list(query));
    let rows = list.expect("a list");
    let count = |is_it: fn(&Listed) -> bool| rows.iter().filter(|row| is_it(row)).count();
    (
        count(|row| !row.index.settled),
        count(|row| row.index.settled && row.index.status != "completed"),
    )
}

/// Waits for an effect of other processes.
fn wait(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < DEADLINE, "it did not happen in time");
        std::thread::yield_now();
    }
}

/// Sends a server a request about the queue. `None` if it does not answer at once.
fn ask(serving: &Serving, method: &str, path: &str, body: &str) -> Option<Value> {
    let address = serving.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let head = format!(
        "{method} /v1/coordinator/q/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

/// The state of the queue, from a live server.
fn snapshot(serving: &Serving) -> Value {
    loop {
        if let Some(found) = ask(serving, "GET", "snapshot", "") {
            return found;
        }
    }
}

fn run(lab: &Lab, serving: &Serving, workflow: &str) -> String {
    let started = call(lab, serving, "", &["run", workflow, "--detach"]).with(0);
    started.stdout.trim().to_owned()
}

fn shown(lab: &Lab, serving: &Serving, run: &str, code: i32) -> Value {
    call(lab, serving, "", &["runs", "tail", run]).with(code);
    let shown = call(lab, serving, "", &["runs", "show", run, "--json"]);
    shown.with(0).json()
}

#[test]
fn a_program_gets_its_task_and_its_output_is_the_result() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let (tell, said) = channel();
    let script = r#"cmp - "$RUNWRIGHT_TASK_FILE" >&2
        printf '{"got": %s, "fence": %s, "queue": "%s", "run": "%s"}' "$(cat "$RUNWRIGHT_TASK_FILE")" \
            "$RUNWRIGHT_FENCE" "$RUNWRIGHT_QUEUE" "$RUNWRIGHT_RUN_ID""#;
    let place = ["--server", &serving.url];
    let worker = Worker::start(&lab, &place, "w", script, &tell);
    let id = run(&lab, &serving, "one");
    let snapshot = shown(&lab, &serving, &id, 0);
    let outputs = &snapshot["outputs"]["n0"];
    assert_eq!(outputs["got"], json!({ "n": 0 }), "{snapshot}");
    assert_eq!(outputs["run"], id.as_str());
    assert_eq!(
        (&outputs["fence"], &outputs["queue"]),
        (&json!(1), &json!("q"))
    );
    until(&said, "delivered");
    worker.stop();

    // The result file wins, and a failure states its reason.
    let script = r#"echo plain; echo '{"x": 1}' > "$RUNWRIGHT_RESULT_FILE""#;
    let worker = Worker::start(&lab, &place, "w", script, &tell);
    let snapshot = shown(&lab, &serving, &run(&lab, &serving, "one"), 0);
    assert_eq!(snapshot["outputs"]["n0"], json!({ "x": 1 }));
    worker.stop();
    let worker = Worker::start(&lab, &place, "w", "echo no disk >&2; exit 3", &tell);
    let snapshot = shown(&lab, &serving, &run(&lab, &serving, "one"), 1);
    assert_eq!(snapshot["error"]["code"], "exit_code", "{snapshot}");
    let message = snapshot["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("code 3") && message.contains("no disk"),
        "{message}"
    );
    worker.stop();
    let script = r#"echo '{"error": {"code": "no_page", "message": "no such page"}}'; exit 1"#;
    let worker = Worker::start(&lab, &place, "w", script, &tell);
    let snapshot = shown(&lab, &serving, &run(&lab, &serving, "one"), 1);
    assert_eq!(snapshot["error"]["code"], "no_page");
    worker.stop();
    serving.stop();
}

#[test]
fn a_queue_of_dots_alone_is_refused_wherever_it_is_named() {
    let lab = Lab::new();
    for name in [".", ".."] {
        let config = json!({ "queue": name, "repeat": "once" });
        flow(&lab, "dots", 1, &config);
        lab.call(&["workflow", "validate", "flows/dots.json"])
            .with(1);
        let place = ["worker", "--queue", name, "--data", "store", "--", "true"];
        lab.call(&place).with(2).says("not only dots");
    }
    flow(
        &lab,
        "dots",
        1,
        &json!({ "queue": "..a", "repeat": "once" }),
    );
    lab.call(&["workflow", "validate", "flows/dots.json"])
        .with(0);
}

#[test]
fn nothing_is_taken_for_a_program_that_cannot_be_started() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let id = run(&lab, &serving, "one");
    wait(|| snapshot(&serving)["backlog"]["pending"] == 1);
    lab.write("plain.txt", "no program");
    for (program, why) in [
        ("nosuchcmd", "no such program"),
        ("./plain.txt", "not executable"),
        ("/nowhere/at/all", "no such program"),
    ] {
        let args = [
            "worker",
            "--queue",
            "q",
            "--server",
            &serving.url,
            "--",
            program,
        ];
        lab.call(&args).with(2).says(why).says("no task was taken");
    }
    assert_eq!(snapshot(&serving)["backlog"]["pending"], 1);

    // If the program vanishes later, its task is released, and the worker ends.
    lab.write("once.sh", "#!/bin/sh\nrm once.sh\necho done\n");
    let mut chmod = std::process::Command::new("chmod");
    let mode = chmod.args(["+x", "once.sh"]).current_dir(lab.path());
    assert!(mode.status().unwrap().success());
    flow(&lab, "two", 2, &config());
    let serving = {
        let url = serving.url.clone();
        serving.stop();
        Serving::again(&lab, &url, &["--dev", "--workflows", "flows"])
    };
    let both = run(&lab, &serving, "two");
    let args = [
        "worker",
        "--queue",
        "q",
        "--server",
        &serving.url,
        "--",
        "./once.sh",
    ];
    lab.call(&args)
        .with(2)
        .says("cannot be started")
        .says("returned to the queue");
    let (tell, said) = channel();
    let worker = Worker::start(&lab, &["--server", &serving.url], "w", "echo 2", &tell);
    until(&said, "delivered");
    shown(&lab, &serving, &id, 0);
    shown(&lab, &serving, &both, 0);
    worker.stop();
    serving.stop();
    judge(&log(&lab));
}

#[test]
fn a_worker_on_the_store_itself_needs_no_server() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let args = ["run", "flows/one.json", "--detach", "--data", "store"];
    let id = lab.call(&args).with(0).stdout.trim().to_owned();
    let (tell, said) = channel();
    let worker = Worker::start(&lab, &["--data", "store"], "w", "echo done", &tell);
    lab.call(&["resume", &id, "--data", "store"]).with(0);
    until(&said, "delivered");
    worker.stop();
    let shown = lab.call(&["runs", "show", &id, "--json", "--data", "store"]);
    assert_eq!(
        shown.with(0).json()["outputs"]["n0"],
        json!({ "stdout": "done" })
    );
    lab.call(&["verify", "--data", "store"]).with(0);
    // Workers' results are in the run's log: captured as evidence, and replayed without workers.
    let capture = ["snapshot", "capture", "--run", &id, "--data", "store"];
    lab.call(&capture).with(0);
    for kind in ["verify", "model"] {
        let replay = ["snapshot", "replay", "latest", "--data", "store", "--json"];
        let replay: Vec<&str> = replay.iter().chain(&["--kind", kind]).copied().collect();
        let report = lab.call(&replay).with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{kind}: {report}");
        assert_eq!(report["live"]["tools"], 0);
    }
}

#[test]
fn a_killed_workers_task_is_reassigned_and_its_program_ends() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let _gate = lab.gate("gate");
    let (tell, said) = channel();
    let place = ["--server", &serving.url];
    let waits = "echo $$ > first.pid; read -r _ < gate; echo first >> done";
    let first = Worker::start(&lab, &place, "w1", waits, &tell);
    let id = run(&lab, &serving, "one");
    until(&said, "assigned");
    wait(|| lab.read("first.pid").ends_with('\n'));
    first.kill();
    let second = Worker::start(&lab, &place, "w2", "echo second >> done; echo 2", &tell);
    let snapshot = shown(&lab, &serving, &id, 0);
    assert_eq!(snapshot["outputs"]["n0"], json!({ "stdout": "2" }));
    let pid: i32 = lab.read("first.pid").trim().parse().unwrap();
    wait(|| !std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(lab.read("done"), "second\n");
    second.stop();
    serving.stop();
    judge(&log(&lab));
    lab.call(&["verify", "--data", "store"]).with(0);
}

#[test]
fn a_frozen_workers_late_result_is_refused() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let mut gate = lab.gate("gate");
    let (tell, said) = channel();
    let place = ["--server", &serving.url];
    let waits = "echo x > begun; read -r _ < gate; echo zombie";
    let first = Worker::start(&lab, &place, "w1", waits, &tell);
    let id = run(&lab, &serving, "one");
    until(&said, "assigned");
    wait(|| lab.read("begun").ends_with('\n'));
    first.signal(Signal::STOP);
    let second = Worker::start(&lab, &place, "w2", "echo living", &tell);
    let snapshot = shown(&lab, &serving, &id, 0);
    assert_eq!(snapshot["outputs"]["n0"], json!({ "stdout": "living" }));
    gate.open();
    first.signal(Signal::CONT);
    let over = until(&said, "over");
    assert_eq!(over["code"], "assignment_lost");
    first.stop();
    second.stop();
    serving.stop();
    let events = log(&lab);
    judge(&events);
    let recovered = |event: &&Event| {
        matches!(&event.body, CoordinatorEvent::WorkerRecovered { worker, .. }
            if worker.as_str() == "w1")
    };
    assert_eq!(events.iter().filter(recovered).count(), 1);
}

#[test]
fn a_stopped_worker_finishes_and_a_second_stop_gives_back() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let mut gate = lab.gate("gate");
    let (tell, said) = channel();
    let place = ["--server", &serving.url];
    let waits = "echo x > begun; read -r _ < gate; echo done";
    let drained = Worker::start(&lab, &place, "w1", waits, &tell);
    let id = run(&lab, &serving, "one");
    wait(|| lab.read("begun").ends_with('\n'));
    drained.signal(Signal::TERM);
    gate.open();
    until(&said, "delivered");
    shown(&lab, &serving, &id, 0);
    drop(drained);

    lab.write("begun", "");
    let hurried = Worker::start(&lab, &place, "w2", waits, &tell);
    let id = run(&lab, &serving, "one");
    wait(|| lab.read("begun").ends_with('\n'));
    hurried.signal(Signal::TERM);
    // A second pending signal of the same kind would be merged.
    hurried.signal(Signal::INT);
    until(&said, "released");
    let third = Worker::start(&lab, &place, "w3", "echo third", &tell);
    let snapshot = shown(&lab, &serving, &id, 0);
    assert_eq!(snapshot["outputs"]["n0"], json!({ "stdout": "third" }));
    third.stop();
    serving.stop();
    judge(&log(&lab));
}

//! Tasks that must not be repeated, while workers are stopped and killed at random and answers to
//! them are lost: a task fails only if its worker was killed after its start.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::soak::Dice;
use super::*;
use crate::coordinator::clients::{CLIENTS, compiled};

/// Tasks of a case, each of its own run.
const TASKS: usize = 80;
/// Workers at a time.
const WORKERS: usize = 3;
/// The folder of these programs.
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/workers");

/// A proxy to a server that drops one of this many answers, with its connection.
struct BadLine {
    url: String,
    lost: Arc<AtomicUsize>,
}

impl BadLine {
    fn to(serving: &Serving, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = serving.url.trim_start_matches("http://").to_owned();
        let dice = Arc::new(Mutex::new(Dice(seed)));
        let lost = Arc::new(AtomicUsize::new(0));
        let counted = lost.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else {
                    continue;
                };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || carry(from, to, || false));
                let (dice, counted) = (dice.clone(), counted.clone());
                std::thread::spawn(move || {
                    carry(server, client, || {
                        let is_lost = dice.lock().unwrap().below(8) == 0;
                        counted.fetch_add(usize::from(is_lost), Ordering::Relaxed);
                        is_lost
                    });
                });
            }
        });
        Self { url, lost }
    }
}

/// Copies bytes until one side ends, or is cut off.
fn carry(mut from: TcpStream, mut to: TcpStream, mut is_cut: impl FnMut() -> bool) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if is_cut() || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    for side in [from, to] {
        let _ = side.shutdown(Shutdown::Both);
    }
}

/// Starts a named worker at an address, which records its starts in `begun`.
type Start<'a> = dyn Fn(&str, &str) -> Child + 'a;

/// Waits until a worker reports that it handles signals. Its pipe is still read afterwards.
fn until_said(pipe: impl Read + Send + 'static, what: &str) {
    let mut lines = BufReader::new(pipe);
    let mut line = String::new();
    while !line.contains(what) {
        line.clear();
        assert!(
            lines.read_line(&mut line).unwrap() > 0,
            "it did not say {what}"
        );
    }
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
}

fn create_run(serving: &Serving) {
    let body = r#"{"workflowId":"single"}"#;
    let address = serving.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

fn wreak_havoc(name: &'static str, lab: &Lab, start: &Start<'_>) {
    let config = json!({ "queue": "q", "repeat": "once", "heartbeatTimeoutMs": 3_000 });
    flow(lab, "single", 1, &config);
    let serving = Serving::start(lab, &["--dev", "--authority-lease", "1s"]);
    for _ in 0..TASKS {
        create_run(&serving);
    }
    let seed = testkit::seeds(1, 1).next().unwrap_or(1);
    let line = BadLine::to(&serving, seed);
    let mut dice = Dice(seed);
    let (mut born, mut killed) = (0, BTreeSet::new());
    let mut next = || {
        born += 1;
        let id = format!("w{born}");
        (start(&id, &line.url), id)
    };
    let mut workers: Vec<(Child, String)> = (0..WORKERS).map(|_| next()).collect();
    let (mut stopped, mut leaving) = (0, Vec::new());
    let mut noted = 0;
    wait(|| lab.path().join("begun").exists());
    while noted < TASKS / 2 {
        noted += 4;
        wait(|| lab.read("begun").lines().count() >= noted);
        let at = dice.below(workers.len());
        let (mut child, id) = std::mem::replace(&mut workers[at], next());
        if dice.below(2) == 0 {
            child.kill().unwrap();
            child.wait().unwrap();
            killed.insert(id);
        } else {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            leaving.push(child);
            stopped += 1;
        }
    }
    wait(|| runs_left(lab).0 == 0);
    for (child, _) in workers {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        leaving.push(child);
    }
    for mut child in leaving {
        let end = child.wait().unwrap();
        assert!(end.success(), "{end}");
    }
    serving.stop();
    let failed = judge_once(lab, &killed);
    testkit::figures(
        name,
        &format!(
            "{TASKS} tasks; {} workers killed, {stopped} stopped, {} answers lost; {failed} failed \
             that were begun by a worker that was killed",
            killed.len(),
            line.lost.load(Ordering::Relaxed),
        ),
    );
}

/// No task was begun twice, and a task failed only if its killed worker had begun it. Returns the
/// number of failures.
fn judge_once(lab: &Lab, killed: &BTreeSet<String>) -> usize {
    let begun = lab.read("begun");
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for request in begun.lines() {
        *times.entry(request).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "begun twice: {twice:?}");
    let mut began: BTreeMap<String, String> = BTreeMap::new();
    let (mut delivered, mut failed) = (0, 0);
    for event in log(lab) {
        match event.body {
            CoordinatorEvent::WorkerBegan {
                worker, task_id, ..
            } => drop(began.insert(task_id, worker.to_string())),
            CoordinatorEvent::DispatchDelivered { request_id, .. } => {
                assert_eq!(times.get(request_id.as_str()), Some(&1), "{request_id}");
                delivered += 1;
            }
            CoordinatorEvent::DispatchFailed {
                request_id, reason, ..
            } => {
                let worker = began.get(request_id.as_str());
                assert_eq!(reason, "outcome_unknown", "{request_id}");
                assert!(
                    worker.is_some_and(|worker| killed.contains(worker)),
                    "{request_id} was lost by {worker:?}"
                );
                failed += 1;
            }
            _ => {}
        }
    }
    assert_eq!(delivered + failed, TASKS);
    failed
}

#[test]
fn soak_once_tasks_of_the_cli_worker() {
    let lab = Lab::new();
    let script = r#"echo "$RUNWRIGHT_REQUEST_ID" >> begun; printf '{}'"#;
    wreak_havoc("soak_once_tasks_of_the_cli_worker", &lab, &|id, url| {
        let args = ["worker", "--queue", "q", "--id", id, "--concurrency", "4"];
        let more = ["--server", url, "--", "sh", "-c", script];
        let child = lab
            .command(&[&args[..], &more[..]].concat())
            .env("TMPDIR", lab.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let stderr = child.stderr.take().unwrap();
        until_said(stderr, "takes tasks of");
        child
    });
}

/// Starts a worker of a client; returns when it handles signals.
fn listening(worker: &mut Command, lab: &Lab, (id, url): (&str, &str)) -> Child {
    worker.args([url, id]).arg(lab.path().join("begun"));
    worker.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = worker.spawn().unwrap();
    until_said(child.stdout.take().unwrap(), "listens");
    child
}

#[test]
fn soak_once_tasks_of_the_python_worker() {
    let name = "soak_once_tasks_of_the_python_worker";
    if Command::new("python3").arg("--version").output().is_err() {
        return testkit::skip(name, "there is no python3");
    }
    let lab = Lab::new();
    wreak_havoc(name, &lab, &|id, url| {
        let mut python = Command::new("python3");
        python.arg(format!("{HERE}/chaos.py"));
        python.env("PYTHONPATH", PathBuf::from(CLIENTS).join("python"));
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        listening(&mut python, &lab, (id, url))
    });
}

#[test]
fn soak_once_tasks_of_the_typescript_worker() {
    let name = "soak_once_tasks_of_the_typescript_worker";
    let Some(kit) = std::env::var_os("RUNWRIGHT_TYPESCRIPT_MODULES") else {
        let reason = "there is no Node.js with TypeScript; `cargo xtask ci` makes one";
        return testkit::skip(name, reason);
    };
    let lab = Lab::new();
    let built = compiled(&lab, &PathBuf::from(kit).join("node_modules"));
    wreak_havoc(name, &lab, &|id, url| {
        let mut node = Command::new("node");
        node.arg(built.join("examples/chaos.js"));
        listening(&mut node, &lab, (id, url))
    });
}

//! A state directory with a server, and `exec` as its client.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{VIEWS, acquire, deliver, notify, queue};
use crate::support::Lab;

/// `runwright runtime serve`, killed at the end of the test if it still lives.
pub(super) struct Served {
    child: Child,
    _lines: BufReader<ChildStdout>,
}

impl Served {
    pub(super) fn start(lab: &Lab, more: &[&str]) -> Self {
        Self::started(lab.command(&[&SERVE, more].concat()))
    }

    pub(super) fn started(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with("serving "), "{line:?}");
        Self {
            child,
            _lines: lines,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(super) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }

    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SERVE: [&str; 3] = ["runtime", "serve", "--state-dir=state"];

fn socket(lab: &Lab) -> PathBuf {
    lab.path().join("state/.runwright/serve.sock")
}

/// The output and exit codes of commands, and the files they write, without times.
fn story(lab: &Lab) -> (Vec<(i32, String, String)>, Vec<Value>) {
    let mail = json!({ "command": "CreateMailboxMessage", "message_id": "m", "from_worker": "x",
        "to_worker": "y", "body": "hello" });
    let compact = deliver("a").to_string();
    let told = [
        queue("a").to_string(),
        queue("b").to_string(),
        queue("a").to_string(),
        mail.to_string(),
        notify("a").to_string(),
        deliver("b").to_string(),
        "{}".to_owned(),
        "nonsense".to_owned(),
        json!({ "command": "RemoveDispatchRecords", "request_ids": ["b"] }).to_string(),
    ];
    let mut ended: Vec<_> = (told.iter())
        .map(|command| lab.runtime(&["exec", command, "--state-dir=state"]))
        .collect();
    ended.push(lab.runtime(&["exec", &compact, "--compact", "--state-dir=state"]));
    ended.push(lab.runtime(&["exec", &compact, "--compact", "--state-dir=state"]));
    let ended = ended.into_iter();
    let ended = ended.map(|ended| (ended.code, ended.stdout, ended.stderr));
    let mut views: Vec<Value> = VIEWS.iter().map(|name| lab.view(name)).collect();
    for record in views
        .iter_mut()
        .filter_map(|view| view.get_mut("records")?.as_array_mut())
        .flatten()
    {
        for field in ["created_at", "notified_at", "delivered_at"] {
            let is_there = record[field].is_string();
            record[field] = is_there.into();
        }
    }
    (ended.collect(), views)
}

#[test]
fn a_served_directory_answers_and_looks_as_one_that_is_not() {
    let (direct, lab) = (Lab::new(), Lab::new());
    let served = Served::start(&lab, &[]);
    let mode = fs::metadata(socket(&lab)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Through a door that leads only to the server, the server carries it out.
    fs::create_dir_all(lab.path().join("door/.runwright")).unwrap();
    std::os::unix::fs::symlink(socket(&lab), lab.path().join("door/.runwright/serve.sock"))
        .unwrap();
    let by_door = lab.runtime(&["exec", "{}", "--state-dir=door"]).with(1);
    by_door.says("invalid JSON: missing field `command`");
    assert!(!lab.path().join("door/.runwright/store.db").exists());
    assert_eq!(story(&lab), story(&direct));
    served.stop();
    assert!(!socket(&lab).exists());
    // Without a server, the command works directly.
    lab.exec(&queue("later")).with(0);
    lab.call(&["verify", "--data", "state/.runwright"]).with(0);
}

/// The options at its start hold for every command that it carries out.
#[test]
fn options_of_a_server_apply_to_every_command() {
    let lab = Lab::new();
    let past = |owner: &str| acquire(owner, "2020-01-01T00:00:00Z");
    let served = Served::start(&lab, &["--enforce-leases", "--views=none"]);
    lab.exec(&past("a")).with(0);
    lab.exec(&past("b")).with(0);
    for name in VIEWS {
        assert!(!lab.path().join("state").join(name).exists(), "{name}");
    }
    served.stop();
    // Without options at its start, the client decides.
    let served = Served::start(&lab, &[]);
    lab.exec(&past("c")).with(1).says("b");
    let enforced = past("c").to_string();
    lab.runtime(&["exec", &enforced, "--state-dir=state", "--enforce-leases"])
        .with(0);
    assert_eq!(lab.view("authority.json")["owner"], "c");
    served.stop();
}

#[test]
fn one_process_serves_a_directory() {
    let lab = Lab::new();
    let served = Served::start(&lab, &[]);
    lab.call(&SERVE)
        .with(1)
        .says("another process serves state already");
    lab.exec(&queue("a")).with(0);
    served.stop();
    lab.runtime(&["serve"]).with(1).says("--state-dir=DIR");
}

#[test]
fn changes_made_without_the_server_are_seen() {
    let lab = Lab::new();
    let served = Served::start(&lab, &[]);
    lab.exec(&queue("a")).with(0);
    // Without the socket it uses the store.
    fs::rename(socket(&lab), lab.path().join("aside")).unwrap();
    lab.exec(&queue("b")).with(0);
    fs::rename(lab.path().join("aside"), socket(&lab)).unwrap();
    lab.exec(&queue("b")).with(1).says("duplicate");
    lab.exec(&queue("c")).with(0);
    assert_eq!(lab.snapshot()["backlog"]["pending"], 3);
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 3);
    served.stop();
}

/// Four at a time, with a kill of the server: acknowledged commands are present, the others once or
/// not at all.
#[test]
fn soak_kills_of_a_server() {
    for seed in testkit::seeds(3, 60) {
        let lab = Lab::new();
        let served = Served::start(&lab, &[]);
        let ended = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|worker| {
                    let lab = &lab;
                    scope.spawn(move || -> Vec<(String, i32)> {
                        let id = |n| format!("{worker}-{n}");
                        (0..6)
                            .map(|n| (id(n), lab.exec(&queue(&id(n))).code))
                            .collect()
                    })
                })
                .collect();
            // The moments spread over the duration of the commands by the seed.
            let until =
                std::time::Instant::now() + std::time::Duration::from_micros(seed * 7_333 % 90_000);
            while std::time::Instant::now() < until {
                std::hint::spin_loop();
            }
            served.kill();
            let told = workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap());
            told.collect::<Vec<_>>()
        });
        // The leftover socket does not block a new server.
        assert!(socket(&lab).exists(), "seed {seed}");
        for (id, code) in &ended {
            // Without an answer the outcome is unknown; with one, it is kept forever.
            let again = lab.exec(&queue(id));
            assert!(again.code == 1 || *code == 1, "seed {seed}: {id}");
        }
        assert_eq!(lab.snapshot()["backlog"]["pending"], 24, "seed {seed}");
        assert_eq!(lab.view("events.json").as_array().unwrap().len(), 24);
        // And another takes its place.
        let next = Served::start(&lab, &[]);
        lab.exec(&queue("next")).with(0);
        next.stop();
    }
}

#[test]
fn a_server_that_does_not_greet_is_gone_without() {
    let lab = Lab::new();
    lab.exec(&queue("a")).with(0);
    // It accepts silently; an unknown greeting is not understood.
    let silent = UnixListener::bind(socket(&lab)).unwrap();
    lab.exec(&queue("b")).with(0);
    drop(silent);
    fs::remove_file(socket(&lab)).unwrap();
    let other = UnixListener::bind(socket(&lab)).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"somebody else's words\n").unwrap();
    });
    lab.exec(&queue("c")).with(0);
    answering.join().unwrap();
    assert_eq!(lab.snapshot()["backlog"]["pending"], 3);
}

#[test]
fn a_server_that_ends_amid_a_command_leaves_no_false_answer() {
    let lab = Lab::new();
    lab.exec(&queue("a")).with(0);
    let server = UnixListener::bind(socket(&lab)).unwrap();
    let ending = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        stream.write_all(b"runwright-runtime 2\n").unwrap();
        BufReader::new(stream)
            .read_line(&mut String::new())
            .unwrap();
    });
    lab.exec(&queue("b"))
        .with(1)
        .says("ended before it answered");
    ending.join().unwrap();
    assert_eq!(lab.snapshot()["backlog"]["pending"], 1);
}

#[test]
fn half_a_command_is_none() {
    let lab = Lab::new();
    let served = Served::start(&lab, &[]);
    let mut stream = UnixStream::connect(socket(&lab)).unwrap();
    let mut greeting = String::new();
    BufReader::new(stream.try_clone().unwrap())
        .read_line(&mut greeting)
        .unwrap();
    assert_eq!(greeting, "runwright-runtime 2\n");
    stream.write_all(b"{\"json\":\"{}\"").unwrap();
    drop(stream);
    lab.exec(&queue("a")).with(0);
    assert_eq!(lab.snapshot()["backlog"]["pending"], 1);
    served.stop();
}

#[test]
fn a_directory_with_a_long_path_is_served_too() {
    let lab = Lab::new();
    let long = format!("{}/state", "d".repeat(120));
    fs::create_dir_all(lab.path().join(&long)).unwrap();
    let state = format!("--state-dir={long}");
    let served = Served::started(lab.command(&["runtime", "serve", &state]));
    let store = lab.path().join(&long).join(".runwright");
    assert_eq!(
        fs::metadata(store.join("serve.sock")).unwrap().mode() & 0o777,
        0o600
    );
    // Only the server knows the unwritten state: its store.
    lab.runtime(&["exec", &queue("a").to_string(), &state])
        .with(0);
    served.stop();
    lab.runtime(&["exec", &queue("a").to_string(), &state])
        .with(1);
}

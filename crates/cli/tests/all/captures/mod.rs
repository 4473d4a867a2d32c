//! Snapshots of commands and of runs: captured, replayed, and their files.

mod answers;
mod asking;
mod clock;
mod commands;
mod compared;
mod cut;
mod daemons;
mod endless;
mod evidence;
mod faces;
mod families;
mod fed;
mod forged;
mod hidden;
mod kills;
mod models;
mod not_kept;
mod notified;
mod observed;
mod often;
mod outcomes;
mod parallel;
mod peer;
mod redacted;
mod refused;
mod replays;
mod rows;
mod runs;
mod same_bytes;
mod secrets;
mod spelt;
mod threads;
mod tools;
mod unreadable;
mod unredacted;
mod walls;
mod whole;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Ended, Lab};
use peer::Peer;

/// Whether the agents of these tests can run; otherwise the test is a named skip.
pub(crate) fn has_python(test: &str) -> bool {
    let found = Command::new("python3").arg("--version").output();
    if found.is_err() {
        testkit::skip(test, "there is no python3");
    }
    found.is_ok()
}

/// A project with an agent in a sibling folder.
pub(crate) struct Bench {
    pub(crate) lab: Lab,
    pub(crate) peer: Peer,
}

impl Bench {
    pub(crate) fn new(
        answer: impl Fn(usize, &peer::Came) -> Value + Send + Sync + 'static,
    ) -> Self {
        let lab = Lab::new();
        std::fs::create_dir(lab.path().join("shop")).unwrap();
        Self {
            lab,
            peer: Peer::start(answer),
        }
    }

    /// The watched folder.
    pub(crate) fn root(&self) -> PathBuf {
        self.lab.path().join("shop")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.lab.write(&format!("shop/{name}"), text);
    }

    /// Writes the script of the agent.
    pub(crate) fn script(&self, steps: &[Value]) {
        let lines: Vec<String> = steps.iter().map(Value::to_string).collect();
        self.lab.write("steps.jsonl", lines.join("\n") + "\n");
    }

    /// The program in the agent's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.lab.command(args);
        command
            .env(
                "OPENAI_BASE_URL",
                format!("http://{}/v1", self.peer.address),
            )
            .env(
                "ANTHROPIC_BASE_URL",
                format!("http://{}", self.peer.address),
            )
            .env("PROGRAM", env!("CARGO_BIN_EXE_runwright"));
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Ended {
        self.command(args).output().unwrap().into()
    }

    /// Captures the agent with its script; returns the path of the snapshot.
    pub(crate) fn capture(&self, options: &[&str]) -> PathBuf {
        let ended = self.call(&self.capture_args(options)).with(0);
        PathBuf::from(ended.stdout.lines().last().unwrap())
    }

    pub(crate) fn capture_args<'a>(&self, options: &[&'a str]) -> Vec<&'a str> {
        const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/captures/agent.py");
        let head = [
            "snapshot",
            "capture",
            "--root",
            "shop",
            "--workflow",
            "tidy",
        ];
        let tail = ["--", "python3", AGENT, "../steps.jsonl"];
        head.iter().chain(options).chain(&tail).copied().collect()
    }

    /// Captures a successful command.
    pub(crate) fn record(&self, argv: &[&str]) -> Ended {
        let head = ["snapshot", "capture", "--root", "shop", "--"];
        self.call(&[&head[..], argv].concat()).with(0)
    }

    /// Replays the latest snapshot; the answer must be JSON.
    pub(crate) fn replay(&self, kind: &str, code: i32) -> Value {
        let args = [
            "snapshot", "replay", "latest", "--root", "shop", "--kind", kind, "--json",
        ];
        self.call(&args).with(code).json()
    }
}

/// The JSON of a snapshot file.
pub(crate) fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// `operation path` of each artifact.
pub(crate) fn artifacts(snapshot: &Value) -> Vec<String> {
    let artifacts = snapshot["outputs"]["artifacts_created"].as_array().unwrap();
    let shown = artifacts.iter().map(|artifact| {
        let text = |name: &str| artifact[name].as_str().unwrap().to_owned();
        format!("{} {}", text("operation"), text("path"))
    });
    shown.collect()
}

/// The steps of an agent with all kinds of work: model calls, tool calls, and changes of its
/// folder.
pub(crate) fn busy() -> Vec<Value> {
    vec![
        json!({ "where": true }),
        json!({ "ask": "What first?", "with": { "temperature": 0.7 } }),
        json!({ "tool": "count", "argv": ["wc", "-c", "kept.txt"] }),
        json!({ "tool": "note", "argv": ["sh", "-c", "echo noted > by-tool.txt; echo ok"] }),
        json!({ "ask": "And then?" }),
        json!({ "write": "new/made.txt", "text": "made" }),
        json!({ "write": "edited.txt", "text": "after" }),
        json!({ "rename": "named.txt", "to": "renamed.txt" }),
        json!({ "delete": "gone.txt" }),
        json!({ "write": "restored.txt", "text": "for a moment" }),
        json!({ "write": "restored.txt", "text": "restored" }),
        json!({ "write": "passing.txt", "text": "x" }),
        json!({ "delete": "passing.txt" }),
        json!({ "write": "noise.log", "text": "x" }),
        json!({ "write": "ignored/x", "text": "x" }),
        json!({ "ask": "Done?" }),
    ]
}

/// The files that it finds.
pub(crate) fn lay_out(bench: &Bench) {
    for (name, text) in [
        ("kept.txt", "kept"),
        ("edited.txt", "before"),
        ("named.txt", "named"),
        ("gone.txt", "gone"),
        ("restored.txt", "restored"),
        (".gitignore", "ignored/\n"),
    ] {
        bench.write(name, text);
    }
}

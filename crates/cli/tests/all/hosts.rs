//! Runs of a host that is not ours: a real server behind a proxy that takes its own routes and its
//! name away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::answering::wait_for;
use crate::serving::{Serving, call, lab};
use crate::support::*;

/// A host that serves version 2 only, with another name.
struct Host {
    url: String,
}

impl Host {
    /// Passes requests on to `server`. `change` edits the capabilities, keeping their length.
    fn start(server: &Serving, change: fn(&str) -> String) -> Self {
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let address = address.clone();
                std::thread::spawn(move || pass_on(stream, &address, change));
            }
        });
        Self { url }
    }

    /// A command on the runs of the host.
    fn call(&self, lab: &Lab, args: &[&str]) -> Ended {
        let mut command = lab.command(args);
        command
            .env("RUNWRIGHT_SERVER", &self.url)
            .env("RUNWRIGHT_KEY", "");
        command.output().unwrap().into()
    }
}

fn pass_on(mut stream: TcpStream, address: &str, change: fn(&str) -> String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        if !lower.starts_with("connection:") {
            head.push(line);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = head[0].split(' ').nth(1).unwrap().to_owned();
    if path.starts_with("/v1") || path.starts_with("/api") {
        let refusal = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(refusal.as_bytes());
        return;
    }
    let mut server = TcpStream::connect(address).unwrap();
    // This host ignores a filter in silence.
    head[0] = head[0].replace("tag=", "ignored=");
    let head = head.concat();
    server.write_all(head.as_bytes()).unwrap();
    server.write_all(b"connection: close\r\n\r\n").unwrap();
    server.write_all(&body).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    if path == "/.well-known/openwop" {
        answer = change(&String::from_utf8(answer).unwrap()).into_bytes();
    }
    let _ = stream.write_all(&answer);
}

fn renamed(capabilities: &str) -> String {
    let ours = r#""name":"runwright""#;
    assert!(capabilities.contains(ours), "{capabilities}");
    capabilities.replace(ours, r#""name":"acme-host""#)
}

#[test]
fn a_foreign_host_is_steered_by_version_2() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let own = |args: &[&str]| call(&lab, &serving, "", args);
    let start = |workflow: &str| {
        let detached = own(&["run", workflow, "--detach"]).with(0);
        detached.stdout.trim().to_owned()
    };
    own(&["run", "three"]).with(0);
    let (asks, waits) = (start("signs"), start("waits"));
    wait_for(&own, &asks, "node.suspended");

    let host = Host::start(&serving, renamed);
    let there = |args: &[&str]| host.call(&lab, args);
    let rows = there(&["runs", "list", "--json"]).with(0).json_lines();
    assert_eq!(rows.len(), 3);
    let id = |row: &Value| row["runId"].as_str().unwrap().to_owned();
    assert!(id(&rows[0]).ends_with(&format!("/{waits}")), "{rows:?}");
    let three = rows.iter().find(|row| row["workflowId"] == "three");
    let three = id(three.unwrap());
    there(&["runs", "list", "--status", "completed"])
        .with(0)
        .prints("three");
    // By its whole id, by a part of it, and as the last one.
    let part = &three[three.len() - 8..];
    for name in [three.as_str(), part] {
        there(&["runs", "show", name])
            .with(0)
            .prints("completed")
            .prints("3 nodes completed");
    }
    let shown = there(&["runs", "show", "last", "--json"]).with(0).json();
    assert_eq!(id(&shown), id(&rows[0]));
    let events = there(&["events", &three, "--json"]).with(0).json_lines();
    assert_eq!(events[0]["type"], "run.started");
    there(&["runs", "tail", &three])
        .with(0)
        .prints("run.completed");

    there(&["runs", "interrupts"]).with(0).prints("gate");
    let answer = ["runs", "resolve", &asks, "--action", "accept"];
    there(&answer).with(0).says("gate has been answered");
    there(&["runs", "tail", &asks]).with(0);
    there(&answer)
        .with(2)
        .says("has no open question; it is completed");
    there(&["runs", "cancel", &waits, "--reason", "enough"]).with(0);
    there(&["runs", "tail", &waits])
        .with(1)
        .prints("run.cancelled");
    there(&["runs", "cancel", &waits])
        .with(2)
        .says("run_terminal");

    let asks = asks.as_str();
    for (args, command) in [
        (vec!["run", "three"], "`run`"),
        (vec!["runs", "fork", asks, "--at", "1"], "`runs fork`"),
        (vec!["runs", "diff", asks, part], "`runs diff`"),
        (vec!["runs", "note", asks], "`runs note`"),
        (vec!["runs", "ancestry", asks], "`runs ancestry`"),
        (vec!["runs", "bundle", asks], "`runs bundle`"),
        (vec!["runs", "artifact", asks, "art-1"], "`runs artifact`"),
        (vec!["webhooks", "list"], "`webhooks`"),
    ] {
        let refused = there(&args).with(2);
        refused
            .says("acme-host is not a Runwright server")
            .says(command);
    }
    serving.stop();
}

#[test]
fn a_host_is_read_in_its_own_words() {
    let lab = lab();
    let child = node("call", "core.subWorkflow", json!({ "workflowId": "waits" }));
    lab.write_flow(&workflow("above", &[child], &[]));
    let mut fails = script("fails", "exit 3");
    fails["settings"] = json!({ "retry": { "maxRetries": 1, "initialDelayMs": 1 } });
    lab.write_flow(&workflow("fails", &[fails], &[]));
    let serving = Serving::start(&lab, &["--dev"]);
    let own = |args: &[&str]| call(&lab, &serving, "", args);
    own(&["run", "fails", "--tag", "kept"]).with(1);
    own(&["run", "above", "--detach"]).with(0);
    let newest = || {
        own(&["runs", "list", "--json"])
            .with(0)
            .json_lines()
            .remove(0)
    };
    while newest()["workflowId"] != "waits" {}

    let host = Host::start(&serving, renamed);
    let there = |args: &[&str]| host.call(&lab, args);
    // The newest run is the child: `last` names its parent.
    let rows = there(&["runs", "list", "--json"]).with(0).json_lines();
    assert_eq!(rows[0]["workflowId"], "waits");
    let last = there(&["runs", "show", "last", "--json"]).with(0).json();
    assert_eq!(last["workflowId"], "above");
    let tagged = there(&["runs", "list", "--tag", "kept", "--json"]).with(0);
    let tagged = tagged.json_lines();
    assert_eq!(tagged.len(), 1, "{tagged:?}");
    let failed = tagged[0]["runId"].as_str().unwrap();
    for name in ["run.dead-lettered", "run.dead_lettered"] {
        let args = ["events", failed, "--type", name, "--json"];
        let events = there(&args).with(0).json_lines();
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!(events[0]["type"], "run.dead-lettered");
    }
    serving.stop();
}

#[test]
fn a_host_without_version_2_is_refused() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let host = Host::start(&serving, |capabilities| {
        renamed(capabilities).replace(r#""2.0""#, r#""1.9""#)
    });
    host.call(&lab, &["runs", "list"])
        .with(2)
        .says("acme-host does not speak OpenWOP 2");
    serving.stop();
}

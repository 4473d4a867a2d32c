//! The operator's view of a store, and commands for runs of any tenant.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::*;

/// A server for one tenant, killed at the latest at the end of the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(lab: &Lab, tenant: &str) -> Self {
        let args = ["serve", "--dev", "--listen", "127.0.0.1:0", "--workflows"];
        let mut command = lab.command(&args);
        command.args(["workflows", "--tenant", tenant]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().trim_start_matches("http://").to_owned();
        Self { child, address }
    }

    fn create(&self, workflow: &str) -> String {
        let body = json!({ "workflowId": workflow }).to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /v1/runs HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 201"), "{answer}");
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        body["runId"].as_str().unwrap().to_owned()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A run of the tenant `acme` that lost its server, and its gate.
fn cut_off(lab: &Lab) -> (String, Gate) {
    let gate = lab.gate("gate");
    std::fs::create_dir(lab.path().join("workflows")).unwrap();
    let config = json!({
        "argv": ["sh", "-euc", "echo waiting; read -r _ < gate"], "env": { "LAB": lab.mark() },
        "keepOutput": "always",
    });
    let gated = workflow("gated", &[node("step", "runwright.process", config)], &[]);
    lab.write("workflows/gated.json", gated.to_string());
    let mut server = Server::start(lab, "acme");
    let run = server.create("gated");
    let mut tail = lab.engine(&["runs", "tail", &run]);
    tail.wait_for(is("output.chunk"));
    server.kill();
    lab.wait_until_quiet();
    (run, gate)
}

#[test]
fn runs_left_by_another_tenants_server_are_seen_and_resumed() {
    let lab = Lab::new();
    let (run, mut gate) = cut_off(&lab);
    lab.call(&["doctor"])
        .with(0)
        .prints("1 run, 1 of them not settled")
        .prints("no process drives");
    // Its attempt is not a leftover.
    lab.call(&["doctor", "--clean"])
        .with(0)
        .prints("leftovers of 0 runs");
    gate.open();
    lab.call(&["resume"]).with(0).says("completed");
    let snapshot = lab.call(&["runs", "show", "last", "--json"]).with(0).json();
    assert_eq!(snapshot["runId"], run.as_str());
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(snapshot["owner"]["tenant"], "acme");
    let events = lab.events(&run);
    let restarts = events
        .iter()
        .filter(|event| is("runwright.attempt.restarted")(event));
    assert_eq!(restarts.count(), 1, "it went on: {events:#?}");
    lab.call(&["resume"]).with(0).says("no run to resume");
    lab.call(&["runs", "purge", &run[run.len() - 8..], "--yes"])
        .with(0);
}

#[test]
fn the_list_names_tenants_where_there_are_several() {
    let lab = Lab::new();
    let (run, _gate) = cut_off(&lab);
    let list = |args: &[&str]| lab.call(&[&["runs", "list"], args].concat()).with(0);
    let alone = list(&[]).prints(&run[run.len() - 8..]);
    assert!(!alone.stdout.contains("TENANT"), "{alone:#?}");
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file]).with(0);
    list(&[]).prints("TENANT").prints("acme").prints("local");
    let of = |tenant: &str| list(&["--tenant", tenant, "--json"]).json_lines();
    let rows = of("acme");
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["runId"], &rows[0]["tenant"]),
        (&json!(run), &json!("acme"))
    );
    assert_eq!(of("local").len(), 1);
    assert_eq!(of("nobody").len(), 0);
    let narrowed = list(&["--tenant", "acme"]);
    assert!(!narrowed.stdout.contains("TENANT"), "{narrowed:#?}");
}

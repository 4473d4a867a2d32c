//! Runs of other faces as evidence: those that a browser recorded.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::serving::Serving;
use crate::support::*;

/// The bundle of a run that a browser recorded.
fn bundle(status: &str, letter: &str) -> Value {
    let step = json!({ "id": "write", "gatePolicy": "AUTO", "inputs": [], "outputs": [] });
    let workflow = json!({ "id": "letters", "version": 3, "steps": [step], "edges": [] });
    let artifact = json!({
        "artifactKey": "letter", "typeId": "letter.v1", "version": 1,
        "createdAt": "2027-01-15T08:00:02.000Z", "data": { "text": letter },
    });
    let event = |place: usize, kind: &str, more: Value| {
        let mut event = json!({
            "id": format!("evt_{place}"), "type": kind, "runId": "run_letters",
            "ts": format!("2027-01-15T08:00:0{place}.000Z"),
        });
        event
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        event
    };
    let usage = json!({ "inputTokens": 7, "outputTokens": 3, "totalTokens": 10 });
    json!({
        "protocolVersion": "1.0.0", "ruleSets": [],
        "artifacts": [artifact],
        "trace": [
            event(0, "step_started", json!({ "stepId": "write" })),
            event(1, "model_io", json!({ "stepId": "write", "direction": "response",
                "provider": "acme", "model": "opus", "usage": usage })),
            event(2, "artifact_written", json!({ "stepId": "write", "artifact": artifact })),
            event(3, "tool_call", json!({ "stepId": "write", "name": "spell",
                "args": { "b": 1, "a": letter }, "result": "fine" })),
            event(4, "run_status_changed", json!({ "status": status })),
        ],
        "run": {
            "id": "run_letters", "workflowId": "letters", "workflowVersion": 3,
            "workflowSnapshot": workflow, "startedAt": "2027-01-15T08:00:00Z",
            "status": status,
        },
    })
}

fn save(lab: &Lab, bundle: &Value) {
    lab.write("bundle.json", bundle.to_string());
    let import = ["workbench", "import", "bundle.json", "--ignore-integrity"];
    lab.call(&import).with(0);
}

#[test]
fn a_run_that_a_browser_recorded_becomes_a_snapshot() {
    let lab = Lab::new();
    save(&lab, &bundle("completed", "Dear Ada"));
    let capture = ["snapshot", "capture", "--run", "run_letters", "--json"];
    let made = lab.call(&capture).with(0).json();
    let shown = lab
        .call(&["snapshot", "show", "latest", "--json"])
        .with(0)
        .json();
    assert_eq!(shown["snapshot_id"], made["snapshot_id"]);
    assert_eq!(shown["workflow_id"], "letters");
    assert_eq!(
        shown["config"]["model"],
        json!({ "id": "opus", "provider": "acme" })
    );
    assert_eq!(
        shown["outputs"]["response"],
        r#"{"letter":{"text":"Dear Ada"}}"#
    );
    assert_eq!(shown["inputs"]["user_prompt"], "{}");
    let artifacts = &shown["outputs"]["artifacts_created"];
    assert_eq!(
        (&artifacts[0]["path"], &artifacts[0]["operation"]),
        (&json!("letter"), &json!("created"))
    );
    assert_eq!(shown["outputs"]["tool_calls"][0]["tool"], "spell");
    let metrics = &shown["metrics"];
    assert_eq!(
        (&metrics["tokens_input"], &metrics["iterations"]),
        (&json!(7), &json!(1))
    );
    let of = &shown["extensions"]["document"];
    assert_eq!(
        (&of["run_id"], &of["save"]),
        (&json!("run_letters"), &json!(1))
    );
    assert_eq!(shown["extensions"]["run_status"], "succeeded");
    lab.call(&["snapshot", "verify", "--strict"]).with(0);

    // Without a new save it is the same snapshot. Another save is another snapshot, which names the
    // first.
    assert_eq!(lab.call(&capture).with(0).json()["new"], false);
    save(&lab, &bundle("completed", "Dear Bob"));
    let later = lab.call(&capture).with(0).json();
    let second = lab.call(&["snapshot", "show", "latest", "--json"]).json();
    assert_eq!(second["extensions"]["follows"], made["snapshot_id"]);
    let pair = [&made, &later].map(|made| made["snapshot_id"].as_str().unwrap());
    let compared = lab
        .call(&["snapshot", "compare", pair[0], pair[1], "--json"])
        .with_any(&[0, 1])
        .json();
    assert_eq!(compared["match_status"], "partial_match");
    assert_eq!(
        compared["first_divergence"]["path"], "/a",
        "the tool was asked about another name: {compared}"
    );

    // Each is folded again from the log up to its save; a browser's work is not repeated.
    for id in pair {
        let replay = ["snapshot", "replay", id, "--json"];
        let report = lab.call(&replay).with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{report}");
        let rerun: Vec<&str> = replay.iter().chain(&["--kind", "rerun"]).copied().collect();
        lab.call(&rerun).with(3).says("a browser executed the run");
    }
}

/// A request over its own connection: status, head and body.
fn ask(serving: &Serving, method: &str, path: &str, body: &str) -> (u16, String, Value) {
    let address = serving.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), serde_json::from_str(body).unwrap())
}

#[test]
fn server_captures_import_into_the_cli_and_vice_versa() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo hi"));
    lab.call(&["run", &file]).with(0);
    let run = lab.last_run();
    let made = lab
        .call(&["snapshot", "capture", "--run", "last", "--json"])
        .with(0)
        .json();
    let id = made["snapshot_id"].as_str().unwrap();
    let bundle = lab
        .call(&["snapshot", "export", id, "--format", "bundle"])
        .with(0)
        .stdout;
    let serving = Serving::at(&lab, ".runwright", &["--dev"]);
    let (status, _, _) = ask(&serving, "POST", "/v1/snapshots:import", &bundle);
    assert_eq!(status, 201);
    // The same log captured there is the same snapshot.
    let body = json!({ "runId": run }).to_string();
    let (status, head, there) = ask(&serving, "POST", "/v1/snapshots", &body);
    assert_eq!(
        (status, there["snapshot_id"].as_str()),
        (200, Some(id)),
        "{there}"
    );
    assert!(
        head.contains(&format!("</v1/runs/{run}>; rel=\"run\"")),
        "{head}"
    );
    let path = format!("/v1/snapshots/{id}/export?format=bundle");
    let (_, _, bundle) = ask(&serving, "GET", &path, "");
    serving.stop();
    lab.write("bundle.json", bundle.to_string());
    let import = [
        "snapshot",
        "import",
        "bundle.json",
        "--root",
        "other",
        "--json",
    ];
    assert_eq!(lab.call(&import).with(0).json()["new"], true);
    assert_eq!(lab.call(&import).with(0).json()["new"], false);
    lab.call(&["snapshot", "verify", "--strict", "--root", "other"])
        .with(0);
    // A changed one is rejected.
    lab.write(
        "bundle.json",
        bundle
            .to_string()
            .replace("\\\"hi\\\"", "\\\"ho\\\"")
            .replace("\"workflow_id\":\"w\"", "\"workflow_id\":\"v\""),
    );
    let import = ["snapshot", "import", "bundle.json", "--root", "third"];
    lab.call(&import).with(4);
}

//! Invalid documents: each gets a clear message with a place, and nothing is written.

use std::fs::File;
use std::io::Write;

use serde_json::{Value, json};

use crate::support::*;

/// Passes an invalid document in both ways; every text must be printed.
#[track_caller]
fn refused(document: &[u8], said: &[&str]) {
    let lab = Lab::new();
    lab.write("bad.json", document);
    let by_file = lab.call(&["run", "bad.json"]).with(2);
    let by_stdin = lab.call_with(&["run", "-"], document).with(2);
    let checked = lab.call(&["workflow", "validate", "bad.json"]).with(1);
    for text in said {
        assert!(
            by_file.stderr.contains(text),
            "{text:?} is not said in {by_file:#?}"
        );
        assert!(
            by_stdin.stderr.contains(text),
            "{text:?} is not said in {by_stdin:#?}"
        );
        assert!(
            checked.stdout.contains(text),
            "{text:?} is not said in {checked:#?}"
        );
    }
    assert!(
        by_file.stderr.len() < 20_000,
        "the answer is not a wall of text"
    );
    assert!(!by_file.stderr.contains("panicked"), "{by_file:#?}");
    assert!(
        !lab.path().join(".runwright").exists(),
        "nothing is written"
    );
}

#[test]
fn malformed_json_is_placed_by_line_and_column() {
    refused(
        b"{\n  \"id\": \"w\",\n  \"nodes\": [}\n",
        &["bad.json", "line 3, column 13"][1..],
    );
    refused(b"", &["line 1"]);
    refused(b"{} {}", &["line 1, column"]);
    refused(b"{\"id\": NaN}", &["line 1, column"]);
}

#[test]
fn a_key_may_not_stand_twice() {
    refused(
        br#"{"id": "w", "settings": {"a": 1, "a": 2}}"#,
        &["/settings/a"],
    );
}

#[test]
fn bytes_must_be_utf8() {
    refused(b"{\"id\": \"\xff\xfe\"}", &["UTF-8", "line 1, column 9"]);
    refused(b"\xef\xbb\xbf{}", &["byte order mark"]);
    refused(&[0xff, 0xfe, b'{', 0, b'}', 0], &["UTF-8"]);
}

#[test]
fn a_thousand_levels_are_too_deep() {
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    refused(deep.as_bytes(), &["nested more than 100 deep"]);
    let object = format!("{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000));
    refused(object.as_bytes(), &["nested more than 100 deep"]);
    refused(
        "[".repeat(200_000).as_bytes(),
        &["nested more than 100 deep"],
    );
}

#[test]
fn every_problem_is_listed_with_its_path() {
    let bad = json!({
        "id": "w", "name": "w", "version": "1", "triggers": [], "variables": [],
        "settings": {}, "metadata": {}, "speed": 3,
        "nodes": [
            node("a", "core.noop", json!({})),
            node("a", "core.nope", json!({})),
            node("b", "runwright.process", json!({ "argv": [], "shell": true })),
            { "id": "c" },
        ],
        "edges": [{ "id": "e", "sourceNodeId": "a", "targetNodeId": "nowhere" }],
    });
    let said = [
        "/speed",
        "/nodes/1/id",
        "/nodes/1/typeId",
        "core.noop",
        "/nodes/2/config/argv",
        "/nodes/2/config/shell",
        "node `c`: the field `typeId`",
        "/edges/0/targetNodeId",
    ];
    refused(bad.to_string().as_bytes(), &said);
}

#[test]
fn a_circle_is_drawn() {
    let nodes = ["a", "b", "c", "d"].map(|id| node(id, "core.noop", json!({})));
    let circle = workflow(
        "w",
        &nodes,
        &[("d", "a"), ("a", "b"), ("b", "c"), ("c", "a")],
    );
    refused(circle.to_string().as_bytes(), &["/edges/", "a", "b", "c"]);
}

#[test]
fn references_must_lead_somewhere() {
    let mut reader = node("reader", "core.identity", json!({}));
    reader["inputs"] = json!({
        "x": { "type": "connection", "nodeId": "raeder", "outputKey": "out" },
        "y": { "type": "variable", "variableName": "nobody" },
        "z": { "type": "expression", "expression": "1 +" },
    });
    let bad = workflow("w", &[reader], &[]);
    refused(
        bad.to_string().as_bytes(),
        &[
            "/nodes/0/inputs/x/nodeId",
            "/nodes/0/inputs/y",
            "/nodes/0/inputs/z/expression",
        ],
    );
}

#[test]
fn a_workflow_that_is_not_an_object_is_rejected() {
    for document in ["[]", "null", "7", "\"w\""] {
        refused(document.as_bytes(), &["object"]);
    }
}

#[test]
fn a_hundred_megabytes_are_refused_without_being_read() {
    let lab = Lab::new();
    let mut file = File::create(lab.path().join("large.json")).unwrap();
    let block = vec![b' '; 1 << 20];
    for _ in 0..100 {
        file.write_all(&block).unwrap();
    }
    let ended = lab.call(&["run", "large.json"]).with(2);
    assert!(
        ended.stderr.contains("104857600 bytes; at most 16777216"),
        "{ended:?}"
    );
    lab.call(&["workflow", "validate", "large.json"])
        .with(1)
        .prints("at most 16777216");
    let stdin = File::open(lab.path().join("large.json")).unwrap();
    let mut command = lab.command(&["run", "-"]);
    let ended = Ended::from(command.stdin(stdin).output().unwrap()).with(2);
    assert!(
        ended.stderr.contains("more than 16777216 bytes"),
        "{ended:?}"
    );
}

#[test]
fn a_file_must_be_one_that_can_be_read() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path().join("folder.json")).unwrap();
    lab.call(&["run", "folder.json"])
        .with(2)
        .says("this is a folder, not a file");
    lab.call(&["run", "missing.json"])
        .with(2)
        .says("missing.json: no such file");
    lab.call(&["workflow", "validate", "missing.json"])
        .with(2)
        .says("no such file");
    lab.call(&["run", "missing.json", "--with", "also-missing.json"])
        .with(2);
}

#[test]
fn inputs_are_held_against_the_declarations() {
    let lab = Lab::new();
    let mut typed = one_script("w", "true");
    typed["variables"] = json!([
        { "name": "count", "type": "number", "required": true },
        { "name": "label", "type": "string" },
        { "name": "flags", "type": "object" },
    ]);
    let file = lab.workflow(&typed);
    lab.call(&["run", &file])
        .with(2)
        .says("/count")
        .says("is required");
    lab.call(&["run", &file, "-i", "count=many"])
        .with(2)
        .says("/count")
        .says("count=42");
    lab.call(&["run", &file, "-i", "count=1", "-i", "lable=x"])
        .with(2)
        .says("did you mean `label`");
    lab.write("inputs.json", "{\"count\": \"1\"}");
    lab.call(&["run", &file, "--input-file", "inputs.json"])
        .with(2)
        .says("/count");
    lab.write("inputs.json", "[1]");
    lab.call(&["run", &file, "--input-file", "inputs.json"])
        .with(2)
        .says("must be a JSON object");
    lab.write("inputs.json", "{\"count\": 1, \"count\": 2}");
    lab.call(&["run", &file, "--input-file", "inputs.json"])
        .with(2)
        .says("/count");
    assert!(
        !lab.path().join(".runwright").exists(),
        "nothing is written"
    );

    lab.write("inputs.json", "{\"count\": 1, \"label\": \"file\"}");
    lab.call(&[
        "run",
        &file,
        "--input-file",
        "inputs.json",
        "-i",
        "label=1.50",
        "-i",
        "flags={\"a\":1}",
    ])
    .with(0);
    let variables = &lab.events("last")[0]["payload"];
    let inputs = variables["inputs"].clone();
    let expected: Value = json!({ "count": 1, "label": "1.50", "flags": { "a": 1 } });
    assert_eq!(
        inputs, expected,
        "text stays text, the command line is stronger"
    );
}

#[test]
fn validate_reports_each_file_for_programs() {
    let lab = Lab::new();
    let good = lab.workflow(&one_script("good", "true"));
    lab.write("bad.json", "{\"id\": 1}");
    let ended = lab
        .call(&["workflow", "validate", &good, "bad.json", "--json"])
        .with(1);
    let lines = ended.json_lines();
    assert_eq!(lines[0]["valid"], true);
    assert_eq!(lines[0]["workflowId"], "good");
    assert_eq!(lines[1]["valid"], false);
    assert!(
        lines[1]["problems"]
            .as_array()
            .is_some_and(|problems| problems.len() > 3)
    );
    assert!(
        lines[1]["problems"][0]["path"].is_string() && lines[1]["problems"][0]["code"].is_string()
    );
}

#[test]
fn a_working_directory_outside_the_project_is_rejected_at_use() {
    let lab = Lab::new();
    for (name, cwd) in [("up", "../.."), ("root", "/etc"), ("gone", "not/there")] {
        let step = node(
            "step",
            "runwright.process",
            json!({ "argv": ["sh", "-c", "echo ran >> ran"], "cwd": cwd }),
        );
        let file = lab.workflow(&workflow(name, &[step], &[]));
        lab.call(&["run", &file])
            .with(1)
            .says("working_directory_unusable");
    }
    assert_eq!(lab.read("ran"), "");
}

#[test]
fn control_nodes_list_their_config_fields() {
    let lab = Lab::new();
    let shown = lab.call(&["workflow", "nodes", "core.delay"]).with(0);
    shown
        .prints("CONFIG KEY")
        .prints("Milliseconds to wait.")
        .prints("durationMs");
    let all = lab.call(&["workflow", "nodes", "--json"]).with(0);
    for node in all.json_lines() {
        let id = &node["typeId"];
        assert_eq!(node["configSchema"]["type"], "object", "{id}");
        let keys = node["configSchema"]["properties"].as_object();
        let has_keys = keys.is_some_and(|keys| !keys.is_empty());
        assert!(node["kind"] == "work" || has_keys, "{id}");
    }
}

#[test]
fn a_graph_comes_as_json_too() {
    let lab = Lab::new();
    let noop = |id: &str| node(id, "core.noop", json!({}));
    let file = lab.workflow(&workflow("two", &[noop("a"), noop("b")], &[("a", "b")]));
    let graph = lab
        .call(&["workflow", "graph", &file, "--json"])
        .with(0)
        .json();
    assert_eq!(graph["workflowId"], "two");
    assert_eq!(graph["nodes"][1]["id"], "b");
    assert_eq!(graph["nodes"][1].get("status"), None);
    assert_eq!(graph["edges"][0]["sourceNodeId"], "a");
    lab.call(&["run", &file]).with(0);
    let graph = lab.call(&["workflow", "graph", "--run", "last", "--json"]);
    let graph = graph.with(0).json();
    assert_eq!(graph["status"], "completed");
    assert_eq!(graph["nodes"][1]["status"], "completed");
    lab.call(&["workflow", "graph", &file, "--json", "-f", "svg"])
        .with(2)
        .says("remove one of them");
    let refused = lab.call(&["completions", "bash", "--json"]).with(2);
    assert_eq!(refused.says("remove --json").stdout, "");
}

//! Sensitive values of a workflow, at a terminal and in the files of the store.

use std::path::Path;

use serde_json::json;

use crate::support::Lab;

/// Inputs, and a program's output that the definition does not contain.
const CANARIES: [&str; 3] = ["canary-in", "canary-out", "canary-err"];

fn holds(folder: &Path, canary: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holds(&path, canary));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let is_there = bytes
                .windows(canary.len())
                .any(|part| part == canary.as_bytes());
            found.extend(is_there.then(|| path.display().to_string()));
        }
    }
    found
}

#[test]
fn a_sensitive_value_is_given_on_and_neither_printed_nor_stored() {
    let lab = Lab::new();
    let node = |id: &str, type_id: &str, config: serde_json::Value, inputs: serde_json::Value| {
        json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
            "config": config, "inputs": inputs })
    };
    let script = "printf '%s-%s' canary out; printf '%s-%s' canary err >&2";
    let mut makes = node(
        "makes",
        "runwright.process",
        json!({ "argv": ["sh", "-c", script] }),
        json!({}),
    );
    makes["outputSensitivity"] = json!({ "stdout": true, "stderr": true });
    let out = json!({ "type": "connection", "nodeId": "makes", "outputKey": "stdout" });
    let counts = node(
        "counts",
        "runwright.process",
        json!({ "argv": ["sh", "-c", "wc -c"], "stdin": { "input": "it" } }),
        json!({ "it": out }),
    );
    let mut copies = node(
        "copies",
        "runwright.transform",
        json!({ "outputs": { "same": "inputs.it + '!'" } }),
        json!({ "it": { "type": "variable", "variableName": "pin" } }),
    );
    copies["outputSensitivity"] = json!({ "same": true });
    let sensitive = |name: &str| json!({ "name": name, "type": "string", "sensitive": true });
    let flow = json!({
        "id": "safe", "name": "safe", "version": "1.0.0",
        "nodes": [
            makes, counts, copies,
            node("writes", "core.channelWrite", json!({ "channel": "found" }), json!({ "value": out })),
            node("sets", "core.setVariable", json!({ "name": "kept" }), json!({ "value": out })),
        ],
        "edges": [
            { "id": "1", "sourceNodeId": "makes", "targetNodeId": "counts" },
            { "id": "2", "sourceNodeId": "counts", "targetNodeId": "copies" },
            { "id": "3", "sourceNodeId": "copies", "targetNodeId": "writes" },
            { "id": "4", "sourceNodeId": "writes", "targetNodeId": "sets" },
        ],
        "triggers": [], "metadata": {}, "settings": {},
        "channels": { "found": { "reducer": "append", "sensitive": true } },
        "variables": [sensitive("pin"), sensitive("kept")],
    });
    lab.write("safe.json", flow.to_string());
    let ran = lab.call(&[
        "run",
        "safe.json",
        "--input",
        "pin=canary-in",
        "--data",
        "store",
    ]);
    let ran = ran.with(0).prints("[REDACTED]");
    let shown = lab
        .call(&["runs", "show", "last", "--data", "store", "--json"])
        .with(0);
    let told = lab
        .call(&["events", "last", "--data", "store", "--json"])
        .with(0);
    let lines = lab.call(&["events", "last", "--data", "store"]).with(0);
    // The next program received the ten original bytes.
    assert_eq!(
        shown.json()["nodeStates"]["counts"]["outputs"]["stdout"]
            .as_str()
            .unwrap()
            .trim(),
        "10"
    );
    for printed in [&ran, &shown, &told, &lines] {
        for hidden in CANARIES.iter().chain(&["$sealed"]) {
            assert!(
                !printed.stdout.contains(hidden),
                "{hidden}: {}",
                printed.stdout
            );
            assert!(
                !printed.stderr.contains(hidden),
                "{hidden}: {}",
                printed.stderr
            );
        }
    }
    for canary in CANARIES {
        assert_eq!(
            holds(&lab.path().join("store"), canary),
            [""; 0],
            "{canary}"
        );
    }
}

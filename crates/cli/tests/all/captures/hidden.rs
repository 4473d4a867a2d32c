//! A replay of a run reports, keeps and exports neither secrets nor values that the workflow hides.

use serde_json::{Value, json};

use super::secrets::files;
use crate::support::*;

const SECRET: &str = "hunter2-Zx9/Qq+7";

/// A call in an environment that knows the secret.
fn call(lab: &Lab, args: &[&str]) -> Ended {
    let mut command = lab.command(args);
    command.env("DB_PASSWORD", SECRET).output().unwrap().into()
}

/// All results of a replay: its output in both forms, its records, the bundle of its snapshot, and
/// that bundle imported elsewhere.
fn everything(lab: &Lab, kind: &str) -> (Value, Vec<(String, Vec<u8>)>) {
    let replay = ["snapshot", "replay", "latest", "--kind", kind];
    let shown = call(lab, &replay).with_any(&[0, 1, 3]);
    let json = call(lab, &[&replay[..], &["--json"]].concat()).with_any(&[0, 1, 3]);
    let report = json.json();
    let args = ["snapshot", "validate", "latest", "--runs", "2", "--json"];
    // A run with a changed log can only be folded again.
    let validated = call(lab, &args).with_any(&[0, 1, 2, 3]);
    let bundle = ["snapshot", "export", "latest", "--format", "bundle"];
    let bundle = call(lab, &bundle).with(0).stdout;
    lab.write("bundle.json", &bundle);
    call(
        lab,
        &["snapshot", "import", "bundle.json", "--root", "there"],
    )
    .with(0);
    let mut all = files(&lab.path().join(".aiwg"));
    all.extend(files(&lab.path().join("there/.aiwg")));
    for (name, ended) in [("text", shown), ("json", json), ("validate", validated)] {
        all.push((name.to_owned(), ended.stdout.into_bytes()));
        all.push((format!("{name}, stderr"), ended.stderr.into_bytes()));
    }
    all.push(("bundle".to_owned(), bundle.into_bytes()));
    let is_record = |(name, _): &&(String, Vec<u8>)| name.ends_with(".replays.jsonl");
    assert_eq!(all.iter().filter(is_record).count(), 2, "here and there");
    (report, all)
}

fn holds_none(all: &[(String, Vec<u8>)], hidden: &[&str]) {
    for (name, bytes) in all {
        let text = String::from_utf8_lossy(bytes);
        for hidden in hidden {
            assert!(!text.contains(hidden), "{hidden} in {name}: {text}");
        }
    }
}

#[test]
fn a_divergence_of_a_run_tells_no_secret() {
    let lab = Lab::new();
    lab.write("count", "");
    let text = "echo connecting ${inputs.url}; echo x >> count; wc -l < count";
    let mut document = one_script("w", text);
    document["variables"] = json!([{ "name": "url", "type": "string" }]);
    document["nodes"][0]["inputs"] =
        json!({ "url": { "type": "variable", "variableName": "url" } });
    let file = lab.workflow(&document);
    // The secret in the address is still unknown here.
    let input = format!("url=postgres-at {SECRET} host");
    lab.call(&["run", &file, "--input", &input]).with(0);
    call(&lab, &["snapshot", "capture", "--run", "last"]).with(0);
    for kind in ["rerun", "env"] {
        let (report, all) = everything(&lab, kind);
        let found = &report["first_divergence"];
        assert_eq!(found["reason"], "other_result", "{report}");
        let said = found["expected"]["input"]["outputs"]["stdout"].as_str();
        assert!(
            said.unwrap()
                .starts_with("connecting postgres-at [REDACTED:DB_PASSWORD] host"),
            "both sides are shown without it: {report}"
        );
        holds_none(&all, &[SECRET]);
    }
}

#[test]
fn a_divergence_of_a_run_tells_nothing_that_the_workflow_hides() {
    let lab = Lab::new();
    lab.write("count", "");
    let hidden = "echo x >> count; printf 'canary-%s' out; echo canary-err >&2; wc -l < count";
    let mut makes = script("makes", hidden);
    makes["outputSensitivity"] = json!({ "stdout": true, "stderr": true });
    let mut tells = script("tells", "wc -l < count");
    tells["inputs"] = json!({
        "pin": { "type": "variable", "variableName": "pin" },
        "made": { "type": "connection", "nodeId": "makes", "outputKey": "stdout" },
    });
    // A value that the kernel makes from a hidden one is stored unsealed in the log.
    let joined = node(
        "joined",
        "runwright.transform",
        json!({ "outputs": { "both": "inputs.pin + '!'" } }),
    );
    let mut joined = joined;
    joined["inputs"] = json!({ "pin": { "type": "variable", "variableName": "pin" } });
    joined["outputSensitivity"] = json!({ "both": true });
    let mut fails = script(
        "fails",
        "echo canary-told; echo canary-err >&2; exit $(wc -l < count)",
    );
    fails["outputSensitivity"] = json!({ "stdout": true, "stderr": true });
    fails["inputs"] = json!({
        "both": { "type": "connection", "nodeId": "joined", "outputKey": "both" },
    });
    let nodes = [makes, joined, tells, fails];
    let edges = [("makes", "joined"), ("joined", "tells"), ("tells", "fails")];
    let mut document = workflow("hides", &nodes, &edges);
    document["variables"] = json!([{ "name": "pin", "type": "string", "sensitive": true }]);
    let file = lab.workflow(&document);
    lab.call(&["run", &file, "--input", "pin=canary-in"])
        .with_any(&[1]);
    call(&lab, &["snapshot", "capture", "--run", "last"]).with(0);
    for kind in ["rerun", "env", "verify"] {
        let (report, all) = everything(&lab, kind);
        if kind != "verify" {
            // A sealed value changes each time, and is not a difference by itself.
            let found = &report["first_divergence"];
            assert_eq!(found["actual"]["name"], "tells/0/0", "{report}");
        }
        holds_none(&all, &["canary", "$sealed"]);
    }
}

#[test]
fn a_diverging_event_is_reported_in_masked_form() {
    let lab = Lab::new();
    let mut document = one_script("w", "echo hi");
    document["variables"] = json!([
        { "name": "limit", "type": "string", "defaultValue": "canary-a", "sensitive": true },
        { "name": "shown", "type": "string", "defaultValue": SECRET },
        { "name": "other", "type": "number", "defaultValue": 1234 },
    ]);
    let file = lab.workflow(&document);
    lab.call(&["run", &file, "--detach"]).with(0);
    call(&lab, &["snapshot", "capture", "--run", "last"]).with(0);
    crate::forks::forge(&lab, "\"other\":1234", "\"other\":9999");
    let (report, all) = everything(&lab, "verify");
    let found = &report["first_divergence"];
    assert_eq!(found["actual"]["name"], "run.started", "{report}");
    assert!(
        found["actual"]["input"].to_string().contains("1234"),
        "{report}"
    );
    holds_none(&all, &["canary", SECRET, "$sealed"]);
}

//! Comparing runs, their origin, annotations, and bundles: on a store and on a server alike.

use serde_json::{Value, json};

use crate::serving::Serving;
use crate::support::*;

/// The target of a command: the store of the lab, or a server on the same store.
enum Way {
    Store,
    Server(Serving),
}

impl Way {
    fn call(&self, lab: &Lab, args: &[&str]) -> Ended {
        let mut command = lab.command(args);
        if let Self::Server(serving) = self {
            command.env("RUNWRIGHT_SERVER", &serving.url);
        }
        command.output().unwrap().into()
    }
}

fn ways(lab: &Lab) -> [Way; 2] {
    let serving = Serving::at(lab, ".runwright", &["--dev"]);
    [Way::Store, Way::Server(serving)]
}

fn ran(lab: &Lab, id: &str, text: &str, code: i32) -> String {
    let file = lab.workflow(&one_script(id, text));
    lab.call(&["run", &file]).with(code);
    lab.last_run()
}

#[test]
fn two_runs_are_compared_alike_by_store_and_server() {
    let lab = Lab::new();
    let good = ran(&lab, "good", "echo hi", 0);
    let bad = ran(&lab, "bad", "echo hi; exit 3", 1);
    let replay = lab
        .call(&["runs", "fork", &good, "--mode", "replay"])
        .with(0);
    let replay = replay.stdout.trim().to_owned();
    let mut told = Vec::new();
    for way in ways(&lab) {
        let call = |args: &[&str]| way.call(&lab, args);
        call(&["runs", "diff", &good, &replay])
            .with(0)
            .prints("the same events");
        let json = call(&["runs", "diff", &good, &bad, "--json"])
            .with(1)
            .json();
        assert_eq!(json["divergedAtSeq"], 0);
        assert_eq!(
            json["stateDiff"]["status"],
            json!({ "a": "completed", "b": "failed" })
        );
        let text = call(&["runs", "diff", &good, &bad]).with(1);
        let text = text
            .prints("different from event 0 on")
            .prints("status: \"completed\"");
        told.push((json, text.stdout));
        call(&["runs", "diff", &good, "nowhere"]).with(2);
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_run_is_followed_to_where_it_comes_from() {
    let lab = Lab::new();
    let child = lab.workflow(&one_script("child", "echo hi"));
    let start = node(
        "start",
        "core.subWorkflow",
        json!({ "workflowId": "child" }),
    );
    let file = lab.workflow(&workflow("parent", &[start], &[]));
    lab.call(&["run", &file, "--with", &child]).with(0);
    let listed = lab.call(&["runs", "list", "--json"]).with(0).json_lines();
    let of = |workflow: &str| {
        let found = listed.iter().find(|run| run["workflowId"] == workflow);
        found.unwrap()["runId"].as_str().unwrap().to_owned()
    };
    let (child, parent) = (of("child"), of("parent"));
    let replay = lab
        .call(&["runs", "fork", &child, "--mode", "replay"])
        .with(0);
    let replay = replay.stdout.trim().to_owned();
    let mut told = Vec::new();
    for way in ways(&lab) {
        let steps = way
            .call(&lab, &["runs", "ancestry", &replay, "--json"])
            .with(0);
        let steps = steps.json_lines();
        let runs: Vec<&Value> = steps.iter().map(|step| &step["runId"]).collect();
        assert_eq!(runs, [&json!(replay), &json!(child), &json!(parent)]);
        assert_eq!(steps[0]["forkedFrom"]["mode"], "replay");
        assert_eq!(steps[1]["parentNodeId"], "start");
        let text = way.call(&lab, &["runs", "ancestry", &replay]).with(0);
        let text = text.prints("replay of").prints("started by node start of");
        told.push((steps, text.stdout));
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn notes_from_store_and_server_are_listed_together() {
    let lab = Lab::new();
    let run = ran(&lab, "w", "echo hi", 0);
    let events = lab.events(&run);
    for (way, rating) in ways(&lab).into_iter().zip(["4", "2"]) {
        let call = |args: &[&str]| way.call(&lab, args);
        let said = call(&[
            "runs", "note", &run, "--rating", rating, "--node", "step", "--json",
        ]);
        let said = said.with(0).json();
        assert_eq!(said["target"], json!({ "runId": run, "nodeId": "step" }));
        call(&[
            "runs", "note", &run, "--flag", "--event", "0", "--note", "look",
        ])
        .with(0)
        .prints("flag")
        .prints("look");
        call(&["runs", "note", &run, "--label", "slow", "--flag"]).with(2);
        call(&["runs", "note", &run, "--rating", "6"]).with(2);
        call(&["runs", "note", &run, "--note", "of nothing"]).with(2);
        call(&["runs", "note", &run, "--flag", "--node", "nowhere"]).with(2);
        call(&["runs", "note", &run, "--flag", "--event", "999"]).with(2);
    }
    let all = lab
        .call(&["runs", "note", &run, "--json"])
        .with(0)
        .json_lines();
    let kinds: Vec<&Value> = all.iter().map(|said| &said["signal"]["kind"]).collect();
    assert_eq!(kinds, ["rating", "flag", "rating", "flag"]);
    assert_eq!(lab.events(&run), events, "the log is what it was");
    lab.call(&["verify"]).with(0);
    lab.call(&["runs", "purge", &run, "--yes"]).with(0);
    lab.call(&["verify"]).with(0);
}

#[test]
fn a_bundle_is_the_same_from_store_and_server() {
    let lab = Lab::new();
    let run = ran(&lab, "w", "echo hi", 0);
    lab.call(&["runs", "note", &run, "--flag"]).with(0);
    let mut told = Vec::new();
    for way in ways(&lab) {
        let bundle = way.call(&lab, &["runs", "bundle", &run]).with(0);
        let mut bundle = bundle.json();
        assert_eq!(
            bundle["events"].as_array().unwrap().len(),
            lab.events(&run).len()
        );
        assert_eq!(bundle["annotations"].as_array().unwrap().len(), 1);
        let cut = way
            .call(&lab, &["runs", "bundle", &run, "--max-events", "2"])
            .with(0);
        assert_eq!(cut.json()["metrics"]["eventCount"], 2);
        bundle["generatedAt"].take();
        told.push(bundle);
    }
    assert_eq!(told[0], told[1]);
    let save = ["runs", "bundle", &run, "--output", "run.json"];
    lab.call(&save).with(0).says("run.json");
    lab.call(&save).with(2).says("exists already");
    let saved: Value = serde_json::from_str(&lab.read("run.json")).unwrap();
    assert_eq!(saved["run"]["runId"], run.as_str());
}

#[test]
fn a_server_forks_for_the_command_line() {
    let lab = Lab::new();
    let run = ran(&lab, "w", "echo ran >> ran", 0);
    let [store, way] = ways(&lab);
    let replay = way
        .call(&lab, &["runs", "fork", &run, "--mode", "replay"])
        .with(0);
    assert!(replay.stdout.starts_with("run-"));
    assert_eq!(lab.read("ran"), "ran\n");
    let branch = way.call(
        &lab,
        &["runs", "fork", &run, "--at", "1", "--tag", "b", "--json"],
    );
    let lines = branch.with(0).json_lines();
    let snapshot = lines.last().unwrap();
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(snapshot["tags"], json!(["b"]));
    assert_eq!(lab.read("ran"), "ran\nran\n");
    way.call(&lab, &["runs", "fork", &run, "--at", "999"])
        .with(2)
        .says("fork_beyond_log");
    for way in [&store, &way] {
        let nowhere = way.call(&lab, &["runs", "fork", &run, "--detach"]).with(2);
        nowhere.says("ended with event").says("--at 0 starts again");
    }
}

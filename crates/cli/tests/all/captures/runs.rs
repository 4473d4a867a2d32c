//! Snapshots of runs of every face, replayed as forks by the engine.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::peer::{Came, Peer};
use crate::forks::forge;
use crate::support::*;

/// A streamed answer of a model.
pub(super) fn streams(text: &str) -> Value {
    let piece = json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": { "content": text } }] });
    let end = json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let usage = json!({ "id": "c", "model": "m", "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4 } });
    json!({ "sse": format!("data: {piece}\n\ndata: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n") })
}

/// A project whose workflow runs a program, calls a service, asks a model about both results, and
/// runs another program with the model's answer.
struct Works {
    lab: Lab,
    peer: Peer,
}

impl Works {
    fn new(answer: impl Fn(&str, &Came) -> String + Send + Sync + 'static) -> Self {
        let peer = Peer::start(move |_, came| match came.path.as_str() {
            "/v1/chat/completions" => streams(&answer("model", came)),
            _ => json!({ "body": { "said": answer("service", came) } }),
        });
        let lab = Lab::new();
        peer.provides(&lab);
        lab.write("version", "1");
        let mut ask = node(
            "ask",
            "core.ai.chatCompletion",
            json!({ "prompt": "Weigh ${inputs.count} and ${inputs.said}." }),
        );
        ask["inputs"] = json!({
            "count": { "type": "connection", "nodeId": "count", "outputKey": "stdout" },
            "said": { "type": "connection", "nodeId": "fetch", "outputKey": "json" },
        });
        let mut tell = node(
            "tell",
            "runwright.process",
            json!({ "argv": ["sh", "-euc", "echo ran >> told; echo \"told $1\"", "sh", "${inputs.words}"] }),
        );
        tell["inputs"] = json!({
            "words": { "type": "connection", "nodeId": "ask", "outputKey": "content" },
        });
        let fetch = node(
            "fetch",
            "runwright.http",
            json!({ "method": "POST", "url": format!("http://{}/service", peer.address), "body": "{}" }),
        );
        lab.workflow(&workflow(
            "works",
            &[
                script("count", "echo ran >> counted; cat version"),
                fetch,
                ask,
                tell,
            ],
            &[("count", "ask"), ("fetch", "ask"), ("ask", "tell")],
        ));
        Self { lab, peer }
    }

    /// The program with access to the peer.
    fn call(&self, args: &[&str]) -> Ended {
        let more = self.peer.options();
        let args: Vec<&str> = args.iter().chain(&more).copied().collect();
        self.lab.call(&args)
    }

    /// Runs the workflow and captures it.
    fn captured(&self) -> Value {
        self.call(&["run", "works.json"]).with(0);
        self.lab
            .call(&["snapshot", "capture", "--run", "last"])
            .with(0);
        let shown = self.lab.call(&["snapshot", "show", "latest", "--json"]);
        shown.with(0).json()
    }

    fn replay(&self, kind: &str, code: i32) -> Value {
        let args = ["snapshot", "replay", "latest", "--kind", kind, "--json"];
        self.call(&args).with(code).json()
    }

    /// The number of calls of the first program, the service, the model and the second program.
    fn effects(&self) -> [usize; 4] {
        let came = self.peer.came();
        let asked = |model: bool| {
            let is_model = |came: &&Came| (came.path == "/v1/chat/completions") == model;
            came.iter().filter(is_model).count()
        };
        let ran = |file: &str| self.lab.read(file).lines().count();
        [ran("counted"), asked(false), asked(true), ran("told")]
    }
}

#[test]
fn four_replay_kinds_call_only_their_live_services() {
    let works = Works::new(|who, _| format!("{who} says yes"));
    let snapshot = works.captured();
    assert_eq!(snapshot["config"]["model"]["provider"], "small");
    assert_eq!(snapshot["metrics"]["iterations"], 1);
    assert_eq!(works.effects(), [1, 1, 1, 1]);
    for (kind, live, effects) in [
        ("verify", [0, 0], [1, 1, 1, 1]),
        ("model", [1, 0], [1, 1, 2, 1]),
        ("env", [0, 3], [2, 2, 2, 2]),
        ("rerun", [1, 3], [3, 3, 3, 3]),
    ] {
        let report = works.replay(kind, 0);
        assert_eq!(report["match_status"], "exact_match", "{kind}: {report}");
        assert_eq!(
            report["live"],
            json!({ "models": live[0], "tools": live[1] }),
            "{kind}"
        );
        assert_eq!(report["first_divergence"], Value::Null, "{kind}: {report}");
        assert_eq!(report["run_status"], "completed");
        assert_eq!(works.effects(), effects, "{kind}");
    }
    let shown = works
        .lab
        .call(&["snapshot", "show", "latest", "--json"])
        .json();
    assert_eq!(shown["replay_status"]["replay_count"], 4);
    works.lab.call(&["snapshot", "verify", "--strict"]).with(0);
    // Each is a run of its own that names its origin.
    let run = snapshot["extensions"]["run_id"].as_str().unwrap();
    let lineage = works
        .lab
        .call(&["runs", "list", "--tag", "replay", "--json"]);
    assert_eq!(lineage.with(0).json_lines().len(), 3);
    for line in works
        .lab
        .call(&["runs", "list", "--tag", "replay", "--json"])
        .json_lines()
    {
        let shown = works
            .lab
            .call(&["runs", "show", line["runId"].as_str().unwrap(), "--json"]);
        assert!(
            shown.with(0).stdout.contains(run),
            "it leads back to its source"
        );
    }
    works.lab.call(&["verify"]).with(0);
}

#[test]
fn where_a_run_leaves_its_recording_is_named_at_the_step() {
    let works = Works::new(|who, came| match who {
        "model" if came.body["messages"].to_string().contains("Weigh 2") => "two".to_owned(),
        "model" => "one".to_owned(),
        _ => "yes".to_owned(),
    });
    works.captured();
    // The environment changed: the program has another output, so the prompt for the model, which
    // is served, is not in the recording.
    works.lab.write("version", "2");
    let report = works.replay("env", 3);
    let found = &report["first_divergence"];
    assert_eq!(
        (&found["reason"], &found["at"]),
        (&json!("changed"), &json!("/count")),
        "{report}"
    );
    assert_eq!(found["actual"]["name"], "ask/0/0");
    assert_eq!(
        (
            &found["expected"]["input"]["count"],
            &found["actual"]["input"]["count"]
        ),
        (&json!("1"), &json!("2")),
        "both sides are shown"
    );
    assert_eq!(found["step"], found["recorded_step"]);
    assert_eq!(report["pass"], false);
    assert_eq!(works.effects()[2..], [1, 1], "nothing behind it is done");
    // With the program served from the recording, its old answer counts.
    assert_eq!(works.replay("model", 0)["match_status"], "exact_match");
    // The live run takes another way and has another result: a difference, not a divergence.
    let args = ["snapshot", "replay", "latest", "--kind", "rerun", "--json"];
    let semantic: Vec<&str> = args
        .iter()
        .chain(&["--strategy", "semantic"])
        .copied()
        .collect();
    let report = works.call(&semantic).with(1).json();
    assert_eq!(report["match_status"], "partial_match", "{report}");
    let found = &report["first_divergence"];
    assert_eq!(found["reason"], "other_result", "{report}");
    assert_eq!(found["actual"]["name"], "count/0/0");
    assert_eq!(
        found["message"].as_str().unwrap(),
        format!(
            "step {}: node count (runwright.process) had another result at /outputs/stdout",
            found["step"]
        )
    );
    let args = ["snapshot", "validate", "latest", "--runs", "2", "--json"];
    // The strategy decides: the shape is the same, the text is not.
    let report = works.call(&args).with(0).json();
    assert_eq!(report["verdict"], "WARNING", "{report}");
    let args: Vec<&str> = args
        .iter()
        .chain(&["--strategy", "exact"])
        .copied()
        .collect();
    let report = works.call(&args).with(1).json();
    assert_eq!(report["verdict"], "FAIL", "{report}");
}

#[test]
fn a_different_model_answer_ends_the_replay_at_its_tool() {
    let asked = AtomicUsize::new(0);
    let works = Works::new(move |who, _| match who {
        "model" => format!("answer {}", asked.fetch_add(1, Ordering::SeqCst)),
        _ => "yes".to_owned(),
    });
    works.captured();
    let report = works.replay("model", 3);
    let found = &report["first_divergence"];
    assert_eq!(
        (&found["reason"], &found["actual"]["name"], &found["at"]),
        (&json!("changed"), &json!("tell/0/0"), &json!("/words")),
        "{report}"
    );
    assert_eq!(works.effects(), [1, 1, 2, 1]);
    assert_eq!(
        report["match_status"], "no_match",
        "it ended there: {report}"
    );
}

#[test]
fn a_diverging_log_is_reported_at_its_event() {
    let lab = Lab::new();
    let mut document = one_script("w", "echo hi");
    document["variables"] = json!([{ "name": "limit", "type": "number", "defaultValue": 1234 }]);
    let file = lab.workflow(&document);
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["snapshot", "capture", "--run", "last"]).with(0);
    let replay = ["snapshot", "replay", "latest", "--json"];
    forge(&lab, "\"limit\":1234", "\"limit\":9999");
    let report = lab.call(&replay).with(3).json();
    let found = &report["first_divergence"];
    assert_eq!(
        (&found["step"], &found["actual"]["name"]),
        (&json!(0), &json!("run.started")),
        "{report}"
    );
    assert!(found["expected"]["input"].to_string().contains("9999"));
    assert!(found["actual"]["input"].to_string().contains("1234"));
}

#[test]
fn recorded_human_answers_are_replayed_and_missing_ones_not() {
    let lab = Lab::new();
    let gate = node(
        "gate",
        "core.approvalGate",
        json!({ "requiredApprovals": 2, "approversList": ["ada", "bob"] }),
    );
    let nodes = [gate, script("after", "echo ran >> ran; echo done")];
    let file = lab.workflow(&workflow("asks", &nodes, &[("gate", "after")]));
    lab.call(&["run", &file, "--detach"]).with(0);
    let run = lab.last_run();
    lab.call(&["resume"]);
    lab.call(&["snapshot", "capture", "--run", "last", "--name", "waiting"])
        .with(0);
    let rerun = ["snapshot", "replay", "latest", "--kind", "rerun", "--json"];
    let report = lab.call(&rerun[..3]).with(3);
    report.says("not_comparable");
    let report = lab.call(&rerun).with(3).json();
    assert_eq!(
        report["error"]["code"], "waits",
        "nobody has answered: {report}"
    );
    for who in ["ada", "bob"] {
        let accept = ["--action", "accept", "--as", who];
        let args: Vec<&str> = ["runs", "resolve", &run, "gate"]
            .into_iter()
            .chain(accept)
            .collect();
        lab.call(&args).with(0);
    }
    lab.call(&["resume"]).with(0);
    // The run continued: another snapshot, which names the earlier one.
    let capture = ["snapshot", "capture", "--run", &run, "--json"];
    let made = lab.call(&capture).with(0).json();
    assert_eq!(made["new"], true);
    let shown = |name: &str| {
        lab.call(&["snapshot", "show", name, "--json"])
            .with(0)
            .json()
    };
    let (first, second) = (shown("waiting"), shown("latest"));
    assert_ne!(first["snapshot_id"], second["snapshot_id"]);
    assert_eq!(second["extensions"]["follows"], first["snapshot_id"]);
    // A repeated capture gives the same file, and reports this.
    let again = lab.call(&capture).with(0).says("has no new event");
    let again = again.json();
    assert_eq!(
        (&again["path"], &again["new"]),
        (&made["path"], &json!(false))
    );
    let listed = lab.call(&["snapshot", "list", "--json"]).json();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 2);

    let report = lab.call(&rerun).with(0).json();
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(lab.read("ran").lines().count(), 2);
    // Options for commands are rejected for runs.
    for odd in [&["--in-place"][..], &["--on-miss", "live"], &["--", "true"]] {
        let args: Vec<&str> = rerun[..3].iter().chain(odd).copied().collect();
        lab.call(&args)
            .with(2)
            .says("are only for snapshots of commands");
    }
}

#[test]
fn a_killed_replay_is_discarded_and_not_continued() {
    let lab = Lab::new();
    let text = "echo ran >> ran; if [ -e wait ]; then read -r _ < gate; fi; echo done";
    let file = lab.workflow(&one_script("w", text));
    lab.call(&["run", &file]).with(0);
    lab.call(&["snapshot", "capture", "--run", "last"]).with(0);
    lab.write("wait", "");
    let _gate = lab.gate("gate");
    let rerun = ["snapshot", "replay", "latest", "--kind", "rerun", "--json"];
    let null = std::process::Stdio::null;
    let mut command = lab.command(&rerun);
    let mut child = command.stdout(null()).stderr(null()).spawn().unwrap();
    let ran = || lab.read("ran").lines().count();
    while ran() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it waits at the gate");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    lab.wait_until_quiet();
    std::fs::remove_file(lab.path().join("wait")).unwrap();
    // Resuming interrupted runs leaves it alone.
    lab.call(&["resume"]);
    assert_eq!(ran(), 2);
    let shown = lab.call(&["snapshot", "show", "latest", "--json"]).json();
    assert_eq!(shown["replay_status"]["match_status"], "not_replayed");
    lab.call(&["snapshot", "verify", "--strict"]).with(0);
    let report = lab.call(&rerun).with(0).json();
    assert_eq!(
        (
            &report["match_status"],
            &report["replay_status"]["replay_count"]
        ),
        (&json!("exact_match"), &json!(1))
    );
    assert_eq!(ran(), 3);
    lab.call(&["verify"]).with(0);
}

//! Runs with child runs, replayed as families.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::peer::Peer;
use super::runs::streams;
use crate::support::*;

/// A supervisor that sends two workers at once. Each of them starts a child run, asks a model about
/// its result, asks a person, and runs a program.
struct Team {
    lab: Lab,
    peer: Peer,
    run: String,
}

impl Team {
    fn new(answer: impl Fn() -> String + Send + Sync + 'static) -> Self {
        let peer = Peer::start(move |_, _| streams(&answer()));
        let lab = Lab::new();
        peer.provides(&lab);
        lab.write("version", "1");
        let inner = script("inner", "echo ran >> counted; cat version");
        lab.workflow(&workflow("deep", &[inner], &[]));
        let nested = node(
            "nested",
            "core.subWorkflow",
            json!({ "workflowId": "deep" }),
        );
        let mut ask = node(
            "ask",
            "core.ai.chatCompletion",
            json!({ "prompt": "Weigh ${inputs.count}." }),
        );
        ask["inputs"] =
            json!({ "count": { "type": "connection", "nodeId": "count", "outputKey": "stdout" } });
        let mut tell = node(
            "tell",
            "runwright.process",
            json!({ "argv": ["sh", "-euc", "echo ran >> told; echo \"told $1\"", "sh", "${inputs.words}"] }),
        );
        tell["inputs"] =
            json!({ "words": { "type": "connection", "nodeId": "ask", "outputKey": "content" } });
        let gate = node("gate", "core.approvalGate", json!({}));
        let count = script("count", "cat version");
        let edges = [
            ("nested", "count"),
            ("count", "ask"),
            ("ask", "gate"),
            ("gate", "tell"),
        ];
        for worker in ["left", "right"] {
            lab.workflow(&workflow(
                worker,
                &[
                    nested.clone(),
                    count.clone(),
                    ask.clone(),
                    gate.clone(),
                    tell.clone(),
                ],
                &edges,
            ));
        }
        let decisions = json!([
            { "kind": "next-worker", "nextWorkerIds": ["left", "right"] },
            { "kind": "terminate", "reason": "done" },
        ]);
        let boss = node(
            "boss",
            "core.orchestrator.supervisor",
            json!({ "decisions": decisions }),
        );
        let go = node("go", "core.dispatch", json!({ "fanOutPolicy": "parallel" }));
        lab.workflow(&workflow(
            "team",
            &[boss, go],
            &[("boss", "go"), ("go", "boss")],
        ));
        let mut team = Self {
            lab,
            peer,
            run: String::new(),
        };
        team.call(&[
            "run",
            "team.json",
            "--with",
            "left.json",
            "--with",
            "right.json",
            "--with",
            "deep.json",
            "--detach",
        ])
        .with(0);
        team.run = team.lab.last_run();
        let resumed = team.call(&["resume"]);
        let asking = team.lab.call(&["runs", "interrupts", "--json"]).with(0);
        let asking = asking.json_lines();
        assert_eq!(asking.len(), 2, "{asking:?}: {resumed:?}");
        for asked in asking {
            let run = asked["runId"].as_str().unwrap();
            team.call(&["runs", "resolve", run, "gate", "--action", "accept"])
                .with(0);
        }
        team.call(&["resume"]).with(0);
        team.lab
            .call(&["snapshot", "capture", "--run", &team.run])
            .with(0);
        team
    }

    fn call(&self, args: &[&str]) -> Ended {
        let asks = ["run", "resume", "snapshot"].contains(&args[0]);
        let more = self.peer.options();
        let more = if asks { &more[..] } else { &[] };
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        self.lab.call(&args)
    }

    fn replay(&self, kind: &str, code: i32) -> Value {
        self.call(&["snapshot", "replay", "latest", "--kind", kind, "--json"])
            .with(code)
            .json()
    }

    /// The number of calls of the inner programs, the model and the last programs.
    fn effects(&self) -> [usize; 3] {
        let ran = |file: &str| self.lab.read(file).lines().count();
        [ran("counted"), self.peer.came().len(), ran("told")]
    }
}

#[test]
fn a_family_of_runs_is_done_again_in_four_ways() {
    let team = Team::new(|| "yes".to_owned());
    assert_eq!(team.effects(), [2, 2, 2]);
    for (kind, live, effects) in [
        ("verify", [0, 0], [2, 2, 2]),
        ("model", [2, 0], [2, 4, 2]),
        ("env", [0, 6], [4, 4, 4]),
        ("rerun", [2, 6], [6, 6, 6]),
    ] {
        let report = team.replay(kind, 0);
        assert_eq!(report["match_status"], "exact_match", "{kind}: {report}");
        assert_eq!(report["first_divergence"], Value::Null, "{kind}: {report}");
        assert_eq!(
            report["live"],
            json!({ "models": live[0], "tools": live[1] }),
            "{kind}"
        );
        assert_eq!(team.effects(), effects, "{kind}");
    }
    // The runs of a replay belong to it: none is left waiting, and every log is complete.
    assert!(
        team.lab
            .call(&["runs", "interrupts", "--json"])
            .json_lines()
            .is_empty()
    );
    team.lab.call(&["verify"]).with(0);
}

#[test]
fn a_divergence_of_a_started_run_is_named_with_its_path() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let team = Team::new(move || match counted.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => "yes".to_owned(),
        _ => "no".to_owned(),
    });
    // With another answer of the model, the following program is not in the recording.
    let report = team.replay("model", 3);
    let found = &report["first_divergence"];
    let name = found["actual"]["name"].as_str().unwrap();
    assert!(
        ["go#0/tell/0/0", "go#1/tell/0/0"].contains(&name),
        "{report}"
    );
    assert_eq!(
        (&found["reason"], &found["at"]),
        (&json!("changed"), &json!("/words"))
    );
    assert_eq!(found["step"], found["recorded_step"], "{report}");
    assert_eq!(
        (
            &found["expected"]["input"]["words"],
            &found["actual"]["input"]["words"]
        ),
        (&json!("yes"), &json!("no"))
    );
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    assert_eq!(team.effects(), [2, 4, 2], "nothing behind it is done");
    // With another output of the earlier program, the model's prompt is not in the recording.
    team.lab.write("version", "2");
    let report = team.replay("env", 3);
    let found = &report["first_divergence"];
    let name = found["actual"]["name"].as_str();
    let name = name.unwrap_or_else(|| panic!("{report}"));
    assert!(["go#0/ask/0/0", "go#1/ask/0/0"].contains(&name), "{report}");
    assert_eq!(
        (&found["reason"], &found["at"]),
        (&json!("changed"), &json!("/count"))
    );
    // In a live replay everything runs, and the innermost run is the first with another result.
    let report = team.replay("rerun", 0);
    let found = &report["first_divergence"];
    let name = found["actual"]["name"].as_str().unwrap();
    assert_eq!(
        name.split_once('/').unwrap().1,
        "nested/inner/0/0",
        "{report}"
    );
    assert_eq!(found["reason"], "other_result", "{report}");
}

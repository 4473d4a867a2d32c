//! Commands to runs from outside, with and without a driving engine.

use std::fs;

use serde_json::json;

use crate::support::*;

/// A run that waits in its first step for a write to `gate`.
fn gated(lab: &Lab) -> (String, Gate) {
    let gate = lab.gate("gate");
    let config = json!({
        "argv": ["sh", "-euc", "echo waiting; read -r _ < gate"], "env": { "LAB": lab.mark() },
    });
    let nodes = [
        node("gated", "runwright.process", config),
        script("after", "echo after"),
    ];
    (
        lab.workflow(&workflow("gated", &nodes, &[("gated", "after")])),
        gate,
    )
}

#[test]
fn a_run_that_another_process_drives_is_cancelled() {
    let lab = Lab::new();
    let (file, _gate) = gated(&lab);
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    lab.call(&["runs", "cancel", "last", "--reason", "not needed"])
        .with(0)
        .says("is being cancelled");
    let (code, snapshot) = engine.end();
    assert_eq!(code, 1);
    assert_eq!(snapshot.unwrap()["status"], "cancelled");
    assert_eq!(lab.attempts_alive(), [0; 0]);
    lab.call(&["events", "last"]).with(0).prints("not needed");
    lab.call(&["runs", "cancel", "last"])
        .with(2)
        .says("cancelled already");
}

/// Work after an answer was not in progress before, so none was lost.
#[test]
fn a_once_step_runs_after_an_external_answer() {
    let lab = Lab::new();
    let config = json!({ "argv": ["sh", "-euc", "echo ran >> ran"], "repeat": "once" });
    let nodes = [
        node("ask", "core.interrupt", json!({ "key": "go" })),
        node("once", "runwright.process", config),
    ];
    let file = lab.workflow(&workflow("asked", &nodes, &[("ask", "once")]));
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["resume"]);
    lab.call(&["runs", "signal", "last", "go", "{}"]).with(0);
    lab.call(&["resume"]).with(0).says("completed");
    assert_eq!(lab.read("ran"), "ran\n");
    let events = lab.events("last");
    assert!(!events.iter().any(is("run.resuming")), "{events:#?}");
}

#[test]
fn an_idle_run_is_cancelled_when_it_is_next_driven() {
    let lab = Lab::new();
    let (file, _gate) = gated(&lab);
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    engine.kill();
    lab.wait_until_quiet();
    lab.call(&["runs", "cancel", "last"])
        .with(0)
        .says("runwright resume");
    lab.call(&["resume"]).with(1).says("cancelled");
}

#[test]
fn a_pause_lets_running_nodes_end_and_starts_none() {
    let lab = Lab::new();
    let (file, mut gate) = gated(&lab);
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    lab.call(&["runs", "pause", "last", "--reason", "lunch"])
        .with(0)
        .says("pauses when");
    lab.call(&["runs", "pause", "last"])
        .with(0)
        .says("pauses when");
    // Withdrawn before it took effect, and requested again.
    lab.call(&["runs", "unpause", "last"]).with(0);
    lab.call(&["runs", "unpause", "last"]).with(2);
    lab.call(&["runs", "pause", "last"])
        .with(0)
        .says("pauses when");
    gate.open();
    engine.wait_for(is("run.paused"));
    let events = lab.events("last");
    assert!(
        !events.iter().any(is_of("node.started", "after")),
        "{events:#?}"
    );
    lab.call(&["runs", "unpause", "last"]).with(0);
    assert_eq!(engine.end().0, 0, "its driver continues it");
    lab.call(&["runs", "unpause", "last"]).with(2);
}

#[test]
fn a_paused_run_is_not_resumed_by_the_way() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo ran >> ran"));
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["runs", "pause", "last"])
        .with(0)
        .says("is paused");
    lab.call(&["resume"]).with(0).says("runs unpause");
    assert_eq!(lab.read("ran"), "");
    lab.call(&["runs", "unpause", "last"])
        .with(0)
        .says("runwright resume");
    lab.call(&["resume"]).with(0);
    assert_eq!(lab.read("ran"), "ran\n");
}

#[test]
fn a_signal_answers_the_wait_of_a_run() {
    let lab = Lab::new();
    let ask = node(
        "ask",
        "core.interrupt",
        json!({ "kind": "approval", "key": "deploy" }),
    );
    let file = lab.workflow(&workflow(
        "w",
        &[ask, script("after", "true")],
        &[("ask", "after")],
    ));
    let mut engine = lab.engine(&["run", &file]);
    let asked = engine.wait_for(is("interrupt.requested"));
    lab.call(&["runs", "show", "last"])
        .with(0)
        .prints("approval: `runwright runs resolve");
    let key = "deploy";
    lab.call(&["runs", "signal", "last", key, "yes"])
        .with(2)
        .says("'\"yes\"'");
    let answer = r#"{"action": "accept"}"#;
    lab.call(&["runs", "signal", "last", key, answer]).with(0);
    let (code, snapshot) = engine.end();
    assert_eq!(
        (code, &snapshot.unwrap()["status"]),
        (0, &json!("completed")),
        "{asked}"
    );
}

#[test]
fn an_unmatched_signal_is_kept_and_awaited_names_are_shown() {
    let lab = Lab::new();
    let nodes = [
        node("ask", "core.interrupt", json!({ "key": "deploy" })),
        node("then", "core.interrupt", json!({ "key": "later" })),
    ];
    let file = lab.workflow(&workflow("w", &nodes, &[("ask", "then")]));
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["resume"]);
    lab.call(&["runs", "signal", "last", "later", "{}"])
        .with(0)
        .says("the run does not wait for later, but for deploy");
    let answered = lab
        .call(&["runs", "signal", "last", "deploy", "{}"])
        .with(0);
    assert!(!answered.stderr.contains("does not wait"), "{answered:#?}");
    // The kept signal answered the next question.
    let snapshot = lab.call(&["runs", "show", "last", "--json"]).with(0).json();
    assert_eq!(snapshot["status"], "completed");
}

#[test]
fn a_signal_counts_once_by_its_id() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["runs", "signal", "last", "paid", "5", "--id", "p-1"])
        .with(0);
    lab.call(&["runs", "signal", "last", "paid", "5", "--id", "p-1"])
        .with(2)
        .says("received before");
    lab.call_with(
        &["runs", "signal", "last", "paid", "-", "--id", "p-2"],
        b"{\"n\": 1}",
    )
    .with(0);
    lab.call(&["runs", "signal", "last", "paid", "{\"a\":1,\"a\":2}"])
        .with(2)
        .says("/a");
}

#[test]
fn a_purge_leaves_a_tombstone_and_asks_first() {
    let lab = Lab::new();
    let child = lab.workflow(&one_script("child", "true"));
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "child" }));
    let parent = lab.workflow(&workflow("parent", &[call], &[]));
    lab.call(&["run", &parent, "--with", &child]).with(0);
    let run = lab.call(&["runs", "show", "last", "--json"]).json()["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    lab.call(&["runs", "purge", &run])
        .with(2)
        .says("erases 2 runs permanently")
        .says("--yes");
    lab.call(&["runs", "purge", &run, "--yes", "--reason", "a test"])
        .with(0)
        .says("2 runs erased");
    lab.call(&["runs", "show", &run])
        .with(2)
        .says("was purged at")
        .says("a test");
    assert_eq!(lab.call(&["runs", "list", "--json"]).with(0).stdout, "");
    lab.call(&["verify"]).with(0);

    lab.call(&["run", &child, "--detach"]).with(0);
    lab.call(&["runs", "purge", "last", "--yes"])
        .with(2)
        .says("has not ended")
        .says("cancel");
}

/// SQLite keeps deleted rows in free pages, and copies of rows in pages that it split.
#[test]
fn no_text_of_a_purged_run_is_left_in_any_file() {
    let lab = Lab::new();
    let script = "i=0; while [ $i -lt 300 ]; do echo line-$i-$WORD; i=$((i+1)); done";
    let config = json!({ "argv": ["sh", "-euc", script], "env": { "WORD": { "input": "word" } } });
    let mut says = node("says", "runwright.process", config);
    says["inputs"] = json!({ "word": { "type": "variable", "variableName": "word" } });
    let mut flow = workflow("worded", &[says], &[]);
    flow["variables"] = json!([{ "name": "word", "type": "string" }]);
    let file = lab.workflow(&flow);
    // Interleaved, so that rows of the runs lie in the same pages.
    for n in 0..8 {
        let (word, tag) = (format!("word=erased{n}"), format!("tagged{n}"));
        lab.call(&["run", &file, "-i", &word, "--tag", &tag, "--detach"])
            .with(0);
    }
    lab.call(&["resume"]).with(0);
    let runs = lab.call(&["runs", "list", "--json"]).with(0).json_lines();
    let kept = "tagged7";
    for run in runs.iter().filter(|run| run["tags"][0] != kept) {
        let id = run["runId"].as_str().unwrap();
        lab.call(&["runs", "purge", id, "--yes"]).with(0);
    }
    lab.call(&["doctor", "--clean"])
        .with(0)
        .prints("has no data of purged runs");
    let (mut found, mut files) = (Vec::new(), vec![lab.path().join(".runwright")]);
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for n in 0..8 {
            for word in [format!("erased{n}"), format!("tagged{n}")] {
                if bytes
                    .windows(word.len())
                    .any(|part| part == word.as_bytes())
                {
                    found.push((word, path.clone()));
                }
            }
        }
    }
    assert!(found.iter().any(|(word, _)| word == kept), "{found:?}");
    found.retain(|(word, _)| !word.ends_with('7'));
    assert!(found.is_empty(), "{found:?}");
    lab.call(&["verify"]).with(0);
    lab.call(&["runs", "show", "last"])
        .with(0)
        .prints("completed");
}

//! Checkpoints, resuming, and forks of an old session.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{chain, checkpoint, node, statuses};
use crate::support::Lab;

fn with_checkpoints() -> Value {
    chain(&[
        node("a", "echo a >> ran; echo from-a", ""),
        checkpoint("CP-01", true),
        node("b", "echo \"b $1\" >> ran", "{prev_output}"),
        checkpoint("CP-02", false),
        node("c", "echo c >> ran", ""),
    ])
}

#[test]
fn an_asking_checkpoint_pauses_off_a_terminal_until_resumed() {
    let lab = Lab::with_template(&with_checkpoints());
    lab.call(&["play", "sample"])
        .with(3)
        .says("PAUSED")
        .says("--resume");
    let state = lab.state();
    assert_eq!(state["status"], "paused");
    assert_eq!(state["current_node"], "CP-02");
    lab.call(&["play", "--resume"]).with(0).says("COMPLETE");
    assert_eq!(lab.state()["status"], "completed");
    assert_eq!(lab.read("ran"), "a\nb from-a\n\nc\n");
}

#[test]
fn a_checkpoint_can_be_made_to_ask() {
    let lab = Lab::with_template(&with_checkpoints());
    lab.call(&["play", "sample", "--pause-at", "CP-01"]).with(3);
    assert_eq!(lab.state()["current_node"], "CP-01");
    lab.call(&["play", "sample", "--pause-at", "b"])
        .with(2)
        .says("the template has no such checkpoint");
}

#[test]
fn a_session_starts_from_a_checkpoint_of_an_unchanged_one() {
    let lab = Lab::with_template(&with_checkpoints());
    lab.call(&["play", "sample", "--yes"]).with(0);
    let (old, before, ran) = (lab.session(), lab.state(), lab.read("ran"));
    lab.call(&["play", "--resume", &old, "--from", "CP-01", "--yes"])
        .with(0)
        .says("starts with the state of");
    assert_eq!(lab.state_of(&old), before);
    assert_eq!(lab.read("ran"), format!("{ran}b from-a\n\nc\n"));
    let sessions = lab.sessions();
    assert_eq!(sessions.len(), 2);
    let new = sessions.iter().find(|path| !path.ends_with(&old)).unwrap();
    let new = lab.state_of(new.file_name().unwrap().to_str().unwrap());
    assert_eq!(new["status"], "completed");
    assert_eq!(new["template_path"], before["template_path"]);
    assert_eq!(new["node_states"]["a"], before["node_states"]["a"]);
    let snapshot = new["node_states"]["CP-01"]["snapshot_path"]
        .as_str()
        .unwrap();
    assert!(snapshot.contains(new["session_id"].as_str().unwrap()));

    lab.call(&["play", "--resume", &old, "--from", "c"]).with(0);
    assert_eq!(lab.read("ran"), format!("{ran}b from-a\n\nc\nc\n"));
    lab.call(&["play", "--resume", &old, "--from", "CP-1"])
        .with(2)
        .says("did you mean `CP-01`?");
}

#[test]
fn the_files_are_made_again_from_the_log() {
    let lab = Lab::with_template(&with_checkpoints());
    lab.call(&["play", "sample"]).with(3);
    let (id, state) = (lab.session(), lab.state());
    let folder = lab.path().join(".workflow/sessions").join(&id);
    let snapshot = std::fs::read(folder.join("checkpoints/CP-01.json")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    lab.call(&["play", "--status", &id]).with(0).prints("CP-02");
    assert_eq!(lab.state(), state);
    assert_eq!(
        std::fs::read(folder.join("checkpoints/CP-01.json")).unwrap(),
        snapshot
    );
    std::fs::write(folder.join("session-state.json"), "{\"half\":").unwrap();
    lab.call(&["play", "--status"]).with(0).prints("paused");
    assert_eq!(lab.state(), state);
}

/// A checkpoint that was aborted at, or never answered, was not passed.
#[test]
fn a_session_from_an_unpassed_checkpoint_asks_again() {
    let ends: [&[&str]; 2] = [
        &["play", "--abort", "SESSION"],
        &["runs", "resolve", "SESSION", "CP-02", "--action", "reject"],
    ];
    for end in ends {
        let lab = Lab::with_template(&with_checkpoints());
        lab.call(&["play", "sample"]).with(3);
        let (old, ran) = (lab.session(), lab.read("ran"));
        let end: Vec<&str> = (end.iter())
            .map(|word| if *word == "SESSION" { &*old } else { word })
            .collect();
        lab.call(&end).with(0);
        lab.call(&["play", "--status", &old]).with(0);
        assert_eq!(lab.state()["status"], "aborted");

        let from = ["play", "--resume", &old, "--from", "CP-02"];
        lab.call(&from).with(3).says("? CP-02").says("waits");
        assert_eq!(lab.read("ran"), ran, "nothing ran without an answer");
        let sessions = lab.sessions();
        let new = sessions.iter().find(|path| !path.ends_with(&old)).unwrap();
        let new = new.file_name().unwrap().to_str().unwrap();
        assert_eq!(lab.state_of(new)["status"], "paused");
        assert_eq!(lab.state_of(new)["x_play"]["waits_at"], "CP-02");
        lab.call(&["play", "--resume", new]).with(0);
        assert_eq!(lab.read("ran"), format!("{ran}c\n"));
        assert_eq!(lab.state_of(&old)["status"], "aborted");
    }
}

#[test]
fn a_session_that_another_player_left_is_adopted() {
    let lab = Lab::with_template(&with_checkpoints());
    let id = "WFR-sample-20260317-143022";
    let folder = lab.path().join(".workflow/sessions").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    let batch = |n: u32, id: &str| json!({ "batch": n, "nodes": [id], "parallel": false });
    let state = json!({
        "session_id": id, "template_id": "wft-sample-20260310",
        "template_path": ".workflow/templates/sample.json", "template_name": "Sample",
        "status": "running", "context": {},
        "execution_plan": [
            batch(1, "a"), batch(2, "CP-01"), batch(3, "b"), batch(4, "CP-02"), batch(5, "c"),
        ],
        "current_batch": 3, "current_node": "b", "last_checkpoint": "CP-01",
        "node_states": {
            "a": {
                "status": "completed", "started_at": "2026-03-17T14:30:25Z",
                "completed_at": "2026-03-17T14:35:10Z", "session_id": "WFS-plan-20260317",
                "output_path": "plan.md", "artifacts": ["plan.md"], "error": null,
            },
            "CP-01": {
                "status": "completed", "saved_at": "2026-03-17T14:35:12Z", "snapshot_path": "x",
            },
            "b": { "status": "running", "started_at": "2026-03-17T14:35:14Z" },
            "CP-02": { "status": "pending", "..." : "..." }, "c": { "...": "..." },
        },
        "created_at": "2026-03-17T14:30:22Z", "updated_at": "2026-03-17T14:35:14Z",
    });
    std::fs::write(folder.join("session-state.json"), state.to_string()).unwrap();
    lab.call(&["play", "--status"])
        .with(0)
        .prints("2/5    Sample (another player's)");
    lab.call(&["play", "--resume", "--yes"])
        .with(0)
        .says("2 nodes already done will not run again");
    assert_eq!(lab.read("ran"), "b \nc\n", "what was over is not run");
    let after = lab.state();
    assert_eq!(after["status"], "completed");
    assert_eq!(statuses(&after), ["completed"; 5]);
    assert_eq!(after["node_states"]["a"], state["node_states"]["a"]);
    assert_eq!(
        after["node_states"]["CP-01"]["saved_at"],
        "2026-03-17T14:35:12Z"
    );
}

#[test]
fn of_several_sessions_one_has_to_be_named() {
    let lab = Lab::with_template(&with_checkpoints());
    lab.call(&["play", "sample"]).with(3);
    lab.call(&["play", "sample"]).with(3);
    lab.call(&["play", "--resume"])
        .with(2)
        .says("there are several sessions to resume:\n  WFR-sample-");
    lab.call(&["play", "--resume", "WFR-sample"])
        .with(2)
        .says("`WFR-sample` fits several sessions:\n  WFR-sample-");
    lab.call(&["play", "--resume", "WFR-nothing"])
        .with(2)
        .says("no session");
}

/// The running node is ended and stays in flight in the log.
#[test]
fn a_stopped_player_leaves_a_resumable_session() {
    let script = "[ -e ok ] || exec tail -f /dev/null";
    let lab = Lab::with_template(&chain(&[node("a", script, ""), node("b", "true", "")]));
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["node"] == "a" && line["event"] == "started");
    player.signal(rustix::process::Signal::TERM);
    let (code, last) = player.end();
    assert_eq!((code, &last.unwrap()["status"]), (130, &json!("running")));
    let id = lab.session();
    lab.call(&["play", "--status", &id])
        .with(0)
        .says("no process drives it");
    lab.write("ok", "");
    lab.call(&["play", "--resume"]).with(0);
    assert_eq!(statuses(&lab.state()), ["completed"; 2]);
}

#[test]
fn an_interrupt_names_the_answer_it_needs() {
    let script = "echo x > begun; read -r _ < gate";
    let lab = Lab::with_template(&chain(&[node("a", script, ""), node("b", "true", "")]));
    lab.pipe("begun");
    let mut gate = lab.gate("gate");
    let mut command = lab.command(&["play", "sample"]);
    let mut player = command.stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(lab.read("begun"), "x\n");
    let mut said = BufReader::new(player.stderr.take().unwrap());
    kill_process(Pid::from_child(&player), Signal::INT).unwrap();
    let mut all = String::new();
    while !all.contains("interrupted:") {
        assert!(said.read_line(&mut all).unwrap() > 0, "{all}");
    }
    assert!(
        all.contains("waiting for a to end. Press Ctrl-C again to stop it"),
        "{all}"
    );
    gate.open();
    said.read_to_string(&mut all).unwrap();
    assert_eq!(player.wait().unwrap().code(), Some(130), "{all}");
    assert_eq!(lab.state()["node_states"]["a"]["status"], "completed");
    let session = lab.session();
    let started = || {
        let events = lab.events(&session).into_iter();
        let started = events.filter(|event| event["type"] == "node.started");
        started
            .map(|event| event["nodeId"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(started(), ["a"], "the log says that a node started");
    lab.call(&["play", "--resume"]).with(0);
    assert_eq!(started(), ["a", "b"]);
}

/// Two terminals never drive one session.
#[test]
fn a_second_resume_says_who_holds_the_session() {
    let script = "echo x >> ran; read -r _ < gate";
    let lab = Lab::with_template(&chain(&[checkpoint("cp", false), node("a", script, "")]));
    let mut gate = lab.gate("gate");
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    let mut first = lab.engine(&["play", "--resume", &id]);
    while first
        .next()
        .is_some_and(|line| line["event"] != "started" || line["node"] != "a")
    {}
    lab.call(&["play", "--resume", &id])
        .with(2)
        .says("is driven by process")
        .says("--abort");
    gate.open();
    while first.next().is_some() {}
    assert_eq!(first.end().0, 0);
    assert_eq!(lab.read("ran"), "x\n");
}

#[test]
fn of_two_that_resume_at_the_same_moment_one_wins() {
    for _ in 0..3 {
        let script = "echo x >> ran; read -r _ < gate";
        let lab = Lab::with_template(&chain(&[checkpoint("cp", false), node("a", script, "")]));
        let mut gate = lab.gate("gate");
        lab.call(&["play", "sample"]).with(3);
        let id = lab.session();
        let (sender, over) = std::sync::mpsc::channel();
        let (first, second) = std::thread::scope(|scope| {
            let resume = |sender: std::sync::mpsc::Sender<()>| {
                let ended = lab.call(&["play", "--resume", &id]);
                let _ = sender.send(());
                ended
            };
            let (one, two) = (sender.clone(), sender.clone());
            let both = [
                scope.spawn(move || resume(one)),
                scope.spawn(move || resume(two)),
            ];
            // One of them ends while the node still runs: the one that lost.
            over.recv().unwrap();
            gate.open();
            let [first, second] = both.map(|one| one.join().unwrap());
            (first, second)
        });
        let mut codes = [first.code, second.code];
        codes.sort_unstable();
        assert_eq!(codes, [0, 2], "{first:#?} {second:#?}");
        let loser = if first.code == 2 { first } else { second };
        loser.says("is driven by process");
        assert_eq!(lab.read("ran"), "x\n");
    }
}

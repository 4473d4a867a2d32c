//! A reader of the files of a session in progress sees complete states, each later than the one
//! before.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{chain, member, node, statuses, template};
use crate::support::Lab;

#[test]
fn a_reader_in_a_loop_sees_only_whole_and_later_states() {
    let nodes: Vec<Value> = (0..30)
        .map(|n| node(&format!("N-{n:03}"), "true", ""))
        .collect();
    let lab = Lab::with_template(&chain(&nodes));
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen: Vec<Value> = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                for folder in lab.sessions() {
                    let file = folder.join("session-state.json");
                    let Ok(text) = std::fs::read_to_string(file) else {
                        continue;
                    };
                    let state: Value = serde_json::from_str(&text).expect("a whole state");
                    if seen.last() != Some(&state) {
                        seen.push(state);
                    }
                }
            }
            seen
        });
        let ended = lab.call(&["play", "sample"]);
        is_over.store(true, Ordering::Relaxed);
        ended.with(0);
        reader.join().unwrap()
    });
    assert!(seen.len() > 5, "{} states were seen", seen.len());
    let ranks = |state: &Value| -> Vec<usize> {
        let words = ["pending", "running", "completed"];
        let rank = |status: String| words.iter().position(|word| *word == status).unwrap();
        statuses(state).into_iter().map(rank).collect()
    };
    for pair in seen.windows(2) {
        let seq = |state: &Value| state["x_play"]["seq"].as_u64().unwrap();
        assert!(seq(&pair[0]) < seq(&pair[1]));
        let (before, after) = (ranks(&pair[0]), ranks(&pair[1]));
        assert!(
            before
                .iter()
                .zip(after)
                .all(|(before, after)| *before <= after)
        );
    }
}

#[test]
fn output_lies_in_the_log_of_its_node_while_it_runs() {
    let script = "echo first; read -r _ < gate; echo last";
    let lab = Lab::with_template(&chain(&[node("a", script, "")]));
    let mut gate = lab.gate("gate");
    let mut engine = lab.engine(&["play", "sample"]);
    // Output is reported after the file has it.
    while engine.next().is_some_and(|line| line["type"] != "output") {}
    assert_eq!(lab.log("a"), "first\n");
    assert_eq!(lab.state()["node_states"]["a"]["status"], "running");
    gate.open();
    while engine.next().is_some() {}
    assert_eq!(engine.end().0, 0);
    assert_eq!(lab.log("a"), "first\nlast\n");
}

#[test]
fn large_groups_follow_one_another() {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for batch in 0..3 {
        for n in 0..50 {
            let id = format!("N-{batch}-{n}");
            nodes.push(member(
                &format!("g{batch}"),
                &id,
                &format!("echo {batch} >> ran"),
            ));
            for before in (0..50).filter(|_| batch > 0) {
                edges.push(json!({ "from": format!("N-{}-{before}", batch - 1), "to": id }));
            }
        }
    }
    let lab = Lab::with_template(&template(&nodes, &edges));
    lab.call(&["play", "sample", "--jobs", "8", "--quiet"])
        .with(0);
    let ran = lab.read("ran");
    let expected = ["0\n".repeat(50), "1\n".repeat(50), "2\n".repeat(50)].concat();
    assert_eq!(
        ran, expected,
        "a group begins when the one before has ended"
    );
    assert!(
        statuses(&lab.state())
            .iter()
            .all(|status| status == "completed")
    );
}

/// Names contain a second. If one is taken, the next gets a number.
#[test]
fn sessions_of_the_same_second_have_names_of_their_own() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "")]));
    let sessions = lab.path().join(".workflow/sessions");
    let now = jiff::Timestamp::now();
    for second in -2..120 {
        let at = now + jiff::SignedDuration::from_secs(second);
        let name = at.strftime("WFR-sample-%Y%m%d-%H%M%S").to_string();
        std::fs::create_dir_all(sessions.join(name)).unwrap();
    }
    let both = std::thread::scope(|scope| {
        let play = || lab.call(&["play", "sample", "--json"]);
        [scope.spawn(play), scope.spawn(play)].map(|one| one.join().unwrap())
    });
    let [one, other] = both.map(|ended| {
        let lines = ended.with(0).json_lines();
        lines.last().unwrap()["session_id"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    assert_ne!(one, other);
    for id in [one, other] {
        // WFR-sample-DATE-TIME-2, or -3 if another session took that.
        assert_eq!(id.split('-').count(), 5, "{id}");
        assert_eq!(lab.state_of(&id)["status"], "completed");
    }
}

//! `--status`: the state of sessions, their drivers, and the next step for those without one.

use serde_json::json;

use super::{chain, checkpoint, node};
use crate::support::Lab;

fn parked() -> Lab {
    let lab = Lab::with_template(&chain(&[node("a", "exit 3", ""), node("b", "true", "")]));
    lab.call(&["play", "sample"]).with(1);
    lab
}

#[test]
fn a_watch_ends_at_a_failure_that_needs_a_decision() {
    let lab = parked();
    let id = lab.session();
    lab.call(&["play", "--status", "--watch"])
        .with(1)
        .says(&format!("`runwright play --resume {id} --retry a`"))
        .says(&format!("`runwright play --abort {id}` ends it"));
    let watch = ["play", "--status", &id, "--watch", "--json"];
    let last = lab.call(&watch).with(1).json();
    assert_eq!(last["x_play"]["undecided"], json!(["a"]));
}

#[test]
fn a_watch_ends_at_a_checkpoint_without_a_prompt() {
    let lab = Lab::with_template(&chain(&[checkpoint("cp", false), node("a", "true", "")]));
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    lab.call(&["play", "--status", &id, "--watch"])
        .with(3)
        .says("it waits at cp")
        .says(&format!("`runwright play --resume {id}` continues it"));
    lab.call(&["play", "--resume"]).with(0);
    lab.call(&["play", "--status", &id, "--watch"]).with(0);
}

#[test]
fn a_session_whose_player_was_killed_is_said_to_be_left() {
    let lab = Lab::with_template(&chain(&[node(
        "a",
        "echo ready; exec tail -f /dev/null",
        "",
    )]));
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["type"] == "output");
    let id = lab.session();
    let shown = ["play", "--status", &id];
    lab.call(&shown).with(0).says("driven by process");
    player.kill();
    let left = format!("no process drives it; `runwright play --resume {id}` continues it");
    lab.call(&shown).with(0).says(&left);
    lab.call(&["play", "--status"])
        .with(0)
        .says(&format!("no process drives {id}"));
    lab.call(&["play", "--status", &id, "--watch"])
        .with(3)
        .says(&left);
    lab.call(&["runs", "show", &id])
        .with(0)
        .prints("no process")
        .prints(&format!("`runwright play --resume {id}` continues it"));
    lab.call(&["play", "--abort", &id]).with(0);
}

/// It attends the session without driving it while it waits.
#[test]
fn a_player_that_waits_for_a_callback_is_seen() {
    let mut launch = node("a", "ccw cli", "");
    launch["type"] = json!("cli");
    launch["cli_tool"] = json!("gemini");
    let lab = Lab::with_template(&chain(&[launch]));
    let executor = "[[executor]]\ntype = \"cli\"\nargv = [\"true\"]\nbackground = true\n";
    lab.write("runwright.toml", executor);
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["event"] == "waits");
    let id = lab.session();
    lab.call(&["play", "--status", &id])
        .with(0)
        .says("waits for the callback of a at process");
    let mut watching = lab.engine(&["play", "--status", &id, "--watch"]);
    let task = watching.next().unwrap()["x_play"]["callbacks"]["a"].clone();
    let task = task.as_str().unwrap();
    lab.call(&["play", "callback", &id, "--task", task])
        .with(0)
        .says("has the result; the session has ended");
    assert_eq!(player.end().0, 0);
    let (code, last) = watching.end();
    assert_eq!((code, &last.unwrap()["status"]), (0, &json!("completed")));
}

#[test]
fn a_callback_without_a_waiting_session_is_reported() {
    let mut launch = node("a", "ccw cli", "");
    launch["type"] = json!("cli");
    launch["cli_tool"] = json!("gemini");
    let lab = Lab::with_template(&chain(&[launch]));
    let executor = "[[executor]]\ntype = \"cli\"\nargv = [\"true\"]\nbackground = true\n";
    lab.write("runwright.toml", executor);
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["event"] == "waits");
    player.kill();
    let id = lab.session();
    lab.call(&["play", "--status", &id, "--watch"])
        .with(3)
        .says(&format!(
            "a waits for `runwright play callback {id} --task gem-"
        ));
}

/// Its snapshot is saved and its state shows that; the figures count passed checkpoints only.
#[test]
fn a_checkpoint_that_still_asks_is_not_counted() {
    let mut skipped = node("a", "exit 1", "");
    skipped["on_fail"] = json!("skip");
    let nodes = [
        node("z", "true", ""),
        skipped,
        checkpoint("cp", false),
        node("b", "true", ""),
    ];
    let lab = Lab::with_template(&chain(&nodes));
    lab.call(&["play", "sample"])
        .with(3)
        .says("? cp           waits")
        .says("Nodes:     1/4 completed, 1 skipped");
    let id = lab.session();
    assert_eq!(lab.state()["node_states"]["cp"]["status"], "completed");
    lab.call(&["play", "--status"]).with(0).prints("2/4");
    lab.call(&["play", "--status", &id]).with(0).prints("waits");
    lab.call(&["play", "--resume"])
        .with(0)
        .says("Nodes:     3/4 completed, 1 skipped");
}

#[test]
fn quiet_does_not_hide_why_a_node_failed() {
    let lab = Lab::with_template(&chain(&[
        node("a", "true", ""),
        node("b", "echo 'the tests are red' >&2; exit 3", ""),
    ]));
    let ended = lab.call(&["play", "sample", "-q"]).with(1);
    assert!(!ended.stderr.contains("✓ a"), "{ended:?}");
    ended
        .says("✗ b")
        .says("the tests are red")
        .says("--retry b");
}

/// The whole id and an answer, so that it can be copied.
#[test]
fn the_shown_checkpoint_answer_can_be_copied() {
    let lab = Lab::with_template(&chain(&[checkpoint("cp", false), node("a", "exit 1", "")]));
    let ended = lab.call(&["play", "sample"]).with(3);
    assert!(!ended.stderr.contains("runs resolve"), "one way: {ended:?}");
    let id = lab.session();
    ended.says(&format!(
        "it waits at cp; `runwright play --resume {id}` continues it"
    ));
    let answer = format!("runwright runs resolve {id} cp --action accept");
    lab.call(&["runs", "show", &id]).with(0).prints(&answer);
    let words: Vec<&str> = answer.split(' ').skip(1).collect();
    lab.call(&words)
        .with(0)
        .says(&format!("`runwright play --resume {id}` drives it"));
    lab.call(&["play", "--resume", &id]).with(1);
    let retry = format!("`runwright runs resolve {id} a --action retry`");
    lab.call(&["runs", "show", &id]).with(0).prints(&retry);
}

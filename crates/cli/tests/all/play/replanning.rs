//! Sessions that continue with an edited template.

use serde_json::{Value, json};

use super::{chain, checkpoint, node, statuses};
use crate::support::Lab;

/// Three nodes and a checkpoint that asks before the last.
fn document(second: &str, third: &str) -> Value {
    chain(&[
        node("a", "echo a >> ran; echo from-a", ""),
        node("b", second, "{prev_output}"),
        checkpoint("cp", false),
        node("c", third, "{a.output} {b.output}"),
    ])
}

const SECOND: &str = "echo b >> ran; echo \"b of $1\"";

fn paused() -> (Lab, String) {
    let lab = Lab::with_template(&document(SECOND, "exit 1"));
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    (lab, id)
}

#[test]
fn an_edited_node_runs_with_the_results_of_those_before_it() {
    let (lab, old) = paused();
    lab.template("sample", &document(SECOND, "printf %s \"$1\" > got"));
    let replan = ["play", "--resume", "--replan"];
    lab.call(&[&replan[..], &["--dry-run"]].concat())
        .with(0)
        .says("changed  c: the program it calls")
        .says("kept     a, b");
    assert_eq!(lab.session(), old, "nothing was begun");
    lab.call(&[&replan[..], &["--yes"]].concat())
        .with(0)
        .says("changed  c: the program it calls")
        .says(&format!("{old} has ended"));
    assert_eq!(lab.read("ran"), "a\nb\n", "what was done is not done again");
    assert_eq!(lab.read("got"), "from-a\n b of from-a\n\n");
    assert_eq!(lab.state_of(&old)["status"], "aborted");
    let new = lab.state_of(&lab.newest(&[&old]));
    assert_eq!(statuses(&new), ["completed"; 4]);
    let before = lab.state_of(&old);
    assert_eq!(new["node_states"]["a"], before["node_states"]["a"]);
    lab.call(&["verify"]).with(0);
}

#[test]
fn everything_after_a_change_runs_again() {
    let (lab, old) = paused();
    let mut edited = document("echo b2 >> ran; echo b2", "printf %s \"$1\" > got");
    let nodes = edited["nodes"].as_array_mut().unwrap();
    nodes.push(node("d", "echo d >> ran", ""));
    let edges = edited["edges"].as_array_mut().unwrap();
    edges.push(json!({ "from": "c", "to": "d" }));
    lab.template("sample", &edited);
    lab.call(&["play", "--resume", &old, "--replan", "--yes"])
        .with(0)
        .says("changed  b: the program it calls")
        .says("new      d")
        .says("kept     a")
        .says("again    b");
    assert_eq!(lab.read("ran"), "a\nb\nb2\nd\n");
    assert_eq!(lab.read("got"), "from-a\n b2\n");
}

#[test]
fn a_template_that_is_as_it_was_or_wrong_changes_nothing() {
    let (lab, old) = paused();
    let replan = ["play", "--resume", "--replan"];
    lab.call(&replan)
        .with(2)
        .says("has not changed since session")
        .says(&format!("`runwright play --resume {old}` continues it"));
    let mut wrong = document(SECOND, "true");
    wrong["nodes"][1]["type"] = json!("skil");
    lab.template("sample", &wrong);
    lab.call(&replan).with(2).says("did you mean `skill`?");
    assert_eq!(lab.session(), old);
    assert_eq!(lab.state()["status"], "paused");
}

//! Two projects that play the same template concurrently.

use serde_json::json;

use super::{chain, node};
use crate::support::Lab;

/// Prints its start, then waits.
const WAITS: &str = "echo $WF_ATTEMPT_KEY > key; echo ready; read -r _ < gate; echo x >> ran";
const ID: &str = "WFR-sample-20260317-143022";

/// A project with a session of this id: two checkouts that begin in one second have the same.
fn project() -> Lab {
    let lab = Lab::with_template(&chain(&[node("a", WAITS, "")]));
    lab.left_by_another(&json!({
        "session_id": ID, "template_id": "wft-sample-20260310",
        "template_path": ".workflow/templates/sample.json", "template_name": "Sample",
        "status": "running", "context": {},
        "execution_plan": [{ "batch": 1, "nodes": ["a"], "parallel": false }],
        "node_states": { "a": { "status": "pending" } },
        "created_at": "2026-03-17T14:30:22Z",
    }));
    lab
}

#[test]
fn a_resume_leaves_the_processes_of_another_project_alone() {
    let (one, two) = (project(), project());
    let (mut gate_of_one, mut gate_of_two) = (one.gate("gate"), two.gate("gate"));
    let resume = ["play", "--resume"];
    let mut first = one.engine(&resume);
    first.wait_for(|line| line["text"] == "ready\n");
    let mut second = two.engine(&resume);
    second.wait_for(|line| line["text"] == "ready\n");
    assert_ne!(one.read("key"), two.read("key"));
    second.kill();
    two.wait_until_quiet();

    // Clears the killed player's leftovers, then runs the node again.
    gate_of_two.open();
    two.call(&resume).with(0).says("COMPLETE");
    assert_eq!(
        (one.read("ran"), two.read("ran")),
        ("".into(), "x\n".into())
    );
    gate_of_one.open();
    let (code, last) = first.end();
    assert_eq!(code, 0, "{last:?}");
    assert_eq!(one.read("ran"), "x\n");
    assert_eq!(last.unwrap()["x_play"]["nodes"]["a"]["attempts"], 1);
}

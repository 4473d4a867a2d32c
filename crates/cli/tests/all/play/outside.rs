//! Work that is launched and ends externally, and sessions in other faces.

use serde_json::{Value, json};

use super::{chain, checkpoint, node, statuses};
use crate::serving::{self, Serving};
use crate::support::Lab;

const BACKGROUND: &str = r#"
[[executor]]
type = "cli"
argv = ["sh", "-c", "echo \"$WF_TASK_ID\" > task; echo launched", "sh", "{args}"]
background = true
[[executor]]
type = "skill"
preset = "shell"
"#;

fn launching() -> Lab {
    let mut launch = node("a", "ccw cli", "do it");
    launch["type"] = json!("cli");
    launch["cli_tool"] = json!("gemini");
    let after = node("b", "printf %s \"$1\" > got", "{prev_output}");
    let lab = Lab::with_template(&chain(&[launch, after]));
    lab.write("runwright.toml", BACKGROUND);
    lab
}

#[test]
fn a_player_waits_for_the_callback_of_work_that_was_launched() {
    let lab = launching();
    let mut engine = lab.engine(&["play", "sample"]);
    while engine.next().is_some_and(|line| line["event"] != "waits") {}
    let id = lab.session();
    let state = lab
        .call(&["play", "--status", &id, "--json"])
        .with(0)
        .json();
    let task = lab.read("task").trim().to_owned();
    assert_eq!(state["status"], "running");
    assert_eq!(state["node_states"]["a"]["status"], "running");
    assert_eq!(state["node_states"]["a"]["cli_task_id"], task);
    assert_eq!(state["x_play"]["callbacks"]["a"], task);

    lab.call(&["play", "callback", &id, "--task", "gem-0"])
        .with(2)
        .says("has no task `gem-0`");
    lab.write("answer.md", "the answer");
    let told = [
        "play",
        "callback",
        &id,
        "--task",
        &task,
        "--output",
        "answer.md",
    ];
    lab.call(&told).with(0);
    while engine.next().is_some() {}
    assert_eq!(engine.end().0, 0);
    assert_eq!(lab.read("got"), "the answer");
    assert_eq!(lab.state()["node_states"]["a"]["output_path"], "answer.md");
}

#[test]
fn a_callback_may_arrive_without_a_player_and_report_failure() {
    let lab = launching();
    let mut engine = lab.engine(&["play", "sample"]);
    while engine.next().is_some_and(|line| line["event"] != "waits") {}
    engine.kill();
    let (id, task) = (lab.session(), lab.read("task").trim().to_owned());
    let told = ["play", "callback", &id, "--task", &task, "--exit", "4"];
    lab.call(&told).with(0).says("--resume");
    lab.call(&told).with(2);
    let state = lab
        .call(&["play", "--status", &id, "--json"])
        .with(0)
        .json();
    assert_eq!(state["status"], "failed");
    assert_eq!(
        state["node_states"]["a"]["error"],
        "the task ended with code 4"
    );
    lab.call(&["play", "--skip", "a"]).with(0);
    assert_eq!(statuses(&lab.state()), ["skipped", "completed"]);
}

#[test]
fn a_checkpoint_may_be_answered_through_another_face() {
    let lab = Lab::with_template(&chain(&[
        checkpoint("cp", false),
        node("a", "echo x > ran", ""),
    ]));
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    lab.call(&["runs", "signal", &id, "cp", "{\"action\":\"accept\"}"])
        .with(0);
    lab.call(&["resume", &id]).with(0);
    assert_eq!(lab.read("ran"), "x\n");
    let shown: Value = lab
        .call(&["play", "--status", &id, "--json"])
        .with(0)
        .json();
    assert_eq!(shown["status"], "completed");
    assert_eq!(lab.state(), shown);
}

/// From its beginning a session is a run of a server on its store; a checkpoint is approved there,
/// the server continues the session, and its files follow.
#[test]
fn a_session_is_seen_approved_and_gone_on_with_over_http() {
    let lab = Lab::with_template(&chain(&[
        node("before", "echo x > before", ""),
        checkpoint("cp", false),
        node("after", "echo x > after", ""),
    ]));
    let serving = Serving::at(&lab, ".runwright", &["--dev"]);
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    let over_http = |args: &[&str]| serving::call(&lab, &serving, "", args).with(0);
    let seen = over_http(&["runs", "show", &id, "--json"]).json();
    assert_eq!(seen["status"], "waiting-approval");
    assert_eq!(seen["currentNodeId"], "cp");
    assert_eq!(lab.state()["status"], "paused");

    over_http(&["runs", "resolve", &id, "cp", "--action", "accept"]);
    let mut watching = lab.engine(&["play", "--status", &id, "--watch"]);
    let (code, last) = watching.end();
    assert_eq!((code, &last.unwrap()["status"]), (0, &json!("completed")));
    assert_eq!(lab.read("after"), "x\n");
    let seen = over_http(&["runs", "show", &id, "--json"]).json();
    assert_eq!(seen["status"], "completed");
    // The server maintains the folder as well, without a player.
    assert_eq!(
        statuses(&lab.state()),
        ["completed", "completed", "completed"]
    );
    serving.stop();
}

#[test]
fn a_session_is_watched_from_another_terminal_until_it_ends() {
    let lab = Lab::with_template(&chain(&[
        node("a", "cat gate", ""),
        node("b", "echo x > ran", ""),
    ]));
    lab.pipe("gate");
    let mut playing = lab.engine(&["play", "sample"]);
    playing.wait_for(|line| line["node"] == "a" && line["event"] == "started");
    let mut watching = lab.engine(&["play", "--status", "--watch"]);
    let first = watching.next().unwrap();
    assert_eq!(first["status"], "running");
    assert_eq!(first["current_node"], "a");
    lab.write("gate", "open");
    let (code, last) = watching.end();
    assert_eq!((code, &last.unwrap()["status"]), (0, &json!("completed")));
    assert_eq!(playing.end().0, 0);
}

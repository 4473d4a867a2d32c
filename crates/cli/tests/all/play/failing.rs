//! Failures, and the possible reactions.

use serde_json::{Value, json};

use super::{chain, member, node, statuses, template};
use crate::support::Lab;

/// A node that fails until a file `ok` exists.
fn fragile() -> Value {
    let script = "echo tried >> tries; [ -e ok ] || { echo 'no ok' >&2; exit 3; }";
    node("b", script, "")
}

#[test]
fn an_abort_off_a_terminal_parks_a_session_marked_failed() {
    let lab = Lab::with_template(&chain(&[
        node("a", "true", ""),
        fragile(),
        node("c", "true", ""),
    ]));
    lab.call(&["play", "sample"])
        .with(1)
        .says("FAILED: Sample")
        .says("exited with code 3; it said:")
        .says("--retry b");
    let id = lab.session();
    let state = lab.state();
    assert_eq!(state["status"], "failed");
    assert_eq!(statuses(&state), ["completed", "failed", "pending"]);
    let error = state["node_states"]["b"]["error"].as_str().unwrap();
    assert!(error.contains("no ok"), "{error}");
    assert_eq!(state["completed_at"], json!(null));
    let run = lab.call(&["runs", "show", &id, "--json"]).with(0).json();
    assert_eq!(run["status"], "waiting-input");

    lab.call(&["play", "--retry", "b"]).with(1);
    assert_eq!(lab.read("tries"), "tried\ntried\n");
    lab.write("ok", "");
    lab.call(&["play", "--resume", &id, "--retry", "b"]).with(0);
    let state = lab.state();
    assert_eq!(statuses(&state), ["completed"; 3]);
    assert_eq!(state["x_play"]["nodes"]["b"]["attempts"], 3);
    assert_eq!(
        lab.log("b"),
        "no ok\n--- attempt 2 ---\nno ok\n--- attempt 3 ---\n"
    );
}

#[test]
fn a_failed_node_may_be_left_out() {
    let last = node("c", "printf 'got [%s]' \"$1\"", "{prev_output}");
    let lab = Lab::with_template(&chain(&[node("a", "printf one", ""), fragile(), last]));
    lab.call(&["play", "sample"]).with(1);
    lab.call(&["play", "--skip", "c"])
        .with(2)
        .says("is not a failed node")
        .says("did you mean `b`?");
    lab.call(&["play", "--skip", "b"]).with(0).says("COMPLETE");
    assert_eq!(
        statuses(&lab.state()),
        ["completed", "skipped", "completed"]
    );
    assert_eq!(
        lab.log("c"),
        "got [one]",
        "the node before counts, not an empty text"
    );
}

/// An empty reference to a skipped node is reported, in addition to being passed on.
#[test]
fn a_reference_to_a_node_that_was_skipped_is_warned_of() {
    let mut skipped = fragile();
    skipped["on_fail"] = json!("skip");
    let args = "see {b.output_path} {b.artifacts[0]} {prev_output} {goal} {b.output_path}";
    let mut document = chain(&[
        node("a", "printf one", ""),
        skipped,
        node("c", "true", args),
    ]);
    document["context_schema"] = json!({ "goal": { "type": "string" } });
    let lab = Lab::with_template(&document);
    let ended = lab.call(&["play", "sample"]).with(0);
    for empty in ["{b.output_path}", "{b.artifacts[0]}"] {
        let warning = format!("warning: c: {empty} is empty: b was skipped\n");
        assert_eq!(ended.stderr.matches(&warning).count(), 1, "{ended:?}");
    }
    assert_eq!(ended.stderr.matches("is empty").count(), 2, "{ended:?}");
    let lines = lab.call(&["play", "sample", "--json"]).with(0).json_lines();
    let started = lines
        .iter()
        .find(|line| line["node"] == "c" && line["event"] == "started")
        .unwrap();
    let expected = [
        "{b.output_path} is empty: b was skipped",
        "{b.artifacts[0]} is empty: b was skipped",
    ];
    assert_eq!(started["warnings"], json!(expected));
}

#[test]
fn on_fail_decides_how_a_failure_is_handled() {
    let mut skipped = fragile();
    skipped["on_fail"] = json!("skip");
    let lab = Lab::with_template(&chain(&[skipped, node("c", "true", "")]));
    lab.call(&["play", "sample"]).with(0);
    assert_eq!(statuses(&lab.state()), ["skipped", "completed"]);

    let mut retried = node("b", "echo x >> tries; [ $(wc -l < tries) -ge 2 ]", "");
    retried["on_fail"] = json!("retry");
    let lab = Lab::with_template(&chain(&[retried]));
    lab.call(&["play", "sample"]).with(0);
    assert_eq!(lab.read("tries"), "x\nx\n");

    let mut retried = node("b", "echo x >> tries; false", "");
    retried["retry"] = json!({ "max_attempts": 3, "base_backoff_ms": 1, "max_backoff_ms": 2 });
    let lab = Lab::with_template(&chain(&[retried]));
    lab.call(&["play", "sample"]).with(1);
    assert_eq!(lab.read("tries"), "x\nx\nx\n");
}

#[test]
fn a_node_that_times_out_is_killed_with_its_processes() {
    let script = "(trap '' TERM; echo $$ > pid; exec sleep 600) & wait";
    let lab = Lab::with_template(&chain(&[node("a", script, "")]));
    lab.call(&["play", "sample", "--timeout", "1s"])
        .with(1)
        .says("was still running after 1000 ms and was ended");
    let pid = lab.read("pid");
    let process = format!("/proc/{}/cmdline", pid.trim());
    let left = std::fs::read_to_string(process).unwrap_or_default();
    assert!(!left.contains("sleep"), "{left}");
    assert_eq!(lab.state()["node_states"]["a"]["status"], "failed");
}

#[test]
fn group_members_finish_when_one_of_them_fails() {
    let nodes = [
        member("g", "a", "exit 1"),
        member("g", "b", "sleep 0.3; echo b"),
        member("g", "c", "exit 2"),
    ];
    let lab = Lab::with_template(&template(&nodes, &[]));
    lab.call(&["play", "sample"]).with(1);
    let state = lab.state();
    assert_eq!(statuses(&state), ["failed", "completed", "failed"]);
    assert_eq!(state["x_play"]["undecided"], json!(["a", "c"]));
    lab.call(&["play", "--skip", "a", "--skip", "c"]).with(0);
}

#[test]
fn a_result_that_says_so_is_a_failure() {
    let script = "echo '{\"status\":\"failed\",\"error\":\"tests are red\"}' > \"$WF_RESULT_FILE\"";
    let lab = Lab::with_template(&chain(&[node("a", script, "")]));
    lab.call(&["play", "sample"]).with(1).says("tests are red");
}

#[test]
fn a_result_that_says_failed_fails_its_node() {
    let script = r#"echo working; echo '{"status":"failed","error":"no disk"}'"#;
    let lab = Lab::with_template(&chain(&[node("a", script, ""), node("b", "true", "")]));
    lab.call(&["play", "sample"]).with(1).says("no disk");
    let state = lab.state();
    assert_eq!(statuses(&state), ["failed", "pending"]);
    assert_eq!(state["node_states"]["a"]["error"], "no disk");
}

//! Loops in templates: a test, a fix, and the test again.

use serde_json::{Value, json};

use super::{node, statuses, template};
use crate::support::Lab;

/// Passes as soon as the file `work` has three lines, and prints how many are missing.
const TEST: &str =
    "n=$(wc -l < work); echo \"found $n\"; [ $n -ge 3 ] || { echo too few >&2; exit 5; }";
/// Adds a line to `work`, and records its input.
const FIX: &str = "echo \"$WF_NODE_ID: $1\" >> given; echo more >> work";

/// Code, then test and fix in at most `rounds` rounds, then an end.
fn loops(rounds: u32) -> Value {
    let nodes = [
        node("code", "echo code >> work", ""),
        node("test", TEST, ""),
        node("fix", FIX, "{test.exit_code} {test.output}"),
        node(
            "end",
            "echo \"$1\" > end",
            "{test.status} {test.output} [{test.error}]",
        ),
    ];
    let edges = [
        json!({ "from": "code", "to": "test" }),
        json!({ "from": "test", "to": "fix" }),
        json!({ "from": "fix", "to": "test", "max_rounds": rounds }),
        json!({ "from": "test", "to": "end" }),
    ];
    template(&nodes, &edges)
}

#[test]
fn a_loop_ends_with_the_round_that_passes() {
    let lab = Lab::with_template(&loops(5));
    lab.call(&["play", "sample"])
        .with(0)
        .says("test failed; its loop continues")
        .says("5/11 completed, 2 rounds failed, 4 skipped");
    let state = lab.state();
    let passed = ["completed", "failed", "completed", "failed", "completed"];
    let skipped = ["skipped"; 4];
    let expected = [&passed[..], &["completed"], &skipped[..], &["completed"]].concat();
    assert_eq!(statuses(&state), expected);
    assert_eq!(state["x_play"]["failed_rounds"], json!(["test", "test.2"]));
    let given = lab.read("given");
    assert_eq!(given, "fix: 5 found 1\n\nfix.2: 5 found 2\n\n");
    assert_eq!(lab.read("end"), "completed found 3\n []\n");
    lab.call(&["play", "--status"]).with(0).prints("11/11");
    lab.call(&["verify"]).with(0);
}

#[test]
fn a_loop_that_passes_at_once_fixes_nothing() {
    let lab = Lab::with_template(&loops(2));
    lab.write("work", "one\ntwo\n");
    lab.call(&["play", "sample"]).with(0);
    let expected = ["completed", "completed", "skipped", "skipped", "completed"];
    assert_eq!(statuses(&lab.state()), expected);
    assert_eq!(lab.read("end"), "completed found 3\n []\n");
}

#[test]
fn the_last_round_fails_as_any_node_does() {
    let lab = Lab::with_template(&loops(2));
    lab.call(&["play", "sample"])
        .with(1)
        .says("exited with code 5")
        .says("--retry test.2");
    let expected = ["completed", "failed", "completed", "failed", "pending"];
    assert_eq!(statuses(&lab.state()), expected);
    lab.write("work", "one\ntwo\nthree\n");
    lab.call(&["play", "--retry", "test.2"]).with(0);
    assert_eq!(lab.state()["status"], "completed");

    let mut skips = loops(2);
    skips["nodes"][1]["on_fail"] = json!("skip");
    let lab = Lab::with_template(&skips);
    lab.call(&["play", "sample"]).with(0);
    let expected = ["completed", "failed", "completed", "skipped", "completed"];
    assert_eq!(statuses(&lab.state()), expected);
    assert_eq!(
        lab.read("end"),
        "failed found 1\n [`sh` exited with code 5; it said:\ntoo few]\n"
    );
}

#[test]
fn a_fix_that_was_skipped_is_followed_by_the_test() {
    let mut document = loops(2);
    document["nodes"][2]["executor"] = json!("echo more >> work; echo more >> work; exit 1");
    document["nodes"][2]["on_fail"] = json!("skip");
    let lab = Lab::with_template(&document);
    lab.call(&["play", "sample"]).with(0);
    let expected = ["completed", "failed", "skipped", "completed", "completed"];
    assert_eq!(statuses(&lab.state()), expected);
}

#[test]
fn a_session_killed_in_a_round_resumes_in_it() {
    let mut document = loops(4);
    let waits = format!("echo ready; [ -e go ] || read -r _ < gate; {FIX}");
    document["nodes"][2]["executor"] = json!(waits);
    let lab = Lab::with_template(&document);
    lab.pipe("gate");
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["type"] == "output" && line["node"] == "fix");
    player.kill();
    assert_eq!(statuses(&lab.state())[1..3], ["failed", "running"]);
    lab.write("go", "");
    lab.call(&["play", "--resume"]).with(0);
    assert_eq!(lab.state()["status"], "completed");
    assert_eq!(
        lab.read("given")
            .lines()
            .filter(|line| !line.is_empty())
            .count(),
        2
    );
    assert_eq!(lab.read("end"), "completed found 3\n []\n");
    lab.call(&["verify"]).with(0);
}

#[test]
fn a_dry_run_shows_a_loop_once() {
    let lab = Lab::with_template(&loops(5));
    let shown = lab.call(&["play", "sample", "--dry-run"]).with(0);
    let shown = shown
        .says("4 nodes")
        .prints("while it fails, the nodes up to fix run and then it runs again: at most 5 rounds");
    assert!(!shown.stdout.contains("test.2"), "{shown:?}");
    lab.call(&["play", "graph", "sample"]).with(0);
}

#[test]
fn the_example_fixes_until_its_test_passes() {
    let lab = Lab::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/player");
    for file in ["test-and-fix.json", "runwright.toml"] {
        std::fs::copy(folder.join(file), lab.path().join(file)).unwrap();
    }
    lab.call(&["play", "test-and-fix.json"])
        .with(0)
        .says("2 rounds failed");
    assert_eq!(lab.log("ready").trim(), "nothing left to do");
    assert!(lab.log("fix.2").contains("TODO: end"));
}

#[test]
fn an_edge_back_without_a_loop_is_refused_with_its_line() {
    let mut document = loops(5);
    document["edges"][2]["max_rounds"] = json!(0);
    let lab = Lab::with_template(&document);
    for args in [&["play", "sample"][..], &["play", "sample", "--dry-run"]] {
        lab.call(args)
            .with(2)
            .says("line ")
            .says("must be a whole number from 2 to 20");
    }
}

//! A played session as evidence.

use serde_json::json;

use super::{chain, node};
use crate::support::Lab;

#[test]
fn a_session_becomes_a_snapshot_and_is_done_again() {
    let lab = Lab::with_template(&chain(&[
        node("N-001", "echo ran >> ran; echo \"plan for $1\"", "{goal}"),
        node("N-002", "echo ran >> ran; echo \"$1\"", "{prev_output}"),
    ]));
    lab.call(&["play", "sample", "--context", "goal=tea", "--yes"])
        .with(0);
    lab.call(&["snapshot", "capture", "--run", "last"]).with(0);
    let shown = lab
        .call(&["snapshot", "show", "latest", "--json"])
        .with(0)
        .json();
    assert_eq!(shown["extensions"]["run_status"], "succeeded");
    assert_eq!(shown["workflow_id"], "wft-sample-20260310");
    assert!(
        shown["inputs"]["user_prompt"].to_string().contains("tea"),
        "{shown}"
    );
    for (kind, ran) in [("verify", 2), ("model", 4)] {
        let args = ["snapshot", "replay", "latest", "--kind", kind, "--json"];
        let report = lab.call(&args).with_any(&[0, 1]).json();
        assert_eq!(report["first_divergence"], json!(null), "{kind}: {report}");
        assert_eq!(report["match_status"], "exact_match", "{kind}: {report}");
        // Skills are handed to an agent, which calls a model.
        assert_eq!(lab.read("ran").lines().count(), ran, "{kind}");
    }
    lab.call(&["snapshot", "verify", "--strict"]).with(0);
}

#[test]
fn secrets_in_program_output_are_in_no_session_file() {
    // In two pieces, the first of which is ambiguous.
    let script = "echo \"$PLANTED_TOKEN\"; printf ghp_a1B2c3D4e5F6; read -r _ < gate; \
                  echo 'g7H8i9J0k1L2m3N4o5P6q7R8'; echo \"$PLANTED_TOKEN\" >&2";
    let lab = Lab::with_template(&chain(&[node("a", script, "")]));
    let toml = lab.read("runwright.toml");
    let toml = toml.replacen(
        "[[executor]]",
        "[[executor]]\ninherit_env = [\"PLANTED_TOKEN\"]",
        1,
    );
    lab.write("runwright.toml", toml);
    let mut gate = lab.gate("gate");
    let mut command = lab.command(&["play", "sample"]);
    let null = std::process::Stdio::null;
    command.env("PLANTED_TOKEN", "plainly-inherited-8842");
    let mut player = command.stdout(null()).stderr(null()).spawn().unwrap();
    gate.open();
    assert!(player.wait().unwrap().success());
    let log = lab.log("a");
    assert!(log.contains("[REDACTED]"), "{log}");
    assert_eq!(log.matches("[REDACTED:PLANTED_TOKEN]").count(), 2, "{log}");
    lab.wait_until_quiet();
    let mut todo = vec![lab.path().join(".workflow"), lab.path().join(".runwright")];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            for planted in ["plainly-inherited-8842", "3D4e5F6g7H8i9J0"] {
                assert!(!text.contains(planted), "{}", path.display());
            }
        }
    }
}

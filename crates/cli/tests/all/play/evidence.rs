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
        // Skills are handed to an agent, which asks a model.
        assert_eq!(lab.read("ran").lines().count(), ran, "{kind}");
    }
    lab.call(&["snapshot", "verify", "--strict"]).with(0);
}

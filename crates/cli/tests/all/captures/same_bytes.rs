//! Files that are written again with the bytes that they had.

use serde_json::json;

use super::peer::says;
use super::{Bench, artifacts, read};

/// Captures a script of the shell, and replays it from the recording and with live tools. Returns
/// its artifacts.
#[track_caller]
fn check_exact(bench: &Bench, script: &str) -> Vec<String> {
    let ended = bench.record(&["sh", "-c", script]);
    let kept = read(ended.stdout.lines().last().unwrap().as_ref());
    for kind in ["verify", "env"] {
        let replayed = bench.replay(kind, 0);
        assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
        assert_eq!(replayed["first_divergence"], json!(null), "{replayed:#}");
    }
    artifacts(&kept)
}

fn bench() -> Bench {
    let bench = Bench::new(|_, _| says("never"));
    for name in ["kept", "moved", "by-tool"] {
        bench.write(name, "same");
    }
    bench
}

#[test]
fn the_same_bytes_are_no_change() {
    let script = "printf same > kept; printf same > new; mv new moved; \
        \"$PROGRAM\" snapshot tool t -- sh -c 'printf same > by-tool; echo done'; cat by-tool";
    assert!(check_exact(&bench(), script).is_empty());
}

#[test]
fn a_tool_that_restores_a_file_does_so_in_a_replay() {
    let script = "printf other > by-tool; \
        \"$PROGRAM\" snapshot tool t -- sh -c 'printf same > by-tool; echo done'; cat by-tool";
    assert!(check_exact(&bench(), script).is_empty());
}

#[test]
fn a_tool_that_changes_nothing_leaves_a_change_of_the_program() {
    let script = "printf other > by-tool; \
        \"$PROGRAM\" snapshot tool t -- sh -c 'printf other > by-tool; echo done'; cat by-tool";
    assert_eq!(check_exact(&bench(), script), ["modified by-tool"]);
}

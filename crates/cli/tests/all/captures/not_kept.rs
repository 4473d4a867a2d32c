//! Contents that are too long to keep: reported as such, and taken from the folder if they are
//! still there.

use serde_json::Value;

use super::peer::says;
use super::{Bench, read};

fn capture(bench: &Bench, script: &str) -> std::path::PathBuf {
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "sh", "-c", script,
    ];
    let ended = bench.call(&args).with(0);
    ended.stdout.lines().last().unwrap().into()
}

#[test]
fn a_tool_file_without_content_is_not_a_failed_replay() {
    let bench = Bench::new(|_, _| says("x"));
    let tool = "\"$PROGRAM\" snapshot tool big -- sh -c 'head -c 1200000 /dev/zero > big.bin'";
    let path = capture(&bench, tool);
    assert_eq!(bench.replay("env", 0)["match_status"], "exact_match");
    let before = read(&path)["replay_status"].clone();
    let report = bench.replay("verify", 3);
    assert_eq!(report["error"]["code"], "content_unavailable", "{report}");
    let found = &report["first_divergence"];
    assert_eq!(
        (&found["reason"], &found["step"]),
        (&"content_unavailable".into(), &1.into())
    );
    let message = report["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("step 1: the content of big.bin is not kept"),
        "{message}"
    );
    assert_eq!(report["match_status"], Value::Null, "{report}");
    assert_eq!(read(&path)["replay_status"], before);
    let attempts = std::fs::read_to_string(path.with_extension("replays.jsonl")).unwrap();
    let last: Value = serde_json::from_str(attempts.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"], "content_unavailable", "{last}");
}

#[test]
fn a_restored_long_file_matches_the_recording() {
    for script in [
        "printf x >> long.txt; wc -c < long.txt",
        "wc -c < long.txt; rm long.txt",
    ] {
        for length in [2 << 20, 9 << 20] {
            let bench = Bench::new(|_, _| says("x"));
            let long = "long\n".repeat(length / 5);
            bench.write("long.txt", &long);
            capture(&bench, script);
            let report = bench.replay("verify", 3);
            assert_eq!(report["error"]["code"], "content_unavailable", "{report}");
            bench.write("long.txt", &long);
            let report = bench.replay("verify", 0);
            assert_eq!(report["match_status"], "exact_match", "{script}: {report}");
        }
    }
}

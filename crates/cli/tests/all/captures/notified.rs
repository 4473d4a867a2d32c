//! Unrequested messages of a tool server are recorded and repeated in their place.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::peer::says;
use super::secrets::files;
use super::{Bench, has_python, read};
use crate::support::Ended;

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/captures/client.py");
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/captures/server.py");
const SECRET: &str = "planted-in-a-notification";

fn call(bench: &Bench, args: &[&str]) -> Ended {
    let mut command = bench.command(args);
    command.env("SERVER", SERVER).env("SHOP_TOKEN", SECRET);
    command.output().unwrap().into()
}

/// Captures such a client; returns its output and the snapshot.
fn capture(bench: &Bench, what: &str) -> (String, PathBuf) {
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "python3", CLIENT, what,
    ];
    let ended = call(bench, &args).with(0);
    let path = ended.stdout.lines().last().unwrap();
    (ended.stdout.clone(), path.into())
}

fn replay(bench: &Bench, code: i32) -> Value {
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    call(bench, &args).with(code).json()
}

#[test]
fn unsolicited_server_notifications_are_replayed_in_place() {
    if !has_python("unsolicited_server_notifications_are_replayed_in_place") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    let (printed, path) = capture(&bench, "all");
    let at = |word: &str| match printed.find(word) {
        Some(at) => at,
        None => panic!("{word} is not in {printed}"),
    };
    let order = [
        "hello",
        "\"id\":0",
        "list_changed",
        "\"id\":1",
        "\"progress\":0.5",
        "with planted",
        "\"progress\":1,\"progressToken\":\"of 2\"",
        "\"sum\":7}",
        "that was easy",
        "in time: True True True",
    ];
    assert!(order.map(at).is_sorted(), "{printed}");
    let started = bench.lab.read("started");

    // The client waits for each of these, and ends with another code if one is missing.
    let report = replay(&bench, 0);
    assert_eq!(
        (&report["match_status"], &report["live"]),
        (&json!("exact_match"), &json!({ "models": 0, "tools": 0 })),
        "{report}"
    );
    assert_eq!(bench.lab.read("started"), started, "no server was started");

    for (name, bytes) in files(&bench.root()) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(SECRET), "{name} has a secret");
    }
    let verified = ["snapshot", "verify", "--root", "shop", "--json"];
    call(&bench, &verified).with(0);

    // They are ordinary contents: exported with the snapshot, and reported if missing.
    let calls = path.with_extension("calls.jsonl");
    let calls = std::fs::read_to_string(calls).unwrap();
    let calls = calls.lines().map(serde_json::from_str::<Value>);
    let calls: Vec<Value> = calls.map(Result::unwrap).collect();
    let add = calls.iter().find(|call| call["name"] == "add").unwrap();
    let sides: Vec<&Value> = (0..2).map(|at| &add["notifications"][at]["side"]).collect();
    assert_eq!(sides, ["before", "after"], "{add}");
    let hash = add["notifications"][0]["hash"].as_str().unwrap();
    let bundle = [
        "snapshot", "export", "latest", "--root", "shop", "--format", "bundle",
    ];
    let bundle = call(&bench, &bundle).with(0).json();
    let content = bundle["contents"][hash]["text"].as_str().unwrap();
    assert!(content.contains("notifications/progress"), "{content}");
    let digits = hash.strip_prefix("sha256:").unwrap();
    let kept = files(&bench.root());
    let is_it = |name: &str| name.replace('/', "").ends_with(digits);
    let (blob, _) = kept.iter().find(|(name, _)| is_it(name)).unwrap();
    std::fs::remove_file(blob).unwrap();
    call(&bench, &verified).with(4);
    let report = replay(&bench, 4);
    assert_eq!(report["error"]["code"], "damaged", "{report}");
}

#[test]
fn a_flood_of_notifications_is_not_kept_and_the_replay_says_so() {
    if !has_python("a_flood_of_notifications_is_not_kept_and_the_replay_says_so") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    let (printed, path) = capture(&bench, "flood");
    assert!(printed.contains("all of it came: True"), "{printed}");
    let snapshot = read(&path);
    assert_eq!(snapshot["outputs"]["tool_calls"][0]["tool"], "flood");
    let found = &replay(&bench, 3)["first_divergence"];
    assert_eq!(
        (&found["reason"], &found["expected"]["name"]),
        (&json!("content_unavailable"), &json!("flood")),
        "{found}"
    );
}

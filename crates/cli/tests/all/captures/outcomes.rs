//! The report of a replay with unchanged calls, and of an execution whose model was not reached.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python, read};
use crate::support::{Ended, Lab};

/// Captures a shell script in the lab.
fn capture(lab: &Lab, options: &[&str], script: &str) -> Value {
    let head = ["snapshot", "capture"];
    let args = [&head, options, &["--", "sh", "-c", script]].concat();
    let ended = lab.call(&args).with(0);
    read(ended.stdout.lines().last().unwrap().as_ref())
}

#[test]
fn another_outcome_of_the_same_steps_is_shown_with_both_sides() {
    let lab = Lab::new();
    capture(
        &lab,
        &[],
        "echo same; cat which 2>/dev/null || echo one; echo x > made",
    );
    let args = ["snapshot", "replay", "latest", "--json"];
    let other = ["--", "sh", "-c", "echo same; echo other; echo x > made"];
    let report = lab.call(&[&args[..], &other].concat()).with(1).json();
    let found = &report["first_divergence"];
    let side = |input: &str| json!({ "kind": "field", "name": "outputs.response", "input": input });
    assert_eq!(
        (
            &found["reason"],
            &found["line"],
            &found["expected"],
            &found["actual"]
        ),
        (
            &json!("other_outcome"),
            &json!(2),
            &side("one"),
            &side("other")
        ),
        "{report}"
    );
    lab.call(&[&args[..3], &other].concat())
        .with(1)
        .prints("outputs.response line 2")
        .prints("\"one\"")
        .prints("\"other\"");
    // The same text, and another file.
    let other = ["--", "sh", "-c", "echo same; echo one; echo y > made"];
    let report = lab.call(&[&args[..], &other].concat()).with(1).json();
    assert_eq!(report["match_status"], "partial_match");
    assert_eq!(report["first_divergence"]["at"], "made", "{report}");
    // The live replay has a different result, too.
    lab.write("which", "two\n");
    let rerun = ["--kind", "rerun", "--strategy", "exact"];
    let report = lab.call(&[&args[..], &rerun].concat()).with(1).json();
    assert_eq!(
        report["first_divergence"]["actual"]["input"], "two",
        "{report}"
    );
    let validate = [
        "snapshot",
        "validate",
        "latest",
        "--runs",
        "2",
        "--strategy",
        "exact",
        "--json",
    ];
    let report = lab.call(&validate).with(1).json();
    let compared = &report["comparisons"][0];
    assert_eq!(
        compared["first_divergence"]["expected"]["input"], "one",
        "{report}"
    );
    // It is recorded, and not a divergence: a replay that passes its strategy has not failed.
    let records = super::secrets::files(&lab.path().join(".aiwg/provenance/snapshots"));
    let records = records
        .into_iter()
        .find(|(name, _)| name.ends_with(".replays.jsonl"));
    let records = String::from_utf8(records.unwrap().1).unwrap();
    let first: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    assert_eq!(first["difference"]["actual"], side("other"));
    assert_eq!(first.get("divergence"), None);
    // An equal result has none.
    std::fs::remove_file(lab.path().join("which")).unwrap();
    let report = lab.call(&args).with(0).json();
    assert_eq!(report["first_divergence"], Value::Null);
}

#[test]
fn a_replay_repeats_an_unreachable_model_as_not_called() {
    if !has_python("a_replay_repeats_an_unreachable_model_as_not_called") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write("ask.py", r#"
import json, os, sys, urllib.request, urllib.error
body = {"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
request = urllib.request.Request(os.environ[sys.argv[1]] + sys.argv[2], json.dumps(body).encode(), {"content-type": "application/json"})
try:
    urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    print(error.code, error.headers["content-type"], error.read().decode())
"#);
    let ask = bench.lab.path().join("ask.py");
    // A port without a listener.
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (variable, path) in [
        ("ANTHROPIC_BASE_URL", "/v1/messages"),
        ("OPENAI_BASE_URL", "/chat/completions"),
    ] {
        let call = |args: &[&str]| {
            let mut command = bench.command(args);
            command.env(variable, format!("http://{gone}"));
            Ended::from(command.output().unwrap())
        };
        let ask = ["--", "python3", ask.to_str().unwrap(), variable, path];
        let capture = [
            "snapshot",
            "capture",
            "--root",
            "shop",
            "--temperature",
            "0",
        ];
        let ended = call(&[&capture[..], &ask].concat()).with(0);
        let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
        let said = snapshot["outputs"]["response"].as_str().unwrap();
        assert!(
            said.starts_with("502 application/json")
                && said.contains("\"code\":\"upstream_unreachable\""),
            "{said}"
        );
        assert_eq!(snapshot["metrics"]["iterations"], 0);
        assert_eq!(
            snapshot["extensions"]["mode_enforcement"]["temperature"],
            "unknown"
        );
        let replay = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
        let report = call(&replay).with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{report}");
        assert_eq!(report["live"]["models"], 0);
    }
}

#[test]
fn a_clean_tree_is_clean_despite_snapshots_in_it() {
    let lab = Lab::new();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(args);
        let ran = git.current_dir(lab.path()).env("HOME", lab.path()).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    lab.write("kept.txt", "x");
    if !git(&["init", "-q"]) {
        return testkit::skip("a_clean_tree_is_told_as_clean", "git is not installed");
    }
    assert!(git(&["add", "."]) && git(&["commit", "-qm", "first"]));
    let dirty = |script: &str| capture(&lab, &[], script)["extensions"]["git"]["dirty"].clone();
    assert_eq!(dirty("true"), false);
    assert_eq!(dirty("echo y > new.txt"), false, "it says how it began");
    assert_eq!(dirty("rm new.txt"), true);
    std::fs::write(lab.path().join(".aiwg/mine.txt"), "x").unwrap();
    assert_eq!(dirty("true"), true, "what is not ours there counts");
}

#[test]
fn the_mode_selects_the_replay_kind_by_default() {
    let lab = Lab::new();
    let model_params = ["--temperature", "0", "--seed", "7", "--max-tokens", "9"];
    for (mode, kind) in [
        ("strict", "verify"),
        ("logged", "verify"),
        ("default", "verify"),
        ("seeded", "model"),
    ] {
        capture(
            &lab,
            &[&["--mode", mode][..], &model_params].concat(),
            "echo x",
        );
        let report = lab
            .call(&["snapshot", "replay", "latest", "--json"])
            .with(0)
            .json();
        assert_eq!(
            (&report["kind"], &report["pass"]),
            (&json!(kind), &json!(true)),
            "{mode}"
        );
    }
    lab.call(&[
        "snapshot",
        "capture",
        "--max-tokens",
        "18446744073709551615",
        "--",
        "true",
    ])
    .with(2)
    .says("--max-tokens");
}

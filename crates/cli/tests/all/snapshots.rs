//! Evidence of executions: captured from runs, compared, kept and removed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

/// A run whose output is that of a script.
fn says(lab: &Lab, id: &str, script_text: &str) {
    let file = lab.workflow(&workflow(id, &[script("say", script_text)], &[]));
    lab.call(&["run", &file]).with(0);
}

fn captured(lab: &Lab) -> String {
    let ended = lab
        .call(&["snapshot", "capture", "--run", "last", "--root", "."])
        .with(0);
    let path = ended.stdout.lines().last().unwrap().to_owned();
    assert!(lab.path().join(&path).is_file(), "{path}");
    path
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(fs::read(path).unwrap())
        }
    }
    found
}

/// A snapshot of another person, as JSON.
fn foreign(id: &str, captured: &str, response: &str) -> Value {
    json!({
        "snapshot_id": id, "workflow_id": "theirs", "version": "1.0", "captured_at": captured,
        "config": { "model": { "id": "m" }, "execution_mode": "default" },
        "inputs": {}, "outputs": { "response": response },
    })
}

#[test]
fn a_run_is_captured_shown_verified_compared_and_exported() {
    let lab = Lab::new();
    says(&lab, "greet", "echo hello");
    let first = captured(&lab);
    assert!(
        first.contains(".aiwg/provenance/snapshots/greet-"),
        "{first}"
    );
    says(&lab, "greet", "echo hello");
    let second = captured(&lab);
    let list = lab.call(&["snapshot", "list", "--json"]).with(0).json();
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 2);
    assert_eq!(list["broken"], json!([]));
    let of_run = ["snapshot", "list", "--json", "--run", &lab.last_run()];
    let of_run = lab.call(&of_run).with(0).json();
    assert_eq!(of_run["snapshots"].as_array().unwrap().len(), 1);
    let shown = lab
        .call(&["snapshot", "show", &first, "--json"])
        .with(0)
        .json();
    assert_eq!(shown["config"]["model"]["id"], "none");
    assert_eq!(shown["extensions"]["run_status"], "succeeded");
    assert_eq!(shown["replay_status"]["match_status"], "not_replayed");
    let id = shown["snapshot_id"].as_str().unwrap();
    lab.call(&["snapshot", "show", &id[..30]]).with_any(&[0, 2]);
    lab.call(&["snapshot", "show", "latest"])
        .with(0)
        .prints("greet");
    let verified = lab
        .call(&["snapshot", "verify", "--strict", "--json"])
        .with(0)
        .json();
    assert_eq!(
        (
            &verified["valid"],
            verified["snapshots"].as_array().unwrap().len()
        ),
        (&json!(true), 2)
    );
    let same = lab
        .call(&["snapshot", "compare", &first, &second, "--json"])
        .with(0)
        .json();
    assert_eq!(
        (&same["match_status"], &same["pass"]),
        (&json!("exact_match"), &json!(true))
    );
    assert_eq!(same["first_divergence"], Value::Null);

    says(&lab, "greet", "echo good day");
    let third = captured(&lab);
    let other = lab.call(&["snapshot", "compare", &first, &third, "--json"]);
    let strategy = other.json()["strategy"].clone();
    assert_eq!(strategy, "structural", "outputs of a run are data");
    let exact = [
        "snapshot",
        "compare",
        &first,
        &third,
        "--strategy",
        "exact",
        "--html",
        "page.html",
    ];
    lab.call(&exact)
        .with(1)
        .prints("first divergence")
        .prints("partial_match");
    assert!(lab.read("page.html").contains("good day"));

    let prov = lab.call(&["snapshot", "export", &first]).with(0).json();
    assert!(
        prov["activity"]
            .as_object()
            .unwrap()
            .keys()
            .any(|key| key.contains(id))
    );
    let lineage = ["snapshot", "export", &first, "--format", "openlineage"];
    assert_eq!(
        lab.call(&lineage).with(0).json_lines()[1]["eventType"],
        "COMPLETE"
    );
    let elsewhere = ["snapshot", "import", &first, "--root", "other"];
    lab.call(&elsewhere).with(0);
    assert!(lab.path().join("other/.aiwg/provenance/snapshots").is_dir());
    lab.call(&["snapshot", "verify", "--strict", "--root", "other"])
        .with(0);
    // A repeated capture of the same log has the same id.
    let again = lab
        .call(&["snapshot", "capture", "--run", "last", "--json"])
        .with(0)
        .json();
    let third = lab.call(&["snapshot", "show", &third, "--json"]).json();
    assert_eq!(again["snapshot_id"], third["snapshot_id"]);
}

#[test]
fn exit_codes_identify_the_problem() {
    let lab = Lab::new();
    says(&lab, "greet", "echo hello");
    let path = captured(&lab);
    lab.call(&["snapshot", "show", "nothing"])
        .with(2)
        .says("no snapshot");
    lab.call(&["snapshot", "compare", &path]).with(2);
    lab.call(&["snapshot", "compare", &path, &path, "--similarity", "2"])
        .with(2);
    let mut silent = foreign("s", "2026-01-01T00:00:00Z", "x");
    silent["outputs"] = json!({});
    lab.write("silent.json", silent.to_string());
    let ended = lab
        .call(&["snapshot", "compare", "./silent.json", &path, "--json"])
        .with(3);
    assert_eq!(ended.json()["error"], "not_comparable");
    let text = lab.read(&path);
    lab.write("changed.json", text.replace("\"greet\"", "\"greed\""));
    lab.call(&["snapshot", "verify", "./changed.json"])
        .with(4)
        .prints("tampered");
    lab.call(&["snapshot", "import", "./changed.json"]).with(4);
    lab.write("half.json", &text[..text.len() / 2]);
    lab.call(&["snapshot", "verify", "./half.json"]).with(4);
    // For damaged evidence, only the damage is reported.
    for damaged in ["./changed.json", "./half.json"] {
        for args in [
            &["snapshot", "compare", &path, damaged, "--json"][..],
            &["snapshot", "compare", damaged, &path, "--json"],
            &["snapshot", "replay", damaged, "--json"],
            &["snapshot", "validate", damaged, "--json"],
            &["snapshot", "export", damaged, "--json"],
        ] {
            let ended = lab.call(args).with(4).says("error:");
            let report = ended.json();
            assert_eq!(
                (
                    &report["error"]["code"],
                    &report["match_status"],
                    &report["pass"]
                ),
                (&json!("damaged"), &Value::Null, &json!(false)),
                "{args:?}"
            );
        }
    }
    lab.call(&["snapshot", "show", "./half.json"]).with(4);
    let lies_in = lab.path().join(".aiwg/provenance/snapshots");
    fs::write(lies_in.join("half.json"), &text[..text.len() / 2]).unwrap();
    for typed in ["half", "half.json"] {
        lab.call(&["snapshot", "show", typed])
            .with(4)
            .says("half.json");
    }
    fs::remove_file(lies_in.join("half.json")).unwrap();
    lab.write(
        "odd.json",
        foreign("snap-1", "2026-01-01T00:00:00Z", "x").to_string(),
    );
    lab.call(&["snapshot", "verify", "./odd.json"])
        .with(4)
        .prints("unsealed")
        .prints("not a UUID");
    lab.call(&["snapshot", "verify", "--strict", "./odd.json"])
        .with(4);
}

#[test]
fn retention_follows_age_and_a_dry_run_changes_nothing() {
    let lab = Lab::new();
    let folder = lab.path().join(".aiwg/provenance/snapshots");
    fs::create_dir_all(&folder).unwrap();
    let now = jiff::Timestamp::now();
    let ago = |seconds: i64| (now - jiff::SignedDuration::from_secs(seconds)).to_string();
    let day = 86_400;
    let replayed = |id: &str, captured: i64, last: i64, status: &str| {
        let mut value = foreign(id, &ago(captured), "x");
        value["replay_status"] = json!({
            "replayed": true, "replay_count": 1, "last_replay": ago(last), "match_status": status,
        });
        value
    };
    let mut child = foreign("child", &ago(day), "x");
    child["extensions"] = json!({ "parent": { "snapshot_id": "parent" } });
    for value in [
        foreign("old", &ago(90 * day + 5), "x"),
        foreign("young", &ago(90 * day - 600), "x"),
        foreign("pinned", &ago(400 * day), "x"),
        foreign("parent", &ago(400 * day), "x"),
        child,
        replayed("failed", 200 * day, 180 * day - 600, "no_match"),
        replayed("failed-long-ago", 300 * day, 180 * day + 5, "no_match"),
        replayed("matched", 91 * day, day, "exact_match"),
    ] {
        let name = format!("{}.json", value["snapshot_id"].as_str().unwrap());
        fs::write(folder.join(name), value.to_string()).unwrap();
    }
    lab.call(&["snapshot", "pin", "pinned"]).with(0);
    let expired = |ended: &Ended| {
        let expired = ended.json()["expired"].as_array().unwrap().clone();
        let mut names: Vec<String> = expired
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    let shown = lab.call(&["snapshot", "prune", "--json"]).with(0);
    let dry = ["snapshot", "prune", "--dry-run", "--json", "--apply"];
    assert_eq!(lab.call(&dry[..4]).with(0).json(), shown.json());
    lab.call(&dry).with(2).says("--apply");
    assert_eq!(expired(&shown), ["failed-long-ago", "matched", "old"]);
    assert!(
        folder.join("old.json").exists(),
        "a dry run touches nothing"
    );
    let applied = lab
        .call(&["snapshot", "prune", "--apply", "--json"])
        .with(0);
    assert_eq!(
        applied.json()["pruned"]["snapshots"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let left = lab.call(&["snapshot", "list", "--json"]).with(0).json();
    let left = left["snapshots"].as_array().unwrap().iter();
    let mut left: Vec<&str> = left
        .map(|entry| entry["snapshot_id"].as_str().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["child", "failed", "parent", "pinned", "young"]);
    assert_eq!(
        expired(&lab.call(&["snapshot", "prune", "--json"]).with(0)),
        [""; 0]
    );
}

#[test]
fn planted_secrets_lie_in_no_file_of_evidence() {
    let lab = Lab::new();
    let secret = "correct-horse-battery";
    let script_text = "echo \"token correct-horse-battery and https://me:hunter2000@host/ and sk-q7Zt4mVb9Xc2Lk8RwPf5Hd3N\"";
    let file = lab.workflow(&workflow("leak", &[script("say", script_text)], &[]));
    let mut run = lab.command(&["run", &file]);
    run.env("MY_TOKEN", secret);
    Ended::from(run.output().unwrap()).with(0);
    let mut capture = lab.command(&["snapshot", "capture", "--run", "last"]);
    capture.env("MY_TOKEN", secret);
    Ended::from(capture.output().unwrap()).with(0);
    let kept = files(&lab.path().join(".aiwg"));
    assert!(!kept.is_empty());
    for bytes in kept {
        let text = String::from_utf8_lossy(&bytes);
        for planted in [secret, "hunter2000", "sk-q7Zt4mVb9Xc2Lk8RwPf5Hd3N"] {
            assert!(!text.contains(planted), "{planted} in {text}");
        }
    }
    let shown = lab.call(&["snapshot", "show", "latest", "--json"]).json();
    assert_eq!(shown["extensions"]["redaction"]["policy"], "on");
}

/// Starts a command and kills it after some microseconds, unless it ended before.
fn killed(lab: &Lab, args: &[&str], micros: u64) {
    let mut command = lab.command(args);
    let command = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let begun = std::time::Instant::now();
    while begun.elapsed().as_micros() < u128::from(micros) {
        std::thread::yield_now();
    }
    // It may have ended.
    let _ = child.kill();
    child.wait().unwrap();
}

/// The names that the list passes over.
fn broken(lab: &Lab) -> Vec<String> {
    let list = lab.call(&["snapshot", "list", "--json"]).with(0).json();
    let broken = list["broken"].as_array().unwrap().iter();
    broken
        .map(|broken| broken["file"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn soak_kills_of_writers_and_pruners() {
    for seed in testkit::seeds(2, 100) {
        let lab = Lab::new();
        let long = "word ".repeat(200_000);
        for number in 0..6 {
            let id = format!("snap-{number}");
            let source = foreign(&id, "2025-01-01T00:00:00Z", &format!("{number} {long}"));
            let file = format!("{id}.json");
            lab.write(&file, source.to_string());
            let micros = (seed * 7_919 + number * 4_801) % 60_000;
            killed(&lab, &["snapshot", "import", &format!("./{file}")], micros);
        }
        let folder = lab.path().join(".aiwg/provenance/snapshots");
        let whole = |name: &str| !name.starts_with(".unfinished-");
        assert!(
            !broken(&lab).iter().any(|name| whole(name)),
            "seed {seed}: {:?}",
            broken(&lab)
        );
        for name in ["snap-7", "snap-8", "snap-9"] {
            let file = lab.write(
                &format!("{name}.json"),
                foreign(name, "2025-01-01T00:00:00Z", &long).to_string(),
            );
            lab.call(&["snapshot", "import", file.to_str().unwrap()])
                .with(0);
        }
        lab.call(&["snapshot", "pin", "snap-9"]).with(0);
        for turn in 0..3 {
            let micros = (seed * 3_571 + turn * 9_001) % 40_000;
            killed(&lab, &["snapshot", "prune", "--apply"], micros);
            let left = broken(&lab);
            let orphan = |name: &String| whole(name) && name.ends_with(".json");
            assert!(!left.iter().any(orphan), "seed {seed}: {left:?}");
        }
        lab.call(&["snapshot", "prune", "--apply"]).with(0);
        let left = fs::read_dir(&folder).unwrap().count();
        assert_eq!(
            (left, broken(&lab)),
            (2, vec![]),
            "seed {seed}: the pinned one and its mark"
        );
        // The remaining one is foreign, and unsealed.
        lab.call(&["snapshot", "verify"]).with(4).prints("unsealed");
    }
}

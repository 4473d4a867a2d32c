//! `kill -9` at a place instead of a time: when the program is about to make its n-th change to the
//! disk. A tracer of system calls does it, so that every step between two changes is covered:
//! between a temporary file and its final name, between a content and the document, between the
//! document and the index, between the record of a replay and the status.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python, lay_out};
use crate::support::Ended;

/// The system calls that change the disk.
const CHANGES: &str =
    "link,linkat,unlink,unlinkat,rename,renameat,renameat2,ftruncate,fsync,mkdir,mkdirat";

/// No step of these tests takes longer unless it hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// The commands that are killed.
const COMMANDS: [&str; 5] = ["capture", "of-run", "import", "replay", "prune"];

fn bench() -> Bench {
    let bench = Bench::new(|_, _| says("done"));
    lay_out(&bench);
    bench.script(&[
        json!({ "ask": "Go." }),
        json!({ "tool": "note", "argv": ["sh", "-c", "echo noted > by-tool.txt"] }),
        json!({ "write": "made.txt", "text": "made" }),
    ]);
    bench
}

/// An expired snapshot of another person.
fn old(id: &str) -> String {
    json!({
        "snapshot_id": id, "workflow_id": "theirs", "version": "1.0",
        "captured_at": "2025-01-01T00:00:00Z",
        "config": { "model": { "id": "m" }, "execution_mode": "default" },
        "inputs": { "user_prompt": "go" }, "outputs": { "response": id },
    })
    .to_string()
}

fn call(bench: &Bench, args: &[&str]) -> Ended {
    let args: Vec<&str> = args.iter().chain(&["--root", "shop"]).copied().collect();
    bench.call(&args)
}

fn list(bench: &Bench) -> Value {
    call(bench, &["snapshot", "list", "--json"]).with(0).json()
}

/// Runs a command that is killed before its `nth` change of the disk; `true` if it ended before
/// that.
fn killed(bench: &Bench, args: &[&str], nth: u64) -> bool {
    let whole = bench.command(args);
    let mut traced = std::process::Command::new("strace");
    let inject = format!("inject={CHANGES}:signal=KILL:when={nth}");
    traced
        .args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &format!("trace={CHANGES}"),
            "-e",
            &inject,
        ])
        .arg(whole.get_program())
        .args(whole.get_args())
        .current_dir(whole.get_current_dir().unwrap())
        .env_clear();
    for (name, value) in whole.get_envs() {
        if let Some(value) = value {
            traced.env(name, value);
        }
    }
    let null = Stdio::null;
    let mut child = traced
        .stdin(null())
        .stdout(null())
        .stderr(null())
        .spawn()
        .unwrap();
    child.wait().unwrap().code().is_some()
}

/// The invariants of a folder after any kill.
fn is_sound(bench: &Bench, what: &str) {
    let listed = list(bench);
    for broken in listed["broken"].as_array().unwrap() {
        let file = broken["file"].as_str().unwrap();
        // A snapshot itself is never incomplete.
        let is_half = file.starts_with(".unfinished-") || !file.ends_with(".json");
        assert!(is_half, "{what}: {broken}");
    }
    let verified = call(bench, &["snapshot", "verify", "--json"]).json();
    let snapshots = verified["snapshots"].as_array().unwrap();
    for one in snapshots {
        // Imported ones have no seal.
        let is_sound = matches!(one["state"].as_str(), Some("valid" | "unsealed"));
        assert!(is_sound, "{what}: {one}");
    }
    for entry in listed["snapshots"].as_array().unwrap() {
        let path =
            Path::new("shop/.aiwg/provenance/snapshots").join(entry["file"].as_str().unwrap());
        let document: Value =
            serde_json::from_str(&bench.lab.read(path.to_str().unwrap())).unwrap();
        let status = &document["replay_status"];
        if status.is_null() {
            continue;
        }
        let said = [
            status["replay_count"].as_u64().unwrap_or(0) > 0,
            status["last_replay"].is_string(),
            status["match_status"] != "not_replayed",
        ];
        let replayed = status["replayed"] == true;
        assert!(
            said.iter().all(|said| *said == replayed),
            "{what}: {status}"
        );
    }
}

#[test]
fn soak_kills_at_each_change_of_the_disk() {
    if !has_python("soak_kills_at_each_change_of_the_disk") {
        return;
    }
    let test = "soak_kills_at_each_change_of_the_disk";
    if std::process::Command::new("strace")
        .arg("-V")
        .output()
        .is_err()
    {
        return testkit::skip(test, "strace is not installed");
    }
    let (mut kills, mut ends) = (0, 0);
    for seed in testkit::seeds(5, 60) {
        let place = usize::try_from(seed).unwrap() % COMMANDS.len();
        let (command, nth) = (COMMANDS[place], seed / COMMANDS.len() as u64 + 1);
        let what = format!("seed {seed}: {command}, change {nth}");
        let bench = bench();
        let file = bench
            .lab
            .workflow(&crate::support::one_script("w", "echo hi"));
        bench.call(&["run", &file]).with(0);
        bench.capture(&["--name", "kept"]);
        for id in ["old-1", "old-2", "pinned"] {
            bench.lab.write(&format!("{id}.json"), old(id));
        }
        for file in ["./old-1.json", "./pinned.json"] {
            call(&bench, &["snapshot", "import", file]).with(0);
        }
        call(&bench, &["snapshot", "pin", "pinned"]).with(0);
        lay_out(&bench);
        let args: Vec<&str> = match command {
            "capture" => bench.capture_args(&["--name", "killed"]),
            "of-run" => vec!["snapshot", "capture", "--run", "last", "--root", "shop"],
            "import" => vec!["snapshot", "import", "./old-2.json", "--root", "shop"],
            "replay" => vec!["snapshot", "replay", "kept", "--root", "shop"],
            _ => vec!["snapshot", "prune", "--apply", "--root", "shop"],
        };
        let before = list(&bench)["snapshots"].as_array().unwrap().len();
        if killed(&bench, &args, nth) {
            ends += 1
        } else {
            kills += 1
        }
        is_sound(&bench, &what);
        let after = list(&bench)["snapshots"].as_array().unwrap().len();
        let lost = before.saturating_sub(after);
        assert!(lost <= usize::from(command == "prune"), "{what}");
        // After any remains, the command can be repeated and finishes.
        lay_out(&bench);
        bench.call(&args).with(0);
        is_sound(&bench, &what);
        let replay = ["snapshot", "replay", "kept", "--json"];
        let report = call(&bench, &replay).with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{what}: {report}");
        let attempts = bench.lab.path().join("shop/.aiwg/provenance/snapshots");
        let attempts = std::fs::read_dir(attempts).unwrap().flatten();
        let recorded = attempts
            .filter(|file| file.path().to_string_lossy().ends_with("replays.jsonl"))
            .map(|file| {
                std::fs::read_to_string(file.path())
                    .unwrap()
                    .lines()
                    .count() as u64
            });
        assert_eq!(
            report["replay_status"]["replay_count"].as_u64(),
            recorded.max(),
            "{what}: each that came to its end counts once"
        );
        // The next prune clears the leftovers.
        call(&bench, &["snapshot", "prune", "--apply"]).with(0);
        let listed = list(&bench);
        assert_eq!(listed["broken"], json!([]), "{what}");
        let ids = listed["snapshots"].to_string();
        assert!(
            ids.contains("\"pinned\"") && !ids.contains("\"old-1\""),
            "{what}: {ids}"
        );
        // The pinned one was imported without a seal; otherwise everything is valid.
        let verified = call(&bench, &["snapshot", "verify"]).with(4);
        assert!(
            !verified.stdout.contains("tampered"),
            "{what}: {verified:?}"
        );
    }
    testkit::figures(
        test,
        &format!("{kills} kills at a change of the disk, {ends} ends before it"),
    );
}

/// Starts a replay of the latest snapshot with a live model; returns at its first request.
fn asking(bench: &Bench, asked: &Receiver<()>) -> std::process::Child {
    let args = ["snapshot", "replay", "latest", "--root", "shop"];
    let child = bench
        .command(&[&args[..], &["--kind", "rerun"]].concat())
        .env("TMPDIR", bench.lab.path().join("tmp"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    asked.recv_timeout(DEADLINE).unwrap();
    child
}

#[test]
fn copies_of_killed_replays_are_cleared_unless_in_use() {
    use std::os::unix::fs::PermissionsExt;
    if !has_python("copies_of_killed_replays_are_cleared_unless_in_use") {
        return;
    }
    let (says_asked, asked) = channel();
    let (answers, wanted) = channel();
    let wanted = Mutex::new(wanted);
    let bench = Bench::new(move |nth, _| {
        if nth > 0 {
            says_asked.send(()).unwrap();
            let _ = wanted.lock().unwrap().recv_timeout(DEADLINE);
        }
        says("done")
    });
    let tmp = bench.lab.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let copies = || {
        let copies = std::fs::read_dir(&tmp).unwrap();
        let copies = copies.map(|found| found.unwrap().path());
        copies.collect::<BTreeSet<_>>()
    };
    bench.write("kept.txt", "kept");
    bench.script(&[json!({ "ask": "Go." })]);
    bench.capture(&[]);

    let mut killed = asking(&bench, &asked);
    let left = copies();
    assert_eq!(left.len(), 1, "{left:?}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    answers.send(()).unwrap();
    assert_eq!(copies(), left, "nothing is left to clear it");
    let mode = std::fs::metadata(left.first().unwrap())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else reads what is left");

    // The next replay clears it, and its own copy is never cleared.
    let mut works = asking(&bench, &asked);
    let held = copies();
    assert!(held.len() == 1 && held.is_disjoint(&left), "{held:?}");
    let verify = bench
        .command(&["snapshot", "replay", "latest", "--root", "shop", "--json"])
        .env("TMPDIR", &tmp)
        .output();
    Ended::from(verify.unwrap()).with(0);
    assert_eq!(copies(), held);
    assert!(held.first().unwrap().join("shop/kept.txt").exists());
    answers.send(()).unwrap();
    assert!(works.wait().unwrap().success());
    assert!(copies().is_empty());
}

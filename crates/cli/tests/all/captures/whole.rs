//! The parts of a snapshot: they move with it, and their absence is reported.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::secrets::files;
use crate::support::{Ended, Lab};

/// A project whose command reads its input and changes its folder directly and through a tool.
fn project(lab: &Lab, name: &str) -> PathBuf {
    let root = lab.path().join(name);
    fs::create_dir(&root).unwrap();
    for (file, text) in [("m.txt", "before\n"), ("gone.txt", "what was there\n")] {
        fs::write(root.join(file), text).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_runwright");
    let script = format!(
        "cat\n{program} snapshot tool t -- sh -c 'echo v1 > m.txt; echo tmp > created.txt'\n\
         {program} snapshot tool u -- echo said\n\
         echo v2 > m.txt; echo final > created.txt; rm gone.txt; echo told >&2\n"
    );
    fs::write(root.join("a.sh"), script).unwrap();
    root
}

/// The program in a folder.
fn call(lab: &Lab, within: &Path, args: &[&str]) -> Ended {
    let mut command = lab.command(args);
    command.current_dir(within).output().unwrap().into()
}

/// Captures the command of a project; returns the path of its snapshot.
fn captured(lab: &Lab, name: &str) -> PathBuf {
    let args = [
        "snapshot", "capture", "--root", name, "--stdin", "--", "sh", "a.sh",
    ];
    let ended = lab.call_with(&args, b"input\n").with(0);
    PathBuf::from(ended.stdout.lines().last().unwrap())
}

fn contents(root: &Path) -> usize {
    files(&root.join(".aiwg/provenance/blobs")).len()
}

#[test]
fn each_way_of_sharing_a_snapshot_includes_its_dependencies() {
    let lab = Lab::new();
    let root = project(&lab, "mo");
    let path = captured(&lab, "mo");
    // Undoes the work of the command, so that the folder is as before.
    let bundle = ["snapshot", "export", "latest", "--format", "bundle"];
    let bundle = call(&lab, &root, &bundle).with(0).stdout;
    lab.write("b.json", bundle);
    let ways = [
        ("by-bundle", "../b.json"),
        ("by-file", path.to_str().unwrap()),
    ];
    for (name, file) in ways {
        let there = project(&lab, name);
        call(&lab, &there, &["snapshot", "import", file]).with(0);
        assert_eq!(contents(&there), contents(&root), "{name}");
        call(&lab, &there, &["snapshot", "verify", "--strict"]).with(0);
        // Its command has not run here: the folder has its original state.
        let replay = ["snapshot", "replay", "latest", "--json"];
        let replayed = call(&lab, &there, &replay).with(0);
        let report = replayed.json();
        assert_eq!(report["match_status"], "exact_match", "{name}: {report}");
        assert_eq!(report["live"], json!({ "models": 0, "tools": 0 }), "{name}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for found in fs::read_dir(from).unwrap().flatten() {
        let (path, to) = (found.path(), to.join(found.file_name()));
        if path.is_dir() {
            copy(&path, &to)
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// A kind of damage to a folder of snapshots, and its error code.
type Damage = (&'static str, &'static str, Box<dyn Fn(&Path)>);

fn beside(snapshots: &Path, ending: &str) -> PathBuf {
    let all = fs::read_dir(snapshots).unwrap().flatten();
    let mut all = all.map(|found| found.path());
    let is_it = |path: &PathBuf| path.to_str().unwrap().ends_with(ending);
    all.find(is_it).unwrap()
}

fn edited(ending: &'static str, edit: impl Fn(&str) -> String + 'static) -> Box<dyn Fn(&Path)> {
    Box::new(move |folder| {
        let path = beside(&folder.join("snapshots"), ending);
        let text = fs::read_to_string(&path).unwrap();
        let changed = edit(&text);
        assert_ne!(text, changed);
        fs::write(&path, changed).unwrap();
    })
}

/// Removes or replaces the content under the hash of a text.
fn content(text: &'static str, other: Option<&'static str>) -> Box<dyn Fn(&Path)> {
    Box::new(move |folder| {
        let hex = kernel::digest::Digest::compute(text.as_bytes()).to_string();
        let path = folder.join("blobs/sha256").join(&hex[..2]).join(&hex[2..]);
        assert!(path.is_file(), "{text}");
        match other {
            Some(other) => fs::write(path, other).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    })
}

#[test]
fn missing_or_changed_snapshot_files_are_found_before_start() {
    let lab = Lab::new();
    let root = project(&lab, "mo");
    captured(&lab, "mo");
    let replay = ["snapshot", "replay", "latest", "--json"];
    call(&lab, &root, &replay).with(0);
    let (folder, whole) = (root.join(".aiwg/provenance"), lab.path().join("whole"));
    copy(&folder, &whole);
    let calls = ".calls.jsonl";
    let cut = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.pop();
        lines.join("\n") + "\n"
    };
    let without_effects = |text: &str| {
        let lines = text.lines().map(|line| {
            let mut call: Value = serde_json::from_str(line).unwrap();
            call.as_object_mut().unwrap().remove("effects");
            format!("{call}\n")
        });
        lines.collect::<String>()
    };
    let swapped = |text: &str| {
        let mut lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let results = [0, 1].map(|place: usize| lines[place]["result_hash"].clone());
        lines[1]["result_hash"] = results[0].clone();
        lines[0]["result_hash"] = results[1].clone();
        lines.iter().map(|line| format!("{line}\n")).collect()
    };
    let missing = "content_missing";
    let damages: [Damage; 12] = [
        (
            "no calls",
            "calls_changed",
            Box::new(move |folder| {
                fs::remove_file(beside(&folder.join("snapshots"), calls)).unwrap();
            }),
        ),
        ("a call less", "calls_changed", edited(calls, cut)),
        (
            "results swapped",
            "calls_contradict",
            edited(calls, swapped),
        ),
        (
            "no effects",
            "calls_changed",
            edited(calls, without_effects),
        ),
        (
            "another name",
            "calls_contradict",
            edited(calls, |text| {
                text.replace("\"name\":\"t\"", "\"name\":\"v\"")
            }),
        ),
        (
            "what was deleted",
            missing,
            content("what was there\n", None),
        ),
        ("what was modified", missing, content("before\n", None)),
        (
            "what a tool made for a while",
            missing,
            content("tmp\n", None),
        ),
        ("what was read", missing, content("\"input\\n\"", None)),
        (
            "what was written",
            missing,
            content("\"input\\nsaid\\n\"", None),
        ),
        (
            "other output",
            "content_damaged",
            content("\"input\\nsaid\\n\"", Some("\"x\"")),
        ),
        (
            "a broken record of replays",
            "replays_damaged",
            edited(".replays.jsonl", |text| format!("{{\n{text}")),
        ),
    ];
    for (what, code, damage) in damages {
        fs::remove_dir_all(&folder).unwrap();
        copy(&whole, &folder);
        let verify = ["snapshot", "verify", "latest", "--strict", "--json"];
        call(&lab, &root, &verify).with(0);
        damage(&folder);
        let found = call(&lab, &root, &verify).with(4).json();
        let codes = found["snapshots"][0]["findings"].to_string();
        assert!(codes.contains(code), "{what}: {found}");
        let refused = call(&lab, &root, &replay).with(4).json();
        assert_eq!(refused["error"]["code"], "damaged", "{what}");
        call(
            &lab,
            &root,
            &["snapshot", "export", "latest", "--format", "bundle"],
        )
        .with(4);
    }
}

#[test]
fn a_snapshot_named_by_its_path_is_that_of_its_own_project() {
    let lab = Lab::new();
    let root = project(&lab, "mo");
    let path = captured(&lab, "mo");
    fs::write(root.join("gone.txt"), "what was there\n").unwrap();
    let elsewhere = lab.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let path = path.to_str().unwrap();
    for (within, named) in [
        (&elsewhere, path),
        (
            &root.join(".aiwg/provenance/snapshots"),
            Path::new(path).file_name().unwrap().to_str().unwrap(),
        ),
    ] {
        let call = |args: &[&str]| {
            let args = [&["snapshot"], args].concat();
            let mut command = lab.command(&args);
            Ended::from(command.current_dir(within).output().unwrap())
        };
        call(&["verify", named, "--strict"]).with(0);
        call(&["show", named]).with(0).prints("recorded");
        let report = call(&["replay", named, "--json"]).with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{report}");
        let verdict = call(&["validate", named, "--runs", "2", "--json"])
            .with(0)
            .json();
        assert_eq!(verdict["match_rate"], 1.0, "{verdict}");
        let bundle = call(&["export", named, "--format", "bundle"])
            .with(0)
            .json();
        assert_eq!(
            bundle["contents"].as_object().unwrap().len(),
            contents(&root)
        );
        call(&["compare", named, named]).with(0);
        call(&["pin", named]).with(0);
    }
    assert!(
        !elsewhere.join(".aiwg").exists(),
        "nothing of it is kept elsewhere"
    );
    let shown = call(&lab, &root, &["snapshot", "show", "latest", "--json"]).json();
    assert_eq!(shown["replay_status"]["replay_count"], 2);
}

#[test]
fn a_tool_that_changes_thousands_of_files_is_captured() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("mo")).unwrap();
    let unpack = "d=packages/component-library/src/generated/of-the-library; mkdir -p $d; i=0; \
        while [ $i -lt 5000 ]; do echo x > $d/file_of_the_component_$i.generated.ts; i=$((i+1)); done";
    let program = env!("CARGO_BIN_EXE_runwright");
    let capture = [
        "snapshot", "capture", "--root", "mo", "--", program, "snapshot", "tool", "unpack",
    ];
    lab.call(&[&capture[..], &["--", "sh", "-c", unpack]].concat())
        .with(0);
    let snapshot = |args: &[&str]| {
        lab.call(&[&["snapshot"], args, &["--root", "mo", "--json"]].concat())
            .with(0)
            .json()
    };
    assert_eq!(snapshot(&["verify"])["valid"], true);
    let calls = beside(
        &lab.path().join("mo/.aiwg/provenance/snapshots"),
        ".calls.jsonl",
    );
    assert!(fs::metadata(calls).unwrap().len() > 1 << 20, "a long line");
    let report = snapshot(&["replay", "latest"]);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(
        snapshot(&["compare", "latest", "latest"])["match_status"],
        "exact_match"
    );
    assert_eq!(snapshot(&["prune", "--apply"])["pruned"]["has_swept"], true);
}

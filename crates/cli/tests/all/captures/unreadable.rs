//! Folders with unreadable parts, or with parts that appear and vanish during the scan.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::{artifacts, read};
use crate::support::{Ended, Lab};

/// A user to whom permissions apply.
const NOBODY: u32 = 65_534;

/// Calls the program as an unprivileged user, who owns everything in the lab.
fn call(lab: &Lab, args: &[&str]) -> Ended {
    let mut command = lab.command(args);
    if rustix::process::geteuid().is_root() {
        give(lab.path());
        command.uid(NOBODY).gid(NOBODY);
    }
    command.env("TMPDIR", lab.path().join("tmp"));
    // The key must be in a folder that this user can write.
    command.env("XDG_CONFIG_HOME", lab.path().join("tmp/config"));
    command.output().unwrap().into()
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for found in std::fs::read_dir(path).unwrap().flatten() {
            give(&found.path());
        }
    }
}

fn lab() -> Lab {
    let lab = Lab::new();
    for folder in ["shop", "tmp"] {
        std::fs::create_dir(lab.path().join(folder)).unwrap();
    }
    lab
}

/// Writes a file with its parent folders.
fn put(lab: &Lab, name: &str, text: &str) {
    let path = lab.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Takes every right away.
fn shut(lab: &Lab, path: &str) {
    // Its owner is the user without access.
    if rustix::process::geteuid().is_root() {
        give(lab.path());
    }
    std::fs::set_permissions(lab.path().join(path), Permissions::from_mode(0o0)).unwrap();
}

/// Restores access, so that the lab can be removed.
fn open(lab: &Lab, paths: &[&str]) {
    for path in paths {
        let mode = Permissions::from_mode(0o700);
        std::fs::set_permissions(lab.path().join(path), mode).unwrap();
    }
}

fn capture(lab: &Lab, options: &[&str], script: &str) -> (Ended, serde_json::Value) {
    let head = ["snapshot", "capture", "--root", "shop"];
    let tail = ["--", "sh", "-c", script];
    let ended = call(lab, &[&head, options, &tail].concat()).with(0);
    let snapshot = read(Path::new(ended.stdout.lines().last().unwrap()));
    (ended, snapshot)
}

const REPLAY: [&str; 6] = ["snapshot", "replay", "latest", "--root", "shop", "--json"];

#[test]
fn a_folder_a_command_makes_unreadable_is_only_reported() {
    let lab = lab();
    put(&lab, "shop/turned/inner.txt", "was there");
    put(&lab, "shop/gone.txt", "x");
    let script =
        "mkdir locked; chmod 0 locked turned; rm gone.txt; echo made > made.txt; echo answer";
    let (ended, snapshot) = capture(&lab, &[], script);
    open(&lab, &["shop/locked", "shop/turned"]);
    let ended = ended.says("cannot be read").says("locked, turned");
    assert!(!ended.stderr.contains("made.txt"), "{ended:?}");
    assert_eq!(
        artifacts(&snapshot),
        ["deleted gone.txt", "created made.txt"],
        "of what cannot be read any more nobody says that it was deleted"
    );
    assert_eq!(
        snapshot["extensions"]["unreadable"],
        json!(["locked", "turned"])
    );
    assert_eq!(snapshot["outputs"]["response"], "answer\n");
    let report = call(&lab, &REPLAY).with(0).json();
    assert_eq!(report["match_status"], "exact_match", "{report}");
}

#[test]
fn unreadable_folders_are_reported_unless_excluded() {
    let lab = lab();
    let all = [
        "shop/theirs",
        "shop/node_modules/inner",
        "shop/skipped",
        "shop/shut.txt",
    ];
    for path in &all[..3] {
        put(&lab, &format!("{path}/file.txt"), "x");
    }
    put(&lab, "shop/shut.txt", "x");
    for path in all {
        shut(&lab, path);
    }
    let script = "cat shut.txt 2>/dev/null || echo shut; ls theirs 2>/dev/null; echo x > made.txt";
    let (ended, snapshot) = capture(&lab, &["--exclude", "skipped"], script);
    ended.says("cannot be read").says("shut.txt, theirs");
    assert_eq!(
        snapshot["extensions"]["unreadable"],
        json!(["shut.txt", "theirs"])
    );
    assert_eq!(artifacts(&snapshot), ["created made.txt"]);
    let replayed = call(&lab, &REPLAY).with(0);
    let report = replayed.json();
    assert_eq!(report["match_status"], "exact_match", "{report}");
    replayed
        .says("empty in the copy")
        .says("node_modules/inner");
    // Files that become readable later are not reported as created.
    let (_, snapshot) = capture(
        &lab,
        &["--exclude", "skipped"],
        "chmod 700 theirs shut.txt; cat shut.txt",
    );
    assert_eq!(artifacts(&snapshot), [""; 0]);
    assert_eq!(snapshot["outputs"]["response"], "x");
    open(&lab, &all);
}

#[test]
fn a_folder_that_is_left_out_takes_everything_in_it_along() {
    let lab = lab();
    put(&lab, "shop/skipped/deep/file.txt", "before");
    put(&lab, "shop/asked/wanted.log", "before");
    let script = "for f in skipped/deep/file.txt asked/wanted.log asked/other.log kept.txt; do echo after > $f; done";
    let options = [
        "--exclude",
        "skipped",
        "--exclude",
        "asked",
        "--include",
        "asked/wanted*",
    ];
    let (_, snapshot) = capture(&lab, &options, script);
    assert_eq!(
        artifacts(&snapshot),
        ["modified asked/wanted.log", "created kept.txt"]
    );
}

#[test]
fn folders_that_change_during_a_scan_do_not_fail_the_capture() {
    let lab = lab();
    let script = "for i in 1 2 3 4 5 6 7 8; do \"$PROGRAM\" snapshot tool t -- true || exit 9; done; echo ok";
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "sh", "-c", script,
    ];
    let mut command = lab.command(&args);
    command.env("PROGRAM", env!("CARGO_BIN_EXE_runwright"));
    let is_over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        // A concurrent build in the folder.
        scope.spawn(|| {
            let at = |number: usize| lab.path().join(format!("shop/build-{number}"));
            while !is_over.load(Ordering::Relaxed) {
                for number in 0..60 {
                    std::fs::create_dir_all(at(number).join("a/b")).unwrap();
                    std::fs::write(at(number).join("a/b/o"), "x").unwrap();
                }
                for number in 0..60 {
                    std::fs::remove_dir_all(at(number)).unwrap();
                }
            }
        });
        let ended: Ended = command.output().unwrap().into();
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    let ended = ended.with(0);
    let snapshot = read(Path::new(ended.stdout.lines().last().unwrap()));
    assert_eq!(snapshot["outputs"]["response"], "ok\n");
    assert_eq!(snapshot["metrics"]["tool_calls_count"], 8);
    assert_eq!(snapshot["extensions"].get("unreadable"), None);
    let mut artifacts = artifacts(&snapshot).into_iter();
    assert!(artifacts.all(|artifact| artifact.contains(" build-")));
}

#[test]
fn an_unreadable_snapshot_folder_is_not_reported_as_empty() {
    let lab = lab();
    capture(&lab, &[], "true");
    shut(&lab, "shop/.aiwg");
    for args in [
        &["list"][..],
        &["verify"],
        &["prune", "--apply"],
        &["show", "latest"],
    ] {
        let args = [&["snapshot"], args, &["--root", "shop"]].concat();
        call(&lab, &args).with(2).says("denied");
    }
    open(&lab, &["shop/.aiwg"]);
}

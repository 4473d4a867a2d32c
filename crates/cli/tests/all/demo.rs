//! The demo: its statements are true, and it leaves nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::*;

/// The demo, with the lab as its temporary folder.
fn demo(lab: &Lab, args: &[&str]) -> Command {
    let mut command = lab.command(&["demo"]);
    command.args(args).env("TMPDIR", lab.path());
    // Settings for another server do not apply to the demo's.
    command
        .env("RUNWRIGHT_DATA", "/nowhere/at/all")
        .env("RUNWRIGHT_LISTEN", "not an address");
    command
}

fn folders(lab: &Lab) -> Vec<PathBuf> {
    let entries = fs::read_dir(lab.path()).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.to_str().unwrap().contains("runwright-demo-"))
        .collect()
}

/// The living processes that have the lab's folder in their environment or their arguments.
fn alive(lab: &Lab) -> Vec<i32> {
    let folder = lab.path().to_str().unwrap().as_bytes();
    let mentions = |pid: i32, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(folder.len()).any(|window| window == folder)
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| mentions(*pid, "environ") || mentions(*pid, "cmdline"))
        .collect()
}

#[track_caller]
fn nothing_is_left(lab: &Lab) {
    alive(lab).into_iter().for_each(wait_until_gone);
    assert_eq!(folders(lab), Vec::<PathBuf>::new());
}

#[test]
fn finished_work_is_kept_and_work_in_flight_restarts() {
    let lab = Lab::new();
    let ended: Ended = demo(&lab, &["--json"]).output().unwrap().into();
    let ended = ended.with(0).says("kill -9").says("taken over");
    let shown = ended.json();
    let names =
        |field: &str| -> Vec<String> { serde_json::from_value(shown[field].clone()).unwrap() };
    let (kept, restarted) = (names("kept"), names("restarted"));
    assert!(kept.contains(&"write-log".to_owned()), "{shown:#}");
    assert!(kept.len() >= 2 && !restarted.is_empty(), "{shown:#}");
    assert!(kept.iter().all(|node| !restarted.contains(node)));
    assert_eq!(shown["startedAfter"], json!(["report"]));
    let starts = shown["processesStarted"].as_object().unwrap();
    assert_eq!(starts.len(), 6);
    assert!(starts.values().all(|count| count == 1), "{shown:#}");
    assert_eq!(shown["snapshot"]["status"], "completed");
    assert_eq!(shown["snapshot"]["owner"]["principal"], "demo");
    nothing_is_left(&lab);
}

#[test]
fn kept_it_can_be_looked_at() {
    let lab = Lab::new();
    let ended: Ended = demo(&lab, &["--keep"]).output().unwrap().into();
    ended
        .with(0)
        .says("Next steps")
        .prints("The result of each node")
        .prints("# Requests of one day");
    let folders = folders(&lab);
    let [folder] = &folders[..] else {
        panic!("one folder: {folders:?}");
    };
    let data = folder.join("data");
    let data = data.to_str().unwrap();
    lab.call(&["verify", "--data", data])
        .with(0)
        .prints("no fault found");
    let run = lab.call(&["runs", "show", "last", "--data", data, "--json"]);
    assert_eq!(run.with(0).json()["status"], "completed");
    let trail = ["audit", "list", "--data", data, "--json"];
    let trail = lab.call(&trail).with(0).json_lines();
    assert_eq!(trail[0]["action"], "key.created");
    // The engine's checkpoints are between them, in any number.
    let done = |action: &str| {
        let entries = trail.iter().filter(|entry| entry["action"] == action);
        entries
            .filter(|entry| entry["outcome"]["as"] == "done")
            .count()
    };
    assert_eq!(done("key.created"), 1);
    assert_eq!(done("run.created"), 1);
    alive(&lab).into_iter().for_each(wait_until_gone);
    assert!(Path::new(data).join("store.db").exists());
}

#[test]
fn interrupted_it_takes_everything_with_it() {
    let lab = Lab::new();
    let mut command = demo(&lab, &[]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr).lines();
    let is_in_flight = |line: &String| line.contains("slowest started");
    let seen = lines.by_ref().map(Result::unwrap).find(is_in_flight);
    assert!(seen.is_some(), "the demo ended before its run began");
    // The processes in flight may not have begun yet.
    assert!(alive(&lab).len() >= 2, "the demo and its server");
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:#?}");
    nothing_is_left(&lab);
}

#[test]
fn a_killed_demo_leaves_no_server() {
    let lab = Lab::new();
    let mut command = demo(&lab, &[]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
    let seen = lines.find(|line| line.contains("slowest started"));
    assert!(seen.is_some(), "the demo ended before its run began");
    let left = alive(&lab);
    assert!(left.len() >= 2, "the demo and its server");
    child.kill().unwrap();
    child.wait().unwrap();
    // Their supervisor is gone.
    left.into_iter().for_each(wait_until_gone);
    alive(&lab).into_iter().for_each(wait_until_gone);
    assert_eq!(
        folders(&lab).len(),
        1,
        "what it could not clean up any more"
    );
}

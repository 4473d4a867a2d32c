//! A run of a server, as displayed to people.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::serving::{Serving, call, lab};
use crate::support::*;

/// The display without parts that differ between runs: ids, times, the order of events of two runs,
/// and starts, which are only shown if they are seen before the end.
fn told(text: &str) -> Vec<String> {
    let words = |line: &str| -> Vec<String> {
        let shown = line.split(' ').map(|word| match word {
            word if word.chars().any(|c| c.is_ascii_digit()) || is_short_id(word) => "#".to_owned(),
            // The duration is in one of the two.
            "s" | "s:" => format!("m{word}"),
            word => word.to_owned(),
        });
        shown.collect()
    };
    let lines = text.lines().filter(|line| !line.contains(" started"));
    let mut lines: Vec<String> = lines.map(|line| words(line).join(" ")).collect();
    lines.sort();
    lines
}

/// Some short ids have letters alone.
fn is_short_id(word: &str) -> bool {
    word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit())
}

/// A parent with a child that prints something, then a node that fails twice.
fn parent() -> [Value; 2] {
    let child = one_script("child", "echo from below");
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "child" }));
    let mut fails = script("fails", "echo broken >&2; exit 3");
    fails["settings"] = json!({ "retry": { "maxRetries": 1, "initialDelayMs": 1 } });
    let parent = workflow("parent", &[call, fails], &[("call", "fails")]);
    [parent, child]
}

#[test]
fn a_server_run_is_shown_like_a_store_run() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let [parent, child] = parent().map(|document| lab.workflow(&document));
    let good = lab.workflow(&one_script("good", "echo one; echo two"));
    let good = good.as_str();
    for (args, code) in [
        (vec!["run", &parent, "--with", &child], 1),
        (vec!["run", good, "--watch"], 0),
        (vec!["run", good, "--quiet"], 0),
    ] {
        let here = lab.call(&args).with(code);
        let there = call(&lab, &serving, "", &args).with(code);
        let place = format!(" --server {}", serving.url);
        assert_eq!(told(&there.stderr.replace(&place, "")), told(&here.stderr));
        assert_eq!(there.stdout, here.stdout);
    }
    // The suggested next commands name the server, and work.
    let failed = call(&lab, &serving, "", &["run", &parent]).with(1);
    let failed = failed
        .says("call/step completed")
        .says("dead-lettered after 2 attempts of fails");
    let (_, next) = failed.stderr.split_once("`runwright ").unwrap();
    let (next, _) = next.split_once('`').unwrap();
    let next: Vec<&str> = next.split(' ').collect();
    let events = lab.call(&next).with(0);
    let events = events
        .prints("run.dead_lettered")
        .prints("process_failed: ");
    // Line by line like `events` of a store, except for a transport without a protocol name.
    let run = next[1];
    let here = lab.call(&["events", run, "--data", "store"]).with(0);
    assert_eq!(events.stdout, here.stdout.replace("  by cli\n", "\n"));
    call(&lab, &serving, "", &["runs", "show", run])
        .with(0)
        .prints("failed after 2 attempts of fails")
        .prints("[process_failed]");
    serving.stop();
}

#[test]
fn events_of_children_come_too_where_programs_read() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let [parent, child] = parent().map(|document| lab.workflow(&document));
    let args = ["run", &parent, "--with", &child, "--json"];
    let lines = call(&lab, &serving, "", &args).with(1).json_lines();
    let (snapshot, events) = lines.split_last().unwrap();
    assert_eq!(snapshot["workflowId"], "parent");
    let of_child = events
        .iter()
        .filter(|event| event["runId"] != snapshot["runId"]);
    let of_child: Vec<&str> = of_child
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(of_child.first(), Some(&"run.started"));
    assert_eq!(of_child.last(), Some(&"run.completed"));
    serving.stop();
}

#[test]
fn stopping_a_watch_reports_that_the_run_continues() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let mut watcher = lab.command(&["run", "waits", "--server", &serving.url, "--json"]);
    let log = fs::File::create(lab.path().join("watcher.log")).unwrap();
    let mut watcher = watcher
        .stdout(std::process::Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(watcher.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("node.started") {
        line.clear();
        let read = std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        assert!(read > 0, "{}", lab.read("watcher.log"));
    }
    kill_process(Pid::from_child(&watcher), Signal::INT).unwrap();
    assert_eq!(watcher.wait().unwrap().code(), Some(130));
    let told = lab.read("watcher.log");
    assert!(told.contains("the run continues on the server"), "{told}");
    let shown = call(&lab, &serving, "", &["runs", "show", "last", "--json"]);
    assert_eq!(shown.with(0).json()["status"], "running");
    serving.stop();
}

#[test]
fn options_decided_by_the_server_are_rejected() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    call(&lab, &serving, "", &["run", "three", "--max-parallel", "2"])
        .with(2)
        .says("a server decides")
        .says("remove --max-parallel");
    let runs = call(&lab, &serving, "", &["runs", "list", "--json"]).with(0);
    assert_eq!(runs.stdout, "", "nothing was made");
    serving.stop();
}

#[test]
fn a_server_artifact_equals_the_process_output() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let config = json!({ "argv": ["sh", "-c", "seq 1 300000"], "keepOutput": "always" });
    let step = node("step", "runwright.process", config);
    let shown = lab.workflow(&workflow("w", std::slice::from_ref(&step), &[]));
    let there = |args: &[&str]| call(&lab, &serving, "", args);
    // Its id, which `runs show` prints in both cases.
    let left_by = |file: &str| {
        there(&["run", file, "--quiet"]).with(0);
        let shown = there(&["runs", "show", "last"]).with(0);
        let mut lines = shown.stdout.lines();
        let line = lines.find(|line| line.contains("process.stdout")).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let id = left_by(&shown);
    let whole: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    let printed = there(&["runs", "artifact", "last", &id]).with(0).stdout;
    assert_eq!(printed, whole);
    let save = ["runs", "artifact", "last", &id[..10], "-o", "saved.txt"];
    there(&save).with(0).says("2.0 MB");
    assert_eq!(lab.read("saved.txt"), whole);
    there(&save).with(2).says("exists already");
    there(&["runs", "artifact", "last", "art-nope"])
        .with(2)
        .says("runwright runs show");
    // A hidden artifact is rejected before its file is created.
    let mut hidden = step;
    hidden["outputSensitivity"] = json!({ "stdout": true });
    let id = left_by(&lab.workflow(&workflow("hides", &[hidden], &[])));
    there(&["runs", "artifact", "last", &id, "-o", "hidden.txt"])
        .with(2)
        .says("forbidden");
    assert!(!lab.path().join("hidden.txt").exists());
    serving.stop();
}

#[test]
fn a_closed_output_keeps_the_verdict_of_a_server_run() {
    let lab = lab();
    let mut gate = lab.gate("gate");
    lab.write_flow(&one_script("fails", "read -r _ < gate; exit 3"));
    let serving = Serving::start(&lab, &["--dev"]);
    let mut command = lab.command(&["run", "fails", "--json"]);
    command.env("RUNWRIGHT_SERVER", &serving.url);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    gate.open();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    serving.stop();
}

#[test]
fn commands_that_need_a_store_refuse_a_server() {
    let lab = Lab::new();
    let flow = lab.workflow(&one_script("good", "echo one"));
    lab.write("bundle.json", "{}");
    for args in [
        vec!["workbench", "import", "bundle.json"],
        vec!["workbench", "export", "r-1"],
        vec!["workflow", "graph", "--run", "last"],
        vec!["workflow", "put", &flow],
        vec!["snapshot", "capture", "--run", "last"],
        vec!["runs", "signal", "last", "name"],
        vec!["verify"],
    ] {
        let mut command = lab.command(&args);
        command.env("RUNWRIGHT_SERVER", "http://127.0.0.1:1");
        let refused = Ended::from(command.output().unwrap()).with(2);
        refused.says("works on a store, not on a server");
    }
    lab.call(&["serve", "--server", "http://127.0.0.1:1"])
        .with(2)
        .says("works on a store, not on a server");
    assert!(!lab.path().join(".runwright").exists());
}

#[test]
fn serve_ignores_the_variable_for_clients() {
    let lab = lab();
    let serving = Serving::with(&lab, &["--dev"], |command| {
        command.env("RUNWRIGHT_SERVER", "http://127.0.0.1:1");
    });
    serving.stop();
}

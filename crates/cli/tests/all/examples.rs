//! Each example does what its description promises.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use serde_json::Value;

use crate::support::*;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Runs an example like a new user, with the store in the lab.
fn run(lab: &Lab, example: &str, more: &[&str]) -> Ended {
    let mut command = lab.command(&["run"]);
    command
        .arg(root().join("examples").join(example))
        .args(more);
    command
        .arg("--project")
        .arg(root())
        .arg("--data")
        .arg(lab.path().join("store"));
    // Cargo needs these to find its toolchain.
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.output().unwrap().into()
}

fn events(lab: &Lab) -> Vec<Value> {
    let args = ["events", "last", "--json", "--data", "store"];
    lab.call(&args).with(0).json_lines()
}

/// Whether these nodes were all running at one moment.
fn are_parallel(events: &[Value], nodes: &[&str]) -> bool {
    let at = |kind: &str, node: &str| {
        let found = |event: &Value| event["type"] == kind && event["nodeId"] == node;
        events.iter().position(found).unwrap()
    };
    let last_start = nodes.iter().map(|node| at("node.started", node)).max();
    let first_end = nodes.iter().map(|node| at("node.completed", node)).min();
    last_start < first_end
}

#[test]
fn every_example_is_valid_described_and_can_be_drawn() {
    let lab = Lab::new();
    let readme = std::fs::read_to_string(root().join("examples/README.md")).unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("examples"))
        .unwrap()
        .flatten()
    {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let file = path.to_str().unwrap();
        lab.call(&["workflow", "validate", file]).with(0);
        lab.call(&["workflow", "graph", file, "-f", "svg"])
            .with(0)
            .prints("<svg");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            readme.contains(&format!("`{name}`")),
            "{name} is not described"
        );
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
fn word_count_counts_every_file_once_by_four_processes() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path().join("texts/deep")).unwrap();
    for number in 0..10 {
        let name = match number % 2 {
            0 => format!("texts/{number}.md"),
            _ => format!("texts/deep/a file {number}.md"),
        };
        lab.write(&name, "word ".repeat(number + 1));
    }
    lab.write("texts/other.txt", "not counted");
    let mut command = lab.command(&["run"]);
    command.arg(root().join("examples/word-count.json"));
    let ended: Ended = command
        .args(["-i", "folder=texts"])
        .output()
        .unwrap()
        .into();
    ended
        .with(0)
        .prints("55 words in 10 files")
        .prints("10 texts/deep/a file 9.md");
    let events = lab.events("last");
    let nodes = ["count-0", "count-1", "count-2", "count-3"];
    assert!(
        nodes
            .iter()
            .all(|node| events.iter().any(is_of("node.completed", node)))
    );
}

#[test]
fn build_and_test_runs_both_at_once_and_cleans_up() {
    let lab = Lab::new();
    let ended = run(&lab, "build-and-test.json", &[]).with(0);
    ended.prints("test result: ok. 2 passed").prints("docs/doc");
    let events = events(&lab);
    assert!(are_parallel(&events, &["build", "test", "docs"]));
    let folder = events
        .iter()
        .find(|event| event["type"] == "node.completed" && event["nodeId"] == "folder");
    let folder = &folder.unwrap()["payload"]["outputs"]["lines"][0];
    assert!(!Path::new(folder.as_str().unwrap()).exists(), "{folder}");
    assert!(!root().join("examples/shop/target").exists());
}

#[test]
fn data_check_dead_letters_cut_files_and_accepts_whole_ones() {
    let lab = Lab::new();
    let cut_off = run(&lab, "data-check.json", &[]).with(1);
    cut_off.says("does not end with the line END");
    let log = events(&lab);
    let of = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(of("node.retried"), 3);
    assert_eq!(of("run.dead_lettered"), 1);
    let letter = log
        .iter()
        .find(|event| event["type"] == "run.dead_lettered");
    assert_eq!(letter.unwrap()["payload"]["attempts"], 4);

    let whole = ["-i", "file=examples/data/orders-complete.csv"];
    run(&lab, "data-check.json", &whole)
        .with(0)
        .prints("4 orders, 71.70 in all");

    // Errors in the middle of a file are found by the checks.
    let bad = lab.write(
        "bad.csv",
        "number,item,pieces,cents\n1,tea,2,900\n1,cups,6,x\nEND\n",
    );
    let bad = format!("file={}", bad.display());
    let ended = run(&lab, "data-check.json", &["-i", &bad]).with(1);
    assert!(
        ended.stderr.contains("is there twice") || ended.stderr.contains("has no amount"),
        "{ended:#?}"
    );
}

/// A stand-in for the shop. Each received request is sent to the channel.
fn shop() -> (u16, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, got) = mpsc::channel();
    std::thread::spawn(move || {
        let mut is_first = true;
        for stream in listener.incoming().flatten() {
            let (line, body) = request(&stream);
            let (status, answer) = match line.as_str() {
                // Unavailable at first; the workflow retries.
                _ if is_first => ("503 Service Unavailable", "{}"),
                "GET /orders" => (
                    "200 OK",
                    r#"[{"number":7,"item":"tea","cents":2000},{"number":8,"item":"jam","cents":10}]"#,
                ),
                "GET /stock" => ("200 OK", r#"{"tea":0,"jam":4}"#),
                "POST /reports" => ("201 Created", "{}"),
                _ => ("404 Not Found", "{}"),
            };
            is_first = false;
            let length = answer.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = (&stream).write_all(format!("{head}{answer}").as_bytes());
            if told.send((line, body)).is_err() {
                return;
            }
        }
    });
    (port, got)
}

fn request(stream: &TcpStream) -> (String, String) {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
    let length = lines
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let words: Vec<&str> = lines[0].split(' ').collect();
    let line = format!("{} {}", words[0].to_uppercase(), words[1]);
    (line, String::from_utf8(body).unwrap())
}

#[test]
fn shop_report_retries_an_unavailable_service_and_reports() {
    let lab = Lab::new();
    let (port, got) = shop();
    let url = format!("shop=http://localhost:{port}");
    let allow = format!("localhost:{port}");
    let ended = run(
        &lab,
        "shop-report.json",
        &["-i", &url, "--allow-http", &allow],
    );
    ended
        .with(0)
        .prints("2 orders; large: 7; out of stock: tea");
    let requests: Vec<_> = got.try_iter().collect();
    let asked = |line: &str| requests.iter().filter(|(l, _)| l == line).count();
    assert_eq!(
        asked("GET /orders") + asked("GET /stock"),
        3,
        "one was asked twice"
    );
    let reports: Vec<_> = requests
        .iter()
        .filter(|(l, _)| l == "POST /reports")
        .collect();
    assert_eq!(reports.len(), 1);
    let report: Value = serde_json::from_str(&reports[0].1).unwrap();
    assert_eq!(report["missing"], "tea");

    // Without the option it connects nowhere.
    let refused = run(&lab, "shop-report.json", &["-i", &url]).with(1);
    refused.says("refused");
}

#[test]
fn sign_off_publishes_the_draft_that_was_accepted() {
    let lab = Lab::new();
    run(&lab, "sign-off.json", &["--detach"]).with(0);
    let call = |args: &[&str]| lab.call(&[args, &["--data", "store"]].concat());
    call(&["resume"]);
    call(&["runs", "interrupts"])
        .with(0)
        .prints("Publish these notes? (accept, reject, refine)");
    let feedback = r#"{"refineFeedback": {"scope": "whole", "text": "shorter"}}"#;
    let refine = [
        "runs", "resolve", "last", "--action", "refine", "--value", feedback,
    ];
    call(&refine).with(0);
    call(&["resume"]);
    call(&["runs", "resolve", "last", "--action", "accept"]).with(0);
    call(&["resume"]).with(0).prints("draft 2");

    run(&lab, "sign-off.json", &["--detach"]).with(0);
    call(&["resume"]);
    let reject = ["runs", "resolve", "last", "review", "--action", "reject"];
    call(&reject).with(0).says("is failed");
    let snapshot = call(&["runs", "show", "last", "--json"]).json();
    assert_eq!(snapshot["error"]["code"], "interrupt_rejected");
}

#[test]
fn release_gate_runs_suites_in_turn_and_releases_on_success() {
    let lab = Lab::new();
    let blocked = run(&lab, "release-gate.json", &[]).with(1);
    blocked.says("release_blocked");
    let log = events(&lab);
    let count = |kind: &str, node: &str| {
        let found = |event: &&Value| event["type"] == kind && event["nodeId"] == node;
        log.iter().filter(found).count()
    };
    assert_eq!(count("node.completed", "read"), 3);
    assert_eq!(count("node.skipped", "release"), 1);
    assert_eq!(count("node.failed", "block"), 1);

    let allowed = run(&lab, "release-gate.json", &["-i", "allowed=1"]).with(0);
    allowed
        .prints("api: failed: an order of an unknown item is refused")
        .prints("released, with known failures: 1");

    let passed = ["-i", r#"suites=["unit", "browser"]"#];
    run(&lab, "release-gate.json", &passed)
        .with(0)
        .prints("released, with known failures: 0");

    // Nothing is released untested.
    run(&lab, "release-gate.json", &["-i", "suites=[]"])
        .with(1)
        .says("release_blocked");
}

#[test]
fn checksums_are_those_of_every_file_whichever_worker_took_it() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path().join("texts/deep")).unwrap();
    let mut expected = Vec::new();
    for number in 0..9 {
        let name = match number % 2 {
            0 => format!("texts/{number}.txt"),
            _ => format!("texts/deep/a \"file\" {number}.txt"),
        };
        let text = "line\n".repeat(number);
        expected.push(format!(
            "{}  {name}",
            kernel::digest::Digest::compute(text.as_bytes())
        ));
        lab.write(&name, text);
    }
    expected.sort_by_key(|line| line.split_once(' ').unwrap().1.to_owned());
    let folder = root().join("examples/checksums");
    let file = folder.join("checksums.json");
    lab.call(&["workflow", "validate", file.to_str().unwrap()])
        .with(0);
    let run = |folder_of_files: &str| -> Ended {
        let mut script = std::process::Command::new(folder.join("run.sh"));
        script.arg(folder_of_files).current_dir(lab.path());
        script.env("RUNWRIGHT", env!("CARGO_BIN_EXE_runwright"));
        script.output().unwrap().into()
    };
    let ended = run("texts").with(0);
    for line in expected {
        assert!(ended.stdout.contains(&line), "{line} is not in {ended:#?}");
    }
    run("nowhere")
        .with(1)
        .says("no such folder where the workers run");
}

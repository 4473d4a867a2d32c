//! Questions of runs, answered from the command line.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::serving::{Serving, call, key};
use crate::support::*;

/// A gate, and a script after it that writes a line.
fn gated(lab: &Lab) -> String {
    let config = json!({ "title": "Ship it?", "actions": ["accept", "reject"] });
    let nodes = [
        node("review", "core.approvalGate", config),
        script("ship", "echo shipped >> shipped"),
    ];
    lab.workflow(&workflow("ships", &nodes, &[("review", "ship")]))
}

/// Serves a lab's folder of workflows.
fn served(lab: &Lab) {
    std::fs::create_dir_all(lab.path().join("flows")).unwrap();
    let file = gated(lab);
    std::fs::rename(lab.path().join(file), lab.path().join("flows/ships.json")).unwrap();
}

#[test]
fn an_external_error_question_is_not_a_failed_node_question() {
    let lab = Lab::new();
    let said = json!({ "actions": ["pay"], "error": { "message": "dear" } });
    let data = json!({ "customKind": "review", "payload": said });
    let config = json!({ "kind": "custom", "data": data });
    let asks = node("asks", "core.interrupt", config);
    let file = lab.workflow(&workflow("asks", &[asks], &[]));
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["resume"]);
    let listed = lab.call(&["runs", "interrupts"]).with(0);
    let listed = listed.prints("asks").prints("dear");
    assert!(!listed.stdout.contains("retry"), "{}", listed.stdout);
}

#[test]
fn a_question_is_listed_and_answered_on_a_store() {
    let lab = Lab::new();
    let file = gated(&lab);
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["runs", "interrupts"])
        .with(0)
        .says("no run waits");
    lab.call(&["runs", "resolve", "last", "--action", "accept"])
        .with(2)
        .says("has no open question");
    lab.call(&["resume"]);
    let listed = lab.call(&["runs", "interrupts"]).with(0);
    listed.prints("review").prints("Ship it? (accept, reject)");
    let run = lab.last_run();
    let open = lab
        .call(&["runs", "interrupts", &run, "--json"])
        .with(0)
        .json();
    assert_eq!(
        (&open["runId"], &open["nodeId"]),
        (&json!(run), &json!("review"))
    );
    lab.call(&["runs", "resolve", "last"]).with(2);
    lab.call(&["runs", "resolve", "last", "--action", "explode"])
        .with(2)
        .says("accept");
    lab.call(&["runs", "resolve", "last", "elsewhere", "--action", "accept"])
        .with(2)
        .says("has questions at review");
    let answer = [
        "runs",
        "resolve",
        "last",
        "--action",
        "accept",
        "--comment",
        "fine",
        "--as",
        "ada",
    ];
    lab.call(&answer)
        .with(0)
        .says("review has been answered")
        .says("runwright resume");
    lab.call(&["resume"]).with(0).says("completed");
    assert_eq!(lab.read("shipped"), "shipped\n");
    let events = lab.events("last");
    let received = events
        .iter()
        .find(|event| event["type"] == "approval.received")
        .unwrap();
    assert_eq!(received["payload"]["decidedBy"], "ada");
    assert_eq!(received["payload"]["comment"], "fine");
}

#[test]
fn questions_are_answered_one_by_one() {
    let lab = Lab::new();
    let questions =
        json!([{ "id": "colour", "question": "Which?" }, { "id": "n", "question": "How many?" }]);
    let nodes = [node(
        "ask",
        "core.clarificationGate",
        json!({ "questions": questions }),
    )];
    let file = lab.workflow(&workflow("asks", &nodes, &[]));
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["resume"]);
    let answers = ["runs", "resolve", "last", "--answer", "colour=blue"];
    lab.call(&answers).with(2).says("`n` has no answer");
    let answers = [&answers[..], &["--answer", "n=2"]].concat();
    lab.call(&answers).with(0);
    let snapshot = lab.call(&["runs", "show", "last", "--json"]).with(0).json();
    let given = &snapshot["nodeStates"]["ask"]["outputs"]["answers"];
    assert_eq!(*given, json!({ "colour": "blue", "n": 2 }));
}

#[test]
fn a_question_is_answered_through_a_server() {
    let lab = Lab::new();
    served(&lab);
    let serving = Serving::start(&lab, &[]);
    let key = key(&lab, "acme");
    let call = |args: &[&str]| call(&lab, &serving, &key, args);
    let run = call(&["run", "ships", "--detach"])
        .with(0)
        .stdout
        .trim()
        .to_owned();
    wait_for(&call, &run, "node.suspended");
    let listed = call(&["runs", "interrupts", "--json"]).with(0);
    assert_eq!(listed.json()["nodeId"], "review");
    assert!(
        !listed.stdout.contains("oken"),
        "what answers is not listed"
    );
    call(&["runs", "pause", &run]).with(0).says("is paused");
    call(&["runs", "resolve", &run, "--action", "accept", "--as", "ada"])
        .with(0)
        .says("is paused");
    call(&["runs", "resolve", &run, "review", "--action", "accept"])
        .with(2)
        .says("interrupt_already_resolved");
    call(&["runs", "unpause", &run]).with(0);
    call(&["runs", "tail", &run]).with(0);
    assert_eq!(lab.read("shipped"), "shipped\n");
    let events = call(&["events", &run, "--json"]).with(0).json_lines();
    let received = events
        .iter()
        .find(|event| event["type"] == "approval.received")
        .unwrap();
    assert_eq!(received["payload"]["decidedBy"], "ada");
    serving.stop();
}

/// Waits until a run has an event, with any delay of its server.
pub(crate) fn wait_for(call: &impl Fn(&[&str]) -> Ended, run: &str, kind: &'static str) {
    while !call(&["events", run, "--json"])
        .with(0)
        .json_lines()
        .iter()
        .any(is(kind))
    {}
}

/// Acknowledged answers survive any death of the server, and events keep their order.
#[test]
fn soak_answers_outlive_kills() {
    for seed in testkit::seeds(2, 50) {
        let lab = Lab::new();
        served(&lab);
        let serving = Serving::start(&lab, &["--dev"]);
        let run = call(&lab, &serving, "", &["run", "ships", "--detach"]).with(0);
        let run = run.stdout.trim().to_owned();
        let to_server = |args: &[&str]| call(&lab, &serving, "", args);
        wait_for(&to_server, &run, "node.suspended");
        // In every other round the server is killed during the wait, too.
        let serving = match seed % 2 {
            0 => serving,
            _ => {
                serving.kill();
                Serving::start(&lab, &["--dev"])
            }
        };
        let answer = ["runs", "resolve", &run, "--action", "accept"];
        call(&lab, &serving, "", &answer).with(0);
        serving.kill();
        lab.wait_until_quiet();

        let serving = Serving::start(&lab, &["--dev"]);
        call(&lab, &serving, "", &["runs", "tail", &run]).with(0);
        let again = call(&lab, &serving, "", &[&answer[..], &["--json"]].concat()).with(2);
        again.says("has no open question");
        let events = call(&lab, &serving, "", &["events", &run, "--json"])
            .with(0)
            .json_lines();
        let count = |kind| events.iter().filter(|event| is(kind)(event)).count();
        assert_eq!(
            (count("interrupt.resolved"), count("run.completed")),
            (1, 1),
            "seed {seed}"
        );
        assert!(lab.read("shipped").starts_with("shipped\n"), "seed {seed}");
        serving.stop();
    }
}

#[test]
fn a_pause_stops_processes_and_a_crash_keeps_remaining_delays() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path().join("flows")).unwrap();
    let mut gate = lab.gate("gate");
    let config = json!({
        "argv": ["sh", "-euc", "echo began >> began; read -r _ < gate"], "env": { "LAB": lab.mark() },
    });
    let works = workflow("works", &[node("work", "runwright.process", config)], &[]);
    let delay = node("wait", "core.delay", json!({ "delayMs": 3_600_000 }));
    let waits = workflow("waits", &[delay], &[]);
    for document in [works, waits] {
        let name = format!("flows/{}.json", document["id"].as_str().unwrap());
        lab.write(&name, document.to_string());
    }
    let serving = Serving::start(&lab, &["--dev"]);
    let first = |args: &[&str]| call(&lab, &serving, "", args);
    let start = |id: &str| {
        first(&["run", id, "--detach"])
            .with(0)
            .stdout
            .trim()
            .to_owned()
    };
    let (works, waits) = (start("works"), start("waits"));
    while lab.read("began").is_empty() || lab.attempts_alive().is_empty() {}
    first(&["runs", "pause", &works, "--now"])
        .with(0)
        .says("is paused");
    lab.wait_until_quiet();
    wait_for(&first, &waits, "node.started");
    let due = |snapshot: &Ended| snapshot.json()["nodeStates"]["wait"]["dueAt"].clone();
    let before = due(&first(&["runs", "show", &waits, "--json"]).with(0));
    serving.kill();

    let serving = Serving::start(&lab, &["--dev"]);
    let second = |args: &[&str]| call(&lab, &serving, "", args);
    assert_eq!(
        due(&second(&["runs", "show", &waits, "--json"]).with(0)),
        before
    );
    assert_eq!(
        second(&["runs", "show", &works, "--json"]).with(0).json()["status"],
        "paused"
    );
    assert_eq!(lab.attempts_alive(), [0; 0], "a paused run starts nothing");
    second(&["runs", "unpause", &works]).with(0);
    gate.open();
    second(&["runs", "tail", &works]).with(0);
    assert_eq!(lab.read("began"), "began\nbegan\n");
    let snapshot = second(&["runs", "show", &works, "--json"]).with(0).json();
    assert_eq!(snapshot["nodeStates"]["work"]["attempts"], 2);
    assert_eq!(
        due(&second(&["runs", "show", &waits, "--json"]).with(0)),
        before
    );
    serving.stop();
}

#[test]
fn a_person_at_the_terminal_is_asked() {
    let script = std::path::Path::new("/usr/bin/script");
    if !script.is_file() {
        return testkit::skip("a_person_at_the_terminal_is_asked", "there is no script(1)");
    }
    let lab = Lab::new();
    let file = gated(&lab);
    let program = env!("CARGO_BIN_EXE_runwright");
    let mut child = Command::new(script)
        .args(["-qec", &format!("{program} run {file}"), "/dev/null"])
        .current_dir(lab.path())
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = child.stdin.take().unwrap();
    // Input before a question is shown is not an answer.
    let mut screen = child.stdout.take().unwrap();
    let mut shown = String::new();
    for answer in ["maybe\n", "accept looks good\n"] {
        let asked = shown.matches("type accept, reject").count() + 1;
        while shown.matches("type accept, reject").count() < asked {
            let mut piece = [0; 1024];
            let read = screen.read(&mut piece).unwrap();
            assert!(read > 0, "{shown}");
            shown.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        typed.write_all(answer.as_bytes()).unwrap();
    }
    screen.read_to_string(&mut shown).unwrap();
    assert!(child.wait().unwrap().success(), "{shown}");
    drop(typed);
    for said in ["Ship it?", "not one of the answers"] {
        assert!(shown.contains(said), "{shown}");
    }
    assert_eq!(lab.read("shipped"), "shipped\n");
    let events = lab.events("last");
    let received = events
        .iter()
        .find(|event| event["type"] == "approval.received")
        .unwrap();
    assert_eq!(received["payload"]["comment"], "looks good");
}

#[test]
fn a_name_without_a_place_in_the_answer_is_refused() {
    let lab = Lab::new();
    let config = json!({ "kind": "custom", "data": { "customKind": "review" } });
    let asks = node("asks", "core.interrupt", config);
    lab.write_flow(&workflow("asks", &[asks], &[]));
    let serving = Serving::start(&lab, &["--dev"]);
    let own = |args: &[&str]| call(&lab, &serving, "", args);
    let run = own(&["run", "asks", "--detach"]).with(0);
    let run = run.stdout.trim();
    wait_for(&own, run, "node.suspended");
    for value in ["42", "{\"paid\": true}"] {
        let answer = ["runs", "resolve", run, "--value", value, "--as", "alice"];
        own(&answer).with(2).says("--as counts at approvals only");
    }
    own(&["runs", "resolve", run, "--value", "42"]).with(0);
    serving.stop();
}

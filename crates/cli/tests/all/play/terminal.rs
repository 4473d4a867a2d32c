//! Questions on a terminal: shown and answered through a pseudo-terminal.

use std::process::{Command, Stdio};

use serde_json::json;

use super::{chain, checkpoint, node, statuses};
use crate::support::Lab;

/// Runs a program on a terminal and types each answer when its question is displayed.
const DRIVER: &str = r#"
import json, os, pty, sys
argv, answers = json.loads(sys.argv[1]), json.loads(sys.argv[2])
pid, fd = pty.fork()
if pid == 0:
    os.execv(argv[0], argv)
shown, seen = b"", 0
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    while answers and answers[0][0].encode() in shown[seen:]:
        question, answer = answers.pop(0)
        seen = shown.index(question.encode(), seen) + len(question.encode())
        os.write(fd, (answer + "\n").encode())
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(shown)
sys.stdout.flush()
os._exit(os.waitstatus_to_exitcode(status))
"#;

/// Plays on a terminal; returns the exit code and the output. `None` without Python, which makes
/// the terminal.
fn typed(lab: &Lab, args: &[&str], answers: &[(&str, &str)]) -> Option<(i32, String)> {
    let mut argv = vec![env!("CARGO_BIN_EXE_runwright")];
    argv.extend(args);
    let output = Command::new("python3")
        .args(["-c", DRIVER])
        .arg(json!(argv).to_string())
        .arg(json!(answers).to_string())
        .current_dir(lab.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("LANG", "C.UTF-8")
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        testkit::skip("questions_on_a_terminal", "python3 is not installed");
        return None;
    };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.code().unwrap(), shown))
}

#[test]
fn a_checkpoint_asks_continue_pause_or_abort() {
    let lab = || {
        let mut asks = checkpoint("CP-01", false);
        asks["description"] = json!("Is the plan right?");
        Lab::with_template(&chain(&[asks, node("a", "echo x > ran", "")]))
    };
    let play = ["play", "sample"];
    let first = lab();
    let answers = [("[A]bort", "what"), ("[A]bort", "c")];
    let Some((code, shown)) = typed(&first, &play, &answers) else {
        return;
    };
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Is the plan right?"), "{shown}");
    assert!(shown.contains("[C]ontinue [P]ause [A]bort"), "{shown}");
    assert_eq!(first.read("ran"), "x\n");

    let second = lab();
    let (code, _) = typed(&second, &play, &[("[A]bort", "pause")]).unwrap();
    assert_eq!((code, &second.state()["status"]), (3, &json!("paused")));

    let third = lab();
    let (code, _) = typed(&third, &play, &[("[A]bort", "a")]).unwrap();
    assert_eq!((code, &third.state()["status"]), (1, &json!("aborted")));
}

#[test]
fn a_checkpoint_shows_finished_work_before_it_asks() {
    let result = json!({
        "output_path": "plan.md", "artifacts": ["plan.md", "a.rs"],
        "cost": { "usd": 0.25, "input_tokens": 7, "output_tokens": 3 },
    });
    let lab = Lab::with_template(&chain(&[
        node("early", "true", ""),
        checkpoint("CP-01", true),
        node("plan", &format!("echo '{result}'"), ""),
        checkpoint("CP-02", false),
    ]));
    let answers = [("[A]bort", "c")];
    let Some((code, shown)) = typed(&lab, &["play", "sample"], &answers) else {
        return;
    };
    assert_eq!(code, 0, "{shown}");
    let (_, asked) = shown.split_once("Checkpoint: CP-02").unwrap();
    let (asked, _) = asked.split_once("[C]ontinue").unwrap();
    assert!(asked.contains("plan completed in "), "{asked}");
    assert!(asked.contains(": plan.md, a.rs"), "{asked}");
    assert!(asked.contains("so far: "), "{asked}");
    assert!(asked.contains("0.2500 USD, 7 tokens in, 3 out"), "{asked}");
    assert!(
        !asked.contains("early"),
        "it ran before the last checkpoint: {asked}"
    );
}

#[test]
fn typed_ahead_input_does_not_answer_a_later_question() {
    let lab = Lab::with_template(&chain(&[
        checkpoint("CP-01", false),
        checkpoint("CP-02", false),
    ]));
    let answers = [("[A]bort", "c\nc"), ("[A]bort", "p")];
    let Some((code, shown)) = typed(&lab, &["play", "sample"], &answers) else {
        return;
    };
    assert_eq!(code, 3, "{shown}");
    assert_eq!(lab.state()["x_play"]["waits_at"], "CP-02");
}

#[test]
fn typed_ahead_input_does_not_answer_a_later_gate_of_a_run() {
    let lab = Lab::new();
    let gate = |id: &str| crate::support::node(id, "core.approvalGate", json!({ "title": id }));
    let nodes = [gate("first"), gate("second")];
    let flow = crate::support::workflow("gates", &nodes, &[("first", "second")]);
    let file = lab.workflow(&flow);
    let ask = "is your comment";
    let answers = [(ask, "accept\naccept"), (ask, "reject no")];
    let Some((code, shown)) = typed(&lab, &["run", &file], &answers) else {
        return;
    };
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("no"), "{shown}");
    lab.call(&["runs", "show", "last"])
        .prints("interrupt_rejected");
}

#[test]
fn a_failure_asks_retry_skip_or_abort() {
    let failing = chain(&[
        node("a", "echo x >> tries; exit 7", ""),
        node("b", "true", ""),
    ]);
    let lab = Lab::with_template(&failing);
    let play = ["play", "sample"];
    let answers = [("[A]bort", "r"), ("[A]bort", "s")];
    let Some((code, shown)) = typed(&lab, &play, &answers) else {
        return;
    };
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Failed: a"), "{shown}");
    assert!(shown.contains("exited with code 7"), "{shown}");
    assert_eq!(lab.read("tries"), "x\nx\n");
    assert_eq!(statuses(&lab.state()), ["skipped", "completed"]);

    let lab = Lab::with_template(&failing);
    let (code, _) = typed(&lab, &play, &[("[A]bort", "abort")]).unwrap();
    assert_eq!((code, &lab.state()["status"]), (1, &json!("failed")));
    assert!(lab.state()["completed_at"].is_string());
}

#[test]
fn a_variable_that_is_missing_is_asked_for() {
    let mut document = chain(&[node("a", "printf %s \"$1\" > got", "{goal}")]);
    document["context_schema"] = json!({
        "goal": { "type": "string", "required": true, "description": "What to build" },
    });
    let lab = Lab::with_template(&document);
    let answers = [("goal (What to build): ", "a shed")];
    let Some((code, shown)) = typed(&lab, &["play", "sample"], &answers) else {
        return;
    };
    assert_eq!(code, 0, "{shown}");
    assert_eq!(lab.read("got"), "a shed");
}

#[test]
fn without_a_name_the_templates_are_shown_to_choose_from() {
    let lab = Lab::with_template(&chain(&[node("a", "echo x > ran", "")]));
    lab.template("other", &chain(&[node("a", "false", "")]));
    let answers = [("1 to 2: ", "7"), ("1 to 2: ", "2")];
    let Some((code, shown)) = typed(&lab, &["play"], &answers) else {
        return;
    };
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("1 other"), "{shown}");
    assert_eq!(lab.read("ran"), "x\n");
}

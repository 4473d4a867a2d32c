//! The notifier against a real tmux on a socket of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::served::Served;
use crate::support::Lab;

/// A tmux server of this test, ended with it.
struct Tmux<'a>(&'a Lab);

impl Tmux<'_> {
    fn call(&self, args: &[&str]) -> String {
        let output = tmux(self.0).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?} {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A pane that runs a program; its id.
    fn pane(&self, program: &str) -> String {
        let new = [
            "new-session",
            "-d",
            "-x",
            "60",
            "-y",
            "20",
            "-P",
            "-F",
            "#{pane_id}",
        ];
        self.call(&[&new[..], &[program]].concat())
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // It ends by itself with its last pane.
        let _ = tmux(self.0).arg("kill-server").output();
    }
}

/// tmux, with the lab's folder for its socket.
fn tmux(lab: &Lab) -> Command {
    let mut command = Command::new("tmux");
    command
        .env_remove("TMUX")
        .env("TMUX_TMPDIR", lab.path())
        .env("TERM", "xterm")
        .current_dir(lab.path());
    command
}

fn request(id: &str, target: &str, metadata: &Value) -> Value {
    json!({ "command": "QueueDispatch", "request_id": id, "target": target, "metadata": metadata })
}

/// Waits for a state of a request, with a reader that prints every change.
fn wait_until(lab: &Lab, is_so: impl Fn(&Value) -> bool) {
    let args = [
        "runtime",
        "status",
        "--json",
        "--watch",
        "--state-dir=state",
    ];
    let mut watch = lab.command(&args);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let found = lines
        .map_while(Result::ok)
        .any(|line| is_so(&serde_json::from_str(&line).unwrap()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(found, "the watch has ended");
}

#[test]
fn requests_are_typed_into_their_panes() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return testkit::skip(
            "requests_are_typed_into_their_panes",
            "tmux is not installed",
        );
    }
    let lab = Lab::new();
    let tmux_server = Tmux(&lab);
    // A program that reads and stores lines, and a shell that would execute them.
    let reader = tmux_server.pane("exec cat > heard");
    let shell = tmux_server.pane("exec sh");
    let copying = tmux_server.pane("exec cat");
    tmux_server.call(&["copy-mode", "-t", &copying]);

    let mut serve = lab.command(&["runtime", "serve", "--state-dir=state", "--notify=tmux"]);
    serve.env("TMUX_TMPDIR", lab.path());
    let served = Served::started(serve);
    let told = json!({ "pane_id": reader, "trigger_message": "read your\ninbox; it's \"new\"" });
    let own = lab.path().join("heard");
    for command in [
        request("told", "worker-1", &told),
        request("lost", "worker-2", &json!({ "pane_id": "%4711" })),
        request("nowhere", "worker-3", &Value::Null),
        request("busy", "worker-4", &json!({ "pane_id": copying })),
        request("shell", "worker-5", &json!({ "pane_id": shell })),
        request("leader", "leader-fixed", &Value::Null),
        request(
            "other",
            "worker-6",
            &json!({ "transport_preference": "prompt_stdin" }),
        ),
    ] {
        lab.exec(&command).with(0);
    }
    wait_until(&lab, |status| {
        let backlog = &status["snapshot"]["backlog"];
        backlog["notified"] == 1 && backlog["failed"] == 3
    });
    served.stop();

    let records = lab.view("dispatch.json")["records"].clone();
    let ended = |id: &str| {
        let records = records.as_array().unwrap();
        let record = records.iter().find(|record| record["request_id"] == id);
        let record = record.unwrap();
        format!("{} {}", record["status"], record["reason"]).replace('"', "")
    };
    assert_eq!(ended("told"), "notified tmux_send_keys_confirmed");
    assert_eq!(
        ended("lost"),
        "failed target_resolution_failed:unresolved_target"
    );
    assert_eq!(ended("nowhere"), "failed missing_tmux_target");
    assert_eq!(ended("busy"), "failed preflight_failed:pane_not_ready");
    for waits in ["shell", "leader", "other"] {
        assert_eq!(ended(waits), "pending null", "{waits}");
    }
    wait_for_line(&own, "read your inbox; it's \"new\"");
}

/// A message cannot contain a key, a command of tmux, or the end of its reader.
#[test]
fn input_is_typed_as_text_only() {
    const NAME: &str = "input_is_typed_as_text_only";
    if Command::new("tmux").arg("-V").output().is_err() {
        return testkit::skip(NAME, "tmux is not installed");
    }
    let lab = Lab::new();
    let tmux_server = Tmux(&lab);
    let reader = tmux_server.pane("exec cat > heard");
    let mut serve = lab.command(&["runtime", "serve", "--state-dir=state", "--notify=tmux"]);
    serve.env("TMUX_TMPDIR", lab.path());
    let served = Served::started(serve);
    let messages = [
        ("1", "look; then go;", "look; then go;"),
        ("2", "escaped \\;", "escaped \\;"),
        ("3", ";", ";"),
        (
            "4",
            "a\u{4}b\u{3}c\u{1a}d\u{1b}e\tf\u{7f}g\u{9b}h",
            "a b c d e f g h",
        ),
        (
            "5",
            "-t elsewhere #{pane_id} $(id)",
            "-t elsewhere #{pane_id} $(id)",
        ),
    ];
    for (id, message, _) in messages {
        let told = json!({ "pane_id": reader, "trigger_message": message });
        lab.exec(&request(id, "w", &told)).with(0);
    }
    wait_until(&lab, |status| status["snapshot"]["backlog"]["pending"] == 0);
    served.stop();
    for record in lab.view("dispatch.json")["records"].as_array().unwrap() {
        assert_eq!(record["reason"], "tmux_send_keys_confirmed", "{record}");
    }
    wait_for_line(&lab.path().join("heard"), messages[4].2);
    let heard = lab.read("heard");
    let heard: Vec<&str> = heard.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(heard, messages.map(|(_, _, line)| line));
}

/// Earlier content of a pane, or an empty text, does not confirm the typing.
#[test]
fn a_text_that_was_there_before_confirms_nothing() {
    const NAME: &str = "a_text_that_was_there_before_confirms_nothing";
    if Command::new("tmux").arg("-V").output().is_err() {
        return testkit::skip(NAME, "tmux is not installed");
    }
    let lab = Lab::new();
    let tmux_server = Tmux(&lab);
    let blind = tmux_server.pane("stty -echo; echo 'look here'; exec cat > heard");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !(tmux_server.call(&["capture-pane", "-p", "-t", &blind])).contains("look here") {
        assert!(std::time::Instant::now() < deadline, "it is not shown");
    }
    let mut serve = lab.command(&["runtime", "serve", "--state-dir=state", "--notify=tmux"]);
    serve.env("TMUX_TMPDIR", lab.path());
    let served = Served::started(serve);
    for (id, message) in [("shown", "look here"), ("blank", " \n "), ("empty", "")] {
        let told = json!({ "pane_id": blind, "trigger_message": message });
        lab.exec(&request(id, "w", &told)).with(0);
    }
    wait_until(&lab, |status| status["snapshot"]["backlog"]["pending"] == 0);
    served.stop();
    let records = lab.view("dispatch.json")["records"].clone();
    for record in records.as_array().unwrap() {
        assert_eq!(record["reason"], "tmux_send_keys_unconfirmed", "{record}");
    }
}

/// A pane that does not show the typed text, and a busy program.
#[test]
fn delivery_fails_unless_the_pane_shows_the_text_or_is_busy() {
    const NAME: &str = "delivery_fails_unless_the_pane_shows_the_text_or_is_busy";
    if Command::new("tmux").arg("-V").output().is_err() {
        return testkit::skip(NAME, "tmux is not installed");
    }
    let lab = Lab::new();
    let tmux_server = Tmux(&lab);
    let blind = tmux_server.pane("stty -echo; exec cat > heard");
    let works = tmux_server.pane("echo 'esc to interrupt'; exec cat > other");
    let mut serve = lab.command(&["runtime", "serve", "--state-dir=state", "--notify=tmux"]);
    serve.env("TMUX_TMPDIR", lab.path());
    let served = Served::started(serve);
    let message = |pane: &str| json!({ "pane_id": pane, "trigger_message": "look here" });
    lab.exec(&request("blind", "w", &message(&blind))).with(0);
    lab.exec(&request("works", "w", &message(&works))).with(0);
    wait_until(&lab, |status| {
        let backlog = &status["snapshot"]["backlog"];
        backlog["notified"] == 1 && backlog["failed"] == 1
    });
    served.stop();
    let reason = |n: usize| lab.view("dispatch.json")["records"][n]["reason"].clone();
    assert_eq!(reason(0), "tmux_send_keys_unconfirmed");
    assert_eq!(reason(1), "tmux_send_keys_confirmed_active_task");
    assert_eq!(lab.read("heard").matches("look here").count(), 3);
}

/// In the native contract an undelivered request does not fail: it waits, and the log records the
/// reason.
#[test]
fn native_requests_that_cannot_be_typed_wait_with_a_reason() {
    const NAME: &str = "native_requests_that_cannot_be_typed_wait_with_a_reason";
    if Command::new("tmux").arg("-V").output().is_err() {
        return testkit::skip(NAME, "tmux is not installed");
    }
    let lab = Lab::new();
    let tmux_server = Tmux(&lab);
    let blind = tmux_server.pane("stty -echo; exec cat > heard");
    let reader = tmux_server.pane("exec cat > other");
    let serve = [
        "runtime",
        "serve",
        "--state-dir=state",
        "--notify=tmux",
        "--contract=native",
    ];
    let mut serve = lab.command(&serve);
    serve.env("TMUX_TMPDIR", lab.path());
    let served = Served::started(serve);
    let native = |command: &Value| {
        let command = command.to_string();
        lab.runtime(&["exec", &command, "--state-dir=state", "--contract=native"])
            .with(0);
    };
    let message = |pane: &str| json!({ "pane_id": pane, "trigger_message": "look here" });
    native(&request("blind", "w", &message(&blind)));
    native(&request("nowhere", "w", &Value::Null));
    native(&super::acquire("lead", "2120-01-01T00:00:00Z"));
    wait_until(&lab, |status| {
        status["phase"] == "blocked on system: blind: tmux_send_keys_unconfirmed"
            && status["snapshot"]["backlog"]["pending"] == 2
    });
    // Later requests are typed into their pane, and typing ends where it was given up.
    for id in ["first", "second"] {
        native(&request(id, "w", &message(&reader)));
        wait_until(&lab, |status| {
            let open = status["open"].as_array().unwrap();
            let is_told = |one: &Value| one["request_id"] == id && one["status"] == "notified";
            open.iter().any(is_told)
        });
    }
    served.stop();
    assert_eq!(lab.read("heard").matches("look here").count(), 3);
    let store = lab.call(&["runtime", "status", "--json", "--state-dir=state"]);
    assert_eq!(store.with(0).json()["snapshot"]["backlog"]["failed"], 0);
}

/// Waits until the program in the pane has read a line.
fn wait_for_line(path: &Path, line: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|one| one == line)) {
        assert!(std::time::Instant::now() < deadline, "{line} was not read");
        std::thread::yield_now();
    }
}

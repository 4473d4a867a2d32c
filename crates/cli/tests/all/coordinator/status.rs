//! `runwright runtime status`, for people and for programs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{acquire, deliver, notify, queue};
use crate::support::Lab;

fn native(lab: &Lab, command: &Value) {
    let command = command.to_string();
    lab.runtime(&["exec", &command, "--state-dir=state", "--contract=native"])
        .with(0);
}

#[test]
fn status_shows_people_waiting_requests_and_workers() {
    let lab = Lab::new();
    let status = || lab.runtime(&["status", "--state-dir=state"]).with(0);
    native(&lab, &queue("one"));
    status()
        .prints("not ready: authority lease not acquired\n")
        .prints("contract   native\nauthority  none\n")
        .prints("backlog    1 pending (the oldest for ")
        .prints("           one for worker: pending for ");
    native(&lab, &acquire("lead", "2120-01-01T00:00:00Z"));
    for id in ["two", "three"] {
        native(&lab, &queue(id));
        native(&lab, &notify(id));
    }
    native(&lab, &deliver("three"));
    for command in [
        json!({ "command": "Heartbeat", "owner": "lead", "phase": "plan" }),
        json!({ "command": "AssignWorker", "worker": "w1", "task_id": "17" }),
        json!({ "command": "AssignWorker", "worker": "w2", "task_id": "18" }),
        json!({ "command": "StallWorker", "worker": "w2", "reason": "silent" }),
        json!({ "command": "CreateMailboxMessage", "message_id": "m", "from_worker": "x",
                "to_worker": "y", "body": "hello" }),
    ] {
        native(&lab, &command);
    }
    status()
        .prints("ready\n")
        .prints("authority  lead (l), until 2120-01-01T00:00:00Z; plan, ")
        .prints("1 pending (the oldest for ")
        .prints("1 notified (the oldest for ")
        .prints("1 delivered (the last ")
        .prints("0 failed\n")
        .prints("           two for worker: notified for ")
        .prints("mail       1 unread, the oldest for ")
        .prints("workers    2, 1 stalled\n")
        .prints("           w1 with 17: assigned, last report ")
        .prints("           w2 with 18: stalled: silent, last report ");
    let json = lab
        .runtime(&["status", "--json", "--state-dir=state"])
        .with(0)
        .json();
    assert_eq!(json["snapshot"], lab.snapshot());
    assert_eq!(json["open"][0]["request_id"], "one");
    assert_eq!(json["workers"][1]["state"], "stalled: silent");
    assert_eq!(json["phase"], "plan");
    lab.runtime(&["status"]).with(1).says("--state-dir=DIR");

    // Silence of a worker does not update its last contact.
    let second = || {
        let json = lab.runtime(&["status", "--json", "--state-dir=state"]);
        let worker = json.with(0).json()["workers"][1].clone();
        (worker["state"].clone(), worker["last_seen_at"].clone())
    };
    let (_, seen) = second();
    native(
        &lab,
        &json!({ "command": "StallWorker", "worker": "w2", "reason": "gone" }),
    );
    assert_eq!(second(), (json!("stalled: gone"), seen));

    // A finished task no longer counts as assigned.
    native(
        &lab,
        &json!({ "command": "AssignWorker", "worker": "w1", "task_id": "two" }),
    );
    status().prints("           w1 with two and 1 more: assigned, ");
    native(&lab, &deliver("two"));
    status().prints("           w1 with 17: assigned, ");
    native(
        &lab,
        &json!({ "command": "AssignWorker", "worker": "w3", "task_id": "one" }),
    );
    native(&lab, &notify("one"));
    native(&lab, &deliver("one"));
    status().prints("           w3: idle, last report ");
    native(
        &lab,
        &json!({ "command": "RequestReplay", "cursor": "elsewhere" }),
    );
    status()
        .prints("not ready: replay cursor names no known event\n")
        .prints("replay     from elsewhere, which names no event\n");
}

/// The most relevant of many workers come first.
#[test]
fn who_works_and_who_fell_silent_is_listed_before_who_is_idle() {
    let lab = Lab::new();
    native(&lab, &acquire("lead", "2120-01-01T00:00:00Z"));
    let assign = |worker: &str, task: &str| {
        let command = json!({ "command": "AssignWorker", "worker": worker, "task_id": task });
        native(&lab, &command);
    };
    native(&lab, &queue("done"));
    native(&lab, &notify("done"));
    for n in 0..12 {
        assign(&format!("idle-{n:02}"), "done");
    }
    assign("z-silent", "done");
    native(&lab, &deliver("done"));
    native(
        &lab,
        &json!({ "command": "StallWorker", "worker": "z-silent", "reason": "gone" }),
    );
    assign("z-works", "17");
    let status = lab.runtime(&["status", "--state-dir=state"]).with(0);
    let names: Vec<&str> = status
        .stdout
        .lines()
        .skip_while(|line| *line != "workers    14, 1 stalled")
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names.len(), 11, "{status:?}");
    assert_eq!(&names[..2], ["z-works", "z-silent:"], "{status:?}");
    assert_eq!(names[2], "idle-11:", "{status:?}");
    assert_eq!(names[10], "and", "{status:?}");
}

#[test]
fn unknown_options_are_rejected() {
    let lab = Lab::new();
    lab.exec(&queue("one")).with(0);
    for (words, says) in [
        (&["status", "--data", "store"][..], "--data=VALUE"),
        (&["status", "--state-dir=state", "--wacht"], "`--wacht`"),
        (
            &["serve", "--state-dir=state", "--tmux"],
            "unknown argument",
        ),
    ] {
        lab.runtime(words).with(1).says(says);
    }
    for command in ["status", "serve", "exec", "init"] {
        lab.runtime(&[command, "--help"])
            .with(0)
            .prints("Usage: omx-runtime COMMAND")
            .prints("omx-runtime status --data=");
    }
}

#[test]
fn a_watch_tells_that_a_lease_has_run_out() {
    let lab = Lab::new();
    let until = jiff::Timestamp::now() + std::time::Duration::from_secs(2);
    native(&lab, &acquire("lead", &format!("{until:.3}")));
    let watch = ["runtime", "status", "--watch", "--state-dir=state"];
    let mut child = lab.command(&watch).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines
        .map_while(Result::ok)
        .any(|line| line == "not ready: authority lease is stale: lease expired");
    assert!(found);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_watch_prints_whenever_something_has_changed() {
    let lab = Lab::new();
    lab.exec(&queue("one")).with(0);
    let watch = ["runtime", "status", "--watch", "--state-dir=state"];
    let mut child = lab.command(&watch).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let found = lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.contains(text));
        assert!(found, "{text}");
    };
    wait_for("backlog    1 pending");
    lab.exec(&queue("two")).with(0);
    wait_for("backlog    2 pending");
    lab.exec(&notify("two")).with(0);
    wait_for("two for worker: notified");
    child.kill().unwrap();
    child.wait().unwrap();
}

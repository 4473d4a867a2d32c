//! State directories of another program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{acquire, deliver, notify, queue};
use crate::support::{Ended, Lab};

impl Lab {
    /// A directory in the published program's form.
    fn left(&self, events: &Value, ids: &[&str]) {
        self.left_as(&events.to_string(), ids);
    }

    fn left_as(&self, events: &str, ids: &[&str]) {
        fs::create_dir_all(self.path().join("state")).unwrap();
        // As that program does: readers take it, too.
        let lock = fs::File::create(self.path().join("state/engine.lock")).unwrap();
        lock.lock().unwrap();
        self.write("state/events.json", events);
        let ledger = json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ids });
        self.write("state/dispatch-seen.json", ledger.to_string());
    }

    fn exec_by(&self, contract: &str, command: &Value) -> Ended {
        let (command, contract) = (command.to_string(), format!("--contract={contract}"));
        self.runtime(&["exec", &command, "--state-dir=state", &contract])
    }
}

#[test]
fn a_directory_of_the_published_program_is_taken_over() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("state")).unwrap();
    lab.write(
        "state/events.json",
        json!([
            { "event": "AuthorityAcquired", "owner": "o", "lease_id": "l", "leased_until": "x" },
            { "event": "DispatchQueued", "request_id": "a", "target": "t", "metadata": { "k": 1 } },
            { "event": "DispatchQueued", "request_id": "b", "target": "t", "metadata": null },
            { "event": "DispatchFailed", "request_id": "b", "reason": "why" },
            { "event": "SomethingNew", "field": 1 },
            { "event": "MailboxMessageCreated", "message_id": "m", "from_worker": "x",
              "to_worker": "y" },
        ])
        .to_string(),
    );
    let no_ledger = lab.exec(&queue("c")).with(1);
    no_ledger.says("failed to load authoritative runtime state: io error: missing dispatch seen");
    lab.write(
        "state/dispatch-seen.json",
        json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a"] }).to_string(),
    );
    lab.exec(&queue("c"))
        .with(1)
        .says("omits an authoritative dispatch id");
    for (ledger, says) in [
        (
            json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a", "b", "a"] }),
            "dispatch error: duplicate dispatch request id: a\n",
        ),
        (
            json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a", "b", ""] }),
            "dispatch error: invalid dispatch request id: \"\"\n",
        ),
        (
            json!({ "schema_version": 2, "ledger_epoch": 2, "request_ids": ["a", "b"] }),
            "io error: unsupported dispatch seen ledger schema version or epoch\n",
        ),
        (
            json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a", "b"], "more": 1 }),
            "json error: data did not match any variant of untagged enum DispatchSeenLedger\n",
        ),
    ] {
        lab.write("state/dispatch-seen.json", ledger.to_string());
        let refused = lab.exec(&queue("c")).with(1);
        refused.says(&format!(
            "failed to load authoritative runtime state: {says}"
        ));
        let snapshot = lab.runtime(&["snapshot", "--state-dir=state"]).with(1);
        snapshot.says(&format!("omx-runtime: {says}"));
    }
    lab.write(
        "state/dispatch-seen.json",
        json!({ "schema_version": 1, "request_ids": ["a", "b", "gone"] }).to_string(),
    );
    lab.write(
        "state/mailbox.json",
        json!({ "records": [{ "message_id": "m", "from_worker": "x", "to_worker": "y",
            "body": "kept here alone", "created_at": "2026-03-19T01:00:00.000Z",
            "notified_at": "some day", "delivered_at": null }] })
        .to_string(),
    );
    let snapshot = lab.snapshot();
    assert_eq!(snapshot["authority"]["owner"], "o");
    assert_eq!(snapshot["backlog"]["failed"], 1);
    lab.exec(&notify("a")).with(0);
    let mail = lab.view("mailbox.json")["records"][0].clone();
    assert_eq!(mail["body"], "kept here alone");
    assert_eq!(mail["created_at"], "2026-03-19T01:00:00.000Z");
    assert_eq!(mail["notified_at"], "some day");
    assert_eq!(mail["delivered_at"], Value::Null);
    assert_eq!(
        lab.view("dispatch.json")["records"][0]["metadata"],
        json!({ "k": 1 })
    );
    lab.exec(&queue("gone"))
        .with(1)
        .says("duplicate dispatch request id");

    fs::remove_file(lab.path().join("state/dispatch-seen.json")).unwrap();
    lab.exec(&queue("d"))
        .with(1)
        .says("missing dispatch seen ledger; pre-ledger dispatch history is ambiguous\n")
        .says("note: put dispatch-seen.json back, or remove .runwright/views.json");
    // The suggested recovery.
    fs::remove_file(lab.path().join("state/.runwright/views.json")).unwrap();
    lab.exec(&queue("d")).with(0);
    let seen = lab.view("dispatch-seen.json")["request_ids"].clone();
    assert_eq!(seen, json!(["a", "b", "d"]));
    lab.exec(&queue("gone"))
        .with(1)
        .says("duplicate dispatch request id");
}

/// Removed requests existed: the ledger must contain their ids, or they could be used again.
#[test]
fn a_ledger_without_the_id_of_a_removed_request_is_rejected() {
    let lab = Lab::new();
    let removed = json!([{ "event": "DispatchRecordsRemoved", "request_ids": ["a", "gone"] }]);
    lab.left(&removed, &["a"]);
    lab.exec(&queue("gone"))
        .with(1)
        .says("failed to load authoritative runtime state: dispatch error: ")
        .says("omits an authoritative dispatch id");
    lab.left(&removed, &["a", "gone"]);
    lab.exec(&queue("gone"))
        .with(1)
        .says("duplicate dispatch request id");
    lab.exec(&queue("b")).with(0);
}

/// Two requests, one of which failed without a notice.
fn history() -> Value {
    json!([
        { "event": "AuthorityAcquired", "owner": "o", "lease_id": "l",
          "leased_until": "2026-03-19T02:00:00Z" },
        { "event": "DispatchQueued", "request_id": "a", "target": "t", "metadata": null },
        { "event": "DispatchFailed", "request_id": "a", "reason": "why" },
        { "event": "DispatchQueued", "request_id": "b", "target": "t", "metadata": null },
    ])
}

#[test]
fn who_only_looks_settles_nothing_and_writes_nothing() {
    let lab = Lab::new();
    lab.left(&history(), &["a", "b"]);
    let listed = || -> Vec<String> {
        let entries = fs::read_dir(lab.path().join("state")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "engine.lock")
            .collect();
        names.sort();
        names
    };
    let before = listed();
    let status = |more: &[&str]| lab.runtime(&[&["status", "--state-dir=state"], more].concat());
    status(&[])
        .with(0)
        .prints("ready\n")
        .prints("contract   published, or native if the first command has --contract=native\n")
        .prints("1 pending (the oldest for ");
    status(&["--contract=native"])
        .with(0)
        .prints("not ready: authority lease is stale: lease expired\n")
        .prints("contract   native, or published if");
    let json = status(&["--json"]).with(0).json();
    assert_eq!(json["contract_settled"], false);
    assert_eq!(lab.snapshot()["readiness"]["ready"], true);
    let native = [
        "snapshot",
        "--json",
        "--state-dir=state",
        "--contract=native",
    ];
    let native = lab.runtime(&native).with(0).json();
    assert_eq!(native["authority"]["stale"], true);
    assert_eq!(listed(), before);

    // The first command sets the contract.
    lab.exec_by("native", &notify("b"))
        .with(1)
        .says("has expired");
    status(&[]).with(0).prints("contract   native\n");
    assert_eq!(status(&["--json"]).with(0).json()["contract_settled"], true);
}

#[test]
fn a_watcher_sees_the_other_program_work_and_the_takeover() {
    let lab = Lab::new();
    lab.left(&history(), &["a", "b"]);
    let args = [
        "runtime",
        "status",
        "--watch",
        "--json",
        "--state-dir=state",
    ];
    let mut watch = lab.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut until = |is_it: &dyn Fn(&Value) -> bool| loop {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if is_it(&line) {
            return line;
        }
    };
    until(&|line| line["snapshot"]["backlog"]["pending"] == 1);
    let mut events = history();
    let queued = json!({ "event": "DispatchQueued", "request_id": "c", "target": "t" });
    events.as_array_mut().unwrap().push(queued);
    lab.left(&events, &["a", "b", "c"]);
    let line = until(&|line| line["snapshot"]["backlog"]["pending"] == 2);
    assert_eq!(line["contract_settled"], false);
    lab.exec(&queue("d")).with(0);
    let line = until(&|line| line["snapshot"]["backlog"]["pending"] == 3);
    assert_eq!(line["contract_settled"], true);
    lab.exec(&queue("e")).with(0);
    until(&|line| line["snapshot"]["backlog"]["pending"] == 4);
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn a_history_of_the_published_rules_continues_as_native() {
    let lab = Lab::new();
    lab.left(&history(), &["a", "b"]);
    let native = |command: &Value| lab.exec_by("native", command);
    native(&acquire("lead", "2120-01-01T00:00:00Z")).with(0);
    let failed = &lab.view("dispatch.json")["records"][0];
    assert_eq!(
        (&failed["status"], &failed["reason"], &failed["notified_at"]),
        (&json!("failed"), &json!("why"), &Value::Null)
    );
    let fail = json!({ "command": "MarkFailed", "request_id": "b", "reason": "late" });
    native(&fail)
        .with(1)
        .says("dispatch error: invalid transition for b: pending -> failed");
    for command in [notify("b"), deliver("b")] {
        native(&command).with(0);
    }
    assert_eq!(
        lab.snapshot()["backlog"],
        json!({ "pending": 0, "notified": 0, "delivered": 1, "failed": 1 })
    );
    lab.call(&["verify", "--data", "state/.runwright"]).with(0);
}

/// The words of the file are preserved, including a number that this program could not represent.
const ODD: &str = r#"{
    "event": "SomethingNew",
    "z": 1e2,
    "a": 123456789012345678901234567890
  }"#;

#[test]
fn unknown_fields_stay_in_the_file_as_written() {
    let lab = Lab::new();
    let heartbeat = r#"{"event":"run.heartbeat","owner":"o","phase":"plan"}"#;
    let assigned = r#"{"event":"worker.assigned","worker":"w","task_id":"17"}"#;
    let queued = r#"{"event":"DispatchQueued","request_id":"a","target":"t","metadata":null}"#;
    let acquired = |owner: &str| {
        format!(
            r#"{{"event":"AuthorityAcquired","owner":"{owner}","lease_id":"l","leased_until":"x"}}"#
        )
    };
    let (leads, passed_over) = (acquired("o"), acquired("other"));
    lab.left_as(
        &format!("[{queued} ,\n  {ODD},{leads},{passed_over},{heartbeat},{assigned}]"),
        &["a"],
    );
    let status = lab.runtime(&["status", "--state-dir=state"]).with(0);
    status
        .prints("authority  o (l), until x; plan, ")
        .prints("w with 17: assigned");
    lab.exec(&notify("a")).with(0);
    let text = lab.read("state/events.json");
    assert!(text.contains(ODD), "{text}");
    let names = |text: &str| -> Vec<String> {
        let events: Vec<Value> = serde_json::from_str(text).unwrap();
        let name = |event: &Value| event["event"].as_str().unwrap().to_owned();
        events.iter().map(name).collect()
    };
    let kept = [
        "DispatchQueued",
        "SomethingNew",
        "AuthorityAcquired",
        "AuthorityAcquired",
        "run.heartbeat",
        "worker.assigned",
        "DispatchNotified",
    ];
    assert_eq!(names(&text), kept);
    assert_eq!(lab.snapshot()["authority"]["owner"], "o");

    // Rebuilt from the log it has the same content; only a former leader is missing.
    fs::remove_file(lab.path().join("state/events.json")).unwrap();
    lab.exec(&deliver("a")).with(0);
    let text = lab.read("state/events.json");
    assert!(text.contains(ODD) && names(&text)[..7] == kept, "{text}");
    lab.exec(&json!({ "command": "ReleaseAuthority", "owner": "o" }))
        .with(0);
    lab.exec(&acquire("next", "y")).with(0);
    let text = lab.read("state/events.json");
    assert!(text.contains(ODD) && !text.contains("other"), "{text}");
}

#[test]
fn a_known_event_that_does_not_read_is_refused() {
    let lab = Lab::new();
    for broken in [
        json!([{ "event": "DispatchDelivered" }]),
        json!([{ "event": "run.heartbeat", "owner": "o" }]),
        json!([{ "request_id": "a" }]),
        json!(["queued"]),
    ] {
        lab.left(&broken, &[]);
        lab.exec(&queue("a"))
            .with(1)
            .says("failed to load authoritative runtime state: json error: ");
        let snapshot = lab.runtime(&["snapshot", "--state-dir=state"]);
        snapshot.with(1).says("json error: ");
    }
}

//! The files that commands write for clients.

use std::fs;

use serde_json::{Value, json};

use super::{VIEWS, acquire, deliver, notify, queue};
use crate::support::Lab;

#[test]
fn commands_write_events_and_files() {
    let lab = Lab::new();
    let printed = lab.exec(&queue("b")).with(0).stdout;
    assert_eq!(
        printed,
        "{\n  \"event\": \"DispatchQueued\",\n  \"request_id\": \"b\",\n  \"target\": \"worker\",\n  \
         \"metadata\": null\n}\n"
    );
    for command in [
        queue("a"),
        notify("a"),
        deliver("a"),
        acquire("me", "2020-01-01T00:00:00Z"),
        json!({ "command": "CreateMailboxMessage", "message_id": "m", "from_worker": "x",
                "to_worker": "y", "body": "a \"b\"\n{c}" }),
        json!({ "command": "MarkMailboxNotified", "message_id": "m" }),
        json!({ "command": "CaptureSnapshot" }),
    ] {
        lab.exec(&command).with(0);
    }
    let snapshot = lab.snapshot();
    assert_eq!(snapshot, lab.view("snapshot.json"));
    assert_eq!(
        snapshot["backlog"],
        json!({ "pending": 1, "notified": 0, "delivered": 1, "failed": 0 })
    );
    assert_eq!(
        snapshot["readiness"],
        json!({ "ready": true, "reasons": [] })
    );
    for section in ["authority", "backlog", "readiness", "replay"] {
        assert_eq!(snapshot[section], lab.view(&format!("{section}.json")));
    }
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 8);
    let records = lab.view("dispatch.json")["records"].clone();
    assert_eq!(records[0]["request_id"], "b");
    assert_eq!(records[1]["status"], "delivered");
    assert_eq!(records[1]["reason"], "pane");
    assert_eq!(
        lab.view("mailbox.json")["records"][0]["body"],
        "a \"b\"\n{c}"
    );
    assert_eq!(
        lab.view("dispatch-seen.json")["request_ids"],
        json!(["a", "b"])
    );

    let enforced = lab.runtime(&["snapshot", "--state-dir=state", "--enforce-leases"]);
    enforced
        .with(0)
        .prints("readiness=blocked(authority lease is stale: lease expired)");
    lab.call(&["verify", "--data", "state/.runwright"]).with(0);
}

#[test]
fn files_made_step_by_step_are_those_made_at_once() {
    let lab = Lab::new();
    for id in ["r3", "r1", "q\"\\", "r2", "é\n"] {
        lab.exec(&queue(id)).with(0);
        lab.exec(&notify(id)).with(0);
    }
    lab.exec(&deliver("q\"\\")).with(0);
    let step_by_step = VIEWS.map(|name| lab.read(&format!("state/{name}")));
    // A touched file is not trusted: everything is rebuilt from the log.
    fs::remove_file(lab.path().join("state/events.json")).unwrap();
    fs::write(lab.path().join("state/dispatch.json"), "{").unwrap();
    lab.exec(&json!({ "command": "MarkReplayed", "event_id": "e1" }))
        .with(1);
    let heartbeat = json!({ "command": "Heartbeat", "owner": "", "phase": "plan" });
    lab.exec(&heartbeat).with(0);
    let at_once = VIEWS.map(|name| lab.read(&format!("state/{name}")));
    assert_eq!(step_by_step, at_once);
}

#[test]
fn without_files_nothing_but_the_answer_is_written() {
    let lab = Lab::new();
    let command = queue("r").to_string();
    lab.runtime(&["exec", &command, "--state-dir=state", "--views=none"])
        .with(0);
    assert!(!lab.path().join("state/events.json").exists());
    lab.exec(&notify("r")).with(0);
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 2);
    assert_eq!(
        lab.view("dispatch.json")["records"][0]["status"],
        "notified"
    );
}

/// A command killed before it wrote the files has taken its id: a repetition is rejected, and
/// updates the files.
#[test]
fn a_command_that_is_refused_brings_the_files_up_to_date() {
    let lab = Lab::new();
    let command = queue("a").to_string();
    lab.runtime(&["exec", &command, "--state-dir=state", "--views=none"])
        .with(0);
    lab.exec(&queue("a")).with(1).says("duplicate");
    assert_eq!(lab.view("dispatch.json")["records"][0]["request_id"], "a");
    assert_eq!(lab.view("snapshot.json")["backlog"]["pending"], 1);
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 1);
}

/// The published program has neither release nor takeover: its files have the current leader only.
#[test]
fn of_authorities_the_files_have_the_one_that_leads() {
    let lab = Lab::new();
    lab.exec(&queue("a")).with(0);
    lab.exec(&acquire("one", "2100-01-01T00:00:00Z")).with(0);
    lab.exec(&json!({ "command": "ReleaseAuthority", "owner": "one" }))
        .with(0);
    let named = |events: &Value| -> Vec<String> {
        let events = events.as_array().unwrap().iter();
        events
            .map(|event| event["event"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(named(&lab.view("events.json")), ["DispatchQueued"]);
    lab.exec(&acquire("two", "2100-01-01T00:00:00Z")).with(0);
    let events = lab.view("events.json");
    assert_eq!(named(&events), ["DispatchQueued", "AuthorityAcquired"]);
    assert_eq!(events[1]["owner"], "two");
    // A log with both is also taken over.
    let first = json!({
        "event": "AuthorityAcquired", "owner": "one", "lease_id": "l0",
        "leased_until": "2100-01-01T00:00:00Z",
    });
    let both = json!([first, events[0], events[1]]);
    let other = Lab::new();
    let state = other.path().join("state");
    fs::create_dir_all(&state).unwrap();
    for name in ["dispatch.json", "dispatch-seen.json", "mailbox.json"] {
        fs::copy(lab.path().join("state").join(name), state.join(name)).unwrap();
    }
    fs::write(state.join("events.json"), both.to_string()).unwrap();
    other.exec(&queue("b")).with(0);
    assert_eq!(other.snapshot()["authority"]["owner"], "one");
    assert_eq!(other.snapshot()["backlog"]["pending"], 2);
}

#[test]
fn removed_records_are_hidden_and_their_ids_stay_used() {
    let lab = Lab::new();
    for id in ["a", "b", "c"] {
        lab.exec(&queue(id)).with(0);
    }
    lab.exec(&notify("a")).with(0);
    lab.exec(&json!({ "command": "RemoveDispatchRecords", "request_ids": ["b"] }))
        .with(0);
    let compact = deliver("a").to_string();
    lab.runtime(&["exec", &compact, "--state-dir=state", "--compact"])
        .with(0);
    let shown = lab.view("dispatch.json");
    assert_eq!(shown["records"].as_array().unwrap().len(), 1);
    assert_eq!(shown["records"][0]["request_id"], "c");
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 1);
    assert_eq!(
        lab.view("dispatch-seen.json")["request_ids"],
        json!(["a", "b", "c"])
    );
    for id in ["a", "b", "c"] {
        lab.exec(&queue(id))
            .with(1)
            .says("duplicate dispatch request id");
    }
}

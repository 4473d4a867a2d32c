//! The contract of a state directory, and who sets it.

use serde_json::{Value, json};

use super::served::Served;
use super::{acquire, notify, queue};
use crate::support::Lab;

#[test]
fn a_directory_is_made_empty_once() {
    let lab = Lab::new();
    let made = lab.runtime(&["init", "state"]).with(0);
    assert_eq!(made.stdout, "initialized state directory: state\n");
    assert_eq!(lab.view("events.json"), json!([]));
    assert_eq!(lab.view("dispatch.json"), json!({ "records": [] }));
    lab.exec(&queue("r")).with(0);
    lab.runtime(&["init", "state"])
        .with(1)
        .says("holds a runtime's state already");
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 1);
}

#[test]
fn the_native_contract_keeps_its_own_rules() {
    let lab = Lab::new();
    let native = |command: &Value| {
        let command = command.to_string();
        lab.runtime(&["exec", &command, "--state-dir=state", "--contract=native"])
    };
    // Its events are those of the contract, without the published program's additions.
    assert_eq!(
        native(&queue("r")).with(0).stdout,
        "{\n  \"event\": \"DispatchQueued\",\n  \"request_id\": \"r\",\n  \"target\": \"worker\"\n}\n"
    );
    native(&notify("r")).with(1).says("no lease currently held");
    native(&acquire("a", "2020-01-01T00:00:00Z")).with(0);
    native(&notify("r")).with(1).says("has expired");
    native(&acquire("b", "2120-01-01T00:00:00Z")).with(0);
    native(&notify("r")).with(0);
    native(&json!({ "command": "RequestReplay", "cursor": "e1" })).with(0);
    // The contract is set once and need not be repeated.
    let snapshot = lab.snapshot();
    assert_eq!(snapshot["replay"]["pending_events"], 3);
    assert_eq!(
        snapshot["readiness"]["reasons"],
        json!(["replay has 3 pending events"])
    );
    lab.exec(&json!({ "command": "MarkReplayed", "event_id": "e4" }))
        .with(0);
    assert_eq!(lab.snapshot()["replay"]["last_replayed_event_id"], "e4");
    lab.runtime(&["status", "--state-dir=state"])
        .with(0)
        .prints("ready")
        .prints("authority  b (l), until 2120-01-01T00:00:00Z");
}

const SETTLED: &str = "contract error: contract_settled: this state directory keeps the ";

#[test]
fn every_command_rejects_a_contract_other_than_the_stored_one() {
    let lab = Lab::new();
    lab.exec(&queue("r")).with(0);
    let command = queue("s").to_string();
    for args in [
        &["exec", &command][..],
        &["snapshot", "--json"],
        &["status"],
        &["serve"],
    ] {
        let native = [args, &["--state-dir=state", "--contract=native"]].concat();
        lab.runtime(&native)
            .with(1)
            .says(SETTLED)
            .says("published contract; remove --contract=native");
    }
    let published = [
        "exec",
        &command,
        "--state-dir=state",
        "--contract=published",
    ];
    lab.runtime(&published).with(0);
    assert_eq!(lab.snapshot()["backlog"]["pending"], 2);
    let queue = [
        "status",
        "--data=store",
        "--queue=q",
        "--contract=published",
    ];
    lab.runtime(&queue)
        .with(1)
        .says("contract error: contract_settled: a queue has the native contract");
}

#[test]
fn a_directory_may_be_made_with_its_rules() {
    let lab = Lab::new();
    lab.runtime(&["init", "state", "--contract=native"]).with(0);
    assert_eq!(lab.view("events.json"), json!([]));
    let command = queue("r").to_string();
    let published = [
        "exec",
        &command,
        "--state-dir=state",
        "--contract=published",
    ];
    lab.runtime(&published).with(1).says(SETTLED);
    lab.exec(&queue("r")).with(0);
    lab.exec(&notify("r"))
        .with(1)
        .says("no lease currently held");
    // The first command is the first event for followers.
    lab.exec(&json!({ "command": "RequestReplay", "cursor": "e0" }))
        .with(0);
    assert_eq!(lab.snapshot()["replay"]["pending_events"], 1);

    // Created without a contract, it gets one from the first command.
    lab.runtime(&["init", "other"]).with(0);
    let native = ["exec", &command, "--state-dir=other", "--contract=native"];
    lab.runtime(&native).with(0);
    lab.runtime(&["status", "--state-dir=other"])
        .with(0)
        .prints("contract   native\n");
}

#[test]
fn who_serves_says_which_rules_are_kept() {
    let lab = Lab::new();
    let serving = Served::start(&lab, &["--contract=native"]);
    lab.exec(&queue("r")).with(0);
    lab.exec(&notify("r"))
        .with(1)
        .says("no lease currently held");
    let command = queue("s").to_string();
    let published = [
        "exec",
        &command,
        "--state-dir=state",
        "--contract=published",
    ];
    lab.runtime(&published).with(1).says(SETTLED);
    serving.stop();
    lab.runtime(&published).with(1).says(SETTLED);
    assert_eq!(lab.snapshot()["backlog"]["pending"], 1);
}

#[test]
fn who_serves_without_a_word_leaves_it_to_the_first_command() {
    let lab = Lab::new();
    let serving = Served::start(&lab, &[]);
    let exec = |command: &Value, contract: &str| {
        let (command, contract) = (command.to_string(), format!("--contract={contract}"));
        lab.runtime(&["exec", &command, "--state-dir=state", &contract])
    };
    // A rejected command does not set the contract.
    exec(
        &json!({ "command": "ReleaseAuthority", "owner": "o" }),
        "published",
    )
    .with(1);
    exec(&queue("r"), "native").with(0);
    exec(&queue("s"), "published").with(1).says(SETTLED);
    lab.exec(&queue("s")).with(0);
    serving.stop();
    lab.runtime(&["status", "--state-dir=state"])
        .with(0)
        .prints("contract   native\n")
        .prints("2 pending");
}

use kernel::coordinator::{Contract, Coordinator, CoordinatorCommand, LeaseRule, Recall};
use kernel::time::Timestamp;
use serde_json::json;

use super::*;

/// Commands of the contract, one per line.
const COMMANDS: &[&str] = &[
    r#"{"command":"AcquireAuthority","owner":"a","lease_id":"l1","leased_until":"2030-01-01T00:00:00Z"}"#,
    r#"{"command":"RenewAuthority","owner":"a","lease_id":"l2","leased_until":"2030-01-02T00:00:00Z"}"#,
    r#"{"command":"QueueDispatch","request_id":"r","target":"b"}"#,
    r#"{"command":"MarkNotified","request_id":"r","channel":"c"}"#,
    r#"{"command":"MarkDelivered","request_id":"r"}"#,
    r#"{"command":"MarkFailed","request_id":"r","reason":"late"}"#,
    r#"{"command":"RequestReplay","cursor":"e1"}"#,
    r#"{"command":"CaptureSnapshot"}"#,
];

/// Events of the contract, one per line.
const EVENTS: &[&str] = &[
    r#"{"event":"AuthorityAcquired","owner":"a","lease_id":"l1","leased_until":"2030-01-01T00:00:00Z"}"#,
    r#"{"event":"AuthorityRenewed","owner":"a","lease_id":"l2","leased_until":"2030-01-02T00:00:00Z"}"#,
    r#"{"event":"DispatchQueued","request_id":"r","target":"b"}"#,
    r#"{"event":"DispatchNotified","request_id":"r","channel":"c"}"#,
    r#"{"event":"DispatchDelivered","request_id":"r"}"#,
    r#"{"event":"DispatchFailed","request_id":"r","reason":"late"}"#,
    r#"{"event":"ReplayRequested","cursor":"e1"}"#,
    r#"{"event":"SnapshotCaptured"}"#,
    r#"{"event":"run.heartbeat","owner":"a","phase":"plan"}"#,
    r#"{"event":"run.blocked_on_user","owner":"a","reason":"a question"}"#,
    r#"{"event":"run.blocked_on_system","owner":"a","reason":"no disk"}"#,
    r#"{"event":"worker.assigned","worker":"b","task_id":"3"}"#,
    r#"{"event":"worker.stalled","worker":"b","reason":"silent"}"#,
    r#"{"event":"worker.recovered","worker":"b","recovery":"restart"}"#,
];

#[test]
fn commands_print_as_they_were_read() {
    for line in COMMANDS {
        let command = CommandJson::parse(line).expect(line);
        assert_eq!(serde_json::to_string(&command).unwrap(), *line);
    }
}

#[test]
fn events_print_as_they_were_read() {
    for line in EVENTS {
        let event: EventJson = serde_json::from_str(line).expect(line);
        assert_eq!(serde_json::to_string(&event).unwrap(), *line);
    }
}

#[test]
fn event_names_are_recognised() {
    for line in EVENTS {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = event["event"].as_str().unwrap();
        assert!(is_event(name), "{name}");
    }
    for name in [
        "",
        "SomethingNew",
        "dispatch-queued",
        "Run.heartbeat",
        "dispatchQueued",
    ] {
        assert!(!is_event(name), "{name}");
    }
}

#[test]
fn an_event_with_dots_is_a_command_too() {
    for line in EVENTS.iter().filter(|line| line.contains('.')) {
        let line = line.replacen("event", "command", 1);
        let command = CommandJson::parse(&line).expect(&line);
        let _: CoordinatorCommand = command.into();
    }
    let line = r#"{"command":"worker.stalled","worker":"b","reason":"silent"}"#;
    let told: CoordinatorCommand = CommandJson::parse(line).unwrap().into();
    assert_eq!(
        told,
        CoordinatorCommand::StallWorker {
            worker: "b".into(),
            reason: "silent".into()
        }
    );
}

#[test]
fn a_snapshot_has_every_field_in_order() {
    let coordinator = Coordinator::unborn(&"t".into(), "c", Contract::Native, Timestamp(0));
    let standing = coordinator.standing(Timestamp(0), LeaseRule::Contract);
    let snapshot = SnapshotJson::from(&standing);
    assert_eq!(
        serde_json::to_string(&snapshot).unwrap(),
        concat!(
            r#"{"schema_version":1,"authority":{"owner":null,"lease_id":null,"leased_until":null,"#,
            r#""stale":false,"stale_reason":null},"#,
            r#""backlog":{"pending":0,"notified":0,"delivered":0,"failed":0},"#,
            r#""replay":{"cursor":null,"pending_events":0,"last_replayed_event_id":null,"#,
            r#""deferred_leader_notification":false},"#,
            r#""readiness":{"ready":false,"reasons":["authority lease not acquired"]}}"#
        )
    );
    assert_eq!(
        snapshot_line(&snapshot),
        "schema=1 authority=owner=none lease_id=none leased_until=none stale=false \
         stale_reason=none backlog=pending=0 notified=0 delivered=0 failed=0 replay=cursor=none \
         pending_events=0 last_replayed_event_id=none deferred_leader_notification=false \
         readiness=blocked(authority lease not acquired)"
    );
}

#[test]
fn a_message_round_trips_unchanged() {
    let line = r#"{"command":"QueueDispatch","request_id":"r","target":"t","metadata":{"b":1e2,"a":[null,18446744073709551616]}}"#;
    let command: CoordinatorCommand = CommandJson::parse(line).unwrap().into();
    let coordinator = Coordinator::unborn(&"t".into(), "c", Contract::Published, Timestamp(0));
    let decision = coordinator
        .decide(
            &command,
            &Recall::default(),
            LeaseRule::Contract,
            Timestamp(0),
        )
        .unwrap();
    assert_eq!(
        serde_json::to_string(&EventJson::published(&decision.event)).unwrap(),
        concat!(
            r#"{"event":"DispatchQueued","request_id":"r","target":"t","#,
            r#""metadata":{"a":[null,1.8446744073709552e+19],"b":100.0}}"#
        )
    );
    let batch = decision.batch.unwrap();
    let mut folded = Coordinator::at_start(batch.header().unwrap().clone());
    let event = folded.fold_content(&batch.records()[0].content).unwrap();
    let mut records = Records::default();
    records.apply(&event);
    let listed = records.dispatches().next().unwrap();
    assert_eq!(
        serde_json::to_value(listed).unwrap(),
        json!({
            "request_id": "r", "target": "t", "status": "pending",
            "created_at": "1970-01-01T00:00:00.000Z", "notified_at": null, "delivered_at": null,
            "failed_at": null, "reason": null,
            "metadata": {"a": [null, 18446744073709551616.0], "b": 100.0},
        })
    );
}

#[test]
fn the_published_form_says_null_for_no_metadata() {
    let line = r#"{"event":"DispatchQueued","request_id":"r","target":"b","metadata":null}"#;
    let event: EventJson = serde_json::from_str(line).unwrap();
    assert_eq!(serde_json::to_string(&event).unwrap(), line);
}

//! Cancel, in every phase.

use kernel::audit::Actor;
use kernel::ids::StreamId;
use kernel::run::event::{DrainPolicy, RunEvent};
use kernel::run::{Command, Create, Start};
use serde_json::Map;

use crate::world::{started, unborn};

#[test]
fn a_run_that_was_not_driven_yet() {
    let mut run = unborn("a");
    run.cancel().refused("run_not_found");
    run.when(Command::Create(Create::new(
        Map::new(),
        "test",
        Start::WhenClaimed,
    )))
    .decided();
    run.cancel().then("run.cancelled");
    assert_eq!(run.run.status().as_str(), "cancelled");
}

#[test]
fn a_run_with_attempts_in_flight_ends_when_they_have_stopped() {
    let mut run = started("a\nb\nc -> d");
    run.stopped("a").refused("stale_attempt");
    run.cancel().then("run.stopping cancelled");
    assert_eq!(run.run.status().as_str(), "cancelling");
    assert!(run.run.live_attempts().count() == 3);
    run.stopped("a").then("node.cancelled a");
    run.completes("b").then("node.completed b");
    run.completes("c").then("node.completed c; run.cancelled");
}

#[test]
fn a_run_that_only_waits_ends_at_once() {
    let mut run = started("wait: core.delay {\"config\":{\"ms\":1000}}\nask: core.interrupt");
    run.cancel()
        .then("node.cancelled wait; node.cancelled ask; run.cancelled");
    run.cancel().refused("run_terminal");
}

#[test]
fn a_paused_run() {
    let mut run = started("a -> b");
    run.pause(DrainPolicy::Immediate)
        .then("run.paused immediate");
    run.cancel().then("node.cancelled a; run.cancelled");
}

#[test]
fn a_draining_run() {
    let mut run = started("a -> b");
    run.pause(DrainPolicy::DrainCurrentNode)
        .then("run.draining");
    run.cancel().then("run.stopping cancelled");
    run.completes("a").then("node.completed a; run.cancelled");
}

#[test]
fn the_log_has_who_cancelled_and_why() {
    let mut run = started("a");
    run.when(Command::Cancel {
        reason: Some("enough".into()),
        by: Some(Actor::new("alice")),
        parent: Some("run-0".into()),
    })
    .then("run.stopping cancelled");
    let events = run.stopped("a").then("node.cancelled a; run.cancelled");
    let RunEvent::RunCancelled {
        reason,
        cancelled_by,
        parent_run_id,
        ..
    } = &events[1].body
    else {
        panic!("not cancelled");
    };
    assert_eq!(reason.as_deref(), Some("enough"));
    assert_eq!(cancelled_by.as_deref(), Some("alice"));
    assert_eq!(parent_run_id.as_ref().map(|id| id.as_str()), Some("run-0"));
}

#[test]
fn only_cancellations_by_people_are_audited() {
    let cancel = |by: Option<Actor>, parent: Option<&str>| {
        let mut run = started("a");
        run.when(Command::Cancel {
            reason: None,
            by,
            parent: parent.map(StreamId::new),
        })
        .decided();
        run.audited()
    };
    let by = Actor {
        principal: "ci".into(),
        issuer: Some("https://login.example.org/".into()),
        request_id: Some("request-0001".into()),
    };
    let told = cancel(Some(by.clone()), None);
    let [(target, told)] = &told[..] else {
        panic!("one entry");
    };
    assert!(target.as_str().starts_with("audit-"));
    assert_eq!(told.audit.by, by);
    assert_eq!(told.audit.on.kind, "run");
    assert!(cancel(None, Some("run-parent")).is_empty());
}

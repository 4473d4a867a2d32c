//! Retries, timeouts, and the effect of a failure on the run.

use kernel::run::{Command, NodeError, Outcome, RunEvent};
use serde_json::json;

use crate::world::{World, started};

fn retrying(max: u32, rest: &str) -> World {
    started(&format!(
        "a: {{\"settings\":{{\"retry\":{{\"maxRetries\":{max},\"initialDelayMs\":100,\
         \"factor\":2,\"maxDelayMs\":250}}}}}}\n{rest}"
    ))
}

#[test]
fn a_failure_fails_the_run() {
    let mut run = started("a -> b");
    let events = run
        .fails("a", "boom")
        .then("node.failed a boom; run.failed boom");
    assert!(matches!(
        &events[1].body,
        RunEvent::RunFailed { failed_node_id: Some(node), .. } if node.as_str() == "a"
    ));
}

#[test]
fn waits_between_attempts_grow_up_to_their_bound() {
    let mut run = retrying(3, "a -> b");
    run.fails("a", "one").then("node.retried a/1 +100ms one");
    run.fires("retry/a").refused("timer_not_due");
    run.at(99).fires("retry/a").refused("timer_not_due");
    run.at(100).fires("retry/a").then("node.started a/1");
    run.fires("retry/a").refused("timer_not_due");
    run.fails("a", "two").then("node.retried a/2 +200ms two");
    run.next_timer().then("node.started a/2");
    run.fails("a", "three")
        .then("node.retried a/3 +250ms three");
    run.next_timer().then("node.started a/3");
    run.fails("a", "four")
        .then("node.failed a four; run.dead_lettered a x4; run.failed four");
}

#[test]
fn a_retry_may_succeed() {
    let mut run = retrying(1, "a -> b");
    run.fails("a", "one").then("node.retried a/1 +100ms one");
    run.next_timer().then("node.started a/1");
    run.completes("a")
        .then("node.completed a/1; node.started b");
}

#[test]
fn later_attempts_use_the_inputs_of_the_first() {
    let mut run = started(
        r#"a -> b
           b: {"settings":{"retry":{"maxRetries":1,"initialDelayMs":0}},
               "inputs":{"n":{"type":"connection","nodeId":"a","outputKey":"n"}}}"#
            .replace("\n               ", " ")
            .as_str(),
    );
    run.gives("a", json!({ "n": 7 })).decided();
    let events = run
        .fails("b", "one")
        .then("node.retried b/1 +0ms one; node.started b/1");
    assert!(matches!(
        &events[1].body,
        RunEvent::NodeStarted { inputs: None, .. }
    ));
    let live = run.run.live_attempts().next().expect("b is in flight");
    assert_eq!(live.inputs["n"], 7);
    assert_eq!(live.id.attempt, 1);
}

#[test]
fn an_error_says_how_long_to_wait_at_least() {
    let after =
        |ms: u64| NodeError::new("busy", "later").with_details(json!({ "retryAfterMs": ms }));
    let mut run = retrying(2, "");
    run.finish("a", Outcome::failed(after(5_000)))
        .then("node.retried a/1 +5000ms busy");
    run.next_timer().then("node.started a/1");
    run.finish("a", Outcome::failed(after(1)))
        .then("node.retried a/2 +200ms busy");
}

#[test]
fn an_error_that_no_retry_can_help_is_final() {
    let mut run = retrying(3, "a -> b");
    run.fails_for_good("a", "bad")
        .then("node.failed a bad; run.failed bad");
}

#[test]
fn an_attempt_that_takes_too_long_fails_and_is_tried_again() {
    let mut run = started(
        "a: {\"settings\":{\"timeout\":50,\"retry\":{\"maxRetries\":1,\"initialDelayMs\":10}}}",
    );
    let first = run.attempt("a");
    run.at(49).fires("timeout/a").refused("timer_not_due");
    run.at(50)
        .fires("timeout/a")
        .then("node.retried a/1 +10ms node_timeout");
    let late = Command::Finish {
        attempt: first,
        outcome: Outcome::completed(Default::default()),
    };
    run.when(late).refused("stale_attempt");
    run.next_timer().then("node.started a/1");
    run.next_timer()
        .then("node.failed a node_timeout; run.dead_lettered a x2; run.failed node_timeout");
}

#[test]
fn an_outcome_in_time_takes_the_timeout_away() {
    let mut run = started("a: {\"settings\":{\"timeout\":50}}\na -> b");
    run.completes("a").then("node.completed a; node.started b");
    run.at(60).fires("timeout/a").refused("timer_not_due");
    assert!(run.timers.is_empty());
}

#[test]
fn a_failure_may_count_as_a_skip() {
    let mut run = started(
        "a: {\"settings\":{\"onFailure\":\"skip\"}}\n\
         a -> b\na -> c none_failed\na -> d any_failed",
    );
    run.fails("a", "boom").then(
        "node.failed a boom; node.skipped a on_failure; \
         node.skipped b; node.started c; node.skipped d",
    );
    run.completes("c").then("node.completed c; run.completed");
}

#[test]
fn a_failure_is_routed_to_its_handler() {
    let mut run = started("a -> b\na -> h any_failed\na -> z all_complete");
    run.fails("a", "boom")
        .then("node.failed a boom; node.skipped b; node.started h; node.started z");
    run.completes("h").then("node.completed h");
    run.completes("z").then("node.completed z; run.completed");
}

#[test]
fn a_failed_run_stops_its_live_siblings_first() {
    let mut run = started("a -> b\nc -> d\ne");
    run.fails("a", "boom")
        .then("node.failed a boom; run.stopping boom");
    assert_eq!(run.run.status().as_str(), "running");
    run.completes("c").then("node.completed c");
    run.fails("e", "late")
        .then("node.failed e late; run.failed boom");
}

#[test]
fn nodes_that_only_wait_are_cancelled_at_once() {
    let mut run = started(
        "a:\nwait: core.delay {\"config\":{\"ms\":1000}}\n\
         ask: core.interrupt {\"config\":{\"kind\":\"approval\"}}\n\
         r: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":100}}}",
    );
    run.fails("r", "one").then("node.retried r/1 +100ms one");
    run.fails("a", "boom").then(
        "node.failed a boom; node.cancelled wait; node.cancelled ask; node.cancelled r; \
         run.failed boom",
    );
    assert!(run.timers.is_empty());
}

#[test]
fn a_stopping_run_only_takes_outcomes() {
    let mut run = started("a\nb: {\"settings\":{\"timeout\":5}}\nask: core.interrupt");
    let interrupt = run.interrupt("ask");
    run.fails("a", "boom")
        .then("node.failed a boom; node.cancelled ask; run.stopping boom");
    run.at(10).fires("timeout/b").refused("timer_not_due");
    run.cancel().refused("run_stopping");
    run.pause(kernel::run::event::DrainPolicy::Immediate)
        .refused("run_stopping");
    run.resume().refused("not_paused");
    run.signal("k", "1", json!(1)).refused("run_stopping");
    run.when(Command::Resolve {
        interrupt,
        value: json!(1),
        by: None,
        capacity: Default::default(),
    })
    .refused("run_stopping");
    run.advance().refused("nothing_to_do");
    run.completes("b").then("node.completed b; run.failed boom");
}

#[test]
fn a_retry_does_not_follow_in_a_stopping_run() {
    let mut run = retrying(3, "b");
    run.fails("b", "boom")
        .then("node.failed b boom; run.stopping boom");
    run.fails("a", "late")
        .then("node.failed a late; run.failed boom");
}

#[test]
fn an_error_message_has_a_bound() {
    let mut run = started("a -> h any_failed");
    let error = NodeError::new("long", "ä".repeat(10_000))
        .with_details(json!({ "blob": "x".repeat(100_000) }));
    let events = run
        .finish("a", Outcome::failed(error))
        .then("node.failed a long; node.started h");
    let RunEvent::NodeFailed { error, .. } = &events[0].body else {
        panic!("not a failure");
    };
    assert!(error.message.len() <= 4_100);
    assert!(error.message.ends_with('…'));
    assert_eq!(error.details, None);
}

#[test]
fn a_workflow_may_say_how_often_its_nodes_are_tried() {
    let mut run = started("workflow: {\"settings\":{\"maxRetries\":1}}\na");
    run.fails("a", "one").then("node.retried a/1 +1000ms one");
}

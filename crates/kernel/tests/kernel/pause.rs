//! Pause and resume, with everything that may be in flight.

use kernel::coordinator::awaiting_worker;
use kernel::run::event::DrainPolicy::{DrainCurrentNode, Immediate};
use kernel::run::{Command, Create, Outcome, Start};
use serde_json::{Map, json};

use crate::world::{World, started, started_under, unborn};

#[test]
fn a_drained_pause_lets_attempts_in_flight_finish() {
    let mut run = started("a -> b\nc");
    run.pause(DrainCurrentNode).then("run.draining");
    assert_eq!(run.run.status().as_str(), "running");
    run.pause(DrainCurrentNode).refused("already_draining");
    run.completes("a").then("node.completed a");
    run.advance().refused("nothing_to_do");
    run.completes("c")
        .then("node.completed c; run.paused drained");
    assert_eq!(run.run.status().as_str(), "paused");
    run.pause(DrainCurrentNode).refused("already_paused");
    run.advance().refused("nothing_to_do");
    run.resume().then("run.resumed; node.started b");
    run.completes("b").then("node.completed b; run.completed");
}

#[test]
fn a_run_that_only_waits_pauses_at_once() {
    let mut run = started("ask: core.interrupt");
    run.pause(DrainCurrentNode).then("run.paused drained");
    run.resume().then("run.resumed");
}

/// A worker's task may take any time; the independent checker agrees.
#[test]
fn a_task_in_a_workers_hands_keeps_no_pause() {
    let parks = |run: &mut World| {
        let data = awaiting_worker("q", "task");
        let key = "task".to_owned();
        run.finish("w", Outcome::Waits { key, data })
            .then("interrupt.requested w; node.suspended w");
    };
    let answer = json!({ "outputs": { "x": 1 } });
    let mut run = started("w");
    parks(&mut run);
    run.pause(DrainCurrentNode).then("run.paused drained");
    run.resume().then("run.resumed");
    run.signal("task", "s", answer.clone()).decided();
    assert_eq!(run.run.status().as_str(), "completed");

    // With a node that is executed here, which does delay the pause.
    let mut run = started("w\na");
    parks(&mut run);
    run.pause(DrainCurrentNode).then("run.draining");
    run.completes("a")
        .then("node.completed a; run.paused drained");
    run.cancel().decided();
    assert_eq!(run.run.status().as_str(), "cancelled");
}

#[test]
fn an_immediate_pause_abandons_attempts_and_they_start_over() {
    let mut run = started("a -> b\nc");
    let lost = run.attempt("a");
    run.pause(Immediate).then("run.paused immediate");
    run.when(Command::Finish {
        attempt: lost,
        outcome: Outcome::completed(Map::new()),
    })
    .refused("stale_attempt");
    run.resume()
        .then("run.resumed; node.started a/1; node.started c/1");
    run.completes("a")
        .then("node.completed a/1; node.started b");
}

#[test]
fn an_immediate_pause_may_overtake_a_drained_one() {
    let mut run = started("a");
    run.pause(DrainCurrentNode).then("run.draining");
    run.pause(Immediate).then("run.paused immediate");
    run.resume().then("run.resumed; node.started a/1");
}

#[test]
fn an_abandoned_attempt_does_not_use_up_a_retry() {
    let mut run = started("a: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":0}}}");
    run.pause(Immediate).then("run.paused immediate");
    run.resume().then("run.resumed; node.started a/1");
    run.fails("a", "one")
        .then("node.retried a/2 +0ms one; node.started a/2");
    run.fails("a", "two")
        .then("node.failed a two; run.dead_lettered a x3; run.failed two");
}

#[test]
fn a_drained_pause_awaits_delays_an_immediate_restarts_them() {
    let text = "wait: core.delay {\"config\":{\"ms\":100}}\nwait -> b";
    let mut run = started(text);
    run.at(10).pause(DrainCurrentNode).then("run.draining");
    assert_eq!(run.run.status().as_str(), "running");
    run.next_timer()
        .then("node.completed wait; run.paused drained");
    assert!(
        run.timers.is_empty(),
        "nothing is due that would be refused"
    );
    run.at(300).resume().then("run.resumed; node.started b");

    // Only the end is left, and it still waits for the resume.
    let mut run = started("wait: core.delay {\"config\":{\"ms\":100}}");
    run.pause(DrainCurrentNode).then("run.draining");
    run.next_timer()
        .then("node.completed wait; run.paused drained");
    run.resume().then("run.resumed; run.completed");

    let mut run = started(text);
    run.at(10).pause(Immediate).then("run.paused immediate");
    run.at(300)
        .resume()
        .then("run.resumed; node.started wait/1");
    assert_eq!(run.timers["delay/wait"], crate::world::START.plus_ms(400));
}

#[test]
fn a_drained_pause_waits_for_attempts_and_delays_alike() {
    let mut run = started("wait: core.delay {\"config\":{\"ms\":100}}\nc");
    run.pause(DrainCurrentNode).then("run.draining");
    run.completes("c").then("node.completed c");
    run.next_timer()
        .then("node.completed wait; run.paused drained");
    let mut run = started("wait: core.delay {\"config\":{\"ms\":100}}\nask: core.interrupt");
    run.pause(DrainCurrentNode).then("run.draining");
    run.resolve("ask", json!(1))
        .then("interrupt.resolved ask = 1; node.resumed ask; node.completed ask");
    run.pause(Immediate).then("run.paused immediate");
}

#[test]
fn a_retry_delay_continues_through_a_pause() {
    let text = "a: {\"settings\":{\"retry\":{\"maxRetries\":2,\"initialDelayMs\":100}}}";
    let mut run = started(text);
    run.fails("a", "one").then("node.retried a/1 +100ms one");
    run.pause(DrainCurrentNode).then("run.paused drained");
    run.at(50).resume().then("run.resumed");
    run.pause(Immediate).then("run.paused immediate");
    run.at(150).fires("retry/a").refused("timer_not_due");
    run.resume().then("run.resumed; node.started a/1");
}

#[test]
fn a_failure_while_draining_is_retried_after_the_resume() {
    let mut run = started("a: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":0}}}");
    run.pause(DrainCurrentNode).then("run.draining");
    run.fails("a", "one")
        .then("node.retried a/1 +0ms one; run.paused drained");
    run.resume().then("run.resumed; node.started a/1");
}

#[test]
fn a_failure_while_draining_is_routed_after_the_resume() {
    let mut run = started("a -> h any_failed");
    run.pause(DrainCurrentNode).then("run.draining");
    run.fails("a", "boom")
        .then("node.failed a boom; run.paused drained");
    run.resume().then("run.resumed; node.started h");

    let mut run = started("a -> b");
    run.pause(DrainCurrentNode).then("run.draining");
    run.fails("a", "boom")
        .then("node.failed a boom; run.failed boom");
}

#[test]
fn a_skip_while_draining_continues_after_the_resume() {
    let mut run = started("a: {\"settings\":{\"onFailure\":\"skip\"}}\na -> b none_failed");
    run.pause(DrainCurrentNode).then("run.draining");
    run.fails("a", "boom")
        .then("node.failed a boom; node.skipped a on_failure; run.paused drained");
    run.resume().then("run.resumed; node.started b");
}

#[test]
fn an_answer_while_paused_takes_effect_after_the_resume() {
    let mut run = started("ask: core.interrupt\nask -> b");
    run.pause(Immediate).then("run.paused immediate");
    run.resolve("ask", json!("yes"))
        .then("interrupt.resolved ask = \"yes\"; node.resumed ask; node.completed ask");
    run.resume().then("run.resumed; node.started b");
}

#[test]
fn a_question_does_not_expire_while_paused() {
    let mut run = started("ask: core.interrupt {\"config\":{\"timeoutMs\":50}}\nask -> b");
    let timer = format!("interrupt/{}", run.interrupt("ask"));
    run.pause(DrainCurrentNode).then("run.paused drained");
    run.at(100).fires(&timer).refused("timer_not_due");
    run.resume().then("run.resumed");
    run.next_timer()
        .then("node.failed ask interrupt_expired; run.failed interrupt_expired");
}

#[test]
fn timers_that_are_due_in_a_pause_fire_after_it() {
    let mut run = started("wait: core.delay {\"config\":{\"ms\":100}}\nwait -> b\nc");
    run.pause(DrainCurrentNode).then("run.draining");
    run.at(120).fires("delay/wait").then("node.completed wait");
    run.completes("c")
        .then("node.completed c; run.paused drained");
    run.resume().then("run.resumed; node.started b");
}

#[test]
fn a_run_times_out_while_paused() {
    let policy = kernel::stream::Policy {
        run_timeout_ms: Some(1_000),
        ..Default::default()
    };
    let mut run = started_under(policy, "a");
    run.pause(Immediate).then("run.paused immediate");
    run.next_timer()
        .then("cap.breached 1000 < 1001; node.cancelled a; run.failed run_timeout");
}

#[test]
fn a_run_that_was_not_driven_yet_waits_for_the_resume() {
    let mut run = unborn("a");
    run.when(Command::Create(Create::new(
        Map::new(),
        "test",
        Start::WhenClaimed,
    )))
    .decided();
    run.pause(DrainCurrentNode).then("run.paused drained");
    run.advance().refused("nothing_to_do");
    run.resume().then("run.resumed; node.started a");
}

#[test]
fn a_run_may_complete_with_the_resume() {
    let mut run = started("a");
    run.pause(DrainCurrentNode).then("run.draining");
    run.completes("a")
        .then("node.completed a; run.paused drained");
    run.resume().then("run.resumed; run.completed");
}

#[test]
fn a_signal_in_a_pause_is_kept() {
    let mut run = started("a -> ask\nask: core.interrupt {\"config\":{\"key\":\"go\"}}");
    run.pause(DrainCurrentNode).then("run.draining");
    run.completes("a")
        .then("node.completed a; run.paused drained");
    run.signal("go", "1", json!(7)).then("signal.received go 1");
    run.resume().then(
        "run.resumed; node.started ask; interrupt.requested ask; node.suspended ask; \
         interrupt.resolved ask = 7; node.resumed ask; node.completed ask; run.completed",
    );
}

#[test]
fn a_pause_that_has_not_come_yet_is_taken_back() {
    let mut run =
        started("a -> b\nc: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":5}}}");
    run.pause(DrainCurrentNode).then("run.draining");
    run.completes("a").then("node.completed a");
    run.resume().then("run.resumed; node.started b");
    assert_eq!(run.run.status().as_str(), "running");
    run.resume().refused("not_paused");
    run.pause(DrainCurrentNode).then("run.draining");
    run.fails("c", "one").then("node.retried c/1 +5ms one");
    run.resume().then("run.resumed");
    run.next_timer().then("node.started c/1");
    run.completes("b").then("node.completed b");
    run.completes("c").then("node.completed c/1; run.completed");
    assert_eq!(run.replay(0).world.records, run.records);
}

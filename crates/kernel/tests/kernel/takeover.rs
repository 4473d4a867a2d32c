//! A new holder finds attempts whose holder is gone.

use kernel::run::event::OutputChannel;
use kernel::run::{Command, Create, Outcome, Start};
use serde_json::Map;

use crate::notation::lines;
use crate::world::{World, started};

#[test]
fn attempts_in_flight_start_again_with_their_key() {
    let mut run = started("a\nb -> c");
    let keys = |run: &crate::world::World| {
        let origin = run.run.header.key_origin();
        let key = |live: kernel::run::state::LiveAttempt<'_>| live.id.key(&origin);
        run.run.live_attempts().map(key).collect::<Vec<_>>()
    };
    let before = keys(&run);
    run.take_over(&[])
        .then("run.resuming running; attempt.restarted a #1; attempt.restarted b #1");
    assert_eq!(keys(&run), before);
    run.take_over(&[])
        .then("run.resuming running; attempt.restarted a #2; attempt.restarted b #2");
    run.completes("a").then("node.completed a");
    run.take_over(&[])
        .then("run.resuming running; attempt.restarted b #3");
    run.completes("b").then("node.completed b; node.started c");
}

#[test]
fn an_attempt_that_must_not_be_repeated_fails() {
    let mut run = started("a -> h any_failed\nb");
    let lost = run.attempt("a");
    run.take_over(&[lost]).then(
        "run.resuming running; node.failed a outcome_unknown; node.started h; \
         attempt.restarted b #1",
    );
}

#[test]
fn a_failure_at_the_take_over_starts_nothing_again() {
    let mut run = started("a\nb\nc");
    let lost = run.attempt("b");
    run.take_over(&[lost]).then(
        "run.resuming running; node.failed b outcome_unknown; run.stopping outcome_unknown; \
         node.cancelled a; node.cancelled c; run.failed outcome_unknown",
    );
}

#[test]
fn a_failure_that_no_retry_follows_even_if_the_node_allows_them() {
    let mut run = started("a: {\"settings\":{\"retry\":{\"maxRetries\":5,\"initialDelayMs\":0}}}");
    let lost = run.attempt("a");
    run.take_over(&[lost])
        .then("run.resuming running; node.failed a outcome_unknown; run.failed outcome_unknown");
}

#[test]
fn a_stopping_run_has_nothing_left_to_stop() {
    let mut run = started("a\nb");
    run.cancel().then("run.stopping cancelled");
    run.take_over(&[])
        .then("run.resuming cancelling; node.cancelled a; node.cancelled b; run.cancelled");
}

#[test]
fn a_draining_run_stays_draining_after_a_takeover() {
    let mut run = started("a -> b");
    run.pause(kernel::run::event::DrainPolicy::DrainCurrentNode)
        .decided();
    run.take_over(&[])
        .then("run.resuming running; attempt.restarted a #1");
    run.completes("a")
        .then("node.completed a; run.paused drained");
}

#[test]
fn a_draining_run_whose_last_attempt_was_lost_pauses() {
    let mut run = started("a -> h any_failed");
    run.pause(kernel::run::event::DrainPolicy::DrainCurrentNode)
        .decided();
    let lost = run.attempt("a");
    run.take_over(&[lost])
        .then("run.resuming running; node.failed a outcome_unknown; run.paused drained");
    run.resume().then("run.resumed; node.started h");
}

#[test]
fn a_takeover_does_not_touch_waiting_nodes() {
    let mut run = started(
        "wait: core.delay {\"config\":{\"ms\":100}}\nask: core.interrupt\n\
         s: core.subWorkflow {\"config\":{\"workflowId\":\"c\"}}",
    );
    run.take_over(&[]).refused("nothing_to_do");
}

#[test]
fn a_timeout_counts_from_the_first_start() {
    let mut run = started("a: {\"settings\":{\"timeout\":50}}");
    run.at(40).take_over(&[]).decided();
    run.at(49).fires("timeout/a").refused("timer_not_due");
    run.at(50)
        .fires("timeout/a")
        .then("node.failed a node_timeout; run.failed node_timeout");
}

#[test]
fn the_late_outcome_of_a_restarted_attempt_counts_once() {
    let mut run = started("a -> b");
    let attempt = run.attempt("a");
    run.take_over(&[]).decided();
    let finish = Command::Finish {
        attempt,
        outcome: Outcome::completed(Map::new()),
    };
    run.when(finish.clone())
        .then("node.completed a; node.started b");
    run.when(finish).refused("stale_attempt");
}

/// A model's output is streamed; an attempt that restarts streams it from the start.
#[test]
fn repeated_output_of_an_attempt_is_marked() {
    let mut run = crate::world::unborn("a -> b");
    begin(&mut run);
    run.said("a", "ab");
    run.take_over(&[]).decided();
    assert_eq!(run.said("a", "abc"), ["output.chunk a \"abc\" again x1"]);
}

impl World {
    fn said(&mut self, node: &str, text: &str) -> Vec<String> {
        let attempt = self.attempt(node);
        let output = Command::Output {
            attempt,
            channel: OutputChannel::Text,
            chunk: text.to_owned(),
            is_last: false,
            meta: None,
        };
        lines(&self.when(output).decided())
    }
}

fn begin(run: &mut World) {
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
}

/// An attempt is restarted twice in the middle of its stream.
pub(crate) fn scene(run: &mut World) {
    begin(run);
    run.said("a", "on");
    run.take_over(&[]).decided();
    run.said("a", "one");
    run.take_over(&[]).decided();
    run.said("a", "one more");
    run.completes("a").decided();
    run.said("b", "done");
    run.completes("b").decided();
}

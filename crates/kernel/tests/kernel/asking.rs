//! Work nodes whose failure a person decides about, and work that is left to an outside party.

use kernel::run::event::DrainPolicy;
use kernel::run::{Command, Create, NodeError, Outcome, Start};
use kernel::stream::Policy;
use serde_json::{Map, json};

use crate::flow;
use crate::world::{Then, World, started};

const ASKING: &str = "a: {\"settings\":{\"onFailure\":\"ask\"}}\na -> b none_failed";
const ASKED: &str = "interrupt.requested a; node.suspended a";

/// For the golden logs: failures that a person decides about, and work outside.
pub(crate) const SCENE: &str = "a: {\"settings\":{\"onFailure\":\"ask\"}}\na -> c none_failed\n\
                                b: {\"settings\":{\"onFailure\":\"ask\"}}\nb -> c none_failed\n\
                                c: {\"settings\":{\"onFailure\":\"ask\"}}\nc -> d";

pub(crate) fn scene(run: &mut World) {
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    run.fails("a", "boom").decided();
    run.fails("b", "bang").decided();
    run.resolve("a", json!({ "action": "retry" })).decided();
    run.resolve("b", json!({ "action": "skip" })).decided();
    waits(run).decided();
    run.signal("task-1", "1", json!({ "outputs": { "n": 1 } }))
        .decided();
    run.fails("c", "again").decided();
    run.resolve("c", json!({ "action": "abort" })).decided();
}

/// For the golden logs: the work of a queue's workers, and their failures that a person decides
/// about.
pub(crate) const SCENE_OF_WORKERS: &str = "w: runwright.worker {\"config\":{\"queue\":\"q\",\
    \"repeat\":\"repeatable\"},\"settings\":{\"onFailure\":\"ask\",\"timeout\":1000}}\nw -> b none_failed";

/// One that failed, one that took too long, and one that completed.
pub(crate) fn scene_of_workers(run: &mut World) {
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    goes_out(run, "task-0").decided();
    run.signal("task-0", "0", error_of("m")).decided();
    run.resolve("w", json!({ "action": "retry" })).decided();
    goes_out(run, "task-1").decided();
    run.next_timer().decided();
    run.resolve("w", json!({ "action": "retry" })).decided();
    goes_out(run, "task-2").decided();
    run.signal("task-2", "2", json!({ "outputs": { "n": 1 } }))
        .decided();
    run.completes("b").decided();
}

fn goes_out(run: &mut World, key: &str) -> Then {
    let outcome = Outcome::Waits {
        key: key.into(),
        data: kernel::coordinator::awaiting_worker("q", key),
    };
    run.finish("w", outcome)
}

fn error_of(message: &str) -> serde_json::Value {
    json!({ "error": { "code": "boom", "message": message } })
}

const W_ASKED: &str = "interrupt.requested w; node.suspended w";

/// One question is open. It is not the worker's, and the run's status shows it.
fn asks_a_person(run: &World) {
    let facts = run.run.facts().unwrap();
    let open: Vec<&str> = (facts.interrupts.iter())
        .map(|open| open.kind.as_str())
        .collect();
    assert_eq!(open, ["custom"]);
    assert_eq!(run.run.status().as_str(), "waiting-input");
}

#[test]
fn a_workers_failure_may_be_decided_about() {
    for action in ["retry", "skip", "abort"] {
        let mut run = started(SCENE_OF_WORKERS);
        goes_out(&mut run, "task-0").then(W_ASKED);
        run.signal("task-0", "0", error_of("m")).then(&format!(
            "signal.received task-0 0; interrupt.resolved w = \
             {{\"error\":{{\"code\":\"boom\",\"message\":\"m\"}}}}; node.resumed w; {W_ASKED}"
        ));
        asks_a_person(&run);
        let then = match action {
            "retry" => "node.retried w/1 +0ms boom; node.started w/1",
            "skip" => "node.skipped w on_failure; node.started b",
            _ => "node.failed w boom; run.failed boom",
        };
        run.resolve("w", json!({ "action": action })).then(&format!(
            "interrupt.resolved w = {{\"action\":\"{action}\"}}; node.resumed w; {then}"
        ));
    }
}

#[test]
fn retries_of_a_worker_come_before_the_question() {
    let mut run = started(
        "w: runwright.worker {\"config\":{\"queue\":\"q\",\"repeat\":\"once\"},\
         \"settings\":{\"onFailure\":\"ask\",\"retry\":{\"maxRetries\":1,\"initialDelayMs\":10}}}",
    );
    goes_out(&mut run, "task-0").decided();
    run.signal("task-0", "0", error_of("m")).decided();
    run.next_timer().then("node.started w/1");
    goes_out(&mut run, "task-1").decided();
    run.signal("task-1", "1", error_of("m")).decided();
    asks_a_person(&run);
    run.resolve("w", json!({ "action": "skip" })).decided();
}

#[test]
fn a_timed_out_worker_is_not_awaited_while_a_person_is_asked() {
    for action in ["retry", "skip", "abort"] {
        let mut run = started(SCENE_OF_WORKERS);
        goes_out(&mut run, "task-0").decided();
        run.next_timer().then(W_ASKED);
        asks_a_person(&run);
        // A late answer has no effect.
        run.signal("task-0", "0", json!({ "outputs": {} }))
            .then("signal.received task-0 0");
        asks_a_person(&run);
        let then = match action {
            "retry" => "node.retried w/1 +0ms node_timeout; node.started w/1",
            "skip" => "node.skipped w on_failure; node.started b",
            _ => "node.failed w node_timeout; run.failed node_timeout",
        };
        run.resolve("w", json!({ "action": action })).then(&format!(
            "interrupt.resolved w = {{\"action\":\"{action}\"}}; node.resumed w; {then}"
        ));
    }
}

/// A branch has its own work done, even if its source waits for a worker.
#[test]
fn a_branch_at_a_waiting_or_failed_worker_starts_new_work() {
    let mut run = started(SCENE_OF_WORKERS);
    goes_out(&mut run, "task-0").decided();
    let waiting = run.events.len() as u64;
    run.next_timer().then(W_ASKED);
    let timed_out = run.events.len() as u64;
    for cut in [waiting, timed_out] {
        let mut branch = run.branch(cut);
        branch.advance().then("node.started w/1");
        goes_out(&mut branch, "task-1").then(W_ASKED);
        branch.signal("task-1", "1", error_of("m")).decided();
        asks_a_person(&branch);
        branch.resolve("w", json!({ "action": "skip" })).decided();
    }
}

/// More retries than allowed are detected, also after a failure of a worker.
#[test]
fn a_worker_that_failed_has_not_asked_for_another_attempt() {
    let mut run = started(SCENE_OF_WORKERS);
    goes_out(&mut run, "task-0").decided();
    run.signal("task-0", "0", error_of("m")).decided();
    run.resolve("w", json!({ "action": "retry" })).decided();
    let is_question = |event: &kernel::run::Event| {
        let json = serde_json::to_value(event).unwrap();
        json.to_string().contains("node-failed")
    };
    let from = run.events.iter().position(is_question).unwrap();
    let mut events = run.events.clone();
    // As if the question had been neither asked nor answered.
    events.drain(from..from + 4);
    let found = kernel::check::check(&run.run.header, &run.run.plan, &events);
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|what| what.contains("allowed are 0")),
        "{told:?}"
    );
}

fn failed() -> World {
    let mut run = started(ASKING);
    run.fails("a", "boom").then(ASKED);
    assert_eq!(run.run.status().as_str(), "waiting-input");
    run
}

fn choose(run: &mut World, action: &str, then: &str) {
    run.resolve("a", json!({ "action": action })).then(&format!(
        "interrupt.resolved a = {{\"action\":\"{action}\"}}; node.resumed a; {then}"
    ));
}

#[test]
fn a_failure_is_retried_as_often_as_a_person_asks() {
    let mut run = failed();
    choose(
        &mut run,
        "retry",
        "node.retried a/1 +0ms boom; node.started a/1",
    );
    run.fails("a", "again").then(ASKED);
    choose(
        &mut run,
        "retry",
        "node.retried a/2 +0ms again; node.started a/2",
    );
    run.completes("a")
        .then("node.completed a/2; node.started b");
}

#[test]
fn a_non_retryable_error_is_retried_when_a_person_asks() {
    let mut run = started(ASKING);
    let outcome = Outcome::failed(NodeError::new("gone", "no such command").fatal());
    run.finish("a", outcome).then(ASKED);
    choose(
        &mut run,
        "retry",
        "node.retried a/1 +0ms gone; node.started a/1",
    );
}

#[test]
fn a_failure_may_count_as_skipped() {
    let mut run = failed();
    choose(
        &mut run,
        "skip",
        "node.skipped a on_failure; node.started b",
    );
    run.completes("b").then("node.completed b; run.completed");
}

#[test]
fn a_failure_may_end_the_run() {
    let mut run = failed();
    choose(&mut run, "abort", "node.failed a boom; run.failed boom");
}

#[test]
fn another_answer_leaves_the_question_open() {
    let mut run = failed();
    let interrupt = run.interrupt("a");
    for value in [json!({ "action": "again" }), json!({}), json!("retry")] {
        run.when(Command::Resolve {
            interrupt: interrupt.clone(),
            value,
            by: None,
            capacity: Default::default(),
        })
        .refused("invalid_resume_value");
    }
    choose(
        &mut run,
        "skip",
        "node.skipped a on_failure; node.started b",
    );
}

#[test]
fn a_question_stays_open_while_others_run_until_the_run_ends() {
    let mut run = started(&format!("{ASKING}\nc -> d"));
    run.fails("a", "boom").then(ASKED);
    run.completes("c").then("node.completed c; node.started d");
    run.when(Command::Cancel {
        reason: None,
        by: None,
        parent: None,
    })
    .then("node.cancelled a; run.stopping cancelled");
    run.finish("d", Outcome::Stopped)
        .then("node.cancelled d; run.cancelled");
}

#[test]
fn an_answer_during_a_pause_waits_for_its_end() {
    let mut run = failed();
    run.when(Command::Pause {
        reason: None,
        policy: DrainPolicy::Immediate,
    })
    .decided();
    choose(&mut run, "retry", "node.retried a/1 +0ms boom");
    run.when(Command::Resume { reason: None })
        .then("run.resumed; node.started a/1");
}

#[test]
fn retries_come_before_the_question() {
    let mut run = started(
        "a: {\"settings\":{\"onFailure\":\"ask\",\"timeout\":50,\
         \"retry\":{\"maxRetries\":1,\"initialDelayMs\":10}}}",
    );
    run.fails("a", "one").then("node.retried a/1 +10ms one");
    run.next_timer().then("node.started a/1");
    run.next_timer().then(ASKED);
    assert!(
        run.timers.is_empty(),
        "a question has all the time there is"
    );
}

const WAITS: &str = "a -> b";

fn waits(run: &mut World) -> Then {
    let outcome = Outcome::Waits {
        key: "task-1".into(),
        data: json!({ "tool": "gemini" }),
    };
    run.finish("a", outcome)
}

#[test]
fn external_work_ends_by_a_signal_with_its_name() {
    let mut run = started(WAITS);
    waits(&mut run).then("interrupt.requested a; node.suspended a");
    assert_eq!(run.run.status().as_str(), "waiting-external");
    run.signal("task-1", "1", json!({ "outputs": { "n": 1 } }))
        .then(
            "signal.received task-1 1; interrupt.resolved a = {\"outputs\":{\"n\":1}}; \
             node.resumed a; node.completed a; node.started b",
        );
}

#[test]
fn work_that_had_ended_before_it_was_waited_for_is_over_at_once() {
    let mut run = started(WAITS);
    run.signal("task-1", "1", json!({ "outputs": {} }))
        .then("signal.received task-1 1");
    waits(&mut run).then(
        "interrupt.requested a; node.suspended a; interrupt.resolved a = {\"outputs\":{}}; \
         node.resumed a; node.completed a; node.started b",
    );
}

#[test]
fn work_outside_may_fail() {
    let mut run = started(WAITS);
    waits(&mut run).decided();
    let error = json!({ "error": { "code": "exit_1", "message": "it failed" } });
    run.signal("task-1", "1", error).then(
        "signal.received task-1 1; interrupt.resolved a = \
         {\"error\":{\"code\":\"exit_1\",\"message\":\"it failed\"}}; node.resumed a; \
         node.failed a exit_1; run.failed exit_1",
    );
}

#[test]
fn a_signal_without_a_result_is_kept_and_answers_nothing() {
    let mut run = started(WAITS);
    waits(&mut run).then("interrupt.requested a; node.suspended a");
    run.signal("task-1", "1", json!({ "ok": true }))
        .then("signal.received task-1 1");
    assert_eq!(run.run.status().as_str(), "waiting-external");
}

/// A stopping run starts no work outside: it would end around a waiting node.
#[test]
fn nothing_waits_in_a_run_that_is_being_stopped() {
    let mut run = started(WAITS);
    run.cancel().then("run.stopping cancelled");
    waits(&mut run).then("node.cancelled a; run.cancelled");
}

/// The protocol allows the same length for a key as for a node's id.
#[test]
fn the_key_of_a_failure_respects_the_key_length_limit() {
    let key = |length: usize| {
        let id = "n".repeat(length);
        // Longer ids were accepted before events limited their length.
        let text = format!("{id}: {{\"settings\":{{\"onFailure\":\"ask\"}}}}");
        let mut run = World::new(flow::stored(&text), Policy::default());
        run.create(Map::new()).decided();
        run.fails(&id, "boom").decided();
        run.run.facts().expect("facts").interrupts[0].key.clone()
    };
    assert_eq!(key(249), format!("{}/failed", "n".repeat(249)));
    assert_eq!(key(250), "n".repeat(250));
}

#[test]
fn missing_host_capabilities_are_asked_about_and_retried() {
    let mut run = started("a -> b");
    lacks(&mut run).then(ASKED);
    assert_eq!(run.run.status().as_str(), "waiting-input");
    choose(
        &mut run,
        "retry",
        "node.retried a/1 +0ms provider_not_found; node.started a/1",
    );
    // Still not provided: asked again, without a limit.
    lacks(&mut run).then(ASKED);
    choose(
        &mut run,
        "retry",
        "node.retried a/2 +0ms provider_not_found; node.started a/2",
    );
    run.completes("a").decided();
    run.completes("b").decided();
    assert_eq!(run.run.status().as_str(), "completed");
}

#[test]
fn missing_host_capabilities_follow_a_failure_edge() {
    let mut run = started("a -> b any_failed");
    lacks(&mut run).decided();
    run.completes("b").decided();
    assert_eq!(run.run.status().as_str(), "completed");
}

#[test]
fn missing_host_capabilities_are_skipped_where_configured() {
    let mut run = started("a: {\"settings\":{\"onFailure\":\"skip\"}}\na -> b none_failed");
    lacks(&mut run).decided();
    run.completes("b").decided();
    assert_eq!(run.run.status().as_str(), "completed");
}

fn lacks(run: &mut World) -> Then {
    let error = NodeError::new("provider_not_found", "none is configured").lacking();
    run.finish("a", Outcome::failed(error))
}

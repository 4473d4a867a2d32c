//! Caps, slots, timeouts of runs, and the settings for creating a run.

use kernel::run::{Command, Create, Start};
use kernel::stream::Policy;
use serde_json::{Map, json};

use crate::world::{World, object, started, started_under, unborn};

fn slots(n: u32, text: &str) -> World {
    let policy = Policy {
        max_parallel: Some(n),
        ..Policy::default()
    };
    started_under(policy, text)
}

#[test]
fn exactly_so_many_nodes_start() {
    let policy = || Policy {
        max_node_executions: Some(2),
        ..Policy::default()
    };
    let mut run = started_under(policy(), "a -> b -> c");
    run.completes("a").then("node.completed a; node.started b");
    run.completes("b")
        .then("node.completed b; cap.breached 2 < 3; run.failed recursion_limit_exceeded");
    assert_eq!(run.run.facts().expect("facts").executions, 2);

    let mut run = started_under(policy(), "a -> b");
    run.completes("a").decided();
    run.completes("b").then("node.completed b; run.completed");

    let run = started_under(policy(), "a\nb\nc");
    assert_eq!(
        crate::notation::lines(&run.events)[1..],
        [
            "node.started a",
            "node.started b",
            "cap.breached 2 < 3",
            "run.stopping recursion_limit_exceeded"
        ]
    );
}

#[test]
fn waiting_for_a_person_is_not_working_time() {
    let mut run = started(WORKING_TIME);
    run.at(600);
    run.completes("a").decided();
    assert_eq!(run.run.next_timer(), None, "nothing is due while it waits");
    run.at(90_000_000);
    run.resolve("ask", json!({ "action": "accept" })).decided();
    run.at(90_000_399);
    run.fires("work-timeout").refused("timer_not_due");
    run.at(90_000_400);
    run.fires("work-timeout")
        .then("cap.breached 1000 < 1001; run.stopping run_timeout");
}

/// A workflow with a working time of a second, which asks a person meanwhile.
pub(crate) const WORKING_TIME: &str = r#"a -> ask
    ask: core.approvalGate {"config":{"title":"Go on?"}}
    ask -> b
    workflow: {"settings":{"workTimeout":1000}}"#;

/// It works for too long after the answer.
pub(crate) fn scene(run: &mut World) {
    run.when(Command::Create(Create::new(Map::new(), "test", Start::Now)))
        .decided();
    run.at(600).completes("a").decided();
    run.at(90_000_000);
    run.resolve("ask", json!({ "action": "accept" })).decided();
    run.next_timer().decided();
    run.stopped("b").decided();
}

#[test]
fn a_timeout_shorter_than_a_gate_waits_is_warned_of() {
    let plan = |settings: &str, gate: &str| {
        let text = format!(
            "ask: core.approvalGate {{\"config\":{gate}}}\nworkflow: {{\"settings\":{settings}}}"
        );
        let about = |path: &str| path == "/settings/timeout";
        let plan = crate::flow::plan(&text);
        let warnings = plan.warnings.iter();
        warnings.filter(|warning| about(&warning.path)).count()
    };
    assert_eq!(plan("{\"timeout\":1000}", "{\"timeoutMs\":5000}"), 1);
    assert_eq!(plan("{\"timeout\":1000}", "{}"), 1);
    assert_eq!(plan("{\"timeout\":5000}", "{\"timeoutMs\":5000}"), 0);
    assert_eq!(plan("{\"workTimeout\":1000}", "{}"), 0);
}

#[test]
fn a_timeout_over_a_node_that_asks_is_warned_of() {
    let warnings = |settings: &str| {
        let text = format!(
            "a: {{\"settings\":{{\"onFailure\":\"ask\"}}}}\nworkflow: {{\"settings\":{settings}}}"
        );
        let plan = crate::flow::plan(&text);
        let texts = plan.warnings.iter().map(|warning| warning.message.clone());
        texts.collect::<Vec<_>>()
    };
    let [warning] = &warnings("{\"timeout\":1000}")[..] else {
        panic!("one warning");
    };
    assert!(
        warning.contains("`a`") && warning.contains("`onFailure: ask`"),
        "{warning}"
    );
    assert!(warnings("{\"workTimeout\":1000}").is_empty());
}

#[test]
fn an_attempt_counts_as_an_execution() {
    let policy = Policy {
        max_node_executions: Some(1),
        ..Policy::default()
    };
    let mut run = started_under(
        policy,
        "a: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":0}}}",
    );
    run.fails("a", "one").then(
        "node.retried a/1 +0ms one; cap.breached 1 < 2; node.cancelled a; \
         run.failed recursion_limit_exceeded",
    );
}

#[test]
fn a_run_may_take_so_long() {
    let policy = || Policy {
        run_timeout_ms: Some(1_000),
        ..Policy::default()
    };
    let mut run = started_under(policy(), "a\nwait: core.delay {\"config\":{\"ms\":5000}}");
    run.at(999).fires("run-timeout").refused("timer_not_due");
    run.at(1_500)
        .fires("run-timeout")
        .then("cap.breached 1000 < 1500; node.cancelled wait; run.stopping run_timeout");
    run.fires("run-timeout").refused("timer_not_due");
    assert!(run.timers.is_empty());
    run.completes("a")
        .then("node.completed a; run.failed run_timeout");

    let mut run = started_under(
        policy(),
        "workflow: {\"settings\":{\"timeout\":500}}\nask: core.interrupt",
    );
    run.next_timer()
        .then("cap.breached 500 < 501; node.cancelled ask; run.failed run_timeout");
}

#[test]
fn only_so_many_attempts_are_in_flight() {
    let mut run = slots(2, "a\nb\nc -> d\ne");
    assert_eq!(run.run.live_attempts().count(), 2);
    assert_eq!(run.status_of("c"), "pending");
    run.advance().refused("nothing_to_do");
    run.completes("b").then("node.completed b; node.started c");
    run.completes("c").then("node.completed c; node.started d");
    run.completes("a").then("node.completed a; node.started e");
    run.completes("d").then("node.completed d");
    run.completes("e").then("node.completed e; run.completed");
}

/// A retry used to start although another node had taken its slot meanwhile.
#[test]
fn a_node_keeps_its_slot_while_it_waits_for_its_next_attempt() {
    let mut run = slots(
        1,
        "a: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":100}}}\nb",
    );
    run.fails("a", "one").then("node.retried a/1 +100ms one");
    assert!(
        !kernel::run::RunIndex::from_run(&run.run).runnable,
        "nothing to do before the timer"
    );
    run.advance().refused("nothing_to_do");
    run.next_timer().then("node.started a/1");
    run.completes("a")
        .then("node.completed a/1; node.started b");
}

#[test]
fn abandoned_attempts_keep_their_slots() {
    use kernel::run::event::DrainPolicy::Immediate;
    let mut run = slots(1, "b\na");
    run.pause(Immediate).then("run.paused immediate");
    run.resume().then("run.resumed; node.started b/1");
    let mut run = slots(1, "x: core.interrupt\nx -> b\na");
    run.resolve("x", json!(1)).decided();
    run.pause(Immediate).then("run.paused immediate");
    run.resume().then("run.resumed; node.started a/1");
    assert_eq!(run.run.live_attempts().count(), 1);
}

#[test]
fn a_skipped_failure_frees_its_slot_for_any_node() {
    let mut run = slots(1, "a: {\"settings\":{\"onFailure\":\"skip\"}}\nb");
    run.fails("a", "boom")
        .then("node.failed a boom; node.skipped a on_failure; node.started b");
}

#[test]
fn a_child_takes_a_slot() {
    let run = slots(
        1,
        "s: core.subWorkflow {\"config\":{\"workflowId\":\"c\"}}\nb\n\
         t: core.subWorkflow {\"config\":{\"workflowId\":\"c\"}}",
    );
    assert_eq!(run.status_of("s"), "running");
    assert_eq!(run.status_of("b"), "pending");
    assert_eq!(run.status_of("t"), "pending");
}

#[test]
fn no_slot_at_all_is_read_as_one() {
    let mut run = slots(0, "a -> b");
    run.completes("a").then("node.completed a; node.started b");
}

#[test]
fn waiting_takes_no_slot() {
    let run = slots(
        1,
        "wait: core.delay {\"config\":{\"ms\":100}}\nask: core.interrupt\na\nb",
    );
    assert_eq!(run.status_of("a"), "running");
    assert_eq!(run.status_of("b"), "pending");
}

#[test]
fn a_wide_start_is_cut_into_batches() {
    let text: String = (0..600).map(|n| format!("n{n}\n")).collect();
    let mut run = started(&text);
    assert!(run.run.live_attempts().count() < 300);
    assert!(kernel::run::RunIndex::from_run(&run.run).runnable);
    run.advance().decided();
    run.advance().decided();
    run.advance().refused("nothing_to_do");
    assert_eq!(run.run.live_attempts().count(), 600);
}

#[test]
fn inputs_at_creation_are_bounded() {
    let create = || Create::new(Map::new(), "test", Start::Now);
    let too_large = |create: Create| {
        unborn("a")
            .when(Command::Create(create))
            .refused("too_large");
    };
    too_large(Create {
        tags: vec!["t".into(); 101],
        ..create()
    });
    too_large(Create {
        tags: vec!["t".repeat(257)],
        ..create()
    });
    too_large(Create {
        metadata: object(json!({ "m": "x".repeat(9_000) })),
        ..create()
    });
    too_large(Create {
        metadata: object(json!({ "a": { "b": { "c": { "d": {} } } } })),
        ..create()
    });
    let fits = Create {
        tags: vec!["t".repeat(256); 100],
        metadata: object(json!({ "a": { "b": { "c": 1.0 } } })),
        configurable: object(json!({ "x": 1.0 })),
        ..create()
    };
    unborn("a").when(Command::Create(fits)).decided();
}

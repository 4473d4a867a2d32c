//! Loops: rounds, breaks, nesting, limits.

use kernel::run::Completion;
use kernel::stream::Policy;
use serde_json::json;

use crate::notation::lines;
use crate::world::{World, object, started, started_under};

fn looping(config: &str) -> World {
    started(&format!(
        "head: core.loop {{\"config\":{config}}}\nhead.body -> a -> head\nhead.done -> z"
    ))
}

#[test]
fn a_loop_runs_so_many_times() {
    let mut run = looping(r#"{"times":2}"#);
    assert_eq!(
        lines(&run.events)[1..],
        [
            "node.started head",
            "node.completed head -> body",
            "node.started a"
        ]
    );
    run.completes("a").then(
        "node.completed a; node.started head@1; node.completed head@1 -> body; node.started a@1",
    );
    run.completes("a").then(
        "node.completed a@1; node.started head@2; node.completed head@2 -> done; node.started z",
    );
    run.completes("z").then("node.completed z; run.completed");
}

#[test]
fn a_loop_without_rounds_skips_its_body() {
    let run = looping(r#"{"times":0}"#);
    assert_eq!(
        lines(&run.events)[1..],
        [
            "node.started head",
            "node.completed head -> done",
            "node.skipped a",
            "node.started z"
        ]
    );
}

#[test]
fn a_loop_over_items_gives_each_to_its_body() {
    let text = |items: &str| {
        format!(
            "head: core.loop {{\"config\":{{\"items\":{items}}}}}\n\
             head.body -> a -> head\n\
             a: {{\"inputs\":{{\"it\":{{\"type\":\"expression\",\"expression\":\"item\"}}}}}}\n\
             workflow: {{\"variables\":[{{\"name\":\"list\",\"type\":\"array\",\
             \"defaultValue\":[\"x\",\"y\"]}}]}}"
        )
    };
    for items in ["[\"x\",\"y\"]", "\"variables.list\""] {
        let mut run = started(&text(items));
        for item in ["x", "y"] {
            let live = run.run.live_attempts().next().expect("a round");
            assert_eq!(live.inputs["it"], item);
            run.completes("a").decided();
        }
        assert_eq!(run.run.status().as_str(), "completed");
    }
}

#[test]
fn a_loop_asks_before_or_after_each_round() {
    let text = |config: &str| {
        format!(
            "head: core.loop {{\"config\":{config}}}\nhead.body -> a -> head\n\
             workflow: {{\"variables\":[{{\"name\":\"n\",\"type\":\"number\",\"defaultValue\":0}}]}}"
        )
    };
    let set = |n: u64| Completion {
        variables: object(json!({ "n": n })),
        ..Completion::default()
    };
    let mut run = started(&text(r#"{"while":"variables.n < 2"}"#));
    run.completes_with("a", set(1)).then(
        "variable.changed n = 1; node.completed a; node.started head@1; \
         node.completed head@1 -> body; node.started a@1",
    );
    run.completes_with("a", set(2)).then(
        "variable.changed n = 2; node.completed a@1; node.started head@2; \
         node.completed head@2 -> done; run.completed",
    );
    let mut run = started(&text(r#"{"until":"variables.n == 0"}"#));
    run.completes_with("a", set(0)).then(
        "variable.changed n = 0; node.completed a; node.started head@1; \
         node.completed head@1 -> done; run.completed",
    );
}

#[test]
fn a_round_from_which_no_edge_leads_back_leaves_the_loop() {
    let mut run = started(
        "head: core.loop {\"config\":{\"times\":5}}\nhead.body -> a\n\
         a -> head if output.more\na -> c\nhead.done -> z",
    );
    run.gives("a", json!({ "more": true }))
        .then("node.completed a; node.started c");
    run.completes("c").then(
        "node.completed c; node.started head@1; node.completed head@1 -> body; node.started a@1",
    );
    run.gives("a", json!({ "more": false }))
        .then("node.completed a@1; node.started c@1");
    let events = run.completes("c").then(
        "node.completed c@1; node.started head@2; node.completed head@2 -> done; node.started z",
    );
    let text = serde_json::to_string(&events[2]).expect("JSON");
    assert!(text.contains(r#""reason":"break""#), "{text}");
}

#[test]
fn a_failure_in_the_body_may_lead_back() {
    let mut run = started(
        "head: core.loop {\"config\":{\"times\":2}}\nhead.body -> a\na -> head all_complete",
    );
    run.fails("a", "boom").then(
        "node.failed a boom; node.started head@1; node.completed head@1 -> body; node.started a@1",
    );
    run.fails_for_good("a", "boom").then(
        "node.failed a@1 boom; node.started head@2; node.completed head@2 -> done; run.completed",
    );
}

#[test]
fn a_failure_in_the_body_fails_the_run() {
    let mut run = looping(r#"{"times":2}"#);
    run.fails("a", "boom")
        .then("node.failed a boom; run.failed boom");
}

#[test]
fn a_retry_stays_within_its_round() {
    let mut run = started(
        "head: core.loop {\"config\":{\"times\":2}}\nhead.body -> a -> head\n\
         a: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":0}}}",
    );
    run.completes("a").decided();
    run.fails("a", "one")
        .then("node.retried a@1/1 +0ms one; node.started a@1/1");
    run.completes("a").then(
        "node.completed a@1/1; node.started head@2; node.completed head@2 -> done; run.completed",
    );
}

#[test]
fn branches_of_a_body_join_before_the_next_round() {
    let mut run = started(
        "head: core.loop {\"config\":{\"times\":2}}\n\
         head.body -> a -> head\nhead.body -> b -> head",
    );
    run.completes("a").then("node.completed a");
    run.completes("b").then(
        "node.completed b; node.started head@1; node.completed head@1 -> body; \
         node.started a@1; node.started b@1",
    );
}

#[test]
fn loops_within_loops_count_their_own_visits() {
    let mut run = started(
        "o: core.loop {\"config\":{\"times\":2}}\n\
         o.body -> i\n\
         i: core.loop {\"config\":{\"times\":1}}\n\
         i.body -> a -> i\n\
         i.done -> b -> o",
    );
    run.completes("a")
        .then("node.completed a; node.started i@1; node.completed i@1 -> done; node.started b");
    run.completes("b").then(
        "node.completed b; node.started o@1; node.completed o@1 -> body; \
         node.started i@2; node.completed i@2 -> body; node.started a@1",
    );
    run.completes("a")
        .then("node.completed a@1; node.started i@3; node.completed i@3 -> done; node.started b@1");
    run.completes("b")
        .then("node.completed b@1; node.started o@2; node.completed o@2 -> done; run.completed");
}

#[test]
fn an_inner_loop_without_rounds_does_not_hold_up_the_outer_one() {
    let mut run = started(
        "o: core.loop {\"config\":{\"times\":2}}\n\
         o.body -> x -> i\n\
         i: core.loop {\"config\":{\"times\":0}}\n\
         i.body -> a -> i\n\
         i.done -> b -> o",
    );
    run.completes("x").then(
        "node.completed x; node.started i; node.completed i -> done; node.skipped a; \
         node.started b",
    );
    run.completes("b")
        .then("node.completed b; node.started o@1; node.completed o@1 -> body; node.started x@1");
    run.completes("x").then(
        "node.completed x@1; node.started i@1; node.completed i@1 -> done; node.skipped a@1; \
         node.started b@1",
    );
}

#[test]
fn a_loop_has_a_bound() {
    let mut run = looping(r#"{"times":5,"maxIterations":1}"#);
    run.completes("a").then(
        "node.completed a; node.started head@1; cap.breached 1 < 2; node.cancelled head@1; \
         run.failed loop_limit_exceeded",
    );
    let policy = Policy {
        max_loop_iterations: Some(1),
        ..Policy::default()
    };
    let mut run = started_under(
        policy,
        "head: core.loop {\"config\":{\"times\":5}}\nhead.body -> a -> head",
    );
    run.completes("a").then(
        "node.completed a; node.started head@1; cap.breached 1 < 2; node.cancelled head@1; \
         run.failed loop_limit_exceeded",
    );
}

#[test]
fn a_loop_may_be_paused_between_rounds() {
    let mut run = looping(r#"{"times":2}"#);
    run.pause(kernel::run::event::DrainPolicy::DrainCurrentNode)
        .decided();
    run.completes("a")
        .then("node.completed a; run.paused drained");
    run.resume()
        .then("run.resumed; node.started head@1; node.completed head@1 -> body; node.started a@1");
}

#[test]
fn a_loop_that_says_nothing_useful_fails() {
    for config in [
        "{}",
        r#"{"items":"variables.none"}"#,
        r#"{"items":"5"}"#,
        r#"{"while":"1"}"#,
    ] {
        let run = looping(config);
        assert_eq!(run.run.status().as_str(), "failed", "{config}");
    }
}

/// Rounds of control nodes only: one batch has a maximum number of events, the rest follows.
#[test]
fn a_long_loop_is_cut_into_batches() {
    let policy = Policy {
        max_loop_iterations: Some(100_000),
        ..Policy::default()
    };
    let mut run = started_under(
        policy,
        "head: core.loop {\"config\":{\"times\":10000,\"maxIterations\":100000}}\n\
         head.body -> w -> head\n\
         w: core.channelWrite {\"config\":{\"channel\":\"c\",\"expression\":\"nodes.head.outputs.index\"}}\n\
         workflow: {\"channels\":{\"c\":{\"reducer\":\"counter\"}}}",
    );
    let mut batches = 1;
    while !run.run.is_settled() {
        let index = kernel::run::RunIndex::from_run(&run.run);
        assert!(index.runnable, "a run that was cut is due again");
        let events = run.advance().decided();
        assert!(events.len() <= kernel::run::decide::MAX_BATCH_EVENTS + 8);
        batches += 1;
    }
    assert_eq!(run.run.status().as_str(), "completed");
    assert!(batches > 150, "{batches}");
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.channels["c"], json!(9_999 * 10_000 / 2));
    assert_eq!(facts.executions, 20_001);
}

//! Which node starts when: trigger rules, conditions, skips, joins.

use serde_json::json;

use crate::notation::lines;
use crate::world::{World, started};

/// How a source of the tested edges ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Completes,
    Fails,
    IsSkipped,
}

use Source::{Completes, Fails, IsSkipped};

const ALL: [Source; 3] = [Completes, Fails, IsSkipped];

fn fires(rule: &str, sources: [Source; 2]) -> bool {
    match rule {
        "all_success" => sources == [Completes, Completes],
        "any_success" => sources.contains(&Completes),
        "all_complete" => true,
        "none_failed" => !sources.contains(&Fails),
        "any_failed" => sources.contains(&Fails),
        _ => unreachable!(),
    }
}

/// Two sources end in each way and each order; a handler also takes their failures, so that the run
/// continues under every rule.
#[test]
fn each_rule_against_each_pair_of_outcomes() {
    for rule in [
        "all_success",
        "any_success",
        "all_complete",
        "none_failed",
        "any_failed",
    ] {
        for x in ALL {
            for y in ALL {
                for order in [["x", "y"], ["y", "x"]] {
                    check_rule(rule, [x, y], order);
                }
            }
        }
    }
}

fn check_rule(rule: &str, sources: [Source; 2], order: [&str; 2]) {
    let disabled = |source| match source {
        IsSkipped => r#" {"disabled":true}"#,
        _ => "",
    };
    let text = format!(
        "x:{}\ny:{}\nz\nx -> t {rule}\ny -> t {rule}\nx -> h all_complete\ny -> h all_complete",
        disabled(sources[0]),
        disabled(sources[1]),
    );
    let mut run = started(&text);
    for name in order {
        match sources[usize::from(name == "y")] {
            Completes => drop(run.completes(name).decided()),
            Fails => drop(run.fails(name, "boom").decided()),
            IsSkipped => {}
        }
    }
    let expected = if fires(rule, sources) {
        "running"
    } else {
        "skipped"
    };
    let case = format!("{rule} of {sources:?} in order {order:?}");
    assert_eq!(run.status_of("t"), expected, "{case}");
    assert_eq!(run.status_of("h"), "running", "{case}");
}

#[test]
fn a_rule_is_decided_as_soon_as_it_can_be() {
    let mut run = started("x -> t any_success\ny -> t any_success");
    run.completes("x").then("node.completed x; node.started t");
    run.completes("t").then("node.completed t");
    run.completes("y").then("node.completed y; run.completed");

    let mut run = started("x -> t\ny -> t\nx -> h any_failed");
    run.fails("x", "boom")
        .then("node.failed x boom; node.skipped t; node.started h");
    run.completes("y").then("node.completed y");
    run.completes("h").then("node.completed h; run.completed");

    let mut run = started("x -> t any_failed\ny -> t any_failed");
    run.fails("y", "boom")
        .then("node.failed y boom; node.started t");
    run.completes("t").then("node.completed t");
    run.completes("x").then("node.completed x; run.completed");

    let mut run = started("x -> t none_failed\ny -> t none_failed\nx -> h any_failed");
    run.fails("x", "boom")
        .then("node.failed x boom; node.skipped t; node.started h");
}

#[test]
fn edges_of_different_rules_form_groups_that_all_must_be_met() {
    let text = "x -> t\ny -> t any_failed";
    let mut run = started(text);
    run.completes("x").then("node.completed x");
    run.fails("y", "boom")
        .then("node.failed y boom; node.started t");

    let mut run = started(text);
    run.completes("x").then("node.completed x");
    run.completes("y")
        .then("node.completed y; node.skipped t; run.completed");

    let text = "x -> t any_success\ny -> t any_success\nz -> t all_complete";
    let mut run = started(text);
    run.completes("x").then("node.completed x");
    run.fails("z", "boom")
        .then("node.failed z boom; node.started t");
}

#[test]
fn a_skip_follows_every_edge() {
    let mut run = started(
        r#"a: {"disabled":true}
           z
           a -> b -> c
           b -> d all_complete
           c -> e none_failed
           c -> f any_success"#,
    );
    run.completes("d").then("node.completed d");
    run.completes("e").then("node.completed e");
    run.completes("z").then("node.completed z; run.completed");
    assert_eq!(
        lines(&run.events)[1..9],
        [
            "node.skipped a disabled",
            "node.started z",
            "node.skipped b",
            "node.skipped c",
            "node.started d",
            "node.started e",
            "node.skipped f",
            "node.completed d",
        ]
    );
}

#[test]
fn a_join_waits_for_all_branches() {
    let mut run = started("a -> b -> d\na -> c -> d");
    run.completes("a")
        .then("node.completed a; node.started b; node.started c");
    run.completes("c").then("node.completed c");
    run.completes("b").then("node.completed b; node.started d");
    run.completes("d").then("node.completed d; run.completed");
}

#[test]
fn two_edges_between_the_same_nodes_start_the_target_once() {
    let mut run = started("a -> b\na -> b");
    run.completes("a").then("node.completed a; node.started b");
}

fn branched() -> World {
    started("a -> yes if output.n > 1\na -> no if output.n <= 1\na -> both")
}

#[test]
fn a_condition_decides_which_edges_are_followed() {
    let mut run = branched();
    run.gives("a", json!({ "n": 2 }))
        .then("node.completed a; node.started yes; node.skipped no; node.started both");
    let mut run = branched();
    run.gives("a", json!({ "n": 1 }))
        .then("node.completed a; node.skipped yes; node.started no; node.started both");
}

#[test]
fn a_condition_without_a_value_fails_the_run() {
    let mut run = branched();
    run.completes("a")
        .then("node.completed a; run.failed condition_failed");

    let mut run = started("a -> b if output.n > 1\nc");
    run.completes("a")
        .then("node.completed a; run.stopping condition_failed");
    run.stopped("c")
        .then("node.cancelled c; run.failed condition_failed");
}

#[test]
fn a_condition_that_is_not_a_boolean_fails_the_run() {
    let mut run = started("a -> b if output.n");
    run.gives("a", json!({ "n": 1 }))
        .then("node.completed a; run.failed condition_failed");
}

/// The condition of an edge that a failure cannot take reads data of a success; it used to fail the
/// run instead of letting the failure be handled.
#[test]
fn a_failure_evaluates_only_conditions_of_edges_it_can_take() {
    let text = "a -> b if output.n > 1\n\
                a -> h any_failed if nodes.a.error.code == 'boom'\n\
                a -> i any_failed if nodes.a.error.code == 'bang'";
    let mut run = started(text);
    run.fails("a", "boom")
        .then("node.failed a boom; node.skipped b; node.started h; node.skipped i");
    let mut run = started(text);
    run.gives("a", json!({ "n": 2 }))
        .then("node.completed a; node.started b; node.skipped h; node.skipped i; ");
    run.completes("b").then("node.completed b; run.completed");
}

#[test]
fn a_condition_sees_how_its_node_ended() {
    let mut run = started("a -> b if nodes.a.status == 'completed' && nodes.a.outputs.n == 1");
    run.gives("a", json!({ "n": 1 }))
        .then("node.completed a; node.started b");
    let mut run = started("a -> b all_complete if nodes.a.status == 'failed'");
    run.fails("a", "boom")
        .then("node.failed a boom; node.started b");
}

#[test]
fn a_failure_is_handled_only_if_the_condition_lets_it() {
    let mut run = started("a -> h any_failed if nodes.a.error.code == 'bang'");
    run.fails("a", "boom")
        .then("node.failed a boom; run.failed boom");
}

#[test]
fn a_condition_sees_variables_and_the_run() {
    let mut run = started(
        "workflow: {\"variables\":[{\"name\":\"n\",\"type\":\"number\",\"defaultValue\":3}]}\n\
         a -> b if variables.n == 3 && run.id == 'run-1' && run.workflowId == 'w'",
    );
    run.completes("a").then("node.completed a; node.started b");
}

#[test]
fn disabled_nodes_are_skipped_when_they_are_reached() {
    let mut run = started("b: {\"disabled\":true}\na -> b -> c none_failed");
    run.completes("a")
        .then("node.completed a; node.skipped b disabled; node.started c");
    run.completes("c").then("node.completed c; run.completed");
}

#[test]
fn a_conditional_leaves_by_one_port() {
    let text = "a -> gate\n\
                gate: core.conditional {\"config\":{\"expression\":\"nodes.a.outputs.ok\"}}\n\
                gate.true -> yes\ngate.false -> no\ngate -> both";
    let mut run = started(text);
    run.gives("a", json!({ "ok": true })).then(
        "node.completed a; node.started gate; node.completed gate -> true; \
         node.started yes; node.skipped no; node.started both",
    );
    let mut run = started(text);
    run.gives("a", json!({ "ok": false })).then(
        "node.completed a; node.started gate; node.completed gate -> false; \
         node.skipped yes; node.started no; node.started both",
    );
    let mut run = started(text);
    run.completes("a").then(
        "node.completed a; node.started gate; node.failed gate invalid_config; \
         run.failed invalid_config",
    );
}

//! Budgets: reserved, used, given to children and returned.

use std::collections::BTreeMap;

use kernel::definition::{Plan, UnknownTypes};
use kernel::run::budget::Exhausted;
use kernel::run::event::DrainPolicy;
use kernel::run::report::Used;
use kernel::run::{Command, Completion, Create, NodeError, Outcome, Report, Start, Usage};
use kernel::stream::Policy;
use serde_json::{Map, json};

use crate::flow;
use crate::world::{Then, World, started_under};

pub(crate) fn tokens(n: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("tokens".to_owned(), n)])
}

pub(crate) fn limited(text: &str) -> World {
    let policy = Policy {
        budget: tokens(100),
        ..Policy::default()
    };
    started_under(policy, text)
}

impl World {
    pub(crate) fn reserves(&mut self, node: &str, n: u64) -> Then {
        let attempt = self.attempt(node);
        self.when(Command::Reserve {
            attempt,
            amounts: tokens(n),
            least: None,
        })
    }

    pub(crate) fn estimates(&mut self, node: &str, likely: u64, least: u64) -> Then {
        let attempt = self.attempt(node);
        self.when(Command::Reserve {
            attempt,
            amounts: tokens(likely),
            least: Some(tokens(least)),
        })
    }

    pub(crate) fn uses(&mut self, node: &str, n: u64) -> Then {
        let attempt = self.attempt(node);
        let usage = Usage {
            provider: "p".to_owned(),
            model: "m".to_owned(),
            input_tokens: n,
            output_tokens: 0,
            cost_estimate_usd: None,
            duration_ms: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
        };
        let used = Used {
            node_id: attempt.node,
            visit: attempt.visit,
            attempt: attempt.attempt,
            usage,
            spent: Some(tokens(n)),
        };
        self.when(Command::Report {
            report: Box::new(Report::Used(used)),
        })
    }

    pub(crate) fn committed(&self) -> (u64, u64) {
        let budget = &self.run.facts().expect("facts").budget;
        let spent = budget.spent.get("tokens").copied().unwrap_or(0);
        (spent, budget.committed("tokens"))
    }
}

fn spends(n: u64) -> Completion {
    Completion {
        spent: tokens(n),
        ..Completion::default()
    }
}

#[test]
fn a_reservation_counts_until_the_outcome_reports_usage() {
    let mut run = limited("a\nb");
    run.reserves("a", 60).then("budget.reserved a tokens:60");
    run.reserves("b", 41).refused("budget_exhausted");
    run.reserves("b", 40).then("budget.reserved b tokens:40");
    assert_eq!(run.committed(), (0, 100));
    run.completes_with("a", spends(10))
        .then("budget.settled a tokens:10; node.completed a");
    assert_eq!(run.committed(), (10, 50));
    run.finish(
        "b",
        Outcome::Failed {
            error: NodeError::new("boom", "as the test says"),
            artifacts: Vec::new(),
            usage: Vec::new(),
            spent: tokens(40),
        },
    )
    .then("budget.settled b tokens:40; node.failed b boom; run.failed boom");
    assert_eq!(run.committed(), (50, 50));
}

#[test]
fn an_outcome_may_report_usage_without_a_reservation() {
    let mut run = limited("a");
    run.completes_with("a", spends(70))
        .then("budget.settled a tokens:70; node.completed a; run.completed");
}

#[test]
fn amounts_stay_exact() {
    let mut run = limited("a\nb");
    let attempt = run.attempt("a");
    run.when(Command::Reserve {
        attempt: attempt.clone(),
        amounts: BTreeMap::from([("calls".to_owned(), u64::MAX)]),
        least: None,
    })
    .refused("too_large");
    run.when(Command::Reserve {
        attempt,
        amounts: BTreeMap::from([("calls".to_owned(), kernel::limits::MAX_COUNT)]),
        least: None,
    })
    .decided();
    let spent = BTreeMap::from([("calls".to_owned(), u64::MAX)]);
    let completion = || Completion {
        spent: spent.clone(),
        ..Completion::default()
    };
    run.completes_with("a", completion()).decided();
    run.completes_with("b", completion()).decided();
    let budget = &run.run.facts().expect("facts").budget;
    assert_eq!(budget.spent["calls"], kernel::limits::MAX_COUNT);
}

#[test]
fn reservations_an_attempt_never_reports_count_as_spent() {
    let text =
        "a: {\"settings\":{\"timeout\":50,\"retry\":{\"maxRetries\":1,\"initialDelayMs\":10}}}";
    let mut run = limited(text);
    run.reserves("a", 60).decided();
    run.next_timer()
        .then("budget.settled a tokens:60; node.retried a/1 +10ms node_timeout");
    assert_eq!(run.committed(), (60, 60));

    let mut run = limited(text);
    run.reserves("a", 60).decided();
    run.pause(DrainPolicy::Immediate)
        .then("budget.settled a tokens:60; run.paused immediate");

    let mut run = limited(text);
    run.reserves("a", 60).decided();
    let lost = run.attempt("a");
    run.take_over(&[lost]).then(
        "run.resuming running; budget.settled a tokens:60; node.failed a outcome_unknown; \
         run.failed outcome_unknown",
    );

    let mut run = limited(text);
    run.reserves("a", 60).decided();
    run.cancel().decided();
    run.stopped("a")
        .then("budget.settled a tokens:60; node.cancelled a; run.cancelled");
}

#[test]
fn reservations_of_a_lost_holder_count_as_spent() {
    let mut run = limited("a");
    run.reserves("a", 60).decided();
    run.take_over(&[])
        .then("run.resuming running; budget.settled a tokens:60; attempt.restarted a #1");
    run.reserves("a", 41).refused("budget_exhausted");
    run.completes_with("a", spends(20))
        .then("budget.settled a tokens:20; node.completed a; run.completed");
    assert_eq!(run.committed(), (80, 80));
}

#[test]
fn an_estimate_waits_for_others_and_takes_the_rest() {
    let mut run = limited("a\nb");
    run.estimates("a", 70, 1)
        .then("budget.reserved a tokens:70");
    run.estimates("b", 70, 1).refused("budget_held");
    run.estimates("b", 70, 101).refused("budget_exhausted");
    run.uses("a", 95)
        .then("provider.usage a; budget.settled a tokens:95");
    run.estimates("b", 70, 1).then("budget.reserved b tokens:5");
    run.uses("b", 40)
        .then("provider.usage b; budget.settled b tokens:40");
    assert_eq!(run.committed(), (135, 135));
    run.estimates("a", 1, 1).refused("budget_exhausted");
}

#[test]
fn a_node_that_fails_for_the_budget_names_the_cap() {
    let mut run = limited("a");
    let exhausted = Exhausted {
        dimension: "tokens".to_owned(),
        observed: 101,
        limit: 100,
    };
    run.finish("a", Outcome::failed(exhausted.error())).then(
        "budget.exhausted tokens 0/100; cap.breached 100 < 101; node.failed a budget_exhausted; \
         run.failed budget_exhausted",
    );
}

#[test]
fn a_limit_that_a_node_makes_up_breaches_no_cap() {
    let mut run = limited("a");
    let made_up = Exhausted {
        dimension: "tokens".to_owned(),
        observed: 8,
        limit: 7,
    };
    run.finish("a", Outcome::failed(made_up.error()))
        .then("node.failed a budget_exhausted; run.failed budget_exhausted");
}

#[test]
fn of_the_runs_limit_and_the_definitions_the_lower_counts() {
    let with = |limit: u64| {
        format!("a\nworkflow: {{\"settings\":{{\"budget\":{{\"maxTokens\":{limit}}}}}}}")
    };
    let mut run = limited(&with(40));
    run.reserves("a", 41).refused("budget_exhausted");
    let mut run = limited(&with(400));
    run.reserves("a", 101).refused("budget_exhausted");
    let mut run = started_under(Policy::default(), &with(40));
    run.reserves("a", 41).refused("budget_exhausted");
    run.reserves("a", 40).decided();
}

#[test]
fn retries_are_counted_and_bounded() {
    let text = "a: {\"settings\":{\"retry\":{\"maxRetries\":5,\"initialDelayMs\":10}}}";
    let policy = Policy {
        budget: BTreeMap::from([("retries".to_owned(), 1)]),
        ..Policy::default()
    };
    let mut run = started_under(policy, text);
    let boom = || Outcome::failed(NodeError::new("boom", "as the test says"));
    run.finish("a", boom()).then("node.retried a/1 +10ms boom");
    run.next_timer().decided();
    run.finish("a", boom()).then(
        "budget.exhausted retries 1/1; cap.breached 1 < 2; node.failed a budget_exhausted; \
         run.dead_lettered a x2; run.failed budget_exhausted",
    );
}

/// A run of a budget whose creator wants to know of 80 percent.
fn told(text: &str, limits: BTreeMap<String, u64>) -> (World, Then) {
    let policy = Policy {
        budget: limits,
        ..Policy::default()
    };
    let mut create = Create::new(Map::new(), "test", Start::Now);
    create.configurable = serde_json::from_value(json!({
        "budget": { "thresholdPercent": 80 },
    }))
    .expect("an object");
    let mut run = World::new(flow::plan(text), policy);
    let then = run.when(Command::Create(create));
    (run, then)
}

#[test]
fn a_budget_is_named_and_its_threshold_is_crossed_once() {
    let (mut run, then) = told("a\nb\nc", tokens(100));
    then.then(
        "run.started; budget.reserved run tokens:100; node.started a; node.started b; \
         node.started c",
    );
    run.uses("a", 79)
        .then("provider.usage a; budget.settled a tokens:79");
    run.completes_with("a", spends(1)).then(
        "budget.settled a tokens:1; budget.threshold.crossed tokens 80/100 80%; node.completed a",
    );
    run.completes_with("b", spends(5))
        .then("budget.settled b tokens:5; node.completed b");
    run.completes("c").then("node.completed c; run.completed");
}

#[test]
fn a_retry_may_cross_the_threshold() {
    let text = "a: {\"settings\":{\"retry\":{\"maxRetries\":5,\"initialDelayMs\":10}}}";
    let limits = BTreeMap::from([("retries".to_owned(), 1)]);
    let (mut run, then) = told(text, limits);
    then.decided();
    let boom = Outcome::failed(NodeError::new("boom", "as the test says"));
    run.finish("a", boom)
        .then("budget.threshold.crossed retries 1/1 80%; node.retried a/1 +10ms boom");
}

#[test]
fn a_log_without_named_limits_tells_nothing_of_them() {
    let mut create = Create::new(Map::new(), "test", Start::Now);
    create.announces_budget = false;
    let policy = Policy {
        budget: tokens(100),
        ..Policy::default()
    };
    let mut run = World::new(flow::plan("a"), policy);
    run.when(Command::Create(create))
        .then("run.started; node.started a");
    let exhausted = Exhausted {
        dimension: "tokens".to_owned(),
        observed: 101,
        limit: 100,
    };
    run.finish("a", Outcome::failed(exhausted.error())).then(
        "cap.breached 100 < 101; node.failed a budget_exhausted; run.failed budget_exhausted",
    );
}

#[test]
fn a_budget_with_unknown_fields_is_refused_wherever_it_is() {
    let texts = [
        "a\nworkflow: {\"settings\":{\"budget\":{\"usd\":1}}}",
        "a: core.subWorkflow {\"config\":{\"workflowId\":\"c\",\"budget\":{\"tokens\":10}}}",
    ];
    for text in texts {
        let document = flow::document(text);
        let problems = Plan::from_json(&document, &flow::Types, UnknownTypes::Refuse);
        let problems = problems.expect_err("the budget is refused").listed;
        assert_eq!(problems.len(), 1, "{problems:?}");
        let message = &problems[0].message;
        assert!(message.contains("write maxCostUsd"), "{message}");
    }
}

/// Two nodes reserve at the same time, one after a restart, until nothing is left.
pub(crate) fn scene(run: &mut World) {
    let mut create = Create::new(Map::new(), "test", Start::Now);
    create.announces_budget = false;
    run.when(Command::Create(create)).decided();
    run.estimates("a", 70, 1).decided();
    run.uses("a", 50).decided();
    run.estimates("b", 70, 1).decided();
    run.take_over(&[]).decided();
    run.completes("a").decided();
    let exhausted = Exhausted {
        dimension: "tokens".to_owned(),
        observed: 101,
        limit: 100,
    };
    run.finish("b", Outcome::failed(exhausted.error()))
        .decided();
}

/// The events of a budget: its limits, a threshold, and the end of what is left.
pub(crate) fn told_scene(run: &mut World) {
    let mut create = Create::new(Map::new(), "test", Start::Now);
    create.configurable = serde_json::from_value(json!({
        "budget": { "thresholdPercent": 82.5 },
    }))
    .expect("an object");
    run.when(Command::Create(create)).decided();
    run.uses("a", 85).decided();
    run.completes_with("a", spends(5)).decided();
    let exhausted = Exhausted {
        dimension: "tokens".to_owned(),
        observed: 101,
        limit: 100,
    };
    run.finish("b", Outcome::failed(exhausted.error()))
        .decided();
}

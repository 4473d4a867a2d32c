//! Budgets: set aside, used, given to children and handed back.

use std::collections::BTreeMap;

use kernel::run::event::{ChildStatus, DrainPolicy};
use kernel::run::{Command, Completion, Found, NodeError, Outcome};
use kernel::stream::{DefinitionRef, Policy};
use serde_json::Map;

use crate::flow;
use crate::world::{Then, World, started_under};

fn tokens(n: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("tokens".to_owned(), n)])
}

fn limited(text: &str) -> World {
    let policy = Policy {
        budget: tokens(100),
        ..Policy::default()
    };
    started_under(policy, text)
}

impl World {
    fn reserves(&mut self, node: &str, n: u64) -> Then {
        let attempt = self.attempt(node);
        self.when(Command::Reserve {
            attempt,
            amounts: tokens(n),
        })
    }

    fn committed(&self) -> (u64, u64) {
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
fn what_is_set_aside_counts_until_the_outcome_says_what_was_used() {
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
fn an_outcome_may_say_what_it_used_without_asking_first() {
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
    })
    .refused("too_large");
    run.when(Command::Reserve {
        attempt,
        amounts: BTreeMap::from([("calls".to_owned(), kernel::limits::MAX_COUNT)]),
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

/// An attempt that ends without a report used to keep its part for ever.
#[test]
fn what_an_attempt_never_reports_on_counts_as_spent() {
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
fn a_restarted_attempt_keeps_its_part() {
    let mut run = limited("a");
    run.reserves("a", 60).decided();
    run.take_over(&[])
        .then("run.resuming running; attempt.restarted a #1");
    run.completes_with("a", spends(20))
        .then("budget.settled a tokens:20; node.completed a; run.completed");
    assert_eq!(run.committed(), (20, 20));
}

#[test]
fn a_child_takes_a_part_and_hands_back_what_it_did_not_use() {
    let text = "s: core.subWorkflow {\"config\":{\"workflowId\":\"c\",\"budget\":{\"tokens\":80}}}\n\
                s -> t\nt: core.subWorkflow {\"config\":{\"workflowId\":\"c\",\"budget\":{\"tokens\":80}}}";
    let plan = flow::plan("x");
    let found = || {
        Found::Definition(DefinitionRef {
            workflow: plan.workflow.clone(),
            version: plan.version.clone(),
            digest: plan.digest,
            put_by: Default::default(),
        })
    };
    for (spent, goes_on) in [(20, true), (21, false)] {
        let mut run = limited(text);
        let attempt = run.attempt("s");
        run.when(Command::Dispatch {
            attempt,
            found: found(),
        })
        .then("node.dispatched s");
        assert_eq!(run.committed(), (0, 80));
        let (child, message) = run.sent().pop().expect("a message");
        let header = message.header.expect("a header");
        assert_eq!(header.policy.budget, tokens(80));
        run.when(Command::ChildSettled {
            child,
            status: ChildStatus::Completed,
            variables: Map::new(),
            outputs: Map::new(),
            error: None,
            spent: tokens(spent),
        })
        .then("child.settled completed; node.completed s; node.started t");
        assert_eq!(run.committed(), (spent, spent));
        let attempt = run.attempt("t");
        let then = run.when(Command::Dispatch {
            attempt,
            found: found(),
        });
        match goes_on {
            true => then.then("node.dispatched t"),
            false => then.then("node.failed t budget_exhausted; run.failed budget_exhausted"),
        };
    }
}

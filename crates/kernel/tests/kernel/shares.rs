//! Budgets of child runs: their part, what they return, and what runs next to them.

use std::collections::BTreeMap;

use kernel::ids::StreamId;
use kernel::run::event::ChildStatus;
use kernel::run::{Command, Create, Found, RunIndex, Start};
use kernel::stream::{DefinitionRef, Policy};
use serde_json::{Map, json};

use crate::budget::{limited, tokens};
use crate::flow;
use crate::world::{Then, World, started_under};

fn found() -> Found {
    let plan = flow::plan("x");
    Found::Definition(DefinitionRef {
        workflow: plan.workflow.clone(),
        version: plan.version.clone(),
        digest: plan.digest,
        put_by: Default::default(),
    })
}

impl World {
    fn dispatches(&mut self, node: &str) -> Then {
        let attempt = self.attempt(node);
        self.when(Command::Dispatch {
            attempt,
            found: found(),
        })
    }

    /// Starts the child of a node. Returns its id and its part of the budget.
    fn child(&mut self, node: &str) -> (StreamId, BTreeMap<String, u64>) {
        self.dispatches(node).decided();
        let (child, message) = self.sent().pop().expect("a message");
        let header = message.header.expect("a header");
        (child, header.policy.budget)
    }

    fn child_spends(&mut self, child: &StreamId, n: u64) -> Then {
        self.when(Command::ChildSettled {
            child: child.clone(),
            status: ChildStatus::Completed,
            variables: Map::new(),
            outputs: Map::new(),
            error: None,
            spent: tokens(n),
        })
    }

    fn child_waits(&mut self, child: &StreamId, status: Option<&str>, seq: u64) {
        let command = Command::ChildReported {
            child: child.clone(),
            status: status.map(str::to_owned),
            seq,
        };
        self.when(command).decided();
    }

    fn waits_for_budget(&self, node: &str) -> bool {
        let ix = self.run.plan.node_ix(node).expect("a node");
        self.run.waits_for_budget(ix)
    }
}

const CHILD: &str = "core.subWorkflow {\"config\":{\"workflowId\":\"c\"}}";

fn child_with(budget: u64) -> String {
    let config = json!({ "workflowId": "c", "budget": { "maxTokens": budget } });
    format!("core.subWorkflow {}", json!({ "config": config }))
}

/// Two child runs next to a node that calls a model.
pub(crate) fn shared() -> String {
    format!("s: {CHILD}\nt: {}\nm: core.ai.callPrompt", child_with(90))
}

/// The first child gets its share, the second one the rest, and a call what is returned.
pub(crate) fn scene(run: &mut World) {
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    let (first, share) = run.child("s");
    assert_eq!(share, tokens(33));
    run.child_waits(&first, Some("waiting-approval"), 9);
    let (second, rest) = run.child("t");
    assert_eq!(rest, tokens(67));
    run.child_spends(&first, 30).decided();
    run.estimates("m", 70, 1).decided();
    run.completes("m").decided();
    run.child_spends(&second, 60).decided();
}

#[test]
fn a_child_may_ask_the_models_its_parent_may() {
    let mut create = Create::new(Map::new(), "test", Start::Now);
    create.configurable = serde_json::from_value(json!({
        "budget": { "maxTokens": 5, "modelDeny": ["big-*"] },
    }))
    .expect("an object");
    let mut run = World::new(flow::plan(&format!("s: {CHILD}")), Policy::default());
    run.when(Command::Create(create)).decided();
    run.dispatches("s").then("node.dispatched s");
    let (_, message) = run.sent().pop().expect("a message");
    let Command::Create(create) = message.envelope.command else {
        panic!("the child is created");
    };
    let expected = json!({ "budget": { "modelDeny": ["big-*"] } });
    assert_eq!(serde_json::Value::Object(create.configurable), expected);
}

#[test]
fn a_child_gets_its_part_and_returns_what_it_did_not_use() {
    let text = format!("s: {}\ns -> t\nt: {}", child_with(80), child_with(80));
    for (spent, goes_on) in [(20, true), (21, false)] {
        let mut run = limited(&text);
        let (child, budget) = run.child("s");
        assert_eq!(budget, tokens(80));
        assert_eq!(run.committed(), (0, 80));
        run.child_spends(&child, spent)
            .then("child.settled completed; node.completed s; node.started t");
        assert_eq!(run.committed(), (spent, spent));
        let then = run.dispatches("t");
        if goes_on {
            then.then("node.dispatched t")
        } else {
            then.then(
                "budget.exhausted tokens 21/100; cap.breached 100 < 101; \
                 node.failed t budget_exhausted; run.failed budget_exhausted",
            )
        };
    }
}

#[test]
fn children_that_start_together_get_equal_shares() {
    let mut run = limited(&format!("s: {CHILD}\nt: {CHILD}"));
    let (first, share) = run.child("s");
    assert_eq!(share, tokens(50));
    let (second, share) = run.child("t");
    assert_eq!(share, tokens(50));
    run.child_spends(&first, 30).decided();
    run.child_spends(&second, 50).decided();
    assert_eq!(run.committed(), (80, 80));
}

#[test]
fn a_share_is_left_for_what_may_spend_next_to_a_child() {
    for (text, share) in [
        ("s: CHILD", 100),
        ("s: CHILD\na", 100),
        ("s: CHILD\nm: core.ai.callPrompt", 50),
        ("s: CHILD\na -> m\nm: core.ai.callPrompt", 50),
        ("s: CHILD\na -> t\nt: CHILD", 50),
        (
            "s: CHILD\na -> b\nb -> t\nt: CHILD\nm: core.ai.callPrompt",
            33,
        ),
        // The model is called after the child has ended.
        ("s: CHILD\ns -> m\nm: core.ai.callPrompt", 100),
        ("s: CHILD\na -> m\ns -> m\nm: core.ai.callPrompt", 100),
        ("s: UNAWAITED\ns -> m\nm: core.ai.callPrompt", 50),
    ] {
        let unawaited = CHILD.replace("\"c\"", "\"c\",\"waitForCompletion\":false");
        let text = text
            .replace("CHILD", CHILD)
            .replace("UNAWAITED", &unawaited);
        let mut run = limited(&text);
        assert_eq!(run.child("s").1, tokens(share), "{text}");
    }
}

#[test]
fn a_share_is_at_least_one_and_the_next_child_waits() {
    let policy = Policy {
        budget: tokens(1),
        ..Policy::default()
    };
    let mut run = started_under(policy, &format!("s: {CHILD}\nt: {CHILD}"));
    let (first, share) = run.child("s");
    assert_eq!(share, tokens(1));
    assert!(run.waits_for_budget("t"));
    assert!(
        !RunIndex::from_run(&run.run).runnable,
        "the run needs no driver meanwhile"
    );
    run.child_spends(&first, 0).decided();
    assert!(!run.waits_for_budget("t"));
    assert!(RunIndex::from_run(&run.run).runnable);
    assert_eq!(run.child("t").1, tokens(1));
}

#[test]
fn a_child_waits_for_its_part_while_others_work() {
    let mut run = limited(&format!("s: {}\nt: {}", child_with(80), child_with(80)));
    let (first, _) = run.child("s");
    assert!(run.waits_for_budget("t"));
    // This run might have to provide what the child waits for.
    run.child_waits(&first, Some("waiting-external"), 9);
    assert!(!run.waits_for_budget("t"));
    run.child_waits(&first, None, 12);
    assert!(run.waits_for_budget("t"));
    run.child_spends(&first, 5).decided();
    assert!(!run.waits_for_budget("t"));
    assert_eq!(run.child("t").1, tokens(80));
}

#[test]
fn a_child_starts_with_the_rest_while_others_wait_outside() {
    let mut run = limited(&format!("s: {}\nt: {}", child_with(80), child_with(80)));
    let (first, _) = run.child("s");
    run.child_waits(&first, Some("waiting-approval"), 9);
    assert_eq!(run.child("t").1, tokens(20));
}

/// A call keeps its run and its attempt in the engine, which the child may need to end.
#[test]
fn a_call_never_waits_for_a_child() {
    let mut run = limited(&format!("s: {}\nm: core.ai.callPrompt", child_with(80)));
    run.child("s");
    run.estimates("m", 70, 1)
        .then("budget.reserved m tokens:20");
    let mut run = limited(&format!("s: {}\nm: core.ai.callPrompt", child_with(100)));
    run.child("s");
    run.estimates("m", 70, 1).refused("budget_exhausted");
}

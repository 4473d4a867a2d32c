//! Creating, starting, completing.

use kernel::run::{Command, Create, Start};
use serde_json::{Map, json};

use crate::world::{object, started, unborn};

#[test]
fn a_chain_runs_to_its_end() {
    let mut run = unborn("a -> b -> c");
    run.create(Map::new()).then("run.started; node.started a");
    run.completes("a").then("node.completed a; node.started b");
    run.completes("b").then("node.completed b; node.started c");
    run.completes("c").then("node.completed c; run.completed");
    run.cancel().refused("run_terminal");
    run.advance().refused("run_terminal");
}

#[test]
fn a_run_may_wait_until_it_is_claimed() {
    let mut run = unborn("a");
    run.advance().refused("run_not_found");
    run.when(Command::Create(Create::new(
        Map::new(),
        "test",
        Start::WhenClaimed,
    )))
    .then("run.started");
    assert_eq!(run.run.status().as_str(), "pending");
    run.advance().then("node.started a");
    assert_eq!(run.run.status().as_str(), "running");
    run.advance().refused("nothing_to_do");
    run.completes("a").then("node.completed a; run.completed");
}

#[test]
fn entries_start_in_document_order_and_last_nodes_give_outputs() {
    let mut run = started("a -> c\nb -> d");
    run.completes("b").then("node.completed b; node.started d");
    run.completes("a").then("node.completed a; node.started c");
    run.gives("c", json!({ "n": 1 })).then("node.completed c");
    run.gives("d", json!({ "n": 2.0 }))
        .then("node.completed d; run.completed");
    let outputs = match run.run.end() {
        Some(kernel::run::End::Completed { outputs }) => outputs.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        outputs,
        object(json!({ "c": { "n": 1 }, "d": { "n": 2 } })),
        "a whole number reads the same before and after the log"
    );
}

//! Concurrent workers of one decision.

use std::collections::BTreeSet;

use kernel::ids::StreamId;
use kernel::run::event::{ChainPhase, ChildStatus, RunEvent};
use kernel::run::{Command, Create, Found, NodeError, Start};
use kernel::stream::Policy;
use serde_json::{Map, Value, json};

use crate::flow;
use crate::scenarios::child_definition;
use crate::world::{World, object};

/// A dispatch node with this config and a decision for these workers.
fn fanned(workers: &[&str], config: Value) -> World {
    let plan = json!([{ "kind": "next-worker", "nextWorkerIds": workers }]);
    let mut config = config;
    if config.get("fanOutPolicy").is_none() {
        config["fanOutPolicy"] = json!("parallel");
    }
    let text = format!(
        "boss: core.orchestrator.supervisor {{\"config\":{{\"decisions\":{plan}}}}}
         go: core.dispatch {{\"config\":{config}}}
         boss -> go
         go -> after
         workflow: {{\"variables\":[{{\"name\":\"got\",\"type\":\"string\",\"defaultValue\":\"start\"}}]}}"
    );
    let mut run = World::new(flow::plan(&text), Policy::default());
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    run
}

/// Creates the run of the worker that is being looked up.
fn dispatches(run: &mut World) -> StreamId {
    let attempt = run
        .run
        .undispatched()
        .next()
        .expect("a worker is looked up")
        .id;
    let found = Found::Definition(child_definition());
    run.when(Command::Dispatch { attempt, found }).decided();
    let sent = run.sent();
    let created = sent.last().expect("a message creates the child");
    created.0.clone()
}

fn ends(
    run: &mut World,
    child: &StreamId,
    status: ChildStatus,
    result: &str,
) -> crate::world::Then {
    let failed = status == ChildStatus::Failed;
    run.when(Command::ChildSettled {
        child: child.clone(),
        status,
        variables: object(json!({ "result": result })),
        outputs: Map::new(),
        error: failed.then(|| NodeError::new("boom", "it broke")),
        spent: Default::default(),
    })
}

fn looked_up(run: &World) -> usize {
    run.run.undispatched().count()
}

fn cancelled(run: &mut World) -> Vec<StreamId> {
    let sent = run.sent().into_iter();
    let cancels =
        sent.filter(|(_, message)| matches!(message.envelope.command, Command::Cancel { .. }));
    // A failing run cancels the already cancelled children again; the second cancellation is
    // rejected.
    let told: BTreeSet<StreamId> = cancels.map(|(target, _)| target).collect();
    told.into_iter().collect()
}

fn joined(run: &World) -> (Value, Vec<StreamId>) {
    let of = run.events.iter().rev().find_map(|event| match &event.body {
        RunEvent::Joined {
            join_outcome,
            merge_order,
            ..
        } => Some((json!(join_outcome), merge_order.clone())),
        _ => None,
    });
    of.expect("the workers were joined")
}

#[test]
fn workers_run_in_parallel_and_are_kept_in_order_of_their_end() {
    let config = json!({ "outputMapping": { "got": "result" }, "inputMapping": { "p": "got" } });
    let mut run = fanned(&["one", "two", "three"], config);
    assert_eq!(run.run.status().as_str(), "running");
    let (one, two, three) = (
        dispatches(&mut run),
        dispatches(&mut run),
        dispatches(&mut run),
    );
    assert_eq!(looked_up(&run), 0, "all of them run");
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.children.len(), 3);
    ends(&mut run, &three, ChildStatus::Completed, "3")
        .then("child.settled completed; core.workflowChain.event go child.completed three");
    ends(&mut run, &one, ChildStatus::Completed, "1")
        .then("child.settled completed; core.workflowChain.event go child.completed one");
    let facts = run.run.facts().expect("facts");
    assert_eq!(
        facts.variables["got"], "start",
        "nothing is kept before the join"
    );
    let events = ends(&mut run, &two, ChildStatus::Completed, "2").then(
        "child.settled completed; core.workflowChain.event go child.completed two;
         variable.changed got = \"3\"; core.workflowChain.event go output.harvested three;
         variable.changed got = \"1\"; core.workflowChain.event go output.harvested one;
         variable.changed got = \"2\"; core.workflowChain.event go output.harvested two;
         core.dispatch.join go satisfied 3/0/0; node.completed go; node.started after",
    );
    let (outcome, order) = joined(&run);
    assert_eq!(
        (outcome, order),
        (json!("satisfied"), vec![three, one.clone(), two])
    );
    let outputs = events.iter().find_map(|event| match &event.body {
        RunEvent::NodeCompleted { outputs, .. } => Some(outputs.clone()),
        _ => None,
    });
    let outputs = outputs.expect("the node completed");
    assert_eq!(outputs["joinOutcome"], "satisfied");
    assert_eq!(outputs["children"][0]["childRunId"], one.as_str());
    assert_eq!(outputs["children"].as_array().map(Vec::len), Some(3));
}

/// Three concurrent workers whose results go into an append channel.
pub(crate) fn gathered() -> String {
    let config = json!({ "fanOutPolicy": "parallel", "outputMapping": { "all": "result" } });
    let decision = json!([{ "kind": "next-worker", "nextWorkerIds": ["one", "two", "one"] }]);
    format!(
        "boss: core.orchestrator.supervisor {{\"config\":{{\"decisions\":{decision}}}}}
         go: core.dispatch {{\"config\":{config}}}
         boss -> go
         workflow: {{\"channels\":{{\"all\":{{\"reducer\":\"append\"}}}}}}"
    )
}

/// The last of them ends first.
pub(crate) fn gather(run: &mut World) {
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    let children = [dispatches(run), dispatches(run), dispatches(run)];
    for nth in [2, 0, 1] {
        run.when(Command::ChildSettled {
            child: children[nth].clone(),
            status: ChildStatus::Completed,
            variables: object(json!({ "result": nth })),
            outputs: object(json!({ "last": { "n": nth } })),
            error: None,
            spent: Default::default(),
        })
        .decided();
    }
}

#[test]
fn outputs_of_workers_come_in_the_order_of_the_decision() {
    let mut run = World::new(flow::plan(&gathered()), Policy::default());
    gather(&mut run);
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.channels["all"], json!([0, 1, 2]));
    assert_eq!(facts.variables.get("all"), None, "a channel is no variable");
    let outputs = run.events.iter().rev().find_map(|event| match &event.body {
        RunEvent::NodeCompleted { outputs, .. } => Some(outputs.clone()),
        _ => None,
    });
    let outputs = outputs.expect("the node completed");
    for nth in 0..3 {
        assert_eq!(outputs["children"][nth]["outputs"]["last"]["n"], nth);
    }
}

#[test]
fn starts_are_logged_first_and_children_looked_up_in_turn() {
    let mut run = World::new(
        flow::plan(
            r#"boss: core.orchestrator.supervisor {"config":{"decisions":[{"kind":"next-worker","nextWorkerIds":["one","two"]}]}}
            go: core.dispatch {"config":{"fanOutPolicy":"parallel","maxConcurrency":500}}
            boss -> go"#,
        ),
        Policy::default(),
    );
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).then(
        "run.started; node.started boss; runOrchestrator.decided boss next-worker;
         node.completed boss -> dispatch; node.started go; core.dispatch.fanOut go 2 by 128 wait-all;
         core.workflowChain.event go dispatch.began one",
    );
    let attempt = run.run.undispatched().next().expect("a child").id;
    let found = Found::Definition(child_definition());
    run.when(Command::Dispatch { attempt, found }).then(
        "node.dispatched go; core.workflowChain.event go dispatch.succeeded one;
         agent.handoff host:boss -> host:one; core.workflowChain.event go dispatch.began two",
    );
}

#[test]
fn parallel_workers_stay_within_the_limit() {
    let mut run = fanned(&["a", "b", "c", "d"], json!({ "maxConcurrency": 2 }));
    let (a, b) = (dispatches(&mut run), dispatches(&mut run));
    assert_eq!(looked_up(&run), 0, "two of four");
    ends(&mut run, &b, ChildStatus::Failed, "").decided();
    assert_eq!(
        looked_up(&run),
        1,
        "the next in the place of the one that ended"
    );
    let c = dispatches(&mut run);
    assert_eq!(looked_up(&run), 0);
    ends(&mut run, &a, ChildStatus::Completed, "").decided();
    // While one is being looked up, another may end.
    ends(&mut run, &c, ChildStatus::Completed, "").decided();
    let d = dispatches(&mut run);
    ends(&mut run, &d, ChildStatus::Completed, "").decided();
    assert_eq!(joined(&run).0, "partial");
    assert_eq!(run.status_of("go"), "completed");
}

#[test]
fn workers_not_needed_are_cancelled() {
    for (policy, end, outcome) in [
        (
            json!({ "mode": "first" }),
            ChildStatus::Completed,
            "satisfied",
        ),
        (json!({ "mode": "race" }), ChildStatus::Failed, "partial"),
        (
            json!({ "onChildFailure": "fail-fast" }),
            ChildStatus::Cancelled,
            "failed",
        ),
    ] {
        let mut run = fanned(&["one", "two"], json!({ "joinPolicy": policy }));
        let (one, two) = (dispatches(&mut run), dispatches(&mut run));
        ends(&mut run, &two, end, "").decided();
        assert_eq!(joined(&run).0, outcome, "{policy}");
        assert_eq!(cancelled(&mut run), std::slice::from_ref(&one));
        // Its later report does not change the outcome.
        let is_failed = outcome == "failed";
        assert_eq!(
            run.status_of("go"),
            if is_failed { "failed" } else { "completed" }
        );
        if !is_failed {
            ends(&mut run, &one, ChildStatus::Cancelled, "").then("child.settled cancelled");
        }
    }
}

#[test]
fn a_quorum_has_to_be_possible_and_met() {
    let with = |n: u32| json!({ "joinPolicy": { "mode": "quorum", "quorum": n } });
    let run = fanned(&["one", "two"], with(3));
    assert_eq!(run.run.status().as_str(), "failed", "three of two");
    let mut run = fanned(&["one", "two", "three"], with(2));
    let all = [
        dispatches(&mut run),
        dispatches(&mut run),
        dispatches(&mut run),
    ];
    ends(&mut run, &all[0], ChildStatus::Failed, "").decided();
    ends(&mut run, &all[1], ChildStatus::Completed, "").decided();
    assert_eq!(run.run.status().as_str(), "running");
    ends(&mut run, &all[2], ChildStatus::Failed, "").decided();
    assert_eq!(joined(&run).0, "failed");
    let error = run.run.end().expect("an end");
    assert!(
        format!("{error:?}").contains("join_unsatisfied"),
        "{error:?}"
    );
}

#[test]
fn a_missing_worker_has_failed_and_the_others_continue() {
    let mut run = fanned(&["one", "gone", "three"], json!({}));
    let one = dispatches(&mut run);
    let attempt = run.run.undispatched().next().expect("a worker").id;
    let found = Found::Not(NodeError::new("workflow_not_found", "put it first").fatal());
    run.when(Command::Dispatch { attempt, found }).then(
        "core.workflowChain.event go dispatch.failed gone; core.workflowChain.event go dispatch.began three",
    );
    let three = dispatches(&mut run);
    ends(&mut run, &one, ChildStatus::Completed, "").decided();
    ends(&mut run, &three, ChildStatus::Completed, "").decided();
    assert_eq!(joined(&run).0, "partial");
}

#[test]
fn a_node_that_waits_for_all_waits_as_soon_as_all_of_them_do() {
    let mut run = fanned(&["one", "two"], json!({}));
    let (one, two) = (dispatches(&mut run), dispatches(&mut run));
    let reports = |run: &mut World, child: &StreamId, status: Option<&str>, seq| {
        run.when(Command::ChildReported {
            child: child.clone(),
            status: status.map(str::to_owned),
            seq,
        })
        .decided();
    };
    reports(&mut run, &one, Some("waiting-approval"), 3);
    assert_eq!(run.run.status().as_str(), "running", "the other one works");
    reports(&mut run, &two, Some("waiting-input"), 3);
    assert_ne!(run.run.status().as_str(), "running");
    reports(&mut run, &one, None, 5);
    assert_eq!(run.run.status().as_str(), "running");
}

#[test]
fn a_retry_begins_all_of_them_again_as_other_runs() {
    let plan = json!([{ "kind": "next-worker", "nextWorkerIds": ["one", "two"] }]);
    let text = format!(
        "boss: core.orchestrator.supervisor {{\"config\":{{\"decisions\":{plan}}}}}
         go: core.dispatch {{\"config\":{{\"fanOutPolicy\":\"parallel\",\"joinPolicy\":{{\"onChildFailure\":\"fail-fast\"}}}},\"settings\":{{\"maxRetries\":1}}}}
         boss -> go"
    );
    let mut run = World::new(flow::plan(&text), Policy::default());
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    let first = [dispatches(&mut run), dispatches(&mut run)];
    ends(&mut run, &first[0], ChildStatus::Failed, "").decided();
    assert_eq!(run.status_of("go"), "retrying");
    run.next_timer().decided();
    let second = [dispatches(&mut run), dispatches(&mut run)];
    assert!(second.iter().all(|run| !first.contains(run)));
    // The other run of the first attempt ends late and does not belong to these.
    ends(&mut run, &first[1], ChildStatus::Cancelled, "").decided();
    ends(&mut run, &second[0], ChildStatus::Completed, "").decided();
    assert_eq!(run.run.status().as_str(), "running");
    ends(&mut run, &second[1], ChildStatus::Completed, "").decided();
    assert_eq!(run.run.status().as_str(), "completed");
}

#[test]
fn a_pause_and_a_budget_are_shared_by_all_of_them() {
    let plan = json!([{ "kind": "next-worker", "nextWorkerIds": ["one", "two"] }]);
    let text = format!(
        "boss: core.orchestrator.supervisor {{\"config\":{{\"decisions\":{plan}}}}}
         go: core.dispatch {{\"config\":{{\"fanOutPolicy\":\"parallel\"}}}}
         boss -> go"
    );
    let policy = Policy {
        budget: [("tokens".to_owned(), 100)].into(),
        ..Policy::default()
    };
    let mut run = World::new(flow::plan(&text), policy);
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    let one = dispatches(&mut run);
    run.pause(kernel::run::event::DrainPolicy::Immediate)
        .decided();
    run.resume().decided();
    let two = dispatches(&mut run);
    let reserved = &run.run.facts().expect("facts").budget.reserved;
    let of = |child: &StreamId| reserved[child.as_str()]["tokens"];
    assert_eq!((of(&one), of(&two)), (50, 50));
    ends(&mut run, &one, ChildStatus::Completed, "").decided();
    ends(&mut run, &two, ChildStatus::Completed, "").decided();
    assert_eq!(run.run.status().as_str(), "completed");
}

#[test]
fn a_cancelled_run_waits_for_all_of_them() {
    let mut run = fanned(&["one", "two"], json!({}));
    let (one, two) = (dispatches(&mut run), dispatches(&mut run));
    run.cancel().decided();
    assert_eq!(run.run.status().as_str(), "cancelling");
    let told = cancelled(&mut run);
    let mut both = vec![one.clone(), two.clone()];
    both.sort();
    assert_eq!(told, both);
    ends(&mut run, &one, ChildStatus::Cancelled, "").decided();
    assert_eq!(run.run.status().as_str(), "cancelling");
    ends(&mut run, &two, ChildStatus::Cancelled, "").decided();
    assert_eq!(run.run.status().as_str(), "cancelled");
}

#[test]
fn a_branch_begins_all_of_them_again() {
    let mut run = fanned(&["one", "two"], json!({}));
    let one = dispatches(&mut run);
    let two = dispatches(&mut run);
    ends(&mut run, &one, ChildStatus::Completed, "").decided();
    let branch = run.branch(run.events.len() as u64);
    let known = branch.run.facts().expect("facts");
    assert!(
        !known.children.contains_key(&two),
        "it belongs to the source"
    );
    assert_eq!(branch.status_of("go"), "retrying");
}

/// The last steps of abandoned workers, and their runs.
fn abandoned(run: &World) -> Vec<(u32, Option<StreamId>)> {
    let steps = run.events.iter().filter_map(|event| match &event.body {
        RunEvent::ChainStepped {
            phase: ChainPhase::ChildCancelled,
            worker,
            child_run_id,
            follows: Some(_),
            ..
        } => Some((*worker, child_run_id.clone())),
        _ => None,
    });
    steps.collect()
}

#[test]
fn each_unneeded_worker_is_logged_at_the_join() {
    let policy = json!({ "maxConcurrency": 3, "joinPolicy": { "mode": "first" } });
    let mut run = fanned(&["one", "two", "three", "four"], policy);
    let (one, two) = (dispatches(&mut run), dispatches(&mut run));
    // The third is being looked up, the fourth has not begun.
    let events = ends(&mut run, &two, ChildStatus::Completed, "").then(
        "child.settled completed; core.workflowChain.event go child.completed two;
         core.workflowChain.event go child.cancelled one;
         core.workflowChain.event go child.cancelled three;
         core.dispatch.join go satisfied 1/0/2; node.completed go; node.started after",
    );
    assert_eq!(abandoned(&run), [(0, Some(one.clone())), (2, None)]);
    let outputs = events.iter().find_map(|event| match &event.body {
        RunEvent::NodeCompleted { outputs, .. } => Some(outputs["children"].clone()),
        _ => None,
    });
    let expected = json!([
        { "workflowId": "one", "childRunId": one, "childStatus": "cancelled" },
        { "workflowId": "w", "childRunId": two, "childStatus": "completed", "outputs": {} },
        { "workflowId": "three", "childStatus": "cancelled" },
    ]);
    assert_eq!(outputs, Some(expected));
}

#[test]
fn other_ends_also_log_the_abandoned_workers() {
    let parallel = || fanned(&["one", "two"], json!({}));
    let sequential = || fanned(&["one", "two"], json!({ "fanOutPolicy": "sequential" }));
    let mut run = parallel();
    let (one, two) = (dispatches(&mut run), dispatches(&mut run));
    run.cancel().decided();
    assert_eq!(abandoned(&run), [(0, Some(one)), (1, Some(two))]);
    // One after another: at a worker, and while one is being looked up.
    let mut run = sequential();
    let one = dispatches(&mut run);
    run.cancel().decided();
    assert_eq!(abandoned(&run), [(0, Some(one))]);
    let mut run = sequential();
    run.cancel().decided();
    assert_eq!(abandoned(&run), [(0, None)]);
    // A child that continues without its parent was not cancelled.
    let mut run = fanned(&["one", "two"], json!({ "propagateCancellation": false }));
    dispatches(&mut run);
    dispatches(&mut run);
    run.cancel().decided();
    assert_eq!(
        (run.run.status().as_str(), abandoned(&run)),
        ("cancelled", vec![])
    );
}

#[test]
fn late_status_of_children_of_an_ended_run_can_be_reported() {
    let mut run = fanned(
        &["one", "two"],
        json!({ "joinPolicy": { "mode": "first" } }),
    );
    let (one, two) = (dispatches(&mut run), dispatches(&mut run));
    run.cancel().decided();
    ends(&mut run, &two, ChildStatus::Cancelled, "").decided();
    assert_eq!(run.run.untold_children(), [], "it will tell of it itself");
    let policy = json!({ "propagateCancellation": false });
    let mut run = fanned(&["one", "two"], policy);
    let other = dispatches(&mut run);
    run.cancel().decided();
    assert_eq!(run.run.untold_children(), std::slice::from_ref(&other));
    let status = |run: &World| {
        let child = &run.run.facts().expect("facts").children[&other];
        (child.status, child.waits().map(str::to_owned))
    };
    run.run.tell_of_child(&other, "waiting-input");
    assert_eq!(status(&run), (None, Some("waiting-input".to_owned())));
    run.run.tell_of_child(&other, "completed");
    assert_eq!(status(&run), (Some(ChildStatus::Completed), None));
    run.run.tell_of_child(&one, "completed");
    assert_eq!(run.run.untold_children(), []);
}

/// Three at a time of four: one fails, one does not exist, the rest completes; then the first of
/// two.
pub(crate) const SCENE: &str = r#"boss: core.orchestrator.supervisor {"config":{"decisions":[{"kind":"next-worker","nextWorkerIds":["one","two","gone","four"]}]}}
    go: core.dispatch {"config":{"fanOutPolicy":"parallel","maxConcurrency":3,"outputMapping":{"got":"result"}}}
    race: core.dispatch {"inputs":{"decision":{"type":"static","value":{"kind":"next-worker","nextWorkerIds":["hare","hedgehog"]}}},"config":{"fanOutPolicy":"parallel","joinPolicy":{"mode":"first","onChildFailure":"absorb"}}}
    boss -> go -> race
    workflow: {"variables":[{"name":"got","type":"string"}]}"#;

pub(crate) fn scene(run: &mut World) {
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    let one = dispatches(run);
    let two = dispatches(run);
    let attempt = run.run.undispatched().next().expect("a worker").id;
    let found = Found::Not(NodeError::new("workflow_not_found", "put it first").fatal());
    run.when(Command::Dispatch { attempt, found }).decided();
    let four = dispatches(run);
    ends(run, &four, ChildStatus::Completed, "4").decided();
    ends(run, &two, ChildStatus::Failed, "2").decided();
    run.at(9);
    ends(run, &one, ChildStatus::Completed, "1").decided();
    let _hare = dispatches(run);
    let hedgehog = dispatches(run);
    ends(run, &hedgehog, ChildStatus::Completed, "!").decided();
}

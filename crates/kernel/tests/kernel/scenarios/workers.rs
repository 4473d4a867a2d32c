//! Scenes of supervisors, of their runs, and of children's reports.

use kernel::ids::StreamId;
use kernel::run::event::ChildStatus;
use kernel::run::{Command, Found, NodeError};
use serde_json::{Map, json};

use super::{Scenario, begin, child_definition, limited, limited_scene, scene};
use crate::world::{World, object};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scene("workers", WORKERS, workers),
        scene("doubts", DOUBTS, doubts),
        scene("chained", CHAINED, chained),
        scene("rounds", ROUNDS, rounds),
        limited_scene("cascade", CASCADE, limited(), cascade),
    ]
}

const WORKERS: &str = r#"boss: core.orchestrator.supervisor {"agent":{"agentId":"core.boss","modelClass":"reasoning"},"config":{"mockDecisions":[{"kind":"next-worker","nextWorkerIds":["one","two","gone"]},{"kind":"ask-user","prompt":"Which?"},{"kind":"terminate","reason":"done","successCriteria":[{"key":"asked","met":true}]}]}}
    go: core.dispatch {"config":{"inputMapping":{"p":"last"},"outputMapping":{"last":"result"},"perWorkerInputMappings":{"two":{"q":"last"}}},"settings":{"onFailure":"skip"}}
    boss -> go -> boss
    workflow: {"variables":[{"name":"last","type":"string"}]}"#;

/// Creates the run of the requested child.
fn dispatches(run: &mut World) -> StreamId {
    let attempt = run.run.undispatched().next().expect("a child is wanted").id;
    let found = Found::Definition(child_definition());
    run.when(Command::Dispatch { attempt, found }).decided();
    run.sent().pop().expect("a message creates the child").0
}

fn ends(run: &mut World, child: &StreamId, status: ChildStatus) {
    let failed = status == ChildStatus::Failed;
    run.when(Command::ChildSettled {
        child: child.clone(),
        status,
        variables: object(json!({ "result": "r" })),
        outputs: Map::new(),
        error: failed.then(|| NodeError::new("boom", "it broke")),
        spent: Default::default(),
    })
    .decided();
}

/// A worker that completes, one that fails, one that does not exist, and a person.
fn workers(run: &mut World) {
    begin(run);
    let one = dispatches(run);
    for (seq, status) in [(4, Some("waiting-approval")), (9, None)] {
        run.at(seq)
            .when(Command::ChildReported {
                child: one.clone(),
                status: status.map(str::to_owned),
                seq,
            })
            .decided();
    }
    ends(run, &one, ChildStatus::Completed);
    let two = dispatches(run);
    ends(run, &two, ChildStatus::Failed);
    let three = dispatches(run);
    ends(run, &three, ChildStatus::Cancelled);
    run.at(30)
        .answer("go", "ada", json!({ "answers": { "answer": "blue" } }))
        .decided();
}

const DOUBTS: &str = r#"boss: core.orchestrator.supervisor {"config":{"mockConfidence":0.5,"mockPendingDecision":{"kind":"next-worker","nextWorkerIds":["one"],"confidence":0.25}}}
    go: core.dispatch
    boss -> go
    boss.terminate -> report
    go -> after any_failed"#;

/// A decision below the node's own threshold asks for an approval, one below the floor for a
/// clarification; then the worker does not exist.
fn doubts(run: &mut World) {
    begin(run);
    run.answer("boss", "ada", json!({ "action": "accept" }))
        .decided();
    run.at(3)
        .answer("go", "ada", json!({ "answers": { "decision": "accept" } }))
        .decided();
    let attempt = run.attempt("go");
    let found = Found::Not(NodeError::new("workflow_not_found", "put it first").fatal());
    run.when(Command::Dispatch { attempt, found }).decided();
    run.completes("after").decided();
}

const CHAINED: &str = r#"boss: core.orchestrator.supervisor {"config":{"mockDispatchPlan":[{"kind":"next-worker","nextWorkerIds":["one"],"confidence":0.25},{"kind":"terminate"}]}}
    go: core.dispatch {"config":{"outputMapping":{"got":"result"}}}
    boss -> go -> boss
    workflow: {"variables":[{"name":"got","type":"string"}]}"#;

/// A decision that a person has to confirm, and its worker; each step names the event it follows.
fn chained(run: &mut World) {
    begin(run);
    run.at(3)
        .answer("go", "ada", json!({ "answers": { "decision": "accept" } }))
        .decided();
    let one = dispatches(run);
    ends(run, &one, ChildStatus::Completed);
}

const ROUNDS: &str = r#"boss: core.orchestrator.supervisor {"config":{"decisions":[{"kind":"next-worker","nextWorkerIds":["one"]},{"kind":"next-worker","nextWorkerIds":["one"]}]}}
    go: core.dispatch
    boss -> go -> boss
    workflow: {"settings":{"maxLoopbackIterations":1}}"#;

/// Ends at the limit of rounds.
fn rounds(run: &mut World) {
    begin(run);
    let one = dispatches(run);
    ends(run, &one, ChildStatus::Completed);
}

const CASCADE: &str = r#"s: core.subWorkflow {"config":{"workflowId":"child"}}
    stays: core.subWorkflow {"config":{"workflowId":"child","budget":{"maxTokens":0},"propagateCancellation":false}}"#;

/// A cancelled run waits for the child that ends with it.
fn cascade(run: &mut World) {
    begin(run);
    let one = dispatches(run);
    let _stays = dispatches(run);
    run.cancel().decided();
    ends(run, &one, ChildStatus::Cancelled);
}

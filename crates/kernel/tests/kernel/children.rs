//! Runs that start runs.

use kernel::ids::StreamId;
use kernel::run::event::{ChildStatus, RunEvent};
use kernel::run::{Command, Driving, Envelope, Found, NodeError, RunMessage};
use kernel::stream::{DefinitionRef, Parent, Policy, StreamHeader};
use kernel::trace::{self, TraceContext};
use serde_json::{Map, Value, json};
use std::sync::Arc;

use crate::flow;
use crate::notation::lines;
use crate::world::{World, header, object, started};

const CHILD: &str = "x";

fn parent(config: &str, rest: &str) -> World {
    started(&format!(
        "s: core.subWorkflow {{\"config\":{config}}}\ns -> b\n{rest}\n\
         workflow: {{\"variables\":[{{\"name\":\"in\",\"type\":\"number\",\"defaultValue\":7}},\
         {{\"name\":\"unset\",\"type\":\"number\"}},{{\"name\":\"out\",\"type\":\"number\"}}]}}"
    ))
}

const MAPPED: &str = r#"{"workflowId":"child","inputMapping":{"p":"in","q":"unset"},
"outputMapping":{"out":"result","other":"none"}}"#;

fn mapped() -> World {
    parent(&MAPPED.replace('\n', ""), "")
}

fn found() -> Found {
    let plan = flow::plan(CHILD);
    Found::Definition(DefinitionRef {
        workflow: plan.workflow.clone(),
        version: plan.version.clone(),
        digest: plan.digest,
        put_by: Default::default(),
    })
}

fn dispatch(run: &World, found: Found) -> Command {
    Command::Dispatch {
        attempt: run.attempt("s"),
        found,
    }
}

fn settled(child: &StreamId, status: ChildStatus, variables: Value) -> Command {
    Command::ChildSettled {
        child: child.clone(),
        status,
        variables: object(variables),
        outputs: Map::new(),
        error: (status == ChildStatus::Failed).then(|| NodeError::new("boom", "it broke")),
        spent: Default::default(),
    }
}

/// Looks up the child's definition and answers the message that creates the child.
fn dispatched(run: &mut World) -> (StreamId, RunMessage) {
    run.when(dispatch(run, found())).then("node.dispatched s");
    run.sent().pop().expect("a message creates the child")
}

fn child_world(message: &RunMessage) -> World {
    let header = message.header.clone().expect("the message has the header");
    World::with_header(Arc::new(header), flow::plan(CHILD))
}

#[test]
fn a_child_is_created_runs_and_tells_its_parent() {
    let mut run = mapped();
    assert_eq!(run.run.undispatched().count(), 1);
    assert!(kernel::run::RunIndex::from_run(&run.run).runnable);
    let (target, message) = dispatched(&mut run);
    assert_eq!(run.run.undispatched().count(), 0);
    assert!(!kernel::run::RunIndex::from_run(&run.run).runnable);

    let mut child = child_world(&message);
    assert_eq!(child.run.header.stream, target);
    let parent_of = child.run.header.parent.clone().expect("a parent");
    assert_eq!((parent_of.run.as_str(), parent_of.depth), ("run-1", 1));
    child.when(message.envelope.clone()).then("run.started");
    child.when(message.envelope.clone()).refused("run_exists");
    assert_eq!(
        child.run.facts().expect("facts").inputs,
        json!({ "p": 7, "q": null }),
        "a variable that was never set is given as null"
    );
    child.advance().then("node.started x");
    let completion = kernel::run::Completion {
        variables: object(json!({ "result": 42.0 })),
        outputs: object(json!({ "o": 1 })),
        ..Default::default()
    };
    child.completes_with("x", completion).decided();
    let (back, told) = child.sent().pop().expect("the parent is told");
    assert_eq!(back.as_str(), "run-1");

    let events = run.when(told.envelope.clone()).then(
        "child.settled completed; variable.changed out = 42; node.completed s; node.started b",
    );
    let RunEvent::NodeCompleted { outputs, .. } = &events[2].body else {
        panic!("not completed");
    };
    assert_eq!(
        Value::Object(outputs.clone()),
        json!({ "childRunId": target.as_str(), "childStatus": "completed",
                "outputs": { "x": { "o": 1 } } })
    );
    run.when(told.envelope).refused("duplicate");
    run.when(settled(&target, ChildStatus::Failed, json!({})))
        .refused("duplicate");
    run.when(settled(&"run-x".into(), ChildStatus::Failed, json!({})))
        .refused("child_not_found");
}

#[test]
fn a_workflow_that_is_not_there_fails_the_node() {
    let mut run = mapped();
    let missing = NodeError::new("workflow_not_found", "no such workflow").fatal();
    run.when(dispatch(&run, Found::Not(missing)))
        .then("node.failed s workflow_not_found; run.failed workflow_not_found");
}

#[test]
fn an_incomplete_child_fails_its_node_and_maps_nothing() {
    for (status, word) in [
        (ChildStatus::Failed, "failed"),
        (ChildStatus::Cancelled, "cancelled"),
    ] {
        let mut run = mapped();
        let (child, _) = dispatched(&mut run);
        run.when(settled(&child, status, json!({ "result": 1 })))
            .then(&format!(
                "child.settled {word}; node.failed s child_failed; run.failed child_failed"
            ));
        assert_eq!(
            run.run.facts().expect("facts").variables["out"],
            Value::Null
        );
    }
}

#[test]
fn a_node_may_continue_after_its_child_failed() {
    let config = r#"{"workflowId":"child","onChildFailure":"continue"}"#;
    let mut run = parent(config, "");
    let (child, _) = dispatched(&mut run);
    run.when(settled(&child, ChildStatus::Failed, json!({})))
        .then("child.settled failed; node.completed s; node.started b");
}

#[test]
fn a_failed_child_may_be_tried_again_as_another_run() {
    let mut run = started(
        "s: core.subWorkflow {\"config\":{\"workflowId\":\"child\"},\
         \"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":0}}}",
    );
    let (first, _) = dispatched(&mut run);
    run.when(settled(&first, ChildStatus::Failed, json!({})))
        .then("child.settled failed; node.retried s/1 +0ms child_failed; node.started s/1");
    let (second, _) = dispatched(&mut run);
    assert_ne!(first, second);
}

#[test]
fn a_node_need_not_wait_for_its_child() {
    let config = r#"{"workflowId":"child","waitForCompletion":false}"#;
    let mut run = parent(config, "");
    run.when(dispatch(&run, found()))
        .then("node.dispatched s; node.completed s; node.started b");
    let (child, _) = run.sent().pop().expect("a message");
    run.when(settled(&child, ChildStatus::Failed, json!({})))
        .then("child.settled failed");
    run.completes("b").then("node.completed b; run.completed");
}

#[test]
fn a_cancel_cascades_to_children_that_still_run() {
    let mut run = mapped();
    let (child, message) = dispatched(&mut run);
    run.cancel()
        .then("node.cancelled s; run.stopping cancelled");
    let (target, told) = run.sent().pop().expect("the child is told");
    assert_eq!(target, child);
    let mut child = child_world(&message);
    child.when(message.envelope).decided();
    child.advance().decided();
    child
        .when(told.envelope.clone())
        .then("run.stopping cancelled");
    child.when(told.envelope).refused("duplicate");
    let events = child.stopped("x").then("node.cancelled x; run.cancelled");
    assert!(matches!(
        &events[1].body,
        RunEvent::RunCancelled { reason: Some(reason), parent_run_id: Some(parent), .. }
            if reason == "parent-cancelled" && parent.as_str() == "run-1"
    ));
    let (_, told) = child.sent().pop().expect("the parent is told");
    run.when(told.envelope.clone())
        .then("child.settled cancelled; run.cancelled");
    run.when(told.envelope).refused("run_terminal");
}

#[test]
fn a_failed_parent_takes_its_children_with_it() {
    let mut run = parent(r#"{"workflowId":"child"}"#, "c");
    let (child, _) = dispatched(&mut run);
    run.fails("c", "boom")
        .then("node.failed c boom; node.cancelled s; run.failed boom");
    let (target, told) = run.sent().pop().expect("the child is told");
    assert_eq!(target, child);
    assert!(matches!(
        told.envelope.command,
        Command::Cancel { reason: Some(reason), .. } if reason == "parent-failed"
    ));
}

/// A node's timeout used to leave its child running.
#[test]
fn a_child_is_cancelled_when_its_node_has_waited_too_long() {
    let mut run = started(
        "s: core.subWorkflow {\"config\":{\"workflowId\":\"child\"},\
         \"settings\":{\"timeout\":50,\"retry\":{\"maxRetries\":1,\"initialDelayMs\":0}}}",
    );
    let (child, _) = dispatched(&mut run);
    run.next_timer()
        .then("node.retried s/1 +0ms node_timeout; node.started s/1");
    let (target, told) = run.sent().pop().expect("the child is told");
    assert_eq!(target, child);
    assert!(matches!(told.envelope.command, Command::Cancel { .. }));
    run.when(settled(&child, ChildStatus::Cancelled, json!({})))
        .then("child.settled cancelled");
    dispatched(&mut run);
}

#[test]
fn a_child_may_settle_while_its_parent_is_paused() {
    use kernel::run::event::DrainPolicy::Immediate;
    let mut run = mapped();
    let (child, _) = dispatched(&mut run);
    run.pause(Immediate).then("run.paused immediate");
    run.when(settled(&child, ChildStatus::Completed, json!({})))
        .then("child.settled completed; node.completed s");
    run.resume().then("run.resumed; node.started b");

    // A failure in a pause used to be forgotten: the run completed after the resume.
    let mut run = mapped();
    let (child, _) = dispatched(&mut run);
    run.pause(Immediate).then("run.paused immediate");
    run.when(settled(&child, ChildStatus::Failed, json!({})))
        .then("child.settled failed; node.failed s child_failed; run.failed child_failed");
}

#[test]
fn nothing_is_dispatched_while_paused() {
    use kernel::run::event::DrainPolicy::{DrainCurrentNode, Immediate};
    let mut run = mapped();
    run.pause(DrainCurrentNode).then("run.paused drained");
    run.when(dispatch(&run, found())).refused("stale_attempt");
    run.resume().then("run.resumed");
    let first = run.attempt("s");
    run.pause(Immediate).then("run.paused immediate");
    run.resume().then("run.resumed; node.started s/1");
    run.when(Command::Dispatch {
        attempt: first,
        found: found(),
    })
    .refused("stale_attempt");
    dispatched(&mut run);
}

#[test]
fn a_child_joins_the_trace_of_its_parent_node() {
    let mut run = mapped();
    let (child, message) = dispatched(&mut run);
    let child_header = message.header.expect("a header");
    let own = run.run.header.span_context();
    let within = child_header.trace.clone().expect("a trace");
    assert_eq!(within.trace, own.trace);
    assert_eq!(
        within.span,
        trace::node_span(&"run-1".into(), &"s".into(), 0)
    );
    let of_child = child_header.span_context();
    assert_eq!(of_child.trace, own.trace);
    assert_eq!(of_child.span, trace::run_span(&child));

    // A creator's trace context is passed on with all of its parts.
    let plan = run.run.plan.clone();
    let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let caller = TraceContext::parse(caller, Some("acme=1"));
    let traced = StreamHeader {
        trace: caller.clone(),
        ..header(&plan, Policy::default())
    };
    let mut run = World::with_header(Arc::new(traced), plan);
    run.create(Map::new()).decided();
    let (_, message) = dispatched(&mut run);
    let within = message
        .header
        .and_then(|header| header.trace)
        .expect("a trace");
    let caller = caller.expect("a trace");
    assert_eq!(within, caller.within(within.span));
    assert_ne!(within.span, caller.span);
}

#[test]
fn runs_may_not_start_runs_without_end() {
    let plan = flow::plan("s: core.subWorkflow {\"config\":{\"workflowId\":\"w\"}}");
    let deep = StreamHeader {
        parent: Some(Parent {
            run: "run-0".into(),
            node: "s".into(),
            visit: 0,
            depth: kernel::limits::MAX_RUN_DEPTH,
        }),
        ..header(&plan, Policy::default())
    };
    let mut run = World::with_header(Arc::new(deep), plan);
    run.create(Map::new()).decided();
    run.when(dispatch(&run, found()))
        .then("node.failed s run_depth_exceeded; run.failed run_depth_exceeded");
    let (target, told) = run.sent().pop().expect("the parent is told");
    assert_eq!(target.as_str(), "run-0");
    assert!(matches!(
        told.envelope.command,
        Command::ChildSettled { status: ChildStatus::Failed, error: Some(error), .. }
            if error.code == "run_depth_exceeded"
    ));
}

#[test]
fn a_message_is_accepted_once_for_any_payload() {
    let mut run = started("a");
    let cancel = Envelope {
        command: Command::Signal {
            name: "k".into(),
            id: "1".into(),
            payload: json!(1),
        },
        message: Some("m-1".into()),
        driving: Driving::Here,
    };
    run.when(cancel.clone()).then("signal.received k 1");
    run.when(cancel).refused("duplicate");
    run.when(Envelope {
        command: Command::Advance,
        message: Some("m-1".into()),
        driving: Driving::Here,
    })
    .refused("duplicate");
}

/// The ends of the source's children are not reported to a replay.
#[test]
fn a_replay_ends_though_the_children_of_its_source_run_on() {
    let mut run = mapped();
    dispatched(&mut run);
    let ended = |replayed: World, from: usize, expected: &[&str]| {
        assert_eq!(replayed.run.status().as_str(), "cancelled");
        assert_eq!(lines(&replayed.events)[from..], *expected);
    };
    let tail = [
        "run.stopping cancelled",
        "child.settled cancelled",
        "run.cancelled",
    ];
    let waits = ["node.cancelled s", tail[0], tail[1], tail[2]];
    ended(run.replay(0).world, run.events.len(), &waits);
    // A child that is being cancelled already.
    run.cancel().decided();
    ended(run.replay(0).world, run.events.len(), &tail[1..]);

    let config = r#"{"workflowId":"child","waitForCompletion":false}"#;
    let mut run = parent(config, "b -> ask\nask: core.interrupt");
    dispatched_beside(&mut run);
    run.completes("b").decided();
    let asks = ["node.cancelled ask", tail[0], tail[1], tail[2]];
    ended(run.replay(0).world, run.events.len(), &asks);

    // A child that its parent's cancellation leaves alone is not recorded as cancelled.
    let config = r#"{"workflowId":"child","propagateCancellation":false}"#;
    let mut run = parent(config, "");
    dispatched(&mut run);
    let alone = ["node.cancelled s", "run.cancelled"];
    ended(run.replay(0).world, run.events.len(), &alone);
}

fn dispatched_beside(run: &mut World) {
    run.when(dispatch(run, found()))
        .then("node.dispatched s; node.completed s; node.started b");
}

//! Supervisors, dispatch, and their runs.

use std::sync::Arc;

use kernel::ids::StreamId;
use kernel::run::event::{ChildStatus, DrainPolicy, RunEvent};
use kernel::run::{Command, Create, Envelope, Found, NodeError, RunMessage, Start};
use kernel::stream::{DefinitionRef, ForkMode, Policy};
use serde_json::{Map, Value, json};

use crate::flow;
use crate::world::{World, object, started, started_under};

const LOOP: &str = r#"boss: core.orchestrator.supervisor {"agent":{"agentId":"core.boss"},"config":{"mockDecisions":[
    {"kind":"next-worker","nextWorkerIds":["one","two"]},{"kind":"terminate","reason":"done"}]}}
    go: core.dispatch {"config":{"outputMapping":{"got":"result"},"inputMapping":{"p":"got"},
    "perWorkerOutputMappings":{"two":{"last":"result"}}}}
    boss -> go -> boss
    workflow: {"variables":[{"name":"got","type":"string","defaultValue":"start"},{"name":"last","type":"string"}]}"#;

/// Lines of one declaration may be broken in this file.
fn unfold(text: &str) -> String {
    text.replace(":[\n", ":[")
        .replace("},\n    \"", "},\"")
        .replace("[    {", "[{")
}

fn supervised(text: &str) -> World {
    started(&unfold(text))
}

fn found(workflow: &str) -> Found {
    let plan = flow::plan(&format!("x\nworkflow: {{\"id\":\"{workflow}\"}}"));
    Found::Definition(DefinitionRef {
        workflow: plan.workflow.clone(),
        version: plan.version.clone(),
        digest: plan.digest,
        put_by: Default::default(),
    })
}

/// The driver looks up the requested workflow and creates the child.
fn dispatch(run: &mut World) -> (StreamId, RunMessage) {
    let live = run.run.undispatched().next().expect("a child is wanted");
    let (attempt, ix) = (live.id.clone(), live.node);
    let workflow = run.run.wanted_child(ix).expect("its workflow is named");
    run.when(Command::Dispatch {
        attempt,
        found: found(&workflow),
    })
    .decided();
    run.sent().pop().expect("a message creates the child")
}

fn settle(child: &StreamId, status: ChildStatus, variables: Value) -> Command {
    Command::ChildSettled {
        child: child.clone(),
        status,
        variables: object(variables),
        outputs: Map::new(),
        error: (status == ChildStatus::Failed).then(|| NodeError::new("boom", "it broke")),
        spent: Default::default(),
    }
}

fn agent(run: &World) -> Value {
    let facts = run.run.facts().expect("facts");
    facts
        .agent
        .as_ref()
        .map_or(Value::Null, |a| a["agentId"].clone())
}

#[test]
fn workers_run_one_after_another_until_the_supervisor_ends_it() {
    let mut run = World::new(flow::plan(&unfold(LOOP)), Policy::default());
    run.create(Map::new()).then(
        "run.started; node.started boss; runOrchestrator.decided boss next-worker;
         node.completed boss -> dispatch; node.started go;
         core.workflowChain.event go dispatch.began one",
    );
    assert_eq!(agent(&run), "core.boss");
    let (one, message) = dispatch(&mut run);
    assert_eq!(agent(&run), "host:one");
    let Command::Create(create) = &message.envelope.command else {
        panic!("a child is created");
    };
    assert_eq!(create.inputs["p"], "start");
    run.when(settle(
        &one,
        ChildStatus::Completed,
        json!({ "result": "first" }),
    ))
    .then(
        "child.settled completed; core.workflowChain.event go child.completed one;
             variable.changed got = \"first\"; core.workflowChain.event go output.harvested one;
             core.workflowChain.event go dispatch.began two",
    );
    let (two, message) = dispatch(&mut run);
    assert_ne!(one, two);
    let Command::Create(create) = &message.envelope.command else {
        panic!("a child is created");
    };
    assert_eq!(
        create.inputs["p"], "first",
        "what the worker before gave back"
    );
    let events = run
        .when(settle(
            &two,
            ChildStatus::Completed,
            json!({ "result": "second" }),
        ))
        .then(
            "child.settled completed; core.workflowChain.event go child.completed two;
             variable.changed last = \"second\"; core.workflowChain.event go output.harvested two;
             node.completed go; node.started boss@1; runOrchestrator.decided boss@1 terminate;
             node.completed boss@1 -> terminate; run.completed",
        );
    let RunEvent::NodeCompleted { outputs, .. } = &events[4].body else {
        panic!("the dispatch completes");
    };
    assert_eq!(outputs["childRunId"], two.as_str());
    assert_eq!(outputs["workers"][0]["childRunId"], one.as_str());
    assert_eq!(outputs["workers"][1]["childStatus"], "completed");
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.variables["got"], "first");
    assert_eq!(facts.decisions, 2);
    assert_eq!(
        facts.orchestrator.as_ref().expect("an orchestrator")["agentId"],
        "core.boss"
    );
    assert_eq!(agent(&run), "core.boss", "it has the work again");
}

#[test]
fn the_agent_of_the_run_passes_from_hand_to_hand() {
    let mut run = supervised(LOOP);
    let attempt = run.run.undispatched().next().expect("a child").id;
    run.when(Command::Dispatch {
        attempt,
        found: found("one"),
    })
    .then(
        "node.dispatched go; core.workflowChain.event go dispatch.succeeded one;
         agent.handoff core.boss -> host:one",
    );
    let (one, _) = run.sent().pop().expect("a child");
    run.when(settle(&one, ChildStatus::Failed, json!({ "result": "x" })))
        .then(
            "child.settled failed; core.workflowChain.event go child.failed one;
         core.workflowChain.event go dispatch.began two",
        );
    let attempt = run.run.undispatched().next().expect("a child").id;
    run.when(Command::Dispatch {
        attempt,
        found: found("two"),
    })
    .then(
        "node.dispatched go; core.workflowChain.event go dispatch.succeeded two;
         agent.handoff host:one -> host:two",
    );
    assert_eq!(run.run.facts().expect("facts").variables["got"], "start");
}

#[test]
fn a_plan_that_is_used_up_ends_the_work() {
    let text = "boss: core.orchestrator.supervisor\ngo: core.dispatch\nboss -> go -> boss";
    let mut run = World::new(flow::plan(text), Policy::default());
    run.create(Map::new()).then(
        "run.started; node.started boss; runOrchestrator.decided boss terminate;
         node.completed boss -> terminate; node.skipped go; run.completed",
    );
}

#[test]
fn the_output_of_the_previous_node_is_the_decision() {
    let text = r#"think -> boss
        boss: core.orchestrator.supervisor {"inputs":{"decision":{"type":"connection","nodeId":"think","outputKey":"text"}}}
        go: core.dispatch
        boss -> go
        boss.terminate -> report"#;
    for (given, then) in [
        (
            json!("{\"kind\":\"next-worker\",\"nextWorkerIds\":[\"one\"]}"),
            "node.completed think; node.started boss; runOrchestrator.decided boss next-worker;
             node.completed boss -> dispatch; node.started go;
             core.workflowChain.event go dispatch.began one; node.skipped report",
        ),
        (
            json!({ "kind": "terminate" }),
            "node.completed think; node.started boss; runOrchestrator.decided boss terminate;
             node.completed boss -> terminate; node.skipped go; node.started report",
        ),
        (
            json!("I would rather not say"),
            "node.completed think; node.started boss; node.failed boss invalid_decision;
             run.failed invalid_decision",
        ),
    ] {
        let mut run = started(text);
        run.gives("think", json!({ "text": given })).then(then);
    }
}

#[test]
fn a_model_decides_again_in_each_round_of_a_loop() {
    let text = r#"head: core.loop {"config":{"times":9}}
        boss: core.orchestrator.supervisor {"inputs":{"decision":{"type":"connection","nodeId":"think","outputKey":"text"}}}
        go: core.dispatch
        head.body -> think -> boss -> go -> head
        head.done -> report"#;
    let mut run = started(text);
    let next = json!({ "kind": "next-worker", "nextWorkerIds": ["one"] });
    run.gives("think", json!({ "text": next })).decided();
    let (child, _) = dispatch(&mut run);
    run.when(settle(&child, ChildStatus::Completed, json!({})))
        .decided();
    run.gives("think", json!({ "text": { "kind": "terminate" } }))
        .then(
            "node.completed think@1; node.started boss@1; runOrchestrator.decided boss@1 terminate;
             node.completed boss@1 -> terminate; node.skipped go@1; node.started head@2;
             node.completed head@2 -> done; node.started report",
        );
}

#[test]
fn a_judge_between_dispatch_and_supervisor_is_part_of_the_loop() {
    let text = r#"boss: core.orchestrator.supervisor {"config":{"decisions":[{"kind":"next-worker","nextWorkerIds":["one"]}]},
        "inputs":{"decision":{"type":"connection","nodeId":"judge","outputKey":"next","optional":true}}}
        go: core.dispatch
        boss -> go -> judge -> boss
        boss.terminate -> report"#;
    let mut run = started(&text.replace(",\n        \"", ",\""));
    let (child, _) = dispatch(&mut run);
    run.when(settle(&child, ChildStatus::Completed, json!({})))
        .then("child.settled completed; core.workflowChain.event go child.completed one; node.completed go; node.started judge");
    run.gives("judge", json!({ "next": { "kind": "terminate" } }))
        .then(
            "node.completed judge; node.started boss@1; runOrchestrator.decided boss@1 terminate;
             node.completed boss@1 -> terminate; node.started report",
        );
}

#[test]
fn a_user_is_asked_and_the_supervisor_hears_of_it() {
    let mut run = started(
        r#"boss: core.orchestrator.supervisor {"config":{"mockDecisions":[{"kind":"ask-user","prompt":"Which?"}]}}
        go: core.dispatch
        boss -> go -> boss"#,
    );
    assert_eq!(run.run.status().as_str(), "waiting-input");
    run.answer("go", "ada", json!({ "answers": { "answer": "blue" } }))
        .then(
            "interrupt.resolved go = {\"answers\":{\"answer\":\"blue\"}};
             clarification.resolved go {\"answer\":\"blue\"}; node.resumed go; node.completed go;
             node.started boss@1; runOrchestrator.decided boss@1 terminate;
             node.completed boss@1 -> terminate; run.completed",
        );
}

const UNSURE: &str = r#"boss: core.orchestrator.supervisor {"config":{"mockConfidence":0.5,"mockPendingDecision":{"kind":"terminate"}}}
    go: core.dispatch
    boss -> go -> boss"#;

#[test]
fn a_decision_the_supervisor_is_not_sure_of_is_held_back() {
    let events = |run: &World| run.events.clone();
    let mut run = started(UNSURE);
    assert_eq!(run.run.status().as_str(), "waiting-approval");
    let log = events(&run);
    assert!(
        log.iter()
            .all(|event| !matches!(event.body, RunEvent::OrchestratorDecided { .. }))
    );
    let doubt = log.iter().find_map(|event| match &event.body {
        RunEvent::NodeSuspended { doubt, .. } => doubt.clone(),
        _ => None,
    });
    let doubt = doubt.expect("the suspension says why");
    assert_eq!((doubt.threshold, doubt.observed), (0.7, 0.5));
    run.answer("boss", "ada", json!({ "action": "maybe" }))
        .refused("invalid_resume_value");
    run.answer("boss", "ada", json!({ "action": "accept" }))
        .then(
            "interrupt.resolved boss = {\"action\":\"accept\"}; node.resumed boss;
         runOrchestrator.decided boss terminate; node.completed boss -> terminate;
         node.skipped go; run.completed",
        );

    let mut run = started(UNSURE);
    let other = json!({ "decision": { "kind": "next-worker", "nextWorkerIds": ["one"] } });
    run.answer("boss", "ada", other).decided();
    assert_eq!(
        run.run.undispatched().count(),
        1,
        "the other decision is carried out"
    );

    let mut run = started(UNSURE);
    run.answer("boss", "ada", json!({ "action": "reject" }))
        .then(
            "interrupt.resolved boss = {\"action\":\"reject\"}; node.resumed boss;
         node.failed boss interrupt_rejected; run.failed interrupt_rejected",
        );
}

#[test]
fn the_run_says_how_sure_an_agent_must_be() {
    let mut run = World::new(flow::plan(UNSURE), Policy::default());
    let mut create = kernel::run::Create::new(Map::new(), "test", kernel::run::Start::Now);
    create.configurable = object(json!({ "escalationThreshold": 0.5 }));
    run.when(Command::Create(create)).then(
        "run.started; node.started boss; agent.decided boss 0.5;
         runOrchestrator.decided boss terminate; node.completed boss -> terminate;
         node.skipped go; run.completed",
    );
}

#[test]
fn no_worker_runs_on_a_decision_below_the_floor() {
    let text = r#"boss: core.orchestrator.supervisor {"config":{"mockDispatchPlan":[{"kind":"next-worker","nextWorkerIds":["one"],"confidence":0.3}]}}
        go: core.dispatch
        boss -> go -> boss"#;
    let mut run = World::new(flow::plan(text), Policy::default());
    run.create(Map::new()).then(
        "run.started; node.started boss; runOrchestrator.decided boss next-worker;
         node.completed boss -> dispatch; node.started go;
         core.workflowChain.confidence-escalated go 0.3 < 0.5; interrupt.requested go;
         clarification.requested go; node.suspended go",
    );
    assert_eq!(run.run.status().as_str(), "waiting-input");
    assert_eq!(run.run.undispatched().count(), 0);
    for other in [json!({ "kind": "terminate" }), json!("perhaps")] {
        run.answer("go", "ada", json!({ "answers": { "decision": other } }))
            .refused("invalid_resume_value");
    }
    run.answer("go", "ada", json!({ "answers": { "decision": "accept" } }))
        .then(
            "interrupt.resolved go = {\"answers\":{\"decision\":\"accept\"}};
         clarification.resolved go {\"decision\":\"accept\"}; node.resumed go;
         core.workflowChain.event go dispatch.began one",
        );
    dispatch(&mut run);

    let text = r#"boss: core.orchestrator.supervisor {"config":{"mockDispatchPlan":[{"kind":"terminate","confidence":0.3}]}}
        go: core.dispatch
        boss -> go -> boss"#;
    let mut run = started(text);
    assert_eq!(run.status_of("boss"), "suspended", "nor is the work over");
    let other = json!({ "kind": "next-worker", "nextWorkerIds": ["two"] });
    run.answer("boss", "ada", json!({ "answers": { "decision": other } }))
        .decided();
    assert_eq!(
        run.run.undispatched().count(),
        1,
        "another decision takes its place"
    );

    let mut run = started(text);
    run.answer(
        "boss",
        "ada",
        json!({ "answers": [{ "id": "decision", "answer": "reject" }] }),
    )
    .decided();
    assert_eq!(run.status_of("boss"), "failed");
}

/// The events that steps of workers and held decisions follow, by type, or by phase for a step.
fn followed(run: &World) -> Vec<String> {
    let name = |event: &RunEvent| match event {
        RunEvent::ChainStepped {
            phase, worker_id, ..
        } => format!("{phase:?} {worker_id}"),
        RunEvent::OrchestratorDecided { iteration, .. } => format!("decision {iteration}"),
        RunEvent::ConfidenceEscalated { .. } => "doubt".into(),
        other => format!("{other:?}"),
    };
    let says = run.events.iter().filter_map(|event| match &event.body {
        RunEvent::ChainStepped { follows, .. } | RunEvent::ConfidenceEscalated { follows, .. } => {
            Some((&event.body, *follows))
        }
        _ => None,
    });
    says.map(|(body, follows)| {
        let before = follows.map(|seq| name(&run.events[usize::try_from(seq).unwrap()].body));
        format!("{} < {}", name(body), before.as_deref().unwrap_or("-"))
    })
    .collect()
}

#[test]
fn each_step_of_a_worker_names_the_step_before_it() {
    let mut run = supervised(LOOP);
    for given in [json!({ "result": "first" }), json!({ "result": "second" })] {
        let (worker, _) = dispatch(&mut run);
        run.when(settle(&worker, ChildStatus::Completed, given))
            .decided();
    }
    let both = ["one", "two"].iter().flat_map(|worker| {
        [
            format!("DispatchBegan {worker} < decision 1"),
            format!("DispatchSucceeded {worker} < DispatchBegan {worker}"),
            format!("ChildCompleted {worker} < DispatchSucceeded {worker}"),
            format!("OutputHarvested {worker} < ChildCompleted {worker}"),
        ]
    });
    assert_eq!(followed(&run), both.collect::<Vec<_>>());
    assert_eq!(run.replay(0).fork.divergence(), None);

    let doubtful = r#"boss: core.orchestrator.supervisor {"config":{"mockDispatchPlan":[{"kind":"next-worker","nextWorkerIds":["one"],"confidence":0.3}]}}
        go: core.dispatch
        boss -> go -> boss"#;
    let mut run = started(doubtful);
    run.answer("go", "ada", json!({ "answers": { "decision": "accept" } }))
        .decided();
    assert_eq!(
        followed(&run),
        ["doubt < decision 1", "DispatchBegan one < decision 1"]
    );
}

#[test]
fn a_dispatch_without_an_orchestrator_follows_no_decision() {
    let text = r#"say -> go
        go: core.dispatch {"inputs":{"decision":{"type":"connection","nodeId":"say","outputKey":"next"}}}"#;
    let mut run = started(text);
    let next = json!({ "kind": "next-worker", "nextWorkerIds": ["one"] });
    run.gives("say", json!({ "next": next })).decided();
    let (one, _) = dispatch(&mut run);
    run.when(settle(&one, ChildStatus::Failed, json!({})))
        .decided();
    assert_eq!(
        followed(&run),
        [
            "DispatchBegan one < -",
            "DispatchSucceeded one < DispatchBegan one",
            "ChildFailed one < DispatchSucceeded one",
        ]
    );
}

fn endless(more: &str) -> String {
    let next = r#"{"kind":"next-worker","nextWorkerIds":["one"]}"#;
    let plan = vec![next; 20].join(",");
    format!(
        "boss: core.orchestrator.supervisor {{\"config\":{{\"decisions\":[{plan}]}}}}\n\
         go: core.dispatch {{\"config\":{more}}}\nboss -> go -> boss"
    )
}

fn until_it_fails(run: &mut World) -> usize {
    for rounds in 0..20 {
        if run.run.is_settled() {
            return rounds;
        }
        let (child, _) = dispatch(run);
        run.when(settle(&child, ChildStatus::Completed, json!({})))
            .decided();
    }
    panic!("no bound was met");
}

#[test]
fn rounds_of_a_supervisor_are_bounded() {
    let last = |run: &World, n: usize| {
        let lines = crate::notation::lines(&run.events);
        lines[lines.len() - n..].join("; ")
    };
    let mut run = started(&endless("{}"));
    assert_eq!(until_it_fails(&mut run), 5);
    assert_eq!(
        last(&run, 3),
        "workflow.loopback-limit boss 5; node.cancelled boss@5; run.failed loop_limit_exceeded"
    );

    let policy = Policy {
        max_loop_iterations: Some(2),
        ..Policy::default()
    };
    let mut run = started_under(policy, &endless("{}"));
    assert_eq!(until_it_fails(&mut run), 2);
    assert_eq!(
        last(&run, 3),
        "cap.breached 2 < 3; node.cancelled boss@2; run.failed loop_limit_exceeded"
    );

    let mut run = started(&endless("{\"iterationCap\":1}"));
    assert_eq!(until_it_fails(&mut run), 1);
    assert_eq!(
        last(&run, 3),
        "cap.breached 1 < 2; node.cancelled go@1; run.failed loop_limit_exceeded"
    );
}

#[test]
fn several_workers_may_be_refused() {
    let text = r#"boss: core.orchestrator.supervisor {"config":{"decisions":[{"kind":"next-worker","nextWorkerIds":["a","b"]}]}}
        go: core.dispatch {"config":{"fanOutPolicy":"reject"}}
        boss -> go -> boss"#;
    let run = started(text);
    assert_eq!(run.status_of("go"), "failed");
    let Some(kernel::run::End::Failed { error, .. }) = run.run.end() else {
        panic!("the run fails");
    };
    assert_eq!(error.code, "fan_out_unsupported");
}

#[test]
fn a_worker_that_is_not_there_fails_the_dispatch() {
    let mut run = supervised(LOOP);
    let attempt = run.attempt("go");
    let missing = NodeError::new("workflow_not_found", "no such workflow").fatal();
    run.when(Command::Dispatch {
        attempt,
        found: Found::Not(missing),
    })
    .then(
        "core.workflowChain.event go dispatch.failed one; node.failed go workflow_not_found;
         run.failed workflow_not_found",
    );
}

#[test]
fn a_failed_worker_may_fail_its_node_and_only_it_is_tried_again() {
    let text = r#"boss: core.orchestrator.supervisor {"config":{"decisions":[{"kind":"next-worker","nextWorkerIds":["a","b"]}]}}
        go: core.dispatch {"config":{"onChildFailure":"fail-parent"},"settings":{"retry":{"maxRetries":1,"initialDelayMs":0}}}
        boss -> go -> boss"#;
    let mut run = started(text);
    let (a, _) = dispatch(&mut run);
    run.when(settle(&a, ChildStatus::Completed, json!({})))
        .decided();
    let (b, _) = dispatch(&mut run);
    run.when(settle(&b, ChildStatus::Cancelled, json!({})))
        .then(
            "child.settled cancelled; core.workflowChain.event go child.cancelled b;
         node.retried go/1 +0ms child_failed; node.started go/1;
         core.workflowChain.event go dispatch.began b",
        );
    let (again, _) = dispatch(&mut run);
    assert_ne!(b, again);
}

#[test]
fn a_pause_between_two_workers_repeats_none() {
    let mut run = supervised(LOOP);
    let (one, _) = dispatch(&mut run);
    run.pause(DrainPolicy::Immediate)
        .then("run.paused immediate");
    run.when(settle(&one, ChildStatus::Completed, json!({})))
        .decided();
    run.pause(DrainPolicy::Immediate).refused("already_paused");
    run.resume().then("run.resumed");
    run.pause(DrainPolicy::Immediate)
        .then("run.paused immediate");
    run.resume()
        .then("run.resumed; node.started go/1; core.workflowChain.event go dispatch.began two");
    dispatch(&mut run);
}

fn child_of(message: &RunMessage, text: &str) -> World {
    let header = message.header.clone().expect("the message has the header");
    let mut child = World::with_header(Arc::new(header), flow::plan(text));
    child.when(message.envelope.clone()).decided();
    child
}

#[test]
fn a_parent_waits_on_its_childs_wait() {
    let mut run = supervised(LOOP);
    let (_, message) = dispatch(&mut run);
    let mut child = child_of(&message, "gate: core.approvalGate\ngate -> x");
    child.advance().decided();
    let (target, told) = child.sent().pop().expect("the parent is told");
    assert_eq!(target.as_str(), "run-1");
    run.when(told.envelope.clone())
        .then("child.reported waiting-approval");
    assert_eq!(run.run.status().as_str(), "waiting-approval");
    run.when(told.envelope.clone()).refused("duplicate");

    child
        .answer("gate", "ada", json!({ "action": "accept" }))
        .decided();
    let (_, on) = child.sent().pop().expect("the parent is told");
    run.when(on.envelope).then("child.reported");
    assert_eq!(run.run.status().as_str(), "running");
    let late = Envelope::from(told.envelope.command);
    run.when(late).refused("duplicate");
    assert_eq!(
        run.run.status().as_str(),
        "running",
        "an older report changes nothing"
    );
}

#[test]
fn a_cancelled_run_waits_for_its_children_to_stop() {
    let mut run = supervised(LOOP);
    let (child, _) = dispatch(&mut run);
    run.cancel().then(
        "core.workflowChain.event go child.cancelled one; node.cancelled go; run.stopping cancelled",
    );
    assert_eq!(run.run.status().as_str(), "cancelling");
    let (target, _) = run.sent().pop().expect("the child is told");
    assert_eq!(target, child);
    run.cancel().refused("run_stopping");
    run.when(settle(&child, ChildStatus::Cancelled, json!({})))
        .then("child.settled cancelled; run.cancelled");
}

#[test]
fn a_child_may_outlive_its_parent_where_the_node_says_so() {
    let text =
        r#"s: core.subWorkflow {"config":{"workflowId":"one","propagateCancellation":false}}"#;
    let mut run = started(text);
    dispatch(&mut run);
    run.cancel().then("node.cancelled s; run.cancelled");
    assert!(run.sent().is_empty(), "the child is not told");
}

#[test]
fn a_child_takes_over_budget_bounds_and_settings() {
    let policy = Policy {
        budget: [("tokens".to_owned(), 100)].into(),
        max_node_executions: Some(50),
        max_loop_iterations: Some(7),
        ..Policy::default()
    };
    let text = r#"s: core.subWorkflow {"config":{"workflowId":"one"}}"#;
    let mut run = World::new(flow::plan(text), policy);
    let mut create = kernel::run::Create::new(Map::new(), "test", kernel::run::Start::Now);
    create.configurable = object(json!({ "model": "m", "recursionLimit": 50 }));
    run.when(Command::Create(create)).decided();
    let (_, message) = dispatch(&mut run);
    let header = message.header.expect("a header");
    assert_eq!(header.policy.budget["tokens"], 100);
    assert_eq!(header.policy.max_node_executions, Some(50));
    assert_eq!(header.policy.max_loop_iterations, Some(7));
    assert_eq!(header.engine_version, Some(kernel::ENGINE_VERSION));
    let Command::Create(create) = message.envelope.command else {
        panic!("a child is created");
    };
    assert_eq!(Value::Object(create.configurable), json!({ "model": "m" }));
}

#[test]
fn a_branch_dispatches_anew_and_a_replay_repeats() {
    let mut run = supervised(LOOP);
    let (one, _) = dispatch(&mut run);
    run.when(settle(&one, ChildStatus::Completed, json!({})))
        .decided();
    let (two, _) = dispatch(&mut run);
    run.when(settle(&two, ChildStatus::Completed, json!({})))
        .decided();
    assert!(run.run.is_settled());
    let replay = run.replay(0);
    assert_eq!(replay.fork.divergence(), None);
    let settled = run
        .events
        .iter()
        .position(|event| matches!(event.body, RunEvent::ChildSettled { .. }))
        .expect("a child settled");
    let forked = run.fork_with(ForkMode::Branch, settled as u64, Default::default());
    let mut branch = forked.expect("a branch is made").world;
    branch.advance().decided();
    let (anew, _) = dispatch(&mut branch);
    assert_ne!(one, anew);
}

/// The inputs of the first child of a run; `null` if it was rejected.
fn given_to_the_first() -> Value {
    let text = r#"boss: core.orchestrator.supervisor {"config":{"decisions":[{"kind":"next-worker","nextWorkerIds":["one","one"],"nextWorkerInputs":[{"n":1}]}]}}
        go: core.dispatch {}
        boss -> go"#;
    let mut run = World::new(flow::stored(text), Policy::default());
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
    if run.run.undispatched().next().is_none() {
        return Value::Null;
    }
    dispatch(&mut run);
    let inputs = run.events.iter().rev().find_map(|event| match &event.body {
        RunEvent::NodeDispatched { inputs, .. } => Some(inputs.clone()),
        _ => None,
    });
    Value::Object(inputs.expect("a worker was dispatched"))
}

#[test]
fn inputs_for_too_few_workers_are_refused() {
    assert_eq!(given_to_the_first(), Value::Null, "none runs");
}

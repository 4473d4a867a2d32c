//! Supervisors, dispatch and sub-workflows over HTTP: the views of a parent and its children.

use serde_json::{Value, json};

use crate::host::{Host, chain, node};

/// A supervisor and a dispatch node in a loop.
pub(crate) fn supervised(id: &str, supervisor: Value, dispatch: Value) -> Value {
    let mut boss = node("boss", "core.orchestrator.supervisor", supervisor);
    boss["agent"] = json!({ "agentId": "core.tests.boss", "modelClass": "reasoning" });
    let mut definition = chain(id, &[boss, node("go", "core.dispatch", dispatch)]);
    let edges = definition["edges"].as_array_mut().unwrap();
    edges.push(json!({ "id": "back", "sourceNodeId": "go", "targetNodeId": "boss" }));
    definition
}

pub(crate) fn next(workers: &[&str]) -> Value {
    json!({ "kind": "next-worker", "nextWorkerIds": workers })
}

/// A worker that completes with a variable.
fn gives(id: &str, name: &str, value: &str) -> Value {
    let mut worker = chain(id, &[node("n", "core.noop", json!({}))]);
    worker["variables"] = json!([{ "name": name, "type": "string", "defaultValue": value }]);
    worker
}

fn asks(id: &str) -> Value {
    let gate = node("gate", "core.approvalGate", json!({ "title": "Go on?" }));
    chain(id, &[gate])
}

#[tokio::test]
async fn workers_run_as_children_and_the_next_sees_their_output() {
    let host = Host::new().await;
    let plan = json!({ "mockDispatchPlan": [next(&["writes", "reads"])] });
    let config = json!({
        "inputMapping": { "text": "shared", "unset": "nothing" },
        "perWorkerOutputMappings": { "writes": { "shared": "said" } },
        "outputMapping": { "never": "said" },
    });
    let mut team = supervised("team", plan, config);
    team["variables"] = json!([
        { "name": "shared", "type": "string", "defaultValue": "" },
        { "name": "nothing", "type": "string" },
    ]);
    let mut reads = chain("reads", &[node("n", "core.noop", json!({}))]);
    reads["variables"] = json!([
        { "name": "text", "type": "string", "defaultValue": "own" },
        { "name": "unset", "type": "string", "defaultValue": "own" },
    ]);
    host.put(&[team, gives("writes", "said", "hello"), reads])
        .await;

    let run = host.completed(&json!({ "workflowId": "team" })).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    assert_eq!(snapshot["variables"]["shared"], "hello");
    let workers = &snapshot["nodeStates"]["go"]["outputs"]["workers"];
    let child = |n: usize| workers[n]["childRunId"].as_str().unwrap().to_owned();
    assert_eq!(workers.as_array().unwrap().len(), 2);
    let reader = host.snapshot(&child(1)).await;
    assert_eq!(reader["parentRunId"], run.as_str());
    assert_eq!(reader["parentNodeId"], "go");
    assert_eq!(reader["owner"], snapshot["owner"]);
    assert_eq!(reader["inputs"], json!({ "text": "hello", "unset": null }));
    assert_eq!(
        reader["variables"]["unset"],
        Value::Null,
        "no default stands for null"
    );

    let seen = host.types(&run).await;
    let shown: Vec<&str> = seen.iter().map(String::as_str).collect();
    let round = [
        "run.started",
        "node.started",
        "runOrchestrator.decided",
        "node.completed",
        "node.started",
        "core.workflowChain.event",
        "node.dispatched",
        "core.workflowChain.event",
        "agent.handoff",
    ];
    assert_eq!(shown[..round.len()], round);
    let chain_of = |worker: &str| {
        let worker = worker.to_owned();
        async move |host: &Host, run: &str| -> Vec<String> {
            let events = host.events(run).await;
            let own = events
                .iter()
                .filter(|event| event["payload"]["workerId"] == worker.as_str());
            own.map(|event| event["payload"]["phase"].as_str().unwrap().to_owned())
                .collect()
        }
    };
    assert_eq!(
        chain_of("writes")(&host, &run).await,
        [
            "dispatch.began",
            "dispatch.succeeded",
            "child.completed",
            "output.harvested"
        ]
    );
    assert_eq!(
        chain_of("reads")(&host, &run).await,
        ["dispatch.began", "dispatch.succeeded", "child.completed"],
        "it has nothing of that name"
    );
    let events = host.events(&run).await;
    let id_of = |worker: &str, phase: &str| {
        let of = |event: &&Value| {
            event["payload"]["workerId"] == worker && event["payload"]["phase"] == phase
        };
        let event = events.iter().find(of).expect("the step is there");
        (event["eventId"].clone(), event["causationId"].clone())
    };
    let decided = events
        .iter()
        .find(|event| event["type"] == "runOrchestrator.decided");
    let decided = decided.expect("somebody decided")["eventId"].clone();
    for worker in ["writes", "reads"] {
        let (began, cause) = id_of(worker, "dispatch.began");
        assert_eq!(cause, decided);
        let (succeeded, cause) = id_of(worker, "dispatch.succeeded");
        assert_eq!(cause, began);
        let (_, cause) = id_of(worker, "child.completed");
        assert_eq!(cause, succeeded);
    }
    let (completed, _) = id_of("writes", "child.completed");
    let (_, cause) = id_of("writes", "output.harvested");
    assert_eq!(cause, completed);
    replays_alike(&host, &run).await;
    let decided: Vec<Value> = events
        .into_iter()
        .filter(|event| event["type"] == "runOrchestrator.decided")
        .collect();
    assert_eq!(decided.len(), 2);
    assert_eq!(decided[1]["payload"]["decision"]["kind"], "terminate");
    assert_eq!(decided[1]["payload"]["agentId"], "core.tests.boss");
}

/// A replay's events equal its source's, byte for byte.
async fn replays_alike(host: &Host, run: &str) {
    let replay = json!({ "mode": "replay", "fromSeq": 0 });
    let made = host.post(&format!("/v1/runs/{run}:fork"), &replay).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let replay = made.json()["runId"].as_str().unwrap().to_owned();
    let told = |events: Vec<Value>| -> Vec<Value> {
        let of = |event: &Value| json!([event["type"], event["nodeId"], event["payload"]]);
        events.iter().map(of).collect()
    };
    assert_eq!(
        told(host.events(&replay).await),
        told(host.events(run).await)
    );
}

#[tokio::test]
async fn worker_inputs_of_a_decision_reach_each_worker() {
    let host = Host::new().await;
    let item = |id: &str| {
        let mut item = chain(id, &[node("n", "core.noop", json!({}))]);
        item["variables"] =
            json!([{ "name": "n" , "type": "number" }, { "name": "all", "type": "string" }]);
        item
    };
    let decision = |inputs: Value| {
        let mut decision = next(&["item", "item", "item"]);
        decision["nextWorkerInputs"] = inputs;
        decision
    };
    let team = |id: &str, inputs: Value, how: &str| {
        let plan = json!({ "mockDispatchPlan": [decision(inputs)] });
        let mapped = json!({ "n": "zero", "all": "word" });
        let config = json!({ "fanOutPolicy": how, "inputMapping": mapped });
        let mut team = supervised(id, plan, config);
        team["variables"] = json!([
            { "name": "zero", "type": "number", "defaultValue": 0 },
            { "name": "word", "type": "string", "defaultValue": "same" },
        ]);
        team
    };
    let inputs = json!([{ "n": 1 }, { "all": "own" }, {}]);
    host.put(&[item("item")]).await;
    for how in ["sequential", "parallel"] {
        host.put(&[team(how, inputs.clone(), how)]).await;
        let run = host.completed(&json!({ "workflowId": how })).await;
        let mut given = Vec::new();
        for child in host.snapshot(&run).await["childRuns"].as_array().unwrap() {
            let child = host.snapshot(child["runId"].as_str().unwrap()).await;
            given.push(child["inputs"].clone());
        }
        let expected = json!([
            { "n": 1, "all": "same" }, { "n": 0, "all": "own" }, { "n": 0, "all": "same" },
        ]);
        assert_eq!(json!(given), expected, "{how}");
        let events = host.events(&run).await;
        let mut decided = events
            .iter()
            .filter(|event| event["type"] == "runOrchestrator.decided");
        let decided = &decided.next().expect("somebody decided")["payload"]["decision"];
        assert_eq!(*decided, decision(inputs.clone()), "as it was made");
        replays_alike(&host, &run).await;
    }
    let few = team("few", json!([{ "n": 1 }]), "parallel");
    let refused = host.post("/v1/workflows", &few).await;
    assert_eq!(refused.refusal(400), "validation_error");
    let seen = host.get("/.well-known/openwop").await.json();
    assert_eq!(seen["dispatch"]["perItemInput"], true);
}

#[tokio::test]
async fn children_are_listed_in_the_order_of_the_decision() {
    let host = Host::new().await;
    let workers: Vec<String> = (0..6).map(|n| format!("worker-{n}")).collect();
    let names: Vec<&str> = workers.iter().map(String::as_str).rev().collect();
    host.put(&[supervised(
        "many",
        json!({ "mockDispatchPlan": [next(&names)] }),
        json!({}),
    )])
    .await;
    for name in &names {
        host.put(&[chain(name, &[node("n", "core.noop", json!({}))])])
            .await;
    }
    let run = host.completed(&json!({ "workflowId": "many" })).await;
    let snapshot = host.snapshot(&run).await;
    let listed = snapshot["childRuns"].as_array().unwrap().iter();
    let listed: Vec<&str> = listed
        .map(|child| child["workflowId"].as_str().unwrap())
        .collect();
    assert_eq!(listed, names);
}

#[tokio::test]
async fn a_worker_that_fails_or_is_cancelled_is_not_harvested() {
    let host = Host::new().await;
    let mut breaks = chain(
        "breaks",
        &[node("x", "core.fail", json!({ "code": "as_told" }))],
    );
    breaks["variables"] = json!([{ "name": "said", "type": "string", "defaultValue": "no" }]);
    let mut sleeps = asks("sleeps");
    sleeps["variables"] = breaks["variables"].clone();
    for (id, worker) in [("bad", "breaks"), ("slow", "sleeps")] {
        let plan = json!({ "mockDispatchPlan": [next(&[worker])] });
        let mut team = supervised(id, plan, json!({ "outputMapping": { "got": "said" } }));
        team["variables"] = json!([{ "name": "got", "type": "string", "defaultValue": "old" }]);
        host.put(&[team]).await;
    }
    host.put(&[breaks, sleeps]).await;
    let run = host.completed(&json!({ "workflowId": "bad" })).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["status"], "completed", "the supervisor goes on");
    assert_eq!(snapshot["childRuns"][0]["status"], "failed");
    assert_eq!(snapshot["variables"]["got"], "old");

    let run = host.create(&json!({ "workflowId": "slow" })).await;
    let snapshot = host
        .shows(&run, |snapshot| snapshot["status"] == "waiting-approval")
        .await;
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap();
    let cancelled = host
        .post(&format!("/v1/runs/{child}/cancel"), &json!({}))
        .await;
    assert_eq!(cancelled.status, 200);
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["childRuns"][0]["status"], "cancelled");
    assert_eq!(snapshot["variables"]["got"], "old");
    assert_eq!(snapshot["status"], "completed");
}

#[tokio::test]
async fn a_parent_shows_its_childs_wait_and_a_cancel_ends_both() {
    let host = Host::new().await;
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "asks" }));
    let above = node("call", "core.subWorkflow", json!({ "workflowId": "calls" }));
    host.put(&[
        asks("asks"),
        chain("calls", &[call]),
        chain("above", &[above]),
    ])
    .await;
    let run = host.create(&json!({ "workflowId": "above" })).await;
    let waits = |snapshot: &Value| snapshot["status"] == "waiting-approval";
    let snapshot = host.shows(&run, waits).await;
    assert_eq!(snapshot["currentNodeId"], "call");
    assert_eq!(snapshot["childRuns"][0]["status"], "waiting-approval");
    let middle = snapshot["childRuns"][0]["runId"].as_str().unwrap();
    let child = host.snapshot(middle).await["childRuns"][0]["runId"].clone();
    let child = child.as_str().unwrap();

    let cancelled = host
        .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    assert_eq!(cancelled.status, 200);
    assert_eq!(
        cancelled.json()["status"],
        "cancelling",
        "its children run yet"
    );
    for id in [run.as_str(), middle, child] {
        host.engine.settled(&id.into()).await.unwrap();
        let snapshot = host.snapshot(id).await;
        assert_eq!(snapshot["status"], "cancelled", "{snapshot}");
        let last = host.events(id).await.pop().unwrap();
        assert_eq!(last["type"], "run.cancelled");
        let parent = last["payload"]["parentRunId"].as_str();
        if id == run {
            assert_eq!(parent, None, "nobody cascaded here")
        } else {
            assert!(parent.is_some());
            assert_eq!(last["payload"]["reason"], "parent-cancelled");
        }
    }
}

#[tokio::test]
async fn a_mapping_is_evaluated_once_and_an_answer_continues_both() {
    let host = Host::new().await;
    let config = json!({
        "workflowId": "holds", "inputMapping": { "id": "current" }, "outputMapping": { "got": "id" },
    });
    let call = node("call", "core.subWorkflow", config);
    let renames = node(
        "renames",
        "core.setVariable",
        json!({ "name": "current", "value": "new" }),
    );
    let mut parent = chain("parent", &[call]);
    // In parallel to the child, after a timer: the parent changes its variable while the child
    // waits.
    let wait = node("wait", "core.delay", json!({ "ms": 1 }));
    parent["nodes"]
        .as_array_mut()
        .unwrap()
        .extend([wait, renames]);
    let edges = parent["edges"].as_array_mut().unwrap();
    edges.push(json!({ "id": "e", "sourceNodeId": "wait", "targetNodeId": "renames" }));
    parent["variables"] = json!([
        { "name": "current", "type": "string", "defaultValue": "seeded" },
        { "name": "got", "type": "string" },
    ]);
    let mut holds = asks("holds");
    holds["variables"] = json!([{ "name": "id", "type": "string", "defaultValue": "own" }]);
    host.put(&[parent, holds]).await;
    let run = host.create(&json!({ "workflowId": "parent" })).await;
    let snapshot = host
        .shows(&run, |snapshot| {
            snapshot["variables"]["current"] == "new" && snapshot["status"] == "waiting-approval"
        })
        .await;
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap();
    host.settle(child, json!({ "action": "accept" })).await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    assert_eq!(host.snapshot(child).await["variables"]["id"], "seeded");
    assert_eq!(host.snapshot(&run).await["variables"]["got"], "seeded");
}

#[tokio::test]
async fn a_child_that_cannot_be_created_fails_its_node() {
    let host = Host::new().await;
    let mut strict = chain("strict", &[node("n", "core.noop", json!({}))]);
    strict["variables"] = json!([{ "name": "who", "type": "string", "required": true }]);
    let call = node(
        "call",
        "core.subWorkflow",
        json!({ "workflowId": "strict" }),
    );
    host.put(&[strict, chain("careless", &[call])]).await;
    let run = host.completed(&json!({ "workflowId": "careless" })).await;
    let snapshot = host.snapshot(&run).await;
    let error = &snapshot["error"];
    assert_eq!(error["code"], "invalid_child_inputs", "{snapshot}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("strict") && message.contains("/who is required"),
        "{message}"
    );
    assert_eq!(error["details"]["problems"][0]["path"], "/who");
    // No child is reported that does not exist.
    assert_eq!(snapshot.get("childRuns"), None);
    let seen = host.types(&run).await;
    assert!(!seen.contains(&"node.dispatched".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn a_worker_that_cannot_be_created_fails_its_dispatch_step() {
    let host = Host::new().await;
    let mut counts = chain("counts", &[node("n", "core.noop", json!({}))]);
    counts["variables"] = json!([{ "name": "n", "type": "number" }]);
    let plan = json!({ "mockDispatchPlan": [next(&["counts"])] });
    let mut team = supervised("team", plan, json!({ "inputMapping": { "n": "text" } }));
    team["variables"] = json!([{ "name": "text", "type": "string", "defaultValue": "many" }]);
    host.put(&[counts, team]).await;
    let run = host.completed(&json!({ "workflowId": "team" })).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot.get("childRuns"), None, "{snapshot}");
    let phases = host.phases(&run, "counts").await;
    assert_eq!(phases, ["dispatch.began", "dispatch.failed"]);
    let error = &snapshot["nodeStates"]["go"]["error"];
    assert_eq!(error["code"], "invalid_child_inputs", "{snapshot}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("/n must be of type number, not a string"),
        "{message}"
    );
    assert!(!message.contains("many"), "it does not repeat the value");
}

#[tokio::test]
async fn sensitive_values_go_only_to_sensitive_variables_of_children() {
    let host = Host::new().await;
    let takes = |id: &str, variables: Value| {
        let mut child = chain(id, &[node("n", "core.noop", json!({}))]);
        child["variables"] = variables;
        child
    };
    let kept = json!([{ "name": "s", "type": "string", "sensitive": true }]);
    let text = json!([{ "name": "s", "type": "string" }]);
    // A sealed value is an object.
    let object = json!([{ "name": "s", "type": "object" }]);
    let children = [
        ("kept", kept),
        ("text", text),
        ("object", object),
        ("open", json!([])),
    ];
    for (child, variables) in children {
        let config = json!({ "workflowId": child, "inputMapping": { "s": "secret" } });
        let mut parent = chain("parent", &[node("call", "core.subWorkflow", config)]);
        parent["id"] = json!(format!("calls-{child}"));
        parent["variables"] = json!([{ "name": "secret", "type": "string", "sensitive": true }]);
        host.put(&[takes(child, variables), parent]).await;
        let body = json!({ "workflowId": format!("calls-{child}"), "inputs": { "secret": "x7" } });
        let run = host.completed(&body).await;
        let snapshot = host.snapshot(&run).await;
        if child == "kept" {
            assert_eq!(snapshot["status"], "completed", "{snapshot}");
            continue;
        }
        let error = &snapshot["error"];
        assert_eq!(error["code"], "invalid_child_inputs", "{child}: {snapshot}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("declare it sensitive in the child too"),
            "{message}"
        );
        assert_eq!(snapshot.get("childRuns"), None, "{child}");
    }
}

#[tokio::test]
async fn a_decision_that_is_not_sure_enough_waits_for_a_person() {
    let host = Host::new().await;
    let doubts = json!({ "mockConfidence": 0.5, "mockPendingDecision": next(&["helps"]) });
    let mut unsure = next(&["helps"]);
    unsure["confidence"] = json!(0.3);
    host.put(&[
        supervised("doubts", doubts, json!({})),
        supervised("guesses", json!({ "decisions": [unsure] }), json!({})),
        gives("helps", "x", "y"),
    ])
    .await;
    let waits = |snapshot: &Value| snapshot["status"] == "waiting-approval";

    let run = host.create(&json!({ "workflowId": "doubts" })).await;
    let snapshot = host.shows(&run, waits).await;
    assert_eq!(snapshot["currentNodeId"], "boss");
    assert_eq!(snapshot["interrupt"]["kind"], "low-confidence");
    let seen = host.types(&run).await;
    assert!(!seen.contains(&"runOrchestrator.decided".to_owned()));
    let suspended = host.events(&run).await.pop().unwrap();
    let payload = &suspended["payload"];
    assert_eq!(payload["reason"], "low-confidence");
    assert_eq!(payload["agentId"], "core.tests.boss");
    assert_eq!(
        (&payload["threshold"], &payload["observed"]),
        (&json!(0.7), &json!(0.5))
    );
    // The pending decision would be taken again in every round.
    let other = json!({ "decision": { "kind": "terminate" } });
    host.settle(&run, other).await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    assert_eq!(host.snapshot(&run).await["status"], "completed");

    let run = host.create(&json!({ "workflowId": "guesses" })).await;
    let waits = |snapshot: &Value| snapshot["status"] == "waiting-input";
    let snapshot = host.shows(&run, waits).await;
    assert_eq!(snapshot["currentNodeId"], "go");
    assert_eq!(snapshot["childRuns"], Value::Null, "no worker runs");
    assert_eq!(snapshot["interrupt"]["kind"], "clarification");
    let question = &snapshot["interrupt"]["payload"]["data"]["questions"][0];
    assert_eq!(question["id"], "decision", "{snapshot}");
    let text = question["question"].as_str().unwrap();
    assert!(text.contains("helps") && text.contains("0.3"), "{text}");
    let discovery = host.get("/.well-known/openwop").await.json();
    let model = &discovery["multiAgent"]["executionModel"];
    assert_eq!(model["confidenceEscalationInterruptKind"], "clarification");
    // Version 2 would define the fate of an agent's memory, and there is none.
    assert_eq!(
        (&model["version"], model.get("confidenceEscalationFloor")),
        (&json!(1), None)
    );
    let seen = host.types(&run).await;
    let events = host.events(&run).await;
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind);
    let escalated = of("core.workflowChain.confidence-escalated").expect("it is escalated");
    let decided = of("runOrchestrator.decided").expect("it was decided");
    assert_eq!(escalated["causationId"], decided["eventId"]);
    assert!(!seen.contains(&"core.workflowChain.event".to_owned()));
    let accept = json!({ "answers": { "decision": "accept" } });
    host.settle(&run, accept).await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    assert_eq!(snapshot["childRuns"][0]["status"], "completed");
    replays_alike(&host, &run).await;
}

/// A child with an unknown node type is rejected, and its parent continues to its end.
#[tokio::test]
async fn a_child_this_engine_cannot_run_fails_its_node() {
    let host = Host::new().await;
    let calls = node(
        "call",
        "core.subWorkflow",
        json!({ "workflowId": "foreign" }),
    );
    let foreign = chain("foreign", &[node("n", "acme.unheard-of", json!({}))]);
    host.put(&[chain("calls", &[calls]), foreign]).await;
    let run = host.create(&json!({ "workflowId": "calls" })).await;
    let snapshot = host.shows(&run, |run| run["status"] == "failed").await;
    assert_eq!(
        snapshot["error"]["code"], "capability_required",
        "{snapshot}"
    );
    host.stop().await;
}

/// A config stored before the present rules fails cleanly where they reject it.
#[tokio::test]
async fn an_unchecked_dispatch_fails_and_starts_no_worker() {
    let host = Host::new().await;
    let plan = json!({ "mockDispatchPlan": [next(&["one", "two"])] });
    let join =
        json!({ "fanOutPolicy": "parallel", "joinPolicy": { "mode": "quorum", "quorum": 0 } });
    let mut writes = node(
        "w",
        "core.channelWrite",
        json!({
            "channel": "of-before", "value": 1, "reducer": "append", "ttlMs": "1h",
        }),
    );
    writes["name"] = json!("writes");
    let odd = chain("odd", &[writes]);
    host.has_stored(&supervised("team", plan, join)).await;
    host.has_stored(&odd).await;
    host.put(&["one", "two"].map(|id| chain(id, &[node("n", "core.noop", json!({}))])))
        .await;
    let run = host.create(&json!({ "workflowId": "team" })).await;
    let snapshot = host.shows(&run, |run| run["status"] == "failed").await;
    assert_eq!(snapshot["error"]["code"], "invalid_config", "{snapshot}");
    let children = host
        .get(&format!("/v1/runs?parentRunId={run}"))
        .await
        .json();
    assert_eq!(children["runs"], json!([]), "{children}");
    let run = host.completed(&json!({ "workflowId": "odd" })).await;
    assert_eq!(host.snapshot(&run).await["status"], "completed");
    host.stop().await;
}

//! Forking over HTTP: both modes, errors, comparing, and lineage.

use runtime::access::{Scope, Scopes};
use serde_json::{Value, json};

use crate::client::Request;
use crate::host::{Host, chain, node};
use crate::models;

/// Every event of a run.
async fn events(host: &Host, run: &str) -> Vec<Value> {
    let page = host.get(&format!("/v1/runs/{run}/events/poll")).await;
    let page = page.json();
    assert_eq!(page["isComplete"], true, "{page:#}");
    page["events"].as_array().unwrap().clone()
}

/// The content of an event without its run's id.
fn told(events: &[Value]) -> Vec<[Value; 4]> {
    let names = ["sequence", "type", "nodeId", "payload"];
    let told = |event: &Value| names.map(|name| event[name].clone());
    events.iter().map(told).collect()
}

async fn fork(host: &Host, run: &str, body: Value) -> Value {
    let answer = host.post(&format!("/v1/runs/{run}:fork"), &body).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()
}

fn behind(events: &[Value], kind: &str, node: &str) -> u64 {
    let found = events
        .iter()
        .find(|event| event["type"] == kind && event["nodeId"] == node);
    found.expect("such an event")["sequence"].as_u64().unwrap() + 1
}

#[tokio::test]
async fn a_replay_has_the_payloads_of_its_source() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let source = events(&host, &run).await;
    let mut seen = Vec::new();
    for from in [json!(null), json!(0), json!(4), json!(source.len() - 1)] {
        let forked = fork(&host, &run, json!({ "mode": "replay", "fromSeq": from })).await;
        assert_eq!(forked["sourceRunId"], run.as_str());
        assert_eq!(forked["mode"], "replay");
        assert_eq!(forked["status"], "completed");
        assert_eq!(forked["fromSeq"], from.as_u64().unwrap_or(0));
        let replay = forked["runId"].as_str().unwrap();
        assert!(replay.starts_with("run-") && replay != run);
        assert_eq!(
            forked["eventsUrl"],
            format!("/v1/runs/{replay}/events").as_str()
        );
        let replayed = events(&host, replay).await;
        assert_eq!(told(&replayed), told(&source));
        assert!(replayed.iter().all(|event| event["runId"] == replay));
        assert_ne!(replayed[0]["eventId"], source[0]["eventId"]);
        let snapshot = host.get(&format!("/v1/runs/{replay}")).await.json();
        assert_eq!(snapshot["forkedFrom"]["runId"], run.as_str());
        assert_eq!(snapshot["owner"]["tenant"], "acme");
        // It responds like any run that has ended.
        let cancelled = host
            .post(&format!("/v1/runs/{replay}/cancel"), &json!({}))
            .await;
        assert_eq!(
            (cancelled.status, &cancelled.json()["status"]),
            (200, &json!("completed"))
        );
        let paused = host
            .post(&format!("/v1/runs/{replay}:pause"), &json!({}))
            .await;
        assert_eq!(paused.refusal(409), "run_terminal");
        seen.push(replay.to_owned());
    }
    // A replay of a replay is the same again.
    let again = fork(&host, &seen[0], json!({ "mode": "replay" })).await;
    let again = events(&host, again["runId"].as_str().unwrap()).await;
    assert_eq!(told(&again), told(&source));
}

#[tokio::test]
async fn a_branch_continues_from_its_event_with_its_overlay() {
    let host = Host::new().await;
    let order = json!({
        "workflowId": "three", "tags": ["old"], "metadata": { "kept": 1, "changed": 1 },
        "configurable": { "model": "m" },
    });
    let run = host.completed(&order).await;
    let source = events(&host, &run).await;
    let at = behind(&source, "node.completed", "b");
    let overlay = json!({
        "tags": ["new"], "metadata": { "changed": 2 }, "configurable": { "temperature": 0.5 },
    });
    let body = json!({ "mode": "branch", "fromSeq": at, "runOptionsOverlay": overlay });
    let forked = fork(&host, &run, body).await;
    assert_eq!(
        (&forked["fromSeq"], &forked["mode"]),
        (&json!(at), &json!("branch"))
    );
    let branch = forked["runId"].as_str().unwrap();
    host.engine.settled(&branch.into()).await.unwrap();
    let events = events(&host, branch).await;
    let at = usize::try_from(at).unwrap();
    assert_eq!(told(&events[..at]), told(&source[..at]));
    assert_eq!(events.last().unwrap()["type"], "run.completed");
    let snapshot = host.get(&format!("/v1/runs/{branch}")).await.json();
    assert_eq!(snapshot["tags"], json!(["new"]));
    assert_eq!(snapshot["metadata"], json!({ "kept": 1, "changed": 2 }));
    assert_eq!(
        snapshot["configurable"],
        json!({ "model": "m", "temperature": 0.5 })
    );
    let untouched = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(untouched["tags"], json!(["old"]));
}

#[tokio::test]
async fn an_overlay_of_settings_changes_how_a_branch_is_driven() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let overlay = json!({ "configurable": { "recursionLimit": 2 } });
    let body = json!({ "mode": "branch", "fromSeq": 1, "runOptionsOverlay": overlay });
    let forked = fork(&host, &run, body).await;
    let branch = forked["runId"].as_str().unwrap();
    let ended = host.engine.settled(&branch.into()).await.unwrap();
    assert_eq!(ended.status().as_str(), "failed");
    let snapshot = host.get(&format!("/v1/runs/{branch}")).await.json();
    assert_eq!(snapshot["error"]["code"], "recursion_limit_exceeded");
    // The workflow's own schema applies, too.
    let run = host.completed(&json!({ "workflowId": "closed" })).await;
    let overlay = json!({ "configurable": { "other": 1 } });
    let body = json!({ "mode": "branch", "fromSeq": 1, "runOptionsOverlay": overlay });
    let refused = host.post(&format!("/v1/runs/{run}:fork"), &body).await;
    assert_eq!(refused.refusal(400), "validation_error");
}

#[tokio::test]
async fn forks_that_are_impossible_are_rejected_by_status() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let len = events(&host, &run).await.len();
    for (body, status, code) in [
        (json!({}), 400, "validation_error"),
        (json!({ "mode": "rewind" }), 400, "validation_error"),
        (json!({ "mode": "branch" }), 400, "validation_error"),
        (
            json!({ "mode": "branch", "fromSeq": -1 }),
            400,
            "validation_error",
        ),
        (
            json!({ "mode": "replay", "fromSeq": 1.5 }),
            400,
            "validation_error",
        ),
        (
            json!({ "mode": "replay", "runOptionsOverlay": { "tags": ["t"] } }),
            400,
            "validation_error",
        ),
        (
            json!({ "mode": "branch", "fromSeq": 1, "runOptionsOverlay": { "inputs": {} } }),
            400,
            "validation_error",
        ),
        (
            json!({ "mode": "branch", "fromSeq": 1, "runOptionsOverlay": { "tags": [""] } }),
            400,
            "validation_error",
        ),
        (
            json!({ "mode": "replay", "fromSeq": len + 1 }),
            422,
            "fork_beyond_log",
        ),
        (
            json!({ "mode": "replay", "fromSeq": len }),
            422,
            "fork_beyond_log",
        ),
        (
            json!({ "mode": "branch", "fromSeq": 1_000_000 }),
            422,
            "fork_beyond_log",
        ),
        (
            json!({ "mode": "branch", "fromSeq": len }),
            422,
            "fork_at_end",
        ),
    ] {
        let answer = host.post(&format!("/v1/runs/{run}:fork"), &body).await;
        assert_eq!(answer.refusal(status), code, "{body}");
        if status == 422 {
            assert_eq!(answer.json()["details"]["sourceRunId"], run.as_str());
        }
        if code == "fork_beyond_log" {
            let said = answer.json();
            assert_eq!(said["details"]["fromSeq"], body["fromSeq"]);
            assert_eq!(said["details"]["events"], len);
            let message = said["message"].as_str().unwrap();
            assert!(message.ends_with("use a lower number"), "{said}");
        }
    }
    let empty = json!({ "mode": "replay", "runOptionsOverlay": { "tags": [], "metadata": {} } });
    fork(&host, &run, empty).await;
    let replay = json!({ "mode": "replay" });
    let unknown = host.post("/v1/runs/run-none:fork", &replay).await;
    assert_eq!(unknown.refusal(404), "run_not_found");

    // Percent-encoded, the verb is the same.
    let answer = host.post(&format!("/v1/runs/{run}%3Afork"), &replay).await;
    assert_eq!(answer.status, 201);

    // An erased source is reported as erased; a fork of it survives.
    let forked = fork(&host, &run, replay.clone()).await;
    let store = host.engine.door().store();
    store.purge(&run.as_str().into(), "test").await.unwrap();
    let gone = host.post(&format!("/v1/runs/{run}:fork"), &replay).await;
    assert_eq!(gone.refusal(410), "run_expired");
    assert_eq!(gone.json()["details"]["sourceRunId"], run.as_str());
    fork(&host, forked["runId"].as_str().unwrap(), replay).await;
}

#[tokio::test]
async fn a_run_in_flight_is_forked_as_far_as_it_got() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let forked = fork(&host, &run, json!({ "mode": "branch", "fromSeq": 1 })).await;
    let branch = forked["runId"].as_str().unwrap().to_owned();
    let cancel = host
        .post(&format!("/v1/runs/{branch}/cancel"), &json!({}))
        .await;
    assert_eq!(cancel.status, 200);
    host.engine.settled(&branch.as_str().into()).await.unwrap();
    let source = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_ne!(source["status"], "cancelled", "the source goes on");
}

#[tokio::test]
async fn a_comparison_names_the_first_difference() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let twin = fork(&host, &run, json!({ "mode": "replay" })).await;
    let twin = twin["runId"].as_str().unwrap();
    for other in [&run, twin] {
        let diff = host
            .get(&format!("/v1/runs/{run}:diff?against={other}"))
            .await;
        let same = json!({
            "a": run, "b": other, "divergedAtSeq": null, "eventDiffs": [], "stateDiff": {},
        });
        assert_eq!(diff.json(), same);
    }

    let failed = host.completed(&json!({ "workflowId": "fails" })).await;
    let diff = host
        .get(&format!("/v1/runs/{run}:diff?against={failed}"))
        .await;
    let diff = diff.json();
    assert_eq!(diff["divergedAtSeq"], 0);
    let diffs = diff["eventDiffs"].as_array().unwrap();
    assert_eq!(
        (&diffs[0]["seq"], &diffs[0]["op"]),
        (&json!(0), &json!("changed"))
    );
    assert_eq!(diffs[0]["aEvent"]["runId"], run.as_str());
    assert_eq!(diffs[0]["bEvent"]["runId"], failed.as_str());
    let last = diffs.last().unwrap();
    assert_eq!(last["op"], "removed");
    assert!(last.get("bEvent").is_none());
    let status = json!({ "a": "completed", "b": "failed" });
    assert_eq!(diff["stateDiff"]["status"], status);
    assert!(diff.get("truncated").is_none());
    let turned = host
        .get(&format!("/v1/runs/{failed}:diff?against={run}"))
        .await;
    let turned = turned.json();
    assert_eq!(
        turned["eventDiffs"].as_array().unwrap().last().unwrap()["op"],
        "added"
    );

    let waiting = host.create(&json!({ "workflowId": "waits" })).await;
    let diff = host
        .get(&format!("/v1/runs/{run}:diff?against={waiting}"))
        .await;
    assert_eq!(diff.json()["truncated"], true);

    let unsaid = host.get(&format!("/v1/runs/{run}:diff")).await;
    assert_eq!(unsaid.refusal(400), "validation_error");
    for unknown in ["run-none", "no%20run"] {
        let path = format!("/v1/runs/{run}:diff?against={unknown}");
        assert_eq!(host.get(&path).await.refusal(404), "run_not_found");
    }
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let theirs = host.completed(&json!({ "workflowId": "three" })).await;
    let own = Request::new("POST", "/v1/runs").key(&stranger);
    let own = own.json(&json!({ "workflowId": "three" }));
    let own = own.send(host.address).await.json();
    let own = own["runId"].as_str().unwrap();
    let path = format!("/v1/runs/{own}:diff?against={theirs}");
    let answer = Request::new("GET", &path).key(&stranger);
    let answer = answer.send(host.address).await;
    assert_eq!(answer.refusal(404), "run_not_found");
}

#[tokio::test]
async fn ancestry_names_the_starter_of_a_run_and_its_inputs() {
    let host = Host::new().await;
    let calls = json!({
        "id": "call", "typeId": "core.subWorkflow", "name": "call",
        "position": { "x": 0, "y": 0 }, "config": { "workflowId": "three" }, "inputs": {},
    });
    let registered = host.post("/v1/workflows", &chain("calls", &[calls])).await;
    assert!(registered.status < 300, "{}", registered.json());
    let run = host.completed(&json!({ "workflowId": "calls" })).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap();

    let top = host.get(&format!("/v1/runs/{run}/ancestry")).await.json();
    let host_id = top["hostId"].clone();
    assert_eq!(
        top,
        json!({ "runId": run, "hostId": host_id, "parent": null })
    );
    let parent = json!({ "runId": run, "hostId": host_id, "cause": "core.subWorkflow" });
    let below = host.get(&format!("/v1/runs/{child}/ancestry")).await.json();
    assert_eq!(
        below,
        json!({ "runId": child, "hostId": host_id, "parent": parent })
    );

    // A fork has no parent.
    let forked = fork(&host, child, json!({ "mode": "replay" })).await;
    let forked = forked["runId"].as_str().unwrap();
    let of_fork = host
        .get(&format!("/v1/runs/{forked}/ancestry"))
        .await
        .json();
    assert_eq!(of_fork["parent"], Value::Null);
    let unknown = host.get("/v1/runs/run-none/ancestry").await;
    assert_eq!(unknown.refusal(404), "run_not_found");
}

#[tokio::test]
async fn equal_requests_with_a_key_make_one_fork() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let path = format!("/v1/runs/{run}:fork");
    let keyed = |body: &Value| {
        let request = Request::new("POST", &path).key(&host.key);
        let request = request.header("idempotency-key", "f").json(body);
        request.send(host.address)
    };
    let mark = |answer: &crate::client::Answer| {
        let mark = answer.header("openwop-idempotent-replay");
        mark.map(str::to_owned)
    };
    let body = json!({ "mode": "branch", "fromSeq": 3 });
    // Errors have no effect and store nothing.
    let wrong = keyed(&json!({ "mode": "branch" })).await;
    assert_eq!(wrong.refusal(400), "validation_error");
    assert_eq!(mark(&wrong).as_deref(), Some("false"));
    let (one, two) = tokio::join!(keyed(&body), keyed(&body));
    assert_eq!((one.status, two.status), (201, 201));
    assert_eq!(one.body, two.body);
    let branch = one.json()["runId"].as_str().unwrap().to_owned();
    host.engine.settled(&branch.as_str().into()).await.unwrap();
    let again = keyed(&body).await;
    assert_eq!(again.body, one.body, "as it was answered first");
    assert_eq!(mark(&again).as_deref(), Some("true"));
    let other = keyed(&json!({ "mode": "branch", "fromSeq": 4 })).await;
    assert_eq!(other.refusal(409), "idempotency_key_mismatch");
    let listed = host.get("/v1/runs").await.json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_replay_of_an_unfinished_run_reports_the_end_of_its_source() {
    let host = Host::new().await;
    let asks = node("asks", "core.approvalGate", json!({}));
    host.put(&[chain("asking", &[asks])]).await;
    let run = host.create(&json!({ "workflowId": "asking" })).await;
    host.shows(&run, |snapshot| snapshot["status"] == "waiting-approval")
        .await;
    let forked = fork(&host, &run, json!({ "mode": "replay" })).await;
    assert_eq!(forked["status"], "cancelled");
    let replayed = events(&host, forked["runId"].as_str().unwrap()).await;
    let [.., cancelled, ended] = &replayed[..] else {
        panic!("{replayed:?}");
    };
    for (event, kind) in [(cancelled, "node.cancelled"), (ended, "run.cancelled")] {
        assert_eq!(event["type"], kind);
        assert_eq!(event["payload"]["reason"], "replay_source_missing");
    }
}

#[tokio::test]
async fn a_replay_of_a_cancelled_run_fails_before_a_new_effect() {
    let host = Host::new().await;
    let wait = node("wait", "core.delay", json!({ "ms": 3_600_000 }));
    let config = json!({ "argv": ["touch", "never"] });
    let effect = node("effect", "runwright.process", config);
    host.offers(&chain("waits-then-acts", &[wait, effect]))
        .await;
    let run = host
        .create(&json!({ "workflowId": "waits-then-acts" }))
        .await;
    let cancel = format!("/v1/runs/{run}/cancel");
    assert_eq!(host.post(&cancel, &json!({})).await.status, 200);
    assert_eq!(host.ended(&run).await["status"], "cancelled");
    let forked = fork(&host, &run, json!({ "mode": "replay" })).await;
    assert_eq!(forked["status"], "failed");
    let replay = forked["runId"].as_str().unwrap();
    let failed = host.payload(replay, "node.failed").await;
    assert_eq!(failed["error"]["code"], "replay_source_missing");
    let told = events(&host, replay).await;
    let of_effect = told.iter().filter(|event| event["nodeId"] == "effect");
    let kinds: Vec<&Value> = of_effect.map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["node.started", "node.failed", "run.failed"]);
}

/// Its children run for the source, which is not disturbed.
#[tokio::test]
async fn a_replay_with_open_children_is_complete_on_response() {
    let host = Host::new().await;
    let gate = node("gate", "core.approvalGate", json!({ "title": "Go on?" }));
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "asks" }));
    host.put(&[chain("asks", &[gate]), chain("calls", &[call])])
        .await;
    let run = host.waiting(&json!({ "workflowId": "calls" })).await;
    let forked = fork(&host, &run, json!({ "mode": "replay" })).await;
    assert_eq!(forked["status"], "cancelled", "{forked}");
    let replay = forked["runId"].as_str().unwrap();
    let told = host.payload(replay, "run.cancelled").await;
    assert_eq!(told["reason"], "replay_source_missing");
    let snapshot = host.snapshot(&run).await;
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap();
    assert_eq!(host.snapshot(child).await["status"], "waiting-approval");
    host.settle(child, json!({ "action": "accept" })).await;
    assert_eq!(host.ended(&run).await["status"], "completed");
    assert_eq!(host.snapshot(replay).await["status"], "cancelled");
}

#[tokio::test]
async fn a_branch_from_amid_a_step_begins_before_it() {
    let host = Host::new().await;
    let config = json!({ "channel": "n", "value": 5 });
    let mut adds = chain("adds", &[node("add", "core.channelWrite", config)]);
    adds["channels"] = json!({ "n": { "reducer": "counter" } });
    host.put(&[adds]).await;
    let run = host.completed(&json!({ "workflowId": "adds" })).await;
    assert_eq!(host.types(&run).await[2], "channel.written");
    let forked = fork(&host, &run, json!({ "mode": "branch", "fromSeq": 3 })).await;
    assert_eq!(forked["fromSeq"], 2);
    let branch = forked["runId"].as_str().unwrap();
    host.ended(branch).await;
    let snapshot = host.snapshot(branch).await;
    assert_eq!(snapshot["channels"]["n"], 5, "{snapshot}");
    assert_eq!(snapshot["forkedFrom"]["fromSeq"], 2);
}

/// A workflow whose second step fails, and the event before which that step began.
async fn failed(host: &Host) -> (Value, String, u64) {
    let step = |expression: &str| {
        node(
            "step",
            "runwright.transform",
            json!({ "outputs": { "text": expression } }),
        )
    };
    let definition = chain(
        "mended",
        &[node("first", "core.noop", json!({})), step("1 / 0")],
    );
    host.put(std::slice::from_ref(&definition)).await;
    let run = host.completed(&json!({ "workflowId": "mended" })).await;
    assert_eq!(host.snapshot(&run).await["status"], "failed");
    let at = behind(&events(host, &run).await, "node.started", "step") - 1;
    let mut edited = definition;
    edited["nodes"][1] = step("'mended'");
    (edited, run, at)
}

#[tokio::test]
async fn a_branch_continues_with_an_edited_definition() {
    let host = Host::new().await;
    let (edited, run, at) = failed(&host).await;
    for from in [at, 0] {
        let body = json!({ "mode": "branch", "fromSeq": from, "definition": edited });
        let branch = fork(&host, &run, body).await;
        let branch = branch["runId"].as_str().expect("a run");
        let ended = host.ended(branch).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        assert_eq!(ended["nodeStates"]["step"]["outputs"]["text"], "mended");
        let followed = host.get(&format!("/v1/runs/{branch}/workflow")).await;
        assert_eq!(followed.json(), edited);
        let replay = fork(&host, branch, json!({ "mode": "replay" })).await;
        assert_eq!(replay["divergedAtSeq"], Value::Null, "{replay}");
        host.engine
            .door()
            .replay(&branch.into())
            .await
            .expect("decided again");
    }
    // The registered definition is unchanged.
    let kept = host.get("/v1/workflows/mended").await.json();
    assert_eq!(kept["nodes"][1]["config"]["outputs"]["text"], "1 / 0");
}

#[tokio::test]
async fn unfit_definitions_of_a_branch_are_rejected() {
    let host = Host::new().await;
    let (edited, run, at) = failed(&host).await;
    let path = format!("/v1/runs/{run}:fork");
    let body = |definition: &Value, mode: &str| json!({ "mode": mode, "fromSeq": at, "definition": definition });
    let mut renamed = edited.clone();
    renamed["id"] = json!("other");
    let mut retyped = edited.clone();
    retyped["nodes"][0]["typeId"] = json!("core.identity");
    for definition in [renamed, retyped] {
        let refused = host.post(&path, &body(&definition, "branch")).await;
        assert_eq!(refused.refusal(422), "fork_definition_unfit");
    }
    let mut broken = edited.clone();
    broken["nodes"][1]["typeId"] = json!("no.such.type");
    let refused = host.post(&path, &body(&broken, "branch")).await;
    assert_eq!(refused.status, 400, "{}", refused.json());
    let refused = host.post(&path, &body(&json!("text"), "branch")).await;
    assert_eq!(refused.refusal(400), "validation_error");
    let refused = host.post(&path, &body(&edited, "replay")).await;
    assert_eq!(refused.refusal(400), "validation_error");
    let scopes = [Scope::RunsCreate, Scope::RunsRead].into();
    let key = host.key_of("acme", None, Scopes::Only(scopes)).await;
    let request = Request::new("POST", &path).key(&key);
    let request = request.json(&body(&edited, "branch"));
    let refused = request.send(host.address).await;
    assert_eq!(refused.refusal(403), "insufficient_scope");
}

#[tokio::test]
async fn a_cost_limit_is_checked_for_the_definition_of_the_branch() {
    let price = "[provider.p.price.m-1]\ninput = 10.0\noutput = 100.0";
    let host = models::host(models::models(price, models::peer())).await;
    let asks = |model: &str| {
        let config = json!({ "prompt": "When?", "model": model });
        let mut definition = chain("asks", &[node("ask", "core.ai.chatCompletion", config)]);
        definition["version"] = json!(model);
        definition
    };
    let limit = json!({ "budget": { "maxCostUsd": 1 } });
    let branch = |definition: &Value, overlay: &Value| {
        json!({ "mode": "branch", "fromSeq": 0,
        "definition": definition, "runOptionsOverlay": { "configurable": overlay } })
    };
    // The source's model has a price, the branch's has none.
    host.put(&[asks("m-1")]).await;
    let run = json!({ "workflowId": "asks", "configurable": limit });
    let run = host.completed(&run).await;
    for overlay in [json!({}), limit.clone()] {
        let body = branch(&asks("m-unpriced"), &overlay);
        let refused = host.post(&format!("/v1/runs/{run}:fork"), &body).await;
        assert_eq!(refused.refusal(400), "validation_error", "{overlay}");
        assert!(refused.json().to_string().contains("has no price"));
    }
    // And the other way round.
    host.put(&[asks("m-unpriced")]).await;
    let run = host.completed(&json!({ "workflowId": "asks" })).await;
    let forked = fork(&host, &run, branch(&asks("m-1"), &limit)).await;
    let ended = host.ended(forked["runId"].as_str().expect("a run")).await;
    assert_eq!(ended["status"], "completed", "{ended}");
}

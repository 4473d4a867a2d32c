//! Concurrent workers of one decision, over HTTP.

use serde_json::{Value, json};

use crate::children::{next, supervised};
use crate::client::{Answer, Request};
use crate::host::{Host, chain, node};

/// A worker that asks a question before it returns its name.
fn asks(id: &str) -> Value {
    let gate = node("gate", "core.approvalGate", json!({ "title": id }));
    let mut worker = chain(id, &[gate]);
    worker["variables"] = json!([{ "name": "said", "type": "string", "defaultValue": id }]);
    worker
}

fn team(policy: Value) -> Value {
    let plan = json!({ "mockDispatchPlan": [next(&["north", "south", "west"])] });
    let mut config = json!({ "fanOutPolicy": "parallel", "outputMapping": { "last": "said" } });
    for (key, value) in policy.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let mut team = supervised("team", plan, config);
    team["variables"] = json!([{ "name": "last", "type": "string" }]);
    team
}

/// The run of a worker, by its workflow.
fn of(snapshot: &Value, workflow: &str) -> String {
    let mut children = snapshot["childRuns"].as_array().unwrap().iter();
    let child = children.find(|child| child["workflowId"] == workflow);
    child.unwrap_or_else(|| panic!("no {workflow} in {snapshot}"))["runId"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn begun(policy: Value) -> (Host, String, Value) {
    let host = Host::new().await;
    let workers = [asks("north"), asks("south"), asks("west")];
    host.put(&workers).await;
    host.put(&[team(policy)]).await;
    let run = host.create(&json!({ "workflowId": "team" })).await;
    // All of them wait, and so does their join.
    let snapshot = host
        .shows(&run, |shown| shown["status"] == "waiting-approval")
        .await;
    assert_eq!(snapshot["childRuns"].as_array().map(Vec::len), Some(3));
    (host, run, snapshot)
}

async fn accept(host: &Host, run: &str) {
    host.until(run, |status| status == "waiting-approval").await;
    let answer = host
        .answer(run, "gate", json!({ "action": "accept" }))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    host.ended(run).await;
}

#[tokio::test]
async fn all_run_at_once_and_are_joined_in_order_of_their_end() {
    let (host, run, waiting) = begun(json!({})).await;
    for worker in ["west", "south", "north"] {
        accept(&host, &of(&waiting, worker)).await;
    }
    let snapshot = host.ended(&run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    assert_eq!(
        snapshot["variables"]["last"], "north",
        "the last one to end"
    );
    let fanned = host.payload(&run, "core.dispatch.fanOut").await;
    let expected = json!({
        "fanOutPolicy": "parallel", "childCount": 3, "maxConcurrency": 128, "joinMode": "wait-all",
    });
    assert_eq!(fanned, expected);
    let joined = host.payload(&run, "core.dispatch.join").await;
    assert_eq!(joined["joinOutcome"], "satisfied");
    let merged = ["west", "south", "north"].map(|worker| of(&waiting, worker));
    assert_eq!(joined["mergeOrder"], json!(merged));
    // Each was created once, and its end was recorded once.
    let events = host.events(&run).await;
    for child in &merged {
        for (kind, field) in [
            ("node.dispatched", "childRunId"),
            ("runwright.child.settled", "childRunId"),
        ] {
            let of_it = events
                .iter()
                .filter(|event| event["type"] == kind && event["payload"][field] == child.as_str());
            assert_eq!(of_it.count(), 1, "{kind} of {child}");
        }
    }
    // A replay has the same result, and creates nothing.
    let path = format!("/v1/runs/{run}:fork");
    let replay = host.post(&path, &json!({ "mode": "replay" })).await.json();
    assert_eq!(replay.get("divergedAtSeq"), None, "{replay}");
    let children = host
        .get(&format!("/v1/runs?parentRunId={run}"))
        .await
        .json();
    assert_eq!(children["runs"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn the_first_is_enough_and_the_others_are_cancelled() {
    let (host, run, waiting) = begun(json!({ "joinPolicy": { "mode": "first" } })).await;
    accept(&host, &of(&waiting, "south")).await;
    let snapshot = host.ended(&run).await;
    assert_eq!(snapshot["variables"]["last"], "south");
    for worker in ["north", "west"] {
        let child = of(&waiting, worker);
        let ended = host.ended(&child).await;
        assert_eq!(ended["status"], "cancelled");
        let told = host.payload(&child, "run.cancelled").await;
        assert_eq!(told["reason"], "parent-cancelled");
        assert_eq!(told["parentRunId"], run.as_str());
        let late = host
            .answer(&child, "gate", json!({ "action": "accept" }))
            .await;
        assert_eq!(late.refusal(410), "interrupt_gone");
        let phases = host.phases(&run, worker).await;
        let expected = ["dispatch.began", "dispatch.succeeded", "child.cancelled"];
        assert_eq!(phases, expected, "of {worker}");
    }
    // The parent's log may have ended before theirs: it shows their states nevertheless.
    let stands = |shown: &Value| -> Vec<Value> {
        let children = shown["childRuns"].as_array().unwrap().iter();
        children.map(|child| child["status"].clone()).collect()
    };
    let expected = ["cancelled", "completed", "cancelled"];
    assert_eq!(stands(&host.snapshot(&run).await), expected);
    let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
    assert_eq!(stands(&bundle.json()["run"]), expected);
}

/// A parent with a question in parallel to its child, once both wait; and the child.
async fn outlived(config: Value) -> (Host, String, String) {
    let host = Host::new().await;
    let mut call = config;
    call["workflowId"] = json!("north");
    let mut parent = chain("parent", &[node("call", "core.subWorkflow", call)]);
    let other = node("other", "core.approvalGate", json!({}));
    parent["nodes"].as_array_mut().unwrap().push(other);
    host.put(&[asks("north"), parent]).await;
    let run = host.create(&json!({ "workflowId": "parent" })).await;
    let waits = |shown: &Value| shown["childRuns"][0]["status"] == "waiting-approval";
    let child = of(&host.shows(&run, waits).await, "north");
    (host, run, child)
}

/// Reads a resource again with its known tag.
async fn known(host: &Host, path: &str, tag: &str) -> Answer {
    let request = Request::new("GET", path).key(&host.key);
    request
        .header("if-none-match", tag)
        .send(host.address)
        .await
}

async fn child_of(host: &Host, run: &str) -> Value {
    host.snapshot(run).await["childRuns"][0]["status"].clone()
}

#[tokio::test]
async fn an_ended_parent_shows_the_status_of_its_child() {
    // The parent does not wait for it.
    let nobody = json!({ "waitForCompletion": false });
    let (host, run, child) = outlived(nobody).await;
    let accepted = json!({ "action": "accept" });
    assert_eq!(host.answer(&run, "other", accepted).await.status, 200);
    assert_eq!(host.ended(&run).await["status"], "completed");
    let path = format!("/v1/runs/{run}");
    let first = host.get(&path).await;
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(child_of(&host, &run).await, "waiting-approval");
    let again = known(&host, &path, &tag).await;
    assert_eq!(again.status, 304);
    accept(&host, &child).await;
    assert_eq!(child_of(&host, &run).await, "completed");
    let again = known(&host, &path, &tag).await;
    assert_eq!(again.status, 200, "the same log, another snapshot");

    // It continues without its parent.
    let (host, run, child) = outlived(json!({ "propagateCancellation": false })).await;
    let cancelled = host
        .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    assert_eq!(cancelled.status, 200);
    assert_eq!(host.ended(&run).await["status"], "cancelled");
    assert_eq!(child_of(&host, &run).await, "waiting-approval");
    accept(&host, &child).await;
    assert_eq!(child_of(&host, &run).await, "completed");

    // Its parent fails by another branch.
    let (host, run, child) = outlived(json!({})).await;
    let reject = json!({ "action": "reject" });
    assert_eq!(host.answer(&run, "other", reject).await.status, 200);
    assert_eq!(host.ended(&run).await["status"], "failed");
    assert_eq!(host.ended(&child).await["status"], "cancelled");
    assert_eq!(child_of(&host, &run).await, "cancelled");
}

#[tokio::test]
async fn contradictory_policies_are_rejected_at_registration() {
    let host = Host::new().await;
    for policy in [
        json!({ "joinPolicy": { "mode": "quorum" } }),
        json!({ "joinPolicy": { "mode": "any" } }),
        json!({ "maxConcurrency": 0 }),
        json!({ "fanOutPolicy": "sequential", "joinPolicy": {} }),
    ] {
        let answer = host.post("/v1/workflows", &team(policy.clone())).await;
        assert_eq!(answer.refusal(400), "validation_error", "{policy}");
    }
    let discovery = host.get("/.well-known/openwop").await.json();
    assert_eq!(discovery["dispatch"]["fanOutSupported"], true);
    let modes = json!(["collect", "fail-fast", "absorb"]);
    assert_eq!(discovery["dispatch"]["onChildFailureModes"], modes);
    let orchestrator = json!({ "supported": true, "fanOutSupported": true });
    assert_eq!(discovery["orchestrator"], orchestrator);
    assert_eq!(discovery["dispatch"]["maxFanOut"], 128);
}

//! What is said about runs, over HTTP.

use kernel::audit::{AuditAction, AuditEvent};
use runtime::access::{Scopes, trail};
use serde_json::{Value, json};

use crate::client::Request;
use crate::host::Host;

async fn listed(host: &Host, run: &str) -> Vec<Value> {
    let answer = host.get(&format!("/v1/runs/{run}/annotations")).await;
    answer.json()["annotations"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_is_said_of_a_run_that_ended_is_kept_beside_its_log() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let path = format!("/v1/runs/{run}/annotations");
    assert_eq!(host.get(&path).await.json(), json!({ "annotations": [] }));
    let events = host.get(&format!("/v1/runs/{run}/events/poll")).await;
    let mut said = Vec::new();
    for body in [
        json!({ "signal": { "kind": "rating", "rating": 4 }, "note": "nearly" }),
        json!({ "signal": { "kind": "flag" }, "target": { "nodeId": "b" } }),
        json!({ "signal": { "kind": "label", "label": "slow" }, "target": { "eventId": format!("{run}.3") } }),
        json!({ "signal": { "kind": "correction", "correction": "say it so" }, "target": {} }),
    ] {
        let answer = host.post(&path, &body).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        let annotation = answer.json();
        let mut target = body.get("target").cloned().unwrap_or(json!({}));
        target["runId"] = json!(run);
        assert_eq!(annotation["target"], target);
        assert_eq!(annotation["signal"], body["signal"]);
        assert_eq!(annotation["actor"], json!({ "principalRef": "somebody" }));
        assert_eq!(annotation.get("note"), body.get("note"));
        said.push(annotation);
    }
    assert_eq!(listed(&host, &run).await, said);
    let after = host.get(&format!("/v1/runs/{run}/events/poll")).await;
    assert_eq!(after.body, events.body, "the log is what it was");

    // A fork begins without any; the trail tells of each.
    let forked = host
        .post(
            &format!("/v1/runs/{run}:fork"),
            &json!({ "mode": "replay" }),
        )
        .await;
    let replay = forked.json()["runId"].as_str().unwrap().to_owned();
    assert!(listed(&host, &replay).await.is_empty());
    let store = host.engine.door().store();
    trail::deliver(&**store).await.unwrap();
    let told = trail::read(&**store, &"acme".into(), 0, 1_000)
        .await
        .unwrap();
    let told = |action: AuditAction| {
        let of_action = told.iter().filter(|event| {
            matches!(
                &event.body,
                AuditEvent::Recorded(entry)
                    if entry.action == action && entry.by.principal == "somebody"
            )
        });
        of_action.count()
    };
    assert_eq!(told(AuditAction::RunAnnotated), said.len());
    assert_eq!(told(AuditAction::RunForked), 1);
}

#[tokio::test]
async fn what_does_not_fit_is_refused() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let path = format!("/v1/runs/{run}/annotations");
    let flag = json!({ "kind": "flag" });
    for body in [
        json!({}),
        json!({ "signal": {} }),
        json!({ "signal": { "kind": "praise" } }),
        json!({ "signal": { "kind": "rating" } }),
        json!({ "signal": { "kind": "rating", "rating": 0 } }),
        json!({ "signal": { "kind": "rating", "rating": 6 } }),
        json!({ "signal": { "kind": "rating", "rating": 2.5 } }),
        json!({ "signal": { "kind": "label" } }),
        json!({ "signal": { "kind": "label", "label": "x".repeat(257) } }),
        json!({ "signal": { "kind": "correction", "correction": 5 } }),
        json!({ "signal": { "kind": "flag", "other": 1 } }),
        json!({ "signal": flag, "other": 1 }),
        json!({ "signal": flag, "note": "" }),
        json!({ "signal": flag, "target": { "runId": run } }),
        json!({ "signal": flag, "target": { "nodeId": "nowhere" } }),
        json!({ "signal": flag, "target": { "eventId": format!("{run}.99") } }),
        json!({ "signal": flag, "target": { "eventId": "run-other.1" } }),
    ] {
        let answer = host.post(&path, &body).await;
        assert_eq!(answer.refusal(400), "validation_error", "{body}");
    }
    assert!(listed(&host, &run).await.is_empty());
    let body = json!({ "signal": flag });
    let unknown = host.post("/v1/runs/run-none/annotations", &body).await;
    assert_eq!(unknown.refusal(404), "run_not_found");
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let foreign = Request::new("POST", &path).key(&stranger).json(&body);
    assert_eq!(
        foreign.send(host.address).await.refusal(404),
        "run_not_found"
    );
    let once = |body: Value| {
        let request = Request::new("POST", &path).key(&host.key);
        let request = request.header("idempotency-key", "a").json(&body);
        request.send(host.address)
    };
    let (first, again) = (once(body.clone()).await, once(body).await);
    assert_eq!((first.status, &first.body), (201, &again.body));
    assert_eq!(listed(&host, &run).await.len(), 1);
}

#[tokio::test]
async fn words_that_look_like_credentials_are_not_kept_and_notes_go_with_their_run() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let canary = format!("sk-{}", "a1B2c3D4".repeat(5));
    let path = format!("/v1/runs/{run}/annotations");
    let body = json!({
        "signal": { "kind": "correction", "correction": format!("use {canary}") },
        "note": format!("not {canary}"),
    });
    let answer = host.post(&path, &body).await;
    assert_eq!(answer.status, 201);
    let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
    for shown in [answer, host.get(&path).await, bundle] {
        let text = String::from_utf8_lossy(&shown.body).into_owned();
        assert!(
            text.contains("[REDACTED") && !text.contains(&canary),
            "{text}"
        );
    }
    let supervisor = host.supervisor();
    let door = host.engine.door();
    runtime::erase::erase(door, &supervisor, &run.as_str().into(), "test")
        .await
        .unwrap();
    assert_eq!(host.get(&path).await.refusal(410), "run_expired");
    assert_eq!(host.post(&path, &body).await.refusal(410), "run_expired");
    let notes = kernel::notes::Notes::stream(&run.as_str().into());
    let grave = door.store().tombstone(&notes).await.unwrap();
    assert!(grave.is_some(), "what was said is gone, too");
}

//! Annotations over HTTP.

use kernel::audit::{AuditAction, AuditEvent};
use runtime::access::{Scopes, trail};
use serde_json::{Value, json};

use crate::client::{Conn, Request};
use crate::host::Host;

async fn listed(host: &Host, run: &str) -> Vec<Value> {
    let answer = host.get(&format!("/v1/runs/{run}/annotations")).await;
    answer.json()["annotations"].as_array().unwrap().clone()
}

#[tokio::test]
async fn notes_on_an_ended_run_are_kept_next_to_its_log() {
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

    // A fork begins without annotations; the trail records each.
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
async fn fields_of_another_signal_kind_are_checked_and_dropped() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let path = format!("/v1/runs/{run}/annotations");
    for (signal, kept) in [
        (
            json!({ "kind": "flag", "rating": 1 }),
            json!({ "kind": "flag" }),
        ),
        (
            json!({ "kind": "rating", "rating": 4, "label": "slow", "correction": "so" }),
            json!({ "kind": "rating", "rating": 4 }),
        ),
    ] {
        let answer = host.post(&path, &json!({ "signal": signal })).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        assert_eq!(answer.json()["signal"], kept);
    }
    for (signal, place) in [
        (json!({ "kind": "flag", "rating": 9 }), "/signal/rating"),
        (json!({ "kind": "flag", "label": 9 }), "/signal/label"),
        (
            json!({ "kind": "label", "label": "x", "correction": 9 }),
            "/signal/correction",
        ),
    ] {
        let answer = host.post(&path, &json!({ "signal": signal })).await;
        assert_eq!(answer.refusal(400), "validation_error");
        let text = answer.json().to_string();
        assert!(text.contains(place), "{text}");
    }
}

#[tokio::test]
async fn invalid_signals_are_rejected() {
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
async fn credential_like_words_are_dropped_and_notes_go_with_runs() {
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

/// Opens a stream and reads its head.
async fn open(host: &Host, run: &str, query: &str) -> Conn {
    let mut conn = Conn::to(host.address).await;
    let request = Request::new("GET", &format!("/v1/runs/{run}/events{query}"));
    conn.send(&request.key(&host.key).bytes()).await;
    assert_eq!(conn.head().await.unwrap().0, 200);
    conn
}

/// The blocks of the next chunk of a stream that has any.
async fn blocks(conn: &mut Conn) -> Option<Vec<String>> {
    loop {
        let text = String::from_utf8(conn.chunk().await?).unwrap();
        let blocks = text
            .split("\n\n")
            .filter(|it| !it.is_empty() && !it.starts_with(':'));
        let blocks: Vec<String> = blocks.map(str::to_owned).collect();
        if !blocks.is_empty() {
            return Some(blocks);
        }
    }
}

#[tokio::test]
async fn subscribers_of_a_run_receive_its_notes() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let path = format!("/v1/runs/{run}/annotations");
    let say = async |label: &str| {
        let body = json!({ "signal": { "kind": "label", "label": label } });
        host.post(&path, &body).await.json()
    };
    say("before anybody listened").await;
    let modes = [
        "?streamMode=debug",
        "",
        "?streamMode=values",
        "?streamMode=updates,messages",
        "?bufferMs=5000",
    ];
    let mut open_streams = Vec::new();
    for mode in modes {
        open_streams.push(open(&host, &run, mode).await);
    }
    let mut silent = open(&host, &run, "?streamMode=messages").await;
    // Each stream has caught up once it has sent something new.
    let mut logged: Vec<u64> = Vec::new();
    for label in ["one", "two"] {
        let said = say(label).await;
        for (conn, mode) in open_streams.iter_mut().zip(modes) {
            let told = loop {
                let blocks = blocks(conn).await.expect("it is open");
                let (notes, events): (Vec<_>, Vec<_>) = (blocks.into_iter())
                    .partition(|block| block.starts_with("event: run.annotated\n"));
                if mode == "?streamMode=debug" {
                    logged.extend(events.iter().map(|block| id(block)));
                }
                if !notes.is_empty() {
                    break notes;
                }
            };
            let expected = format!("event: run.annotated\ndata: {said}");
            assert_eq!(told, [expected], "{mode}");
        }
    }
    let reason = json!({ "reason": "enough" });
    host.post(&format!("/v1/runs/{run}/cancel"), &reason).await;
    while let Some(blocks) = blocks(&mut open_streams[0]).await {
        logged.extend(blocks.iter().map(|block| id(block)));
    }
    let whole: Vec<u64> = (0..logged.len() as u64).collect();
    assert_eq!(logged, whole, "no gap, nothing twice");
    assert!(blocks(&mut silent).await.is_none());

    // A reconnecting client continues in the log; earlier annotations are in the list.
    let request = Request::new("GET", &format!("/v1/runs/{run}/events?streamMode=debug"));
    let request = request.key(&host.key).header("last-event-id", "0");
    let again = request.send(host.address).await;
    let text = String::from_utf8(again.body).unwrap();
    assert!(!text.contains("run.annotated"), "{text}");
    assert!(text.starts_with("id: 1\n"), "{text}");
    assert_eq!(listed(&host, &run).await.len(), 3);
    host.stop().await;
}

fn id(block: &str) -> u64 {
    let line = block.lines().find_map(|line| line.strip_prefix("id: "));
    line.unwrap_or_else(|| panic!("no id: {block}"))
        .parse()
        .unwrap()
}

//! Streams that are idle, slow or stalled, or whose credential has ended.

use std::time::Duration;

use kernel::audit::Actor;
use kernel::ids::{KeyId, TenantId};
use runtime::access::{ApiKeys, Issued, NewKey, Scopes};
use serde_json::json;
use server::Limits;

use crate::client::{Conn, DEADLINE, Request};
use crate::events::{frames, stream};
use crate::host::{Host, chain};

/// Opens a stream and reads its head.
async fn open(host: &Host, key: &str, run: &str, query: &str) -> Conn {
    let mut conn = Conn::to(host.address).await;
    let request = Request::new("GET", &format!("/v1/runs/{run}/events{query}"));
    conn.send(&request.key(key).bytes()).await;
    assert_eq!(conn.head().await.expect("a head").0, 200);
    conn
}

/// A run whose snapshots together exceed the system's buffers for an unread stream.
async fn large(host: &Host) -> String {
    let three = host.get("/v1/workflows/three").await.json();
    let nodes: Vec<_> = (0..12)
        .map(|n| {
            let mut node = three["nodes"][0].clone();
            node["id"] = json!(format!("n{n}"));
            node
        })
        .collect();
    let put = host.post("/v1/workflows", &chain("large", &nodes)).await;
    assert_eq!(put.status, 201, "{}", put.json());
    let inputs = json!({ "text": "x".repeat(1_500_000) });
    let order = json!({ "workflowId": "large", "inputs": inputs });
    host.create(&order).await
}

#[tokio::test]
async fn an_idle_stream_says_that_it_is_alive() {
    let host = Host::with(Limits {
        heartbeat: Duration::from_millis(20),
        ..Limits::default()
    })
    .await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let mut conn = open(&host, &host.key, &run, "").await;
    assert_eq!(frames(&conn.chunk().await.unwrap())[0].id, 0);
    for _ in 0..3 {
        let chunk = conn.chunk().await.expect("a sign of life");
        assert_eq!(chunk, b":keepalive\n\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_reads_late_gets_everything() {
    let host = Host::new().await;
    let run = large(&host).await;
    let query = "?streamMode=values";
    let mut conn = open(&host, &host.key, &run, query).await;
    // Nothing is read until the run is over: the system's buffers are full long before.
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = conn.chunk().await {
        bytes.extend(chunk);
    }
    let late = frames(&bytes);
    let quick = stream(&host, &run, query, None).await;
    assert!(bytes.len() > 30_000_000, "{}", bytes.len());
    // Both saw the run from its first event on; the states between are the same.
    assert_eq!(late.len(), quick.len());
    for (late, quick) in late.iter().zip(&quick) {
        assert_eq!((late.id, &late.data), (quick.id, &quick.data));
    }
    assert_eq!(late.last().unwrap().data["payload"]["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_reads_nothing_is_given_up() {
    let host = Host::with(Limits {
        stall_time: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let run = large(&host).await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let mut conn = open(&host, &host.key, &run, "?streamMode=values").await;
    let gone = async {
        loop {
            let metrics = Request::new("GET", "/metrics").send(host.address).await;
            let metrics = String::from_utf8(metrics.body).unwrap();
            if metrics
                .lines()
                .any(|line| line == "runwright_http_streams 0")
            {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("it ends");
    // The sent bytes arrive; the rest is missing, and the end is not marked as one.
    let mut bytes = Vec::new();
    while let Some(chunk) = conn.chunk().await {
        bytes.extend(chunk);
    }
    assert!(bytes.len() < 30_000_000, "{}", bytes.len());
}

/// A key of tenant `acme` that expires after a while.
async fn key(host: &Host, life: Option<Duration>) -> Issued {
    let door = host.engine.door();
    let new = NewKey {
        principal: None,
        workspace: None,
        scopes: Scopes::Everything,
        groups: Default::default(),
        roles: Default::default(),
        name: None,
        expires_at: life.map(|life| door.store().now().plus(life)),
    };
    let keys = ApiKeys::new(door.clone());
    let (tenant, by) = (TenantId::new("acme"), Actor::operator());
    keys.create(&tenant, new, &by).await.expect("a key")
}

async fn revoke(host: &Host, key: &KeyId) {
    let keys = ApiKeys::new(host.engine.door().clone());
    let (tenant, by) = (TenantId::new("acme"), Actor::operator());
    let revoked = keys.revoke(&tenant, key, None, &by).await;
    revoked.expect("revoked");
}

fn watchful() -> Limits {
    Limits {
        recheck: Duration::from_millis(50),
        ..Limits::default()
    }
}

#[tokio::test]
async fn a_stream_and_a_held_poll_end_when_their_key_is_revoked() {
    let host = Host::with(watchful()).await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let key = key(&host, None).await;
    let mut conn = open(&host, key.token.reveal(), &run, "?streamMode=debug").await;
    let seen = frames(&conn.chunk().await.unwrap()).len();
    let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence=1000");
    let held = tokio::spawn(
        Request::new("GET", &path)
            .key(key.token.reveal())
            .send(host.address),
    );
    revoke(&host, key.token.key()).await;
    assert_eq!(conn.chunk().await, None, "it ends in order, saying nothing");
    assert_eq!(held.await.unwrap().refusal(401), "key_revoked");
    // It does not see later events; others do.
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let all = stream(&host, &run, "?streamMode=debug", None).await;
    assert!(all.len() > seen);
}

#[tokio::test]
async fn a_stream_ends_when_its_key_expires() {
    let host = Host::with(watchful()).await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let key = key(&host, Some(Duration::from_secs(3))).await;
    let mut conn = open(&host, key.token.reveal(), &run, "").await;
    assert!(conn.chunk().await.is_some());
    assert_eq!(conn.chunk().await, None);
}

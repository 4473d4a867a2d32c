//! Many clients at once.

use std::time::Duration;

use serde_json::json;
use server::Limits;
use tokio::task::JoinSet;

use crate::client::{Conn, Request};
use crate::host::Host;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clients_at_once_are_all_served() {
    let host = Host::new().await;
    let clients = testkit::seeds(200, 1_000).end;
    let mut sent = JoinSet::new();
    for n in 0..clients {
        let (address, key) = (host.address, host.key.clone());
        sent.spawn(async move {
            let mut conn = Conn::to(address).await;
            let create = Request::new("POST", "/v1/runs")
                .key(&key)
                .header("idempotency-key", &format!("client-{n}"))
                .json(&json!({ "workflowId": "three" }));
            conn.send(&create.bytes()).await;
            let created = conn.answer().await.expect("an answer");
            assert_eq!(created.status, 201, "{}", created.json());
            let run = created.json()["runId"].as_str().unwrap().to_owned();
            let mut last = None;
            loop {
                let cursor =
                    last.map_or_else(String::new, |seq: u64| format!("&lastSequence={seq}"));
                let path = format!("/v1/runs/{run}/events/poll?timeout=30{cursor}");
                conn.send(&Request::new("GET", &path).key(&key).bytes())
                    .await;
                let page = conn.answer().await.expect("a page");
                assert_eq!(page.status, 200, "{}", page.json());
                let page = page.json();
                last = page["lastEventSeq"].as_u64();
                if page["isComplete"] == true {
                    assert_eq!(page["runStatus"], "completed");
                    return run;
                }
            }
        });
    }
    let mut runs = sent.join_all().await;
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len() as u64, clients);
}

#[tokio::test]
async fn a_connection_over_the_limit_gets_an_error() {
    let limits = Limits {
        connections: 1,
        grace: Duration::from_millis(100),
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let mut first = Conn::to(host.address).await;
    first.send(&Request::new("GET", "/healthz").bytes()).await;
    assert_eq!(first.answer().await.unwrap().status, 200);
    let answer = Request::new("GET", "/healthz").send(host.address).await;
    assert_eq!(answer.refusal(503), "service_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

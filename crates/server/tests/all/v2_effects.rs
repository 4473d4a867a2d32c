//! The ledger of effects of OpenWOP 2, and the keys that the receivers of effects get.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::client::Request;
use crate::host::{Host, chain, node};
use crate::receiver::Receiver;
use crate::v2::{at, create, get, post};

/// A host whose workflow `pay` posts twice to a receiver, which answers by these statuses; 0 never
/// answers.
async fn paying(statuses: &'static [u16], headers: Value) -> (Host, Receiver) {
    let next = Arc::new(AtomicUsize::new(0));
    let receiver = Receiver::answering(move |_| {
        let n = next.fetch_add(1, Ordering::SeqCst).min(statuses.len() - 1);
        Some((statuses[n], String::new())).filter(|(status, _)| *status != 0)
    })
    .await;
    let host = Host::asking(&[receiver.address.to_string()]).await;
    let mut charge = node(
        "charge",
        "runwright.http",
        json!({
            "method": "POST", "url": receiver.url(), "repeat": "repeatable", "headers": headers,
        }),
    );
    charge["settings"] = json!({ "retry": { "maxRetries": 2, "initialDelayMs": 1 } });
    charge["inputs"] = json!({ "order": { "type": "variable", "variableName": "order" } });
    let look = node("look", "runwright.http", json!({ "url": receiver.url() }));
    let begin = node("begin", "core.noop", json!({}));
    let mut definition = chain("pay", &[begin, charge, look]);
    definition["variables"] = json!([{ "name": "order", "type": "string", "required": true }]);
    let put = Request::new("POST", "/v1/workflows").key(&host.key);
    let put = put.json(&definition).send(host.address).await;
    assert_eq!(put.status, 201, "{}", put.json());
    (host, receiver)
}

async fn pay(host: &Host) -> String {
    let order = json!({ "workflowId": "pay", "inputs": { "order": "order-7" } });
    create(host, &order).await
}

async fn completed(host: &Host, run: &str) {
    let id = run.strip_prefix("acme/").unwrap();
    host.engine.settled(&id.into()).await.unwrap();
    let snapshot = get(host, &at(run)).await.json();
    assert_eq!(snapshot["status"], "completed", "{snapshot:#}");
}

/// The rows of a run's ledger, each checked against the closed schema.
async fn effects(host: &Host, run: &str) -> Vec<Value> {
    let answer = get(host, &format!("{}/effects", at(run))).await;
    let ledger = answer.json();
    assert_eq!(answer.status, 200, "{ledger:#}");
    assert_eq!(ledger["runId"], run);
    assert_eq!(ledger.as_object().unwrap().len(), 2);
    let rows = ledger["effects"].as_array().unwrap().clone();
    for row in &rows {
        let fields = row.as_object().unwrap();
        for required in ["effectId", "nodeId", "attempt", "keying", "state", "at"] {
            assert!(fields.contains_key(required), "{row:#}");
        }
        let optional = fields.len() - 6;
        let known = ["invocationId", "providerKey"];
        let optional_known = known.iter().filter(|name| fields.contains_key(**name));
        assert_eq!(optional_known.count(), optional, "{row:#}");
        let id = row["effectId"].as_str().unwrap();
        let opaque = id.strip_prefix("acme/effect-").unwrap();
        assert_eq!(opaque.len(), 32, "{id}");
    }
    rows
}

/// Node, attempt and state of each row.
fn told(rows: &[Value]) -> Vec<(&str, u64, &str)> {
    fn text<'a>(row: &'a Value, name: &str) -> &'a str {
        row[name].as_str().unwrap()
    }
    let attempt = |row: &Value| row["attempt"].as_u64().unwrap();
    rows.iter()
        .map(|row| (text(row, "nodeId"), attempt(row), text(row, "state")))
        .collect()
}

#[tokio::test]
async fn retries_of_an_effect_have_one_key_and_a_row_each() {
    let (host, receiver) = paying(&[503, 200], json!({})).await;
    let run = pay(&host).await;
    completed(&host, &run).await;
    let rows = effects(&host, &run).await;
    assert_eq!(
        told(&rows),
        [
            ("charge", 1, "released"),
            ("charge", 2, "completed"),
            ("look", 1, "completed"),
        ]
    );
    let [first, second, third] = [
        receiver.next().await,
        receiver.next().await,
        receiver.next().await,
    ];
    let key = first.header("idempotency-key");
    assert_eq!(
        second.header("idempotency-key"),
        key,
        "the retry has the key of the first"
    );
    assert!(!third.has("idempotency-key"), "reading repeats nothing");
    for row in &rows[..2] {
        assert_eq!(row["effectId"], format!("acme/{key}"));
        assert_eq!(row["providerKey"], key);
        assert_eq!(row["keying"], "activity-recipe");
    }
    assert_ne!(rows[0]["invocationId"], rows[1]["invocationId"]);
    assert_ne!(rows[2]["effectId"], rows[1]["effectId"]);
    assert_eq!(rows[2].get("providerKey"), None);

    // A replay shows its source's effects and has none of its own.
    let forked = post(
        &host,
        &format!("{}:fork", at(&run)),
        &json!({ "mode": "replay" }),
    )
    .await;
    assert_eq!(forked.status, 201, "{}", forked.json());
    let replay = forked.json()["runId"].as_str().unwrap().to_owned();
    assert_eq!(effects(&host, &replay).await, rows);
    assert!(receiver.rest().await.is_empty());

    // A branch has effects of its own, with other keys, after its fork point.
    let begin = json!({ "mode": "branch", "fromSeq": 3 });
    let forked = post(&host, &format!("{}:fork", at(&run)), &begin).await;
    let branch = forked.json()["runId"].as_str().unwrap().to_owned();
    completed(&host, &branch).await;
    let branched = effects(&host, &branch).await;
    assert_eq!(
        told(&branched),
        [("charge", 1, "completed"), ("look", 1, "completed")]
    );
    assert_ne!(branched[0]["effectId"], rows[0]["effectId"]);
    assert_eq!(
        receiver.next().await.header("idempotency-key"),
        branched[0]["providerKey"]
    );
    assert_eq!(effects(&host, &run).await, rows);
    host.stop().await;
}

#[tokio::test]
async fn a_key_of_the_workflow_is_the_identity_in_every_run() {
    let (host, receiver) = paying(&[200], json!({ "Idempotency-Key": "${inputs.order}" })).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let run = pay(&host).await;
        completed(&host, &run).await;
        let rows = effects(&host, &run).await;
        assert_eq!(rows[0]["keying"], "business-identity");
        assert_eq!(rows[0]["providerKey"], "order-7");
        assert_eq!(receiver.next().await.header("idempotency-key"), "order-7");
        receiver.next().await;
        ids.push(rows[0]["effectId"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    host.stop().await;
}

#[tokio::test]
async fn an_attempt_that_is_cut_has_escaped() {
    let (host, receiver) = paying(&[0, 200], json!({})).await;
    let run = pay(&host).await;
    let key = receiver.next().await.header("idempotency-key").to_owned();
    assert_eq!(
        told(&effects(&host, &run).await),
        [("charge", 1, "claimed")]
    );
    let pause = json!({ "drainPolicy": "immediate" });
    let paused = post(&host, &format!("{}:pause", at(&run)), &pause).await;
    assert_eq!(paused.status, 202, "{}", paused.json());
    let resumed = post(&host, &format!("{}:resume", at(&run)), &json!({})).await;
    assert_eq!(resumed.status, 202, "{}", resumed.json());
    completed(&host, &run).await;
    assert_eq!(
        told(&effects(&host, &run).await),
        [
            ("charge", 1, "escaped"),
            ("charge", 2, "completed"),
            ("look", 1, "completed"),
        ]
    );
    assert_eq!(receiver.next().await.header("idempotency-key"), key);
    host.stop().await;
}

#[tokio::test]
async fn the_ledger_is_of_callers_who_may_read_the_run() {
    let host = Host::new().await;
    let run = create(&host, &json!({ "workflowId": "three" })).await;
    completed(&host, &run).await;
    assert_eq!(effects(&host, &run).await, [Value::Null; 0]);
    let path = format!("{}/effects", at(&run));
    let anyone = Request::new("GET", &path).send(host.address).await;
    assert_eq!(anyone.refusal(401), "unauthenticated");
    let foreign = get(&host, &path.replacen("acme", "umbrella", 1)).await;
    assert_eq!(foreign.refusal(403), "id_tenant_mismatch");
    let unknown = get(&host, &format!("{}/effects", at("run-0000000000000000"))).await;
    assert_eq!(unknown.refusal(404), "not_found");
}

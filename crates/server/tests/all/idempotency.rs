//! Requests with an `Idempotency-Key` on every route that changes something.

use kernel::digest::Digest;
use runtime::access::{Principal, Scopes};
use runtime::api::{Api, Finish, IdempotencyState, KeyedBy};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Answer, Request};
use crate::host::{Host, chain, node};

fn replayed(answer: &Answer) -> Option<&str> {
    answer.header("openwop-idempotent-replay")
}

fn keyed(host: &Host, method: &str, path: &str, key: &str) -> Request {
    Request::new(method, path)
        .key(&host.key)
        .header("idempotency-key", key)
}

/// A workflow of one no-op, with another id.
async fn workflow(host: &Host, id: &str) -> Value {
    let node = host.get("/v1/workflows/three").await.json()["nodes"][0].clone();
    chain(id, &[node])
}

#[test]
fn every_route_that_changes_something_honours_a_key() {
    for route in server::routes::all() {
        let changes = ["POST", "PUT", "DELETE"].contains(&route.method.as_str());
        // Creations of runs claim the key in their own transaction.
        let others = [
            "/v1/runs",
            "/v1/runs/{runId}:fork",
            "/runs",
            "/runs/{runId}:fork",
            "/v1/test/runs/{runId}/expire",
        ];
        let by_itself = others.contains(&route.path) && route.method == "POST";
        // They change nothing that is stored.
        let by_itself =
            by_itself || ["/v1/workflows:check", "/console/session"].contains(&route.path);
        // In the workbench, saving, deleting and importing the same again change nothing.
        let is_document = ["/api/runs/{runId}", "/api/bundles", "/api/bundles/verify"];
        let by_itself = by_itself || is_document.contains(&route.path);
        let what = format!("{} {}", route.method, route.path);
        assert_eq!(route.is_keyed, changes && !by_itself, "{what}");
    }
}

#[tokio::test]
async fn a_repeated_cancel_gets_its_answer_and_others_are_rejected() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let path = format!("/v1/runs/{run}/cancel");
    let body = json!({ "reason": "enough" });
    let cancel = |path: &str| keyed(&host, "POST", path, "c");
    let first = cancel(&path).json(&body).send(host.address).await;
    assert_eq!((first.status, replayed(&first)), (200, Some("false")));
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let events = |host: &Host| {
        let engine = host.engine.clone();
        let run = run.as_str().into();
        async move { engine.door().load(&run).await.unwrap().head.next_seq }
    };
    let before = events(&host).await;

    // Other spacing and the other spelling of the path are the same request.
    let spaced = b"{ \"reason\" :\n\"enough\" }".to_vec();
    let verb = format!("/v1/runs/{run}:cancel");
    for again in [
        cancel(&path).json(&body),
        cancel(&path).body("application/json", spaced),
        cancel(&verb).json(&body),
    ] {
        let again = again.send(host.address).await;
        assert_eq!((again.status, replayed(&again)), (200, Some("true")));
        assert_eq!(again.body, first.body, "as it was answered first");
    }
    assert_eq!(events(&host).await, before);

    let other = cancel(&path).json(&json!({ "reason": "other" }));
    let other = other.send(host.address).await;
    assert_eq!(other.refusal(409), "idempotency_key_mismatch");
    assert_eq!(replayed(&other), Some("false"));
    // The same key on another run is another key, and responses without a key are not marked.
    let second = host.create(&json!({ "workflowId": "waits" })).await;
    let elsewhere = cancel(&format!("/v1/runs/{second}/cancel")).json(&body);
    assert_eq!(replayed(&elsewhere.send(host.address).await), Some("false"));
    assert_eq!(replayed(&host.post(&path, &body).await), None);
}

#[tokio::test]
async fn ten_equal_registrations_at_once_are_one() {
    let host = Host::new().await;
    let put = keyed(&host, "PUT", "/v1/workflows/mine", "w").json(&workflow(&host, "mine").await);
    let mut sent = JoinSet::new();
    for _ in 0..10 {
        sent.spawn(put.clone().send(host.address));
    }
    let answers = sent.join_all().await;
    let first = answers.iter().find(|it| replayed(it) == Some("false"));
    let first = first.expect("one of them is the first");
    let again = answers.iter().filter(|it| replayed(it) == Some("true"));
    assert_eq!(again.count(), 9);
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (200, &first.body));
    }
    let post = keyed(&host, "POST", "/v1/workflows", "w").json(&workflow(&host, "mine").await);
    let post = post.send(host.address).await;
    assert_eq!((post.status, replayed(&post)), (201, Some("false")));
}

#[tokio::test]
async fn refusals_that_can_be_mended_leave_the_key_free() {
    let host = Host::new().await;
    let cancel = |key: &str| keyed(&host, "POST", "/v1/runs/run-nowhere/cancel", key);
    for word in ["false", "true"] {
        let gone = cancel("k").json(&json!({})).send(host.address).await;
        assert_eq!(gone.refusal(404), "run_not_found");
        assert_eq!(replayed(&gone), Some(word));
    }

    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let cancel = || keyed(&host, "POST", &format!("/v1/runs/{run}/cancel"), "k");
    for wrong in [&b"{"[..], b"[]", br#"{"reason":7}"#] {
        let refused = cancel().body("application/json", wrong.to_vec());
        let refused = refused.send(host.address).await;
        assert_eq!(refused.refusal(400), "validation_error");
        assert_eq!(replayed(&refused), Some("false"));
    }
    let nobody = Request::new("POST", &format!("/v1/runs/{run}/cancel"))
        .key("rw_nobody")
        .header("idempotency-key", "k");
    assert_eq!(nobody.send(host.address).await.status, 401);
    let mended = cancel().json(&json!({})).send(host.address).await;
    assert_eq!((mended.status, replayed(&mended)), (200, Some("false")));

    for key in [String::new(), "k".repeat(256)] {
        let odd = keyed(&host, "POST", &format!("/v1/runs/{run}/cancel"), &key);
        assert_eq!(
            odd.send(host.address).await.refusal(400),
            "validation_error"
        );
    }
    let twice = cancel().header("idempotency-key", "l");
    assert_eq!(
        twice.send(host.address).await.refusal(400),
        "validation_error"
    );
}

#[tokio::test]
async fn a_key_says_nothing_to_another_workspace() {
    let host = Host::new().await;
    let order = json!({ "workflowId": "waits", "scopeId": "red" });
    let run = host.create(&order).await;
    let member = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let neighbour = host.key_of("acme", Some("blue"), Scopes::Everything).await;
    let cancel = |key: &str| {
        Request::new("POST", &format!("/v1/runs/{run}/cancel"))
            .key(key)
            .header("idempotency-key", "k")
    };
    assert_eq!(cancel(&member).send(host.address).await.status, 200);
    let theirs = cancel(&neighbour).send(host.address).await;
    assert_eq!(theirs.refusal(404), "run_not_found");

    // Nor does that of a creation.
    let create = |key: &str| {
        Request::new("POST", "/v1/runs")
            .key(key)
            .header("idempotency-key", "k")
            .json(&json!({ "workflowId": "three" }))
    };
    let ours = create(&member).send(host.address).await;
    let theirs = create(&neighbour).send(host.address).await;
    assert_eq!(replayed(&theirs), Some("false"));
    assert_ne!(ours.json()["runId"], theirs.json()["runId"]);
    let refused = create(&member).header("x-dedup", "maybe");
    let refused = refused.send(host.address).await;
    assert_eq!((refused.status, replayed(&refused)), (400, Some("false")));
}

#[tokio::test]
async fn a_keyed_request_is_finished_when_its_client_has_hung_up() {
    let host = Host::new().await;
    let put = keyed(&host, "PUT", "/v1/workflows/mine", "w").json(&workflow(&host, "mine").await);
    let mut conn = crate::client::Conn::to(host.address).await;
    conn.send(&put.bytes()).await;
    drop(conn);
    // Answered or not: the key decides, and the request never hangs.
    let again = put.send(host.address).await;
    assert_eq!(again.status, 200, "{}", again.json());
}

/// As if a request with the key `lost` had been executed and its response was lost.
async fn lost(host: &Host, (operation, address): (&str, &str), body: &Value) {
    let who = Principal {
        tenant: "acme".into(),
        workspace: None,
        run: None,
        id: "ci".into(),
        issuer: None,
        scopes: Scopes::Everything,
        groups: Default::default(),
        roles: Default::default(),
    };
    let mut request = kernel::json::canonical(body);
    request.push(0);
    let keyed = KeyedBy {
        key: "lost".into(),
        operation: format!("POST {operation}"),
        request: Digest::compute(&request),
    };
    let api = Api::new(host.engine.clone());
    let Ok(IdempotencyState::First(begun)) = api.begin(&who, &keyed).await else {
        panic!("it is the first");
    };
    api.finish(begun, Finish::Unknown).await.unwrap();
    let done = host.post(address, body).await;
    assert!(done.status < 300, "{}", done.json());
}

#[tokio::test]
async fn a_completed_request_whose_answer_was_lost_is_done_once() {
    let host = Host::new().await;
    let gate = node("gate", "core.approvalGate", json!({ "title": "Go on?" }));
    host.put(&[chain("asks", &[gate])]).await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let asks = host.create(&json!({ "workflowId": "asks" })).await;
    host.until(&asks, |status| status == "waiting-approval")
        .await;
    for (verb, body, status) in [
        ("pause", json!({ "drainPolicy": "immediate" }), "paused"),
        ("resume", json!({}), "running"),
    ] {
        let operation = format!("/v1/runs/{run}/{verb}");
        let typed = format!("/v1/runs/{run}:{verb}");
        lost(&host, (&operation, &typed), &body).await;
        let again = keyed(&host, "POST", &typed, "lost").json(&body);
        let again = again.send(host.address).await;
        assert_eq!((again.status, replayed(&again)), (202, Some("false")));
        assert_eq!(again.json()["status"], status);
        let other = host.post(&typed, &body).await;
        assert_eq!(other.status, 409, "whoever did not ask before is refused");
    }
    let address = format!("/v1/runs/{asks}/interrupts/gate");
    let body = json!({ "resumeValue": { "action": "accept" } });
    lost(&host, (&address, &address), &body).await;
    let again = keyed(&host, "POST", &address, "lost").json(&body);
    let again = again.send(host.address).await;
    assert_eq!(again.status, 200, "{}", again.json());
    assert_eq!(again.json()["nodeId"], "gate");
    let third = keyed(&host, "POST", &address, "lost").json(&body);
    let third = third.send(host.address).await;
    assert_eq!(replayed(&third), Some("true"));
    let plain = host.post(&address, &body).await;
    assert_eq!(plain.refusal(409), "interrupt_already_resolved");
}

#[tokio::test]
async fn a_rejection_before_the_key_check_is_not_a_replay() {
    let host = Host::new().await;
    let nobody = || Request::new("POST", "/v1/runs/run-1/cancel").key("rw_nobody.0");
    let answer = nobody().header("idempotency-key", "k").send(host.address);
    let answer = answer.await;
    assert_eq!(answer.status, 401);
    assert_eq!(replayed(&answer), Some("false"));
    assert_eq!(replayed(&nobody().send(host.address).await), None);
}

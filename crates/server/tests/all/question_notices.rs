//! `callbackUrl`: notices of the questions of one run.

use std::collections::BTreeSet;
use std::sync::Arc;

use runtime::access::{Scope, Scopes};
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::client::{DEADLINE, Request};
use crate::gates::{one, signoff};
use crate::host::Host;
use crate::receiver::Receiver;
use crate::v2;

async fn host() -> Host {
    let host = Host::reaching(Limits::default(), Reach::Private).await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    host
}

fn order(callback: &str) -> Value {
    json!({ "workflowId": "signoff", "callbackUrl": callback })
}

#[tokio::test]
async fn a_callback_receives_a_token_that_answers() {
    let host = host().await;
    let receiver = Receiver::new().await;
    // A run without a callback sends nothing.
    let plain = v2::create(&host, &json!({ "workflowId": "signoff" })).await;
    let plain = plain.trim_start_matches("acme/");
    host.until(plain, |status| status == "waiting-approval")
        .await;

    let run = v2::create(&host, &order(&receiver.url())).await;
    let notice = receiver.next().await;
    assert_eq!(notice.path, "/hook?token=1");
    assert_eq!(notice.header("openwop-event-type"), "interrupt.requested");
    assert_eq!(
        notice.header("openwop-webhook-id"),
        "acme/wh_question_notices"
    );
    assert!(notice.has("webhook-signature"), "{:?}", notice.headers);
    let body = notice.json();
    assert_eq!(body["runId"], run);
    assert_eq!(body["event"]["type"], "interrupt.requested");
    assert_eq!(body["event"]["payload"]["data"]["title"], "Ship it?");
    let address = body["callbackUrl"].as_str().unwrap();
    let token = body["interruptToken"].as_str().unwrap();
    assert_eq!(address, format!("/interrupts/{token}"));
    assert!(token.starts_with("ow2.hs256."), "{token}");

    // The token is the only credential of its holder.
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let answer = Request::new("POST", address).json(&accept);
    let answered = answer.send(host.address).await;
    assert_eq!(answered.status, 200, "{}", answered.json());
    let id = run.trim_start_matches("acme/");
    host.engine.settled(&id.into()).await.unwrap();
    assert_eq!(host.snapshot(id).await["status"], "completed");
    assert!(receiver.rest().await.is_empty());
    host.stop().await;
}

#[tokio::test]
async fn a_callback_of_version_1_has_its_addresses() {
    let host = host().await;
    let receiver = Receiver::new().await;
    let run = host.create(&order(&receiver.url())).await;
    let body = receiver.next().await.json();
    assert_eq!(body["runId"], run);
    let address = body["callbackUrl"].as_str().unwrap();
    assert!(address.starts_with("/v1/interrupts/"), "{address}");
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let answer = Request::new("POST", address).json(&accept);
    let answered = answer.send(host.address).await;
    assert_eq!(answered.status, 200, "{}", answered.json());
    host.stop().await;
}

#[tokio::test]
async fn a_callback_address_passes_the_webhook_guard() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    for address in [
        "http://example.com/hook",
        "https://127.0.0.1/hook",
        "https://[::ffff:127.0.0.1]/hook",
        "https://169.254.169.254/latest",
        "https://user:word@example.com/",
        "ftp://example.com/",
        "hook",
    ] {
        for path in ["/runs", "/v1/runs"] {
            let answer = Request::new("POST", path)
                .key(&host.key)
                .json(&order(address));
            let answer = answer.send(host.address).await;
            assert_eq!(answer.refusal(400), "validation_error", "{address}");
            let refusal = answer.json();
            assert_eq!(refusal["details"]["field"], "callbackUrl", "{address}");
            let message = refusal["message"].as_str().unwrap();
            assert!(message.starts_with("callbackUrl must"), "{message}");
        }
    }
    let runs = host.get("/v1/runs").await.json();
    assert_eq!(runs["runs"], json!([]), "nothing was created");
    host.stop().await;
}

#[tokio::test]
async fn a_callback_needs_the_scope_for_answers() {
    let host = host().await;
    let scopes = Scopes::Only(BTreeSet::from([Scope::RunsCreate, Scope::RunsRead]));
    let key = host.key_of("acme", None, scopes).await;
    let create = Request::new("POST", "/runs")
        .key(&key)
        .json(&order("https://example.com/hook"));
    let answer = create.send(host.address).await;
    assert_eq!(answer.refusal(403), "forbidden");
    assert!(answer.json().to_string().contains("approvals:respond"));
    host.stop().await;
}

#[tokio::test]
async fn children_inherit_a_callback_and_forks_do_not() {
    let host = host().await;
    let receiver = Receiver::new().await;
    let config = json!({ "workflowId": "signoff" });
    host.add(&one("outer", "core.subWorkflow", &config)).await;
    let order = json!({ "workflowId": "outer", "callbackUrl": receiver.url() });
    let outer = host.create(&order).await;
    let body = receiver.next().await.json();
    let child = body["runId"].as_str().unwrap().to_owned();
    assert_ne!(child, outer);
    let address = body["callbackUrl"].as_str().unwrap();
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let answer = Request::new("POST", address).json(&accept);
    assert_eq!(answer.send(host.address).await.status, 200);
    host.engine.settled(&outer.as_str().into()).await.unwrap();

    for order in [
        json!({ "mode": "replay" }),
        json!({ "mode": "branch", "fromSeq": 0 }),
    ] {
        let forked = host.post(&format!("/v1/runs/{child}:fork"), &order).await;
        assert_eq!(forked.status, 201, "{}", forked.json());
        let fork = forked.json()["runId"].as_str().unwrap().to_owned();
        if order["mode"] == "branch" {
            host.until(&fork, |status| status == "waiting-approval")
                .await;
        }
    }
    // Notices are sent in the order of questions: a fork's would be before this one.
    let order = json!({ "workflowId": "signoff", "callbackUrl": receiver.url() });
    let last = host.create(&order).await;
    assert_eq!(receiver.next().await.json()["runId"], last);
    host.stop().await;
}

#[tokio::test]
async fn a_failing_callback_does_not_stop_others() {
    let host = host().await;
    let broken = Receiver::answering(|_| Some((500, String::new()))).await;
    let working = Receiver::new().await;
    // More failures than a webhook is allowed before it is paused.
    for _ in 0..6 {
        host.create(&order(&broken.url())).await;
        broken.next().await;
    }
    let run = host.create(&order(&working.url())).await;
    assert_eq!(working.next().await.json()["runId"], run);
    host.stop().await;
}

/// The deliveries of notices, as soon as they satisfy a condition.
async fn deliveries(host: &Host, are: impl Fn(&Value) -> bool) -> Value {
    let deliveries = async {
        loop {
            let webhook = host.get("/v1/webhooks/wh_question_notices").await.json();
            if are(&webhook["deliveries"]) {
                return webhook["deliveries"].clone();
            }
        }
    };
    timeout(DEADLINE, deliveries).await.expect("in time")
}

#[tokio::test]
async fn a_silent_callback_does_not_delay_others() {
    let host = host().await;
    let gate = Arc::new(Semaphore::new(0));
    let (silent, working) = (Receiver::held(gate.clone()).await, Receiver::new().await);
    host.create(&order(&silent.url())).await;
    silent.next().await;
    let run = host.create(&order(&working.url())).await;
    assert_eq!(working.next().await.json()["runId"], run);
    // The first attempt of the other notice is still in progress.
    gate.add_permits(1);
    let found = deliveries(&host, |found| found["delivered"] == 2).await;
    assert_eq!(found["failedAttempts"], 0, "{found}");
    host.stop().await;
}

#[tokio::test]
async fn a_damaged_run_does_not_stop_notices() {
    let host = host().await;
    let broken = Receiver::answering(|_| Some((500, String::new()))).await;
    let damaged = host.create(&order(&broken.url())).await;
    broken.next().await;
    let store = rusqlite::Connection::open(host.store_file()).expect("the store");
    let of_run = "stream = (SELECT id FROM streams WHERE name = ?1)";
    let damage = format!("UPDATE events SET content = X'7B' WHERE {of_run}");
    store.execute(&damage, [&damaged]).expect("damage");
    let found = deliveries(&host, |found| found["deadLettered"] == 1).await;
    let letter = &found["deadLetters"][0];
    assert_eq!(letter["runId"], damaged, "{found}");
    let working = Receiver::new().await;
    let run = host.create(&order(&working.url())).await;
    assert_eq!(working.next().await.json()["runId"], run);
    host.stop().await;
}

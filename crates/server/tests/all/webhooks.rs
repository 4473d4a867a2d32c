//! Webhooks over HTTP, delivered to real receivers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use runtime::access::Scopes;
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;
use sha2::Sha256;

use crate::client::{Answer, Request};
use crate::host::{Host, chain, node};
use crate::receiver::{Received, Receiver};

async fn host() -> Host {
    Host::reaching(Limits::default(), Reach::Private).await
}

/// Registers a webhook of tenant `acme`.
async fn register(host: &Host, order: Value) -> Value {
    let answer = host.post("/v1/webhooks", &order).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()
}

async fn delete(host: &Host, path: &str, key: &str) -> Answer {
    let request = Request::new("DELETE", path).key(key);
    request.send(host.address).await
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// The signature as a receiver computes it.
fn v1(secret: &str, received: &Received) -> String {
    let timestamp = received.header("x-openwop-timestamp").as_bytes();
    let tag = hmac(secret.as_bytes(), &[timestamp, b".", &received.body]);
    let hex: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

fn standard(secret: &str, received: &Received) -> String {
    let key = STANDARD
        .decode(secret.trim_start_matches("whsec_"))
        .unwrap();
    let id = received.header("webhook-id").as_bytes();
    let timestamp = received.header("webhook-timestamp").as_bytes();
    let tag = hmac(&key, &[id, b".", timestamp, b".", &received.body]);
    format!("v1,{}", STANDARD.encode(tag))
}

/// Waits until a webhook's report satisfies a condition.
async fn until(host: &Host, webhook: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let report = host.get(&format!("/v1/webhooks/{webhook}")).await.json();
        if is_so(&report["deliveries"]) {
            return report["deliveries"].clone();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn events_are_delivered_signed_in_order_as_polling_shows_them() {
    let host = host().await;
    // Earlier events are not delivered.
    host.completed(&json!({ "workflowId": "three" })).await;
    let receiver = Receiver::new().await;
    let webhook = register(&host, json!({ "url": receiver.url(), "events": ["*"] })).await;
    let (id, secret) = (&webhook["webhookId"], webhook["secret"].as_str().unwrap());
    assert_eq!(secret.len(), 64);
    assert_eq!(webhook["subscriptionId"], *id);
    assert_eq!(webhook["tenantId"], "acme");

    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let page = host
        .get(&format!("/v1/runs/{run}/events/poll"))
        .await
        .json();
    for (seq, event) in page["events"].as_array().unwrap().iter().enumerate() {
        let received = receiver.next().await;
        let body = received.json();
        assert_eq!(body["runId"], run.as_str());
        assert_eq!(body["workspaceId"], "acme");
        assert_eq!(body["event"], *event, "event {seq}");
        assert_eq!(received.header("x-openwop-event-type"), event["type"]);
        assert_eq!(received.header("x-openwop-webhook-id"), *id);
        assert_eq!(received.header("x-openwop-signature-algorithm"), "v1");
        assert_eq!(
            received.header("x-openwop-signature"),
            v1(secret, &received)
        );
        assert_eq!(received.header("content-type"), "application/json");
        let trace = received.header("traceparent");
        assert!(trace.starts_with("00-") && trace.len() == 55, "{trace}");
        let agent = received.header("user-agent");
        assert!(agent.starts_with("openwop-webhook-dispatcher/"), "{agent}");
        assert!(!received.has("webhook-signature"));
    }
    let count = u64::try_from(page["events"].as_array().unwrap().len()).unwrap();
    let id = id.as_str().unwrap();
    let report = until(&host, id, |report| report["delivered"] == count).await;
    assert_eq!(report["waitingEvents"], 0);
    assert!(receiver.rest().await.is_empty());
    // The secret was shown once.
    for path in ["/v1/webhooks".to_owned(), format!("/v1/webhooks/{id}")] {
        let text = String::from_utf8(host.get(&path).await.body).unwrap();
        assert!(text.contains(id) && !text.contains(secret), "{text}");
    }
    host.stop().await;
}

#[tokio::test]
async fn only_subscribed_events_are_delivered() {
    let host = host().await;
    let (narrow, tagged) = (Receiver::new().await, Receiver::new().await);
    register(
        &host,
        json!({ "url": narrow.url(), "eventTypes": ["run.completed"] }),
    )
    .await;
    let order = json!({ "url": tagged.url(), "events": ["run.completed"], "tags": ["yes"] });
    register(&host, order).await;
    let plain = host.completed(&json!({ "workflowId": "three" })).await;
    let other = json!({ "workflowId": "three", "tags": ["no", "yes"] });
    let other = host.completed(&other).await;
    let mut told = [narrow.next().await.event(), narrow.next().await.event()];
    told.sort();
    let mut expected = [plain, other.clone()].map(|run| (run, 7, "run.completed".to_owned()));
    expected.sort();
    assert_eq!(told, expected);
    assert_eq!(tagged.next().await.event().0, other);
    host.stop().await;
    assert!(narrow.rest().await.is_empty() && tagged.rest().await.is_empty());
}

#[tokio::test]
async fn a_legacy_variable_is_delivered_as_the_streamed_channel() {
    let host = host().await;
    let sets = |id: &str, name: &str| {
        let config = json!({ "name": name, "value": 1 });
        node(id, "core.setVariable", config)
    };
    let nodes = [sets("a", "_loopbackCount:gate"), sets("b", "plain")];
    host.put(&[chain("older", &nodes)]).await;
    let (written, changed) = (Receiver::new().await, Receiver::new().await);
    for (receiver, kind) in [
        (&written, "channel.written"),
        (&changed, "variable.changed"),
    ] {
        let order = json!({ "url": receiver.url(), "events": [kind, "run.completed"] });
        register(&host, order).await;
    }
    let run = host.completed(&json!({ "workflowId": "older" })).await;
    for (receiver, kind, field, name) in [
        (&written, "channel.written", "channel", "loopbackCount:gate"),
        (&changed, "variable.changed", "name", "plain"),
    ] {
        let told = receiver.next().await;
        let (of, _, said) = told.event();
        assert_eq!((of, said.as_str()), (run.clone(), kind));
        assert_eq!(told.header("x-openwop-event-type"), kind);
        let event = &told.json()["event"];
        assert_eq!(
            (&event["type"], &event["payload"][field]),
            (&json!(kind), &json!(name))
        );
        assert_eq!(
            receiver.next().await.event().2,
            "run.completed",
            "and no more"
        );
    }
    host.stop().await;
}

#[tokio::test]
async fn a_webhook_hears_of_its_own_tenant_and_workspace_alone() {
    let host = host().await;
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let member = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let (theirs, red, all) = (
        Receiver::new().await,
        Receiver::new().await,
        Receiver::new().await,
    );
    for (receiver, key) in [(&theirs, &stranger), (&red, &member), (&all, &host.key)] {
        let order = json!({ "url": receiver.url(), "events": ["*"] });
        let request = Request::new("POST", "/v1/webhooks").key(key).json(&order);
        assert_eq!(request.send(host.address).await.status, 201);
    }
    let blue = host
        .completed(&json!({ "workflowId": "three", "scopeId": "blue" }))
        .await;
    let in_red = host
        .completed(&json!({ "workflowId": "three", "scopeId": "red" }))
        .await;
    let mut of_all = BTreeMap::new();
    for _ in 0..16 {
        let (run, sequence, _) = all.next().await.event();
        let next = of_all.entry(run).or_insert(0);
        assert_eq!(sequence, *next, "in order per run");
        *next += 1;
    }
    assert_eq!(of_all, BTreeMap::from([(blue, 8), (in_red.clone(), 8)]));
    for sequence in 0..8 {
        let received = red.next().await;
        assert_eq!(
            (received.event().0, received.event().1),
            (in_red.clone(), sequence)
        );
        assert_eq!(received.json()["workspaceId"], "red");
    }
    host.stop().await;
    assert!(theirs.rest().await.is_empty() && red.rest().await.is_empty());
}

#[tokio::test]
async fn others_webhooks_are_not_there() {
    let host = host().await;
    let receiver = Receiver::new().await;
    let order = json!({ "url": receiver.url(), "events": ["*"], "scopeId": "red" });
    let webhook = register(&host, order).await;
    let path = format!("/v1/webhooks/{}", webhook["webhookId"].as_str().unwrap());
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let neighbour = host.key_of("acme", Some("blue"), Scopes::Everything).await;
    let secret = json!({ "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" });
    for key in [&stranger, &neighbour] {
        let get = Request::new("GET", &path).key(key).send(host.address).await;
        assert_eq!(get.refusal(404), "subscription_not_found");
        assert_eq!(
            delete(&host, &path, key).await.refusal(404),
            "subscription_not_found"
        );
        let rotate = Request::new("POST", &format!("{path}/rotate-secret"));
        let rotate = rotate.key(key).json(&secret).send(host.address).await;
        assert_eq!(rotate.refusal(404), "subscription_not_found");
        let list = Request::new("GET", "/v1/webhooks").key(key);
        let list = list.send(host.address).await.json();
        assert_eq!(list, json!({ "webhooks": [] }));
    }
    let foreign = delete(&host, &format!("{path}?tenantId=umbrella"), &host.key).await;
    assert_eq!(foreign.refusal(403), "workspace_membership_required");
    let order = json!({ "url": receiver.url(), "events": ["*"], "tenantId": "umbrella" });
    let foreign = host.post("/v1/webhooks", &order).await;
    assert_eq!(foreign.refusal(403), "workspace_membership_required");

    let member = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let order = json!({ "url": receiver.url(), "events": ["*"], "tenantId": "acme" });
    let post = Request::new("POST", "/v1/webhooks").key(&member);
    let refused = post.clone().json(&order).send(host.address).await;
    assert_eq!(refused.refusal(403), "workspace_membership_required");
    let whole = format!("{path}?tenantId=acme");
    let refused = delete(&host, &whole, &member).await;
    assert_eq!(refused.refusal(403), "workspace_membership_required");
    let order = json!({ "url": receiver.url(), "events": ["run.failed"], "tenantId": "red" });
    let made = post.json(&order).send(host.address).await;
    assert_eq!(
        (made.status, &made.json()["tenantId"]),
        (201, &json!("red"))
    );

    let own = format!("{path}?tenantId=acme");
    assert_eq!(delete(&host, &own, &host.key).await.status, 204);
    assert_eq!(
        delete(&host, &own, &host.key).await.refusal(404),
        "subscription_not_found"
    );
    host.completed(&json!({ "workflowId": "three", "scopeId": "red" }))
        .await;
    host.stop().await;
    assert!(receiver.rest().await.is_empty());
}

#[tokio::test]
async fn non_public_addresses_are_rejected_unless_allowed() {
    let host = Host::new().await;
    for url in [
        "not-a-valid-url",
        "ftp://example.com/",
        "http://1.1.1.1/",
        "https://localhost/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://10.0.0.1/",
        "https://100.64.0.1/",
        "https://169.254.169.254/latest/",
        "https://metadata.google.internal/",
        "https://metadata/",
        "https://[::1]/",
        "https://[fd00::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://user:pw@1.1.1.1/",
    ] {
        let order = json!({ "url": url, "events": ["run.completed"] });
        let answer = host.post("/v1/webhooks", &order).await;
        assert_eq!(answer.refusal(400), "webhook_url_rejected", "{url}");
    }
    for order in [
        json!({ "events": ["run.completed"] }),
        json!({ "url": "https://1.1.1.1/" }),
        json!({ "url": "https://1.1.1.1/", "events": [] }),
        json!({ "url": "https://1.1.1.1/", "events": "run.completed" }),
        json!({ "url": "https://1.1.1.1/", "events": ["run.failed"], "secret": "short" }),
        json!({ "url": "https://1.1.1.1/", "events": ["run.failed"], "signatureAlgorithms": ["v2"] }),
        json!({ "url": "https://1.1.1.1/", "events": ["run.failed"],
                "signatureAlgorithms": ["standard-webhooks-1"] }),
    ] {
        let answer = host.post("/v1/webhooks", &order).await;
        assert_eq!(answer.refusal(400), "validation_error", "{order}");
    }
    let typo = json!({ "url": "https://1.1.1.1/", "eventTypes": ["run.failed", "run.complete"] });
    let answer = host.post("/v1/webhooks", &typo).await;
    assert_eq!(answer.refusal(400), "validation_error");
    let told = answer.json();
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .contains("`run.completed`"),
        "{told}"
    );
    let supported = told["details"]["supported"].as_array().unwrap();
    assert!(supported.contains(&json!("interrupt.requested")));
    let strange = json!({ "url": "https://1.1.1.1/", "events": ["sk-live-0123456789abcdef"] });
    let answer = host.post("/v1/webhooks", &strange).await;
    assert_eq!(answer.refusal(400), "validation_error");
    assert!(
        !answer.json().to_string().contains("sk-live"),
        "nothing of it is repeated"
    );
    let order = json!({ "url": "https://1.1.1.1/", "events": ["run.completed"] });
    assert_eq!(host.post("/v1/webhooks", &order).await.status, 201);
    let mut many = json!({ "url": "https://1.1.1.1/", "events": ["run.completed"] });
    for n in 1..100 {
        many["tags"] = json!([n.to_string()]);
        assert_eq!(host.post("/v1/webhooks", &many).await.status, 201);
    }
    let answer = host.post("/v1/webhooks", &many).await;
    assert_eq!(answer.refusal(409), "too_many_webhooks");
    host.stop().await;
}

#[tokio::test]
async fn a_failed_attempt_is_made_again_and_keeps_its_run_in_order() {
    let host = host().await;
    let failures = Arc::new(AtomicU32::new(2));
    let left = failures.clone();
    let receiver = Receiver::answering(move |_| {
        let less = |left: u32| left.checked_sub(1);
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Some((503, String::new())),
            Err(_) => Some((200, String::new())),
        }
    })
    .await;
    let webhook = register(&host, json!({ "url": receiver.url(), "events": ["*"] })).await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let mut seen = Vec::new();
    while seen.last() != Some(&7) {
        let (of, sequence, _) = receiver.next().await.event();
        assert_eq!(of, run);
        seen.push(sequence);
    }
    assert_eq!(seen, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    let id = webhook["webhookId"].as_str().unwrap();
    let report = until(&host, id, |report| report["delivered"] == 8).await;
    assert_eq!(report["failedAttempts"], 2);
    assert_eq!(report["status"], "active");
    host.stop().await;
}

#[tokio::test]
async fn a_failing_receiver_is_paused_and_slows_no_other() {
    let host = host().await;
    // One never responds, one redirects, one is fine.
    let silent = Receiver::answering(|_| None).await;
    let redirects = Receiver::answering(|_| Some((302, String::new()))).await;
    let fine = Receiver::new().await;
    for receiver in [&silent, &redirects, &fine] {
        register(
            &host,
            json!({ "url": receiver.url(), "events": ["run.completed"] }),
        )
        .await;
    }
    for _ in 0..40 {
        host.completed(&json!({ "workflowId": "three" })).await;
    }
    for _ in 0..40 {
        fine.next().await;
    }
    let list = host.get("/v1/webhooks").await.json();
    let of = |receiver: &Receiver| {
        let all = list["webhooks"].as_array().unwrap();
        let found = all.iter().find(|one| one["url"] == receiver.url());
        found.unwrap()["webhookId"].as_str().unwrap().to_owned()
    };
    let report = until(&host, &of(&redirects), |report| {
        report["status"] == "paused"
    })
    .await;
    assert!(report["pausedUntil"].is_string(), "{report}");
    let why = report["waiting"].to_string();
    assert!(why.contains("the receiver redirects (status 302)"), "{why}");
    assert_eq!(report["delivered"], 0);
    host.stop().await;
}

#[tokio::test]
async fn standard_webhooks_are_verified_rotated_and_signed_twice() {
    let host = host().await;
    let echoes = Arc::new(AtomicBool::new(false));
    let is_on = echoes.clone();
    let receiver = Receiver::answering(move |received| {
        let challenge = received.json()["challenge"].clone();
        if challenge.is_string() && is_on.load(Ordering::SeqCst) {
            Some((200, json!({ "challenge": challenge }).to_string()))
        } else {
            Some((200, "{}".into()))
        }
    })
    .await;
    let old = format!("whsec_{}", STANDARD.encode([1; 32]));
    let new = format!("whsec_{}", STANDARD.encode([2; 32]));
    let order = json!({
        "url": receiver.url(), "events": ["run.completed"], "secret": old,
        "signatureAlgorithms": ["v1", "standard-webhooks-1"],
    });
    let refused = host.post("/v1/webhooks", &order).await;
    assert_eq!(refused.refusal(400), "webhook_endpoint_unverified");
    let asked = receiver.next().await;
    assert_eq!(asked.json()["type"], "openwop.webhook.verification");
    assert_eq!(asked.header("webhook-signature"), standard(&old, &asked));
    assert!(!asked.has("x-openwop-event-type"));
    assert_eq!(
        host.get("/v1/webhooks").await.json(),
        json!({ "webhooks": [] })
    );

    echoes.store(true, Ordering::SeqCst);
    let webhook = register(&host, order).await;
    receiver.next().await;
    assert_eq!(
        webhook["signatureAlgorithms"],
        json!(["v1", "standard-webhooks-1"])
    );
    assert!(webhook.get("secret").is_none(), "the subscriber has it");

    host.completed(&json!({ "workflowId": "three" })).await;
    let first = receiver.next().await;
    assert_eq!(first.header("x-openwop-signature"), v1(&old, &first));
    assert_eq!(first.header("webhook-signature"), standard(&old, &first));
    assert_eq!(
        first.header("webhook-timestamp"),
        first.header("x-openwop-timestamp")
    );

    let id = webhook["webhookId"].as_str().unwrap();
    let path = format!("/v1/webhooks/{id}/rotate-secret");
    let refused = host.post(&path, &json!({ "secret": "whsec_short" })).await;
    assert_eq!(refused.refusal(400), "validation_error");
    let rotated = host.post(&path, &json!({ "secret": new })).await;
    assert_eq!(rotated.status, 200);
    let text = String::from_utf8(rotated.body.clone()).unwrap();
    assert!(!text.contains("whsec_"), "{text}");
    let body = rotated.json();
    let fields: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["previousSecretExpiresAt", "rotatedAt"]);

    let fingerprint = |report: &Value| report["secretFingerprint"].clone();
    let shown = host.get(&format!("/v1/webhooks/{id}")).await.json();
    assert_ne!(fingerprint(&shown), fingerprint(&webhook));
    // The router reads the new secret in the feed before the next run.
    host.completed(&json!({ "workflowId": "three" })).await;
    let second = receiver.next().await;
    assert_eq!(second.header("x-openwop-signature"), v1(&old, &second));
    let both = format!("{} {}", standard(&new, &second), standard(&old, &second));
    assert_eq!(second.header("webhook-signature"), both);
    assert_ne!(second.header("webhook-id"), first.header("webhook-id"));

    let plain = json!({ "url": receiver.url(), "events": ["run.completed"] });
    let plain = register(&host, plain).await;
    let path = format!(
        "/v1/webhooks/{}/rotate-secret",
        plain["webhookId"].as_str().unwrap()
    );
    let refused = host.post(&path, &json!({ "secret": new })).await;
    assert_eq!(refused.refusal(400), "validation_error");
    host.stop().await;
}

#[tokio::test]
async fn a_repeated_registration_with_a_key_makes_one_webhook() {
    let host = host().await;
    let order = json!({ "url": "https://1.1.1.1/", "events": ["*"] });
    let mut answers = Vec::new();
    for _ in 0..2 {
        let request = Request::new("POST", "/v1/webhooks").key(&host.key);
        let request = request.header("idempotency-key", "once").json(&order);
        answers.push(request.send(host.address).await);
    }
    assert_eq!(answers[0].json(), answers[1].json());
    assert_eq!(answers[1].header("openwop-idempotent-replay"), Some("true"));
    let list = host.get("/v1/webhooks").await.json();
    assert_eq!(list["webhooks"].as_array().unwrap().len(), 1);
    host.stop().await;
}

#[tokio::test]
async fn the_trail_records_webhooks() {
    let host = host().await;
    let order = json!({ "url": "https://1.1.1.1/", "events": ["*"] });
    let webhook = register(&host, order).await;
    let id = webhook["webhookId"].as_str().unwrap();
    let removed = delete(&host, &format!("/v1/webhooks/{id}"), &host.key).await;
    assert_eq!(removed.status, 204);
    let store = host.engine.door().store().clone();
    runtime::access::trail::deliver(&*store).await.unwrap();
    let tenant = "acme".into();
    let trail = runtime::access::trail::read(&*store, &tenant, 0, 100);
    let text = serde_json::to_string(&trail.await.unwrap()).unwrap();
    for action in ["webhook.registered", "webhook.removed"] {
        assert!(text.contains(action), "{text}");
    }
    assert!(!text.contains("1.1.1.1"), "an address may hold a token");
    host.stop().await;
}

#[tokio::test]
async fn a_replay_delivers_nothing_and_a_branch_only_its_own_events() {
    let host = host().await;
    let source = host.completed(&json!({ "workflowId": "three" })).await;
    let receiver = Receiver::new().await;
    register(&host, json!({ "url": receiver.url(), "events": ["*"] })).await;
    let path = format!("/v1/runs/{source}:fork");
    let replay = host.post(&path, &json!({ "mode": "replay" })).await;
    assert_eq!(replay.status, 201, "{}", replay.json());
    let branch = host
        .post(&path, &json!({ "mode": "branch", "fromSeq": 5 }))
        .await;
    assert_eq!(branch.status, 201, "{}", branch.json());
    let branch = branch.json()["runId"].as_str().unwrap().to_owned();
    let (run, first, kind) = receiver.next().await.event();
    assert_eq!((&run, first), (&branch, 5), "{kind}");
    let mut next = 6;
    loop {
        let (run, sequence, kind) = receiver.next().await.event();
        assert_eq!((&run, sequence), (&branch, next));
        next += 1;
        if kind == "run.completed" {
            break;
        }
    }
    host.stop().await;
    assert!(receiver.rest().await.is_empty());
}

//! The audit trail over HTTP.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::audit::{AuditAction, AuditEvent, Entry, Outcome};
use runtime::access::signing::PublicKey;
use runtime::access::{Scope, Scopes, trail};
use serde_json::{Value, json};

use crate::client::Request;
use crate::gates::signoff;
use crate::host::Host;

async fn verify(host: &Host, query: &str) -> Value {
    let answer = host.get(&format!("/v1/audit/verify{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

#[tokio::test]
async fn checkpoints_are_timely_and_verify_with_the_advertised_key() {
    let host = Host::new().await;
    for n in 0..3 {
        let order = json!({ "url": format!("https://1.1.1.{n}/"), "events": ["*"] });
        assert_eq!(host.post("/v1/webhooks", &order).await.status, 201);
    }
    // The engine makes a checkpoint by itself shortly after the last entry.
    let report = loop {
        let report = verify(&host, "?fromSeq=0&toSeq=1000000").await;
        let at = report["checkpoints"].as_array().unwrap().last();
        // The key of the host itself, and three webhooks.
        if at.is_some_and(|at| at["atSequence"].as_u64() >= Some(3)) {
            break report;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(report["chainValid"], true);
    assert_eq!(report["checkpointsValid"], true);
    assert_eq!(report["anomalies"], json!([]));
    assert_eq!(
        (&report["fromSeq"], &report["toSeq"]),
        (&json!(0), &json!(1_000_000))
    );
    let capabilities = host.get("/.well-known/openwop").await.json();
    let auth = &capabilities["auth"];
    assert!(
        auth["profiles"]
            .to_string()
            .contains("openwop-audit-log-integrity")
    );
    let integrity = &auth["auditLogIntegrity"];
    assert_eq!(integrity["hashChain"], true);
    assert_eq!(integrity["checkpointSignatureAlgorithm"], "ed25519");
    let spki = integrity["checkpointPublicKey"].as_str().unwrap();
    assert!(PublicKey::read(spki).is_some());
    let key = STANDARD.decode(spki).unwrap();
    let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &key[12..]);
    let mut covered = None;
    for checkpoint in report["checkpoints"].as_array().unwrap() {
        let hex = checkpoint["merkleRoot"].as_str().unwrap();
        let root: Vec<u8> = (0..32)
            .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
            .collect();
        let signature = STANDARD
            .decode(checkpoint["signature"].as_str().unwrap())
            .unwrap();
        key.verify(&root, &signature)
            .expect("the raw root is signed");
        let at = checkpoint["atSequence"].as_u64();
        assert!(covered < at, "ascending");
        covered = at;
    }
    let part = verify(&host, "?fromSeq=1&toSeq=2").await;
    assert_eq!((&part["fromSeq"], &part["toSeq"]), (&json!(1), &json!(2)));
    assert_eq!(part["chainValid"], true);
    for query in ["?fromSeq=2&toSeq=1", "?fromSeq=-1", "?toSeq=x"] {
        let refused = host.get(&format!("/v1/audit/verify{query}")).await;
        assert_eq!(refused.refusal(400), "validation_error", "{query}");
    }
    let metrics = String::from_utf8(host.get("/metrics").await.body).unwrap();
    assert!(
        metrics.contains("runwright_audit_outbox_entries"),
        "{metrics}"
    );
    host.stop().await;
}

#[tokio::test]
async fn audit_entries_of_others_are_not_visible() {
    let host = Host::new().await;
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let bound = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let request = Request::new("GET", "/v1/audit/verify").key(&stranger);
    let report = request.send(host.address).await.json();
    assert_eq!(report["chainValid"], true);
    assert!(
        report["toSeq"].as_u64() <= Some(2),
        "its own key, made and used, and a checkpoint: {report}"
    );
    let request = Request::new("GET", "/v1/audit/verify").key(&bound);
    assert_eq!(request.send(host.address).await.refusal(404), "not_found");
    host.stop().await;
}

/// The entries of `acme` about an action, once there are `count`.
async fn told(host: &Host, action: AuditAction, count: usize) -> Vec<Entry> {
    let store = host.engine.door().store();
    loop {
        let events = trail::read(&**store, &"acme".into(), 0, 10_000)
            .await
            .unwrap();
        let entries = events.into_iter().filter_map(|event| match event.body {
            AuditEvent::Recorded(entry) if entry.action == action => Some(entry),
            _ => None,
        });
        let entries: Vec<Entry> = entries.collect();
        if entries.len() >= count {
            return entries;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_created_a_run_answered_it_and_used_a_key_is_on_the_trail() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    let order = json!({ "workflowId": "signoff", "scopeId": "red" });
    let request = Request::new("POST", "/v1/runs").key(&host.key).json(&order);
    let request = request.header("x-request-id", "request-0001");
    let run = request.send(host.address).await.json()["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    host.shows(&run, |snapshot| snapshot["status"] == "waiting-approval")
        .await;
    // A child's actions are recorded by its parent; here there is none.
    let accept = json!({ "action": "accept" });
    assert_eq!(host.answer(&run, "signoff", accept).await.status, 200);
    host.ended(&run).await;

    let [created] = told(&host, AuditAction::RunCreated, 1)
        .await
        .try_into()
        .unwrap();
    assert_eq!(created.on.id.as_deref(), Some(run.as_str()));
    assert_eq!(created.on.workspace.as_deref(), Some("red"));
    assert_eq!(created.by.principal, "somebody");
    assert_eq!(created.by.request_id.as_deref(), Some("request-0001"));
    assert_eq!(created.outcome, Outcome::Done);
    let [answered] = told(&host, AuditAction::InterruptAnswered, 1)
        .await
        .try_into()
        .unwrap();
    assert_eq!(answered.by.principal, "somebody");
    assert!(answered.on.id.unwrap().starts_with(&format!("{run}/")));
    // However often it was used: recorded once an hour.
    let used = told(&host, AuditAction::KeyUsed, 1).await;
    assert!(
        (1..=2).contains(&used.len()),
        "an hour may have ended: {used:?}"
    );
    assert_eq!(used[0].by.principal, "somebody");
    host.stop().await;
}

#[tokio::test]
async fn many_creations_are_each_on_the_trail_once_and_it_stays_whole() {
    let host = Host::new().await;
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push(host.create(&json!({ "workflowId": "three" })).await);
    }
    let entries = told(&host, AuditAction::RunCreated, runs.len()).await;
    let ids: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.on.id.as_deref())
        .collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    runs.sort_unstable();
    assert_eq!(sorted, runs);
    let report = verify(&host, "?fromSeq=0&toSeq=1000000").await;
    assert_eq!(report["anomalies"], json!([]));
    assert_eq!(report["chainValid"], true);
    host.stop().await;
}

#[tokio::test]
async fn a_want_of_any_scope_is_on_the_trail_once_a_minute() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let low = Scopes::Only(BTreeSet::from([Scope::RunsRead]));
    let low = host.key_of("acme", None, low).await;
    let attempts = [
        (
            "POST",
            format!("/v1/runs/{run}/cancel"),
            "runs.cancel",
            "runs:cancel",
        ),
        ("POST", "/v1/runs".to_owned(), "runs.create", "runs:create"),
        (
            "GET",
            "/v1/workflows/three".to_owned(),
            "workflows.read",
            "manifest:read",
        ),
        (
            "GET",
            "/v1/audit/verify".to_owned(),
            "audit.read",
            "audit:read",
        ),
    ];
    // Not across the end of a minute: then each may be recorded twice.
    for _ in 0..5 {
        for (method, path, ..) in &attempts {
            let request = Request::new(method, path).key(&low).json(&json!({}));
            assert_eq!(
                request.send(host.address).await.refusal(403),
                "insufficient_scope"
            );
        }
    }
    let trail = host.trail().await;
    for (_, path, action, needs) in &attempts {
        let told = trail.iter().filter(|entry| entry["action"] == *action);
        let told: Vec<_> = told.collect();
        assert!((1..=2).contains(&told.len()), "{path}: {told:?}");
        assert_eq!(
            told[0]["outcome"],
            json!({ "as": "denied", "needs": needs })
        );
    }
}

#[tokio::test]
async fn a_fork_is_signed_although_its_batch_has_no_entry() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let fork = host
        .post(
            &format!("/v1/runs/{run}:fork"),
            &json!({ "mode": "replay" }),
        )
        .await;
    assert_eq!(fork.status, 201, "{}", fork.json());
    let store = host.engine.door().store();
    let events = trail::read(&**store, &"acme".into(), 0, 10_000)
        .await
        .unwrap();
    let of_fork = events.iter().find_map(|event| match &event.body {
        AuditEvent::Recorded(entry) if entry.action == AuditAction::RunForked => Some(event.seq),
        _ => None,
    });
    let of_fork = of_fork.expect("told before it was answered");
    loop {
        let report = verify(&host, "?fromSeq=0&toSeq=1000000").await;
        assert_eq!(report["chainValid"], true, "{report}");
        let last = report["checkpoints"].as_array().unwrap().last();
        if last.is_some_and(|at| at["atSequence"].as_u64() >= Some(of_fork)) {
            break;
        }
        tokio::task::yield_now().await;
    }
    host.stop().await;
}

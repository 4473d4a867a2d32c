//! Rates, admission, and their advertisement and that of credentials.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use runtime::access::Scopes;
use runtime::api::ExpiryToken;
use runtime::keyring::FileKeyring;
use runtime::nodes::{Ports, Registry};
use runtime::outbound::Outbound;
use runtime::secrets::SecretSources;
use runtime::webhooks::Reach;
use runtime::{Engine, EngineOptions};
use serde_json::{Value, json};
use server::Limits;
use tokio::task::JoinSet;

use crate::client::{Answer, Conn, Request};
use crate::host::{Host, Models, chain, node};

fn rate(n: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(n)
}

/// Concurrent requests with a key; more than any machine spreads over their seconds.
async fn burst(host: &Host, key: &str) -> Vec<Answer> {
    let mut sent = JoinSet::new();
    for _ in 0..60 {
        let request = Request::new("GET", "/v1/runs").key(key);
        sent.spawn(request.send(host.address));
    }
    sent.join_all().await
}

fn refused(answers: &[Answer]) -> Vec<&Answer> {
    answers.iter().filter(|it| it.status != 200).collect()
}

#[tokio::test]
async fn callers_over_the_rate_get_a_retry_time() {
    for (scope, limits) in [
        (
            "key",
            Limits {
                principal_rate: rate(1),
                ..Limits::default()
            },
        ),
        (
            "tenant",
            Limits {
                tenant_rate: rate(1),
                ..Limits::default()
            },
        ),
    ] {
        let host = Host::with(limits).await;
        let answers = burst(&host, &host.key).await;
        let refused = refused(&answers);
        assert!((1..60).contains(&refused.len()), "{}", refused.len());
        for answer in refused {
            assert_eq!(answer.refusal(429), "rate_limited");
            let details = &answer.json()["details"];
            let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            let ms = details["retryAfterMs"].as_u64().unwrap();
            assert_eq!(
                (details["retryAfter"].as_u64(), ms.div_ceil(1000)),
                (Some(seconds), seconds)
            );
            assert_eq!(details["scope"], scope);
            assert_eq!(details["limit"], 1);
            assert!(details["observedRate"].as_u64().unwrap() > 0, "{details}");
        }
        // Another tenant has its own rate, and public routes are not counted.
        let theirs = host.key_of("umbrella", None, Scopes::Everything).await;
        let first = Request::new("GET", "/v1/runs").key(&theirs);
        assert_eq!(first.send(host.address).await.status, 200);
        for _ in 0..60 {
            let request = Request::new("GET", "/.well-known/openwop");
            assert_eq!(request.send(host.address).await.status, 200);
        }
    }
}

#[tokio::test]
async fn a_run_over_the_admission_limit_is_rejected_as_advertised() {
    let limits = Limits {
        in_flight: Some(2),
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let advertised = host.get("/.well-known/openwop").await.json();
    let told = &advertised["production"]["backpressure"];
    assert_eq!(told["inflightCap"], 2);
    assert_eq!(
        advertised["capabilities"]["production"]["backpressure"],
        *told
    );
    let mut streams = Vec::new();
    for _ in 0..2 {
        let run = host.create(&json!({ "workflowId": "waits" })).await;
        let mut conn = Conn::to(host.address).await;
        let stream = Request::new("GET", &format!("/v1/runs/{run}/events"));
        conn.send(&stream.key(&host.key).bytes()).await;
        assert_eq!(conn.head().await.unwrap().0, 200);
        streams.push(conn);
    }
    let create = host
        .post("/v1/runs", &json!({ "workflowId": "three" }))
        .await;
    assert_eq!(create.refusal(503), "service_unavailable");
    let seconds = &create.json()["details"]["retryAfter"];
    assert_eq!(*seconds, told["retryAfterSeconds"]);
    assert_eq!(create.header("retry-after"), Some(&*seconds.to_string()));
    // Everything else continues.
    assert_eq!(host.get("/v1/runs").await.status, 200);
}

#[tokio::test]
async fn timer_waits_are_in_flight_and_human_waits_are_not() {
    let limits = Limits {
        in_flight: Some(2),
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let delay = node("wait", "core.delay", json!({ "delayMs": 600_000 }));
    let gate = node("gate", "core.approvalGate", json!({}));
    host.put(&[chain("sleeps", &[delay]), chain("asks", &[gate])])
        .await;
    for _ in 0..2 {
        host.waiting(&json!({ "workflowId": "asks" })).await;
    }
    let mut sent = JoinSet::new();
    for _ in 0..6 {
        let request = Request::new("POST", "/v1/runs").key(&host.key);
        let request = request.json(&json!({ "workflowId": "sleeps" }));
        sent.spawn(request.send(host.address));
    }
    let answers = sent.join_all().await;
    let made: Vec<&Answer> = answers.iter().filter(|it| it.status == 201).collect();
    assert!((1..=2).contains(&made.len()), "{}", made.len());
    for other in answers.iter().filter(|it| it.status != 201) {
        assert_eq!(other.refusal(503), "service_unavailable");
    }
    // One after another there is capacity for exactly two.
    let first = made[0].json()["runId"].as_str().unwrap().to_owned();
    if made.len() == 1 {
        host.create(&json!({ "workflowId": "sleeps" })).await;
    }
    let order = json!({ "workflowId": "sleeps" });
    let more = host.post("/v1/runs", &order).await;
    assert_eq!(more.refusal(503), "service_unavailable");
    let cancel = format!("/v1/runs/{first}/cancel");
    assert_eq!(host.post(&cancel, &json!({})).await.status, 200);
    host.ended(&first).await;
    host.create(&order).await;
    // Another process counts the same runs when it starts, and drops those that ended elsewhere.
    let folder = tempfile::tempdir().unwrap();
    let ports = Ports {
        supervisor: host.supervisor(),
        outbound: Outbound::default(),
        secrets: Arc::new(SecretSources::default()),
        models: Arc::default(),
        keyring: Arc::new(FileKeyring::new(folder.path().join("keyring.json"))),
        workdir: folder.path().to_owned(),
        programs: Arc::default(),
    };
    let store = host.engine.door().store().clone();
    let (nodes, options) = (Arc::new(Registry::standard()), EngineOptions::default());
    let other = Engine::new(store, nodes, ports, options);
    runtime::telemetry::begin(&other).await.unwrap();
    assert_eq!(runtime::telemetry::in_flight(&other), 2);
    let listed = host.get("/v1/runs?workflowId=sleeps&status=running").await;
    for run in listed.json()["runs"].as_array().unwrap() {
        let run = run["runId"].as_str().unwrap();
        host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
            .await;
        host.ended(run).await;
    }
    assert_eq!(runtime::telemetry::in_flight(&other), 2, "nobody told it");
    runtime::telemetry::recount_in_flight(&other, 2)
        .await
        .unwrap();
    assert_eq!(runtime::telemetry::in_flight(&other), 0);
}

#[tokio::test]
async fn unconfigured_features_are_not_advertised() {
    let host = Host::new().await;
    let document = host.get("/.well-known/openwop").await.json();
    let profiles = json!([
        "openwop-auth-api-key-rotation",
        "openwop-audit-log-integrity"
    ]);
    assert_eq!(document["auth"]["profiles"], profiles);
    assert_eq!(document["auth"]["oauth2"], Value::Null);
}

#[tokio::test]
async fn the_production_profile_is_claimed_with_enough_retention() {
    let week = Duration::from_secs(7 * 24 * 3_600);
    for (kept, told) in [
        // Never erased.
        (None, Some(604_800)),
        (Some(week), Some(604_800)),
        (Some(4 * week), Some(2_419_200)),
        (Some(week - Duration::from_secs(1)), None),
    ] {
        let limits = Limits {
            retain_finished: kept,
            ..Limits::default()
        };
        let host = Host::with(limits).await;
        let document = host.get("/.well-known/openwop").await.json();
        let production = &document["production"];
        assert_eq!(*production, document["capabilities"]["production"]);
        assert_eq!(production["supported"], told.is_some(), "{kept:?}");
        let retention = match told {
            Some(seconds) => json!({
                "supported": true, "minWindowSeconds": seconds, "testForceExpire": false,
            }),
            None => json!({ "supported": false }),
        };
        assert_eq!(production["retention"], retention);
        let backpressure = json!({ "supported": true, "retryAfterSeconds": 1 });
        assert_eq!(production["backpressure"], backpressure);
        let bundle = json!({ "supported": true, "truncationMetadata": true });
        assert_eq!(production["debugBundle"], bundle);
    }
}

#[tokio::test]
async fn the_token_holder_can_expire_the_retention_of_a_run() {
    const TOKEN: &str = "a-token-that-nobody-guesses";
    assert!(ExpiryToken::parse("short").is_none());
    let models = Models {
        expiry: ExpiryToken::parse(TOKEN),
        ..Models::default()
    };
    let host = Host::with_models(Limits::default(), Reach::Public, models).await;
    let told = host.get("/.well-known/openwop").await.json()["production"].clone();
    assert_eq!(told["retention"]["testForceExpire"], true);
    // Sends neither a credential nor a body.
    let expire = async |host: &Host, run: &str, token: &str| {
        let path = format!("/v1/test/runs/{run}/expire?token={token}");
        Request::new("POST", &path).send(host.address).await
    };
    let child = node(
        "child",
        "core.subWorkflow",
        json!({ "workflowId": "three" }),
    );
    host.put(&[chain("parent", &[child])]).await;
    let run = host.completed(&json!({ "workflowId": "parent" })).await;
    let child = host.snapshot(&run).await["childRuns"][0]["runId"].clone();
    let child = child.as_str().unwrap();
    let replay = json!({ "mode": "replay" });
    let fork = host.post(&format!("/v1/runs/{run}:fork"), &replay).await;
    let fork = fork.json()["runId"].as_str().unwrap().to_owned();

    for (run, token) in [
        (run.as_str(), ""),
        (run.as_str(), "a-token-that-somebody-guesses"),
        ("run-none", "a-token-that-somebody-guesses"),
    ] {
        let refused = expire(&host, run, token).await;
        assert_eq!(refused.refusal(403), "forbidden", "{run} {token}");
    }
    assert_eq!(host.snapshot(&run).await["status"], "completed");
    let active = host.create(&json!({ "workflowId": "waits" })).await;
    let refused = expire(&host, &active, TOKEN).await;
    assert_eq!(refused.refusal(409), "run_active");
    let unknown = expire(&host, "run-none", TOKEN).await;
    assert_eq!(unknown.refusal(404), "run_not_found");

    assert_eq!(expire(&host, &run, TOKEN).await.status, 200);
    let purges = host.trail().await;
    let purges: Vec<_> = (purges
        .iter()
        .filter(|entry| entry["action"] == "run.purged"))
    .collect();
    let erased: Vec<_> = purges.iter().map(|entry| &entry["on"]["id"]).collect();
    assert_eq!(erased, [&json!(child), &json!(run)]);
    assert_eq!(purges[0]["by"]["principal"], "expire-token");
    for gone in [run.as_str(), child] {
        for path in ["", "/events", "/events/poll", "/debug-bundle"] {
            let answer = host.get(&format!("/v1/runs/{gone}{path}")).await;
            assert_eq!(answer.refusal(410), "run_expired", "{path}");
            let expired = answer.json()["details"]["expiredAt"].clone();
            assert!(expired.as_str().is_some_and(|at| at.ends_with('Z')));
        }
    }
    assert_eq!(host.snapshot(&fork).await["status"], "completed");

    // A keyed request is not executed again because its run is gone.
    let keyed = async |path: &str, body: Value| {
        let request = Request::new("POST", path).key(&host.key).json(&body);
        let answer = request
            .header("Idempotency-Key", "k")
            .send(host.address)
            .await;
        let is_again = answer.header("openwop-idempotent-replay") == Some("true");
        (is_again, answer.status, answer.json())
    };
    let made = host.completed(&json!({ "workflowId": "three" })).await;
    let fork = format!("/v1/runs/{made}:fork");
    for (path, body, other) in [
        (
            "/v1/runs",
            json!({ "workflowId": "three" }),
            json!({ "workflowId": "fails" }),
        ),
        (
            fork.as_str(),
            json!({ "mode": "replay" }),
            json!({ "mode": "branch", "fromSeq": 1 }),
        ),
    ] {
        let (is_again, status, first) = keyed(path, body.clone()).await;
        assert_eq!((is_again, status), (false, 201));
        let run = first["runId"].as_str().unwrap();
        host.engine.settled(&run.into()).await.unwrap();
        assert_eq!(expire(&host, run, TOKEN).await.status, 200);
        assert_eq!(
            keyed(path, body).await,
            (true, 201, first.clone()),
            "{path}"
        );
        let gone = host.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(gone.refusal(410), "run_expired");
        assert_eq!(keyed(path, other).await.1, 409, "{path}");
    }

    let other = Host::new().await;
    let run = other.completed(&json!({ "workflowId": "three" })).await;
    let refused = expire(&other, &run, TOKEN).await;
    assert_eq!(refused.refusal(403), "forbidden", "nobody was given one");
}

#[tokio::test]
async fn a_stream_over_the_limit_is_rejected_as_advertised() {
    let limits = Limits {
        streams: 1,
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let told = host.get("/.well-known/openwop").await.json();
    let told = told["production"]["backpressure"]["retryAfterSeconds"].clone();
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let path = format!("/v1/runs/{run}/events");
    let stream = || Request::new("GET", &path).key(&host.key);
    let mut open = Conn::to(host.address).await;
    open.send(&stream().bytes()).await;
    assert_eq!(open.head().await.unwrap().0, 200);
    let refused = stream().send(host.address).await;
    assert_eq!(refused.refusal(503), "service_unavailable");
    assert_eq!(refused.json()["details"]["retryAfter"], told);
    assert_eq!(refused.header("retry-after"), Some(&*told.to_string()));
    // Health checks are not counted.
    let discovery = Request::new("GET", "/.well-known/openwop");
    assert_eq!(discovery.send(host.address).await.status, 200);
}

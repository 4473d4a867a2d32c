//! Debug bundles.

use serde_json::{Value, json};

use crate::host::Host;

async fn bundle(host: &Host, run: &str, query: &str) -> Value {
    let answer = host
        .get(&format!("/v1/runs/{run}/debug-bundle{query}"))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()
}

#[tokio::test]
async fn a_bundle_matches_snapshot_and_events() {
    let host = Host::new().await;
    for order in [
        json!({ "workflowId": "three" }),
        json!({ "workflowId": "fails" }),
    ] {
        let run = host.completed(&order).await;
        let flag = json!({ "signal": { "kind": "flag" } });
        host.post(&format!("/v1/runs/{run}/annotations"), &flag)
            .await;
        let bundle = bundle(&host, &run, "").await;
        let discovery = host.get("/.well-known/openwop").await.json();
        assert_eq!(bundle["host"], discovery["implementation"]);
        let mode = &discovery["compliance"]["defaultMode"];
        assert_eq!(&bundle["redactionMode"], mode);
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        let mut shown = bundle["run"].clone();
        let exact = shown.as_object_mut().unwrap().remove("runStatus");
        assert_eq!(
            (exact.as_ref(), shown),
            (snapshot.get("status"), snapshot.clone())
        );
        let page = host
            .get(&format!("/v1/runs/{run}/events/poll"))
            .await
            .json();
        assert_eq!(bundle["events"], page["events"]);
        let events = page["events"].as_array().unwrap();
        assert_eq!(bundle["metrics"]["eventCount"], events.len());
        let mut nodes: Vec<_> = events
            .iter()
            .filter_map(|it| it["nodeId"].as_str())
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(bundle["metrics"]["nodeCount"], nodes.len());
        assert_eq!(bundle["annotations"].as_array().unwrap().len(), 1);
        assert!(bundle.get("truncated").is_none());
    }
    let unknown = host.get("/v1/runs/run-none/debug-bundle").await;
    assert_eq!(unknown.refusal(404), "run_not_found");
}

#[tokio::test]
async fn a_bundle_is_bounded_and_lists_missing_parts() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let page = host
        .get(&format!("/v1/runs/{run}/events/poll"))
        .await
        .json();
    let events = page["events"].as_array().unwrap();
    for most in [0, 1, 3] {
        let cut = bundle(&host, &run, &format!("?maxEvents={most}")).await;
        assert_eq!(cut["events"], json!(events[..most]));
        assert_eq!(cut["metrics"]["eventCount"], most);
        assert_eq!(cut["truncated"], true);
        assert_eq!(cut["truncatedReason"], "events_truncated_to_size_cap");
    }
    let all = bundle(&host, &run, &format!("?maxEvents={}", events.len())).await;
    assert!(all.get("truncated").is_none());
    let wrong = host
        .get(&format!("/v1/runs/{run}/debug-bundle?maxEvents=-1"))
        .await;
    assert_eq!(wrong.refusal(400), "validation_error");

    // Ten megabytes of signals: the log has all of them.
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    for n in 0..10 {
        let signal = kernel::run::Command::Signal {
            name: "big".into(),
            id: format!("{n}"),
            payload: json!("x".repeat(1 << 20)),
        };
        let told = host
            .engine
            .command(&run.as_str().into(), signal.into())
            .await;
        told.unwrap();
    }
    let answer = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
    assert!(
        answer.body.len() < (8 << 20) + (64 << 10),
        "{}",
        answer.body.len()
    );
    let cut = answer.json();
    assert_eq!(cut["truncatedReason"], "events_truncated_to_size_cap");
    let count = cut["events"].as_array().unwrap().len();
    assert!(count > 5 && count < 12, "{count}");
}

/// Credentials in inputs, in the protocol's forms: a key with a suffix, and a reference.
#[tokio::test]
async fn planted_credentials_are_shown_nowhere() {
    let host = Host::new().await;
    let planted = "PLANTED-for-a-test-of-REDACTION-q7Rk2mZ9xY4tL6vW8";
    for credential in [
        format!("AIza{planted}AndMore123"),
        format!("cred_{planted}"),
        format!("sk-{planted}"),
    ] {
        let inputs =
            json!({ "who": "world", "more": { "text": format!("use {credential} here") } });
        let order = json!({
            "workflowId": "greets", "inputs": inputs, "tags": [credential],
            "metadata": { "key": credential }, "configurable": { "ai.credentialRef": credential },
        });
        let run = host.create(&order).await;
        host.engine.settled(&run.as_str().into()).await.unwrap();
        let said = json!({
            "signal": { "kind": "correction", "correction": credential }, "note": credential,
        });
        let noted = host
            .post(&format!("/v1/runs/{run}/annotations"), &said)
            .await;
        assert_eq!(noted.status, 201);
        for path in [
            "",
            "/events/poll",
            "/events?streamMode=debug",
            "/annotations",
            "/debug-bundle",
        ] {
            let answer = host.get(&format!("/v1/runs/{run}{path}")).await;
            assert_eq!(answer.status, 200, "{path}");
            let text = String::from_utf8_lossy(&answer.body);
            assert!(!text.contains(planted), "{path}: {text}");
        }
        assert!(!String::from_utf8_lossy(&noted.body).contains(planted));
        let listed = host.get("/v1/runs").await;
        assert!(!String::from_utf8_lossy(&listed.body).contains(planted));
    }
}

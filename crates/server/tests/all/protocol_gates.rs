//! The protocol's own definitions for steering and questions, if they are installed.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::host::Host;

fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let folder = folder.join("workflows/openwop");
    folder.is_dir().then_some(folder)
}

/// A host with the protocol's definitions of these names.
async fn host(test: &str, names: &[&str]) -> Option<Host> {
    let Some(folder) = folder() else {
        testkit::skip(test, "there is no folder of OpenWOP definitions");
        return None;
    };
    let host = Host::new().await;
    for name in names {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        host.add(&serde_json::from_str::<Value>(&text).unwrap())
            .await;
    }
    Some(host)
}

fn order(name: &str) -> Value {
    json!({ "workflowId": name })
}

#[tokio::test]
async fn definitions_that_ask_behave_as_the_protocol_says() {
    let test = "definitions_that_ask_behave_as_the_protocol_says";
    let names = [
        "conformance-approval",
        "conformance-clarification",
        "conformance-interrupt-quorum",
        "conformance-interrupt-auth-required",
        "conformance-interrupt-external-event",
    ];
    let Some(host) = host(test, &names).await else {
        return;
    };
    let accept = || json!({ "action": "accept" });

    let run = host.waiting(&order("conformance-approval")).await;
    let odd = host
        .answer(&run, "gate", json!({ "action": "explode" }))
        .await;
    assert_eq!(odd.status, 400);
    assert_eq!(host.answer(&run, "gate", accept()).await.status, 200);
    assert_eq!(host.ended(&run).await["status"], "completed");

    let run = host.waiting(&order("conformance-clarification")).await;
    let answers = json!({ "answers": { "q1": "blue" } });
    assert_eq!(host.answer(&run, "ask", answers).await.status, 200);
    assert_eq!(host.ended(&run).await["status"], "completed");

    let vote = |action: &str, voter: &str| json!({ "action": action, "voter": voter });
    for (action, voters, end) in [
        ("accept", &["a", "b", "c"][..], "completed"),
        ("reject", &["a", "b"][..], "failed"),
    ] {
        let run = host.waiting(&order("conformance-interrupt-quorum")).await;
        for voter in voters {
            let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
            assert_eq!(snapshot["status"], "waiting-approval");
            assert_eq!(
                host.answer(&run, "gate", vote(action, voter)).await.status,
                200
            );
        }
        assert_eq!(host.ended(&run).await["status"], end);
    }

    let run = host
        .waiting(&order("conformance-interrupt-auth-required"))
        .await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["interrupt"].get("interruptToken"), None);
    assert_eq!(host.answer(&run, "gate", accept()).await.status, 200);

    let run = host
        .waiting(&order("conformance-interrupt-external-event"))
        .await;
    let token = host.token(&run).await;
    let other = json!({ "orderId": "fixture-order-2", "status": "completed" });
    assert_eq!(host.answer_by(&token, other).await.status, 422);
    let event = json!({ "orderId": "fixture-order-1", "status": "completed" });
    assert_eq!(host.answer_by(&token, event).await.status, 200);
    assert_eq!(host.ended(&run).await["status"], "completed");
}

#[tokio::test]
async fn definitions_that_take_long_are_cancelled_and_paused() {
    let test = "definitions_that_take_long_are_cancelled_and_paused";
    let names = ["conformance-cancellable", "conformance-delay"];
    let Some(host) = host(test, &names).await else {
        return;
    };
    let run = host.create(&order("conformance-cancellable")).await;
    host.until(&run, |status| status == "running").await;
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    let snapshot = host.ended(&run).await;
    assert_eq!(snapshot["status"], "cancelled");
    let types = host.types(&run).await;
    assert_eq!(
        types[types.len() - 2..],
        ["node.cancelled", "run.cancelled"]
    );

    let inputs = json!({ "delayMs": 300 });
    let order = json!({ "workflowId": "conformance-delay", "inputs": inputs });
    let run = host.create(&order).await;
    let paused = host
        .post(&format!("/v1/runs/{run}:pause"), &json!({}))
        .await;
    assert_eq!(paused.status, 202);
    host.until(&run, |status| status == "paused").await;
    assert!(
        host.types(&run)
            .await
            .contains(&"node.completed".to_owned())
    );
    host.post(&format!("/v1/runs/{run}:resume"), &json!({}))
        .await;
    assert_eq!(host.ended(&run).await["status"], "completed");
}

#[tokio::test]
async fn a_cancelled_parent_takes_the_protocols_child_along() {
    let test = "a_cancelled_parent_takes_the_protocols_child_along";
    let names = [
        "conformance-interrupt-parent-child-cancel",
        "conformance-interrupt-parent-child-cancel-child",
    ];
    let Some(host) = host(test, &names).await else {
        return;
    };
    let parent = host.create(&order(names[0])).await;
    let snapshot = host
        .until(&parent, |status| status == "waiting-approval")
        .await;
    let child = snapshot["childRuns"][0]["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    let waiting = host
        .until(&child, |status| status == "waiting-approval")
        .await;
    let node = waiting["currentNodeId"].as_str().unwrap();
    host.post(&format!("/v1/runs/{parent}/cancel"), &json!({}))
        .await;
    assert_eq!(host.ended(&parent).await["status"], "cancelled");
    assert_eq!(host.ended(&child).await["status"], "cancelled");
    let late = host
        .answer(&child, node, json!({ "action": "accept" }))
        .await;
    assert_eq!(late.refusal(410), "interrupt_gone");
}

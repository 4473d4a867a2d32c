//! Runs that fail when their retries are exhausted: reported, kept, forked.

use std::time::Duration;

use serde_json::{Value, json};
use server::Limits;

use crate::client::Request;
use crate::host::{Host, chain, node};

async fn claimed(host: &Host) -> Value {
    let discovery = Request::new("GET", "/.well-known/openwop");
    discovery.send(host.address).await.json()["deadLetter"].clone()
}

async fn fork(host: &Host, run: &str, order: Value) -> Value {
    let answer = host.post(&format!("/v1/runs/{run}:fork"), &order).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()
}

#[tokio::test]
async fn a_run_out_of_retries_is_a_dead_letter_that_can_be_forked() {
    let host = Host::new().await;
    let mut fails = node("fails", "core.fail", json!({ "code": "no_luck" }));
    fails["settings"] = json!({ "retry": { "maxRetries": 2, "backoffMs": 1 } });
    let fails_at_once = node("fails", "core.fail", json!({ "code": "no_luck" }));
    host.put(&[
        chain("unlucky", &[node("before", "core.noop", json!({})), fails]),
        chain("at-once", &[fails_at_once]),
    ])
    .await;
    let run = host.completed(&json!({ "workflowId": "unlucky" })).await;
    assert_eq!(host.snapshot(&run).await["status"], "failed");
    let events = host.events(&run).await;
    let [.., dead, failed] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        [&dead["type"], &failed["type"]],
        ["run.dead_lettered", "run.failed"]
    );
    let expected = json!({ "runId": run, "nodeId": "fails", "reason": "no_luck", "attempts": 3 });
    assert_eq!(dead["payload"], expected);
    let listed = host.get("/v1/runs?status=failed").await.json();
    assert_eq!(listed["runs"][0]["runId"], run.as_str());

    let replay = fork(&host, &run, json!({ "mode": "replay" })).await;
    assert_eq!(replay["status"], "failed");
    let replayed = host.events(replay["runId"].as_str().unwrap()).await;
    assert_eq!(replayed.len(), events.len());
    // A branch retries as often as the run did.
    let from = events
        .iter()
        .position(|event| event["type"] == "node.started" && event["nodeId"] == "fails");
    let branch = fork(&host, &run, json!({ "mode": "branch", "fromSeq": from })).await;
    let branch = branch["runId"].as_str().unwrap();
    host.shows(branch, |snapshot| snapshot["status"] == "failed")
        .await;
    let again = host.events(branch).await;
    let dead: Vec<&Value> = again
        .iter()
        .filter(|event| event["type"] == "run.dead_lettered")
        .map(|event| &event["payload"])
        .collect();
    let expected =
        json!({ "runId": branch, "nodeId": "fails", "reason": "no_luck", "attempts": 3 });
    assert_eq!(dead, [&expected]);

    // Without retries there is nothing to report.
    let run = host.completed(&json!({ "workflowId": "at-once" })).await;
    let types: Vec<Value> = host
        .events(&run)
        .await
        .iter()
        .map(|event| event["type"].clone())
        .collect();
    assert!(!types.contains(&json!("run.dead_lettered")), "{types:?}");
}

#[tokio::test]
async fn retention_of_dead_letters_is_given_in_days() {
    for (hours, expected) in [
        (None, json!({ "supported": true })),
        (Some(12), json!({ "supported": true })),
        (Some(24), json!({ "supported": true, "retentionDays": 1 })),
        (Some(84), json!({ "supported": true, "retentionDays": 3 })),
    ] {
        let limits = Limits {
            retain_finished: hours.map(|hours| Duration::from_secs(hours * 3_600)),
            ..Limits::default()
        };
        let host = Host::with(limits).await;
        assert_eq!(claimed(&host).await, expected, "{hours:?}");
        host.stop().await;
    }
}

//! The events of a budget, in both versions of OpenWOP.

use serde_json::{Value, json};

use crate::host::{Host, chain, node};
use crate::v2::{at, check_event, create, get};

/// The budget events of a run in a version, without their envelope.
fn told(events: &Value) -> Vec<(String, Value)> {
    let events = events["events"].as_array().unwrap().iter();
    let told = events.filter_map(|event| {
        let kind = event["type"].as_str().unwrap();
        let is_ours = kind.starts_with("budget.") || kind == "cap.breached";
        is_ours.then(|| (kind.to_owned(), event["payload"].clone()))
    });
    told.collect()
}

#[tokio::test]
async fn a_budget_is_told_in_events_of_both_versions() {
    let host = Host::new().await;
    let mut fails = node(
        "fails",
        "core.fail",
        json!({ "code": "boom", "message": "as the test says", "retryable": true }),
    );
    fails["settings"] = json!({ "retry": { "maxRetries": 5, "initialDelayMs": 1 } });
    let definition = chain("spends", &[fails]);
    assert_eq!(host.post("/v1/workflows", &definition).await.status, 201);
    let budget = json!({ "maxRetries": 2, "maxCostUsd": 1.5, "thresholdPercent": 50 });
    let configurable = json!({ "version": 1, "budget": budget });
    let order = json!({ "workflowId": "spends", "configurable": configurable });
    let run = create(&host, &order).await;
    let id = run.strip_prefix("acme/").unwrap().to_owned();
    host.engine.settled(&id.as_str().into()).await.unwrap();
    let newer = get(&host, &format!("{}/events/poll", at(&run)))
        .await
        .json();
    let older = host.get(&format!("/v1/runs/{id}/events/poll")).await.json();
    newer["events"]
        .as_array()
        .unwrap()
        .iter()
        .for_each(check_event);
    let named = |crossed: &str| {
        let effective = json!({ "maxCostUsd": 1.5, "maxRetries": 2 });
        let of =
            |consumed: u64| json!({ "dimension": "retries", "consumed": consumed, "limit": 2 });
        let mut threshold = of(1);
        threshold["percent"] = json!(50);
        [
            (
                "budget.reserved".to_owned(),
                json!({ "effectiveBudget": effective, "scope": "run" }),
            ),
            (crossed.to_owned(), threshold),
            ("budget.exhausted".to_owned(), of(2)),
        ]
    };
    let (newer, older) = (told(&newer), told(&older));
    assert_eq!(newer[..3], named("budget.threshold-crossed"));
    assert_eq!(older[..3], named("budget.threshold.crossed"));
    assert_eq!(newer[3].0, "cap.breached");
    assert_eq!((newer.len(), older.len()), (4, 4));
    let snapshot = get(&host, &at(&run)).await.json();
    assert_eq!(snapshot["error"]["code"], "budget_exhausted");
    let claimed = get(&host, "/.well-known/openwop").await.json();
    assert_eq!(claimed["budget"]["enforce"], "hard");
    let claimed = host.get("/.well-known/openwop").await.json();
    assert_eq!(claimed["budget"]["supported"], true);
}

//! Keyed takes, offered tasks, and reports on several tasks at once.

use serde_json::{Value, json};

use crate::host::Host;

const QUEUE: &str = "/v1/coordinator/render";

async fn host(repeat: &str) -> Host {
    let host = Host::new().await;
    let node = json!({
        "id": "w", "typeId": "runwright.worker", "name": "w", "position": { "x": 0, "y": 0 },
        "config": { "queue": "render", "repeat": repeat }, "inputs": {},
    });
    let mut workflow = crate::host::chain("renders", &[]);
    workflow["nodes"] = json!([node]);
    workflow["edges"] = json!([]);
    host.put(&[workflow]).await;
    host
}

async fn post(host: &Host, path: &str, body: &Value) -> Value {
    let answer = host.post(&format!("{QUEUE}/{path}"), body).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    answer.json()
}

/// Takes until there are tasks.
async fn take(host: &Host, key: &str, max: usize) -> Vec<Value> {
    let body = json!({ "worker": "w", "key": key, "max": max, "wait_ms": 20_000 });
    let taken = post(host, "take", &body).await;
    taken["assignments"].as_array().unwrap().clone()
}

fn named(taken: &Value) -> Value {
    json!({ "assignment_id": taken["assignment_id"], "fence": taken["fence"] })
}

async fn waiting(host: &Host, count: usize) {
    for _ in 0..count {
        host.create(&json!({ "workflowId": "renders" })).await;
    }
    let mut after = 0;
    while after < count {
        let snapshot = host.get(&format!("{QUEUE}/snapshot")).await.json();
        after = usize::try_from(snapshot["backlog"]["pending"].as_u64().unwrap()).unwrap();
    }
}

#[tokio::test]
async fn the_same_key_of_a_take_gives_the_same_tasks() {
    let host = host("repeatable").await;
    waiting(&host, 3).await;
    let first = take(&host, "k-1", 2).await;
    assert_eq!(first.len(), 2);
    assert_eq!(first[0]["begin_ms"], Value::Null);
    let again = take(&host, "k-1", 2).await;
    assert_eq!(again, first);
    let other = take(&host, "k-2", 2).await;
    assert_eq!(other.len(), 1);
    assert_ne!(other[0]["request_id"], first[0]["request_id"]);
    for key in [json!(""), json!(1), json!("k".repeat(129))] {
        let body = json!({ "worker": "w", "key": key });
        let refused = host.post(&format!("{QUEUE}/take"), &body).await;
        assert_eq!(refused.refusal(400), "validation_error");
    }
}

#[tokio::test]
async fn a_released_take_gives_back_and_assigns_nothing() {
    let host = host("once").await;
    waiting(&host, 2).await;
    let lost = take(&host, "k-1", 2).await;
    let release = json!({ "worker": "w", "key": "k-1" });
    assert_eq!(post(&host, "release", &release).await["released"], 2);
    assert_eq!(post(&host, "release", &release).await["released"], 0);
    let late = json!({ "worker": "w", "key": "k-1", "max": 2 });
    let late = post(&host, "take", &late).await;
    assert_eq!(late["assignments"], json!([]));
    // Also if nothing had been assigned under it.
    let release = json!({ "worker": "w", "key": "k-2" });
    assert_eq!(post(&host, "release", &release).await["released"], 0);
    let late = json!({ "worker": "w", "key": "k-2", "max": 2 });
    assert_eq!(post(&host, "take", &late).await["assignments"], json!([]));
    let next = take(&host, "k-3", 2).await;
    assert_eq!(next.len(), 2);
    assert_eq!(next[0]["fence"], 2);
    assert_eq!(next[0]["request_id"], lost[0]["request_id"]);
}

#[tokio::test]
async fn several_tasks_are_begun_and_settled_at_once() {
    let host = host("once").await;
    waiting(&host, 4).await;
    let taken = take(&host, "k-1", 4).await;
    assert_eq!(taken[0]["begin_ms"], 10_000);
    let all: Vec<Value> = taken.iter().map(named).collect();
    let mut guessed = all.clone();
    guessed[3]["fence"] = json!(7);
    let begun = post(&host, "begin", &json!({ "assignments": guessed })).await;
    assert_eq!(begun["assignments"][0]["begun"], true, "{begun}");
    assert_eq!(begun["assignments"][3]["error"], "assignment_not_found");
    let again = post(&host, "begin", &json!({ "assignments": all })).await;
    assert!(
        again["assignments"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["begun"] == true)
    );

    let mut ends = all;
    ends[0]["outputs"] = json!({ "pages": 1 });
    ends[1]["error"] = json!({ "code": "no_page", "message": "there is none" });
    ends[2]["release"] = json!(true);
    ends[3]["outputs"] = json!({});
    ends[3]["release"] = json!(true);
    let told = post(&host, "settle", &json!({ "assignments": ends })).await;
    let of = |place: usize| told["assignments"][place].clone();
    assert_eq!(of(0)["status"], "delivered", "{told}");
    assert_eq!(of(1)["status"], "failed");
    assert_eq!(of(2)["status"], "notified");
    assert_eq!(of(3)["error"], "validation_error");
    assert_eq!(of(3)["assignment_id"], taken[3]["assignment_id"]);
    ends[3]["outputs"] = json!({});
    ends[3].as_object_mut().unwrap().remove("release");
    let told = post(&host, "settle", &json!({ "assignments": ends })).await;
    let repeated: Vec<Value> = told["assignments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["repeated"].clone())
        .collect();
    assert_eq!(repeated, [true, true, true, false]);

    let twice = json!({ "assignments": [ends[0], ends[0]] });
    let refused = host.post(&format!("{QUEUE}/settle"), &twice).await;
    assert_eq!(refused.refusal(400), "validation_error");
    let none = json!({ "assignments": [] });
    let refused = host.post(&format!("{QUEUE}/begin"), &none).await;
    assert_eq!(refused.refusal(400), "validation_error");
}

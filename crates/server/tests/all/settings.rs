//! The reserved keys of `configurable` about models, and the cost of a run's models: one test for
//! each, by the requests to the model.

use serde_json::{Value, json};

use crate::host::{Host, chain, node};
use crate::model::{Model, Says};

/// The request of a run with this `configurable` to the model, and the run's snapshot.
async fn asked(config: Value, configurable: Value) -> (Value, Value) {
    let model = Model::saying(&[Says::Text("fine")]);
    let host = model.host().await;
    let ask = chain("asks", &[node("ask", "core.ai.callPrompt", config)]);
    host.put(&[ask]).await;
    let snapshot = ran(&host, configurable).await;
    let mut asked = model.asked();
    assert_eq!(asked.len(), 1, "{snapshot}");
    (asked.remove(0), snapshot)
}

async fn ran(host: &Host, configurable: Value) -> Value {
    let order = json!({ "workflowId": "asks", "configurable": configurable });
    let run = host.completed(&order).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    let kept = snapshot.get("configurable").cloned().unwrap_or(json!({}));
    assert_eq!(kept, configurable);
    snapshot
}

fn prompt() -> Value {
    json!({ "prompt": "Hello?" })
}

#[tokio::test]
async fn model_is_the_one_that_is_asked_where_the_node_names_none() {
    let (asked, _) = asked(prompt(), json!({ "model": "m-9" })).await;
    assert_eq!(asked["model"], "m-9");
    let own = json!({ "prompt": "Hello?", "model": "m-own" });
    let (asked, _) = self::asked(own, json!({ "model": "m-9" })).await;
    assert_eq!(asked["model"], "m-own", "the node's config is stronger");
    let (asked, _) = self::asked(prompt(), json!({})).await;
    assert_eq!(asked["model"], "mock-mini", "the provider's own");
}

#[tokio::test]
async fn temperature_is_sent_to_the_model() {
    let (asked, _) = asked(prompt(), json!({ "temperature": 0.25 })).await;
    assert_eq!(asked["temperature"], 0.25);
    let own = json!({ "prompt": "Hello?", "temperature": 1 });
    let (asked, _) = self::asked(own, json!({ "temperature": 0.25 })).await;
    assert_eq!(asked["temperature"], 1.0);
    let (asked, _) = self::asked(prompt(), json!({})).await;
    assert_eq!(asked.get("temperature"), None);
}

#[tokio::test]
async fn max_tokens_is_sent_to_the_model() {
    let room = |asked: &Value| {
        let known = ["max_completion_tokens", "max_tokens"];
        known.iter().find_map(|key| asked[*key].as_u64())
    };
    let (asked, _) = asked(prompt(), json!({ "maxTokens": 77 })).await;
    assert_eq!(room(&asked), Some(77));
    let own = json!({ "prompt": "Hello?", "maxTokens": 5 });
    let (asked, _) = self::asked(own, json!({ "maxTokens": 77 })).await;
    assert_eq!(room(&asked), Some(5));
}

#[tokio::test]
async fn prompt_overrides_take_the_place_of_prompts_by_their_ids() {
    let config = json!({ "promptId": "greet", "prompt": "Hello?" });
    let said = |asked: &Value| asked["messages"][0]["content"].clone();
    let overrides = json!({ "promptOverrides": { "greet": "Good day?", "other": "No." } });
    let (asked, _) = asked(config.clone(), overrides).await;
    assert_eq!(said(&asked), "Good day?");
    let others = json!({ "promptOverrides": { "other": "No." } });
    let (asked, _) = self::asked(config, others).await;
    assert_eq!(said(&asked), "Hello?");
}

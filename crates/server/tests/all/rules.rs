//! Nodes that compute with changed rules, and runs by the rules of other engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use kernel::run::{NodeError, Outcome};
use runtime::nodes::{Given, NodeContext, Registry, Repeat, Started, WorkNode};
use runtime::webhooks::Reach;
use serde_json::{Map, Value, json};
use server::Limits;

use crate::client::Request;
use crate::host::{Host, Models, chain, node};

/// Computes a number that a test may change, as a new build would.
struct Rule(Arc<AtomicU64>);

impl Rule {
    fn outcome(&self) -> Outcome {
        let n = self.0.load(Ordering::SeqCst);
        Outcome::completed(Map::from_iter([("n".to_owned(), json!(n))]))
    }
}

#[async_trait]
impl WorkNode for Rule {
    fn type_id(&self) -> &'static str {
        "test.rule"
    }
    fn summary(&self) -> &'static str {
        "Computes a number."
    }
    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }
    fn config_schema(&self) -> Value {
        json!({ "type": "object" })
    }
    fn compute(&self, _given: &Given<'_>) -> Option<Outcome> {
        Some(self.outcome())
    }
    async fn run(&self, _started: Started, _cx: NodeContext) -> Outcome {
        self.outcome()
    }
}

/// Has an effect: how often it ran.
struct Effect(Arc<AtomicU64>);

#[async_trait]
impl WorkNode for Effect {
    fn type_id(&self) -> &'static str {
        "test.effect"
    }
    fn summary(&self) -> &'static str {
        "Counts."
    }
    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }
    fn config_schema(&self) -> Value {
        json!({ "type": "object" })
    }
    async fn run(&self, started: Started, _cx: NodeContext) -> Outcome {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        match started.inputs().get("fails") {
            Some(_) => Outcome::failed(NodeError::new("asked_to", "it was asked to")),
            None => Outcome::completed(Map::from_iter([("ran".to_owned(), json!(n))])),
        }
    }
}

/// A rule, a value computed from it, and a node with an effect.
fn ruled() -> Value {
    let mut twice = node(
        "twice",
        "runwright.transform",
        json!({ "outputs": { "n": "inputs.n * 2" } }),
    );
    twice["inputs"] = json!({
        "n": { "type": "connection", "nodeId": "rule", "outputKey": "n" },
    });
    chain(
        "ruled",
        &[
            node("rule", "test.rule", json!({})),
            node("effect", "test.effect", json!({})),
            twice,
        ],
    )
}

#[tokio::test]
async fn a_changed_rule_is_found_at_the_first_changed_event() {
    let (rule, effects) = (Arc::new(AtomicU64::new(20)), Arc::new(AtomicU64::new(0)));
    let standard = Registry::standard();
    let mut nodes: Vec<Arc<dyn WorkNode>> = standard.nodes().cloned().collect();
    nodes.push(Arc::new(Rule(rule.clone())));
    nodes.push(Arc::new(Effect(effects.clone())));
    let registry = Registry::from_nodes(nodes);
    let models = Models::default();
    let host = Host::with_nodes(Limits::default(), Reach::Public, models, registry).await;
    host.put(&[ruled()]).await;
    let run = host.completed(&json!({ "workflowId": "ruled" })).await;
    assert_eq!(effects.load(Ordering::SeqCst), 1);
    let source = host.events(&run).await;
    let replay = async || {
        let path = format!("/v1/runs/{run}:fork");
        let answer = host.post(&path, &json!({ "mode": "replay" })).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        answer.json()
    };

    let same = replay().await;
    assert_eq!(same.get("divergedAtSeq"), None, "{same}");

    rule.store(21, Ordering::SeqCst);
    let other = replay().await;
    let changed = source
        .iter()
        .find(|event| event["type"] == "node.completed")
        .expect("the rule completed");
    assert_eq!(changed["nodeId"], "rule");
    assert_eq!(other["divergedAtSeq"], changed["sequence"]);
    assert_eq!(other["status"], "completed", "it goes on all the same");
    let events = host.events(other["runId"].as_str().unwrap()).await;
    let at = changed["sequence"].as_u64().unwrap() as usize;
    for (event, expected) in events[..at].iter().zip(&source) {
        assert_eq!(event["type"], expected["type"]);
        assert_eq!(event["payload"], expected["payload"]);
    }
    let told = &events[at];
    assert_eq!(told["type"], "replay.diverged");
    assert_eq!(told["payload"]["atSequence"], changed["sequence"]);
    assert_eq!(told["payload"]["originalEventId"], changed["eventId"]);
    assert_eq!(told["payload"]["divergenceKind"], "output");
    assert_eq!(told["payload"]["divergencePoint"], "node.completed");
    assert_eq!(told["payload"]["replayEventId"], events[at + 1]["eventId"]);
    let given = |id: &str| {
        let mut completed = events
            .iter()
            .filter(|event| event["type"] == "node.completed");
        let event = completed.find(|event| event["nodeId"] == id);
        event.expect("it completed")["payload"]["outputs"].clone()
    };
    assert_eq!(given("rule"), json!({ "n": 21 }));
    assert_eq!(given("twice"), json!({ "n": 42 }), "computed from it");
    assert_eq!(given("effect"), json!({ "ran": 0 }), "as it was recorded");
    assert_eq!(effects.load(Ordering::SeqCst), 1, "nothing ran again");
}

async fn forced(host: &Host, version: &str) -> crate::client::Answer {
    let request = Request::new("POST", "/v1/runs").key(&host.key);
    let request = request.header("X-Force-Engine-Version", version);
    request
        .json(&json!({ "workflowId": "three" }))
        .send(host.address)
        .await
}

#[tokio::test]
async fn test_keys_choose_by_which_engines_rules_a_run_is_decided() {
    let host = Host::new().await;
    let refused = forced(&host, "1").await;
    assert_eq!(refused.refusal(403), "force_engine_version_forbidden");

    let models = Models {
        test_provider: true,
        ..Models::default()
    };
    let host = Host::with_models(Limits::default(), Reach::Public, models).await;
    let discovery = host.get("/.well-known/openwop").await.json();
    let range = &discovery["testing"]["forceEngineVersionRange"];
    let (min, max) = (
        range["min"].as_u64().unwrap(),
        range["max"].as_u64().unwrap(),
    );
    let current = discovery["engineVersion"].as_u64().unwrap();
    assert!(min < max && (min..=max).contains(&current));
    for version in min..=max {
        let created = forced(&host, &version.to_string()).await;
        assert_eq!(created.status, 201, "{}", created.json());
        let run = created.json()["runId"].as_str().unwrap().to_owned();
        let snapshot = host.ended(&run).await;
        assert_eq!(snapshot["status"], "completed");
        assert_eq!(snapshot["engineVersion"], version.to_string());
        for event in host.events(&run).await {
            assert_eq!(event["engineVersion"], version.to_string());
        }
    }
    let above = (max + 1).to_string();
    for wrong in [above.as_str(), "0", "-1", "two", "1.5"] {
        let refused = forced(&host, wrong).await;
        assert_eq!(
            refused.refusal(400),
            "unsupported_force_engine_version",
            "{wrong}"
        );
        assert_eq!(refused.json()["details"]["max"], max);
    }
}

//! Workflows with questions, and helpers for tests.

use kernel::audit::Actor;
use runtime::definitions::shared_tenant;
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::host::{Host, chain, node};

/// A gate `signoff`, followed by `after`.
pub(crate) fn signoff(config: &Value) -> Value {
    chain(
        "signoff",
        &[
            node("signoff", "core.approvalGate", config.clone()),
            node("after", "core.noop", json!({})),
        ],
    )
}

/// A definition of one node.
pub(crate) fn one(id: &str, type_id: &str, config: &Value) -> Value {
    chain(id, &[node(id, type_id, config.clone())])
}

impl Host {
    /// Registers a definition for every tenant.
    pub(crate) async fn add(&self, definition: &Value) {
        let (document, by) = (definition.to_string(), Actor::operator());
        let door = self.engine.door();
        let tenant = shared_tenant();
        let registered = door.register(&tenant, document.as_bytes(), &by);
        registered.await.expect("a definition");
    }

    /// Creates a run and returns its id once it waits for an answer.
    pub(crate) async fn waiting(&self, order: &Value) -> String {
        let run = self.create(order).await;
        self.until(&run, |status| status.starts_with("waiting-"))
            .await;
        run
    }

    /// Waits until a run has a status, and returns its snapshot.
    pub(crate) async fn until(&self, run: &str, fits: impl Fn(&str) -> bool) -> Value {
        loop {
            let snapshot = self.get(&format!("/v1/runs/{run}")).await.json();
            let status = snapshot["status"].as_str().expect("a status");
            if fits(status) {
                return snapshot;
            }
            let ended = ["completed", "failed", "cancelled"].contains(&status);
            assert!(!ended, "{snapshot:#}");
            let seen = self.events(run).await.last().expect("events")["sequence"].clone();
            let poll = format!("/v1/runs/{run}/events/poll?timeout=5&lastSequence={seen}");
            self.get(&poll).await;
        }
    }

    /// The events of a run so far.
    pub(crate) async fn events(&self, run: &str) -> Vec<Value> {
        let page = self
            .get(&format!("/v1/runs/{run}/events/poll?timeout=1"))
            .await;
        page.json()["events"].as_array().expect("events").clone()
    }

    /// The types of a run's events, in order.
    pub(crate) async fn types(&self, run: &str) -> Vec<String> {
        let events = self.events(run).await;
        let types = events
            .iter()
            .map(|event| event["type"].as_str().expect("a type"));
        types.map(str::to_owned).collect()
    }

    /// The phases of a run with one of its workers.
    pub(crate) async fn phases(&self, run: &str, worker: &str) -> Vec<Value> {
        let events = self.events(run).await;
        let steps = events
            .iter()
            .filter(|event| event["type"] == "core.workflowChain.event");
        let own = steps.filter(|event| event["payload"]["workerId"] == worker);
        own.map(|event| event["payload"]["phase"].clone()).collect()
    }

    /// The payload of the only event of a type.
    pub(crate) async fn payload(&self, run: &str, of: &str) -> Value {
        let events = self.events(run).await;
        let mut found = events.iter().filter(|event| event["type"] == of);
        let event = found
            .next()
            .unwrap_or_else(|| panic!("no {of}: {events:#?}"));
        assert_eq!(found.next(), None, "{of}");
        event["payload"].clone()
    }

    /// Answers a question of a run by the name of its node.
    pub(crate) async fn answer(&self, run: &str, node: &str, value: Value) -> Answer {
        self.answer_as(&self.key, run, node, value).await
    }

    pub(crate) async fn answer_as(&self, key: &str, run: &str, node: &str, value: Value) -> Answer {
        let path = format!("/v1/runs/{run}/interrupts/{node}");
        let request = Request::new("POST", &path).key(key);
        request
            .json(&json!({ "resumeValue": value }))
            .send(self.address)
            .await
    }

    /// The token in a run's snapshot for its question.
    pub(crate) async fn token(&self, run: &str) -> String {
        let snapshot = self.get(&format!("/v1/runs/{run}")).await.json();
        let token = snapshot["interrupt"]["interruptToken"].as_str();
        token.unwrap_or_else(|| panic!("{snapshot:#}")).to_owned()
    }

    /// Answers by token, without a credential.
    pub(crate) async fn answer_by(&self, token: &str, value: Value) -> Answer {
        let request = Request::new("POST", &format!("/v1/interrupts/{token}"));
        request
            .json(&json!({ "resumeValue": value }))
            .send(self.address)
            .await
    }

    /// Inspects by token, without a credential.
    pub(crate) async fn look_by(&self, token: &str) -> Answer {
        let request = Request::new("GET", &format!("/v1/interrupts/{token}"));
        request.send(self.address).await
    }

    /// Waits for the end of a run and returns its snapshot.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        self.engine.settled(&run.into()).await.expect("an end");
        self.get(&format!("/v1/runs/{run}")).await.json()
    }
}

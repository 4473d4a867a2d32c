//! The workbench face over TCP: saves, errors, and the separation of tenants.

mod across;
mod as_runs;
mod described;
mod extensions;
mod limits;
mod malformed;
mod memory;
mod saving;
pub(crate) mod session;
mod walls;
mod writers;

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::host::Host;

/// The run of most tests.
pub(crate) const ID: &str = "run_of-tests_1";

/// A document of a run that has just begun.
pub(crate) fn document(id: &str) -> Value {
    let step = |id: &str, policy: &str| json!({ "id": id, "gatePolicy": policy, "inputs": [], "outputs": [] });
    let gate = json!({ "before": "approved", "after": "approved", "checkpoints": {} });
    let workflow = json!({
        "id": "letters", "version": 3, "title": "Letters",
        "steps": [step("one", "AUTO"), step("two", "PAUSE_AFTER")],
        "edges": [{ "id": "e", "from": "one", "to": "two" }],
    });
    json!({
        "revision": 0,
        "run": {
            "id": id, "workflowId": "letters", "workflowVersion": 3, "workflowSnapshot": workflow,
            "startedAt": "2027-01-15T08:00:00.000Z", "status": "running", "tags": ["blue"],
        },
        "trace": [], "artifactsByKey": [], "ruleSetsById": [], "idempotency": [],
        "stepStatus": [["one", "pending"], ["two", "pending"]],
        "gateState": [["one", gate], ["two", gate]],
    })
}

/// The document with one more event, which changes nothing else.
pub(crate) fn with_event(mut document: Value, kind: &str, more: &Value) -> Value {
    let id = document["run"]["id"].clone();
    let place = document["trace"].as_array().unwrap().len();
    let mut event = json!({
        "id": format!("evt_{place}_{kind}"), "type": kind, "runId": id,
        "ts": "2027-01-15T08:00:01.000Z",
    });
    event
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    document["trace"].as_array_mut().unwrap().push(event);
    document["revision"] = json!(document["revision"].as_u64().unwrap() + 1);
    document
}

pub(crate) fn noted(document: Value, text: &str) -> Value {
    with_event(document, "annotation", &json!({ "text": text }))
}

/// The document in which step two waits for its review.
pub(crate) fn reviewed(id: &str) -> Value {
    let mut document = document(id);
    for (kind, more) in [
        ("step_started", json!({ "stepId": "one" })),
        ("step_completed", json!({ "stepId": "one", "ok": true })),
        ("step_started", json!({ "stepId": "two" })),
        (
            "human_gate_requested",
            json!({ "stepId": "two", "gate": "PAUSE_AFTER", "reason": "look at it" }),
        ),
        ("step_completed", json!({ "stepId": "two", "ok": true })),
    ] {
        document = with_event(document, kind, &more);
    }
    document["stepStatus"] = json!([["one", "completed"], ["two", "completed"]]);
    document["gateState"][1][1]["after"] = json!("pending");
    document
}

/// A caller.
#[derive(Clone)]
pub(crate) struct Caller<'a> {
    pub(crate) host: &'a Host,
    pub(crate) key: String,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(host: &'a Host) -> Self {
        Self {
            host,
            key: host.key.clone(),
        }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(method, path).key(&self.key)
    }

    pub(crate) async fn send(&self, request: Request) -> Answer {
        request.send(self.host.address).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    pub(crate) async fn put(&self, document: &Value) -> Answer {
        let id = document["run"]["id"].as_str().unwrap();
        let request = self.request("PUT", &format!("/api/runs/{id}"));
        self.send(request.json(document)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request("POST", path).json(body)).await
    }

    pub(crate) async fn saved(&self, document: &Value) -> Answer {
        let answer = self.put(document).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 204, "{text}");
        assert!(answer.body.is_empty());
        answer
    }

    pub(crate) async fn read(&self, id: &str) -> Value {
        let answer = self.get(&format!("/api/runs/{id}")).await;
        assert_eq!(answer.status, 200);
        answer.json()
    }

    pub(crate) async fn list(&self, query: &str) -> Vec<Value> {
        let answer = self.get(&format!("/api/runs{query}")).await;
        assert_eq!(answer.status, 200);
        answer.json().as_array().unwrap().clone()
    }
}

/// The code of an error of this face.
pub(crate) fn code(answer: &Answer, status: u16) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{text}");
    let body = answer.json();
    assert!(
        !body["error"].as_str().expect("an error").is_empty(),
        "{text}"
    );
    body["code"].as_str().expect("a code").to_owned()
}

//! Invalid documents: rejected with a code, and not stored.

use serde_json::{Value, json};

use super::{Caller, ID, code, document, reviewed};
use crate::host::Host;

/// A change that makes a document invalid, and its error code.
fn changes() -> Vec<(&'static str, Value, &'static str)> {
    let state = "INVALID_RUN_STATE";
    let workflow = "INVALID_WORKFLOW";
    let event = "INVALID_TRACE_EVENT";
    let steps = "/run/workflowSnapshot/steps";
    let edges = "/run/workflowSnapshot/edges";
    let gone = || json!({ "$gone": true });
    let edge = |id: &str, from: &str, to: &str| json!({ "id": id, "from": from, "to": to });
    vec![
        ("", json!(null), state),
        ("", json!([]), state),
        ("", json!("text"), state),
        ("", json!({}), state),
        ("/run", gone(), state),
        ("/run", json!([]), state),
        ("/run", json!(null), state),
        ("/revision", json!("7"), state),
        ("/revision", json!(-1), state),
        ("/revision", json!(1.5), state),
        ("/revision", json!(null), state),
        ("/trace", json!({}), state),
        ("/trace", json!(null), state),
        ("/artifactsByKey", json!({}), state),
        ("/artifactsByKey", json!([["k"]]), state),
        ("/artifactsByKey", json!([[1, {}]]), state),
        ("/artifactsByKey", json!([["k", null]]), state),
        (
            "/artifactsByKey",
            json!([["k", { "artifactKey": "other" }]]),
            state,
        ),
        ("/ruleSetsById", json!("none"), state),
        ("/ruleSetsById", json!([["r", { "id": "other" }]]), state),
        (
            "/idempotency",
            json!([["i", { "artifactKey": "k" }]]),
            state,
        ),
        (
            "/idempotency",
            json!([["i", { "artifactKey": "k", "version": 0 }]]),
            state,
        ),
        ("/stepStatus", json!([["one", "pending"]]), state),
        (
            "/stepStatus",
            json!([["one", "pending"], ["three", "pending"]]),
            state,
        ),
        ("/stepStatus/0/1", json!("done"), state),
        ("/stepStatus/0/1", json!(7), state),
        ("/gateState", gone(), state),
        ("/gateState/0/1", json!("approved"), state),
        ("/gateState/0/0", json!("three"), state),
        ("/run/id", gone(), state),
        ("/run/id", json!(""), state),
        ("/run/id", json!(7), state),
        ("/run/id", json!("run_another"), state),
        ("/run/workflowId", json!("other"), state),
        ("/run/workflowId", gone(), state),
        ("/run/workflowVersion", json!(4), state),
        ("/run/workflowVersion", json!("3"), state),
        ("/run/workflowSnapshot", gone(), workflow),
        ("/run/workflowSnapshot", json!([]), workflow),
        (steps, gone(), workflow),
        (steps, json!({}), workflow),
        ("/run/workflowSnapshot/steps/0/id", json!(""), workflow),
        ("/run/workflowSnapshot/steps/0/id", json!("two"), workflow),
        (edges, gone(), workflow),
        (edges, json!([edge("e", "one", "one")]), workflow),
        (
            edges,
            json!([edge("e", "one", "two"), edge("e", "one", "two")]),
            workflow,
        ),
        (
            edges,
            json!([edge("e", "one", "two"), edge("f", "two", "one")]),
            workflow,
        ),
        (edges, json!([edge("e", "zero", "two")]), workflow),
        (edges, json!([edge("e", "one", "three")]), workflow),
        (edges, json!([{ "id": "e", "from": "one" }]), workflow),
        ("/trace/0", json!(null), event),
        ("/trace/0", json!("event"), event),
        ("/trace/0/id", gone(), event),
        ("/trace/0/type", json!(7), event),
        ("/trace/0/ts", gone(), event),
        ("/trace/0/runId", json!("run_another"), state),
        ("/trace/0/runId", gone(), state),
        ("/trace/0/stepId", json!("three"), state),
        ("/trace/0/stepId", json!({}), state),
    ]
}

fn changed(path: &str, value: &Value) -> Value {
    let mut document = reviewed(ID);
    if value.get("$gone").is_some() {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(name);
    } else {
        *document.pointer_mut(path).unwrap() = value.clone();
    }
    document
}

#[tokio::test]
async fn a_document_that_is_none_is_refused_with_a_code() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let changes = changes();
    assert!(changes.len() >= 50);
    for (path, value, expected) in changes {
        let request = caller.request("PUT", &format!("/api/runs/{ID}"));
        let answer = caller.send(request.json(&changed(path, &value))).await;
        assert_eq!(code(&answer, 400), expected, "{path} {value}");
    }
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let whole = document(ID).to_string();
    let deep_member = whole.replacen(
        "\"trace\":[]",
        &format!("\"trace\":[],\"x\":{}", deep(99_999)),
        1,
    );
    for (text, expected) in [
        (String::new(), "INVALID_JSON"),
        ("{".into(), "INVALID_JSON"),
        (format!("{whole} {whole}"), "INVALID_JSON"),
        ("\u{feff}{}".into(), "INVALID_JSON"),
        (whole.replace("\"blue\"", "\"\\ud800\""), "LONE_SURROGATE"),
        (
            whole.replace("\"revision\":0", "\"revision\":NaN"),
            "INVALID_JSON",
        ),
        (
            whole.replace("\"revision\":0", "\"revision\":1e999"),
            "INVALID_JSON",
        ),
        (
            whole.replace("\"revision\":0", "\"revision\":0,\"revision\":1"),
            "DUPLICATE_KEY",
        ),
        (deep(100_000), "TOO_DEEP"),
        (deep_member, "TOO_DEEP"),
    ] {
        let request = caller.request("PUT", &format!("/api/runs/{ID}"));
        let answer = caller
            .send(request.body("text/plain", text.into_bytes()))
            .await;
        assert_eq!(code(&answer, 400), expected);
    }
    let request = caller.request("PUT", &format!("/api/runs/{ID}"));
    let answer = caller
        .send(request.body("application/json", vec![0xff, 0xfe]))
        .await;
    assert_eq!(code(&answer, 400), "INVALID_JSON");
    // Nothing was stored.
    assert_eq!(caller.get(&format!("/api/runs/{ID}")).await.status, 404);
    assert!(caller.list("").await.is_empty());
}

#[tokio::test]
async fn odd_values_where_lists_look_are_kept_and_listed_as_absent() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let mut odd = document(ID);
    odd["run"]["startedAt"] = json!(17);
    odd["run"]["endedAt"] = json!({ "at": null });
    odd["run"]["status"] = json!(["running"]);
    odd["run"]["tags"] = json!({ "blue": true });
    odd["run"]["own"] = json!("\u{0} and more");
    caller.saved(&odd).await;
    assert_eq!(caller.read(ID).await, odd);
    let row = &caller.list("").await[0];
    assert_eq!(row["startedAt"], "");
    assert_eq!(row["status"], "running");
    assert!(row.get("endedAt").is_none() && row.get("tags").is_none());
}

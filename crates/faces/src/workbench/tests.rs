//! Tests reading, rejecting, exporting and comparing.

use kernel::document::Body;
use serde_json::{Value, json};

use super::bundle::{self, Integrity};
use super::compare::compare;
use super::document;

fn sample() -> Value {
    let step = json!({ "id": "one", "gatePolicy": "AUTO", "inputs": [], "outputs": [], "own": 1 });
    let workflow = json!({ "id": "w", "version": 1, "steps": [step], "edges": [] });
    let gate = json!({ "before": "approved", "after": "approved", "checkpoints": {} });
    json!({
        "revision": 1,
        "run": {
            "id": "run_a", "workflowId": "w", "workflowVersion": 1, "workflowSnapshot": workflow,
            "startedAt": "2027-01-15T08:00:00Z", "status": "running", "own": { "deep": [true] },
        },
        "trace": [{
            "id": "evt_1", "type": "annotation", "runId": "run_a", "ts": "2027-01-15T08:00:01Z",
            "text": "hi", "own": null,
        }],
        "artifactsByKey": [], "ruleSetsById": [], "idempotency": [],
        "stepStatus": [["one", "pending"]], "gateState": [["one", gate]],
    })
}

fn read(value: &Value) -> Body {
    let document::Read { body, .. } =
        document::parse(value.to_string().into_bytes(), "run_a", None).unwrap();
    (*body).clone()
}

#[test]
fn numbers_are_those_of_javascript() {
    let mut odd = sample();
    odd["run"]["metadata"] = json!([1.0, -0.0, 9_007_199_254_740_992_u64, 1e21, 0.1]);
    let body = read(&odd);
    let expected = "[1,0,9007199254740992,1e+21,0.1]";
    let canonical = body.canonical();
    let text = std::str::from_utf8(canonical.as_ref()).unwrap();
    assert!(text.contains(expected), "{text}");
    assert_eq!(Body::read(text.as_bytes()), Some(body));
}

#[test]
fn a_bundle_is_hashed_as_its_schema_reads_it() {
    let body = read(&sample());
    let bundle = bundle::export(&body);
    assert_eq!(
        bundle["run"]["own"],
        Value::Null,
        "unknown members are not handed on"
    );
    let found = bundle::verify(&bundle).unwrap();
    assert_eq!(found.matches, Some(true));
    // Unknown members, and explicit defaults, change nothing.
    let mut other = bundle.clone();
    other["run"]["own"] = json!(7);
    let step = other["run"]["workflowSnapshot"]["steps"][0]
        .as_object_mut()
        .unwrap();
    step.remove("gatePolicy");
    step.remove("inputs");
    assert_eq!(bundle::verify(&other).unwrap().matches, Some(true));
    other["run"]["status"] = json!("completed");
    assert_eq!(bundle::verify(&other).unwrap().matches, Some(false));
}

#[test]
fn a_bundle_without_an_engine_is_derived_from_its_trace() {
    let mut value = sample();
    let started = json!({
        "id": "evt_2", "type": "step_started", "runId": "run_a", "stepId": "one",
        "ts": "2027-01-15T08:00:02Z",
    });
    value["trace"].as_array_mut().unwrap().push(started);
    value["revision"] = json!(2);
    value["stepStatus"] = json!([["one", "running"]]);
    let mut bundle = bundle::export(&read(&value));
    bundle.as_object_mut().unwrap().remove("engine");
    let body = bundle::import(&bundle, Integrity::Ignored).unwrap();
    assert_eq!(body.derived.steps.get("one"), Some(&json!("running")));
    assert_eq!(body.revision, 2);
    let refused = bundle::import(&bundle, Integrity::Required).unwrap_err();
    assert_eq!(refused.code, "INTEGRITY_MISMATCH");
}

#[test]
fn bundles_that_say_something_twice_are_refused() {
    let bundle = bundle::export(&read(&sample()));
    let artifact = json!({ "artifactKey": "k", "typeId": "t", "version": 1, "createdAt": "x" });
    let rules = json!({ "id": "r", "ruleSchemaId": "s", "rules": [] });
    for (name, item) in [("artifacts", artifact), ("ruleSets", rules)] {
        let mut twice = bundle.clone();
        twice[name] = json!([item, item]);
        let refused = bundle::import(&twice, Integrity::Ignored).unwrap_err();
        assert_eq!(refused.code, "INVALID_RUN_BUNDLE", "{name}");
    }
    for odd in [
        json!({}),
        json!(null),
        json!({ "protocolVersion": "2.0.0" }),
    ] {
        assert_eq!(bundle::verify(&odd).unwrap_err().code, "INVALID_RUN_BUNDLE");
    }
}

#[test]
fn a_stale_payload_hash_is_reported() {
    let mut value = sample();
    let data = json!({ "10": 1, "9": 2 });
    let pointer = json!({ "kind": "inline", "payloadHash": "0".repeat(64) });
    let artifact = json!({
        "artifactKey": "k", "typeId": "t", "version": 1, "createdAt": "2027-01-15T08:00:02Z",
        "data": data, "pointer": pointer,
    });
    value["artifactsByKey"] = json!([["k", artifact]]);
    let found = bundle::verify(&bundle::export(&read(&value))).unwrap();
    assert_eq!(
        (found.matches, found.stale_hashes),
        (Some(true), vec!["k".to_owned()])
    );
}

#[test]
fn a_comparison_names_both_values() {
    let old = read(&sample());
    let mut value = sample();
    value["run"]["status"] = json!("failed");
    value["run"].as_object_mut().unwrap().remove("own");
    value["trace"] = json!([]);
    let found = compare(&old, &read(&value));
    assert_eq!(
        found["run"]["status"],
        json!({ "from": "running", "to": "failed" })
    );
    assert_eq!(found["run"]["own"], json!({ "from": { "deep": [true] } }));
    assert_eq!(found["trace"]["removed"].as_array().unwrap().len(), 1);
    assert_eq!(found["stepStatus"], json!({}));
}

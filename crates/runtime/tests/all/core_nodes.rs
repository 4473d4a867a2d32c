//! The small nodes.

use kernel::run::{Completion, Outcome};
use serde_json::{Value, json};

use crate::recorder::*;
use crate::support::Lab;

async fn run(type_id: &str, config: Value, inputs: Value) -> Outcome {
    run_node(&Lab::new(), &Recorder::new(), type_id, config, inputs).await
}

#[tokio::test]
async fn markers_complete_empty_with_any_config() {
    for type_id in [
        "core.noop",
        "core.start",
        "core.end",
        "core.parallel",
        "core.merge",
    ] {
        let outcome = run(type_id, json!({ "anything": [1] }), json!({ "a": 1 })).await;
        assert_eq!(
            outcome,
            Outcome::Completed(Completion::default()),
            "{type_id}"
        );
    }
}

#[tokio::test]
async fn identity_returns_and_keeps_its_input() {
    let inputs = json!({ "payload": { "deep": [null, 1.5, "ü", { "k": true }] }, "n": 0 });
    let Outcome::Completed(completion) = run(
        "core.identity",
        json!({ "memoryAction": "x" }),
        inputs.clone(),
    )
    .await
    else {
        panic!("it completes")
    };
    assert_eq!(Value::Object(completion.outputs), inputs);
    assert_eq!(Value::Object(completion.variables), inputs);
}

#[tokio::test]
async fn fail_fails_as_configured() {
    let cases = [
        (json!({}), "conformance_test_failure", None),
        (
            json!({ "code": "mine", "message": "why", "retryable": false }),
            "mine",
            Some(false),
        ),
    ];
    for (config, code, retryable) in cases {
        let Outcome::Failed { error, .. } = run("core.fail", config, json!({})).await else {
            panic!("it fails")
        };
        assert_eq!((error.code.as_str(), error.retryable), (code, retryable));
    }
}

#[tokio::test]
async fn transform_computes_outputs_and_variables() {
    let config = json!({
        "outputs": { "sum": "inputs.a + inputs.b" },
        "variables": { "greeting": "'hello ' + inputs.name" },
    });
    let outcome = run(
        "runwright.transform",
        config,
        json!({ "a": 1, "b": 2, "name": "you" }),
    )
    .await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it completes: {outcome:?}")
    };
    assert_eq!(Value::Object(completion.outputs), json!({ "sum": 3 }));
    assert_eq!(
        Value::Object(completion.variables),
        json!({ "greeting": "hello you" })
    );
}

//! Creating runs: options, idempotency, errors.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Request;
use crate::host::{Host, chain, node};

#[tokio::test]
async fn a_run_is_created_with_everything_that_was_said() {
    let host = Host::new().await;
    let order = json!({
        "workflowId": "greets", "inputs": { "who": "world", "more": 1 }, "tenantId": "acme",
        "tags": ["x", "y"], "metadata": { "a": { "b": 1 } },
        "configurable": { "recursionLimit": 5, "model": null, "own": true }, "callbackUrl": null,
    });
    let answer = host.post("/v1/runs", &order).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    assert_eq!(answer.header("openwop-idempotent-replay"), None);
    let created = answer.json();
    let run = created["runId"].as_str().unwrap();
    assert_eq!(created["eventsUrl"], format!("/v1/runs/{run}/events"));
    assert_eq!(created["status"], "running");
    host.engine.settled(&run.into()).await.unwrap();
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["status"], "completed");
    for field in ["tags", "metadata", "inputs"] {
        assert_eq!(snapshot[field], order[field], "{field}");
    }
    assert_eq!(
        snapshot["owner"],
        json!({ "tenant": "acme", "principal": "somebody" })
    );
}

#[tokio::test]
async fn ten_equal_requests_at_once_create_one_run() {
    let host = Host::new().await;
    let request = Request::new("POST", "/v1/runs")
        .key(&host.key)
        .header("idempotency-key", "once")
        .json(&json!({ "workflowId": "three" }));
    let mut sent = JoinSet::new();
    for _ in 0..10 {
        sent.spawn(request.clone().send(host.address));
    }
    let answers = sent.join_all().await;
    let bodies: Vec<Value> = answers.iter().map(|answer| answer.json()).collect();
    assert!(
        answers.iter().all(|answer| answer.status == 201),
        "{bodies:?}"
    );
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    let marked = |word: &str| {
        let marked = |answer: &&crate::client::Answer| {
            answer.header("openwop-idempotent-replay") == Some(word)
        };
        answers.iter().filter(marked).count()
    };
    assert_eq!((marked("false"), marked("true")), (1, 9));
    assert_eq!(
        host.get("/v1/runs").await.json()["runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let other = Request::new("POST", "/v1/runs")
        .key(&host.key)
        .header("idempotency-key", "once")
        .json(&json!({ "workflowId": "three", "tags": ["other"] }));
    let other = other.send(host.address).await;
    assert_eq!(other.refusal(409), "idempotency_key_mismatch");
    // Another tenant's key is another key.
    let theirs = host
        .key_of("umbrella", None, runtime::access::Scopes::Everything)
        .await;
    let theirs = Request::new("POST", "/v1/runs")
        .key(&theirs)
        .header("idempotency-key", "once")
        .json(&json!({ "workflowId": "three" }));
    let theirs = theirs.send(host.address).await.json();
    assert_ne!(theirs["runId"], bodies[0]["runId"]);
}

#[tokio::test]
async fn of_ten_creations_that_want_to_be_alone_one_is() {
    let host = Host::new().await;
    let request = Request::new("POST", "/v1/runs")
        .key(&host.key)
        .header("x-dedup", "enforce")
        .json(&json!({ "workflowId": "waits" }));
    let mut sent = JoinSet::new();
    for _ in 0..10 {
        sent.spawn(request.clone().send(host.address));
    }
    let answers = sent.join_all().await;
    let created = answers
        .iter()
        .find(|answer| answer.status == 201)
        .expect("one");
    let run = created.json()["runId"].clone();
    for refused in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(refused.refusal(409), "run_already_active");
        assert_eq!(refused.json()["details"]["activeRunId"], run);
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(
        answers.iter().filter(|answer| answer.status == 201).count(),
        1
    );
    // Once it has ended another may be created.
    let cancel = format!("/v1/runs/{}:cancel", run.as_str().unwrap());
    host.post(&cancel, &json!({})).await;
    host.engine
        .settled(&run.as_str().unwrap().into())
        .await
        .unwrap();
    assert_eq!(request.send(host.address).await.status, 201);
}

#[tokio::test]
async fn invalid_orders_are_rejected_by_code() {
    let host = Host::new().await;
    let create = async |body: Value| host.post("/v1/runs", &body).await;
    for (body, status, code) in [
        (json!({}), 400, "validation_error"),
        (json!({ "workflowId": 5 }), 400, "validation_error"),
        (
            json!({ "workflowId": "three", "surprise": 1 }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "inputs": [] }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "tags": "x" }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "tags": [""] }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "tags": vec!["t"; 101] }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "metadata": { "a": "x".repeat(9_000) } }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "metadata": { "a": { "b": { "c": { "d": {} } } } } }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "configurable": { "recursionLimit": 0 } }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "configurable": { "recursionLimit": 1.5 } }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "configurable": { "recursionLimit": 10_000_000 } }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "three", "configurable": { "temperature": 3 } }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "closed", "configurable": { "other": 1 } }),
            400,
            "validation_error",
        ),
        (json!({ "workflowId": "greets" }), 400, "validation_error"),
        (
            json!({ "workflowId": "greets", "inputs": { "who": 7 } }),
            400,
            "validation_error",
        ),
        (
            json!({ "workflowId": "nowhere" }),
            404,
            "workflow_not_found",
        ),
        (
            json!({ "workflowId": "unknown" }),
            400,
            "capability_required",
        ),
        (
            json!({ "workflowId": "three", "tenantId": "umbrella" }),
            403,
            "forbidden",
        ),
        (
            json!({ "mode": "eval", "evalSuiteRef": "s", "agentId": "abc" }),
            501,
            "capability_not_provided",
        ),
        (
            json!({ "workflowId": "three", "configurable": { "mockProvider": { "id": "x" } } }),
            403,
            "mock_provider_forbidden",
        ),
    ] {
        let text = body.to_string();
        let answer = create(body).await;
        assert_eq!(answer.status, status, "{text}: {}", answer.json());
        assert_eq!(answer.envelope(), code, "{text}");
    }
    let unknown = create(json!({ "workflowId": "unknown" })).await.json();
    assert_eq!(unknown["details"]["offendingTypeId"], "acme.unheard-of");
    assert_eq!(unknown["details"]["nodeId"], "odd");
    let runs = host.get("/v1/runs").await.json();
    assert_eq!(runs["runs"], json!([]), "nothing was created");

    let forced = Request::new("POST", "/v1/runs")
        .key(&host.key)
        .header("x-force-engine-version", "1")
        .json(&json!({ "workflowId": "three" }));
    let forced = forced.send(host.address).await;
    assert_eq!(forced.refusal(403), "force_engine_version_forbidden");
    for key in [String::new(), "k".repeat(256)] {
        let keyed = Request::new("POST", "/v1/runs")
            .key(&host.key)
            .header("idempotency-key", &key)
            .json(&json!({ "workflowId": "three" }));
        assert_eq!(
            keyed.send(host.address).await.refusal(400),
            "validation_error"
        );
    }
}

#[tokio::test]
async fn limits_of_a_run_are_kept() {
    let host = Host::new().await;
    let order = json!({ "workflowId": "three", "configurable": { "recursionLimit": 2 } });
    let run = host.completed(&order).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["error"]["code"], "recursion_limit_exceeded");
}

#[tokio::test]
async fn an_unknown_field_is_named_unless_that_echoes_input() {
    let host = Host::new().await;
    let order = json!({ "workflowId": "three", "timeoutMs": 5, "canary-field": 1 });
    let answer = host.post("/v1/runs", &order).await;
    assert_eq!(answer.refusal(400), "validation_error");
    let errors = answer.json()["details"]["errors"].clone();
    let paths = [&errors[0]["path"], &errors[1]["path"]];
    assert!(paths.contains(&&json!("/timeoutMs")), "{errors}");
    for error in errors.as_array().unwrap() {
        assert_eq!(error["code"], "unknown_field");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("callbackUrl, configurable"), "{message}");
    }
    assert!(!errors.to_string().contains("canary"), "{errors}");

    let mut odd = host.get("/v1/workflows/three").await.json();
    odd["nodes"][0]["typeID"] = json!("core.noop");
    let answer = host.post("/v1/workflows", &odd).await;
    let text = answer.json()["details"]["errors"].to_string();
    assert!(
        text.contains("the fields are ") && text.contains("outputSensitivity"),
        "{text}"
    );
}

#[tokio::test]
async fn invalid_inputs_are_reported_by_name() {
    let host = Host::new().await;
    let nodes = [crate::host::node("a", "core.noop", json!({}))];
    let mut definition = crate::host::chain("told", &nodes);
    definition["variables"] = json!([
        { "name": "topic", "type": "string", "required": true },
        { "name": "a/b", "type": "number" },
    ]);
    definition["channels"] = json!({ "log": { "reducer": "append" } });
    host.put(&[definition]).await;
    let canary = "canary-5f1e";
    let create = async |inputs: Value| {
        let order = json!({ "workflowId": "told", "inputs": inputs });
        let answer = host.post("/v1/runs", &order).await;
        assert_eq!(answer.refusal(400), "validation_error");
        let body = answer.json();
        assert!(!body.to_string().contains(canary), "{body}");
        body
    };
    let body = create(json!({ "more": canary })).await;
    let errors = &body["details"]["errors"];
    assert_eq!(errors[0]["path"], "/inputs/topic");
    assert_eq!(errors[0]["code"], "missing_input");
    let message = body["message"].as_str().unwrap();
    assert_eq!(
        message,
        "the input /inputs/topic is required; give it a value of type string"
    );

    let body = create(json!({ "topic": 7, "a/b": canary, "log": [canary] })).await;
    let paths: Vec<&Value> = body["details"]["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| &error["path"])
        .collect();
    assert_eq!(paths, ["/inputs/topic", "/inputs/a~1b"]);
    let message = body["message"].as_str().unwrap();
    assert!(message.starts_with("2 inputs do not fit"), "{message}");
    assert!(message.contains("type string, not a number"), "{message}");

    let body = create(json!({ "topic": "x", "log": [canary] })).await;
    assert_eq!(body["details"]["errors"][0]["path"], "/inputs/log");
}

#[tokio::test]
async fn an_undeclared_input_is_kept_and_is_not_a_variable() {
    let host = Host::new().await;
    let mut flow = chain("declares", &[node("n", "core.noop", json!({}))]);
    flow["variables"] = json!([{ "name": "known", "type": "number" }]);
    host.put(&[flow]).await;
    let inputs = json!({ "known": 1, "beside": 2 });
    let run = host
        .completed(&json!({ "workflowId": "declares", "inputs": inputs }))
        .await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["inputs"], inputs);
    assert_eq!(snapshot["variables"], json!({ "known": 1 }));
}

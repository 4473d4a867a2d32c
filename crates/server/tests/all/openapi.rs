//! The OpenAPI document against the server: allowed values are accepted, others rejected.

use serde_json::{Map, Value, json};

use crate::client::Request;
use crate::host::Host;

/// Each operation of the protocol's addresses: method, path, operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, methods) in paths.iter().filter(|(path, _)| path.starts_with("/v1/")) {
        for (method, operation) in methods.as_object().expect("methods") {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    assert!(all.len() > 30);
    all
}

fn address(path: &str, run: &str) -> String {
    path.replace("{runId}", run)
        .replace("{queue}", "q")
        .replace("{artifactId}", "none")
        .replace("{snapshotId}", "none")
        .replace("{assignmentId}", "a-1")
        .replace("{nodeId}", "a")
}

/// Values that a schema of a query allows, and some that it does not.
fn examples(schema: &Value) -> (Vec<String>, Vec<String>) {
    let texts = |words: &Value| -> Vec<String> {
        let words = words.as_array().expect("words").iter();
        words
            .map(|word| word.as_str().expect("a word").to_owned())
            .collect()
    };
    if schema["type"] == "integer" {
        let bound = |name: &str| schema[name].as_u64().expect("a bound");
        let (from, to) = (bound("minimum"), bound("maximum"));
        let allowed = [from, to].map(|n| n.to_string()).into();
        let over = (u128::from(to) + 1).to_string();
        let mut refused = vec![String::new(), "x".to_owned(), "-1".to_owned(), over];
        if from > 0 {
            refused.push((from - 1).to_string());
        }
        return (allowed, refused);
    }
    let words = if schema["type"] == "array" {
        &schema["items"]["enum"]
    } else {
        &schema["enum"]
    };
    if words.is_array() {
        (texts(words), vec!["bogus".to_owned(), String::new()])
    } else {
        (Vec::new(), Vec::new())
    }
}

#[tokio::test]
async fn queries_are_read_as_the_document_says() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let document = host.get("/v1/openapi.json").await.json();
    let mut checked = 0;
    for (method, path, operation) in operations(&document) {
        let parameters = operation["parameters"].as_array().expect("parameters");
        let queries = parameters.iter().filter(|one| one["in"] == "query");
        for parameter in queries.filter(|_| method == "GET") {
            let name = parameter["name"].as_str().expect("a name");
            let (allowed, refused) = examples(&parameter["schema"]);
            let ask = async |value: &str| {
                let path = address(&path, &run);
                let answer = host.get(&format!("{path}?{name}={value}")).await;
                (
                    answer.status,
                    String::from_utf8_lossy(&answer.body).into_owned(),
                )
            };
            // Neither a request to a coordinator nor a poll of a run that has ended is held.
            let is_held = name == "wait_ms";
            for value in allowed.iter().filter(|_| !is_held) {
                let (status, text) = ask(value).await;
                assert_ne!(status, 400, "{path}?{name}={value}: {text}");
                checked += 1;
            }
            for value in refused {
                let (status, text) = ask(&value).await;
                // A missing resource is reported first.
                let is_refused = status == 400 || (status == 404 && path.contains("{snapshotId}"));
                assert!(is_refused, "{path}?{name}={value}: {status} {text}");
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "{checked}");
    let mode = |mode: &str| format!("/v1/runs/{run}/events?streamMode={mode}");
    for (known, status) in [("progress,debug", 200), ("values,debug", 400), ("x", 400)] {
        assert_eq!(host.get(&mode(known)).await.status, status, "{known}");
    }
}

#[tokio::test]
async fn bodies_are_optional_where_the_document_says_so() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let document = host.get("/v1/openapi.json").await.json();
    let mut optional = 0;
    for (method, path, operation) in operations(&document) {
        let Some(body) = operation.get("requestBody") else {
            continue;
        };
        let needs_body = body["required"].as_bool().expect("required");
        let request = Request::new(&method, &address(&path, &run)).key(&host.key);
        let status = request.send(host.address).await.status;
        let what = format!("{method} {path}: {status}");
        if needs_body {
            // The existence of the target is checked first.
            assert!([400, 404, 409].contains(&status), "{what}")
        } else {
            assert!(![400, 415].contains(&status), "{what}")
        }
        optional += usize::from(!needs_body);
    }
    assert!(optional >= 5, "{optional}");
    let workbench = host.get("/api/openapi.json").await.json();
    for (path, needs_body) in [
        ("/api/runs/{runId}/fork", false),
        ("/api/runs/{runId}/cancel", false),
        ("/api/runs/{runId}/gates", true),
    ] {
        let body = &workbench["paths"][path]["post"]["requestBody"];
        assert_eq!(body["required"], needs_body, "{path}");
    }
}

#[tokio::test]
async fn null_is_taken_where_the_document_says_so() {
    let host = Host::new().await;
    let done = host.completed(&json!({ "workflowId": "three" })).await;
    let document = host.get("/v1/openapi.json").await.json();
    for (method, path, operation) in operations(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(name) = schema["$ref"].as_str() else {
            continue;
        };
        let name = name.rsplit('/').next().expect("a name");
        let least = match name {
            "RunOrder" => json!({ "workflowId": "three" }),
            "CancelOrder" | "PauseOrder" | "ResumeOrder" | "ReadTokenOrder" => json!({}),
            "ForkOrder" => json!({ "mode": "replay" }),
            "AnnotationCreate" => json!({ "signal": { "kind": "flag" } }),
            "BulkCancelOrder" => json!({ "runIds": ["run-0"] }),
            "WebhookOrder" => json!({ "url": "https://example.com/hook", "events": ["*"] }),
            "SnapshotCreate" => json!({ "runId": done }),
            "TaskTake" => json!({ "worker": "w" }),
            "TakeRelease" => json!({ "worker": "w", "key": "k" }),
            "TaskBeginnings" => json!({ "assignments": [{ "assignment_id": "a-1", "fence": 1 }] }),
            "TaskSettlements" => json!({
                "assignments": [{ "assignment_id": "a-1", "fence": 1, "release": true }],
            }),
            "TaskHeartbeat" => json!({ "fence": 1 }),
            "TaskOutput" => json!({ "fence": 1, "stream": "stdout", "chunk": "c" }),
            "TaskResult" => json!({ "fence": 1, "outputs": {} }),
            "TaskFailure" => json!({ "fence": 1, "error": { "code": "c", "message": "m" } }),
            "TaskRelease" => json!({ "fence": 1 }),
            _ => continue,
        };
        let mut component = document["components"]["schemas"][name].clone();
        component["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&component).expect("a schema");
        let names: Vec<String> = component["properties"]
            .as_object()
            .map_or_else(Vec::new, |all| all.keys().cloned().collect());
        for property in names {
            let mut body: Map<String, Value> = least.as_object().expect("an object").clone();
            body.insert(property.clone(), Value::Null);
            let body = Value::Object(body);
            let request = Request::new(&method, &address(&path, &done)).key(&host.key);
            let answer = request.json(&body).send(host.address).await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let is_taken = answer.status != 400;
            assert_eq!(
                is_taken,
                validator.is_valid(&body),
                "{method} {path} {body}: {} {text}",
                answer.status
            );
        }
    }
}

#[tokio::test]
async fn reasons_have_the_length_that_the_document_says() {
    let host = Host::new().await;
    let document = host.get("/v1/openapi.json").await.json();
    let schemas = &document["components"]["schemas"];
    for (order, path) in [
        ("CancelOrder", "/v1/runs/{runId}/cancel"),
        ("PauseOrder", "/v1/runs/{runId}:pause"),
        ("ResumeOrder", "/v1/runs/{runId}:resume"),
    ] {
        let most = &schemas[order]["properties"]["reason"]["maxLength"];
        let most = usize::try_from(most.as_u64().expect("a length")).expect("small");
        let run = host.completed(&json!({ "workflowId": "three" })).await;
        for (length, is_taken) in [(most, true), (most + 1, false)] {
            let body = json!({ "reason": "ä".repeat(length) });
            let answer = host.post(&path.replace("{runId}", &run), &body).await;
            assert_eq!(answer.status != 400, is_taken, "{path} {length}");
        }
    }
}

/// Bodies at the bounds of their texts and numbers, by path and schema.
fn edge_bodies() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let hook = |more: Value| {
        let mut body = json!({ "url": "https://example.com/hook", "events": ["*"] });
        let more = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(more);
        body
    };
    let both = json!(["v1", "standard-webhooks-1"]);
    let whsec = format!("whsec_{}", "A".repeat(32));
    let plain = "k".repeat(24);
    let order = |name: &str, value: &str| json!({ "workflowId": "three", name: value });
    let begin = |fence: u64| json!({ "assignments": [{ "assignment_id": "a-1", "fence": fence }] });
    let take = |worker: &str| json!({ "worker": worker });
    let beat = |on: Value, reason: Value| json!({ "fence": 1, "blocked_on": on, "reason": reason });
    let most = u64::from(u32::MAX);
    vec![
        (
            "/v1/runs",
            "RunOrder",
            ["mode", "callbackUrl", "evalSuiteRef", "agentId", "scopeId"]
                .iter()
                .flat_map(|name| [order(name, ""), order(name, "eval")])
                .chain([order("mode", "fast")])
                .collect(),
        ),
        (
            "/v1/webhooks",
            "WebhookOrder",
            vec![
                hook(json!({ "tags": [""] })),
                hook(json!({ "tags": ["a\u{7}"] })),
                hook(json!({ "tags": ["nightly"] })),
                hook(json!({ "secret": "" })),
                hook(json!({ "secret": format!("{plain} with a space") })),
                hook(json!({ "secret": plain })),
                hook(json!({ "signatureAlgorithms": both })),
                hook(json!({ "signatureAlgorithms": both, "secret": plain })),
                hook(json!({ "signatureAlgorithms": both, "secret": whsec })),
            ],
        ),
        (
            "/v1/coordinator/q/begin",
            "TaskBeginnings",
            vec![begin(0), begin(1), begin(most), begin(most + 1)],
        ),
        (
            "/v1/coordinator/q/take",
            "TaskTake",
            vec![take(""), take("a\u{1}"), take("a")],
        ),
        (
            "/v1/coordinator/q/assignments/a-1/heartbeat",
            "TaskHeartbeat",
            vec![
                json!({ "fence": 1, "blocked_on": "user" }),
                beat(json!("user"), Value::Null),
                beat(json!("user"), json!("asks")),
                beat(Value::Null, json!(5)),
                beat(Value::Null, Value::Null),
            ],
        ),
        (
            "/v1/workflows",
            "Workflow",
            vec![json!({
                "id": "a", "name": "a", "version": "1", "edges": [],
                "nodes": [{ "id": "a", "typeId": "core.noop", "name": "a", "config": {} }],
            })],
        ),
    ]
}

#[tokio::test]
async fn bodies_at_their_edges_are_taken_as_the_document_says() {
    let host = Host::new().await;
    let document = host.get("/v1/openapi.json").await.json();
    for (path, name, bodies) in edge_bodies() {
        let mut component = document["components"]["schemas"][name].clone();
        component["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&component).expect("a schema");
        for body in bodies {
            let answer = host.post(path, &body).await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let is_allowed = validator.is_valid(&body);
            // The address does not exist, but the body itself is valid.
            let is_taken = answer.status != 400 || text.contains("webhook_endpoint_unverified");
            assert_eq!(is_taken, is_allowed, "{path} {body}: {text}");
        }
    }
}

#[tokio::test]
async fn one_settlement_of_a_wrong_form_is_answered_alone() {
    let host = Host::new().await;
    let one =
        |id: &str, release: Value| json!({ "assignment_id": id, "fence": 1, "release": release });
    let body = json!({ "assignments": [one("a-1", json!({})), one("a-2", json!(true))] });
    let answer = host.post("/v1/coordinator/q/settle", &body).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json()["assignments"].clone();
    assert_eq!(answers[0]["error"], "validation_error");
    assert_eq!(answers[0]["message"], "release must be true");
    assert_eq!(answers[1]["error"], "assignment_not_found");
    let document = host.get("/v1/openapi.json").await.json();
    let mut schema = document["components"]["schemas"]["TaskSettlements"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    assert!(validator.is_valid(&body), "the body as a whole is taken");
}

//! Responses against the protocol's own schemas, if they are installed.

use kernel::run::RunStatus;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use jsonschema::{Registry, Validator};
use kernel::run::{Create, Start};
use kernel::stream::{Owner, Policy};
use runtime::NewRun;
use serde_json::{Map, Value, json};

use crate::events::stream;
use crate::host::{Host, chain, node};

const BASE: &str = "https://openwop.dev/spec/v1/";

/// The folder of external data: not part of the project, for checking only.
fn folder() -> Option<PathBuf> {
    folder_of("openwop")
}

/// The folder of a set of schemas.
pub(crate) fn folder_of(set: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let folder = folder.join("schemas").join(set);
    folder.is_dir().then_some(folder)
}

fn registry(folder: &PathBuf) -> Registry<'static> {
    registry_at(BASE, folder)
}

pub(crate) fn registry_at(base: &str, folder: &PathBuf) -> Registry<'static> {
    let mut registry = Registry::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".schema.json") {
            let schema: Value =
                serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            registry = registry.add(format!("{base}{name}"), schema).unwrap();
        }
    }
    registry.prepare().unwrap()
}

fn check(registry: &Registry<'static>, schema: &str, value: &Value) {
    let problems = problems(registry, &format!("{BASE}{schema}"), value);
    assert_eq!(problems, Vec::<String>::new(), "{schema}: {value:#}");
}

/// The faults that a schema finds in a value.
pub(crate) fn problems(registry: &Registry<'static>, schema: &str, value: &Value) -> Vec<String> {
    let validator: Validator = jsonschema::options()
        .with_registry(registry)
        .should_validate_formats(true)
        .build(&json!({ "$ref": schema }))
        .unwrap();
    validator
        .iter_errors(value)
        .map(|problem| format!("{}: {problem}", problem.instance_path()))
        .collect()
}

fn check_event(registry: &Registry<'static>, event: &Value) {
    check(registry, "run-event.schema.json", event);
    let kind = event["type"].as_str().unwrap();
    if !kind.starts_with("runwright.") {
        let payload = format!("run-event-payloads.schema.json#/$defs/_typeIndex/properties/{kind}");
        check(registry, &payload, &event["payload"]);
    }
}

#[tokio::test]
async fn answers_are_valid_by_the_protocols_schemas() {
    let Some(folder) = folder() else {
        let reason = "there is no folder of OpenWOP schemas";
        return testkit::skip("answers_are_valid_by_the_protocols_schemas", reason);
    };
    let registry = registry(&folder);
    let host = Host::new().await;
    check(
        &registry,
        "capabilities.schema.json",
        &host.get("/.well-known/openwop").await.json(),
    );
    for order in [
        json!({ "workflowId": "three", "tags": ["t"], "metadata": { "a": 1 } }),
        json!({ "workflowId": "fails" }),
        json!({ "workflowId": "three", "configurable": { "recursionLimit": 1 } }),
    ] {
        let run = host.completed(&order).await;
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        check(&registry, "run-snapshot.schema.json", &snapshot);
        let page = host
            .get(&format!("/v1/runs/{run}/events/poll"))
            .await
            .json();
        for event in page["events"].as_array().unwrap() {
            check_event(&registry, event);
        }
        for mode in [
            "updates",
            "debug",
            "messages",
            "updates,messages",
            "updates,debug",
        ] {
            for buffer in ["", "&bufferMs=5000"] {
                let query = format!("?streamMode={mode}{buffer}");
                for frame in stream(&host, &run, &query, None).await {
                    match frame.data.as_array() {
                        Some(batch) => batch.iter().for_each(|it| check_event(&registry, it)),
                        None => check_event(&registry, &frame.data),
                    }
                }
            }
        }
        let values = stream(&host, &run, "?streamMode=values", None).await;
        for frame in &values {
            check(&registry, "run-event.schema.json", &frame.data);
            check(
                &registry,
                "run-snapshot.schema.json",
                &frame.data["payload"],
            );
        }
        assert!(values.len() > 2, "a state after each step");
    }
    check_forks(&registry, &host).await;
    let refused = host.get("/v1/runs/run-0").await.json();
    if folder.join("error-envelope.schema.json").is_file() {
        check(&registry, "error-envelope.schema.json", &refused);
    }
}

async fn check_forks(registry: &Registry<'static>, host: &Host) {
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let other = host.completed(&json!({ "workflowId": "fails" })).await;
    for against in [&run, &other] {
        let path = format!("/v1/runs/{run}:diff?against={against}");
        let diff = host.get(&path).await.json();
        check(registry, "run-diff-response.schema.json", &diff);
    }
    let ancestry = host.get(&format!("/v1/runs/{run}/ancestry")).await.json();
    check(registry, "run-ancestry-response.schema.json", &ancestry);
    check_notes(registry, host, &run).await;
    for run in [&run, &other] {
        let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
        check(registry, "debug-bundle.schema.json", &bundle.json());
        let cut = format!("/v1/runs/{run}/debug-bundle?maxEvents=1");
        let cut = host.get(&cut).await.json();
        check(registry, "debug-bundle.schema.json", &cut);
    }
    let body = json!({ "mode": "replay" });
    let forked = host.post(&format!("/v1/runs/{run}:fork"), &body).await;
    let replay = forked.json()["runId"].as_str().unwrap().to_owned();
    let snapshot = host.get(&format!("/v1/runs/{replay}")).await.json();
    check(registry, "run-snapshot.schema.json", &snapshot);
}

async fn check_notes(registry: &Registry<'static>, host: &Host, run: &str) {
    let path = format!("/v1/runs/{run}/annotations");
    for order in [
        json!({ "signal": { "kind": "flag" }, "note": "look" }),
        json!({ "signal": { "kind": "rating", "rating": 5 }, "target": { "nodeId": "a" } }),
        json!({ "signal": { "kind": "label", "label": "l" }, "target": { "eventId": format!("{run}.0") } }),
        json!({ "signal": { "kind": "correction", "correction": "c" } }),
    ] {
        check(registry, "annotation-create.schema.json", &order);
        let said = host.post(&path, &order).await.json();
        check(registry, "annotation.schema.json", &said);
    }
}

/// Checks a run's events and snapshot, and the server's own documents, against the protocol's
/// schemas, if they are installed.
pub(crate) async fn check_log(host: &Host, run: &str) {
    let Some(folder) = folder() else { return };
    let registry = registry(&folder);
    let discovery = host.get("/.well-known/openwop").await.json();
    check(&registry, "capabilities.schema.json", &discovery);
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    check(&registry, "run-snapshot.schema.json", &snapshot);
    for frame in stream(host, run, "?streamMode=debug", None).await {
        check_event(&registry, &frame.data);
    }
    check_bundle(&registry, host, run).await;
}

async fn check_bundle(registry: &Registry<'static>, host: &Host, run: &str) {
    let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
    check(registry, "debug-bundle.schema.json", &bundle.json());
}

/// A run that waits for a driver.
async fn unclaimed(host: &Host) -> String {
    let (door, tenant) = (host.engine.door(), "acme".into());
    let document = chain("waits", &[node("n", "core.noop", json!({}))]).to_string();
    let prepared = door
        .plans()
        .prepare(&**door.store(), &tenant, document.as_bytes());
    let new = NewRun {
        owner: Owner::tenant("acme"),
        prepared: prepared.await.expect("a workflow"),
        create: Create::new(Map::new(), "rest", Start::WhenClaimed),
        policy: Policy::default(),
        trace: None,
        id: None,
        nonce: None,
        keys: Vec::new(),
    };
    let created = host.engine.create(new).await.expect("a run");
    created.run.header.stream.to_string()
}

#[tokio::test]
async fn a_bundle_is_valid_for_any_run_status() {
    let Some(folder) = folder() else {
        let test = "a_bundle_is_valid_for_any_run_status";
        return testkit::skip(test, "there is no folder of OpenWOP schemas");
    };
    let registry = registry(&folder);
    let host = Host::new().await;
    let event = json!({ "eventType": "order.paid", "correlation": { "order": 1 } });
    let questions = json!([{ "id": "q", "question": "Which?" }]);
    host.put(&[
        chain("approved", &[node("n", "core.approvalGate", json!({}))]),
        chain(
            "asked",
            &[node(
                "n",
                "core.clarificationGate",
                json!({ "questions": questions }),
            )],
        ),
        chain(
            "heard",
            &[node(
                "n",
                "core.interrupt",
                json!({ "kind": "external-event", "data": event }),
            )],
        ),
        chain(
            "calls",
            &[node(
                "n",
                "core.subWorkflow",
                json!({ "workflowId": "waits" }),
            )],
        ),
    ])
    .await;
    let mut runs = Vec::new();
    for workflow in ["three", "fails"] {
        runs.push(host.completed(&json!({ "workflowId": workflow })).await);
    }
    for (workflow, status) in [
        ("approved", "waiting-approval"),
        ("asked", "waiting-input"),
        ("heard", "waiting-external"),
        ("waits", "running"),
    ] {
        let run = host.create(&json!({ "workflowId": workflow })).await;
        host.shows(&run, |shown| shown["status"] == status).await;
        runs.push(run);
    }
    let calls = host.create(&json!({ "workflowId": "calls" })).await;
    host.shows(&calls, |shown| shown["childRuns"].is_array())
        .await;
    for verb in [":pause", "/cancel"] {
        let run = host.create(&json!({ "workflowId": "waits" })).await;
        host.shows(&run, |shown| shown["status"] == "running").await;
        let body = json!({ "drainPolicy": "immediate" });
        let body = if verb == ":pause" { body } else { json!({}) };
        let answer = host.post(&format!("/v1/runs/{run}{verb}"), &body).await;
        assert!(answer.status < 300, "{}", answer.json());
        runs.push(run);
    }
    // Without a driver: a new run is not claimed, and a parent's end does not reach its child.
    host.engine.drain(Duration::from_secs(5)).await;
    runs.push(unclaimed(&host).await);
    let cancelled = host
        .post(&format!("/v1/runs/{calls}/cancel"), &json!({}))
        .await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.json());
    runs.push(calls);
    let mut seen = BTreeSet::new();
    for run in runs {
        let exact = host.snapshot(&run).await["status"].clone();
        let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
        assert_eq!(bundle.json()["run"]["runStatus"], exact);
        check_bundle(&registry, &host, &run).await;
        seen.insert(exact.as_str().unwrap().to_owned());
    }
    let every: BTreeSet<String> = RunStatus::ALL.map(|status| status.to_string()).into();
    assert_eq!(seen, every);
}

/// Checks a question against the protocol's schema, without the fields an event adds.
pub(crate) fn check_question(asked: &Value) {
    const FIELDS: [&str; 5] = ["kind", "key", "data", "resumeSchema", "timeoutMs"];
    let Some(folder) = folder() else { return };
    let fields = asked.as_object().unwrap().iter();
    let of_it = fields.filter(|(name, _)| FIELDS.contains(&name.as_str()));
    let question: Map<String, Value> = of_it
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let schema = "suspend-request.schema.json";
    check(&registry(&folder), schema, &Value::Object(question));
}

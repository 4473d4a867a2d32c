//! The protocol's own workflow definitions, if they are installed: all of them load, and those of
//! the families that this host supports behave as described.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kernel::audit::Actor;
use runtime::definitions::shared_tenant;
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use crate::events::stream;
use crate::host::{Host, Models, chain, node};

/// The folder of external data: not part of the project, for checking only.
fn folder() -> Option<PathBuf> {
    let shared = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(shared) => PathBuf::from(shared),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let folder = shared.join("workflows/openwop");
    folder.is_dir().then_some(folder)
}

/// Every definition by name; `None`, with a named skip, if they are missing.
pub(crate) fn definitions(test: &str) -> Option<BTreeMap<String, Value>> {
    let Some(folder) = folder() else {
        testkit::skip(test, "there is no folder of OpenWOP workflows");
        return None;
    };
    let parse = |text: String| serde_json::from_str(&text).expect("JSON");
    let texts = read(&folder).into_iter();
    Some(texts.map(|(name, text)| (name, parse(text))).collect())
}

/// A host with every definition; `None`, with a named skip, if they are missing.
pub(crate) async fn host(test: &str) -> Option<Host> {
    let Some(folder) = folder() else {
        testkit::skip(test, "there is no folder of OpenWOP workflows");
        return None;
    };
    let host = Host::with_models(Limits::default(), Reach::Public, tested()).await;
    for document in read(&folder).into_values() {
        let (tenant, by) = (shared_tenant(), Actor::operator());
        let put = host
            .engine
            .door()
            .register(&tenant, document.as_bytes(), &by);
        put.await.expect("every definition loads");
    }
    Some(host)
}

/// With the test provider for runs that request it.
fn tested() -> Models {
    Models {
        test_provider: true,
        ..Models::default()
    }
}

fn read(folder: &PathBuf) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("readable");
            (name.into_owned(), text)
        })
        .collect()
}

async fn ran(host: &Host, workflow: &str, more: Value) -> Value {
    let mut order = more;
    order["workflowId"] = json!(workflow);
    let run = host.completed(&order).await;
    host.snapshot(&run).await
}

async fn completes(host: &Host, workflow: &str, more: Value) -> Value {
    let snapshot = ran(host, workflow, more).await;
    assert_eq!(snapshot["status"], "completed", "{workflow}: {snapshot}");
    snapshot
}

async fn child(host: &Host, snapshot: &Value, workflow: &str) -> Value {
    let children = snapshot["childRuns"].as_array().unwrap();
    let found = children
        .iter()
        .find(|child| child["workflowId"] == workflow);
    let found = found.unwrap_or_else(|| panic!("no {workflow} in {snapshot}"));
    host.snapshot(found["runId"].as_str().unwrap()).await
}

/// The error code of a definition that needs an unsupported feature.
pub(crate) fn missing(document: &Value) -> &'static str {
    let nodes = document["nodes"].as_array().expect("nodes");
    let is_other = |node: &Value| {
        node["typeId"] == "core.conversationGate" || node["agent"].get("channel").is_some()
    };
    if nodes.iter().any(is_other) {
        "validation_error"
    } else {
        "capability_required"
    }
}

#[tokio::test]
async fn conversations_are_refused_by_the_protocols_own_code() {
    let host = Host::new().await;
    let talk = chain("talks", &[node("talk", "core.conversationGate", json!({}))]);
    host.put(&[talk]).await;
    let order = json!({ "workflowId": "talks" });
    let answer = host.post("/v1/runs", &order).await;
    assert_eq!(answer.refusal(400), "validation_error");
    let details = answer.json()["details"].clone();
    assert_eq!(details["requiredCapability"], "conversationPrimitive");
    assert_eq!(details["nodeId"], "talk");
    assert_eq!(details["offendingTypeId"], "core.conversationGate");
}

#[tokio::test]
async fn every_definition_loads_and_is_shown_as_it_is() {
    let test = "every_definition_loads_and_is_shown_as_it_is";
    let Some(host) = host(test).await else { return };
    let folder = folder().expect("it was there");
    let mut refused = Vec::new();
    for (name, document) in read(&folder) {
        let document: Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(document["id"], name.as_str());
        let shown = host.get(&format!("/v1/workflows/{name}")).await;
        assert_eq!(shown.json(), document, "{name}");
        // A definition that cannot run is rejected when a run is created, with the node's id.
        let known = kernel::definition::Plan::from_json(
            &document,
            &runtime::nodes::Registry::standard(),
            kernel::definition::UnknownTypes::Refuse,
        );
        if known.is_err() {
            let answer = host.post("/v1/runs", &json!({ "workflowId": name })).await;
            assert_eq!(answer.refusal(400), missing(&document), "{name}");
            refused.push(name);
        }
    }
    assert!(!refused.is_empty(), "some families are not this host's");
}

#[tokio::test]
async fn plain_workflows() {
    let Some(host) = host("plain_workflows").await else {
        return;
    };
    completes(&host, "conformance-noop", json!({})).await;
    completes(&host, "conformance-version-fold", json!({})).await;
    let payload = json!({ "text": "ü", "list": [1, null, { "deep": true }], "n": 1.5 });
    let inputs = json!({ "inputs": { "payload": payload } });
    let echoed = completes(&host, "conformance-identity", inputs).await;
    assert_eq!(echoed["variables"]["payload"], payload);
    let missing = json!({ "workflowId": "conformance-identity" });
    let answer = host.post("/v1/runs", &missing).await;
    assert_eq!(answer.refusal(400), "validation_error");
    let brief = json!({ "inputs": { "delayMs": 5 } });
    completes(&host, "conformance-delay", brief).await;
    let nonce = json!({ "inputs": { "nonce": "n" } });
    completes(&host, "conformance-idempotent", nonce).await;

    let failed = ran(&host, "conformance-failure", json!({})).await;
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"]["code"].is_string() && failed["error"]["message"].is_string());
    let seen = host.types(failed["runId"].as_str().unwrap()).await;
    assert_eq!(seen[2..], ["node.failed", "run.failed"]);

    let chain = completes(&host, "conformance-multi-node", json!({})).await;
    let events = host.events(chain["runId"].as_str().unwrap()).await;
    let nodes = events
        .iter()
        .filter(|event| event["type"] == "node.completed");
    let order: Vec<&str> = nodes
        .map(|event| event["nodeId"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["a", "b", "c"]);

    let lacking = ran(&host, "conformance-capability-missing", json!({})).await;
    assert_eq!(lacking["error"]["code"], "capability_not_provided");
    let message = lacking["error"]["message"].as_str().unwrap();
    assert!(message.contains("conformance.never-provided"), "{message}");
}

#[tokio::test]
async fn caps_settings_and_cancelling() {
    let Some(host) = host("caps_settings_and_cancelling").await else {
        return;
    };
    let bound = json!({ "configurable": { "recursionLimit": 3 } });
    let capped = ran(&host, "conformance-cap-breach", bound).await;
    assert_eq!(capped["error"]["code"], "recursion_limit_exceeded");
    let seen = host.types(capped["runId"].as_str().unwrap()).await;
    assert_eq!(
        seen.iter().filter(|kind| *kind == "node.started").count(),
        3
    );
    completes(&host, "conformance-cap-breach", json!({})).await;

    let brief = json!({ "configurable": { "runTimeoutMs": 50 } });
    let late = ran(&host, "conformance-run-duration-breach", brief).await;
    assert_eq!(late["error"]["code"], "run_timeout");

    for (configurable, status) in [
        (json!({ "recursionLimit": 5, "tags": ["x"] }), 201),
        (json!({ "recursionLimit": 0 }), 400),
        (json!({ "unknown": 1 }), 400),
    ] {
        let order = json!({
            "workflowId": "conformance-configurable-schema", "configurable": configurable,
        });
        let answer = host.post("/v1/runs", &order).await;
        assert_eq!(answer.status, status, "{}", answer.json());
    }

    let run = host
        .create(&json!({ "workflowId": "conformance-cancellable" }))
        .await;
    let waits = |snapshot: &Value| snapshot["nodeStates"]["wait"]["status"] == "running";
    host.shows(&run, waits).await;
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    assert_eq!(host.snapshot(&run).await["status"], "cancelled");
}

#[tokio::test]
async fn channels() {
    let Some(host) = host("channels").await else {
        return;
    };
    let kept = completes(&host, "conformance-channel-ttl", json!({})).await;
    let entries = kept["variables"]["events"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{kept}");
    assert_eq!(entries[0]["value"], "d");
    assert!(entries[0]["_ts"].is_i64());
    let said = completes(&host, "conformance-message-reducer", json!({})).await;
    assert_eq!(said["channels"]["messages"].as_array().unwrap().len(), 1);
    let seen = host.types(said["runId"].as_str().unwrap()).await;
    assert_eq!(
        seen.iter()
            .filter(|kind| *kind == "channel.written")
            .count(),
        2
    );
}

#[tokio::test]
async fn sub_workflows() {
    let Some(host) = host("sub_workflows").await else {
        return;
    };
    let parent = completes(&host, "conformance-subworkflow-parent", json!({})).await;
    assert_eq!(parent["variables"]["childOutcome"], "child-completed");
    let started = child(&host, &parent, "conformance-subworkflow-child").await;
    assert_eq!(started["parentRunId"], parent["runId"]);
    assert_eq!(started["parentNodeId"], "subwf-call");

    for (workflow, received) in [
        ("conformance-subworkflow-input-mapping", json!("prd-1")),
        (
            "conformance-subworkflow-input-mapping-no-default",
            Value::Null,
        ),
    ] {
        let parent = completes(&host, workflow, json!({})).await;
        let mapped = child(
            &host,
            &parent,
            "conformance-subworkflow-input-mapping-child",
        )
        .await;
        assert_eq!(mapped["inputs"]["receivedPrdId"], received, "{workflow}");
        assert_eq!(mapped["variables"]["receivedPrdId"], received, "{workflow}");
    }

    let waits = |snapshot: &Value| snapshot["status"] == "waiting-approval";
    let order = json!({ "workflowId": "conformance-subworkflow-mid-run-mutation" });
    let run = host.create(&order).await;
    let waiting = host.shows(&run, waits).await;
    let asking = child(
        &host,
        &waiting,
        "conformance-subworkflow-mid-run-mutation-child",
    )
    .await;
    host.settle(
        asking["runId"].as_str().unwrap(),
        json!({ "action": "accept" }),
    )
    .await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let ended = child(
        &host,
        &waiting,
        "conformance-subworkflow-mid-run-mutation-child",
    )
    .await;
    assert_eq!(ended["variables"]["receivedPrdId"], "seeded-id");

    let order = json!({ "workflowId": "conformance-interrupt-parent-child-cancel" });
    let run = host.create(&order).await;
    let waiting = host.shows(&run, waits).await;
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let cancelled = child(
        &host,
        &waiting,
        "conformance-interrupt-parent-child-cancel-child",
    )
    .await;
    assert_eq!(cancelled["status"], "cancelled");
    let last = host
        .events(cancelled["runId"].as_str().unwrap())
        .await
        .pop();
    let payload = last.unwrap()["payload"].clone();
    assert_eq!(payload["reason"], "parent-cancelled");
    assert_eq!(payload["parentRunId"], run.as_str());
}

#[tokio::test]
async fn orchestrators() {
    let Some(host) = host("orchestrators").await else {
        return;
    };
    let run = completes(&host, "conformance-orchestrator-dispatch", json!({})).await;
    assert_eq!(
        run["runOrchestrator"]["agentId"],
        "core.conformance.supervisor"
    );
    assert_eq!(run["childRuns"][0]["workflowId"], "conformance-noop");
    let seen = host.types(run["runId"].as_str().unwrap()).await;
    let decided = |seen: &[String]| {
        let decided = seen
            .iter()
            .filter(|kind| *kind == "runOrchestrator.decided");
        decided.count()
    };
    assert_eq!(decided(&seen), 2);

    let run = completes(&host, "conformance-orchestrator-terminate", json!({})).await;
    assert_eq!(
        decided(&host.types(run["runId"].as_str().unwrap()).await),
        1
    );
    assert_eq!(run["childRuns"], Value::Null);

    completes(&host, "conformance-dispatch-loop", json!({})).await;

    for (workflow, decisions, reason, status) in [
        (
            "conformance-orchestrator-low-confidence",
            0,
            "low-confidence",
            "waiting-approval",
        ),
        (
            "conformance-multi-agent-confidence-escalation",
            1,
            "clarification",
            "waiting-input",
        ),
    ] {
        let id = host.create(&json!({ "workflowId": workflow })).await;
        let is_asked = |snapshot: &Value| snapshot["status"] == status;
        let run = host.shows(&id, is_asked).await;
        assert_eq!(
            decided(&host.types(run["runId"].as_str().unwrap()).await),
            decisions,
            "{workflow}"
        );
        assert_eq!(run["childRuns"], Value::Null, "{workflow}");
        let seen = host.types(&id).await;
        let of = |kind: &str| seen.iter().filter(|seen| *seen == kind).count();
        assert_eq!(of("core.workflowChain.event"), 0, "{workflow}");
        let escalated = usize::from(status == "waiting-input");
        assert_eq!(of("core.workflowChain.confidence-escalated"), escalated);
        let suspended = host.events(&id).await.pop().unwrap();
        assert_eq!(suspended["type"], "node.suspended");
        assert_eq!(suspended["payload"]["reason"], reason, "{workflow}");
    }

    let run = completes(&host, "conformance-multi-agent-handoff", json!({})).await;
    assert_eq!(run["variables"]["parentResult"], "handoff-complete");
    let events = host.events(run["runId"].as_str().unwrap()).await;
    let phases: Vec<&str> = events
        .iter()
        .filter_map(|event| event["payload"]["phase"].as_str())
        .collect();
    assert_eq!(
        phases,
        [
            "dispatch.began",
            "dispatch.succeeded",
            "child.completed",
            "output.harvested"
        ]
    );
}

#[tokio::test]
async fn dispatch_mappings() {
    let Some(host) = host("dispatch_mappings").await else {
        return;
    };
    for (workflow, greeting) in [
        ("conformance-dispatch-input-mapping", json!("Alice")),
        ("conformance-dispatch-input-mapping-no-default", Value::Null),
    ] {
        let run = completes(&host, workflow, json!({})).await;
        let mapped = child(&host, &run, "conformance-dispatch-input-mapping-child").await;
        let given = mapped["inputs"].as_object().unwrap();
        assert_eq!(given.get("childGreeting"), Some(&greeting), "{workflow}");
    }
    let run = completes(&host, "conformance-dispatch-output-mapping", json!({})).await;
    assert_eq!(run["variables"]["parentResult"], "done");

    let (a, b) = (
        "conformance-dispatch-cross-worker-handoff-child-a",
        "conformance-dispatch-cross-worker-handoff-child-b",
    );
    let run = completes(
        &host,
        "conformance-dispatch-cross-worker-handoff",
        json!({}),
    )
    .await;
    assert_eq!(child(&host, &run, b).await["inputs"]["input"], "hello");
    let run = completes(&host, "conformance-dispatch-per-worker-override", json!({})).await;
    assert_eq!(
        child(&host, &run, a).await["inputs"]["input"],
        "default-x-value"
    );
    assert_eq!(
        child(&host, &run, b).await["inputs"]["input"],
        "shared-value"
    );

    let failed = ran(
        &host,
        "conformance-dispatch-deterministic-fail-child",
        json!({}),
    )
    .await;
    assert_eq!(failed["error"]["code"], "hvmap_1b_failed_fixture");
}

#[tokio::test]
async fn agents() {
    let Some(host) = host("agents").await else {
        return;
    };
    let run = completes(&host, "conformance-agent-identity", json!({})).await;
    let agent = json!({ "agentId": "core.conformance.identity-agent", "modelClass": "chat" });
    assert_eq!(run["agent"], agent);
}

#[tokio::test]
async fn a_cancelled_worker_gives_nothing_back() {
    let Some(host) = host("a_cancelled_worker_gives_nothing_back").await else {
        return;
    };
    let worker = "conformance-dispatch-cancellable-child";
    let plan = json!({ "mockDispatchPlan": [crate::children::next(&[worker])] });
    let config = json!({ "outputMapping": { "got": "delayMs" } });
    let mut team = crate::children::supervised("sends-one", plan, config);
    team["variables"] = json!([{ "name": "got", "type": "string", "defaultValue": "untouched" }]);
    host.put(&[team]).await;
    let run = host.create(&json!({ "workflowId": "sends-one" })).await;
    let started = |snapshot: &Value| !snapshot["childRuns"].is_null();
    let snapshot = host.shows(&run, started).await;
    let cancelled = snapshot["childRuns"][0]["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    // A parent names its child before it exists.
    let path = format!("/v1/runs/{cancelled}/cancel");
    let mut answer = host.post(&path, &json!({})).await;
    while answer.status == 404 {
        answer = host.post(&path, &json!({})).await;
    }
    assert_eq!(answer.status, 200, "{}", answer.json());
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let ended = host.snapshot(&run).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["variables"]["got"], "untouched");
    assert_eq!(ended["childRuns"][0]["status"], "cancelled");
    let last = host.events(&cancelled).await.pop().unwrap();
    assert_eq!(last["payload"].get("parentRunId"), None, "nobody cascaded");
}

#[tokio::test]
async fn streamed_text() {
    let Some(host) = host("streamed_text").await else {
        return;
    };
    let tokens = ["Ut", " in", " omnibus", "."];
    let mock = json!({ "id": "stream-text", "config": { "tokens": tokens, "delayMsPerToken": 1 } });
    let more = json!({ "configurable": { "mockProvider": mock } });
    let run = completes(&host, "conformance-stream-text", more).await;
    let frames = stream(
        &host,
        run["runId"].as_str().unwrap(),
        "?streamMode=messages",
        None,
    )
    .await;
    let chunks = frames.iter().map(|frame| &frame.data["payload"]["chunk"]);
    assert_eq!(chunks.collect::<Vec<_>>(), tokens, "a frame for each token");
    assert!(frames.iter().all(|frame| frame.event == "ai.message.chunk"));
    let last = &frames.last().unwrap().data["payload"];
    assert_eq!(
        (&last["isLast"], &last["meta"]["finishReason"]),
        (&json!(true), &json!("stop"))
    );
}

#[tokio::test]
async fn only_cost_fields_of_the_protocol_are_shown() {
    let Some(host) = host("only_cost_fields_of_the_protocol_are_shown").await else {
        return;
    };
    let run = completes(&host, "openwop-smoke-cost-emit", json!({})).await;
    let cost = &run["metrics"]["openwopCost"];
    assert_eq!(cost["tokens"], json!({ "input": 100, "output": 50 }));
    assert_eq!(
        (&cost["usd"], &cost["provider"]),
        (&json!(0.00123), &json!("anthropic"))
    );
    let id = run["runId"].as_str().unwrap();
    let bundle = host
        .get(&format!("/v1/runs/{id}/debug-bundle"))
        .await
        .json();
    let spans = bundle["spans"].as_array().unwrap().iter();
    let attributes = spans.flat_map(|span| span["attributes"].as_object().unwrap());
    let told: Vec<&str> = attributes
        .filter_map(|(name, _)| name.strip_prefix("openwop.cost."))
        .collect();
    let listed = [
        "tokens.input",
        "tokens.output",
        "tokens.total",
        "usd",
        "currency",
        "estimated",
        "provider",
    ];
    assert!(
        told.contains(&"tokens.total") && told.iter().all(|name| listed.contains(name)),
        "{told:?}"
    );
    let text = bundle.to_string();
    assert!(!text.contains("CANARY") && !text.contains("must-be-dropped"));
}

//! Every field of a run's snapshot is filled by some event.

use serde_json::{Value, json};

use crate::children::{next, supervised};
use crate::host::{Host, chain, node};
use crate::model::{Model, Says};
use crate::models::{self, models, peer};

async fn of(host: &Host, definition: Value, order: Value) -> Value {
    let id = definition["id"].clone();
    host.put(&[definition]).await;
    let mut order = order;
    order["workflowId"] = id;
    let run = host.completed(&order).await;
    host.snapshot(&run).await
}

fn noop() -> Value {
    node("n", "core.noop", json!({}))
}

#[tokio::test]
async fn run_id_workflow_id_and_status() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["runId"], run.as_str());
    assert_eq!(snapshot["workflowId"], "waits");
    assert_eq!(snapshot["status"], "running");
}

#[tokio::test]
async fn owner_is_the_principal_that_created_the_run() {
    let host = Host::new().await;
    let order = json!({ "workflowId": "three", "scopeId": "site-1" });
    let run = host.completed(&order).await;
    let owner = json!({ "tenant": "acme", "workspace": "site-1", "principal": "somebody" });
    assert_eq!(host.snapshot(&run).await["owner"], owner);
}

#[tokio::test]
async fn current_node_id_is_the_node_of_the_oldest_open_interrupt() {
    let host = Host::new().await;
    let asks = |id: &str| node(id, "core.approvalGate", json!({ "title": "?" }));
    let mut both = chain("both", &[asks("first")]);
    // Listed before the other, and asked after it.
    let waits = node("waits", "core.delay", json!({ "ms": 1 }));
    both["nodes"] = json!([asks("second"), waits, asks("first")]);
    both["edges"] = json!([{ "id": "e", "sourceNodeId": "waits", "targetNodeId": "second" }]);
    host.put(&[both]).await;
    let run = host.create(&json!({ "workflowId": "both" })).await;
    let is_asked = |snapshot: &Value| snapshot["interrupts"].as_array().map(Vec::len) == Some(2);
    let snapshot = host.shows(&run, is_asked).await;
    assert_eq!(snapshot["currentNodeId"], "first");
    host.settle(&run, json!({ "action": "accept" })).await;
    assert_eq!(host.snapshot(&run).await["currentNodeId"], "second");
    host.settle(&run, json!({ "action": "accept" })).await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    assert_eq!(host.snapshot(&run).await["currentNodeId"], Value::Null);
}

#[tokio::test]
async fn started_at_and_completed_at_are_first_and_last_event_times() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let (snapshot, events) = (host.snapshot(&run).await, host.events(&run).await);
    assert_eq!(snapshot["startedAt"], events[0]["timestamp"]);
    assert_eq!(snapshot["completedAt"], events.last().unwrap()["timestamp"]);
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    assert_eq!(host.snapshot(&run).await["completedAt"], Value::Null);
}

#[tokio::test]
async fn agent_is_the_current_assignee() {
    let host = Host::new().await;
    let mut pinned = noop();
    let agent = json!({ "agentId": "core.tests.clerk", "name": "Clerk", "modelClass": "chat" });
    pinned["agent"] = agent.clone();
    let alone = of(&host, chain("pinned", &[pinned]), json!({})).await;
    assert_eq!(alone["agent"], agent);
    let nobody = host.completed(&json!({ "workflowId": "three" })).await;
    assert_eq!(host.snapshot(&nobody).await["agent"], Value::Null);

    // It is handed over several times.
    let gate = node("gate", "core.approvalGate", json!({ "title": "?" }));
    let plan = json!({ "decisions": [next(&["left"]), next(&["right"])] });
    let gate = std::slice::from_ref(&gate);
    let (left, right) = (chain("left", gate), chain("right", gate));
    host.put(&[supervised("team", plan, json!({})), left, right])
        .await;
    let run = host.create(&json!({ "workflowId": "team" })).await;
    for (round, worker) in ["left", "right"].into_iter().enumerate() {
        let has_asked = |snapshot: &Value| {
            let children = snapshot["childRuns"].as_array().map_or(0, Vec::len);
            children == round + 1 && snapshot["status"] == "waiting-approval"
        };
        let snapshot = host.shows(&run, has_asked).await;
        assert_eq!(
            snapshot["agent"],
            json!({ "agentId": format!("host:{worker}") })
        );
        assert_eq!(snapshot["runOrchestrator"]["agentId"], "core.tests.boss");
        let children = snapshot["childRuns"].as_array().unwrap();
        let asking = children.iter().find(|child| child["workflowId"] == worker);
        let child = asking.unwrap()["runId"].as_str().unwrap();
        host.settle(child, json!({ "action": "accept" })).await;
    }
    host.engine.settled(&run.as_str().into()).await.unwrap();
    assert_eq!(
        host.snapshot(&run).await["agent"]["agentId"],
        "core.tests.boss"
    );
}

#[tokio::test]
async fn run_orchestrator_is_set_once() {
    let host = Host::new().await;
    let boss = |id: &str, agent: &str| {
        let mut boss = node(id, "core.orchestrator.supervisor", json!({}));
        boss["agent"] = json!({ "agentId": agent, "modelClass": "reasoning" });
        boss
    };
    let two = [
        boss("a", "core.tests.first"),
        boss("b", "core.tests.second"),
    ];
    let snapshot = of(&host, chain("two", &two), json!({})).await;
    let first = json!({ "agentId": "core.tests.first", "modelClass": "reasoning" });
    assert_eq!(snapshot["runOrchestrator"], first);
    assert_eq!(snapshot["agent"]["agentId"], "core.tests.second");
    let events = host.events(snapshot["runId"].as_str().unwrap()).await;
    let decided = events
        .iter()
        .filter(|event| event["type"] == "runOrchestrator.decided");
    let agents: Vec<&Value> = decided.map(|event| &event["payload"]["agentId"]).collect();
    assert_eq!(agents, ["core.tests.first", "core.tests.first"]);
}

#[tokio::test]
async fn node_states_show_the_status_of_each_node() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "fails" })).await;
    let state = host.snapshot(&run).await["nodeStates"]["fail"].clone();
    assert_eq!(state["status"], "failed");
    assert_eq!(state["attempts"], 1);
    assert!(state["startedAt"].is_string() && state["completedAt"].is_string());
    assert_eq!(state["error"]["message"], "as it should");
}

#[tokio::test]
async fn variables_are_inputs_defaults_and_values_set_by_nodes() {
    let host = Host::new().await;
    let sets = node(
        "set",
        "core.setVariable",
        json!({ "name": "later", "value": [1] }),
    );
    let mut bag = chain("bag", &[sets]);
    bag["variables"] = json!([
        { "name": "given", "type": "string" },
        { "name": "default", "type": "number", "defaultValue": 7 },
        { "name": "hidden", "type": "string", "sensitive": true },
    ]);
    let order = json!({ "inputs": { "given": "x", "hidden": "very secret" } });
    let snapshot = of(&host, bag, order).await;
    let expected = json!({ "given": "x", "default": 7, "hidden": "[REDACTED]", "later": [1] });
    assert_eq!(snapshot["variables"], expected);
}

#[tokio::test]
async fn error_says_why_a_run_failed() {
    let host = Host::new().await;
    let fails = node(
        "f",
        "core.fail",
        json!({ "code": "on_purpose", "message": "told to" }),
    );
    let snapshot = of(&host, chain("breaks", &[fails]), json!({})).await;
    let error = json!({ "code": "on_purpose", "message": "told to" });
    assert_eq!(snapshot["error"], error);
    assert_eq!(snapshot["status"], "failed");
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    assert_eq!(host.snapshot(&run).await["error"], Value::Null);
}

#[tokio::test]
async fn engine_version_and_event_log_schema_version() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let snapshot = host.snapshot(&run).await;
    let log = host.engine.door().load(&run.as_str().into()).await.unwrap();
    let version = log.header.engine_version.expect("the header says it");
    assert_eq!(snapshot["engineVersion"], version.to_string());
    let discovery = host.get("/.well-known/openwop").await.json();
    assert_eq!(discovery["engineVersion"], version);
    assert_eq!(
        snapshot["eventLogSchemaVersion"],
        discovery["eventLogSchemaVersion"]
    );
    for event in host.events(&run).await {
        assert_eq!(event["engineVersion"], version.to_string());
    }
}

#[tokio::test]
async fn tags_and_metadata_are_the_callers_within_bounds() {
    let host = Host::new().await;
    let order =
        json!({ "workflowId": "three", "tags": ["red"], "metadata": { "team": { "n": 1 } } });
    let run = host.completed(&order).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["tags"], json!(["red"]));
    assert_eq!(snapshot["metadata"], json!({ "team": { "n": 1 } }));
    // Bounds are in characters.
    let long = json!({ "workflowId": "three", "tags": ["ü".repeat(256)] });
    host.completed(&long).await;
    let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let deep = json!({ "a": { "b": { "c": { "d": { "e": 1 } } } } });
    for (field, value) in [
        ("tags", json!(many)),
        ("tags", json!(["x".repeat(257)])),
        ("tags", json!(["ü".repeat(257)])),
        ("tags", json!([""])),
        ("metadata", json!({ "text": "x".repeat(8_192) })),
        ("metadata", deep),
    ] {
        let mut order = json!({ "workflowId": "three" });
        order[field] = value;
        let answer = host.post("/v1/runs", &order).await;
        assert_eq!(answer.status / 100, 4, "{field}: {}", answer.json());
    }
}

#[tokio::test]
async fn configurable_is_the_overlay_with_checked_reserved_keys() {
    let host = Host::new().await;
    let overlay = json!({
        "recursionLimit": 9, "model": "m-1", "temperature": 0.5, "maxTokens": 64,
        "promptOverrides": { "greeting": "Hello" }, "own": [1],
    });
    let order = json!({ "workflowId": "three", "configurable": overlay });
    let run = host.completed(&order).await;
    assert_eq!(host.snapshot(&run).await["configurable"], overlay);
    for (key, value) in [
        ("recursionLimit", json!(0)),
        ("recursionLimit", json!("9")),
        ("model", json!(7)),
        ("temperature", json!(2.5)),
        ("maxTokens", json!(0)),
        ("promptOverrides", json!({ "greeting": 1 })),
        ("promptOverrides", json!("Hello")),
        ("escalationThreshold", json!(1.5)),
    ] {
        let mut overlay = json!({});
        overlay[key] = value;
        let order = json!({ "workflowId": "three", "configurable": overlay });
        let answer = host.post("/v1/runs", &order).await;
        assert_eq!(answer.refusal(400), "validation_error", "{key}");
    }
}

#[tokio::test]
async fn reserved_keys_reach_the_model_of_run_child_and_branch() {
    let model = Model::saying(&[Says::Text("Hello.")]);
    let host = model.host().await;
    let mut greets = node(
        "greets",
        "core.ai.chatCompletion",
        json!({ "promptId": "greeting", "prompt": "Greet ${inputs.who}." }),
    );
    greets["inputs"] = json!({ "who": { "type": "static", "value": "Ada" } });
    let own = json!({ "prompt": "Be exact.", "model": "m-node", "temperature": 0, "maxTokens": 9 });
    let exact = node("exact", "core.ai.chatCompletion", own);
    let child = node(
        "child",
        "core.subWorkflow",
        json!({ "workflowId": "greet" }),
    );
    host.put(&[chain("greet", &[greets, exact]), chain("parent", &[child])])
        .await;
    let order = json!({ "workflowId": "parent", "configurable": {
        "model": "m-run", "temperature": 0.25, "maxTokens": 5,
        "promptOverrides": { "greeting": "Shout ${inputs.who}." },
    } });
    let run = host.completed(&order).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    let said = |asked: &Value| {
        let text = asked["messages"][0]["content"].clone();
        json!([
            asked["model"],
            asked["temperature"],
            asked["max_tokens"],
            text
        ])
    };
    let asked: Vec<Value> = model.asked().iter().map(said).collect();
    // The node's own settings have precedence.
    assert_eq!(
        asked,
        [
            json!(["m-run", 0.25, 5, "Shout Ada."]),
            json!(["m-node", 0.0, 9, "Be exact."]),
        ]
    );
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap();
    let overlay = json!({ "model": "m-branch", "promptOverrides": { "greeting": "Whisper." } });
    let branch =
        json!({ "mode": "branch", "fromSeq": 0, "runOptionsOverlay": { "configurable": overlay } });
    let made = host.post(&format!("/v1/runs/{child}:fork"), &branch).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let branch = made.json()["runId"].as_str().unwrap().to_owned();
    host.engine.settled(&branch.as_str().into()).await.unwrap();
    let asked: Vec<Value> = model.asked()[2..].iter().map(said).collect();
    assert_eq!(asked[0], json!(["m-branch", 0.25, 5, "Whisper."]));
    assert_eq!(asked.len(), 2);
}

#[tokio::test]
async fn metrics_openwop_cost_sums_all_model_calls() {
    let prices = "[provider.p.price.m-1]\ninput = 10.0\noutput = 100.0";
    let host = models::host(models(prices, peer())).await;
    let ask = |id: &str| node(id, "core.ai.chatCompletion", json!({ "prompt": "When?" }));
    let asks = chain("asks", &[ask("once"), ask("again")]);
    let snapshot = of(&host, asks, json!({})).await;
    let mut cost = snapshot["metrics"]["openwopCost"].clone();
    let took = cost.as_object_mut().unwrap().remove("duration_ms");
    assert!(took.is_some_and(|took| took.is_u64()), "{snapshot}");
    let usd = cost["usd"].take();
    assert!((usd.as_f64().unwrap() - 0.0026).abs() < 1e-9, "{usd}");
    assert_eq!(
        cost,
        json!({ "usd": null, "tokens": { "input": 200, "output": 6 }, "model": "m-1",
            "provider": "p" })
    );
    let silent = of(&host, chain("silent", &[noop()]), json!({})).await;
    assert_eq!(silent["metrics"]["openwopCost"], Value::Null);
}

#[tokio::test]
async fn a_recursion_limit_lets_that_many_nodes_start() {
    let host = Host::new().await;
    let order = json!({ "workflowId": "three", "configurable": { "recursionLimit": 2 } });
    let run = host.completed(&order).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["error"]["code"], "recursion_limit_exceeded");
    let events = host.events(&run).await;
    let starts = events
        .iter()
        .filter(|event| event["type"] == "node.started");
    assert_eq!(starts.count(), 2);
    let breach = events.iter().find(|event| event["type"] == "cap.breached");
    let payload = &breach.expect("a breach")["payload"];
    let (limit, observed) = (&payload["limit"], &payload["observed"]);
    assert_eq!((limit, observed), (&json!(2), &json!(3)));
    assert_eq!(payload["kind"], "node-executions");
    assert_eq!(payload["nodeId"], "c", "the node that may not start");
}

#[tokio::test]
async fn a_budget_that_says_something_else_is_refused() {
    let host = Host::new().await;
    for (budget, why) in [
        (json!({ "usd": 1 }), "write maxCostUsd"),
        (json!({ "maxUsd": 1 }), "write maxCostUsd"),
        (json!({ "tokens": 10 }), "write maxCostUsd"),
        (json!({ "maxTokens": -1 }), "0 or more"),
        (json!({ "maxCostUsd": "1" }), "US dollars"),
        (json!({ "onExhaustion": "interrupt" }), "must be fail"),
        (json!(5), "write maxCostUsd"),
    ] {
        let order = json!({ "workflowId": "three", "configurable": { "budget": budget } });
        let answer = host.post("/v1/runs", &order).await;
        assert_eq!(answer.refusal(400), "validation_error");
        let said = answer.json().to_string();
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn misspelt_settings_are_refused_with_the_right_name() {
    let host = Host::new().await;
    for (key, meant) in [
        ("buget", "budget"),
        ("budgets", "budget"),
        ("Budget", "budget"),
        ("maxCostUsd", "budget.maxCostUsd"),
        ("recursionLimits", "recursionLimit"),
        ("run_timeout_ms", "runTimeoutMs"),
        ("models", "model"),
    ] {
        let order = json!({ "workflowId": "three", "configurable": { key: { "maxTokens": 1 } } });
        let answer = host.post("/v1/runs", &order).await;
        assert_eq!(answer.refusal(400), "validation_error", "{key}");
        let said = answer.json().to_string();
        assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
    }
    let own = json!({ "widget": 1, "mode": "fast", "customer": "c" });
    let order = json!({ "workflowId": "three", "configurable": own });
    host.completed(&order).await;
    let mut declared = chain("declared", &[noop()]);
    declared["configurableSchema"] = json!({ "properties": { "budgets": {} } });
    of(
        &host,
        declared,
        json!({ "configurable": { "budgets": [1] } }),
    )
    .await;
}

#[tokio::test]
async fn rounds_of_loops_are_capped_by_the_run() {
    let host = Host::new().await;
    let mut rounds = chain(
        "rounds",
        &[node("head", "core.loop", json!({ "times": 9 })), noop()],
    );
    rounds["edges"] = json!([
        { "id": "in", "sourceNodeId": "head", "sourceOutput": "body", "targetNodeId": "n" },
        { "id": "back", "sourceNodeId": "n", "targetNodeId": "head" },
    ]);
    let order = json!({ "configurable": { "maxLoopIterations": 3 } });
    let snapshot = of(&host, rounds, order).await;
    assert_eq!(snapshot["error"]["code"], "loop_limit_exceeded");
    let events = host.events(snapshot["runId"].as_str().unwrap()).await;
    let breach = events.iter().find(|event| event["type"] == "cap.breached");
    assert_eq!(
        breach.expect("a breach")["payload"]["kind"],
        "loop-iterations"
    );
}

#[tokio::test]
async fn a_run_is_over_when_its_time_is() {
    let host = Host::new().await;
    let order = json!({ "workflowId": "waits", "configurable": { "runTimeoutMs": 20 } });
    let run = host.completed(&order).await;
    assert_eq!(host.snapshot(&run).await["error"]["code"], "run_timeout");
    let events = host.events(&run).await;
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert!(
        kinds.ends_with(&["cap.breached", "node.cancelled", "run.failed"]),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn channels_are_the_written_values_after_reduction() {
    let host = Host::new().await;
    let write = |id: &str, value: Value| {
        node(
            id,
            "core.channelWrite",
            json!({ "channel": "sum", "value": value }),
        )
    };
    let mut counts = chain("counts", &[write("one", json!(3)), write("two", json!(-1))]);
    counts["channels"] =
        json!({ "sum": { "reducer": "counter" }, "never": { "reducer": "append" } });
    let snapshot = of(&host, counts, json!({})).await;
    assert_eq!(snapshot["channels"], json!({ "sum": 2 }));
}

#[tokio::test]
async fn status_is_the_wait_of_a_run_or_its_end() {
    let host = Host::new().await;
    let event = json!({
        "kind": "external-event", "data": { "eventType": "e", "correlation": {} },
    });
    let ask = |id: &str| json!([{ "id": id, "question": "Which?" }]);
    let approval = node("ask", "core.approvalGate", json!({}));
    let input = node(
        "ask",
        "core.clarificationGate",
        json!({ "questions": ask("q") }),
    );
    for (asking, status) in [
        (approval, "waiting-approval"),
        (input, "waiting-input"),
        (node("ask", "core.interrupt", event), "waiting-external"),
    ] {
        let id = format!("asks-{status}");
        host.put(&[chain(&id, &[asking])]).await;
        let run = host.create(&json!({ "workflowId": id })).await;
        host.shows(&run, |shown| shown["status"] == status).await;
        host.post(&format!("/v1/runs/{run}:pause"), &json!({}))
            .await;
        assert_eq!(host.snapshot(&run).await["status"], "paused");
        host.post(&format!("/v1/runs/{run}:resume"), &json!({}))
            .await;
        assert_eq!(host.snapshot(&run).await["status"], status);
        host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
            .await;
        host.engine.settled(&run.as_str().into()).await.unwrap();
        assert_eq!(host.snapshot(&run).await["status"], "cancelled");
    }
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    host.shows(&run, |shown| shown["status"] == "running").await;
}

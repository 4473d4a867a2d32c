//! Workflows: shared ones, a tenant's own, registering.

use runtime::access::Scopes;
use serde_json::{Value, json};

use crate::client::Request;
use crate::host::{Host, chain, node};

#[tokio::test]
async fn shared_workflows_run_for_every_tenant_and_own_ones_win() {
    let host = Host::new().await;
    let theirs = host.key_of("umbrella", None, Scopes::Everything).await;
    let as_them = |method: &str, path: &str| Request::new(method, path).key(&theirs);

    let node = host.get("/v1/workflows/three").await.json()["nodes"][0].clone();
    let own = chain("three", &[node]);
    let put = as_them("PUT", "/v1/workflows/three").json(&own);
    let put = put.send(host.address).await;
    assert_eq!(put.status, 200, "{}", put.json());
    let shown = as_them("GET", "/v1/workflows/three")
        .send(host.address)
        .await
        .json();
    assert_eq!(shown, own);
    let ours = host.get("/v1/workflows/three").await.json();
    assert_eq!(
        ours["nodes"].as_array().unwrap().len(),
        3,
        "nobody else's has changed"
    );

    let listed = as_them("GET", "/v1/workflows")
        .send(host.address)
        .await
        .json();
    let row = |id: &str| -> Value {
        let rows = listed["workflows"].as_array().unwrap();
        rows.iter()
            .find(|row| row["id"] == id)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(row("three")["shared"], false);
    assert_eq!(row("waits")["shared"], true);

    for (workflow, nodes) in [("three", 1), ("waits", 1)] {
        let create = as_them("POST", "/v1/runs").json(&json!({ "workflowId": workflow }));
        let created = create.send(host.address).await;
        assert_eq!(created.status, 201, "{}", created.json());
        let run = created.json()["runId"].as_str().unwrap().to_owned();
        let snapshot = as_them("GET", &format!("/v1/runs/{run}"))
            .send(host.address)
            .await;
        let states = snapshot.json()["nodeStates"].as_object().unwrap().len();
        assert_eq!(states, nodes, "{workflow}");
    }
}

#[tokio::test]
async fn registering_reports_problems_without_the_value() {
    let host = Host::new().await;
    let mut bad = host.get("/v1/workflows/three").await.json();
    bad["nodes"][1]["typeId"] = json!(7);
    bad["canary-field"] = json!("canary-value");
    let answer = host.post("/v1/workflows", &bad).await;
    assert_eq!(answer.refusal(400), "validation_error");
    let text = answer.json().to_string();
    assert!(text.contains("/nodes/1/typeId"), "{text}");
    assert!(!text.contains("canary"), "{text}");

    let mut odd = host.get("/v1/workflows/three").await.json();
    odd["id"] = json!("odd");
    odd["nodes"][1]["typeId"] = json!("acme.unheard-of");
    let answer = host.post("/v1/workflows", &odd).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    assert_eq!(answer.json()["warnings"][0]["code"], "unknown_type");
    let create = host.post("/v1/runs", &json!({ "workflowId": "odd" })).await;
    assert_eq!(create.refusal(400), "capability_required");

    let put = Request::new("PUT", "/v1/workflows/other")
        .key(&host.key)
        .json(&odd);
    assert_eq!(
        put.send(host.address).await.refusal(400),
        "validation_error"
    );
    let gone = host.get("/v1/workflows/nowhere").await;
    assert_eq!(gone.refusal(404), "workflow_not_found");
}

#[tokio::test]
async fn a_workflow_with_missing_host_features_has_its_runs_rejected() {
    let host = Host::new().await;
    let plain = |id: &str| chain(id, &[node("n", "core.noop", json!({}))]);
    let compensated = json!({ "strategy": "reverse" });
    let mut whole = plain("whole");
    whole["settings"] = json!({ "compensation": compensated });
    let mut of_node = plain("of-node");
    of_node["nodes"][0]["compensation"] = compensated.clone();
    let mut of_settings = plain("of-settings");
    of_settings["nodes"][0]["settings"] = json!({ "compensation": compensated });
    let mut channel = plain("channel");
    channel["nodes"][0]["agent"] = json!({ "agentId": "acme.agent", "channel": "stable" });
    for (definition, code, place) in [
        (whole, "capability_required", "/settings/compensation"),
        (of_node, "capability_required", "/nodes/0/compensation"),
        (
            of_settings,
            "capability_required",
            "/nodes/0/settings/compensation",
        ),
        (channel, "validation_error", "/nodes/0/agent/channel"),
    ] {
        let answer = host.post("/v1/workflows", &definition).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        assert_eq!(answer.json()["warnings"][0]["path"], place);
        let create = host
            .post("/v1/runs", &json!({ "workflowId": definition["id"] }))
            .await;
        assert_eq!(create.refusal(400), code);
        assert_eq!(create.json()["details"]["path"], place);
        // Nor as a child.
        let call = json!({ "workflowId": definition["id"] });
        let calls = format!("calls-{}", definition["id"].as_str().unwrap());
        host.put(&[chain(&calls, &[node("call", "core.subWorkflow", call)])])
            .await;
        let run = host.completed(&json!({ "workflowId": calls })).await;
        let snapshot = host.snapshot(&run).await;
        assert_eq!(snapshot["error"]["code"], code, "{snapshot}");
        assert_eq!(snapshot.get("childRuns"), None);
    }
    let mut unset = plain("unset");
    unset["settings"] = json!({ "compensation": null });
    host.put(&[unset]).await;
    let run = host.completed(&json!({ "workflowId": "unset" })).await;
    assert_eq!(host.snapshot(&run).await["status"], "completed");
}

#[tokio::test]
async fn an_agent_that_a_snapshot_could_not_show_is_not_registered() {
    let host = Host::new().await;
    let with = |agent: Value| {
        let mut pinned = node("n", "core.noop", json!({}));
        pinned["agent"] = agent;
        chain("pins", &[pinned])
    };
    for (agent, place) in [
        (json!({}), "/nodes/0/agent/agentId"),
        (json!({ "agentId": "ab" }), "/nodes/0/agent/agentId"),
        (
            json!({ "agentId": "a".repeat(257) }),
            "/nodes/0/agent/agentId",
        ),
        (json!({ "agentId": 7 }), "/nodes/0/agent/agentId"),
        (
            json!({ "agentId": "abc", "modelClass": "big" }),
            "/nodes/0/agent/modelClass",
        ),
        (
            json!({ "agentId": "abc", "name": 7 }),
            "/nodes/0/agent/name",
        ),
        (
            json!({ "agentId": "abc", "version": "1", "channel": "c" }),
            "/nodes/0/agent",
        ),
    ] {
        let answer = host.post("/v1/workflows", &with(agent.clone())).await;
        assert_eq!(answer.refusal(400), "validation_error", "{agent}");
        let text = answer.json().to_string();
        assert!(text.contains(&format!("\"{place}\"")), "{agent}: {text}");
    }
    let agent = json!({
        "agentId": "acme.agent", "name": "Ada", "version": "1.2.0", "modelClass": "vision",
        "memoryRef": "m", "sourceManifestId": "acme.agents", "tools": ["x"],
    });
    host.put(&[with(agent)]).await;
    let run = host.completed(&json!({ "workflowId": "pins" })).await;
    let shown = json!({
        "agentId": "acme.agent", "name": "Ada", "version": "1.2.0", "modelClass": "vision",
        "sourceManifestId": "acme.agents",
    });
    // It could only refer to a memory, which does not exist here.
    assert_eq!(host.snapshot(&run).await["agent"], shown);
    crate::schemas::check_log(&host, &run).await;
}

#[tokio::test]
async fn a_schema_of_settings_that_is_none_is_refused() {
    let host = Host::new().await;
    let mut odd = chain("odd", &[node("n", "core.noop", json!({}))]);
    for schema in [
        json!({ "type": "zap" }),
        json!({ "properties": { "n": { "minimum": "low" } } }),
        json!({ "required": 7 }),
    ] {
        odd["configurableSchema"] = schema.clone();
        let answer = host.post("/v1/workflows", &odd).await;
        assert_eq!(answer.refusal(400), "validation_error", "{schema}");
        let text = answer.json().to_string();
        assert!(text.contains("/configurableSchema"), "{text}");
    }
}

/// Each of these was accepted by an earlier version, or may have been.
#[tokio::test]
async fn stored_workflows_run_despite_newer_registration_rules() {
    let host = Host::new().await;
    let long = "n".repeat(200);
    let mut odd = chain("odd", &[node(&long, "core.noop", json!({ "unheard": 1 }))]);
    odd["slug"] = json!("No Slug");
    odd["metadata"]["tags"] = json!([""]);
    odd["settings"]["maxRetries"] = json!(1_000_000);
    let worker = json!({ "queue": "..", "repeat": "once" });
    let nowhere = chain("nowhere", &[node("n", "runwright.worker", worker)]);
    for definition in [&odd, &nowhere] {
        let refused = host.post("/v1/workflows", definition).await;
        assert_eq!(refused.refusal(400), "validation_error");
        let id = definition["id"].as_str().unwrap();
        assert_eq!(host.get(&format!("/v1/workflows/{id}")).await.status, 404);
        host.has_stored(definition).await;
        let shown = host.get(&format!("/v1/workflows/{id}")).await.json();
        assert_eq!(shown, *definition);
    }
    let listed = host.get("/v1/workflows").await.json();
    for id in ["odd", "nowhere"] {
        let mut rows = listed["workflows"].as_array().unwrap().iter();
        assert!(rows.any(|row| row["id"] == id), "{id}: {listed}");
    }
    for (workflow, expected) in [("odd", json!(null)), ("nowhere", json!("invalid_config"))] {
        let run = host.completed(&json!({ "workflowId": workflow })).await;
        let snapshot = host.snapshot(&run).await;
        assert_eq!(snapshot["error"]["code"], expected, "{snapshot}");
        let fork = format!("/v1/runs/{run}:fork");
        let replay = host.post(&fork, &json!({ "mode": "replay" })).await;
        assert_eq!(replay.status, 201, "{workflow}");
        let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
        assert_eq!(bundle.status, 200, "{workflow}");
    }
    // A missing node type is the reported error, not the older rules.
    let mut unknown = odd.clone();
    unknown["id"] = json!("unknown-and-odd");
    unknown["nodes"][0]["typeId"] = json!("acme.unheard-of");
    host.has_stored(&unknown).await;
    let order = json!({ "workflowId": "unknown-and-odd" });
    let refused = host.post("/v1/runs", &order).await;
    assert_eq!(refused.refusal(400), "capability_required");
}

#[tokio::test]
async fn an_id_of_a_node_is_as_long_as_events_may_name_it() {
    let host = Host::new().await;
    // Characters count, not bytes.
    let longest = "\u{e4}".repeat(128);
    host.put(&[chain("longest", &[node(&longest, "core.noop", json!({}))])])
        .await;
    let run = host.completed(&json!({ "workflowId": "longest" })).await;
    crate::schemas::check_log(&host, &run).await;
    let longer = chain("longer", &[node(&"n".repeat(129), "core.noop", json!({}))]);
    let refused = host.post("/v1/workflows", &longer).await;
    assert_eq!(refused.refusal(400), "validation_error");
    let first = refused.json()["details"]["errors"][0].clone();
    assert_eq!(first["path"], "/nodes/0/id", "{first}");
    let message = first["message"].as_str().unwrap();
    assert!(message.contains("128 characters"), "{message}");
}

//! Models over HTTP: streamed text, cost, access.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use runtime::models::Providers;
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use crate::events::{Frame, stream};
use crate::host::{Host, Models};
use crate::model::{Model, Says};

/// A provider that streams a text of three chunks to every caller.
pub(crate) fn peer() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut from = BufReader::new(connection);
            let (mut line, mut length) = (String::new(), 0);
            while from.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = said.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body).unwrap();
            let mut said = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();
            let chunk = |delta: Value, finish: Option<&str>| json!({ "model": "m-1", "choices": [{ "delta": delta, "finish_reason": finish }] });
            let usage = json!({ "model": "m-1", "choices": [],
                "usage": { "prompt_tokens": 100, "completion_tokens": 3 } });
            for event in [
                chunk(json!({ "content": "It" }), None),
                chunk(json!({ "content": " is" }), None),
                chunk(json!({ "content": " late." }), None),
                chunk(json!({}), Some("stop")),
                usage,
            ] {
                said.push_str(&format!("data: {event}\n\n"));
            }
            said.push_str("data: [DONE]\n\n");
            from.get_mut().write_all(said.as_bytes()).unwrap();
        }
    });
    address
}

pub(crate) fn models(text: &str, address: SocketAddr) -> Models {
    let text = format!("[provider.p]\nbase_url = \"http://{address}/v1\"\nmodel = \"m-1\"\n{text}");
    Models {
        providers: Providers::parse(&text, Path::new("/")).unwrap(),
        outbound: runtime::outbound::Outbound::new(address.to_string().parse().unwrap()),
        ..Models::default()
    }
}

pub(crate) async fn host(models: Models) -> Host {
    let host = Host::with_models(Limits::default(), Reach::Public, models).await;
    let ask = |id: &str, type_id: &str, config: Value| {
        json!({
            "id": id, "name": id, "version": "1.0.0", "metadata": {}, "settings": {},
            "triggers": [], "variables": [], "edges": [],
            "nodes": [{ "id": "ask", "typeId": type_id, "name": "ask",
                "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} }],
        })
    };
    let prompted = json!({ "promptId": "late", "expectsStreaming": true });
    for document in [
        ask(
            "hour",
            "core.ai.chatCompletion",
            json!({ "prompt": "What time is it?" }),
        ),
        ask("prompted", "core.ai.callPrompt", prompted),
    ] {
        let answer = host.post("/v1/workflows", &document).await;
        assert!(answer.status < 300, "{}", answer.json());
    }
    host
}

fn texts(frames: &[Frame]) -> String {
    let texts = frames.iter().map(|frame| {
        assert_eq!(frame.event, "ai.message.chunk");
        assert_eq!(frame.data["type"], "ai.message.chunk");
        frame.data["payload"]["chunk"].as_str().unwrap()
    });
    texts.collect()
}

#[tokio::test]
async fn text_is_streamed_as_messages_and_its_cost_is_shown() {
    let prices = "[provider.p.price.m-1]\ninput = 10.0\noutput = 100.0";
    let host = host(models(prices, peer())).await;
    let run = host.completed(&json!({ "workflowId": "hour" })).await;
    let frames = stream(&host, &run, "?streamMode=messages", None).await;
    assert_eq!(texts(&frames), "It is late.");
    let last = &frames.last().unwrap().data["payload"];
    assert_eq!(
        (&last["isLast"], &last["meta"]["finishReason"]),
        (&json!(true), &json!("stop"))
    );
    assert_eq!(last["meta"]["usage"]["totalTokens"], 103);
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    let mut cost = snapshot["metrics"]["openwopCost"].clone();
    let took = cost.as_object_mut().unwrap().remove("duration_ms");
    assert!(took.is_some_and(|took| took.is_u64()));
    assert_eq!(
        cost,
        json!({ "usd": 0.0013, "tokens": { "input": 100, "output": 3 }, "model": "m-1",
            "provider": "p" })
    );
    let discovery = host.get("/.well-known/openwop").await.json();
    assert_eq!(discovery["aiProviders"]["supported"], json!(["p"]));
    assert_eq!(
        discovery["providerUsage"],
        json!({ "supported": true, "costEstimates": true })
    );
    assert_eq!(discovery.get("testing"), None);
    crate::schemas::check_log(&host, &run).await;
}

#[tokio::test]
async fn a_policy_keeps_a_tenant_from_a_provider() {
    let policies = "[[policy]]\ntenant = \"acme\"\nmode = \"restricted\"\nmodels = [\"m-2\"]\n\
                    [[policy]]\ntenant = \"acme\"\nworkspace = \"lab\"\nmode = \"disabled\"";
    // An unused port: nothing must be sent.
    let host = host(models(policies, ([127, 0, 0, 1], 9).into())).await;
    let run = host.completed(&json!({ "workflowId": "hour" })).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["status"], "failed");
    let error = &snapshot["error"];
    assert_eq!(error["code"], "provider_policy_denied");
    assert_eq!(
        error["details"],
        json!({ "provider": "p", "model": "m-1", "reason": "model_not_allowed",
            "scope": "tenant" })
    );
    // The run's own settings are checked against the policy, too.
    let order = json!({ "workflowId": "hour", "configurable": { "model": "m-2" } });
    let run = host.completed(&order).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["error"]["code"], "model_unreachable");
    // The address of a provider is not disclosed to the run's creator.
    let said = format!("{snapshot} {}", json!(host.events(&run).await));
    assert!(said.contains("the provider p cannot be reached"), "{said}");
    assert!(!said.contains("127.0.0.1"), "{said}");
    // A workspace has a policy of its own that affects no other.
    let scopes = runtime::access::Scopes::Everything;
    let lab = host.key_of("acme", Some("lab"), scopes).await;
    let order = json!({ "workflowId": "hour" });
    let request = crate::client::Request::new("POST", "/v1/runs").key(&lab);
    let made = request.json(&order).send(host.address).await.json();
    let run = made["runId"].as_str().unwrap();
    host.engine.settled(&run.into()).await.unwrap();
    let error = host.snapshot(run).await["error"].clone();
    assert_eq!(error["details"]["reason"], "provider_disabled");
    assert_eq!(error["details"]["scope"], "workspace");
    let unknown = json!({ "workflowId": "hour", "configurable": { "ai.provider": "q" } });
    let refused = host.post("/v1/runs", &unknown).await;
    assert_eq!(refused.refusal(400), "validation_error");
    let discovery = host.get("/.well-known/openwop").await.json();
    let scopes = &discovery["aiProviders"]["policies"]["scopes"];
    assert_eq!(*scopes, json!(["workspace", "tenant", "host"]));
    let modes = &discovery["aiProviders"]["policies"]["modes"];
    assert_eq!(
        *modes,
        json!(["disabled", "optional", "required", "restricted"])
    );
}

#[tokio::test]
async fn the_test_provider_is_for_test_keys() {
    let mut with_tests = models("", ([127, 0, 0, 1], 9).into());
    with_tests.test_provider = true;
    let tested = host(with_tests).await;
    // A stream may hold back a word until its end, as it may be the beginning of a token.
    let tokens = ["a ", "b ", "c ", "d "];
    let mock = |id: &str| {
        json!({ "workflowId": "prompted", "configurable": { "mockProvider": {
            "id": id, "config": { "tokens": tokens, "delayMsPerToken": 1 } } } })
    };
    let run = tested.completed(&mock("stream-text")).await;
    let frames = stream(&tested, &run, "?streamMode=messages", None).await;
    assert_eq!(
        (texts(&frames).as_str(), frames.len()),
        ("a b c d ", tokens.len())
    );
    assert_eq!(frames[3].data["payload"]["isLast"], true);
    let refused = tested.post("/v1/runs", &mock("other")).await;
    assert_eq!(
        (refused.status, refused.envelope()),
        (400, "unsupported_mock_provider".to_owned())
    );
    let discovery = tested.get("/.well-known/openwop").await.json();
    assert_eq!(
        discovery["testing"]["mockProviders"],
        json!(["stream-text", "tool-calls", "error", "usage-only"])
    );

    let plain = host(models("", ([127, 0, 0, 1], 9).into())).await;
    let refused = plain.post("/v1/runs", &mock("stream-text")).await;
    assert_eq!(
        (refused.status, refused.envelope()),
        (403, "mock_provider_forbidden".to_owned())
    );
    let run = plain.completed(&json!({ "workflowId": "hour" })).await;
    let overlay = json!({ "mode": "branch", "fromSeq": 1,
        "runOptionsOverlay": { "configurable": { "mockProvider": { "id": "stream-text" } } } });
    let refused = plain.post(&format!("/v1/runs/{run}:fork"), &overlay).await;
    assert_eq!(
        (refused.status, refused.envelope()),
        (403, "mock_provider_forbidden".to_owned())
    );
}

#[tokio::test]
async fn how_a_run_names_the_test_provider_is_held_to_the_protocol() {
    let mut with_tests = models("", ([127, 0, 0, 1], 9).into());
    with_tests.test_provider = true;
    let host = host(with_tests).await;
    let canary = "canary-77";
    let create = async |mock: &Value| {
        let order = json!({ "workflowId": "prompted", "configurable": { "mockProvider": mock } });
        host.post("/v1/runs", &order).await
    };
    let streams = |config: Value| json!({ "id": "stream-text", "config": config });
    for (mock, path) in [
        (json!(canary), ""),
        (json!({ "config": {} }), "/id"),
        (json!({ "id": 7 }), "/id"),
        (json!({ "id": "" }), "/id"),
        (json!({ "id": "x".repeat(129) }), "/id"),
        (json!({ "id": "stream-text", canary: 1 }), "/…"),
        (streams(json!(canary)), "/config"),
        (streams(json!([])), "/config"),
        (streams(json!({ "tokens": canary })), "/config/tokens"),
        (streams(json!({ "tokens": [1] })), "/config/tokens"),
        (
            streams(json!({ "finishReason": 1 })),
            "/config/finishReason",
        ),
        (streams(json!({ "usage": {} })), "/config/usage"),
        (
            streams(json!({ "delayMsPerToken": 5_001 })),
            "/config/delayMsPerToken",
        ),
        (
            streams(json!({ "delayMsPerToken": -1 })),
            "/config/delayMsPerToken",
        ),
        (
            streams(json!({ "delayMsPerToken": 1.5 })),
            "/config/delayMsPerToken",
        ),
        (
            streams(json!({ "delayMsPerToken": canary })),
            "/config/delayMsPerToken",
        ),
        (
            json!({ "id": "error", "config": { "retryable": "yes" } }),
            "/config/retryable",
        ),
        (
            json!({ "id": "tool-calls", "config": { "toolCalls": [{ "id": "1" }] } }),
            "/config/toolCalls",
        ),
    ] {
        let answer = create(&mock).await;
        let body = answer.json();
        assert_eq!(answer.refusal(400), "validation_error", "{mock}: {body}");
        let expected = format!("/configurable/mockProvider{path}");
        assert_eq!(body["details"]["errors"][0]["path"], expected, "{mock}");
        assert!(!body.to_string().contains(canary), "{body}");
    }
    for mock in [
        json!({ "id": "stream-text" }),
        json!({ "id": "stream-text", "config": null }),
        streams(json!({ "delayMsPerToken": 0, "tokens": [], "more": 1 })),
    ] {
        let answer = create(&mock).await;
        assert_eq!(answer.status, 201, "{mock}: {}", answer.json());
    }
    let run = host.completed(&json!({ "workflowId": "hour" })).await;
    let overlay = json!({ "mode": "branch", "fromSeq": 1,
        "runOptionsOverlay": { "configurable": { "mockProvider": streams(json!([])) } } });
    let refused = host.post(&format!("/v1/runs/{run}:fork"), &overlay).await;
    assert_eq!(refused.refusal(400), "validation_error");
}

#[tokio::test]
async fn a_provider_that_has_no_time_is_asked_again_when_it_says() {
    const ANSWERS: [Says; 2] = [Says::Busy { seconds: 1 }, Says::Text("It is late.")];
    let model = Model::saying(&ANSWERS);
    let host = model.host().await;
    let mut ask = crate::host::node(
        "ask",
        "core.ai.chatCompletion",
        json!({ "prompt": "What time is it?" }),
    );
    ask["settings"] = json!({ "retry": { "maxRetries": 1, "backoffMs": 1 } });
    host.put(&[crate::host::chain("late", &[ask])]).await;
    let run = host.completed(&json!({ "workflowId": "late" })).await;
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    let events = host.events(&run).await;
    let retried = events.iter().find(|event| event["type"] == "node.retried");
    let payload = &retried.unwrap()["payload"];
    assert_eq!(payload["delayMs"], 1_000);
    assert_eq!(payload["lastError"]["code"], "model_rate_limited");
    assert_eq!(model.asked().len(), 2);
}

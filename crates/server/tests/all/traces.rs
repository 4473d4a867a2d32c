//! Traces: a run continues that of its creator, and all its external calls carry it.

use std::path::Path;

use kernel::trace::{TraceContext, hex, node_span, run_span};
use opentelemetry_proto::tonic::trace::v1::Span;
use runtime::models::Providers;
use runtime::outbound::{Allowed, Outbound};
use runtime::telemetry::Protocol;
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use crate::children::{next, supervised};
use crate::client::Request;
use crate::gates::signoff;
use crate::host::{Host, Models, chain, node};
use crate::receiver::{Received, Receiver};
use crate::telemetry::{Seen, collected, value};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const STATE: &str = "acme=t61rcWkgMzE,other=1";

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flags}")
}

/// A peer that is an HTTP server, a model and a malformed MCP server.
async fn peer() -> Receiver {
    Receiver::answering(|asked| {
        let answer = match asked.path.as_str() {
            "/v1/chat/completions" => json!({
                "model": "m-1",
                "choices": [{ "message": { "content": "late" }, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
            }),
            "/mcp" => return Some((500, String::new())),
            _ => json!({ "ok": true }),
        };
        Some((200, answer.to_string()))
    })
    .await
}

async fn host(peer: &Receiver) -> Host {
    let address = peer.address;
    let file = format!(
        "[provider.p]\nbase_url = \"http://{address}/v1\"\nmodel = \"m-1\"\n\
         [provider.p.price.m-1]\ninput = 10.0\noutput = 100.0\n\
         [mcp.tools]\nurl = \"http://{address}/mcp\""
    );
    let allowed = Allowed::parse([address.to_string().as_str()]).unwrap();
    let models = Models {
        providers: Providers::parse(&file, Path::new("/")).unwrap(),
        outbound: Outbound::new(allowed),
        ..Models::default()
    };
    let host = Host::with_models(Limits::default(), Reach::Private, models).await;
    let http = |id: &str| {
        let url = format!("http://{address}/{id}");
        node(id, "runwright.http", json!({ "url": url }))
    };
    let ask = json!({ "prompt": "How late is it?", "stream": false });
    let child = json!({ "workflowId": "below" });
    host.put(&[
        chain("below", &[http("deep")]),
        chain(
            "asks",
            &[
                http("page"),
                node("ask", "core.ai.chatCompletion", ask),
                node("start", "core.subWorkflow", child),
            ],
        ),
        chain("tools", &[node("list", "core.mcp.listTools", json!({}))]),
    ])
    .await;
    host
}

/// Creates a run within the caller's span and waits for its end.
async fn traced(host: &Host, body: &Value, flags: &str) -> String {
    let request = Request::new("POST", "/v1/runs").key(&host.key).json(body);
    let request = request.header("traceparent", &parent(flags));
    let answer = request.header("tracestate", STATE).send(host.address).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    assert_eq!(answer.header("traceparent"), Some(parent(flags).as_str()));
    let run = answer.json()["runId"].as_str().unwrap().to_owned();
    host.engine.settled(&run.as_str().into()).await.unwrap();
    run
}

/// The span in a request's trace context, which must be in the caller's trace.
fn within(asked: &Received) -> String {
    let said = asked.header("traceparent");
    let context = TraceContext::parse(said, None).unwrap_or_else(|| panic!("{asked:?}"));
    assert_eq!(hex(&context.trace), TRACE, "{}", asked.path);
    assert_eq!(asked.header("tracestate"), STATE, "{}", asked.path);
    hex(&context.span)
}

fn id(span: &Span) -> String {
    hex(&span.span_id)
}

#[tokio::test]
async fn all_outgoing_calls_of_a_run_are_in_its_creators_trace() {
    let (peer, hooks) = (peer().await, Receiver::new().await);
    let host = host(&peer).await;
    let collector = collected(&host, Protocol::Protobuf).await;
    let webhook = json!({ "url": hooks.url(), "events": ["run.completed"] });
    assert_eq!(host.post("/v1/webhooks", &webhook).await.status, 201);

    let run = traced(&host, &json!({ "workflowId": "asks" }), "01").await;
    let asked = [peer.next().await, peer.next().await, peer.next().await];
    let paths = asked.each_ref().map(|asked| asked.path.as_str());
    assert_eq!(paths, ["/page", "/v1/chat/completions", "/deep"]);
    let snapshot = host.snapshot(&run).await;
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap();
    let child = child.to_owned();
    let seen = Seen::all(&collector, &[&run, &child], 2.0).await;

    // One trace over caller, run and child.
    let top = seen.span(&run, "openwop.run");
    assert_eq!(hex(&top.parent_span_id), CALLER);
    let starts = seen.span(&run, "openwop.node.core.subWorkflow");
    let below = seen.span(&child, "openwop.run");
    assert_eq!(below.parent_span_id, starts.span_id);
    for span in seen.spans[&run].iter().chain(&seen.spans[&child]) {
        assert_eq!(hex(&span.trace_id), TRACE, "{}", span.name);
    }
    // The requests were made within attempts that the collector knows.
    let attempts = [
        seen.span(&run, "openwop.node.runwright.http.attempt"),
        seen.span(&run, "openwop.node.core.ai.chatCompletion.attempt"),
        seen.span(&child, "openwop.node.runwright.http.attempt"),
    ];
    assert_eq!(asked.each_ref().map(within), attempts.map(id));
    // And each call has a span of its own there.
    for (of, name, attempt) in [
        (&run, "openwop.activity.http", attempts[0]),
        (&run, "openwop.activity.p", attempts[1]),
        (&child, "openwop.activity.http", attempts[2]),
    ] {
        let call = seen.span(of, name);
        assert_eq!(call.parent_span_id, attempt.span_id);
        assert_eq!(call.kind, 3, "a client's");
        assert!(attempt.start_time_unix_nano <= call.start_time_unix_nano);
        assert!(call.end_time_unix_nano <= attempt.end_time_unix_nano);
    }
    let model = &seen.span(&run, "openwop.activity.p").attributes;
    let costs: Vec<&str> = model
        .iter()
        .map(|pair| pair.key.as_str())
        .filter(|key| key.starts_with("openwop.cost."))
        .collect();
    assert_eq!(
        costs,
        [
            "openwop.cost.provider",
            "openwop.cost.tokens.input",
            "openwop.cost.tokens.output",
            "openwop.cost.tokens.total",
            "openwop.cost.usd",
            "openwop.cost.estimated",
        ]
    );
    assert!(value(model, "openwop.node_id").is_some());
    // Webhooks continue the span of their run.
    let mut told = [hooks.next().await, hooks.next().await];
    told.sort_by_key(|told| told.event().0 != child);
    assert_eq!(within(&told[0]), id(below));
    assert_eq!(within(&told[1]), id(top));
    host.stop().await;
}

#[tokio::test]
async fn an_mcp_server_receives_the_trace() {
    let peer = peer().await;
    let host = host(&peer).await;
    traced(&host, &json!({ "workflowId": "tools" }), "01").await;
    let asked = peer.next().await;
    assert_eq!(asked.path, "/mcp");
    within(&asked);
    host.stop().await;
}

#[tokio::test]
async fn a_bundle_has_the_spans_of_its_run() {
    let peer = peer().await;
    let host = host(&peer).await;
    let run = traced(&host, &json!({ "workflowId": "asks" }), "01").await;
    let bundle = host
        .get(&format!("/v1/runs/{run}/debug-bundle"))
        .await
        .json();
    let spans = bundle["spans"].as_array().unwrap();
    assert!(
        spans.iter().all(|span| span["traceId"] == TRACE),
        "{spans:?}"
    );
    let find = |name: &str| {
        let found = spans.iter().find(|span| span["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {spans:?}"))
    };
    let top = find("openwop.run");
    assert_eq!(top["parentSpanId"], CALLER);
    assert_eq!(top["spanId"], hex(&run_span(&run.as_str().into())));
    assert_eq!(top["status"]["code"], "ok");
    assert_eq!(top["endedAt"], bundle["run"]["endedAt"]);
    let page = find("openwop.node.runwright.http");
    let stream = run.as_str().into();
    assert_eq!(page["spanId"], hex(&node_span(&stream, &"page".into(), 0)));
    assert_eq!(page["attributes"]["openwop.node_id"], "page");
    assert_eq!(find("openwop.activity.p")["kind"], "client");
    assert!(find("openwop.event.append")["attributes"]["openwop.event_seq"].is_u64());

    // Unfinished spans have a start.
    let waits = host.create(&json!({ "workflowId": "waits" })).await;
    host.shows(&waits, |snapshot| {
        snapshot["nodeStates"]["wait"].is_object()
    })
    .await;
    let bundle = host
        .get(&format!("/v1/runs/{waits}/debug-bundle"))
        .await
        .json();
    let spans = bundle["spans"].as_array().unwrap();
    for name in ["openwop.run", "openwop.node.core.delay"] {
        let span = spans.iter().find(|span| span["name"] == name).unwrap();
        assert_eq!(span["endedAt"], Value::Null, "{span}");
        assert_eq!(span["status"]["code"], "unset");
        assert_ne!(span["traceId"], TRACE);
    }
    host.stop().await;
}

#[tokio::test]
async fn a_fork_joins_the_trace_of_its_requester() {
    let peer = peer().await;
    let host = host(&peer).await;
    let collector = collected(&host, Protocol::Json).await;
    let source = host.completed(&json!({ "workflowId": "three" })).await;
    let mut forks = Vec::new();
    for body in [
        json!({ "mode": "replay" }),
        json!({ "mode": "branch", "fromSeq": 1 }),
    ] {
        let request = Request::new("POST", &format!("/v1/runs/{source}:fork"));
        let request = request.key(&host.key).json(&body);
        let request = request.header("traceparent", &parent("01"));
        let answer = request.send(host.address).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        let fork = answer.json()["runId"].as_str().unwrap().to_owned();
        host.engine.settled(&fork.as_str().into()).await.unwrap();
        forks.push(fork);
    }
    let seen = Seen::all(&collector, &[&source, &forks[0], &forks[1]], 2.0).await;
    let origin = seen.span(&source, "openwop.run");
    assert_ne!(hex(&origin.trace_id), TRACE);
    for fork in &forks {
        let span = seen.span(fork, "openwop.run");
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), CALLER);
        assert_eq!(span.links[0].trace_id, origin.trace_id);
        assert_eq!(span.links[0].span_id, origin.span_id);
    }
    host.stop().await;
}

#[tokio::test]
async fn an_unsampled_trace_is_passed_on_and_not_exported() {
    let peer = peer().await;
    let host = host(&peer).await;
    let collector = collected(&host, Protocol::Protobuf).await;
    let unseen = traced(&host, &json!({ "workflowId": "below" }), "00").await;
    let asked = peer.next().await;
    within(&asked);
    assert!(asked.header("traceparent").ends_with("-00"));
    let seen = host.completed(&json!({ "workflowId": "three" })).await;
    let seen = Seen::all(&collector, &[&seen], 2.0).await;
    assert!(!seen.spans.contains_key(&unseen));
    host.stop().await;
}

#[tokio::test]
async fn credential_like_trace_fields_are_not_passed_on() {
    let peer = peer().await;
    let host = host(&peer).await;
    let request = Request::new("POST", "/v1/runs").key(&host.key);
    let request = request.json(&json!({ "workflowId": "below" }));
    let request = request.header("traceparent", &parent("01"));
    let state = "acme=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF";
    let answer = request.header("tracestate", state).send(host.address).await;
    assert_eq!(answer.status, 201);
    let asked = peer.next().await;
    assert!(asked.header("traceparent").contains(TRACE));
    assert!(!asked.has("tracestate"), "{asked:?}");
    host.stop().await;
}

#[tokio::test]
async fn every_metric_that_is_claimed_arrives() {
    let peer = peer().await;
    let host = host(&peer).await;
    let collector = collected(&host, Protocol::Json).await;
    let mut tries = node("fail", "core.fail", json!({ "message": "again" }));
    tries["settings"] = json!({ "maxRetries": 1, "retryDelayMs": 1 });
    let plan = json!({ "mockDispatchPlan": [next(&["three"])] });
    host.put(&[
        chain("tries", &[tries]),
        supervised("team", plan, json!({})),
        signoff(&json!({ "title": "Ship it?" })),
    ])
    .await;
    for workflow in ["asks", "tries", "team"] {
        host.completed(&json!({ "workflowId": workflow })).await;
    }
    let capped = json!({ "workflowId": "three", "configurable": { "recursionLimit": 1 } });
    host.completed(&capped).await;
    for ends in ["answered", "cancelled"] {
        let asked = host.waiting(&json!({ "workflowId": "signoff" })).await;
        match ends {
            "answered" => {
                let accept = json!({ "action": "accept" });
                host.answer(&asked, "signoff", accept).await;
            }
            _ => {
                host.post(&format!("/v1/runs/{asked}/cancel"), &json!({}))
                    .await;
            }
        }
        host.ended(&asked).await;
    }
    host.create(&json!({ "workflowId": "waits" })).await;
    let twin = Request::new("POST", "/v1/runs").key(&host.key);
    let twin = twin
        .json(&json!({ "workflowId": "waits" }))
        .header("x-dedup", "enforce");
    assert_eq!(
        twin.send(host.address).await.refusal(409),
        "run_already_active"
    );

    // The capabilities of a server with an exporter, once it has one.
    let gate = server::Gate::open_to("acme".into());
    let api = runtime::api::Api::new(host.engine.clone());
    let app = server::App::new(api, gate, Limits::default());
    let listening = server::listen::Listening::at(([127, 0, 0, 1], 0).into(), app);
    let listening = listening.await.unwrap();
    let address = listening.address();
    let serving = tokio::spawn(listening.serve());
    let discovery = Request::new("GET", "/.well-known/openwop")
        .send(address)
        .await
        .json();
    serving.abort();
    let observability = &discovery["observability"];
    let protocols = &observability["otel"]["exportProtocols"];
    assert_eq!(*protocols, json!(["http/json", "http/protobuf"]));
    let names = observability["metrics"]["names"].as_array().unwrap();
    let mut seen = Seen::default();
    let lacks = |seen: &Seen| -> Vec<String> {
        let names = names.iter().map(|name| name.as_str().unwrap().to_owned());
        names
            .filter(|name| !seen.metrics.contains_key(name))
            .collect()
    };
    while !lacks(&seen).is_empty() {
        seen.take(&collector.next().await);
    }
    assert_eq!(seen.metrics.len(), names.len(), "and no other");
    // Without a collector nothing is advertised.
    let silent = Host::new().await;
    let discovery = silent.get("/.well-known/openwop").await.json();
    assert_eq!(discovery.get("observability"), None);
    host.stop().await;
}

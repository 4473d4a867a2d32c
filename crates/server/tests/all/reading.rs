//! Snapshots, lists, cancelling, and the server's own documents.

use serde_json::{Value, json};

use crate::client::Request;
use crate::host::{Host, chain, node};

#[tokio::test]
async fn a_snapshot_is_sent_only_when_it_changed() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let path = format!("/v1/runs/{run}");
    let first = host.get(&path).await;
    let tag = first.header("etag").expect("a tag").to_owned();
    let known = |tag: &str| {
        let request = Request::new("GET", &path).key(&host.key);
        request.header("if-none-match", tag).send(host.address)
    };
    for tag in [&tag, "*", &format!("\"x\", {tag}"), &format!("W/{tag}")] {
        let answer = known(tag).await;
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{tag}");
        assert!(answer.header("etag").is_some());
    }
    host.post(&format!("{path}/cancel"), &json!({ "reason": "enough" }))
        .await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let after = known(&tag).await;
    assert_eq!(after.status, 200);
    assert_eq!(after.json()["status"], "cancelled");
    assert_ne!(after.header("etag"), Some(tag.as_str()));
    assert_eq!(
        host.get(&path).await.body,
        after.body,
        "two reads give the same bytes"
    );
}

#[tokio::test]
async fn every_advertised_encoding_is_used() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let path = format!("/v1/runs/{run}");
    let plain = host.get(&path).await.body;
    let discovery = host.get("/.well-known/openwop").await.json();
    let encodings = discovery["restTransport"]["contentEncodings"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(encodings, [json!("zstd"), json!("gzip")]);
    for encoding in encodings.iter().map(|encoding| encoding.as_str().unwrap()) {
        let request = Request::new("GET", &path).key(&host.key);
        let answer = request
            .header("accept-encoding", encoding)
            .send(host.address)
            .await;
        assert_eq!(answer.header("content-encoding"), Some(encoding));
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
        let decoded = match encoding {
            "zstd" => zstd::decode_all(&answer.body[..]).unwrap(),
            _ => {
                let mut decoded = Vec::new();
                let mut reader = flate2::read::GzDecoder::new(&answer.body[..]);
                std::io::Read::read_to_end(&mut reader, &mut decoded).unwrap();
                decoded
            }
        };
        assert_eq!(decoded, plain, "{encoding}");
    }
}

#[tokio::test]
async fn lists_are_filtered_and_come_in_pages() {
    let host = Host::new().await;
    let mut tagged = Vec::new();
    for n in 0..5 {
        let order = json!({ "workflowId": "three", "tags": [format!("n{}", n % 2)] });
        tagged.push(host.completed(&order).await);
    }
    let failed = host.completed(&json!({ "workflowId": "fails" })).await;
    let ids = |page: &Value| -> Vec<String> {
        let rows = page["runs"].as_array().unwrap();
        rows.iter()
            .map(|row| row["runId"].as_str().unwrap().to_owned())
            .collect()
    };
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let behind = cursor.map(|cursor: String| format!("&cursor={cursor}"));
        let path = format!("/v1/runs?limit=4{}", behind.unwrap_or_default());
        let page = host.get(&path).await.json();
        seen.extend(ids(&page));
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    let mut all = tagged.clone();
    all.push(failed.clone());
    all.reverse();
    assert_eq!(seen, all, "newest first, each once");

    let list = async |query: &str| ids(&host.get(&format!("/v1/runs?{query}")).await.json());
    assert_eq!(
        list("workflowId=fails").await,
        std::slice::from_ref(&failed)
    );
    assert_eq!(list("status=failed&status=cancelled").await, [failed]);
    assert_eq!(list("tag=n1").await.len(), 2);
    for query in [
        "limit=0",
        "limit=x",
        "limit=501",
        "cursor=!!",
        "cursor=e30",
        "parentRunId=a/b",
    ] {
        let answer = host.get(&format!("/v1/runs?{query}")).await;
        assert_eq!(answer.refusal(400), "validation_error", "{query}");
    }
}

#[tokio::test]
async fn cancelling_twice_or_after_the_end_changes_nothing() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    for path in ["/cancel", ":cancel", "%3Acancel", "%3acancel"] {
        let request = Request::new("POST", &format!("/v1/runs/{run}{path}"));
        // Without a body at all.
        let answer = request.key(&host.key).send(host.address).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.json());
        let status = answer.json()["status"].as_str().unwrap().to_owned();
        assert!(
            ["cancelling", "cancelled"].contains(&status.as_str()),
            "{status}"
        );
    }
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let length = async |run: &str| {
        let page = host
            .get(&format!("/v1/runs/{run}/events/poll"))
            .await
            .json();
        page["events"].as_array().unwrap().len()
    };
    let before = length(&run).await;
    let again = host
        .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await
        .json();
    assert_eq!(again, json!({ "runId": run, "status": "cancelled" }));
    assert_eq!(length(&run).await, before);

    let done = host.completed(&json!({ "workflowId": "three" })).await;
    let answer = host
        .post(&format!("/v1/runs/{done}/cancel"), &json!({}))
        .await
        .json();
    assert_eq!(answer["status"], "completed");
    let answer = host.post("/v1/runs/run-0/cancel", &json!({})).await;
    assert_eq!(answer.refusal(404), "run_not_found");
}

#[tokio::test]
async fn runtime_capabilities_are_the_types_that_run() {
    let host = Host::new().await;
    let discovery = host.get("/.well-known/openwop").await.json();
    let said = discovery["runtimeCapabilities"].as_array().unwrap();
    let said: Vec<&str> = said.iter().map(|id| id.as_str().unwrap()).collect();
    assert!(said.contains(&"runwright.process") && said.contains(&"core.delay"));
    let tried = async |id: &str| {
        let workflow = id.replace('.', "-").to_lowercase();
        let definition = chain(&workflow, &[node("one", id, json!({}))]);
        // Some types require a config, and are rejected without it.
        let put = host.post("/v1/workflows", &definition).await;
        assert!([201, 400].contains(&put.status), "{id}: {}", put.json());
        let order = json!({ "workflowId": workflow });
        host.post("/v1/runs", &order).await
    };
    for id in &said {
        let run = tried(id).await;
        let is_lacking = run.status == 400 && run.json()["error"] == "capability_required";
        assert!(!is_lacking, "{id}: {}", run.json());
    }
    let lacking = tried("core.unheard").await;
    assert_eq!(lacking.refusal(400), "capability_required");
    let needs = &lacking.json()["details"]["requiredCapability"];
    assert!(!said.contains(&needs.as_str().unwrap()), "{needs}");
    assert!(!said.contains(&"conformance.requiresMissing"));
    let timeout = &discovery["idempotency"]["idempotencyAckTimeoutSec"];
    let waits = runtime::api::ACK_TIMEOUT.as_secs();
    assert_eq!(timeout.as_u64(), Some(waits));
    assert!(waits >= 5, "by the protocol");
}

#[tokio::test]
async fn the_described_routes_are_the_routed_ones() {
    let host = Host::new().await;
    let document = host.get("/v1/openapi.json").await.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let stream = &document["paths"]["/v1/runs/{runId}/events"]["get"]["responses"]["200"];
    let page = &stream["content"]["application/json"]["schema"];
    assert_eq!(page["$ref"], "#/components/schemas/EventPage");
    let create = &document["paths"]["/v1/runs"]["post"]["parameters"];
    let mut named = create.as_array().unwrap().iter();
    assert!(named.any(|parameter| parameter["name"] == "X-Force-Engine-Version"));
    let described = document["paths"].as_object().unwrap();
    let mut routed = server::routes::all();
    // Another face has a description of its own.
    routed.retain(|route| {
        let is_file = route.path.starts_with("/console") && route.path != "/console/session";
        !route.path.starts_with("/api/") && !crate::v2::is_v2(route.path) && !is_file
    });
    assert_eq!(
        described
            .values()
            .map(|path| path.as_object().unwrap().len())
            .sum::<usize>(),
        routed.len()
    );
    for route in &routed {
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = &described[route.path][&method];
        assert_eq!(
            operation["operationId"], route.doc.operation,
            "{}",
            route.path
        );
        let path = route
            .path
            .replace("{runId}", "run-0")
            .replace("{workflowId}", "none");
        // The router knows the path and the method: no request fails authentication.
        let answer = Request::new(route.method.as_str(), &path)
            .send(host.address)
            .await;
        let is_by_token = answer.status == 404 && answer.envelope() == "interrupt_not_found";
        assert!(
            is_by_token || ![404, 405].contains(&answer.status),
            "{} {path}",
            route.method
        );
        // Every other method is rejected with the allowed ones.
        let answer = Request::new("PATCH", &path).send(host.address).await;
        assert_eq!(answer.refusal(405), "method_not_allowed");
        let allowed = answer.header("allow").unwrap();
        assert!(allowed.contains(route.method.as_str()), "{path}: {allowed}");
    }
    // Every referenced schema exists.
    let text = document.to_string();
    for name in text.split("#/components/schemas/").skip(1) {
        let name = name.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn requests_are_recognised_by_id_and_trace() {
    let host = Host::new().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for path in ["/v1/runs", "/v1/nowhere", "/v1/runs/run-0"] {
        let request = Request::new("GET", path).key(&host.key);
        let request = request
            .header("traceparent", trace)
            .header("x-request-id", "my-request");
        let answer = request.send(host.address).await;
        assert_eq!(answer.header("traceparent"), Some(trace), "{path}");
        assert_eq!(answer.header("x-request-id"), Some("my-request"), "{path}");
        let answer = host.get(path).await;
        assert!(
            answer
                .header("x-request-id")
                .is_some_and(|id| id.len() >= 32)
        );
    }
}

#[tokio::test]
async fn draining_is_advertised_and_no_run_is_accepted() {
    let host = Host::new().await;
    assert_eq!(host.get("/readyz").await.status, 200);
    let metrics = String::from_utf8(host.get("/metrics").await.body).unwrap();
    assert!(
        metrics.contains("runwright_http_requests_total{route=\"/readyz\""),
        "{metrics}"
    );
    // A connection that is open when draining begins gets its response.
    let mut conn = crate::client::Conn::to(host.address).await;
    conn.send(&Request::new("GET", "/healthz").bytes()).await;
    assert_eq!(conn.answer().await.unwrap().status, 200);
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let mut stream = crate::client::Conn::to(host.address).await;
    let request = Request::new("GET", &format!("/v1/runs/{run}/events")).key(&host.key);
    stream.send(&request.bytes()).await;
    stream.head().await.expect("a stream");
    assert!(stream.chunk().await.is_some());
    let address = host.address;
    host.stop().await;
    assert_eq!(stream.chunk().await, None, "the stream has ended");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_status_that_no_run_has_is_refused_and_the_others_are_named() {
    let host = Host::new().await;
    for status in ["bogus", "", "COMPLETED", "failed,cancelled"] {
        let answer = host.get(&format!("/v1/runs?status={status}")).await;
        assert_eq!(answer.refusal(400), "validation_error", "{status}");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("waiting-approval"), "{message}");
        assert!(!message.contains("bogus"), "{message}");
    }
}

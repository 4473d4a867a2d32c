//! Malicious input on every route: a closed envelope, never a server error, and no echo of the
//! input.

use std::time::Duration;

use serde_json::json;
use server::Limits;

use crate::client::{Conn, Request};
use crate::host::Host;

const CANARY: &str = "canary7f3a";

/// Every route with a run and a workflow in its path.
fn addresses(run: &str) -> Vec<(String, String)> {
    let routes = server::routes::all();
    let address = |route: &server::route::Route| {
        let path = route
            .path
            .replace("{runId}", run)
            .replace("{workflowId}", "three")
            .replace("{queue}", "q")
            .replace("{assignmentId}", "a-1");
        (route.method.to_string(), path)
    };
    routes.iter().map(address).collect()
}

#[tokio::test]
async fn bodies_of_every_kind_are_refused_or_taken_but_never_repeated() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let wide = format!("{{{}\"a\":1}}", format!("\"{CANARY}\":1,").repeat(2_000));
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"\"".to_vec(),
        b"{}{}".to_vec(),
        b"\xff\xfe\x00".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"{\"a\":1e999}".to_vec(),
        b"{\"\\ud800\":1}".to_vec(),
        deep.into_bytes(),
        wide.into_bytes(),
        format!("{{\"{CANARY}\":\"{CANARY}\"}}").into_bytes(),
        format!("{{\"workflowId\":\"{CANARY}\"}}").into_bytes(),
        format!("{{\"workflowId\":\"three\",\"tenantId\":\"{CANARY}\"}}").into_bytes(),
        format!("{{\"workflowId\":\"three\",\"tags\":[{{\"{CANARY}\":1}}]}}").into_bytes(),
        format!("{{\"workflowId\":\"three\",\"inputs\":\"{CANARY}\"}}").into_bytes(),
        format!("{{\"workflowId\":\"\\u0000{CANARY}\"}}").into_bytes(),
        format!("{{\"reason\":{{\"{CANARY}\":1}}}}").into_bytes(),
        format!("{{\"id\":\"{CANARY}\",\"nodes\":[{{\"{CANARY}\":1}}],\"edges\":\"{CANARY}\"}}")
            .into_bytes(),
    ];
    for (method, path) in addresses(&run) {
        if method == "GET" {
            continue;
        }
        for body in &bodies {
            for media in ["application/json", "text/plain", CANARY] {
                let request = Request::new(&method, &path).key(&host.key);
                let answer = request.body(media, body.clone()).send(host.address).await;
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                let what = format!(
                    "{method} {path} {}",
                    String::from_utf8_lossy(&body[..body.len().min(60)])
                );
                assert!(answer.status < 500, "{what}: {text}");
                if answer.status >= 400 {
                    answer.envelope();
                }
                assert!(!text.contains(CANARY), "{what}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn addresses_of_every_kind_are_answered_with_an_envelope() {
    let host = Host::new().await;
    let tricks = [
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "%00",
        "run-%00",
        "%ff",
        "%",
        "%zz",
        "a%2Fb",
        ":",
        ":cancel",
        "%3Acancel",
        "x:y:z",
        "run-1:nope",
        ";",
        "'; drop table runs --",
        "{runId}",
        "run-1%0d%0aSet-Cookie:x",
        CANARY,
        &"a".repeat(5_000),
        "%F0%9F%92%A9",
        "run-1?x=%00",
        "run-1?lastSequence=%00&streamMode=%ff",
    ];
    for before in [
        "/v1/runs/",
        "/v1/workflows/",
        "/v1/",
        "/",
        "/v1/runs/run-1/events/",
        "//v1/runs/",
        "/v1//runs/",
    ] {
        for after in ["", "/", "/events", "/events/poll", "/cancel", ":cancel"] {
            for trick in &tricks {
                let path = format!("{before}{trick}{after}").replace(' ', "%20");
                for method in ["GET", "POST", "DELETE"] {
                    let request = Request::new(method, &path).key(&host.key);
                    let answer = request.send(host.address).await;
                    let text = String::from_utf8_lossy(&answer.body).into_owned();
                    assert!(
                        (400..500).contains(&answer.status),
                        "{method} {path}: {} {text}",
                        answer.status
                    );
                    answer.envelope();
                    assert!(!text.contains(CANARY), "{path}: {text}");
                }
            }
        }
    }
    for path in ["", "/greeting", ":render", "%3Arender"] {
        let prompts = Request::new("POST", &format!("/v1/prompts{path}")).json(&json!({}));
        let refused = prompts.send(host.address).await;
        assert_eq!(refused.refusal(501), "capability_not_provided", "{path}");
        assert_eq!(refused.json()["details"]["capability"], "prompts");
    }
    assert_eq!(host.get("/v1/promptsx").await.refusal(404), "not_found");
    let text = host.get("/v1/packs/-/search").await;
    assert_eq!(text.status, 404);
    assert!(
        text.header("content-type")
            .unwrap()
            .starts_with("text/plain")
    );
    let older = Request::new("GET", "/runs").header("openwop-version", "1");
    let older = older.send(host.address).await;
    assert_eq!(older.refusal(400), "validation_error");
}

#[tokio::test]
async fn non_http_input_gets_an_envelope() {
    let host = Host::new().await;
    let flood: String = (0..200).map(|n| format!("x-{n}: {CANARY}\r\n")).collect();
    let long = "y".repeat(100_000);
    let texts: Vec<(String, u16)> = vec![
        (format!("{CANARY}\r\n\r\n"), 400),
        ("GET\r\n\r\n".into(), 400),
        ("GET / HTTP/9.9\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n".into(), 400),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n".into(),
            400,
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".into(),
            400,
        ),
        ("GET / HTTP/1.1\r\nx\0y: 1\r\n\r\n".into(), 400),
        (format!("GET / HTTP/1.1\r\nhost: a\r\n{flood}\r\n"), 431),
        (
            format!("GET / HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"),
            431,
        ),
        (format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n"), 414),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".into(), 400),
    ];
    for (text, status) in texts {
        let mut conn = Conn::to(host.address).await;
        conn.send(text.as_bytes()).await;
        let what = &text[..text.len().min(60)];
        let answer = conn
            .answer()
            .await
            .unwrap_or_else(|| panic!("no answer to {what:?}"));
        let is_expected = answer.status == status || (status == 414 && answer.status == 431);
        assert!(is_expected, "{what:?}: {}", answer.status);
        answer.envelope();
        assert!(!String::from_utf8_lossy(&answer.body).contains(CANARY));
    }
    assert_eq!(host.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn oversized_or_slow_requests_get_an_error() {
    let limits = Limits {
        body_bytes: 10_000,
        body_time: Duration::from_millis(200),
        head_time: Duration::from_millis(400),
        streams: 1,
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let create = |body: Vec<u8>| {
        Request::new("POST", "/v1/runs")
            .key(&host.key)
            .body("application/json", body)
    };
    let answer = create(vec![b' '; 20_000]).send(host.address).await;
    assert_eq!(answer.refusal(413), "payload_too_large");
    // The same without a content length.
    let mut conn = Conn::to(host.address).await;
    let head = Request::new("POST", "/v1/runs")
        .key(&host.key)
        .header("content-type", "application/json");
    conn.send(&head.clone().header("transfer-encoding", "chunked").bytes())
        .await;
    conn.send(format!("4e20\r\n{}\r\n", " ".repeat(20_000)).as_bytes())
        .await;
    assert_eq!(
        conn.answer().await.unwrap().refusal(413),
        "payload_too_large"
    );
    // A body that never comes.
    let mut conn = Conn::to(host.address).await;
    conn.send(&head.clone().header("content-length", "100").bytes())
        .await;
    assert_eq!(conn.answer().await.unwrap().refusal(408), "request_timeout");
    // A body that ends early.
    let mut conn = Conn::to(host.address).await;
    conn.send(&head.header("content-length", "100").bytes())
        .await;
    conn.send(b"{").await;
    conn.finish().await;
    if let Some(answer) = conn.answer().await {
        assert!((400..500).contains(&answer.status));
        answer.envelope();
    }
    // A head that never ends: the connection closes, with or without a response.
    let mut conn = Conn::to(host.address).await;
    conn.send(b"GET / HTTP/1.1\r\nx: ").await;
    if let Some(answer) = conn.answer().await {
        answer.envelope();
    }
    let answer = create(b"{}".to_vec())
        .header("content-encoding", "gzip")
        .send(host.address)
        .await;
    assert_eq!(answer.refusal(415), "unsupported_media_type");

    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let events = Request::new("GET", &format!("/v1/runs/{run}/events")).key(&host.key);
    let mut open = Conn::to(host.address).await;
    open.send(&events.bytes()).await;
    assert_eq!(open.head().await.unwrap().0, 200);
    let answer = events.send(host.address).await;
    assert_eq!(answer.refusal(503), "service_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_connection_outlives_a_refusal_or_is_said_to_close() {
    let limits = Limits {
        body_bytes: 10_000,
        definition_bytes: 10_000,
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let discovery = Request::new("GET", "/.well-known/openwop").bytes();
    let post = |path: &str| Request::new("POST", path);
    let body = |request: Request, bytes: usize| {
        let body = format!("{{\"a\":\"{}\"}}", "b".repeat(bytes));
        request.body("application/json", body.into_bytes()).bytes()
    };
    let with_key = |path: &str| post(path).key(&host.key);
    let long = "k".repeat(300);
    let mut conn = Conn::to(host.address).await;
    for (request, status) in [
        (body(post("/v1/runs"), 5_000), 401),
        (body(post("/v1/runs").key("rwk_wrong"), 60_000), 401),
        (
            body(with_key("/v1/runs").header("idempotency-key", &long), 10),
            400,
        ),
        (body(with_key("/v1/nowhere"), 10), 404),
        (body(with_key("/.well-known/openwop"), 10), 405),
        (body(with_key("/v1/runs"), 50_000), 413),
        (
            with_key("/v1/runs")
                .body("text/plain", b"words".to_vec())
                .bytes(),
            415,
        ),
        (
            body(Request::new("GET", "/v1/runs/run-0").key(&host.key), 1_000),
            404,
        ),
    ] {
        conn.send(&request).await;
        let answer = conn.answer().await.expect("an answer");
        answer.refusal(status);
        assert_eq!(answer.header("connection"), None, "{status}");
        conn.send(&discovery).await;
        let next = conn.answer().await.expect("the connection goes on");
        assert_eq!(next.status, 200, "after {status}");
    }
    // A body that was held back until it was requested, in chunks, and was read whole.
    let chunked = with_key("/v1/runs")
        .header("expect", "100-continue")
        .header("content-type", "application/json")
        .header("transfer-encoding", "chunked");
    for _ in 0..2 {
        conn.send(&chunked.bytes()).await;
        assert_eq!(conn.head().await.expect("it is asked for").0, 100);
        let order = json!({ "workflowId": "three" }).to_string();
        let chunks = format!("{:x}\r\n{order}\r\n0\r\n\r\n", order.len());
        conn.send(chunks.as_bytes()).await;
        let answer = conn.answer().await.expect("an answer");
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("connection"), None);
    }
    // Too long to be read and discarded: the response arrives, and announces the end of the
    // connection.
    for request in [
        body(post("/v1/runs"), 3_000_000),
        body(with_key("/v1/runs"), 3_000_000),
        post("/v1/runs")
            .header("expect", "100-continue")
            .header("content-length", "10")
            .bytes(),
    ] {
        let mut conn = Conn::to(host.address).await;
        conn.send(&request).await;
        let answer = conn.answer().await.expect("an answer");
        assert!([401, 413].contains(&answer.status), "{}", answer.status);
        assert_eq!(answer.header("connection"), Some("close"));
        conn.finish().await;
        assert!(conn.answer().await.is_none(), "it is closed");
    }
}

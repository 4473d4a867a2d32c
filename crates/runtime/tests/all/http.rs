//! `runwright.http` and its guard, against a real peer.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kernel::run::{Completion, NodeError, Outcome};
use runtime::outbound::{Outbound, Resolve};
use serde_json::{Value, json};

use crate::peer::*;
use crate::recorder::*;
use crate::support::*;

const HTTP: &str = "runwright.http";

/// A lab whose requests may go to these peers.
fn lab_for(peers: &[&Peer]) -> Lab {
    let mut lab = Lab::new();
    let entries: Vec<String> = peers.iter().map(|peer| peer.address.to_string()).collect();
    lab.outbound = Outbound::new(entries.join(",").parse().unwrap());
    lab
}

async fn completed(lab: &Lab, config: Value) -> (Completion, Arc<Recorder>) {
    let recorder = Recorder::new();
    match run_node(
        lab,
        &recorder,
        HTTP,
        config,
        json!({ "id": 7, "o": { "k": 1 } }),
    )
    .await
    {
        Outcome::Completed(completion) => (completion, recorder),
        other => panic!("it should complete: {other:?}"),
    }
}

async fn failed(lab: &Lab, config: Value) -> NodeError {
    match run_node(lab, &Recorder::new(), HTTP, config, json!({})).await {
        Outcome::Failed { error, .. } => error,
        other => panic!("it should fail: {other:?}"),
    }
}

#[tokio::test]
async fn a_get_gives_status_headers_and_json() {
    let headers = [
        ("Content-Type", "application/json"),
        ("Set-Cookie", "a=b"),
        ("X-A", "1"),
        ("X-A", "2"),
    ];
    let peer = Peer::start(move |_| answer("200 OK", &headers, r#"{"n": [1]}"#)).await;
    let config = json!({ "url": peer.url("/items/${inputs.id}?q=1"), "headers": { "X-Id": "${inputs.id}" } });
    let (completion, _) = completed(&lab_for(&[&peer]), config).await;
    assert_eq!(completion.outputs["status"], 200);
    assert_eq!(completion.outputs["json"], json!({ "n": [1] }));
    assert_eq!(completion.outputs["headers"]["x-a"], "1, 2");
    assert_eq!(completion.outputs["headers"].get("set-cookie"), None);
    assert_eq!(completion.outputs["bodyTruncated"], false);
    let [got] = peer.got().try_into().unwrap();
    assert_eq!(got.line, "GET /items/7?q=1");
    assert_eq!(got.header("x-id"), Some("7"));
    assert_eq!(got.header("idempotency-key"), None);
    assert!(got.header("user-agent").unwrap().starts_with("runwright/"));
}

#[tokio::test]
async fn a_post_carries_its_body_and_the_key_of_the_attempt() {
    let peer = Peer::start(|_| answer("201 Created", &[], "made")).await;
    let lab = lab_for(&[&peer]);
    let cases = [
        (
            json!({ "json": { "a": 1 } }),
            r#"{"a":1}"#,
            "application/json",
        ),
        (
            json!({ "json": { "n": "${inputs.id}", "o": ["${inputs.o}", "no. ${inputs.id}"] } }),
            r#"{"n":7,"o":[{"k":1},"no. 7"]}"#,
            "application/json",
        ),
        (
            json!({ "body": "n=${inputs.id}" }),
            "n=7",
            "text/plain; charset=utf-8",
        ),
        (
            json!({ "body": { "input": "o" } }),
            r#"{"k":1}"#,
            "application/json",
        ),
        (
            json!({ "body": "x", "headers": { "Content-Type": "a/b" } }),
            "x",
            "a/b",
        ),
    ];
    for (i, (mut config, body, media_type)) in cases.into_iter().enumerate() {
        config["method"] = "POST".into();
        config["url"] = peer.url("/").into();
        let (completion, _) = completed(&lab, config).await;
        assert_eq!(completion.outputs["body"], "made");
        let got = &peer.got()[i];
        assert_eq!((got.line.as_str(), got.body.as_str()), ("POST /", body));
        assert_eq!(got.header("content-type"), Some(media_type));
        assert_eq!(got.header("idempotency-key"), Some(lab.effect().as_str()));
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_does_not_get_the_secrets() {
    let other = Peer::start(|_| answer("200 OK", &[], "")).await;
    let away = other.url("/there");
    let peer = Peer::start(move |got| match got.line.as_str() {
        "GET /start" => answer("302 Found", &[("Location", "/next")], ""),
        _ => answer("307 Temporary Redirect", &[("Location", &away)], ""),
    })
    .await;
    let config = json!({
        "url": peer.url("/start"),
        "headers": { "Authorization": "Basic abc", "X-Plain": "p" },
        "secretHeaders": { "X-Key": { "prefix": "Bearer ", "secret": "env:TOKEN" } },
    });
    completed(&lab_for(&[&peer, &other]), config).await;
    for got in peer.got() {
        assert_eq!(
            got.header("x-key"),
            Some("Bearer planted-secret"),
            "{}",
            got.line
        );
    }
    let [there] = other.got().try_into().unwrap();
    assert_eq!(there.line, "GET /there");
    assert_eq!(
        (there.header("x-key"), there.header("authorization")),
        (None, None)
    );
    assert_eq!(there.header("x-plain"), Some("p"));
}

#[tokio::test]
async fn each_redirect_passes_the_guard() {
    let hidden = Peer::start(|_| answer("200 OK", &[], "inside")).await;
    for to in [
        hidden.url("/"),
        "http://169.254.169.254/".into(),
        "file:///etc/passwd".into(),
    ] {
        let peer = Peer::start(move |_| answer("302 Found", &[("Location", &to)], "")).await;
        let error = failed(&lab_for(&[&peer]), json!({ "url": peer.url("/") })).await;
        assert_eq!(
            (error.code.as_str(), error.retryable),
            ("http_refused", Some(false))
        );
    }
    assert!(hidden.got().is_empty());
}

#[tokio::test]
async fn redirects_change_the_method_as_the_web_does() {
    let peer = Peer::start(|got| match got.line.as_str() {
        "POST /see" => answer("303 See Other", &[("Location", "/end")], ""),
        "POST /keep" => answer("308 Permanent Redirect", &[("Location", "/end")], ""),
        _ => answer("200 OK", &[], ""),
    })
    .await;
    let lab = lab_for(&[&peer]);
    for path in ["/see", "/keep"] {
        completed(
            &lab,
            json!({ "method": "POST", "url": peer.url(path), "body": "b" }),
        )
        .await;
    }
    let lines: Vec<(String, String)> = peer
        .got()
        .into_iter()
        .map(|got| (got.line, got.body))
        .collect();
    let line = |line: &str, body: &str| (line.to_owned(), body.to_owned());
    let expected = [
        line("POST /see", "b"),
        line("GET /end", ""),
        line("POST /keep", "b"),
        line("POST /end", "b"),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn redirects_end_or_are_the_answer() {
    let peer = Peer::start(|_| answer("302 Found", &[("Location", "/again")], "")).await;
    let lab = lab_for(&[&peer]);
    let error = failed(&lab, json!({ "url": peer.url("/") })).await;
    assert_eq!(error.code, "http_bad_redirect");
    assert_eq!(peer.got().len(), 11);
    let (completion, _) =
        completed(&lab, json!({ "url": peer.url("/"), "redirects": "return" })).await;
    assert_eq!(completion.outputs["status"], 302);
}

/// Resolves to these addresses, and counts the look-ups.
struct Names {
    addresses: Mutex<Vec<IpAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(self.addresses.lock().unwrap().clone())
    }
}

#[tokio::test]
async fn one_bad_address_of_a_name_is_enough() {
    let peer = Peer::start(|_| answer("200 OK", &[], "")).await;
    let names = Arc::new(Names {
        addresses: Mutex::new(vec!["93.184.216.34".parse().unwrap(), peer.address.ip()]),
        asked: AtomicUsize::new(0),
    });
    let mut lab = Lab::new();
    lab.outbound = Outbound::with_resolver("".parse().unwrap(), names.clone());
    let url = format!("http://service.example:{}/", peer.address.port());
    let error = failed(&lab, json!({ "url": url })).await;
    assert_eq!(error.code, "http_refused");
    assert!(
        error.message.contains("service.example") && error.message.contains("allow"),
        "{error:?}"
    );
    assert!(peer.got().is_empty());
    // The same name with its network allowed: resolved once, and connected to that address.
    *names.addresses.lock().unwrap() = vec![peer.address.ip()];
    lab.outbound = Outbound::with_resolver("127.0.0.0/8".parse().unwrap(), names.clone());
    completed(&lab, json!({ "url": url })).await;
    assert_eq!(
        peer.got()[0].header("host"),
        Some(url.trim_matches('/').trim_start_matches("http://"))
    );
    assert_eq!(names.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn loopback_is_refused_unless_allowed() {
    let peer = Peer::start(|_| answer("200 OK", &[], "")).await;
    let error = failed(&Lab::new(), json!({ "url": peer.url("/secret-path") })).await;
    assert_eq!(error.code, "http_refused");
    assert!(!error.message.contains("secret-path"), "{error:?}");
    assert!(peer.got().is_empty());
}

#[tokio::test]
async fn a_status_says_whether_trying_again_may_help() {
    let cases = [
        ("429 Too Many Requests", true, Some(2_000)),
        ("503 Service Unavailable", true, Some(2_000)),
        ("500 Internal Server Error", true, Some(2_000)),
        ("404 Not Found", false, None),
        ("302 Found", false, None),
    ];
    for (status, retryable, wait) in cases {
        let peer = Peer::start(move |_| answer(status, &[("Retry-After", "2")], "why")).await;
        let error = failed(&lab_for(&[&peer]), json!({ "url": peer.url("/") })).await;
        assert_eq!(
            (error.code.as_str(), error.retryable),
            ("http_status", Some(retryable))
        );
        let details = error.details.unwrap();
        assert_eq!(details["status"].as_u64(), status[..3].parse().ok());
        assert_eq!(details["retryAfterMs"].as_u64(), wait);
        assert_eq!(details["body"], "why");
    }
}

#[tokio::test]
async fn other_codes_may_mean_success() {
    let peer = Peer::start(|_| answer("404 Not Found", &[], "")).await;
    let config = json!({ "url": peer.url("/"), "successCodes": [200, 404] });
    let (completion, _) = completed(&lab_for(&[&peer]), config).await;
    assert_eq!(completion.outputs["status"], 404);
}

#[tokio::test]
async fn silence_is_a_timeout_and_a_post_is_not_sent_again() {
    let peer = Peer::start(|_| Answer::Silence).await;
    let lab = lab_for(&[&peer]);
    let error = failed(&lab, json!({ "url": peer.url("/"), "timeoutMs": 50 })).await;
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("http_timed_out", None)
    );
    let config = json!({ "url": peer.url("/"), "timeoutMs": 50, "method": "POST" });
    let error = failed(&lab, config).await;
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("http_timed_out", Some(false))
    );
}

#[tokio::test]
async fn a_truncated_response_is_rejected() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec();
    let peer = Peer::start(move |_| Answer::Bytes(cut.clone())).await;
    let error = failed(&lab_for(&[&peer]), json!({ "url": peer.url("/") })).await;
    assert_eq!(error.code, "http_broken");
}

#[tokio::test]
async fn a_refused_connection_is_a_retryable_failure() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut lab = Lab::new();
    lab.outbound = Outbound::new(free.to_string().parse().unwrap());
    let config = json!({ "url": format!("http://{free}/"), "method": "POST" });
    let error = failed(&lab, config).await;
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("http_unreachable", None)
    );
}

#[tokio::test]
async fn a_body_without_end_is_refused() {
    let peer = Peer::start(|_| Answer::Endless).await;
    let config = json!({ "url": peer.url("/"), "maxResponseBytes": 100_000 });
    let error = failed(&lab_for(&[&peer]), config).await;
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("http_too_large", Some(false))
    );
}

#[tokio::test]
async fn a_long_body_is_cut_and_complete_as_an_artifact() {
    let long = "0123456789".repeat(10_000);
    let body = long.clone();
    let peer = Peer::start(move |_| answer("200 OK", &[("Content-Type", "text/x")], &body)).await;
    let config = json!({ "url": peer.url("/"), "captureBytes": 15 });
    let (completion, recorder) = completed(&lab_for(&[&peer]), config).await;
    assert_eq!(completion.outputs["body"], "012345678901234");
    assert_eq!(completion.outputs["bodyTruncated"], true);
    assert_eq!(completion.artifacts[0].media_type, "text/x");
    assert_eq!(recorder.artifact("http.body").unwrap(), long.as_bytes());
}

#[tokio::test]
async fn a_binary_body_is_an_artifact() {
    let peer = Peer::start(|_| answer("200 OK", &[], [0xff, 0x00, 0xfe])).await;
    let (completion, recorder) =
        completed(&lab_for(&[&peer]), json!({ "url": peer.url("/") })).await;
    assert_eq!(completion.outputs.get("body"), None);
    assert_eq!(recorder.artifact("http.body").unwrap(), [0xff, 0x00, 0xfe]);
}

#[tokio::test]
async fn json_that_is_none_fails_only_where_it_must_be() {
    let headers = [("Content-Type", "application/json")];
    let peer = Peer::start(move |_| answer("200 OK", &headers, "{oops")).await;
    let lab = lab_for(&[&peer]);
    let (completion, _) = completed(&lab, json!({ "url": peer.url("/") })).await;
    assert_eq!(completion.outputs["body"], "{oops");
    let error = failed(
        &lab,
        json!({ "url": peer.url("/"), "responseFormat": "json" }),
    )
    .await;
    assert_eq!(error.code, "output_not_json");
}

#[tokio::test]
async fn a_stop_hangs_up() {
    let peer = Peer::start(|_| Answer::Silence).await;
    let lab = lab_for(&[&peer]);
    let cx = Recorder::new().context(&lab);
    let stop = cx.stop.clone();
    let node = run_in(&lab, cx, HTTP, json!({ "url": peer.url("/") }), json!({}));
    let watch = async {
        peer.came.notified().await;
        stop.cancel();
        peer.left.notified().await;
    };
    let (outcome, ()) = tokio::time::timeout(DEADLINE, async { tokio::join!(node, watch) })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Stopped);
}

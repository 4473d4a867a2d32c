//! Tokens that read one run: allowed and denied operations.

use std::collections::BTreeSet;

use runtime::access::{Scope, Scopes};
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::host::Host;

/// Requests a read token.
async fn issued(host: &Host, key: &str, run: &str, body: &Value) -> Answer {
    let path = format!("/v1/runs/{run}/tokens");
    let request = Request::new("POST", &path).key(key).json(body);
    request.send(host.address).await
}

async fn token(host: &Host, run: &str) -> String {
    let answer = issued(host, &host.key, run, &json!({})).await;
    assert_eq!(answer.status, 201);
    let doc = answer.json();
    assert_eq!(doc["runId"], run);
    assert!(doc["expiresAt"].is_string());
    doc["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn a_read_token_reads_its_run_by_header_and_address() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let token = token(&host, &run).await;
    for path in ["", "/events/poll", "/events"] {
        let path = format!("/v1/runs/{run}{path}");
        let by_header = Request::new("GET", &path).key(&token);
        assert_eq!(by_header.send(host.address).await.status, 200, "{path}");
        // As the EventSource of a page sends it, under any host name of the server.
        let path = format!("{path}?access_token={token}");
        let by_address = Request::for_host("GET", &path, "runs.example.org")
            .header("accept", "text/event-stream, application/json")
            .header("sec-fetch-site", "cross-site");
        let answer = by_address.send(host.address).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("runwright-warning"), None);
    }
}

#[tokio::test]
async fn a_read_token_opens_nothing_else() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let other = host.completed(&json!({ "workflowId": "three" })).await;
    let token = token(&host, &run).await;
    for route in server::routes::all() {
        let server::route::Access::May(action) = route.access else {
            continue;
        };
        let is_get = route.method.as_str() == "GET";
        let reads = is_get && route.path.contains("/runs/{runId}");
        for id in [&run, &other] {
            let path = route.path.replace("{runId}", id).replace("{nodeId}", "a");
            let path = path.replace(":diff", &format!(":diff?against={other}"));
            let mut request = Request::new(route.method.as_str(), &path).key(&token);
            if crate::v2::is_v2(route.path) {
                request = request.header("openwop-version", "2");
            }
            if !is_get {
                request = request.json(&json!({}));
            }
            let status = request.send(host.address).await.status;
            let is_own = reads && id == &run && action.scope() == Scope::RunsRead;
            if is_own {
                // The other run of a comparison is not found; the id is not that of a document.
                assert!([200, 400, 404, 409].contains(&status), "{path}: {status}")
            } else {
                assert_eq!(status, 403, "{} {path}", route.method)
            }
        }
    }
    // Not in the query with a key, and not on routes that accept no read token.
    for path in [
        format!("/v1/runs/{run}?access_token={}", host.key),
        format!("/v1/runs/{run}/annotations?access_token={token}"),
        format!("/v1/runs/{run}?access_token={token}x"),
    ] {
        let answer = Request::new("GET", &path).send(host.address).await;
        assert_eq!(answer.status, 401, "{path}");
    }
    let diff = format!("/v1/runs/{run}:diff?against={other}");
    let diff = Request::new("GET", &diff).key(&token);
    assert_eq!(diff.send(host.address).await.refusal(404), "run_not_found");
}

#[tokio::test]
async fn only_readers_make_read_tokens() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let creates = Scopes::Only(BTreeSet::from([Scope::RunsCreate]));
    let creator = host.key_of("acme", None, creates).await;
    let refused = issued(&host, &creator, &run, &json!({})).await;
    assert_eq!(refused.refusal(403), "insufficient_scope");
    let stranger = host.key_of("other", None, Scopes::Everything).await;
    let refused = issued(&host, &stranger, &run, &json!({})).await;
    assert_eq!(refused.refusal(404), "run_not_found");
    // A read token cannot make another, and lives at most a quarter of an hour.
    let token = token(&host, &run).await;
    assert_eq!(issued(&host, &token, &run, &json!({})).await.status, 403);
    for body in [
        json!({ "expiresInMs": 900_001 }),
        json!({ "expiresInMs": 0 }),
        json!({ "expiresInMs": "1h" }),
        json!({ "scopes": ["*"] }),
    ] {
        let answer = issued(&host, &host.key, &run, &body).await;
        assert_eq!(answer.refusal(400), "validation_error", "{body}");
    }
}

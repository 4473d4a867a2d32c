//! The console: its files, its sessions, and the drawings that it paints.

use std::time::Duration;

use kernel::ids::KeyId;
use runtime::access::{ApiKeys, Scope, Scopes};
use serde_json::{Value, json};
use server::Limits;
use tokio::time::timeout;

use crate::client::{Answer, Conn, DEADLINE, Request};
use crate::host::{Host, chain, node};

const PAGE: &str = "https://app.example.org";

/// A request of the console's own page.
fn own(method: &str, path: &str) -> Request {
    Request::new(method, path)
        .header("origin", "http://localhost")
        .header("sec-fetch-site", "same-origin")
}

/// Signs in; returns the cookie and the session.
async fn sign_in(host: &Host, key: &str) -> (String, Value) {
    let request = own("POST", "/console/session").json(&json!({ "token": key }));
    let answer = request.send(host.address).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    (cookie, answer.json())
}

/// The pair of a `Set-Cookie` header.
fn pair(cookie: &str) -> &str {
    cookie.split(';').next().expect("a pair")
}

/// A request of a session.
fn of_session(method: &str, path: &str, cookie: &str, session: &Value) -> Request {
    let secret = session["secret"].as_str().expect("a secret");
    own(method, path)
        .header("cookie", pair(cookie))
        .header("x-runwright-session", secret)
}

#[tokio::test]
async fn pages_are_served_under_a_strict_policy() {
    let host = Host::new().await;
    for (path, media) in [
        ("/console", "text/html; charset=utf-8"),
        ("/console/console.js", "text/javascript; charset=utf-8"),
        ("/console/console.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
    ] {
        let answer = Request::new("GET", path).send(host.address).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(media));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        let tag = answer.header("etag").expect("a tag").to_owned();
        let known = Request::new("GET", path).header("if-none-match", &tag);
        assert_eq!(known.send(host.address).await.status, 304, "{path}");
        let foreign = Request::for_host("GET", path, "evil.example");
        let foreign = foreign.send(host.address).await;
        assert_eq!(foreign.refusal(403), "host_not_allowed", "{path}");
    }
    let page = Request::new("GET", "/console").send(host.address).await;
    let page = String::from_utf8(page.body).expect("text");
    assert!(
        !page.contains("style=") && !page.contains("onload"),
        "{page}"
    );
    assert_eq!(
        page.matches("<script").count(),
        page.matches("<script src=").count()
    );
    let slash = Request::new("GET", "/console/").send(host.address).await;
    assert_eq!(
        (slash.status, slash.header("location")),
        (308, Some("../console"))
    );
}

#[tokio::test]
async fn a_session_needs_its_cookie_and_its_secret() {
    let host = Host::new().await;
    let (cookie, session) = sign_in(&host, &host.key).await;
    for attribute in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains(&host.key) && !session.to_string().contains(&host.key));
    assert_eq!(
        (&session["tenant"], &session["signedIn"]),
        (&json!("acme"), &json!(true))
    );

    let runs = async |request: Request| request.send(host.address).await;
    let full = runs(of_session("GET", "/v1/runs", &cookie, &session)).await;
    assert_eq!(full.status, 200);
    let order = of_session("POST", "/v1/runs", &cookie, &session);
    let order = order.json(&json!({ "workflowId": "three" }));
    assert_eq!(runs(order).await.status, 201);

    let alone = own("GET", "/v1/runs").header("cookie", pair(&cookie));
    assert_eq!(runs(alone).await.refusal(401), "unauthenticated");
    let wrong = own("GET", "/v1/runs").header("cookie", pair(&cookie));
    let wrong = wrong.header("x-runwright-session", "guessed");
    assert_eq!(runs(wrong).await.refusal(401), "unauthenticated");
    let secret = session["secret"].as_str().expect("a secret");
    let without = own("GET", "/v1/runs").header("x-runwright-session", secret);
    assert_eq!(runs(without).await.refusal(401), "unauthenticated");
    let form = of_session("POST", "/v1/runs", &cookie, &session);
    let form = form.body("text/plain", b"{\"workflowId\":\"three\"}".to_vec());
    assert_eq!(runs(form).await.refusal(415), "unsupported_media_type");

    // The page learns of its session after a reload, and of its end.
    let shown = of_session("GET", "/console/session", &cookie, &session);
    let shown = runs(shown).await.json();
    assert_eq!(
        (&shown["tenant"], &shown["expiresAt"]),
        (&session["tenant"], &session["expiresAt"])
    );
    // Servers on other ports of the host receive the cookie, too: alone it is worth nothing.
    let stolen = own("GET", "/console/session").header("cookie", pair(&cookie));
    assert_eq!(runs(stolen).await.json(), json!({ "signedIn": false }));
    let out = of_session("DELETE", "/console/session", &cookie, &session);
    let out = runs(out).await;
    assert_eq!(out.status, 204);
    assert!(
        out.header("set-cookie")
            .expect("a cookie")
            .contains("Max-Age=0")
    );
    let nobody = own("GET", "/console/session").send(host.address).await;
    assert_eq!(nobody.json(), json!({ "signedIn": false }));
}

#[tokio::test]
async fn bad_credentials_begin_no_session() {
    let host = Host::new().await;
    let begin = async |body: Value| {
        let request = own("POST", "/console/session").json(&body);
        request.send(host.address).await
    };
    let unknown = begin(json!({ "token": "rw_0_0" })).await;
    assert_eq!(unknown.refusal(401), "invalid_token");
    for body in [
        json!({}),
        json!({ "token": "" }),
        json!({ "token": 1 }),
        json!({ "token": "x", "more": 1 }),
        json!({ "token": "x".repeat(20_000) }),
    ] {
        let answer = begin(body.clone()).await;
        assert_eq!(answer.refusal(400), "validation_error", "{body}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    let jwt = format!("e30.{}.x", "A".repeat(3_000));
    assert_eq!(begin(json!({ "token": jwt })).await.status, 401);
    let two_lines = begin(json!({ "token": "a\r\nset-cookie: x" })).await;
    assert_eq!(two_lines.refusal(401), "invalid_token");
}

#[tokio::test]
async fn a_session_serves_its_own_pages_only() {
    let limits = Limits {
        origins: vec![PAGE.to_owned()],
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let (cookie, session) = sign_in(&host, &host.key).await;
    let secret = session["secret"].as_str().expect("a secret");
    // A page of an allowed origin may call the API with a key of its own, not with this session.
    for origin in [PAGE, "http://evil.example", "null", "http://localhost:1"] {
        let from = |method: &str, path: &str| {
            Request::new(method, path)
                .header("origin", origin)
                .header("cookie", pair(&cookie))
                .header("x-runwright-session", secret)
        };
        for (method, path) in [
            ("GET", "/console/session"),
            ("DELETE", "/console/session"),
            ("GET", "/v1/runs"),
            ("POST", "/v1/runs"),
        ] {
            let mut request = from(method, path);
            if method == "POST" {
                request = request.json(&json!({ "workflowId": "three" }));
            }
            let answer = request.send(host.address).await;
            assert_eq!(
                answer.refusal(403),
                "origin_not_allowed",
                "{method} {path} {origin}"
            );
        }
    }
    let site = Request::new("GET", "/console/session")
        .header("sec-fetch-site", "same-site")
        .header("cookie", pair(&cookie));
    assert_eq!(
        site.send(host.address).await.refusal(403),
        "origin_not_allowed"
    );
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_its_instance() {
    let host = Host::new().await;
    let key = host
        .key_of("umbrella", None, Scopes::Only([Scope::RunsRead].into()))
        .await;
    let (cookie, session) = sign_in(&host, &key).await;
    assert_eq!(session["scopes"], json!(["runs:read"]));
    let ask = async |path: &str| -> Answer {
        of_session("GET", path, &cookie, &session)
            .send(host.address)
            .await
    };
    assert_eq!(ask("/v1/runs").await.status, 200);
    assert_eq!(ask("/v1/webhooks").await.refusal(403), "insufficient_scope");
    // Another tenant's run is not there.
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    for path in ["", "/graph", "/events/poll"] {
        let path = format!("/v1/runs/{run}{path}");
        assert_eq!(ask(&path).await.refusal(404), "run_not_found", "{path}");
    }
    let elsewhere = Host::new().await;
    let foreign = of_session("GET", "/v1/runs", &cookie, &session);
    assert_eq!(
        foreign.send(elsewhere.address).await.refusal(401),
        "invalid_token"
    );
    let mut changed = pair(&cookie).to_owned();
    let last = changed.pop().expect("a character");
    changed.push(if last == 'A' { 'B' } else { 'A' });
    let changed = of_session("GET", "/v1/runs", &changed, &session);
    assert_eq!(
        changed.send(host.address).await.refusal(401),
        "invalid_token"
    );

    let keys = ApiKeys::new(host.engine.door().clone());
    let id = key.split('_').nth(1).and_then(KeyId::parse);
    let id = id.expect("an id");
    let by = kernel::audit::Actor::operator();
    keys.revoke(&"umbrella".into(), &id, None, &by)
        .await
        .expect("revoked");
    // The server looks for revoked keys once a second.
    let revoked = timeout(DEADLINE, async {
        loop {
            let answer = ask("/v1/runs").await;
            if answer.status != 200 {
                return answer;
            }
        }
    });
    let revoked = revoked.await.expect("the session ends");
    assert_eq!(revoked.refusal(401), "key_revoked");
    assert_eq!(
        ask("/console/session").await.json(),
        json!({ "signedIn": false })
    );
}

#[tokio::test]
async fn a_stream_of_a_session_ends_with_its_key() {
    let limits = Limits {
        recheck: Duration::from_millis(20),
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let (cookie, session) = sign_in(&host, &host.key).await;
    let mut conn = Conn::to(host.address).await;
    let request = of_session("GET", "/v1/runs:changes", &cookie, &session);
    conn.send(&request.bytes()).await;
    assert_eq!(conn.head().await.expect("a head").0, 200);
    assert!(conn.chunk().await.is_some(), "it follows");
    let id = host.key.split('_').nth(1).and_then(KeyId::parse);
    let by = kernel::audit::Actor::operator();
    let keys = ApiKeys::new(host.engine.door().clone());
    let (tenant, id) = ("acme".into(), id.expect("an id"));
    let revoked = keys.revoke(&tenant, &id, None, &by).await;
    revoked.expect("revoked");
    let over = timeout(DEADLINE, async { while conn.chunk().await.is_some() {} });
    over.await.expect("the stream ends");
}

#[tokio::test]
async fn drawings_have_every_node_at_a_place() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let of_run = host.get(&format!("/v1/runs/{run}/graph")).await;
    let of_workflow = host.get("/v1/workflows/three/graph").await;
    assert_eq!(of_run.json(), of_workflow.json());
    let graph = of_run.json();
    let ids: Vec<&str> = graph["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| node["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let bound = |name: &str| graph[name].as_f64().expect("a length");
    for node in graph["nodes"].as_array().expect("nodes") {
        let at = |name: &str| node[name].as_f64().expect("a length");
        assert!(
            at("x") >= 0.0 && at("x") + at("width") <= bound("width"),
            "{node}"
        );
        assert!(
            at("y") >= 0.0 && at("y") + at("height") <= bound("height"),
            "{node}"
        );
    }
    assert_eq!(graph["edges"].as_array().expect("edges").len(), 2);
    let tag = of_run.header("etag").expect("a tag").to_owned();
    let again = Request::new("GET", &format!("/v1/runs/{run}/graph")).key(&host.key);
    assert_eq!(
        again
            .header("if-none-match", &tag)
            .send(host.address)
            .await
            .status,
        304
    );
    let unknown = host.get("/v1/workflows/nowhere/graph").await;
    assert_eq!(unknown.refusal(404), "workflow_not_found");
}

#[tokio::test]
async fn a_check_reports_problems_and_registers_nothing() {
    let host = Host::new().await;
    let good = chain("checked", &[node("a", "core.noop", json!({}))]);
    let found = host.post("/v1/workflows:check", &good).await.json();
    assert_eq!(
        (&found["valid"], &found["problems"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(found["graph"]["nodes"][0]["id"], "a");
    assert_eq!(
        host.get("/v1/workflows/checked").await.refusal(404),
        "workflow_not_found"
    );
    let mut bad = good;
    bad["edges"] = json!([{ "id": "e", "sourceNodeId": "a", "targetNodeId": "gone" }]);
    let found = host.post("/v1/workflows:check", &bad).await.json();
    assert_eq!(found["valid"], false);
    assert!(found["problems"][0]["line"].is_u64(), "{found}");
    let no_json = Request::new("POST", "/v1/workflows:check").key(&host.key);
    let no_json = no_json.body("application/json", b"{".to_vec());
    let refused = no_json.send(host.address).await;
    assert_eq!(refused.refusal(400), "validation_error");
}

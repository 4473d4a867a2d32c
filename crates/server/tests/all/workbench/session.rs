//! Sessions of browsers: a cookie, and the origin of a write.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::digest::Digest;
use runtime::access::AuthOptions;
use runtime::outbound::Outbound;
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use super::{Caller, ID, code, document, noted};
use crate::client::{Conn, Request};
use crate::host::{Host, Models};

/// An invalid token: three parts that no issuer signed.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.e30.c2ln";

#[tokio::test]
async fn a_cookie_acts_as_its_credential_and_writes_need_an_origin() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    let path = format!("/api/runs/{ID}");
    let cookie = |method: &str, value: &str| {
        Request::new(method, &path).header("cookie", &format!("a=b; __session={value}; c=d"))
    };
    // A key is not a session, and neither is an unsigned token.
    for value in [host.key.as_str(), TOKEN, ""] {
        let answer = caller.send(cookie("GET", value)).await;
        assert_eq!(answer.status, 401, "{value}");
        assert_eq!(answer.json()["error"], "Unauthorized");
    }
    for origin in [None, Some("http://evil.example"), Some("null")] {
        let request = cookie("PUT", TOKEN).json(&document(ID));
        let request = match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        };
        assert_eq!(code(&caller.send(request).await, 403), "ORIGIN_NOT_ALLOWED");
    }
    let ours = cookie("PUT", TOKEN)
        .header("origin", "http://localhost")
        .json(&document(ID));
    assert_eq!(caller.send(ours).await.status, 401);
    // A credential in its own header needs no origin, and has precedence over a cookie.
    let request = cookie("PUT", TOKEN)
        .key(&host.key)
        .header("origin", "http://evil.example");
    assert_eq!(caller.send(request.json(&document(ID))).await.status, 204);
}

/// The secret shared by a sign-in service and this server.
pub(crate) const SECRET: &[u8; 32] = b"a secret of these tests, 32 long";
/// The page that sessions are made for, served from elsewhere.
const PAGE: &str = "https://app.example.org";

/// A session as a sign-in service issues it: no audience, no scopes.
pub(crate) fn session(more: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut claims = json!({
        "iss": "https://sign-in.example", "azp": PAGE, "sub": "user_1",
        "exp": now.as_secs() + 300,
    });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let b64 = |text: &[u8]| URL_SAFE_NO_PAD.encode(text);
    let head = b64(br#"{"alg":"HS256","typ":"JWT"}"#);
    let message = format!("{head}.{}", b64(claims.to_string().as_bytes()));
    // HMAC of RFC 2104.
    let padded = |pad: u8| {
        let mut block = [pad; 64];
        block
            .iter_mut()
            .zip(SECRET)
            .for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Digest::compute(&[&padded(0x36)[..], message.as_bytes()].concat());
    let signature = Digest::compute(&[&padded(0x5c)[..], &inner.0].concat());
    format!("{message}.{}", b64(&signature.0))
}

/// A server that accepts such sessions from that page.
async fn host() -> Host {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let text = "[jwt]\nissuer='https://sign-in.example'\nalgorithm='HS256'\nsecret='file:secret'\n\
                authorized_parties=['https://app.example.org']\n\
                grant=['runs:read','runs:create','runs:cancel']\n\
                [jwt.claims]\ntenant=['org_id','user:{sub}']\n";
    let auth = AuthOptions::parse(text, Path::new(folder.path()), Outbound::default());
    let models = Models {
        auth: auth.unwrap_or_else(|why| panic!("{why}")),
        ..Models::default()
    };
    let limits = Limits {
        origins: vec![PAGE.to_owned()],
        ..Limits::default()
    };
    Host::with_models(limits, Reach::Public, models).await
}

#[tokio::test]
async fn a_signed_session_lists_reads_saves_and_deletes_tenant_runs() {
    let host = host().await;
    let path = format!("/api/runs/{ID}");
    let (alone, member) = (session(&json!({})), session(&json!({ "org_id": "org_1" })));
    let ask =
        async |method: &str, path: &str, token: &str, origin: Option<&str>, body: Option<Value>| {
            let mut request =
                Request::new(method, path).header("cookie", &format!("__session={token}"));
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            if let Some(body) = &body {
                request = request.json(body);
            }
            request.send(host.address).await
        };
    for (token, note) in [(&alone, "alone"), (&member, "member")] {
        let body = noted(document(ID), note);
        let saved = ask("PUT", &path, token, Some(PAGE), Some(body.clone())).await;
        assert_eq!(saved.status, 204);
        // A page of this server itself needs no permission.
        let own = ask(
            "PUT",
            &path,
            token,
            Some("http://localhost"),
            Some(body.clone()),
        )
        .await;
        assert_eq!(own.status, 204);
        // Reading changes nothing: it needs no origin.
        assert_eq!(ask("GET", &path, token, None, None).await.json(), body);
        let listed = ask("GET", "/api/runs", token, None, None).await.json();
        assert_eq!(listed.as_array().unwrap().len(), 1);
        for origin in [None, Some("https://evil.example"), Some("null")] {
            for (method, body) in [("PUT", Some(body.clone())), ("DELETE", None)] {
                let refused = ask(method, &path, token, origin, body).await;
                assert_eq!(code(&refused, 403), "ORIGIN_NOT_ALLOWED");
            }
        }
    }
    // A person who signs in for an organisation is in another tenant than alone.
    assert_eq!(
        ask("DELETE", &path, &member, Some(PAGE), None).await.status,
        204
    );
    assert_eq!(ask("GET", &path, &member, None, None).await.status, 404);
    assert_eq!(ask("GET", &path, &alone, None, None).await.status, 200);
    // Neither decided by a session without the scope, nor opened by an invalid one.
    let decision = json!({ "stepId": "two", "gate": "PAUSE_AFTER", "decision": "approved" });
    let gates = format!("{path}/gates");
    let refused = ask("POST", &gates, &alone, Some(PAGE), Some(decision)).await;
    assert_eq!(refused.status, 403);
    for bad in [
        session(&json!({ "azp": "https://evil.example" })),
        session(&json!({ "exp": 1 })),
        format!("{alone}x"),
    ] {
        assert_eq!(ask("GET", &path, &bad, None, None).await.status, 401);
    }
}

#[tokio::test]
async fn only_pages_of_allowed_origins_may_read_answers() {
    let host = host().await;
    let path = format!("/api/runs/{ID}");
    let preflight = async |origin: &str| {
        let request = Request::new("OPTIONS", &path).header("origin", origin);
        let request = request.header("access-control-request-method", "PUT");
        request.send(host.address).await
    };
    // A body is read, or the response announces the end of the connection.
    let with_body = |bytes: usize| {
        let request = Request::new("OPTIONS", &path).header("origin", PAGE);
        let request = request.header("access-control-request-method", "PUT");
        request.body("text/plain", vec![b'x'; bytes]).bytes()
    };
    let mut conn = Conn::to(host.address).await;
    for (bytes, ends) in [(10, None), (3_000_000, Some("close"))] {
        conn.send(&with_body(bytes)).await;
        let answer = conn.answer().await.expect("an answer");
        assert_eq!((answer.status, answer.header("connection")), (204, ends));
    }
    let allowed = preflight(PAGE).await;
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), Some(PAGE));
    assert_eq!(
        allowed.header("access-control-allow-credentials"),
        Some("true")
    );
    assert!(
        allowed
            .header("access-control-allow-methods")
            .unwrap()
            .contains("PUT")
    );
    let headers = allowed.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("authorization") && headers.contains("content-type"));
    let refused = preflight("https://evil.example").await;
    assert_eq!(
        (
            refused.status,
            refused.header("access-control-allow-origin")
        ),
        (403, None)
    );
    // That page can read error responses, too, and no other origin can.
    for (path, origin, status, told) in [
        (path.as_str(), PAGE, 401, Some(PAGE)),
        (path.as_str(), "https://evil.example", 403, None),
        ("/v1/runs", PAGE, 401, Some(PAGE)),
        ("/v1/runs", "https://evil.example", 403, None),
    ] {
        let answer = Request::new("GET", path).header("origin", origin);
        let answer = answer.send(host.address).await;
        assert_eq!(
            (answer.status, answer.header("access-control-allow-origin")),
            (status, told)
        );
        assert_eq!(answer.header("vary"), Some("origin"));
    }
}

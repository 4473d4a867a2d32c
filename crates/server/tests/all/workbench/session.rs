//! Sessions of browsers: a cookie, and where a write comes from.

use super::{Caller, ID, code, document};
use crate::client::Request;
use crate::host::Host;

/// No token: three parts that no issuer signed.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.e30.c2ln";

#[tokio::test]
async fn a_cookie_counts_as_the_credential_it_holds_and_writes_need_an_origin() {
    let host = Host::new().await;
    let caller = Caller::of(&host);
    caller.saved(&document(ID)).await;
    let path = format!("/api/runs/{ID}");
    let cookie = |method: &str, value: &str| {
        Request::new(method, &path).header("cookie", &format!("a=b; __session={value}; c=d"))
    };
    // A key is no session; a token that nobody signed is none either.
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
    // A credential in its own header needs no origin, and wins over a cookie.
    let request = cookie("PUT", TOKEN)
        .key(&host.key)
        .header("origin", "http://evil.example");
    assert_eq!(caller.send(request.json(&document(ID))).await.status, 204);
}

//! Hosts and web pages that a server with keys accepts, with and without a key.

use serde_json::json;
use server::Limits;

use crate::client::{Answer, Request};
use crate::host::Host;

const FOREIGN: &str = "evil.example";
const NAME: &str = "runs.example.org";
const PAGE: &str = "https://app.example.org";

/// A request for a host of this name.
fn of(method: &str, path: &str, host: &str) -> Request {
    Request::for_host(method, path, host)
}

async fn host() -> Host {
    let limits = Limits {
        origins: vec![PAGE.to_owned()],
        hosts: vec![NAME.to_owned()],
        ..Limits::default()
    };
    Host::with(limits).await
}

#[tokio::test]
async fn a_key_is_good_for_any_host_and_page() {
    let host = host().await;
    for path in ["/v1/runs", "/api/runs", "/.well-known/openwop", "/metrics"] {
        for name in [FOREIGN, NAME, "localhost"] {
            let request = of("GET", path, name)
                .key(&host.key)
                .header("origin", "https://evil.example")
                .header("sec-fetch-site", "cross-site");
            let answer = request.send(host.address).await;
            assert_eq!(answer.status, 200, "{path} of {name}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    let order = json!({ "workflowId": "three" });
    let created = of("POST", "/v1/runs", FOREIGN).key(&host.key).json(&order);
    assert_eq!(created.send(host.address).await.status, 201);
    let nowhere = of("GET", "/v1/nowhere", FOREIGN).key(&host.key);
    assert_eq!(nowhere.send(host.address).await.refusal(404), "not_found");
}

#[tokio::test]
async fn a_bad_key_opens_nothing_to_a_foreign_host() {
    let host = host().await;
    let version_1 = ("invalid_token", "host_not_allowed");
    for (path, (bad_key, foreign)) in [
        ("/v1/runs", version_1),
        ("/.well-known/openwop", version_1),
        ("/metrics", version_1),
        ("/healthz", version_1),
        // An address without a version is answered as OpenWOP 2.
        ("/x", ("unauthenticated", "forbidden")),
    ] {
        let send = async |request: Request| request.send(host.address).await;
        let with_bad_key = of("GET", path, FOREIGN).key("rw_acme_0_x");
        assert_eq!(send(with_bad_key).await.refusal(401), bad_key, "{path}");
        let cookie = of("GET", path, FOREIGN).header("cookie", "__session=a.b.c");
        assert_eq!(send(cookie).await.refusal(403), foreign, "{path}");
        let bare = send(of("GET", path, FOREIGN)).await;
        assert_eq!(bare.refusal(403), foreign, "{path}");
        for name in [NAME, "localhost", "127.0.0.1:1", "[::1]"] {
            let answer: Answer = send(of("GET", path, name)).await;
            assert_ne!(answer.status, 403, "{path} of {name}");
        }
    }
}

#[tokio::test]
async fn pages_of_allowed_origins_call_every_face() {
    let host = host().await;
    let order = json!({ "workflowId": "three" });
    for path in ["/v1/runs", "/api/runs", "/v1/webhooks/wh_1"] {
        // Also with a proxy's host name: the response is public.
        let preflight = of("OPTIONS", path, FOREIGN)
            .header("origin", PAGE)
            .header("access-control-request-method", "DELETE")
            .header("access-control-request-headers", "authorization");
        let answer = preflight.send(host.address).await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE));
        let headers = answer.header("access-control-allow-headers").unwrap();
        for name in [
            "authorization",
            "content-type",
            "idempotency-key",
            "last-event-id",
            "openwop-force-engine-version",
        ] {
            assert!(headers.contains(name), "{headers}");
        }
    }
    let created = of("POST", "/v1/runs", NAME)
        .key(&host.key)
        .header("origin", PAGE)
        .header("sec-fetch-site", "cross-site");
    let answer = created.json(&order).send(host.address).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE));
    let exposed = answer.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("retry-after") && exposed.contains("x-request-id"));
    // No other origin is allowed, and no wildcard is sent.
    for origin in [
        "https://evil.example",
        "http://app.example.org",
        "null",
        "*",
    ] {
        let preflight = of("OPTIONS", "/v1/runs", NAME)
            .header("origin", origin)
            .header("access-control-request-method", "POST");
        let answer = preflight.send(host.address).await;
        assert_eq!(answer.refusal(403), "origin_not_allowed");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

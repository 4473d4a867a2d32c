//! Every route without a credential, as another tenant, and without the scope.

use std::collections::BTreeSet;

use runtime::access::{Scope, Scopes};
use serde_json::json;
use server::route::{Access, Route};

use crate::client::Request;
use crate::host::Host;
use crate::v2::is_v2;

/// How to call a route for a run, and the response to another tenant. A route that is missing here
/// fails the tests below.
fn call(route: &Route, run: &str, token: &str) -> (Request, u16) {
    let path = route.path.replace("{runId}", run);
    let path = path
        .replace("{nodeId}", "signoff")
        .replace("{token}", token);
    // Version 2 has the same rules at addresses without a version.
    let table = if is_v2(route.path) {
        format!("/v1{}", route.path)
    } else {
        route.path.to_owned()
    };
    let (path, body, other_tenant) = match (route.method.as_str(), table.as_str()) {
        ("GET", "/v1/audit/verify") if is_v2(route.path) => {
            (format!("{path}?fromSeq=0&toSeq=0"), None, 200)
        }
        ("POST", "/v1/webhooks") if is_v2(route.path) => {
            let body = json!({ "url": "https://1.1.1.1/", "events": ["run.completed"] });
            (path, Some(body), 201)
        }
        ("GET", "/v1/webhooks/{webhookId}/dead-letters") => {
            (path.replace("{webhookId}", "wh_none"), None, 404)
        }
        // Says nothing of any tenant.
        ("GET", "/v1/host/effect-seams") => (path, None, 200),
        ("GET", "/.well-known/openwop" | "/v1/openapi.json") => (path, None, 200),
        ("GET", "/healthz" | "/readyz" | "/metrics") => (path, None, 200),
        // Shared with every tenant.
        ("GET", "/v1/workflows/{workflowId}") => (path.replace("{workflowId}", "three"), None, 200),
        ("GET", "/v1/workflows") => (path, None, 200),
        ("GET", "/v1/workflows/{workflowId}/graph") => {
            (path.replace("{workflowId}", "three"), None, 200)
        }
        ("POST", "/v1/workflows:check") => (path, Some(crate::host::chain("mine", &[])), 200),
        ("GET", "/v1/runs/{runId}/graph" | "/v1/runs/{runId}/workflow") => (path, None, 404),
        ("POST", "/v1/workflows") => (path, Some(crate::host::chain("mine", &[])), 400),
        ("PUT", "/v1/workflows/{workflowId}") => {
            let path = path.replace("{workflowId}", "mine");
            (path, Some(crate::host::chain("mine", &[])), 400)
        }
        ("POST", "/v1/runs") => {
            let body = json!({ "workflowId": "three", "tenantId": "acme" });
            (path, Some(body), 403)
        }
        ("GET", "/v1/runs" | "/v1/runs:count" | "/v1/costs") => (path, None, 200),
        ("DELETE", "/v1/runs/{runId}") => (path, None, 404),
        ("POST", "/v1/runs/{runId}:signal") => (path, Some(json!({ "name": "go" })), 404),
        ("GET", "/v1/runs/{runId}") => (path, None, 404),
        ("GET", "/v1/runs/{runId}/events" | "/v1/runs/{runId}/events/poll") => (path, None, 404),
        ("POST", "/v1/runs/{runId}/cancel" | "/v1/runs/{runId}:cancel") => {
            (path, Some(json!({})), 404)
        }
        ("POST", "/v1/runs/{runId}:fork") => (path, Some(json!({ "mode": "replay" })), 404),
        ("GET", "/v1/runs/{runId}:diff") => (format!("{path}?against={run}"), None, 404),
        ("GET", "/v1/runs/{runId}/ancestry") => (path, None, 404),
        ("POST", "/v1/webhooks") => {
            let body = json!({
                "url": "https://1.1.1.1/", "events": ["run.completed"],
                "tenantId": "acme", "scopeId": "red",
            });
            (path, Some(body), 403)
        }
        // Each tenant has a trail of its own.
        ("GET", "/v1/audit" | "/v1/audit/verify" | "/v1/keys") => (path, None, 200),
        ("POST", "/v1/keys") => (path, Some(json!({ "scopes": ["keys:manage"] })), 201),
        ("DELETE", "/v1/keys/{keyId}") => (path.replace("{keyId}", "0123456789abcdef"), None, 404),
        ("GET", "/v1/webhooks") => (path, None, 200),
        ("GET" | "DELETE", "/v1/webhooks/{webhookId}") => {
            (path.replace("{webhookId}", "wh_none"), None, 404)
        }
        ("POST", "/v1/webhooks/{webhookId}/rotate-secret") => {
            let body = json!({ "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" });
            (path.replace("{webhookId}", "wh_none"), Some(body), 404)
        }
        ("POST", "/v1/runs/{runId}:pause" | "/v1/runs/{runId}:resume") => (path, None, 404),
        // Each run has a result of its own.
        ("POST", "/v1/runs:bulk-cancel") => (path, Some(json!({ "runIds": ["run-0"] })), 200),
        ("GET", "/v1/interrupts") => (path, None, 200),
        ("GET", "/v1/runs/{runId}/interrupts") => (path, None, 404),
        ("POST", "/v1/runs/{runId}/interrupts/{nodeId}") => {
            let ask = json!({ "action": "ask" });
            (path, Some(json!({ "resumeValue": ask })), 404)
        }
        ("POST", "/v1/runs/{runId}/interrupts/{nodeId}/tokens") => (path, None, 404),
        ("POST", "/v1/runs/{runId}/tokens") => (path, Some(json!({})), 404),
        // The token is the credential.
        ("GET", "/v1/interrupts/{token}") => (path, None, 200),
        ("POST", "/v1/interrupts/{token}") => {
            let ask = json!({ "action": "ask" });
            (path, Some(json!({ "resumeValue": ask })), 200)
        }
        // Needs the token that the server was started with, and this one has none.
        ("POST", "/v1/test/runs/{runId}/expire") => (path, None, 403),
        (
            "GET",
            "/v1/runs/{runId}/artifacts"
            | "/v1/runs/{runId}/debug-bundle"
            | "/v1/runs/{runId}/effects",
        ) => (path, None, 404),
        ("GET", "/v1/runs/{runId}/artifacts/{artifactId}") => {
            (path.replace("{artifactId}", "none"), None, 404)
        }
        ("GET", "/v1/runs/{runId}/annotations") => (path, None, 404),
        ("POST", "/v1/runs/{runId}/annotations") => {
            (path, Some(json!({ "signal": { "kind": "flag" } })), 404)
        }
        ("POST", "/v1/snapshots") => (path, Some(json!({ "runId": run })), 404),
        // Lists the caller's own.
        ("GET", "/v1/snapshots") => (path, None, 200),
        ("POST", "/v1/snapshots:prune") => (path, Some(json!({})), 200),
        ("POST", "/v1/snapshots:import") => (path, Some(json!({ "snapshot": {} })), 422),
        ("PUT" | "DELETE", "/v1/snapshots/{snapshotId}/pin") => {
            (path.replace("{snapshotId}", "none"), None, 404)
        }
        ("GET", path) if path.starts_with("/v1/snapshots/{snapshotId}") => {
            (path.replace("{snapshotId}", "none"), None, 404)
        }
        // Each tenant has queues of its own.
        ("GET", "/v1/coordinator") => (path, None, 200),
        ("GET", path) if path.starts_with("/v1/coordinator/") => (queue_path(path), None, 200),
        ("POST", "/v1/coordinator/{queue}/commands") => {
            let body = json!({ "command": "CaptureSnapshot" });
            (queue_path(route.path), Some(body), 200)
        }
        ("POST", "/v1/coordinator/{queue}/take") => {
            (queue_path(route.path), Some(json!({ "worker": "w" })), 200)
        }
        ("POST", "/v1/coordinator/{queue}/release") => {
            let body = json!({ "worker": "w", "key": "k" });
            (queue_path(route.path), Some(body), 200)
        }
        // Each assignment has a result of its own.
        ("POST", "/v1/coordinator/{queue}/begin" | "/v1/coordinator/{queue}/settle") => {
            let one = json!({ "assignment_id": "a-1", "fence": 1, "outputs": {} });
            (
                queue_path(route.path),
                Some(json!({ "assignments": [one] })),
                200,
            )
        }
        ("POST", path) if path.starts_with("/v1/coordinator/") => (
            queue_path(path),
            Some(json!({ "fence": 1, "outputs": {},
                "stream": "stdout", "chunk": "", "error": { "code": "x", "message": "" } })),
            404,
        ),
        ("GET", "/api/openapi.json" | "/api/health") => (path, None, 200),
        ("GET", "/api/runs" | "/api/gates" | "/api/costs") => (path, None, 200),
        ("GET", "/api/runs/{runId}/children") => (workbench_path(route), None, 200),
        // The caller's own objects are saved and deleted.
        ("PUT", "/api/runs/{runId}") => {
            let document = crate::workbench::document(crate::workbench::ID);
            (workbench_path(route), Some(document), 204)
        }
        ("DELETE", "/api/runs/{runId}") => (workbench_path(route), None, 204),
        ("GET", path) if path.starts_with("/api/runs/{runId}") => {
            (workbench_path(route), None, 404)
        }
        ("POST", "/api/runs/{runId}/gates") => {
            let body = json!({ "stepId": "one", "gate": "PAUSE_AFTER", "decision": "approved" });
            (workbench_path(route), Some(body), 404)
        }
        ("POST", "/api/runs/{runId}/cancel" | "/api/runs/{runId}/fork") => {
            (workbench_path(route), Some(json!({})), 404)
        }
        ("POST", "/api/bundles" | "/api/bundles/verify") => (path, Some(json!({})), 400),
        (method, path) => panic!("say here who may call {method} {path}, and what others see"),
    };
    let mut request = Request::new(route.method.as_str(), &path);
    if is_v2(route.path) {
        request = request.header("openwop-version", "2");
    }
    match body {
        Some(body) => (request.json(&body), other_tenant),
        None => (request, other_tenant),
    }
}

/// All routes but those of the console: its files are public, and its session is tested by itself.
/// The stream of changes never ends and is tested by itself, too.
fn routes() -> Vec<Route> {
    let mut routes = server::routes::all();
    let by_itself = |path: &str| path.starts_with("/console") || path == "/v1/runs:changes";
    routes.retain(|route| !by_itself(route.path));
    routes
}

fn queue_path(path: &str) -> String {
    path.replace("{queue}", "q")
        .replace("{assignmentId}", "a-1")
}

fn workbench_path(route: &Route) -> String {
    route.path.replace("{runId}", crate::workbench::ID)
}

/// The code of an error, in the format of the route's face, and the scope it asks for.
fn refused(route: &Route, answer: &crate::client::Answer, status: u16) -> (String, String) {
    let body = answer.json();
    if is_v2(route.path) {
        let scope = body["details"]["scopeRequired"].as_str();
        let code = answer.refusal(status);
        return match scope {
            Some(scope) if code == "forbidden" => ("insufficient_scope".into(), scope.to_owned()),
            _ => (code, String::new()),
        };
    }
    if !route.path.starts_with("/api/") {
        let scope = &body["details"]["requiredScope"];
        let scope = scope.as_str().unwrap_or_default().to_owned();
        return (answer.refusal(status), scope);
    }
    assert_eq!(answer.status, status, "{body}");
    assert!(!body["error"].as_str().unwrap().is_empty());
    let scope = body["requiredScope"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (body["code"].as_str().unwrap().to_lowercase(), scope)
}

/// The scopes that a route needs in addition to that of its table.
fn more_scopes(route: &Route) -> Vec<Scope> {
    if route.path == "/v1/snapshots" && route.method == "POST" {
        return vec![Scope::RunsRead];
    }
    match route.path {
        "/v1/runs/{runId}:fork" | "/runs/{runId}:fork" | "/api/runs/{runId}/fork" => {
            vec![Scope::RunsRead]
        }
        "/v1/runs/{runId}/workflow" => vec![Scope::ManifestRead],
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn every_route_rejects_anonymous_and_unscoped_callers() {
    let host = Host::new().await;
    host.add(&crate::gates::signoff(
        &json!({ "actions": ["accept", "ask"] }),
    ))
    .await;
    for route in routes() {
        // Streams end with their run, and questions are open before it ends.
        let run = if route.path.contains("interrupts") {
            host.waiting(&json!({ "workflowId": "signoff" })).await
        } else {
            host.completed(&json!({ "workflowId": "three" })).await
        };
        let token = if route.path.contains("{token}") {
            host.token(&run).await
        } else {
            String::new()
        };
        let (request, _) = call(&route, &run, &token);
        let Access::May(action) = route.access else {
            let answer = request.send(host.address).await;
            let needs_token = route.path.starts_with("/v1/test/");
            let status = if needs_token { 403 } else { 200 };
            assert_eq!(answer.status, status, "{}", route.path);
            continue;
        };
        let what = format!("{} {}", route.method, route.path);
        let nobody = request.clone().send(host.address).await;
        assert_eq!(refused(&route, &nobody, 401).0, "unauthenticated", "{what}");

        let others = Scope::ALL
            .into_iter()
            .filter(|scope| *scope != action.scope());
        let others = Scopes::Only(others.collect::<BTreeSet<_>>());
        let key = host.key_of("acme", None, others).await;
        let answer = request.clone().key(&key).send(host.address).await;
        let (code, needs) = refused(&route, &answer, 403);
        assert_eq!(code, "insufficient_scope", "{what}");
        assert_eq!(needs, action.scope().as_str(), "{what}");

        let mut enough = BTreeSet::from([action.scope()]);
        for scope in more_scopes(&route) {
            let key = host.key_of("acme", None, Scopes::Only(enough.clone()));
            let answer = request.clone().key(&key.await).send(host.address).await;
            let (code, _) = refused(&route, &answer, 403);
            assert_eq!(code, "insufficient_scope", "{what}");
            enough.insert(scope);
        }
        let key = host.key_of("acme", None, Scopes::Only(enough)).await;
        let answer = request.key(&key).send(host.address).await;
        assert!(
            ![401, 403].contains(&answer.status),
            "{what}: {}",
            answer.status
        );
    }
}

#[tokio::test]
async fn another_tenant_and_another_workspace_see_nothing() {
    let host = Host::new().await;
    host.add(&crate::gates::signoff(
        &json!({ "actions": ["accept", "ask"] }),
    ))
    .await;
    let order = json!({ "workflowId": "signoff", "scopeId": "red" });
    let run = host.waiting(&order).await;
    let token = host.token(&run).await;
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let neighbour = host.key_of("acme", Some("blue"), Scopes::Everything).await;
    let member = host.key_of("acme", Some("red"), Scopes::Everything).await;
    for route in routes() {
        let (request, expected) = call(&route, &run, &token);
        let is_by_token = route.path.contains("{token}");
        for key in [&stranger, &neighbour] {
            let answer = request.clone().key(key).send(host.address).await;
            let is_own_tenant = key == &neighbour
                && [
                    "/v1/runs",
                    "/v1/interrupts",
                    "/v1/audit",
                    "/v1/audit/verify",
                    "/runs",
                    "/audit/verify",
                ]
                .contains(&route.path);
            // A queue belongs to the whole tenant.
            let is_walled = key == &neighbour && route.path.starts_with("/v1/coordinator");
            if is_walled {
                assert_eq!(answer.status, 404, "{} {}", route.method, route.path);
            } else if !is_own_tenant {
                assert_eq!(answer.status, expected, "{} {}", route.method, route.path);
            }
            let text = String::from_utf8_lossy(&answer.body);
            assert!(
                is_by_token || !text.contains(&run),
                "{}: {text}",
                route.path
            );
        }
    }
    let answer = Request::new("GET", &format!("/v1/runs/{run}")).key(&member);
    let answer = answer.send(host.address).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["owner"]["workspace"], "red");
}

#[tokio::test]
async fn credentials_that_open_nothing_say_so_and_are_not_repeated() {
    let host = Host::new().await;
    let canary = "canary-0123456789";
    for (value, code) in [
        (format!("Bearer {canary}"), "invalid_token"),
        (format!("Bearer rw_{canary}"), "invalid_token"),
        (format!("Bearer {}x", host.key), "invalid_token"),
        (format!("Bearer eyJ{canary}.e30.x"), "invalid_token"),
        (format!("Basic {canary}"), "unauthenticated"),
        ("Bearer".to_owned(), "unauthenticated"),
        ("Bearer ".to_owned(), "unauthenticated"),
    ] {
        let request = Request::new("GET", "/v1/runs").header("authorization", &value);
        let answer = request.send(host.address).await;
        let told = answer.refusal(401);
        assert!(told == code || told == "invalid_token", "{value}: {told}");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!text.contains(canary), "{text}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let twice = Request::new("GET", "/v1/runs")
        .key(&host.key)
        .key(&host.key);
    assert_eq!(twice.send(host.address).await.refusal(401), "invalid_token");
}

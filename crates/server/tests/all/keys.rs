//! Keys and the entries of the audit trail over HTTP.

use runtime::access::{Scope, Scopes};
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::host::Host;

async fn create(host: &Host, key: &str, body: Value) -> Answer {
    let request = Request::new("POST", "/v1/keys").key(key).json(&body);
    request.send(host.address).await
}

#[tokio::test]
async fn a_created_key_works_until_it_is_revoked() {
    let host = Host::new().await;
    let body = json!({ "scopes": ["runs:read"], "name": "reader", "expiresInMs": 60_000 });
    let made = create(&host, &host.key, body).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let (id, token) = (made.json()["keyId"].clone(), made.json()["token"].clone());
    let (id, token) = (
        id.as_str().expect("an id"),
        token.as_str().expect("a token"),
    );
    let runs = || {
        Request::new("GET", "/v1/runs")
            .key(token)
            .send(host.address)
    };
    assert_eq!(runs().await.status, 200);
    let listed = host.get("/v1/keys").await.json();
    let shown = &listed["keys"][0];
    assert_eq!(
        (&shown["keyId"], &shown["name"]),
        (&json!(id), &json!("reader"))
    );
    assert_eq!(
        (&shown["status"], &shown["scopes"]),
        (&json!("live"), &json!(["runs:read"]))
    );
    assert!(
        !listed.to_string().contains(token),
        "the token is shown once"
    );

    let path = format!("/v1/keys/{id}?reason=left");
    let revoke = || {
        Request::new("DELETE", &path)
            .key(&host.key)
            .send(host.address)
    };
    assert_eq!(revoke().await.status, 204);
    assert_eq!(revoke().await.status, 204, "again changes nothing");
    let shown = host.get("/v1/keys").await.json()["keys"][0].clone();
    assert_eq!(
        (&shown["status"], &shown["revokeReason"]),
        (&json!("revoked"), &json!("left"))
    );
}

#[tokio::test]
async fn a_key_passes_on_its_own_scopes_and_workspace_only() {
    let host = Host::new().await;
    let scopes = Scopes::Only([Scope::KeysManage, Scope::RunsRead].into());
    let red = host.key_of("acme", Some("red"), scopes).await;
    for scopes in [json!(["*"]), json!(["runs:create"])] {
        let refused = create(&host, &red, json!({ "scopes": scopes })).await;
        assert_eq!(refused.refusal(403), "insufficient_scope");
    }
    let blue = json!({ "scopes": ["runs:read"], "workspace": "blue" });
    assert_eq!(create(&host, &red, blue).await.status, 403);
    let made = create(&host, &red, json!({ "scopes": ["runs:read"] })).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let all = host.get("/v1/keys").await.json();
    assert_eq!(all["keys"][0]["workspace"], "red");
    let seen = Request::new("GET", "/v1/keys").key(&red);
    let seen = seen.send(host.address).await.json();
    let keys = seen["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 2, "those of the workspace: {seen}");
}

#[tokio::test]
async fn wrong_orders_for_keys_are_rejected() {
    let host = Host::new().await;
    for body in [
        json!({}),
        json!({ "scopes": [] }),
        json!({ "scopes": ["runs:fly"] }),
        json!({ "scopes": ["*"], "name": "" }),
        json!({ "scopes": ["*"], "expiresInMs": 1 }),
        json!({ "scopes": ["*"], "principal": "root" }),
    ] {
        let refused = create(&host, &host.key, body).await;
        assert_eq!(refused.refusal(400), "validation_error");
    }
    let unknown = Request::new("DELETE", "/v1/keys/nothing").key(&host.key);
    let unknown = unknown.send(host.address).await;
    assert_eq!(unknown.refusal(404), "key_not_found");
}

#[tokio::test]
async fn audit_entries_come_newest_first_in_pages() {
    let host = Host::new().await;
    for _ in 0..3 {
        host.completed(&json!({ "workflowId": "three" })).await;
    }
    let length = host.trail().await.len();
    assert!(length >= 4, "a key and three runs");
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = host.get(&format!("/v1/audit?limit=2{before}")).await.json();
        let entries = page["entries"].as_array().expect("entries");
        assert!(entries.len() <= 2);
        seen.extend(
            entries
                .iter()
                .map(|entry| entry["sequence"].as_u64().expect("a number")),
        );
        match page["nextBefore"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert!(seen.len() >= length);
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
    let newest = host.get("/v1/audit?limit=1").await.json();
    let entry = &newest["entries"][0];
    assert_eq!(entry["action"], "run.created", "{newest}");
    assert_eq!(entry["by"]["principal"], "somebody");
}

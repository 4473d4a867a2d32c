//! Two tenants, and two workspaces of one, that choose the same ids.

use runtime::access::Scopes;
use serde_json::json;

use super::{Caller, ID, document, noted, reviewed};
use crate::host::Host;

#[tokio::test]
async fn the_same_id_is_another_run_in_each_tenant_and_workspace() {
    let host = Host::new().await;
    let mut callers = vec![Caller::new(&host)];
    for (tenant, workspace) in [
        ("umbrella", None),
        ("acme", Some("red")),
        ("acme", Some("blue")),
    ] {
        let key = host.key_of(tenant, workspace, Scopes::Everything).await;
        callers.push(Caller { host: &host, key });
    }
    let theirs = |n: usize| noted(reviewed(ID), &format!("of caller {n}"));
    for (n, caller) in callers.iter().enumerate() {
        assert_eq!(caller.get(&format!("/api/runs/{ID}")).await.status, 404);
        assert!(caller.list("").await.is_empty());
        caller.saved(&theirs(n)).await;
    }
    let child = |n: usize| {
        let mut child = document(&format!("run_child{n}"));
        child["run"]["context"] = json!({ "parentRunId": ID });
        child
    };
    for (n, caller) in callers.iter().enumerate() {
        caller.saved(&child(n)).await;
        assert_eq!(caller.list("").await.len(), 2);
        assert_eq!(caller.read(ID).await, theirs(n));
        let gates = caller.get("/api/gates").await.json();
        assert_eq!(gates["gates"].as_array().unwrap().len(), 1);
        let children = caller.get(&format!("/api/runs/{ID}/children")).await.json();
        assert_eq!(children["children"][0]["id"], format!("run_child{n}"));
        assert_eq!(children["children"].as_array().unwrap().len(), 1);
        assert_eq!(caller.get("/api/costs").await.json()["runs"], 2);
    }
    // An action on one's own run affects no other.
    let decision = json!({ "stepId": "two", "gate": "PAUSE_AFTER", "decision": "approved" });
    let answer = callers[1]
        .post(&format!("/api/runs/{ID}/gates"), &decision)
        .await;
    assert_eq!(answer.status, 200);
    let request = callers[2].request("DELETE", &format!("/api/runs/{ID}"));
    assert_eq!(callers[2].send(request).await.status, 204);
    let cancelled = callers[3]
        .post(&format!("/api/runs/{ID}/cancel"), &json!({}))
        .await
        .json();
    assert_eq!(cancelled["cancelled"], json!([ID, "run_child3"]));
    assert_eq!(callers[0].read(ID).await, theirs(0));
    assert_eq!(callers[0].list("?status=running").await.len(), 2);
    assert_eq!(callers[2].get(&format!("/api/runs/{ID}")).await.status, 404);

    // Another's run is not found under its own name either.
    let own = callers[0].get(&format!("/v1/runs/{ID}")).await.json();
    let stream = own["runId"].as_str().unwrap().to_owned();
    for stranger in &callers[1..] {
        for path in ["", "/events/poll?timeout=1"] {
            let answer = stranger.get(&format!("/v1/runs/{stream}{path}")).await;
            assert_eq!(answer.status, 404, "{path}");
        }
    }
}

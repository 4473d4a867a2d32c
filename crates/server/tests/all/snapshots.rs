//! Evidence of runs over HTTP.

use runtime::access::Scopes;
use serde_json::{Value, json};

use crate::client::Request;
use crate::host::Host;
use crate::workbench::{Caller, ID, reviewed, with_event};

#[tokio::test]
async fn a_run_becomes_a_snapshot_and_each_leads_to_the_other() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let made = host
        .post("/v1/snapshots", &json!({ "runId": run, "name": "first" }))
        .await;
    assert_eq!(made.status, 201, "{}", made.json());
    let document = made.json();
    let id = document["snapshot_id"].as_str().unwrap().to_owned();
    assert_eq!(document["extensions"]["run_id"], json!(run));
    assert_eq!(document["config"]["model"]["id"], "none");
    assert_eq!(document["extensions"]["run_status"], "succeeded");
    assert_eq!(
        made.header("location"),
        Some(&*format!("/v1/snapshots/{id}"))
    );
    assert_eq!(
        made.header("link"),
        Some(&*format!("</v1/runs/{run}>; rel=\"run\""))
    );
    let from_run = host.get(&format!("/v1/runs/{run}")).await;
    let there = format!("</v1/snapshots?runId={run}>; rel=\"snapshots\"");
    assert_eq!(from_run.header("link"), Some(&*there));
    // The same log is the same snapshot.
    let again = host.post("/v1/snapshots", &json!({ "runId": run })).await;
    assert_eq!((again.status, again.json()), (200, document.clone()));
    let other = host.completed(&json!({ "workflowId": "three" })).await;
    let other = host
        .post("/v1/snapshots", &json!({ "runId": other }))
        .await
        .json();

    let list = host.get(&format!("/v1/snapshots?runId={run}")).await.json();
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(
        list["snapshots"][0]["links"]["run"],
        json!(format!("/v1/runs/{run}"))
    );
    let page = host.get("/v1/snapshots?limit=1").await.json();
    let next = page["next"].as_str().unwrap();
    let rest = host
        .get(&format!("/v1/snapshots?limit=1&after={next}"))
        .await
        .json();
    assert_eq!(
        (rest["snapshots"].as_array().unwrap().len(), &rest["next"]),
        (1, &json!(null))
    );
    let unknown = host.get("/v1/snapshots?after=none").await;
    assert_eq!(unknown.refusal(400), "validation_error");

    assert_eq!(
        host.get(&format!("/v1/snapshots/{id}")).await.json(),
        document
    );
    let verified = host
        .get(&format!("/v1/snapshots/{id}/verification"))
        .await
        .json();
    assert_eq!(
        (&verified["is_valid"], &verified["findings"]),
        (&json!(true), &json!([]))
    );
    let with = other["snapshot_id"].as_str().unwrap();
    let path = format!("/v1/snapshots/{id}/comparison?with={with}");
    let compared = host.get(&path).await.json();
    assert_eq!(
        (&compared["match_status"], &compared["pass"]),
        (&json!("exact_match"), &json!(true))
    );
}

#[tokio::test]
async fn an_invalid_request_gets_the_reason() {
    let host = Host::new().await;
    for body in [
        json!({}),
        json!({ "runId": 7 }),
        json!({ "runId": "r", "more": 1 }),
    ] {
        let answer = host.post("/v1/snapshots", &body).await;
        assert_eq!(answer.refusal(400), "validation_error", "{body}");
    }
    let none = host
        .post("/v1/snapshots", &json!({ "runId": "run-none" }))
        .await;
    assert_eq!(none.refusal(404), "run_not_found");
    for path in [
        "/v1/snapshots/none",
        "/v1/snapshots/..%2f..",
        "/v1/snapshots/none/verification",
    ] {
        assert_eq!(
            host.get(path).await.refusal(404),
            "snapshot_not_found",
            "{path}"
        );
    }
}

#[tokio::test]
async fn snapshots_are_separated_by_tenant_and_workspace() {
    let host = Host::new().await;
    let order = json!({ "workflowId": "three", "scopeId": "red" });
    let run = host.completed(&order).await;
    let made = host
        .post("/v1/snapshots", &json!({ "runId": run }))
        .await
        .json();
    let id = made["snapshot_id"].as_str().unwrap();
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let neighbour = host.key_of("acme", Some("blue"), Scopes::Everything).await;
    let member = host.key_of("acme", Some("red"), Scopes::Everything).await;
    for (key, status, count) in [(&stranger, 404, 0), (&neighbour, 404, 0), (&member, 200, 1)] {
        let get = |path: &str| Request::new("GET", path).key(key).send(host.address);
        assert_eq!(get(&format!("/v1/snapshots/{id}")).await.status, status);
        assert_eq!(
            get(&format!("/v1/snapshots/{id}/verification"))
                .await
                .status,
            status
        );
        let list = get("/v1/snapshots").await.json();
        assert_eq!(list["snapshots"].as_array().unwrap().len(), count);
        let post = Request::new("POST", "/v1/snapshots")
            .key(key)
            .json(&json!({ "runId": run }));
        assert_eq!(post.send(host.address).await.status, status);
    }
}

/// Another author's snapshot, as a bundle.
fn foreign(id: &str, captured: &str, workspace: Option<&str>) -> Value {
    let mut snapshot = json!({
        "snapshot_id": id, "workflow_id": "theirs", "version": "1.0", "captured_at": captured,
        "config": { "model": { "id": "m" }, "execution_mode": "default" },
        "inputs": {}, "outputs": { "response": id },
    });
    if let Some(workspace) = workspace {
        snapshot["extensions"] = json!({ "workspace": workspace });
    }
    json!({ "snapshot": snapshot })
}

fn ids(list: &Value) -> Vec<&str> {
    let list = list["snapshots"].as_array().unwrap().iter();
    let mut ids: Vec<&str> = list
        .map(|entry| entry["snapshot_id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn expired_snapshots_go_unless_pinned_or_foreign() {
    let host = Host::new().await;
    let old = "2020-01-01T00:00:00Z";
    for (id, workspace) in [("old", None), ("pinned", None), ("red", Some("red"))] {
        let made = host
            .post("/v1/snapshots:import", &foreign(id, old, workspace))
            .await;
        assert_eq!(made.status, 201, "{}", made.json());
        assert_eq!(
            made.header("location"),
            Some(&*format!("/v1/snapshots/{id}"))
        );
    }
    let young = foreign("young", "2126-01-01T00:00:00Z", None);
    host.post("/v1/snapshots:import", &young).await;
    let pin = |method: &str, id: &str| {
        let path = format!("/v1/snapshots/{id}/pin");
        Request::new(method, &path)
            .key(&host.key)
            .send(host.address)
    };
    let pinned = pin("PUT", "pinned").await;
    assert_eq!(
        (pinned.status, pinned.json()),
        (200, json!({ "snapshot_id": "pinned", "pinned": true }))
    );
    assert_eq!(pin("PUT", "none").await.refusal(404), "snapshot_not_found");

    let prune = |body: Value| {
        let host = &host;
        async move { host.post("/v1/snapshots:prune", &body).await.json() }
    };
    let plan = prune(json!({})).await;
    assert_eq!(
        (&plan["applied"], &plan["pruned"]),
        (&json!(false), &Value::Null)
    );
    let verdict = |id: &str| {
        let all = plan["snapshots"].as_array().unwrap();
        let one = all.iter().find(|one| one["snapshot_id"] == id);
        one.unwrap()["verdict"].clone()
    };
    for (id, word) in [
        ("old", "expired"),
        ("red", "expired"),
        ("pinned", "pinned"),
        ("young", "clock_behind"),
    ] {
        assert_eq!(verdict(id), word, "{id}");
    }
    assert_eq!(ids(&host.get("/v1/snapshots").await.json()).len(), 4);
    // A caller bound to a workspace prunes only its own, and sees no others.
    let member = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let order = Request::new("POST", "/v1/snapshots:prune").key(&member);
    let order = order.json(&json!({ "apply": true }));
    let pruned = order.send(host.address).await.json();
    assert_eq!(ids(&pruned), ["red"]);
    assert_eq!(pruned["pruned"]["snapshots"], json!(["red"]));
    let pruned = prune(json!({ "apply": true })).await;
    assert_eq!(pruned["pruned"]["snapshots"], json!(["old"]));
    assert_eq!(
        ids(&host.get("/v1/snapshots").await.json()),
        ["pinned", "young"]
    );
    assert_eq!(pin("DELETE", "pinned").await.json()["pinned"], false);
    let pruned = prune(json!({ "apply": true })).await;
    assert_eq!(pruned["pruned"]["snapshots"], json!(["pinned"]));
    for body in [json!({ "apply": 1 }), json!({ "now": true })] {
        let wrong = host.post("/v1/snapshots:prune", &body).await;
        assert_eq!(wrong.refusal(400), "validation_error");
    }
}

#[tokio::test]
async fn a_snapshot_is_exported_and_imported_with_its_contents() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let made = host.post("/v1/snapshots", &json!({ "runId": run })).await;
    let made = made.json();
    let id = made["snapshot_id"].as_str().unwrap();
    let export = |format: &str| {
        let path = format!("/v1/snapshots/{id}/export{format}");
        let host = &host;
        async move { host.get(&path).await }
    };
    let prov = export("").await.json();
    assert!(prov["activity"].to_string().contains(id), "{prov}");
    let lineage = export("?format=openlineage").await.json();
    assert_eq!(lineage["events"][1]["eventType"], "COMPLETE");
    let wrong = export("?format=xml").await;
    assert_eq!(wrong.refusal(400), "validation_error");
    let bundle = export("?format=bundle").await.json();
    assert_eq!(bundle["snapshot"], made);

    // Another tenant imports it unchanged; its link to the run leads nowhere there.
    let other = host.key_of("umbrella", None, Scopes::Everything).await;
    let import = |body: &Value| {
        let request = Request::new("POST", "/v1/snapshots:import").key(&other);
        request.json(body).send(host.address)
    };
    let taken = import(&bundle).await;
    assert_eq!((taken.status, taken.json()), (201, made.clone()));
    assert_eq!(import(&bundle).await.status, 200);
    let verified = Request::new("GET", &format!("/v1/snapshots/{id}/verification"))
        .key(&other)
        .send(host.address)
        .await;
    assert_eq!(verified.json()["is_valid"], true);
    let mut changed = bundle.clone();
    changed["snapshot"]["outputs"]["response"] = json!("something else");
    let refused = import(&changed).await;
    assert_eq!(refused.refusal(422), "snapshot_damaged");
    let theirs = foreign(id, "2026-01-01T00:00:00Z", None);
    assert_eq!(import(&theirs).await.refusal(409), "snapshot_conflict");
    for wrong in [json!({}), json!({ "snapshot": {}, "more": 1 })] {
        assert_eq!(import(&wrong).await.refusal(400), "validation_error");
    }
    // A caller bound to a workspace imports nothing for others.
    let member = host.key_of("acme", Some("red"), Scopes::Everything).await;
    for (workspace, status) in [(None, 403), (Some("blue"), 403), (Some("red"), 201)] {
        let body = foreign("brought", "2026-01-01T00:00:00Z", workspace);
        let request = Request::new("POST", "/v1/snapshots:import").key(&member);
        let answer = request.json(&body).send(host.address).await;
        assert_eq!(answer.status, status, "{}", answer.json());
    }
}

#[tokio::test]
async fn a_pin_by_one_key_is_answered_again() {
    let host = Host::new().await;
    let body = foreign("one", "2020-01-01T00:00:00Z", None);
    let keyed = |method: &str, path: &str| {
        let request = Request::new(method, path).key(&host.key);
        request.header("idempotency-key", "k")
    };
    for (status, mark) in [(201, "false"), (201, "true")] {
        let answer = keyed("POST", "/v1/snapshots:import").json(&body);
        let answer = answer.send(host.address).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("openwop-idempotent-replay"), Some(mark));
    }
}

#[tokio::test]
async fn how_two_are_compared_is_said_in_the_query() {
    let host = Host::new().await;
    for (id, response) in [("a", "{\"n\": 1}"), ("b", "{\"n\": 2}")] {
        let mut body = foreign(id, "2026-01-01T00:00:00Z", None);
        body["snapshot"]["outputs"]["response"] = json!(response);
        host.post("/v1/snapshots:import", &body).await;
    }
    let path = "/v1/snapshots/a/comparison?with=b";
    let compare = |more: &str| {
        let path = format!("{path}{more}");
        let host = &host;
        async move { host.get(&path).await }
    };
    let found = compare("").await.json();
    assert_eq!(
        (&found["strategy"], &found["pass"]),
        (&json!("structural"), &json!(true))
    );
    let found = compare("&strategy=exact&fields=none").await.json();
    assert_eq!(
        (&found["pass"], &found["fields"]),
        (&json!(false), &json!([]))
    );
    for wrong in ["&strategy=loosely", "&similarity=2", "&fields=all"] {
        assert_eq!(compare(wrong).await.refusal(400), "validation_error");
    }
}

#[tokio::test]
async fn a_browser_run_is_captured_and_linked_both_ways() {
    let host = Host::new().await;
    let browser = Caller::new(&host);
    let document = reviewed(ID);
    browser.saved(&document).await;
    let shown = host.get(&format!("/v1/runs/{ID}")).await;
    let stream = shown.json()["runId"].as_str().unwrap().to_owned();
    let link = format!("</v1/snapshots?runId={stream}>; rel=\"snapshots\"");
    assert_eq!(shown.header("link"), Some(&*link));
    let order = json!({ "runId": ID });
    let capture = || host.post("/v1/snapshots", &order);
    let made = capture().await;
    assert_eq!(made.status, 201, "{}", made.json());
    assert_eq!(
        made.header("link"),
        Some(&*format!("</v1/runs/{stream}>; rel=\"run\""))
    );
    let first = made.json();
    assert_eq!(first["extensions"]["document"]["run_id"], ID);
    assert_eq!(first["extensions"]["run_status"], "running");
    assert_eq!(first["outputs"].get("response"), None, "it goes on");
    assert_eq!(capture().await.status, 200);
    let ended = with_event(
        document,
        "run_status_changed",
        &json!({ "status": "completed" }),
    );
    let mut ended = ended;
    ended["run"]["status"] = json!("completed");
    browser.saved(&ended).await;
    let second = capture().await.json();
    assert_eq!(second["extensions"]["follows"], first["snapshot_id"]);
    assert_eq!(second["outputs"]["response"], "{}");
    let listed = host.get(&format!("/v1/snapshots?runId={stream}")).await;
    assert_eq!(ids(&listed.json()).len(), 2);
    // A caller who may not see the document may not capture it.
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let post = Request::new("POST", "/v1/snapshots").key(&stranger);
    let post = post.json(&json!({ "runId": stream })).send(host.address);
    assert_eq!(post.await.refusal(404), "run_not_found");
}

#[tokio::test]
async fn calls_that_the_seal_does_not_know_are_not_taken_in() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let made = host
        .post("/v1/snapshots", &json!({ "runId": run }))
        .await
        .json();
    let id = made["snapshot_id"].as_str().unwrap();
    let path = format!("/v1/snapshots/{id}/export?format=bundle");
    let mut bundle = host.get(&path).await.json();
    let hash = format!("sha256:{}", "0".repeat(64));
    bundle["calls"] = json!([{ "seq": 0, "kind": "tool", "name": "forged", "key_hash": hash }]);
    bundle["contents"] = json!({});
    let other = host.key_of("umbrella", None, Scopes::Everything).await;
    let request = Request::new("POST", "/v1/snapshots:import").key(&other);
    let refused = request.json(&bundle).send(host.address).await;
    assert_eq!(refused.status, 422, "{}", refused.json());
    let findings = refused.json().to_string();
    for code in ["calls_changed", "calls_contradict"] {
        assert!(findings.contains(code), "{findings}");
    }
}

#[tokio::test]
async fn a_bundle_may_be_as_large_as_it_can_be_made() {
    let host = Host::new().await;
    let mut bundle = foreign("large", "2026-01-01T00:00:00Z", None);
    let large = "x".repeat(4 << 20);
    let hash = format!(
        "sha256:{}",
        kernel::digest::Digest::compute(large.as_bytes())
    );
    bundle["contents"] = json!({ hash: { "text": large } });
    let import = |body: &Value, key: &'static str| {
        let request = Request::new("POST", "/v1/snapshots:import").key(&host.key);
        let request = match key {
            "" => request,
            key => request.header("idempotency-key", key),
        };
        request.json(body).send(host.address)
    };
    assert_eq!(import(&bundle, "").await.status, 201);
    assert_eq!(import(&bundle, "k").await.status, 200, "also with a key");
    // Other bodies have the usual limit.
    let refused = host
        .post("/v1/snapshots:prune", &json!({ "apply": large }))
        .await;
    assert_eq!(refused.status, 413);
}

#[tokio::test]
async fn names_in_a_snapshot_cannot_redirect_paths_or_links() {
    let host = Host::new().await;
    let id = "../../../tmp/x y";
    let mut bundle = foreign(id, "2026-01-01T00:00:00Z", None);
    let run = "x>; rel=\"evil\", <http://evil.example/>; rel=\"run\"";
    bundle["snapshot"]["extensions"] = json!({ "run_id": run });
    let made = host.post("/v1/snapshots:import", &bundle).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let there = "/v1/snapshots/..%2F..%2F..%2Ftmp%2Fx%20y";
    assert_eq!(made.header("location"), Some(there));
    let link = made.header("link").unwrap();
    assert_eq!(link.matches('<').count(), 1, "{link}");
    assert!(
        link.starts_with("</v1/runs/x%3E%3B%20rel%3D%22evil%22"),
        "{link}"
    );
    let found = host.get(there).await;
    assert_eq!(
        (found.status, &found.json()["snapshot_id"]),
        (200, &json!(id))
    );
    let listed = host.get("/v1/snapshots").await.json();
    let way = listed["snapshots"][0]["links"]["run"].as_str().unwrap();
    assert!(!way.contains(['<', '>', '"', ' ']), "{way}");
}

#[tokio::test]
async fn snapshots_with_secrets_are_neither_imported_nor_exported() {
    let host = Host::new().await;
    let day = "2126-01-01T00:00:00Z";
    let mut bundle = foreign("open", day, None);
    host.post("/v1/snapshots:import", &bundle).await;
    let other = foreign("other", day, None);
    host.post("/v1/snapshots:import", &other).await;

    bundle["snapshot"]["snapshot_id"] = "in".into();
    bundle["snapshot"]["extensions"] = json!({
        "redaction": { "policy": "off", "version": 1, "count": 0 },
    });
    let refused = host.post("/v1/snapshots:import", &bundle).await;
    assert_eq!(refused.refusal(422), "snapshot_unredacted");

    // Placed in the folder by hand.
    let all = std::fs::read_dir(host.snapshots()).unwrap();
    let tenant = all.map(|entry| entry.unwrap().path()).next().unwrap();
    let text = bundle["snapshot"].to_string();
    std::fs::write(tenant.join("snapshots/in.json"), text).unwrap();
    let listed = host.get("/v1/snapshots").await.json();
    assert_eq!(ids(&listed), ["in", "open", "other"]);
    for path in [
        "/v1/snapshots/in",
        "/v1/snapshots/in/export?format=bundle",
        "/v1/snapshots/in/export",
        "/v1/snapshots/in/comparison?with=other",
        "/v1/snapshots/other/comparison?with=in",
    ] {
        let refused = host.get(path).await;
        assert_eq!(refused.refusal(403), "snapshot_unredacted", "{path}");
    }
    let verified = host.get("/v1/snapshots/in/verification").await.json();
    assert!(
        verified["findings"].to_string().contains("unredacted"),
        "{verified}"
    );
}

//! Evidence of runs over HTTP.

use runtime::access::Scopes;
use serde_json::json;

use crate::client::Request;
use crate::host::Host;

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
async fn what_is_wrong_with_a_request_is_said() {
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
async fn snapshots_are_behind_the_walls_of_tenant_and_workspace() {
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

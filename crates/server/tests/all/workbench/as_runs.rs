//! Documents among runs: listed and cancelled with them, and otherwise read-only.

use runtime::access::Scopes;
use serde_json::{Value, json};

use super::{Caller, ID, document, noted, reviewed, with_event};
use crate::client::Request;
use crate::host::Host;

fn ids(page: &Value) -> Vec<String> {
    let rows = page["runs"].as_array().unwrap().iter();
    rows.map(|row| match row["workbench"]["runId"].as_str() {
        Some(id) => id.to_owned(),
        None => row["runId"].as_str().unwrap().to_owned(),
    })
    .collect()
}

fn begun(id: &str, at: &str, tag: &str) -> Value {
    let mut document = document(id);
    document["run"]["startedAt"] = json!(at);
    document["run"]["tags"] = json!([tag]);
    document
}

fn ended(document: Value, status: &str) -> Value {
    let mut ended = with_event(document, "run_status_changed", &json!({ "status": status }));
    ended["run"]["status"] = json!(status);
    ended
}

#[tokio::test]
async fn documents_are_listed_among_runs_page_by_page() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    // By start time, the last first: a future run, an engine's, two old ones.
    let driven = host.create(&json!({ "workflowId": "waits" })).await;
    caller
        .saved(&begun("run_old", "2020-01-01T00:00:00Z", "old"))
        .await;
    let older = begun("run_older", "2019-01-01T00:00:00Z", "old");
    caller.saved(&ended(older, "failed")).await;
    let mut waits = reviewed("run_next");
    waits["run"]["startedAt"] = json!("2199-01-01T00:00:00Z");
    waits["run"]["context"] = json!({ "parentRunId": "run_old" });
    caller.saved(&waits).await;
    // Other streams are not listed: the tenant has a registry and a trail, too.
    let page = caller.get("/v1/runs").await.json();
    let order = ["run_next", &driven, "run_old", "run_older"];
    assert_eq!(ids(&page), order);
    assert!(page.get("nextCursor").is_none());
    let next = &page["runs"][0];
    assert_eq!(next["status"], "waiting-approval");
    assert_eq!(
        (&next["workflowId"], &next["settled"], &next["tags"]),
        (&json!("letters"), &json!(false), &json!(["blue"]))
    );
    assert_eq!(next["parentRunId"], "run_old");
    let workbench = json!({ "runId": "run_next", "revision": 5, "readOnly": true });
    assert_eq!(next["workbench"], workbench);
    let shown = caller
        .get(&format!("/v1/runs/{}", next["runId"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(shown["status"], next["status"]);

    for limit in 1..=4 {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/runs?limit={limit}{cursor}");
            let page = caller.get(&path).await.json();
            seen.extend(ids(&page));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen, order, "limit {limit}");
    }
    let old = next["parentRunId"].as_str().unwrap();
    let stream = page["runs"][2]["runId"].as_str().unwrap();
    for (query, expected) in [
        ("status=waiting-approval".to_owned(), &order[..1]),
        ("status=failed".to_owned(), &order[3..]),
        ("status=running&status=failed".to_owned(), &order[1..]),
        ("status=failed&limit=1".to_owned(), &order[3..]),
        ("tag=old".to_owned(), &order[2..]),
        ("tag=%01gate".to_owned(), &[]),
        (
            "workflowId=letters&limit=2".to_owned(),
            &["run_next", "run_old"],
        ),
        (format!("parentRunId={old}"), &order[..1]),
        (format!("parentRunId={stream}&tag=blue"), &order[..1]),
        (format!("parentRunId={stream}&tag=old"), &[]),
    ] {
        let page = caller.get(&format!("/v1/runs?{query}")).await.json();
        assert_eq!(ids(&page), expected, "{query}");
    }
}

#[tokio::test]
async fn the_list_of_runs_keeps_the_walls_of_documents() {
    let host = Host::new().await;
    let ours = Caller::new(&host);
    ours.saved(&document(ID)).await;
    let red = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let red = Caller {
        host: &host,
        key: red,
    };
    red.saved(&document("run_red")).await;
    let theirs = host.key_of("umbrella", None, Scopes::Everything).await;
    let theirs = Caller {
        host: &host,
        key: theirs,
    };
    for query in ["", "?status=running", "?workflowId=letters", "?tag=blue"] {
        let path = format!("/v1/runs{query}");
        // A credential of the whole tenant reads every workspace, as it does with runs.
        assert_eq!(ids(&ours.get(&path).await.json()).len(), 2, "{query}");
        assert_eq!(ids(&red.get(&path).await.json()), ["run_red"], "{query}");
        assert!(ids(&theirs.get(&path).await.json()).is_empty(), "{query}");
    }
    let stream = red.get("/v1/runs").await.json()["runs"][0]["runId"].clone();
    let stream = stream.as_str().unwrap();
    let child = {
        let mut child = document("run_child");
        child["run"]["context"] = json!({ "parentRunId": "run_red" });
        child
    };
    theirs.saved(&child).await;
    let path = format!("/v1/runs?parentRunId={stream}");
    assert!(ids(&theirs.get(&path).await.json()).is_empty());
    for path in ["/cancel", "/interrupts/two", ":fork"] {
        let path = format!("/v1/runs/{stream}{path}");
        let answer = theirs.post(&path, &json!({})).await;
        assert_eq!(answer.refusal(404), "run_not_found", "{path}");
    }
}

#[tokio::test]
async fn a_documents_run_is_cancelled_with_its_idle_children() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    let mut child = document("run_child");
    child["run"]["context"] = json!({ "parentRunIds": [ID] });
    caller.saved(&child).await;
    let mut busy = with_event(
        document("run_busy"),
        "step_started",
        &json!({ "stepId": "one" }),
    );
    busy["stepStatus"][0][1] = json!("running");
    caller.saved(&busy).await;
    let cancel = async |path: &str| caller.post(path, &json!({ "reason": "enough" })).await;
    let refused = cancel("/v1/runs/run_busy/cancel").await;
    assert_eq!(refused.refusal(409), "step_running");
    let stream = caller.get(&format!("/v1/runs/{ID}")).await.json()["runId"].clone();
    // By its stream, by its client's id, and again: the same response.
    for path in [
        format!("/v1/runs/{}/cancel", stream.as_str().unwrap()),
        format!("/v1/runs/{ID}:cancel"),
    ] {
        let answer = cancel(&path).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["status"], "cancelled");
    }
    let read = caller.read(ID).await;
    assert_eq!(read["run"]["status"], "cancelled");
    assert_eq!(read["trace"][0]["reason"], "enough");
    assert_eq!(caller.read("run_child").await["run"]["status"], "cancelled");
    // A browser that does not know of it continues to save: the cancellation is put back.
    let saved = caller.saved(&noted(document(ID), "still at work")).await;
    assert_eq!(saved.header("run-put-back"), Some("1"));
    assert_eq!(caller.read(ID).await["run"]["status"], "cancelled");

    caller
        .saved(&ended(document("run_done"), "completed"))
        .await;
    let order = json!({ "runIds": ["run_done", "run_busy", "run_child", "run_absent"] });
    let bulk = caller.post("/v1/runs:bulk-cancel", &order).await.json();
    let told: Vec<_> = bulk["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| (result["ok"].as_bool(), result["error"]["code"].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (Some(false), Some("run_terminal")),
            (Some(false), Some("step_running")),
            (Some(true), None),
            (Some(false), Some("not_found")),
        ]
    );
}

#[tokio::test]
async fn engine_only_operations_are_rejected_for_documents() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&reviewed(ID)).await;
    let stream = caller.get(&format!("/v1/runs/{ID}")).await.json()["runId"].clone();
    for id in [ID, stream.as_str().unwrap()] {
        for (method, path) in [
            ("POST", ":pause"),
            ("POST", ":resume"),
            ("POST", ":fork"),
            ("POST", "/interrupts/two/tokens"),
            ("POST", "/annotations"),
        ] {
            let request = caller.request(method, &format!("/v1/runs/{id}{path}"));
            let answer = caller.send(request.json(&json!({}))).await;
            assert_eq!(answer.refusal(409), "run_read_only", "{path}");
        }
    }
    let answer = caller.post("/v1/runs/run_absent:pause", &json!({})).await;
    assert_eq!(answer.refusal(404), "run_not_found");
}

#[tokio::test]
async fn a_snapshot_is_sent_again_only_where_it_changed() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    let path = format!("/v1/runs/{ID}");
    let tag = caller.get(&path).await.header("etag").unwrap().to_owned();
    let ask = async || {
        let request = caller.request("GET", &path).header("if-none-match", &tag);
        caller.send(request).await
    };
    let known = ask().await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    caller.saved(&noted(document(ID), "more")).await;
    let changed = ask().await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
}

#[tokio::test]
async fn gates_wait_in_the_inbox_of_all_runs() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&reviewed(ID)).await;
    caller.saved(&document("run_quiet")).await;
    let inbox = async |query: &str| caller.get(&format!("/v1/interrupts{query}")).await.json();
    let asked = inbox("").await;
    let open = asked["interrupts"].as_array().unwrap();
    assert_eq!(open.len(), 1, "{asked}");
    let stream = caller.get(&format!("/v1/runs/{ID}")).await.json()["runId"].clone();
    assert_eq!(
        (
            &open[0]["runId"],
            &open[0]["workflowId"],
            &open[0]["nodeId"]
        ),
        (&stream, &json!("letters"), &json!("two"))
    );
    assert_eq!(
        inbox("?kind=approval").await["interrupts"],
        asked["interrupts"]
    );
    for query in ["?kind=clarification", "?workflowId=other"] {
        assert_eq!(inbox(query).await["interrupts"], json!([]), "{query}");
    }
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let stranger = Request::new("GET", "/v1/interrupts").key(&stranger);
    let stranger = stranger.send(host.address).await.json();
    assert_eq!(stranger["interrupts"], json!([]));
    let path = format!("/v1/runs/{ID}/interrupts/two");
    let answer = json!({ "resumeValue": { "action": "accept" } });
    assert_eq!(caller.post(&path, &answer).await.status, 200);
    assert_eq!(inbox("").await["interrupts"], json!([]));
}

#[tokio::test]
async fn artifacts_of_a_trace_are_those_of_its_run() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let mut body = document(ID);
    for version in 1..=2 {
        let artifact = json!({
            "artifactKey": "text", "typeId": "t", "version": version, "createdAt": "…",
            "data": { "words": version, "10": null, "9": "é" },
        });
        body = with_event(body, "artifact_written", &json!({ "artifact": artifact }));
        body["artifactsByKey"] = json!([["text", artifact]]);
        body["stepStatus"][0][1] = json!("running");
        body = with_event(body, "step_started", &json!({ "stepId": "one" }));
    }
    caller.saved(&body).await;
    let path = format!("/v1/runs/{ID}/artifacts");
    let listed = caller.get(&path).await.json();
    let listed = listed["artifacts"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    for (artifact, version) in listed.iter().zip(1..) {
        assert_eq!(artifact["artifactId"], format!("text@{version}"));
        // The client does not name the step: the one that was running, if any.
        let step = (version == 2).then(|| json!("one"));
        assert_eq!(artifact.get("nodeId"), step.as_ref());
        let read = caller.get(artifact["url"].as_str().unwrap()).await;
        assert_eq!(read.status, 200);
        let text = format!("{{\"10\":null,\"9\":\"é\",\"words\":{version}}}");
        assert_eq!(String::from_utf8(read.body.clone()).unwrap(), text);
        let tag = format!("\"{}\"", artifact["sha256"].as_str().unwrap());
        assert_eq!(read.header("etag"), Some(tag.as_str()));
        assert_eq!(artifact["size"], text.len());
    }
    let absent = caller.get(&format!("{path}/text@3")).await;
    assert_eq!(absent.refusal(404), "not_found");
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let stranger = Request::new("GET", &path).key(&stranger);
    assert_eq!(
        stranger.send(host.address).await.refusal(404),
        "run_not_found"
    );
}

#[tokio::test]
async fn runs_of_documents_are_compared_event_by_event() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&reviewed("run_a")).await;
    caller.saved(&reviewed("run_b")).await;
    let diff = async |against: &str| {
        caller
            .get(&format!("/v1/runs/run_a:diff?against={against}"))
            .await
    };
    let same = diff("run_a").await.json();
    assert_eq!(
        (&same["divergedAtSeq"], &same["eventDiffs"]),
        (&json!(null), &json!([]))
    );
    let changed = ended(reviewed("run_b"), "cancelled");
    caller.saved(&changed).await;
    let other = diff("run_b").await.json();
    // The saves differ, as the documents do; their runs are the same up to the end.
    let ops: Vec<_> = other["eventDiffs"].as_array().unwrap().iter().collect();
    assert_eq!(ops.last().unwrap()["bEvent"]["type"], "run.cancelled");
    assert_eq!(
        other["stateDiff"]["status"],
        json!({ "a": "waiting-approval", "b": "cancelled" })
    );
    assert_eq!(diff("run_absent").await.refusal(404), "run_not_found");
    let driven = host.create(&json!({ "workflowId": "waits" })).await;
    assert_eq!(diff(&driven).await.refusal(409), "run_read_only");
    let turned = caller
        .get(&format!("/v1/runs/{driven}:diff?against=run_a"))
        .await;
    assert_eq!(turned.refusal(409), "run_read_only");
}

//! Saving, reading, listing and deleting, as the API's clients do it.

use serde_json::{Value, json};

use super::{Caller, ID, code, document, noted, reviewed, with_event};
use crate::host::Host;

#[tokio::test]
async fn a_run_is_saved_read_listed_and_deleted() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let absent = caller.get(&format!("/api/runs/{ID}")).await;
    assert_eq!((absent.status, absent.body.len()), (404, 0));
    assert!(caller.list("").await.is_empty());

    let first = document(ID);
    let answer = caller.saved(&first).await;
    assert_eq!(answer.header("run-revision"), Some("0"));
    assert!(answer.header("link").unwrap().contains("/api/openapi.json"));
    assert_eq!(caller.read(ID).await, first);
    let second = reviewed(ID);
    caller.saved(&second).await;
    assert_eq!(caller.read(ID).await, second);

    let rows = caller.list("?limit=100").await;
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(row["id"], ID);
    assert_eq!(row["workflowId"], "letters");
    assert_eq!(row["status"], "running");
    assert_eq!(row["startedAt"], "2027-01-15T08:00:00.000Z");
    assert_eq!(row["tags"], json!(["blue"]));
    assert_eq!(row["pendingGates"], 1);
    assert!(row.get("endedAt").is_none());

    for _ in 0..2 {
        let request = caller.request("DELETE", &format!("/api/runs/{ID}"));
        assert_eq!(caller.send(request).await.status, 204);
        assert_eq!(caller.get(&format!("/api/runs/{ID}")).await.status, 404);
        assert!(caller.list("").await.is_empty());
    }
    caller.saved(&first).await;
    assert_eq!(caller.read(ID).await, first);
}

#[tokio::test]
async fn an_equal_save_writes_nothing_and_absent_members_are_filled() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let mut sparse = document(ID);
    let members = sparse.as_object_mut().unwrap();
    for name in [
        "revision",
        "trace",
        "artifactsByKey",
        "ruleSetsById",
        "idempotency",
    ] {
        members.remove(name);
    }
    let first = caller.saved(&sparse).await;
    let again = caller.saved(&document(ID)).await;
    assert_eq!(first.header("run-save"), Some("1"));
    assert_eq!(again.header("run-save"), Some("1"));
    assert_eq!(first.header("etag"), again.header("etag"));
    assert_eq!(caller.read(ID).await, document(ID));
}

#[tokio::test]
async fn an_ended_run_may_be_saved_and_unknown_events_are_flagged() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let mut ended = document(ID);
    let end = json!({ "status": "completed" });
    ended = with_event(ended, "run_status_changed", &end);
    ended["run"]["status"] = json!("completed");
    ended["run"]["endedAt"] = json!("2027-01-15T08:00:01.000Z");
    caller.saved(&ended).await;
    let later = with_event(
        ended,
        "moon_phase",
        &json!({ "phase": { "of": [1.5, null] } }),
    );
    let answer = caller.saved(&later).await;
    assert_eq!(answer.header("run-unknown-events"), Some("1"));
    assert_eq!(caller.read(ID).await, later);
    let row = &caller.list("?status=completed").await[0];
    assert_eq!(row["unknownEvents"], 1);
    assert_eq!(row["endedAt"], "2027-01-15T08:00:01.000Z");
    assert!(caller.list("?status=running").await.is_empty());
}

#[tokio::test]
async fn ids_that_are_none_are_refused_before_anything_else() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let long = format!("run_{}", "x".repeat(125));
    for id in [
        "nope",
        "run_",
        "run_a.b",
        "run_%20",
        "run_%C3%A9",
        "RUN_a",
        &long,
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let request = caller.request(method, &format!("/api/runs/{id}"));
            let request = request.body("application/json", b"no json".to_vec());
            assert_eq!(
                code(&caller.send(request).await, 400),
                "INVALID_RUN_ID",
                "{id}"
            );
        }
    }
    let other = document("run_other");
    let request = caller
        .request("PUT", &format!("/api/runs/{ID}"))
        .json(&other);
    assert_eq!(code(&caller.send(request).await, 400), "RUN_ID_MISMATCH");
}

#[tokio::test]
async fn tags_of_answers_say_whether_anything_changed() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let saved = caller.saved(&document(ID)).await;
    let tag = saved.header("etag").unwrap().to_owned();
    let path = format!("/api/runs/{ID}");
    let known = |tag: &str| caller.request("GET", &path).header("if-none-match", tag);
    assert_eq!(caller.send(known(&tag)).await.status, 304);
    caller.saved(&noted(document(ID), "new")).await;
    let answer = caller.send(known(&tag)).await;
    assert_eq!(answer.status, 200);

    let stale = |document: &Value| {
        caller
            .request("PUT", &path)
            .header("if-match", &tag)
            .json(document)
    };
    let refused = caller.send(stale(&document(ID))).await;
    assert_eq!(code(&refused, 409), "STALE_REVISION");
    let fresh = answer.header("etag").unwrap();
    let next = noted(noted(document(ID), "new"), "newer");
    let request = caller
        .request("PUT", &path)
        .header("if-match", fresh)
        .json(&next);
    assert_eq!(caller.send(request).await.status, 204);
    let only_new = caller
        .request("PUT", &path)
        .header("if-none-match", "*")
        .json(&next);
    assert_eq!(code(&caller.send(only_new).await, 409), "STALE_REVISION");
    let odd = caller
        .request("PUT", &path)
        .header("if-match", "\"x\"")
        .json(&next);
    assert_eq!(code(&caller.send(odd).await, 400), "INVALID_REQUEST");
}

#[tokio::test]
async fn lists_go_by_when_runs_began_and_filter() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    for day in 1..=7 {
        let mut run = document(&format!("run_{day}"));
        run["run"]["startedAt"] = json!(format!("2027-02-0{day}T00:00:00.000Z"));
        run["run"]["tags"] = json!([if day % 2 == 0 { "even" } else { "odd" }]);
        caller.saved(&run).await;
    }
    let ids = |rows: &[Value]| {
        rows.iter()
            .map(|row| row["id"].as_str().unwrap()[4..].to_owned())
            .collect::<String>()
    };
    assert_eq!(ids(&caller.list("").await), "7654321");
    assert_eq!(ids(&caller.list("?limit=2").await), "76");
    assert_eq!(ids(&caller.list("?tag=even").await), "642");
    let between = "?startedAfter=2027-02-03T00:00:00Z&startedBefore=2027-02-05T00:00:00Z";
    assert_eq!(ids(&caller.list(between).await), "43");
    assert_eq!(ids(&caller.list("?q=RUN_5").await), "5");
    assert_eq!(ids(&caller.list("?q=ODD&limit=2").await), "75");
    assert_eq!(ids(&caller.list("?workflowId=letters").await), "7654321");
    assert!(caller.list("?workflowId=other").await.is_empty());

    let (mut path, mut seen) = ("/api/runs?limit=3".to_owned(), String::new());
    loop {
        let page = caller.get(&path).await;
        seen.push_str(&ids(page.json().as_array().unwrap()));
        let link = page.header("link").unwrap().to_owned();
        let Some((before, _)) = link.split_once(">; rel=\"next\"") else {
            break;
        };
        path = before.rsplit_once('<').unwrap().1.to_owned();
    }
    assert_eq!(seen, "7654321");
    let odd = caller.get("/api/runs?cursor=nonsense").await;
    assert_eq!(code(&odd, 400), "INVALID_REQUEST");
    assert_eq!(
        code(&caller.get("/api/runs?tag=%01gate").await, 400),
        "INVALID_REQUEST"
    );
}

#[tokio::test]
async fn members_come_back_in_the_order_they_were_sent() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let event = |n: u64| {
        format!(
            r#"{{"ts":"2027-01-15T08:00:01.000Z","type":"annotation","text":"b\u00e4r","runId":"{ID}","id":"evt_{n}"}}"#
        )
    };
    let sent = |revision: u64, events: &str| {
        let document = document(ID);
        let workflow = &document["run"]["workflowSnapshot"];
        format!(
            r#"{{"revision":{revision},"run":{{"zeta":1.50,"workflowSnapshot":{workflow},"workflowVersion":3,"workflowId":"letters","id":"{ID}","alpha":[{{"y":1,"x":2}}]}},"trace":[{events}],"artifactsByKey":[],"ruleSetsById":[],"stepStatus":{},"gateState":{},"idempotency":[]}}"#,
            document["stepStatus"], document["gateState"],
        )
    };
    let path = format!("/api/runs/{ID}");
    let texts = [
        sent(1, &event(1)),
        sent(2, &format!("{},{}", event(1), event(2))),
    ];
    for text in &texts {
        let request = caller.request("PUT", &path);
        let request = request.body("application/json", text.clone().into_bytes());
        assert_eq!(caller.send(request).await.status, 204);
    }
    for (save, text) in (1..).zip(&texts) {
        let answer = caller.get(&format!("{path}?save={save}")).await;
        assert_eq!(String::from_utf8_lossy(&answer.body), *text, "save {save}");
    }
    let answer = caller.get(&path).await;
    assert_eq!(String::from_utf8_lossy(&answer.body), texts[1]);
}

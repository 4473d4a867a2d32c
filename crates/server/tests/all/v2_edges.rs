//! OpenWOP 2 where it meets version 1, the Workbench face and the limits of the server.

use kernel::time::Timestamp;
use serde_json::json;
use server::Limits;

use crate::client::{Conn, Request};
use crate::gates::signoff;
use crate::host::Host;
use crate::v2::{KEY, ask, at, check_event, create, get, post};
use crate::workbench::{Caller, ID, document};

#[tokio::test]
async fn a_keyed_token_answer_keeps_its_version() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    let run = create(&host, &json!({ "workflowId": "signoff" })).await;
    let id = run.strip_prefix("acme/").unwrap();
    let question = host
        .shows(id, |run| run["interrupt"]["interruptToken"].is_string())
        .await;
    let token = question["interrupt"]["interruptToken"].as_str().unwrap();
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let keyed = |path: String| {
        Request::new("POST", &path)
            .header("idempotency-key", KEY)
            .json(&accept)
    };
    let second = || keyed(format!("/interrupts/{token}")).header("openwop-version", "2");
    let answered = second().send(host.address).await;
    assert_eq!(answered.status, 200, "{}", answered.json());
    assert_eq!(answered.json()["runId"], run);
    let again = second().send(host.address).await;
    assert_eq!(again.json(), answered.json());
    let first = keyed(format!("/v1/interrupts/{token}"));
    let first = first.send(host.address).await;
    assert_eq!(first.refusal(409), "interrupt_already_resolved");
}

#[tokio::test]
async fn a_document_is_read_as_version_2() {
    let host = Host::new().await;
    Caller::new(&host).saved(&document(ID)).await;
    let page = get(&host, &format!("{}/events/poll?timeout=1", at(ID))).await;
    let page = page.json();
    let events = page["events"].as_array().unwrap();
    assert_eq!(page["runId"], events[0]["runId"]);
    events.iter().for_each(check_event);
    assert_eq!(page["lastSequence"], events.last().unwrap()["sequence"]);
    let path = format!("{}/events", at(ID));
    let json = Request::new("GET", &path)
        .key(&host.key)
        .header("openwop-version", "2")
        .header("accept", "application/json")
        .send(host.address)
        .await;
    assert_eq!(json.json()["events"], page["events"]);
    let odd = get(&host, &format!("{path}?streamMode=bogus")).await;
    assert_eq!(odd.refusal(400), "unsupported_stream_mode");
}

#[tokio::test]
async fn a_stream_over_the_limit_is_rate_limited() {
    let limits = Limits {
        streams: 1,
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let run = create(&host, &json!({ "workflowId": "waits" })).await;
    let path = format!("{}/events", at(&run));
    let stream = || {
        let request = Request::new("GET", &path).key(&host.key);
        request.header("openwop-version", "2")
    };
    let mut open = Conn::to(host.address).await;
    open.send(&stream().bytes()).await;
    assert_eq!(open.head().await.unwrap().0, 200);
    let refused = stream().send(host.address).await;
    assert_eq!(refused.refusal(429), "rate_limited");
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test]
async fn bulk_cancel_binds_the_ids_it_was_given() {
    let host = Host::new().await;
    let run = create(&host, &json!({ "workflowId": "waits" })).await;
    let plain = run.strip_prefix("acme/").unwrap();
    let order = json!({ "runIds": [plain, "nothing"] });
    let done = post(&host, "/runs:bulk-cancel", &order).await.json();
    let ids: Vec<_> = done["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["runId"].clone())
        .collect();
    assert_eq!(ids, [json!(run), json!("acme/nothing")], "{done}");
    let read = ask(&host, "GET", &at(&run), None).await.json();
    assert_eq!(read["status"], "cancelled");
}

#[tokio::test]
async fn the_end_of_version_1_is_announced_where_it_is_set() {
    let at = Timestamp::parse("2026-12-04T00:00:00Z");
    let limits = Limits {
        v1_sunset: at,
        ..Limits::default()
    };
    let (host, silent) = (Host::with(limits).await, Host::new().await);
    let answer = host.get("/v1/runs").await;
    let date = answer.header("sunset");
    assert_eq!(date, Some("Fri, 04 Dec 2026 00:00:00 GMT"));
    assert_eq!(answer.header("deprecation"), Some("@1796342400"));
    let refused = host.get("/v1/runs/run-none").await;
    assert_eq!(refused.header("sunset"), date);
    for other in ["/runs", "/v1/interrupts", "/healthz"] {
        assert_eq!(host.get(other).await.header("sunset"), None, "{other}");
    }
    assert_eq!(silent.get("/v1/runs").await.header("sunset"), None);
}

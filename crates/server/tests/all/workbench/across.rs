//! Documents on other faces: as streams, questions and entries of the audit trail.

use kernel::audit::{AuditAction, AuditEvent};
use kernel::document::Audited;
use runtime::access::{Scopes, trail};
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use super::{Caller, ID, code, document, noted, reviewed, with_event};
use crate::client::{Conn, Request};
use crate::events::frames;
use crate::host::{Host, Models};

#[tokio::test]
async fn a_documents_events_are_streamed_as_a_runs() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    let path = format!("/v1/runs/{ID}/events");
    let mut conn = Conn::to(host.address).await;
    let request = caller
        .request("GET", &path)
        .header("accept", "text/event-stream");
    conn.send(&request.bytes()).await;
    assert_eq!(conn.head().await.expect("a head").0, 200);
    let mut seen = frames(&conn.chunk().await.unwrap());
    // A save from now on wakes the stream.
    let mut done = with_event(
        reviewed(ID),
        "run_status_changed",
        &json!({ "status": "completed" }),
    );
    caller.saved(&reviewed(ID)).await;
    done["run"]["status"] = json!("completed");
    caller.saved(&done).await;
    while let Some(chunk) = conn.chunk().await {
        seen.extend(frames(&chunk));
    }
    let page = caller.get(&format!("{path}/poll?timeout=1")).await.json();
    let polled = page["events"].as_array().unwrap();
    assert_eq!(page["isComplete"], true);
    let kinds: Vec<&str> = seen.iter().map(|frame| frame.event.as_str()).collect();
    for kind in [
        "run.started",
        "runwright.document.saved",
        "node.completed",
        "run.completed",
    ] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    assert!(seen.iter().all(|frame| polled.contains(&frame.data)));
    assert!(seen.windows(2).all(|pair| pair[0].id < pair[1].id));
    // After an event, in another mode, and in an unknown one.
    let last = seen.last().unwrap().id.to_string();
    let ask = async |query: &str, last: &str| {
        let request = caller.request("GET", &format!("{path}{query}"));
        caller.send(request.header("last-event-id", last)).await
    };
    assert!(frames(&ask("", &last).await.body).is_empty());
    assert_eq!(
        frames(&ask("?streamMode=debug", "0").await.body).len(),
        polled.len() - 1
    );
    let states = frames(&ask("?streamMode=values", "0").await.body);
    assert_eq!(
        states.last().unwrap().data["payload"]["status"],
        "completed"
    );
    assert_eq!(
        ask("?streamMode=odd", "0").await.refusal(400),
        "unsupported_stream_mode"
    );
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let stranger = Request::new("GET", &path)
        .key(&stranger)
        .send(host.address)
        .await;
    assert_eq!(stranger.refusal(404), "run_not_found");
}

#[tokio::test]
async fn a_held_poll_ends_with_the_save_it_waits_for() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    let path = format!("/v1/runs/{ID}/events/poll?timeout=30");
    let first = caller.get(&path).await.json();
    let next = format!("{path}&lastSequence={}", first["lastEventSeq"]);
    let changed = noted(document(ID), "more");
    let (held, _) = tokio::join!(caller.get(&next), caller.saved(&changed));
    let page = held.json();
    assert_eq!(page["events"][0]["type"], "runwright.document.saved");
    assert_eq!(page["isComplete"], false);
}

#[tokio::test]
async fn a_gate_is_a_question_of_its_run_and_outlives_later_saves() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&reviewed(ID)).await;
    let run = caller.get(&format!("/v1/runs/{ID}")).await.json()["runId"].clone();
    let asked = caller
        .get(&format!("/v1/runs/{ID}/interrupts"))
        .await
        .json();
    assert_eq!(
        (
            &asked["runId"],
            asked["interrupts"].as_array().unwrap().len()
        ),
        (&run, 1)
    );
    assert_eq!(asked["interrupts"][0]["nodeId"], "two");
    let answer = async |step: &str, value: Value| {
        let path = format!("/v1/runs/{}/interrupts/{step}", run.as_str().unwrap());
        caller.post(&path, &json!({ "resumeValue": value })).await
    };
    assert_eq!(
        answer("two", json!({ "action": "explode" }))
            .await
            .refusal(400),
        "validation_error"
    );
    assert_eq!(
        answer("one", json!({ "action": "accept" }))
            .await
            .refusal(404),
        "interrupt_not_found"
    );
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let path = format!("/v1/runs/{}/interrupts/two", run.as_str().unwrap());
    let accept = json!({ "resumeValue": { "action": "accept", "comment": "fine" } });
    let stranger = Request::new("POST", &path).key(&stranger).json(&accept);
    assert_eq!(
        stranger.send(host.address).await.refusal(404),
        "run_not_found"
    );
    // Rejected it still waits, accepted it does not.
    assert_eq!(
        answer("two", json!({ "action": "reject" })).await.status,
        200
    );
    let inbox = caller.get("/api/gates").await.json();
    assert_eq!(inbox["gates"].as_array().unwrap().len(), 1);
    let accepted = answer("two", accept["resumeValue"].clone()).await;
    assert_eq!(
        (accepted.status, &accepted.json()["status"]),
        (200, &json!("running"))
    );
    assert_eq!(caller.get("/api/gates").await.json()["gates"], json!([]));
    assert_eq!(
        answer("two", json!({ "action": "accept" }))
            .await
            .refusal(404),
        "interrupt_not_found"
    );
    let page = caller
        .get(&format!("/v1/runs/{ID}/events/poll?timeout=1"))
        .await
        .json();
    let resolved: Vec<&Value> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "interrupt.resolved")
        .collect();
    assert_eq!(resolved.len(), 2);
    assert_eq!(
        resolved[1]["payload"]["resolvedBy"], "somebody",
        "{resolved:#?}"
    );

    // The browser does not know of them yet: both decisions are put back onto its save.
    let saved = caller.saved(&noted(reviewed(ID), "later")).await;
    assert_eq!(saved.header("run-put-back"), Some("2"));
    let read = caller.read(ID).await;
    assert_eq!(read["gateState"][1][1]["after"], "approved");
    let decisions: Vec<&Value> = read["trace"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "human_gate_resolved")
        .collect();
    assert_eq!(decisions.len(), 2);
    assert_eq!(
        (&decisions[1]["decision"], &decisions[1]["note"]),
        (&json!("approved"), &json!("fine"))
    );
    assert_eq!(
        read["trace"].as_array().unwrap().last().unwrap()["type"],
        "annotation"
    );
}

/// A tenant's trail: action, kind and id.
async fn told(host: &Host) -> Vec<(AuditAction, String, String)> {
    let store = host.engine.door().store();
    trail::deliver(&**store).await.unwrap();
    let events = trail::read(&**store, &"acme".into(), 0, 1_000)
        .await
        .unwrap();
    let entries = events.into_iter().filter_map(|event| match event.body {
        AuditEvent::Recorded(entry) if ["document", "gate"].contains(&&*entry.on.kind) => {
            assert_eq!(entry.by.principal, "somebody");
            assert!(entry.by.request_id.is_some());
            Some((entry.action, entry.on.kind, entry.on.id.unwrap_or_default()))
        }
        _ => None,
    });
    let mut told: Vec<_> = entries.collect();
    told.sort_by_key(|(action, kind, id)| (format!("{action:?}"), kind.clone(), id.clone()));
    told
}

#[tokio::test]
async fn decisions_and_deletions_are_audited_and_saves_on_request() {
    for audited in [Audited::Decisions, Audited::Saves] {
        let models = Models {
            audited,
            ..Models::default()
        };
        let host = Host::with_models(Limits::default(), Reach::Public, models).await;
        let caller = Caller::new(&host);
        caller.saved(&reviewed(ID)).await;
        caller.saved(&reviewed(ID)).await;
        let decision = json!({ "stepId": "two", "gate": "PAUSE_AFTER", "decision": "approved" });
        let decided = caller
            .post(&format!("/api/runs/{ID}/gates"), &decision)
            .await;
        assert_eq!(decided.status, 200);
        let forked = caller
            .post(
                &format!("/api/runs/{ID}/fork"),
                &json!({ "id": "run_fork" }),
            )
            .await;
        assert_eq!(forked.status, 201);
        let cancelled = caller.post("/api/runs/run_fork/cancel", &json!({})).await;
        assert_eq!(cancelled.json()["cancelled"], json!(["run_fork"]));
        for _ in 0..2 {
            let request = caller.request("DELETE", &format!("/api/runs/{ID}"));
            assert_eq!(caller.send(request).await.status, 204);
        }
        let document = |action, id: &str| (action, "document".to_owned(), id.to_owned());
        let mut expected = vec![
            document(AuditAction::DocumentDeleted, ID),
            (
                AuditAction::GateDecided,
                "gate".to_owned(),
                format!("{ID}/two/PAUSE_AFTER"),
            ),
            document(AuditAction::RunCancelled, "run_fork"),
            document(AuditAction::RunForked, "run_fork"),
        ];
        if audited == Audited::Saves {
            expected.insert(1, document(AuditAction::DocumentSaved, ID));
        }
        assert_eq!(told(&host).await, expected);
    }
}

#[tokio::test]
async fn a_text_is_found_in_events_page_by_page() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    for n in 0..7 {
        let mut body = noted(
            document(&format!("run_{n}")),
            &format!("\"Größe\" number {n}"),
        );
        body["run"]["startedAt"] = json!(format!("2027-01-15T08:00:0{n}.000Z"));
        caller.saved(&body).await;
    }
    let ids = |rows: &[Value]| -> Vec<String> {
        rows.iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&caller.list("?text=number%203").await), ["run_3"]);
    assert_eq!(caller.list("?text=%22GR%C3%96SSE").await.len(), 0);
    assert_eq!(caller.list("?text=%22gr%C3%B6%C3%9Fe%22").await.len(), 7);
    // Keys and numbers of the document are not text of an event.
    assert_eq!(caller.list("?text=stepStatus").await.len(), 0);
    let mut found = Vec::new();
    let mut path = "/api/runs?text=NUMBER&limit=3".to_owned();
    loop {
        let answer = caller.get(&path).await;
        found.extend(ids(answer.json().as_array().unwrap()));
        let link = answer.header("link").unwrap();
        let Some((before, _)) = link.split_once(">; rel=\"next\"") else {
            break;
        };
        path = before.rsplit_once('<').unwrap().1.to_owned();
    }
    assert_eq!(
        found,
        [
            "run_6", "run_5", "run_4", "run_3", "run_2", "run_1", "run_0"
        ]
    );
}

#[tokio::test]
async fn requests_that_create_are_idempotent_by_key() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&reviewed(ID)).await;
    let ask = async |path: &str, key: &str, body: &Value| {
        let request = caller.request("POST", path).header("idempotency-key", key);
        caller.send(request.json(body)).await
    };
    let fork = format!("/api/runs/{ID}/fork");
    let first = ask(&fork, "k", &json!({})).await;
    let again = ask(&fork, "k", &json!({})).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    assert_eq!(caller.list("").await.len(), 2);
    let other = ask(&fork, "k", &json!({ "tags": ["x"] })).await;
    assert!(other.status >= 400, "{}", other.status);
    // A stored error response is in the format of this face.
    let gates = format!("/api/runs/{ID}/gates");
    let unknown = json!({ "stepId": "none", "gate": "PAUSE_AFTER", "decision": "approved" });
    for _ in 0..2 {
        assert_eq!(code(&ask(&gates, "g", &unknown).await, 404), "UNKNOWN_STEP");
    }
}

//! Extensions of this server to the API.

use serde_json::{Value, json};

use super::{Caller, ID, code, document, noted, reviewed, with_event};
use crate::client::Conn;
use crate::host::Host;

#[tokio::test]
async fn every_revision_can_be_read_and_compared() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let mut documents = vec![document(ID)];
    for n in 0..5 {
        let next = noted(documents[n].clone(), &format!("note {n}"));
        documents.push(next);
    }
    for document in &documents {
        caller.saved(document).await;
    }
    for (revision, document) in documents.iter().enumerate() {
        let answer = caller
            .get(&format!("/api/runs/{ID}?revision={revision}"))
            .await;
        assert_eq!(&answer.json(), document);
    }
    let absent = caller.get(&format!("/api/runs/{ID}?revision=77")).await;
    assert_eq!(code(&absent, 404), "REVISION_NOT_FOUND");
    let path = format!("/api/runs/{ID}/compare?from=1&to=4");
    let difference = caller.get(&path).await.json();
    assert_eq!(difference["trace"]["common"], 1);
    assert_eq!(difference["trace"]["added"].as_array().unwrap().len(), 3);
    assert_eq!(difference["run"], json!({}));
    let history = caller
        .get(&format!("/api/runs/{ID}/revisions"))
        .await
        .json();
    assert_eq!(history["saves"], 6);
    assert_eq!(history["revisions"][0]["revision"], 5);
}

#[tokio::test]
async fn a_hundred_revisions_take_a_tenth_of_their_copies() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let (mut body, mut copies) = (document(ID), 0);
    let before = stored(&host).await;
    for n in 0..100 {
        let answer = json!({
            "direction": "response", "provider": "p", "model": "m", "stepId": "one",
            "usage": { "inputTokens": 100 + n, "outputTokens": n },
            "summary": format!("answer {n}: {}", "all kinds of words ".repeat(8)),
        });
        body = with_event(body, "model_io", &answer);
        copies += body.to_string().len();
        caller.saved(&body).await;
    }
    let taken = stored(&host).await - before;
    assert!(taken * 10 <= copies, "{taken} bytes of {copies}");
}

/// Bytes of all stored events.
async fn stored(host: &Host) -> usize {
    let store = host.engine.door().store();
    let (mut after, mut bytes) = (store::Position(0), 0);
    loop {
        let events = store.feed(after, 512).await.unwrap();
        let Some(last) = events.last() else {
            return bytes;
        };
        after = last.position;
        bytes += events
            .iter()
            .filter_map(|event| event.content.as_ref())
            .map(Vec::len)
            .sum::<usize>();
    }
}

#[tokio::test]
async fn a_gate_is_decided_here_and_later_saves_keep_it() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let waiting = reviewed(ID);
    caller.saved(&waiting).await;
    let inbox = caller.get("/api/gates").await.json();
    let gate = &inbox["gates"][0];
    assert_eq!(
        (&gate["runId"], &gate["stepId"]),
        (&json!(ID), &json!("two"))
    );
    assert_eq!(
        (&gate["gate"], &gate["reason"]),
        (&json!("PAUSE_AFTER"), &json!("look at it"))
    );
    let path = format!("/api/runs/{ID}/gates");
    let decision = json!({ "stepId": "two", "gate": "PAUSE_AFTER", "decision": "approved" });
    for odd in [
        json!({}),
        json!({ "stepId": "two", "gate": "X", "decision": "approved" }),
    ] {
        assert_eq!(
            code(&caller.post(&path, &odd).await, 400),
            "INVALID_REQUEST"
        );
    }
    assert_eq!(caller.post(&path, &decision).await.status, 200);
    assert_eq!(
        code(&caller.post(&path, &decision).await, 409),
        "GATE_NOT_PENDING"
    );
    assert!(
        caller.get("/api/gates").await.json()["gates"]
            .as_array()
            .unwrap()
            .is_empty()
    );

    // The browser does not know of it and saves its own state.
    let answer = caller.saved(&noted(waiting, "still here")).await;
    assert_eq!(answer.header("run-put-back"), Some("1"));
    let read = caller.read(ID).await;
    assert_eq!(read["gateState"][1][1]["after"], "approved");
    let decided = read["trace"].as_array().unwrap().iter();
    let decided = decided.filter(|event| event["type"] == "human_gate_resolved");
    assert_eq!(decided.count(), 1);
}

#[tokio::test]
async fn a_run_is_cancelled_with_its_children_and_forked() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let artifact = json!({
        "artifactKey": "text", "typeId": "t", "version": 4, "createdAt": "2027-01-15T08:00:01.000Z",
        "data": { "words": 3 },
    });
    let mut parent = with_event(
        document(ID),
        "artifact_written",
        &json!({ "artifact": artifact }),
    );
    parent["artifactsByKey"] = json!([["text", artifact]]);
    caller.saved(&parent).await;
    let order = json!({ "id": "run_fork", "forkedFromStepId": "one" });
    let forked = caller.post(&format!("/api/runs/{ID}/fork"), &order).await;
    assert_eq!(forked.status, 201);
    let again = caller.post(&format!("/api/runs/{ID}/fork"), &order).await;
    assert_eq!(code(&again, 409), "STALE_REVISION");
    let fork = caller.read("run_fork").await;
    assert_eq!(fork["run"]["context"]["parentRunIds"], json!([ID]));
    assert_eq!(fork["run"]["tags"], json!(["blue", "fork"]));
    assert_eq!(fork["artifactsByKey"][0][1]["version"], 1);
    assert_eq!(fork["artifactsByKey"][0][1]["data"], artifact["data"]);

    let mut busy = with_event(
        document("run_busy"),
        "step_started",
        &json!({ "stepId": "one" }),
    );
    busy["stepStatus"][0][1] = json!("running");
    busy["run"]["context"] = json!({ "parentRunIds": ["run_elsewhere", "run_fork"] });
    caller.saved(&busy).await;
    let (path, order) = (
        format!("/api/runs/{ID}/cancel"),
        json!({ "reason": "enough" }),
    );
    let cascade = caller.post(&path, &order).await.json();
    assert_eq!(cascade["cancelled"], json!([ID, "run_fork"]));
    assert_eq!(
        cascade["skipped"],
        json!([{ "id": "run_busy", "code": "STEP_RUNNING" }])
    );
    assert_eq!(caller.read("run_fork").await["run"]["status"], "cancelled");
    let absent = caller.post("/api/runs/run_absent/cancel", &json!({})).await;
    assert_eq!(code(&absent, 404), "RUN_NOT_FOUND");
}

#[tokio::test]
async fn a_bundle_is_exported_verified_and_imported() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&reviewed(ID)).await;
    let exported = caller.get(&format!("/api/runs/{ID}/bundle")).await;
    let mut bundle = exported.json();
    let verified = caller.post("/api/bundles/verify", &bundle).await.json();
    assert_eq!(
        (&verified["integrity"], &verified["structure"]),
        (&json!("valid"), &json!("valid"))
    );
    let deleted = caller.request("DELETE", &format!("/api/runs/{ID}"));
    caller.send(deleted).await;
    let imported = caller.post("/api/bundles", &bundle).await;
    assert_eq!(imported.status, 201);
    assert_eq!(caller.read(ID).await, reviewed(ID));
    bundle["run"]["tags"] = json!(["forged"]);
    let refused = caller.post("/api/bundles", &bundle).await;
    assert_eq!(code(&refused, 400), "INTEGRITY_MISMATCH");
    bundle.as_object_mut().unwrap().remove("integrity");
    assert_eq!(
        code(&caller.post("/api/bundles", &bundle).await, 400),
        "MISSING_INTEGRITY"
    );
    let path = "/api/bundles?verifyIntegrity=false";
    assert_eq!(caller.post(path, &bundle).await.status, 201);
    assert_eq!(caller.read(ID).await["run"]["tags"], json!(["forged"]));
}

#[tokio::test]
async fn costs_are_summed_over_runs() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    for n in 0..3 {
        let answer = json!({
            "direction": "response", "provider": "p", "model": format!("m{}", n % 2),
            "usage": { "inputTokens": 10, "outputTokens": 5 },
            "cost": { "amount": 0.1, "currency": "usd" },
        });
        let run = with_event(document(&format!("run_{n}")), "model_io", &answer);
        caller.saved(&run).await;
    }
    let costs = caller.get("/api/costs").await.json();
    assert_eq!(costs["total"]["calls"], 3);
    assert_eq!(costs["total"]["totalTokens"], 45);
    assert_eq!(costs["total"]["cost"], json!({ "USD": 0.3 }));
    let names: Vec<&Value> = costs["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| &group["name"])
        .collect();
    assert_eq!(names, ["p/m0", "p/m1"]);
    assert_eq!(
        code(&caller.get("/api/costs?by=moon").await, 400),
        "INVALID_REQUEST"
    );
}

#[tokio::test]
async fn events_are_streamed_as_they_are_saved() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let first = noted(document(ID), "first");
    caller.saved(&first).await;
    let mut conn = Conn::to(host.address).await;
    conn.send(
        &caller
            .request("GET", &format!("/api/runs/{ID}/events"))
            .bytes(),
    )
    .await;
    let (status, _) = conn.head().await.unwrap();
    assert_eq!(status, 200);
    let mut seen = String::new();
    let mut until = async |needle: &str| {
        while !seen.contains(needle) {
            let chunk = conn.chunk().await.expect("a frame");
            seen.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    until("first").await;
    let second = noted(first, "second");
    caller.saved(&second).await;
    until("second").await;
    caller.saved(&noted(document(ID), "other")).await;
    until("event: rebased").await;
    until("other").await;
    let request = caller.request("DELETE", &format!("/api/runs/{ID}"));
    caller.send(request).await;
    until("event: deleted").await;
    assert!(seen.contains("id: 2\nevent: trace\n"), "{seen}");
}

#[tokio::test]
async fn a_document_is_shown_as_a_run() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let answer = json!({
        "direction": "response", "provider": "p", "model": "m", "stepId": "one",
        "usage": { "inputTokens": 10, "outputTokens": 5 },
        "cost": { "amount": 0.25, "currency": "USD" }, "durationMs": 40,
    });
    let waiting = with_event(reviewed(ID), "model_io", &answer);
    caller.saved(&waiting).await;
    let view = caller.get(&format!("/v1/runs/{ID}")).await.json();
    assert_eq!(view["status"], "waiting-approval");
    assert_eq!(view["workflowId"], "letters");
    assert_eq!(view["nodeStates"]["one"]["status"], "completed");
    assert_eq!(view["interrupt"]["kind"], "approval");
    assert_eq!(view["interrupt"]["payload"]["title"], "look at it");
    let cost = &view["metrics"]["openwopCost"];
    assert_eq!(
        (&cost["usd"], &cost["tokens"]["input"]),
        (&json!(0.25), &json!(10))
    );
    let stream = view["runId"].as_str().unwrap();
    let by_stream = caller.get(&format!("/v1/runs/{stream}")).await.json();
    assert_eq!(by_stream, view);

    let page = caller
        .get(&format!("/v1/runs/{ID}/events/poll?timeout=1"))
        .await
        .json();
    let events = page["events"].as_array().unwrap();
    for (sequence, event) in events.iter().enumerate() {
        assert_eq!(event["sequence"], sequence);
    }
    assert_eq!(events[0]["type"], "run.started");
    assert_eq!(events[1]["type"], "runwright.document.saved");

    let mut done = with_event(
        waiting,
        "run_status_changed",
        &json!({ "status": "failed" }),
    );
    done["run"]["status"] = json!("failed");
    caller.saved(&done).await;
    let view = caller.get(&format!("/v1/runs/{ID}")).await.json();
    assert_eq!(view["status"], "failed");
    // The view no longer changes; the document still may.
    done["run"]["status"] = json!("running");
    caller.saved(&done).await;
    let view = caller.get(&format!("/v1/runs/{ID}")).await.json();
    assert_eq!(view["status"], "failed");
    assert_eq!(caller.read(ID).await["run"]["status"], "running");
}

#[tokio::test]
async fn unknown_names_in_a_query_are_refused() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    for path in [
        "/api/runs".to_owned(),
        "/api/gates".to_owned(),
        "/api/costs".to_owned(),
        format!("/api/runs/{ID}"),
        format!("/api/runs/{ID}/children"),
        format!("/api/runs/{ID}/revisions"),
        format!("/api/runs/{ID}/compare"),
    ] {
        let answer = caller.get(&format!("{path}?statuz=failed")).await;
        assert_eq!(code(&answer, 400), "VALIDATION_ERROR", "{path}");
        let error = answer.json()["error"].to_string();
        assert!(error.contains("unknown query parameter"), "{path}: {error}");
    }
    for path in [
        format!("/api/runs/{ID}/compare?fromSave=1&toSave=1"),
        format!("/api/runs/{ID}?save=1"),
        "/api/runs?limit=3&tag=a".to_owned(),
    ] {
        assert_eq!(caller.get(&path).await.status, 200, "{path}");
    }
}

//! Pausing, resuming and cancelling many, over HTTP.

use runtime::access::Scopes;
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::gates::{one, signoff};
use crate::host::{Host, chain, node};

async fn tell(host: &Host, run: &str, verb: &str, body: Value) -> Answer {
    host.post(&format!("/v1/runs/{run}:{verb}"), &body).await
}

#[tokio::test]
async fn an_immediate_pause_acts_at_once_and_restarts_the_delay() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let before = host.until(&run, |status| status == "running").await;
    assert_eq!(before["nodeStates"]["wait"]["attempts"], 1);
    let order = json!({ "drainPolicy": "immediate", "reason": "lunch" });
    let paused = tell(&host, &run, "pause", order.clone()).await;
    let body = paused.json();
    assert_eq!((paused.status, &body["status"]), (202, &json!("paused")));
    assert_eq!(body["runId"], run);
    let at = body["pausedAt"].as_str().expect("since when");
    assert_eq!(
        host.get(&format!("/v1/runs/{run}")).await.json()["status"],
        "paused"
    );
    let told = host.payload(&run, "run.paused").await;
    assert_eq!(
        (&told["reason"], &told["drainPolicy"]),
        (&json!("lunch"), &json!("immediate"))
    );

    let again = tell(&host, &run, "pause", order).await;
    assert_eq!(again.refusal(409), "already_paused");
    let details = &again.json()["details"];
    assert_eq!(
        (&details["runStatus"], &details["pausedAt"]),
        (&json!("paused"), &json!(at))
    );

    let resumed = tell(&host, &run, "resume", json!({})).await;
    let body = resumed.json();
    assert_eq!((resumed.status, &body["status"]), (202, &json!("running")));
    assert!(body["resumedAt"].is_string());
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["nodeStates"]["wait"]["attempts"], 2);
    assert_ne!(
        snapshot["nodeStates"]["wait"]["dueAt"],
        before["nodeStates"]["wait"]["dueAt"]
    );
    let again = tell(&host, &run, "resume", json!({})).await;
    assert_eq!(again.refusal(409), "not_paused");
    assert_eq!(again.json()["details"]["runStatus"], "running");
    assert_eq!(
        host.types(&run).await,
        [
            "run.started",
            "node.started",
            "run.paused",
            "run.resumed",
            "node.started"
        ]
    );
}

#[tokio::test]
async fn a_drained_pause_comes_after_work_in_flight() {
    let host = Host::new().await;
    host.add(&one("short", "core.delay", &json!({ "delayMs": 400 })))
        .await;
    let run = host.create(&json!({ "workflowId": "short" })).await;
    host.until(&run, |status| status == "running").await;
    let paused = tell(&host, &run, "pause", json!({})).await;
    assert_eq!(paused.status, 202);
    assert_eq!(paused.json().get("pausedAt"), None, "it drains");
    let snapshot = host.until(&run, |status| status == "paused").await;
    assert_eq!(snapshot["nodeStates"]["short"]["status"], "completed");
    tell(&host, &run, "resume", json!({})).await;
    assert_eq!(host.ended(&run).await["status"], "completed");
    let types = host.types(&run).await;
    let about_the_run = [
        "node.completed",
        "run.paused",
        "run.resumed",
        "run.completed",
    ];
    let seen: Vec<_> = types
        .iter()
        .filter(|of| about_the_run.contains(&of.as_str()))
        .collect();
    assert_eq!(seen, about_the_run.iter().collect::<Vec<_>>());
    for verb in ["pause", "resume"] {
        let late = tell(&host, &run, verb, json!({})).await;
        assert_eq!(late.refusal(409), "run_terminal");
        assert_eq!(late.json()["details"]["runStatus"], "completed");
    }
}

#[tokio::test]
async fn a_paused_run_keeps_its_question_and_takes_the_answer() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let paused = tell(&host, &run, "pause", json!({})).await;
    assert!(
        paused.json()["pausedAt"].is_string(),
        "what only waits keeps no pause"
    );
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(
        (&snapshot["status"], &snapshot["currentNodeId"]),
        (&json!("paused"), &json!("signoff"))
    );
    let answer = host
        .answer(&run, "signoff", json!({ "action": "accept" }))
        .await;
    assert_eq!(answer.json()["status"], "paused");
    tell(&host, &run, "resume", json!({})).await;
    assert_eq!(host.ended(&run).await["status"], "completed");
}

/// The timer of a deadline fires when the run is resumed; until then no answer is accepted.
#[tokio::test]
async fn a_paused_run_rejects_answers_after_the_deadline() {
    let host = Host::new().await;
    let config = json!({ "timeoutMs": 2_000, "timeoutAction": "reject" });
    let wait = one("short", "core.delay", &json!({ "delayMs": 2_200 }));
    host.put(&[signoff(&config), wait]).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let paused = tell(&host, &run, "pause", json!({})).await;
    assert_eq!(paused.status, 202);
    let asked = host.snapshot(&run).await["interrupt"].clone();
    host.completed(&json!({ "workflowId": "short" })).await;

    let accept = json!({ "action": "accept" });
    let late = host.answer(&run, "signoff", accept).await;
    assert_eq!(late.refusal(410), "interrupt_expired");
    let tokens = format!("/v1/runs/{run}/interrupts/signoff/tokens");
    let made = host.post(&tokens, &json!({})).await;
    assert_eq!(made.refusal(410), "interrupt_expired");
    let shown = host.snapshot(&run).await["interrupt"].clone();
    assert_eq!(shown["expiresAt"], asked["expiresAt"], "it does not move");
    tell(&host, &run, "resume", json!({})).await;
    let ended = host.ended(&run).await;
    assert_eq!(ended["error"]["code"], "interrupt_rejected", "{ended}");
    assert_ne!(ended["nodeStates"]["after"]["status"], "completed");
}

#[tokio::test]
async fn an_equal_pause_with_a_key_is_answered_again() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let path = format!("/v1/runs/{run}:pause");
    let send = || {
        let request = Request::new("POST", &path).key(&host.key);
        let request = request.header("idempotency-key", "p");
        request
            .json(&json!({ "drainPolicy": "immediate" }))
            .send(host.address)
    };
    let (first, again) = (send().await, send().await);
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.body, again.body);
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
}

#[tokio::test]
async fn orders_that_mean_nothing_are_refused() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    for body in [
        json!({ "drainPolicy": "sometime" }),
        json!({ "drainPolicy": 1 }),
        json!({ "reason": 1 }),
        json!([]),
    ] {
        let refused = tell(&host, &run, "pause", body).await;
        assert_eq!(refused.refusal(400), "validation_error");
    }
    let refused = tell(&host, "run-0", "pause", json!({ "reason": 1 })).await;
    assert_eq!(refused.refusal(404), "run_not_found");
    let encoded = format!("/v1/runs/{run}%3Apause");
    assert_eq!(host.post(&encoded, &json!({})).await.status, 202);
    assert_eq!(
        host.get(&format!("/v1/runs/{run}:pause"))
            .await
            .refusal(405),
        "method_not_allowed"
    );
}

#[tokio::test]
async fn a_cancelled_pause_ends_the_run() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    tell(&host, &run, "pause", json!({ "drainPolicy": "immediate" })).await;
    let cancelled = tell(&host, &run, "cancel", json!({})).await;
    assert_eq!(cancelled.json()["status"], "cancelled");
    assert_eq!(
        host.types(&run).await,
        [
            "run.started",
            "node.started",
            "run.paused",
            "node.cancelled",
            "run.cancelled"
        ]
    );
}

#[tokio::test]
async fn many_are_cancelled_each_by_itself() {
    let host = Host::new().await;
    let waits = host.create(&json!({ "workflowId": "waits" })).await;
    let gone = host.create(&json!({ "workflowId": "waits" })).await;
    tell(&host, &gone, "cancel", json!({})).await;
    let done = host.completed(&json!({ "workflowId": "three" })).await;
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let theirs = Request::new("POST", "/v1/runs").key(&stranger);
    let theirs = theirs
        .json(&json!({ "workflowId": "waits" }))
        .send(host.address)
        .await
        .json();
    let theirs = theirs["runId"].as_str().unwrap();
    let ids = [&waits, &gone, &done, "run-nowhere", "no id", theirs, &waits];
    let answer = host
        .post(
            "/v1/runs:bulk-cancel",
            &json!({ "runIds": ids, "reason": "all" }),
        )
        .await;
    assert_eq!(answer.status, 200);
    let results = answer.json()["results"].as_array().unwrap().clone();
    let ok: Vec<_> = results
        .iter()
        .map(|result| result["ok"].as_bool().unwrap())
        .collect();
    assert_eq!(ok, [true, true, false, false, false, false, true]);
    for (result, id) in results.iter().zip(ids) {
        assert_eq!(result["runId"], id);
    }
    let codes: Vec<_> = results[2..6]
        .iter()
        .map(|result| result["error"]["code"].as_str().unwrap())
        .collect();
    assert_eq!(
        codes,
        ["run_terminal", "not_found", "not_found", "not_found"]
    );
    assert_eq!(results[1]["status"], "cancelled");
    assert_eq!(host.ended(&waits).await["cancelReason"], "all");
    let untouched = Request::new("GET", &format!("/v1/runs/{theirs}")).key(&stranger);
    assert_eq!(
        untouched.send(host.address).await.json()["status"],
        "running"
    );

    let many: Vec<String> = (0..101).map(|n| format!("run-{n}")).collect();
    for body in [
        json!({}),
        json!({ "runIds": [] }),
        json!({ "runIds": "all" }),
        json!({ "runIds": [1] }),
        json!({ "runIds": many }),
    ] {
        let refused = host.post("/v1/runs:bulk-cancel", &body).await;
        assert_eq!(refused.refusal(400), "validation_error");
        assert_eq!(refused.json()["details"]["maxRunIds"], 100);
    }
    let long = json!({ "runIds": ["run-0"], "reason": "x".repeat(513) });
    assert_eq!(
        host.post("/v1/runs:bulk-cancel", &long).await.refusal(400),
        "validation_error"
    );
}

#[tokio::test]
async fn advertised_steering_and_questions_exist() {
    let host = Host::new().await;
    let document = Request::new("GET", "/.well-known/openwop")
        .send(host.address)
        .await
        .json();
    let policies = document["runs"]["pauseResume"]["drainPolicies"]
        .as_array()
        .unwrap()
        .clone();
    for policy in policies {
        let run = host.create(&json!({ "workflowId": "waits" })).await;
        let paused = tell(&host, &run, "pause", json!({ "drainPolicy": policy })).await;
        assert_eq!(paused.status, 202);
    }
    let nodes = [node(
        "a",
        "core.clarificationGate",
        json!({ "questions": [{ "id": "q", "question": "?" }] }),
    )];
    host.add(&chain("asks", &nodes)).await;
    let run = host.waiting(&json!({ "workflowId": "asks" })).await;
    assert!(
        document["supportedEnvelopes"]
            .as_array()
            .unwrap()
            .contains(&json!("clarification.request"))
    );
    assert_eq!(
        host.payload(&run, "interrupt.requested").await["kind"],
        "clarification"
    );
    assert_eq!(
        document["extensions"]["interrupts"]["signedCallbackTokens"],
        true
    );
    assert_eq!(host.look_by(&host.token(&run).await).await.status, 200);
}

/// Credentials come by reference; one in a wrong place is kept out of the log.
#[tokio::test]
async fn credentials_in_tags_and_reasons_do_not_reach_the_log() {
    let host = Host::new().await;
    let token = format!("ghp_{}", "x7Kq2Lm9Zt4Vb8Nc1Rw5Pf3Hd6Js0Gy2Ea4U");
    let run = host
        .create(&json!({ "workflowId": "waits", "tags": ["red", token] }))
        .await;
    host.until(&run, |status| status == "running").await;
    let reason = json!({ "reason": format!("by {token}"), "drainPolicy": "immediate" });
    assert_eq!(tell(&host, &run, "pause", reason).await.status, 202);
    let reason = json!({ "reason": format!("by {token}") });
    assert_eq!(
        tell(&host, &run, "resume", reason.clone()).await.status,
        202
    );
    tell(&host, &run, "cancel", reason).await;
    host.until(&run, |status| status == "cancelled").await;
    let tags = &host.payload(&run, "run.started").await["tags"];
    assert_eq!(tags, &json!(["red", "[REDACTED]"]));
    for kind in ["run.paused", "run.resumed", "run.cancelled"] {
        let told = host.payload(&run, kind).await;
        assert_eq!(told["reason"], "by [REDACTED]", "{kind}");
    }
}

/// While running work finishes, the run is not paused: a repeated request has the same response as
/// the first one, and the pause can be withdrawn.
#[tokio::test]
async fn a_pending_pause_can_be_repeated_and_withdrawn() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    host.until(&run, |status| status == "running").await;
    for _ in 0..2 {
        let paused = tell(&host, &run, "pause", json!({})).await;
        let body = paused.json();
        assert_eq!((paused.status, &body["status"]), (202, &json!("paused")));
        assert_eq!(body.get("pausedAt"), None, "it drains");
    }
    assert_eq!(host.snapshot(&run).await["status"], "running");
    let resumed = tell(&host, &run, "resume", json!({ "reason": "no" })).await;
    let body = resumed.json();
    assert_eq!((resumed.status, &body["status"]), (202, &json!("running")));
    assert_eq!(
        host.types(&run).await,
        [
            "run.started",
            "node.started",
            "runwright.run.draining",
            "run.resumed"
        ]
    );
    let again = tell(&host, &run, "resume", json!({})).await;
    assert_eq!(again.refusal(409), "not_paused");
    // An immediate pause overrides one that drains.
    tell(&host, &run, "pause", json!({})).await;
    let order = json!({ "drainPolicy": "immediate" });
    let paused = tell(&host, &run, "pause", order).await.json();
    assert!(paused["pausedAt"].is_string(), "{paused}");
    assert_eq!(host.snapshot(&run).await["status"], "paused");
}

#[tokio::test]
async fn an_unknown_verb_names_those_there_are() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    for verb in ["retry", "restart", "x:y"] {
        let answer = host
            .post(&format!("/v1/runs/{run}:{verb}"), &json!({}))
            .await;
        assert_eq!(answer.refusal(404), "not_found", "{verb}");
        let told = answer.json();
        let message = told["message"].as_str().expect("a message");
        assert!(message.contains(":cancel, :diff, :fork"), "{message}");
        assert!(message.contains("To repeat a run"), "{message}");
        assert_eq!(told["details"]["verbs"][0], ":cancel");
    }
    // A known verb accepts its method only, and so does a path without one.
    let answer = host.post(&format!("/v1/runs/{run}:diff"), &json!({})).await;
    assert_eq!(answer.refusal(405), "method_not_allowed");
    let answer = host.post(&format!("/v1/runs/{run}"), &json!({})).await;
    assert_eq!(answer.refusal(405), "method_not_allowed");
}

#[tokio::test]
async fn a_signal_reaches_the_node_that_waits_for_it() {
    let host = Host::new().await;
    let config = json!({
        "kind": "external-event", "data": { "eventType": "paid", "correlation": { "n": 1 } },
    });
    host.add(&one("pays", "core.interrupt", &config)).await;
    let run = host.waiting(&json!({ "workflowId": "pays" })).await;
    let shown = host.snapshot(&run).await;
    let name = shown["interrupt"]["payload"]["key"].clone();
    let early = json!({ "name": "another", "payload": { "n": 1 } });
    let refused = tell(&host, &run, "signal", early).await;
    assert_eq!(refused.status, 404, "{}", refused.json());
    let body = json!({ "name": name, "id": "once", "payload": { "n": 1 } });
    let sent = tell(&host, &run, "signal", body.clone()).await;
    assert_eq!(sent.status, 202, "{}", sent.json());
    assert_eq!(host.ended(&run).await["status"], "completed");
    let late = tell(&host, &run, "signal", body).await;
    assert_eq!(late.refusal(409), "run_terminal");
}

#[tokio::test]
async fn a_signal_answers_no_question_of_people() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "approversList": ["cfo"] })))
        .await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let shown = host.snapshot(&run).await;
    let name = shown["interrupt"]["payload"]["key"].clone();
    let body = json!({ "name": name, "payload": { "action": "accept", "voter": "cfo" } });
    let refused = tell(&host, &run, "signal", body).await;
    assert_eq!(refused.status, 404, "{}", refused.json());
    assert_eq!(host.snapshot(&run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn signals_without_a_name_are_rejected() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    for body in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": 1 }),
        json!({ "name": "go", "id": "x".repeat(257) }),
        json!({ "name": "go", "value": 1 }),
    ] {
        let refused = tell(&host, &run, "signal", body).await;
        assert_eq!(refused.refusal(400), "validation_error");
    }
}

#[tokio::test]
async fn a_run_is_purged_once_it_has_ended() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let path = format!("/v1/runs/{run}?reason=by%20request");
    let purge = || {
        let request = Request::new("DELETE", &path).key(&host.key);
        request.header("idempotency-key", "p").send(host.address)
    };
    assert_eq!(purge().await.refusal(409), "run_active");
    tell(&host, &run, "cancel", json!({})).await;
    host.engine.settled(&run.as_str().into()).await.unwrap();
    let request = || Request::new("DELETE", &path).key(&host.key);
    let request = || request().header("idempotency-key", "q").send(host.address);
    let purged = request().await;
    assert_eq!(purged.json(), json!({ "runId": run, "purged": true }));
    let again = request().await;
    assert_eq!(again.body, purged.body, "the answer is repeated");
    let gone = host.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(gone.status, 410, "{}", gone.json());
    let store = host.engine.door().store();
    let tombstone = store.tombstone(&run.as_str().into()).await.unwrap();
    assert_eq!(tombstone.expect("a tombstone").reason, "by request");
    let trail = host.trail().await;
    let entry = trail.last().expect("an entry");
    assert_eq!(
        (&entry["by"]["principal"], &entry["on"]["id"]),
        (&json!("somebody"), &json!(run))
    );
}

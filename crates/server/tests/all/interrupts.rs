//! Questions of runs, answered over HTTP.

use std::collections::BTreeSet;

use runtime::access::{Scope, Scopes};
use serde_json::{Value, json};

use crate::client::Request;
use crate::gates::{one, signoff};
use crate::host::{Host, chain, node};

fn accept() -> Value {
    json!({ "action": "accept" })
}

fn reject() -> Value {
    json!({ "action": "reject" })
}

#[tokio::test]
async fn an_accepted_gate_continues_in_protocol_order() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["status"], "waiting-approval");
    assert_eq!(snapshot["currentNodeId"], "signoff");
    assert_eq!(snapshot["interrupt"]["kind"], "approval");
    assert_eq!(
        snapshot["interrupt"]["payload"]["data"]["title"],
        "Ship it?"
    );
    let open = host.get(&format!("/v1/runs/{run}/interrupts")).await.json();
    assert_eq!(open["interrupts"], snapshot["interrupts"]);

    let answer = host.answer(&run, "signoff", accept()).await;
    let body = answer.json();
    assert_eq!(answer.status, 200, "{body}");
    assert_eq!(
        (&body["runId"], &body["nodeId"]),
        (&json!(run), &json!("signoff"))
    );
    assert_eq!(host.ended(&run).await["status"], "completed");
    assert_eq!(
        host.types(&run).await,
        [
            "run.started",
            "node.started",
            "interrupt.requested",
            "approval.requested",
            "node.suspended",
            "interrupt.resolved",
            "approval.received",
            "node.resumed",
            "node.completed",
            "node.started",
            "node.completed",
            "run.completed",
        ]
    );
    let received = host.payload(&run, "approval.received").await;
    assert_eq!(received["decidedBy"], "somebody", "whoever the key is of");
    let resolved = host.payload(&run, "interrupt.resolved").await;
    assert_eq!(resolved["resolvedBy"], "somebody");
    assert_eq!(resolved["runId"], run.as_str());
    let events = host.events(&run).await;
    let event = events
        .iter()
        .find(|event| event["type"] == "interrupt.resolved");
    assert_eq!(resolved["resolvedAt"], event.unwrap()["timestamp"]);

    let again = host.answer(&run, "signoff", reject()).await;
    assert_eq!(again.refusal(409), "interrupt_already_resolved");
    let open = host.get(&format!("/v1/runs/{run}/interrupts")).await.json();
    assert_eq!(open["interrupts"], json!([]));
}

#[tokio::test]
async fn an_answer_is_checked_when_a_node_waits_for_it() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let path = |node: &str| format!("/v1/runs/{run}/interrupts/{node}");
    for (node, status, code) in [
        ("signoff", 400, "validation_error"),
        ("after", 404, "interrupt_not_found"),
        ("nowhere", 404, "interrupt_not_found"),
    ] {
        for body in [
            json!({}),
            json!({ "resumeValue": accept(), "more": 1 }),
            json!({ "resumeValue": { "action": "explode" } }),
            json!({ "resumeValue": "yes" }),
        ] {
            let answer = host.post(&path(node), &body).await;
            assert_eq!(answer.refusal(status), code, "{node} {body}");
        }
    }
    let secret = host
        .answer(&run, "signoff", json!({ "action": "sk-not-repeated" }))
        .await;
    assert!(!String::from_utf8_lossy(&secret.body).contains("sk-not"));
    assert_eq!(host.types(&run).await.len(), 5, "a refusal writes nothing");
    assert_eq!(host.answer(&run, "signoff", accept()).await.status, 200);
}

#[tokio::test]
async fn a_rejection_ends_the_run_unless_an_edge_follows_it() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let answer = host.answer(&run, "signoff", reject()).await;
    assert_eq!(
        (answer.status, &answer.json()["status"]),
        (200, &json!("failed"))
    );
    let snapshot = host.ended(&run).await;
    assert_eq!(snapshot["error"]["code"], "interrupt_rejected");

    let nodes = [
        node("review", "core.approvalGate", json!({})),
        node("done", "core.noop", json!({})),
        node("told", "core.noop", json!({})),
    ];
    let mut routed = chain("routed", &nodes);
    let edge = |id: &str, from: &str, port: &str, to: &str| json!({ "id": id, "sourceNodeId": from, "sourceOutput": port, "targetNodeId": to });
    routed["edges"] = json!([
        edge("a", "review", "accept", "done"),
        edge("b", "review", "reject", "told"),
    ]);
    host.add(&routed).await;
    let run = host.waiting(&json!({ "workflowId": "routed" })).await;
    let mut value = reject();
    value["feedback"] = json!("not yet");
    host.answer(&run, "review", value).await;
    let snapshot = host.ended(&run).await;
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(snapshot["nodeStates"]["told"]["status"], "completed");
    assert_eq!(snapshot["nodeStates"]["done"]["status"], "skipped");
    let outputs = &snapshot["nodeStates"]["review"]["outputs"];
    assert_eq!(
        (&outputs["action"], &outputs["feedback"]),
        (&json!("reject"), &json!("not yet"))
    );
}

/// The idempotency keys of a run's questions.
async fn keys(host: &Host, run: &str) -> Vec<Value> {
    let events = host.events(run).await;
    let asked = events
        .iter()
        .filter(|event| event["type"] == "interrupt.requested");
    asked.map(|event| event["payload"]["key"].clone()).collect()
}

#[tokio::test]
async fn a_key_that_two_nodes_have_is_counted() {
    let host = Host::new().await;
    let asks = |id: &str| {
        node(
            id,
            "core.interrupt",
            json!({ "kind": "custom", "key": "same" }),
        )
    };
    host.put(&[chain("twice", &[asks("one"), asks("two")])])
        .await;
    let run = host.waiting(&json!({ "workflowId": "twice" })).await;
    host.settle(&run, json!(1)).await;
    host.until(&run, |status| status != "running").await;
    assert_eq!(keys(&host, &run).await, ["same", "same:2"]);
    host.settle(&run, json!(2)).await;
    assert_eq!(host.ended(&run).await["status"], "completed");
}

#[tokio::test]
async fn a_refinement_needs_feedback_and_an_edit_its_data() {
    let host = Host::new().await;
    let actions = json!(["accept", "refine", "edit-accept"]);
    host.add(&signoff(
        &json!({ "actions": actions, "artifactData": "draft" }),
    ))
    .await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    for value in [
        json!({ "action": "refine" }),
        json!({ "action": "refine", "feedback": "shorter" }),
        json!({ "action": "edit-accept" }),
    ] {
        let answer = host.answer(&run, "signoff", value).await;
        assert_eq!(answer.refusal(400), "validation_error");
    }
    // Without an edge for it a refinement leads back to the gate, which asks once more.
    let before = host.token(&run).await;
    let feedback = json!({ "scope": "whole", "text": "shorter" });
    let value = json!({ "action": "refine", "refineFeedback": feedback });
    let answer = host.answer(&run, "signoff", value).await;
    assert_eq!(answer.json()["status"], "waiting-approval");
    let received = host.payload(&run, "approval.received").await;
    assert_eq!(received["refineFeedback"], feedback);
    assert_eq!(keys(&host, &run).await, ["signoff", "signoff:2"]);
    let open = host.snapshot(&run).await["interrupt"].clone();
    assert_eq!(open["payload"]["key"], "signoff:2");
    assert_eq!(
        host.answer_by(&before, accept()).await.refusal(409),
        "interrupt_already_resolved"
    );

    let value = json!({ "action": "edit-accept", "editedArtifactData": { "text": "better" } });
    host.answer(&run, "signoff", value).await;
    let snapshot = host.ended(&run).await;
    let outputs = &snapshot["nodeStates"]["signoff"]["outputs"];
    assert_eq!(outputs["artifactData"], json!({ "text": "better" }));
}

#[tokio::test]
async fn questions_are_answered_in_either_form_and_by_their_schemas() {
    let host = Host::new().await;
    let questions = json!([
        { "id": "colour", "question": "Which colour?", "schema": { "enum": ["blue", "red"] } },
        { "id": "why", "question": "Why?" },
    ]);
    host.add(&one(
        "asks",
        "core.clarificationGate",
        &json!({ "questions": questions }),
    ))
    .await;
    for answers in [
        json!({ "colour": "blue", "why": "sky" }),
        json!([{ "id": "colour", "answer": "blue" }, { "id": "why", "answer": "sky" }]),
    ] {
        let run = host.waiting(&json!({ "workflowId": "asks" })).await;
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        assert_eq!(snapshot["status"], "waiting-input");
        for wrong in [
            json!({ "answers": { "colour": "blue" } }),
            json!({ "answers": { "colour": "green", "why": "" } }),
            json!({}),
        ] {
            let answer = host.answer(&run, "asks", wrong).await;
            assert_eq!(answer.refusal(400), "validation_error");
        }
        let answer = host
            .answer(&run, "asks", json!({ "answers": answers }))
            .await;
        assert_eq!(answer.status, 200);
        assert_eq!(host.ended(&run).await["status"], "completed");
        let types = host.types(&run).await;
        let of_the_kind = types[5..8].to_vec();
        assert_eq!(
            of_the_kind,
            [
                "interrupt.resolved",
                "clarification.resolved",
                "node.resumed"
            ]
        );
        let resolved = host.payload(&run, "clarification.resolved").await;
        assert_eq!(
            resolved["answers"],
            json!({ "colour": "blue", "why": "sky" })
        );
        assert_eq!(resolved["answeredBy"], "somebody");
    }
}

#[tokio::test]
async fn a_general_question_of_gate_kind_is_answered_like_a_gate() {
    let host = Host::new().await;
    let question = json!({ "id": "n", "question": "How many?", "schema": { "type": "integer" } });
    for (kind, data, status, wrong, right) in [
        (
            "approval",
            json!({ "title": "May it?", "actions": ["accept", "reject"] }),
            "waiting-approval",
            json!({ "action": "dance" }),
            accept(),
        ),
        (
            "clarification",
            json!({ "questions": [question] }),
            "waiting-input",
            json!({ "answers": { "n": "many" } }),
            json!({ "answers": { "n": 3 } }),
        ),
    ] {
        let config = json!({ "kind": kind, "data": data });
        host.add(&one(&format!("asks-{kind}"), "core.interrupt", &config))
            .await;
        let order = json!({ "workflowId": format!("asks-{kind}") });
        let run = host.waiting(&order).await;
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        assert_eq!(snapshot["status"], status, "{snapshot}");
        let node = snapshot["currentNodeId"].as_str().unwrap().to_owned();
        let answer = host.answer(&run, &node, wrong).await;
        assert_eq!(answer.refusal(400), "validation_error", "{kind}");
        let answer = host.answer(&run, &node, right).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        assert_eq!(host.ended(&run).await["status"], "completed");
        let types = host.types(&run).await;
        for told in [
            format!("{kind}.requested"),
            match kind {
                "approval" => "approval.received".to_owned(),
                _ => "clarification.resolved".to_owned(),
            },
        ] {
            assert!(types.contains(&told), "{told} in {types:?}");
        }
        crate::schemas::check_log(&host, &run).await;
    }
}

#[tokio::test]
async fn questions_have_the_protocol_shape() {
    let host = Host::new().await;
    let event = json!({ "eventType": "paid", "correlation": { "order": "o-7" } });
    for (n, config) in [
        json!({}),
        json!({ "data": { "customKind": "vote", "payload": { "of": 3 } } }),
        json!({ "kind": "external-event", "data": event }),
        json!({ "kind": "approval" }),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("asks-{n}");
        let answer = host
            .post("/v1/workflows", &one(&id, "core.interrupt", &config))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        let run = host.waiting(&json!({ "workflowId": id })).await;
        let shown = host.look_by(&host.token(&run).await).await.json();
        let asked = host.payload(&run, "interrupt.requested").await;
        crate::schemas::check_question(&shown);
        crate::schemas::check_question(&asked);
        let cancelled = host
            .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
            .await;
        assert_eq!(cancelled.status, 200);
        host.ended(&run).await;
        crate::schemas::check_log(&host, &run).await;
    }
    for config in [
        json!({ "kind": "zap" }),
        json!({ "kind": "external-event", "data": { "eventType": "paid" } }),
    ] {
        let odd = one("odd", "core.interrupt", &config);
        let answer = host.post("/v1/workflows", &odd).await;
        assert_eq!(answer.refusal(400), "validation_error", "{config}");
    }
}

#[tokio::test]
async fn an_event_from_outside_has_to_be_the_one_that_is_waited_for() {
    let host = Host::new().await;
    let config = json!({
        "kind": "external-event", "timeoutMs": 60_000,
        "data": { "eventType": "paid", "correlation": { "order": "o-7", "state": { "paid": true } } },
    });
    host.add(&one("pays", "core.interrupt", &config)).await;
    for by_token in [true, false] {
        let run = host.waiting(&json!({ "workflowId": "pays" })).await;
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        assert_eq!(snapshot["status"], "waiting-external");
        let token = host.token(&run).await;
        let send = async |value: Value| {
            if by_token {
                host.answer_by(&token, value).await
            } else {
                host.answer(&run, "pays", value).await
            }
        };
        for wrong in [
            json!({ "order": "o-8", "state": { "paid": true } }),
            json!({ "order": "o-7" }),
            json!({ "order": "o-7", "state": { "paid": 1 } }),
        ] {
            assert_eq!(send(wrong).await.refusal(422), "correlation_mismatch");
        }
        let event = json!({ "order": "o-7", "state": { "paid": true }, "amount": 5 });
        let event = if by_token {
            event
        } else {
            json!({ "eventPayload": event })
        };
        assert_eq!(send(event.clone()).await.status, 200);
        assert_eq!(send(event).await.refusal(409), "interrupt_already_resolved");
        assert_eq!(host.ended(&run).await["status"], "completed");
    }
}

#[tokio::test]
async fn an_answer_fits_the_schema_that_the_question_names() {
    let host = Host::new().await;
    let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
    let config = json!({ "kind": "custom", "resumeSchema": schema });
    host.add(&one("typed", "core.interrupt", &config)).await;
    let run = host.waiting(&json!({ "workflowId": "typed" })).await;
    for wrong in [json!(1), json!({}), json!({ "n": "1" })] {
        let answer = host.answer(&run, "typed", wrong).await;
        assert_eq!(answer.refusal(400), "validation_error");
    }
    assert_eq!(
        host.answer(&run, "typed", json!({ "n": 1 })).await.status,
        200
    );
}

#[tokio::test]
async fn a_gate_for_several_counts_each_voter_once() {
    let host = Host::new().await;
    host.add(&signoff(
        &json!({ "requiredApprovals": 3, "rejectionPolicy": "majority" }),
    ))
    .await;
    let vote = |action: &str, voter: &str| json!({ "action": action, "voter": voter });
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    // A credential that may answer on behalf of others forwards people's votes.
    for (voter, granted) in [("ada", 1), ("bob", 2), ("bob", 2)] {
        let answer = host.answer(&run, "signoff", vote("accept", voter)).await;
        let status = answer.json()["status"].clone();
        assert_eq!((answer.status, status), (200, json!("waiting-approval")));
        let events = host.events(&run).await;
        let cast: Vec<_> = events
            .iter()
            .filter(|event| event["type"] == "approval.granted")
            .collect();
        assert_eq!(cast.len(), granted);
        let last = &cast.last().unwrap()["payload"];
        assert_eq!(last["principal"], voter);
        assert_eq!(
            last["quorumProgress"],
            json!({ "granted": granted, "required": 3 })
        );
    }
    let changed = host.answer(&run, "signoff", vote("reject", "bob")).await;
    assert_eq!(changed.refusal(409), "already_voted");
    let answer = host.answer(&run, "signoff", vote("accept", "cleo")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(host.ended(&run).await["status"], "completed");
    let received = host.payload(&run, "approval.received").await;
    assert_eq!(received["decidedBy"], "cleo");
    let resolved = host.payload(&run, "interrupt.resolved").await;
    assert_eq!(
        resolved["resolvedBy"], "somebody",
        "who handed the last vote on"
    );

    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    host.answer(&run, "signoff", vote("reject", "ada")).await;
    let answer = host.answer(&run, "signoff", vote("reject", "bob")).await;
    assert_eq!(answer.json()["status"], "failed");

    // Without that right callers answer in their own name only.
    let only = Scopes::Only(BTreeSet::from([Scope::ApprovalsRespond]));
    let key = host.key_of("acme", None, only).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    for voter in ["ada", "bob", "cleo"] {
        let answer = host
            .answer_as(&key, &run, "signoff", vote("accept", voter))
            .await;
        assert_eq!(answer.refusal(403), "insufficient_scope");
    }
    for _ in 0..3 {
        let own = vote("accept", "somebody");
        let answer = host.answer_as(&key, &run, "signoff", own).await;
        assert_eq!(answer.json()["status"], "waiting-approval");
    }
    assert_eq!(
        host.payload(&run, "approval.granted").await["principal"],
        "somebody"
    );
}

#[tokio::test]
async fn one_veto_rejects_by_default() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "requiredApprovals": 3 }))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let answer = host.answer(&run, "signoff", reject()).await;
    assert_eq!(answer.json()["status"], "failed");
}

#[tokio::test]
async fn only_those_a_gate_lists_may_answer_it() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "approversList": ["ada"] })))
        .await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    assert_eq!(
        host.answer(&run, "signoff", accept()).await.refusal(403),
        "not_an_approver"
    );
    let mine = host.token(&run).await;
    assert_eq!(
        host.answer_by(&mine, accept()).await.refusal(403),
        "not_an_approver"
    );
    let for_ada = json!({ "subject": "ada" });
    let made = host
        .post(
            &format!("/v1/runs/{run}/interrupts/signoff/tokens"),
            &for_ada,
        )
        .await;
    assert_eq!(made.status, 201);
    let hers = made.json()["interruptToken"].as_str().unwrap().to_owned();
    assert_eq!(host.answer_by(&hers, accept()).await.status, 200);
    host.ended(&run).await;
    assert_eq!(
        host.payload(&run, "approval.received").await["decidedBy"],
        "ada"
    );
}

#[tokio::test]
async fn a_cancelled_run_takes_no_answer() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let token = host.token(&run).await;
    let cancelled = host
        .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    assert_eq!(cancelled.json()["status"], "cancelled");
    let late = host.answer(&run, "signoff", accept()).await;
    assert_eq!(late.refusal(422), "interrupt_cancelled");
    assert_eq!(
        host.answer_by(&token, accept()).await.refusal(409),
        "interrupt_already_resolved"
    );
    assert_eq!(
        host.look_by(&token).await.refusal(409),
        "interrupt_already_resolved"
    );
    assert_eq!(
        host.answer(&run, "after", accept()).await.refusal(404),
        "interrupt_not_found"
    );
}

#[tokio::test]
async fn a_parents_cancellation_takes_the_question_of_its_child_away() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    host.add(&one(
        "above",
        "core.subWorkflow",
        &json!({ "workflowId": "signoff" }),
    ))
    .await;
    let parent = host.create(&json!({ "workflowId": "above" })).await;
    let child = loop {
        let runs = host
            .get(&format!("/v1/runs?parentRunId={parent}"))
            .await
            .json();
        if let Some(child) = runs["runs"][0]["runId"].as_str() {
            break child.to_owned();
        }
    };
    host.until(&child, |status| status == "waiting-approval")
        .await;
    let token = host.token(&child).await;
    host.post(&format!("/v1/runs/{parent}/cancel"), &json!({}))
        .await;
    let snapshot = host.ended(&child).await;
    assert_eq!(snapshot["status"], "cancelled");
    let told = host.payload(&child, "run.cancelled").await;
    assert_eq!(
        (&told["reason"], &told["parentRunId"]),
        (&json!("parent-cancelled"), &json!(parent))
    );
    let late = host.answer(&child, "signoff", accept()).await;
    assert_eq!(late.refusal(410), "interrupt_gone");
    assert_eq!(
        host.answer_by(&token, accept()).await.refusal(410),
        "interrupt_gone"
    );
}

#[tokio::test]
async fn an_unanswered_gate_takes_its_configured_action() {
    let host = Host::new().await;
    for (action, status, port) in [
        ("fail", "failed", None),
        ("accept", "completed", Some("accept")),
        ("reject", "completed", Some("reject")),
    ] {
        let id = format!("late-{action}");
        let config = json!({ "timeoutMs": 1, "timeoutAction": action });
        let mut late = signoff(&config);
        late["id"] = json!(id);
        let told = node("told", "core.noop", json!({}));
        late["nodes"].as_array_mut().unwrap().push(told);
        let edge = json!({
            "id": "r", "sourceNodeId": "signoff", "sourceOutput": "reject", "targetNodeId": "told",
        });
        late["edges"].as_array_mut().unwrap().push(edge);
        host.add(&late).await;
        let run = host.create(&json!({ "workflowId": id })).await;
        let snapshot = host.ended(&run).await;
        assert_eq!(snapshot["status"], status);
        let received = host.payload(&run, "approval.received").await;
        assert_eq!(received["action"], "timeout");
        assert_eq!(received["decidedBy"], "host:timeout");
        let types = host.types(&run).await;
        let from = types.iter().position(|of| of == "node.suspended").unwrap() + 1;
        let state = &snapshot["nodeStates"]["signoff"];
        match port {
            Some(port) => {
                assert_eq!(
                    types[from..from + 4],
                    [
                        "interrupt.resolved",
                        "approval.received",
                        "node.resumed",
                        "node.completed"
                    ]
                );
                assert_eq!(state["port"], port);
            }
            None => {
                let ending = ["approval.received", "node.failed", "run.failed"];
                assert_eq!(types[from..], ending);
                assert_eq!(state["error"]["code"], "interrupt_expired");
            }
        }
        let late = host.answer(&run, "signoff", accept()).await;
        assert_eq!(late.refusal(410), "interrupt_expired", "{action}");
    }
    let config = json!({ "kind": "custom", "timeoutMs": 1 });
    host.add(&one("plain", "core.interrupt", &config)).await;
    let run = host.create(&json!({ "workflowId": "plain" })).await;
    assert_eq!(host.ended(&run).await["error"]["code"], "interrupt_expired");
    assert_eq!(
        host.answer(&run, "plain", json!(1)).await.refusal(410),
        "interrupt_expired"
    );
}

#[tokio::test]
async fn a_run_that_waits_keeps_its_tag_until_it_is_answered() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let path = format!("/v1/runs/{run}");
    let first = host.get(&path).await;
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(first.header("cache-control"), Some("private, no-cache"));
    let known = Request::new("GET", &path)
        .key(&host.key)
        .header("if-none-match", &tag);
    let known = known.send(host.address).await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    assert_eq!(host.get(&path).await.body, first.body);
    // A caller who may not answer sees no token, and has another tag.
    let only = Scopes::Only(BTreeSet::from([Scope::RunsRead]));
    let reader = host.key_of("acme", None, only).await;
    let read = Request::new("GET", &path)
        .key(&reader)
        .send(host.address)
        .await;
    assert_ne!(read.header("etag"), Some(tag.as_str()));
    assert_eq!(read.json()["interrupt"]["kind"], "approval");
    assert!(
        !String::from_utf8_lossy(&read.body).contains("oken"),
        "no token"
    );
    host.answer(&run, "signoff", accept()).await;
    host.ended(&run).await;
    let last = host.get(&path).await;
    assert_ne!(last.header("etag"), Some(tag.as_str()));
    assert_eq!(last.header("etag"), host.get(&path).await.header("etag"));
}

#[tokio::test]
async fn an_equal_answer_with_a_key_is_answered_again() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let path = format!("/v1/runs/{run}/interrupts/signoff");
    let send = || {
        let request = Request::new("POST", &path).key(&host.key);
        let request = request.header("idempotency-key", "k");
        request
            .json(&json!({ "resumeValue": accept() }))
            .send(host.address)
    };
    let (first, again) = (send().await, send().await);
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.body, again.body);
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
}

#[tokio::test]
async fn failed_node_and_task_questions_have_the_shape_of_their_kind() {
    let host = Host::new().await;
    let long = "n".repeat(128);
    let mut fails = node(
        &long,
        "runwright.transform",
        json!({ "outputs": { "x": "1 / 0" } }),
    );
    fails["settings"] = json!({ "onFailure": "ask" });
    let task = json!({ "queue": "q", "repeat": "once" });
    host.put(&[
        chain("careful", &[fails]),
        one("hands-out", "runwright.worker", &task),
    ])
    .await;
    let run = host.waiting(&json!({ "workflowId": "careful" })).await;
    let snapshot = host.snapshot(&run).await;
    let asked = &snapshot["interrupt"]["payload"];
    assert_eq!(asked["data"]["customKind"], "node-failed", "{snapshot}");
    let about = &asked["data"]["payload"];
    assert_eq!(about["actions"], json!(["retry", "skip", "abort"]));
    assert!(about["error"]["code"].is_string(), "{about}");
    crate::schemas::check_question(asked);
    let token = snapshot["interrupt"]["interruptToken"].as_str().unwrap();
    let shown = host.get(&format!("/v1/interrupts/{token}")).await.json();
    assert_eq!(shown["data"], asked["data"]);
    crate::schemas::check_question(&shown);
    let event = host.payload(&run, "interrupt.requested").await;
    assert_eq!(event["data"], asked["data"]);
    let skip = host.answer(&run, &long, json!({ "action": "skip" })).await;
    assert_eq!(skip.status, 200, "{}", skip.json());
    assert_eq!(host.ended(&run).await["status"], "completed");
    crate::schemas::check_log(&host, &run).await;

    let run = host.waiting(&json!({ "workflowId": "hands-out" })).await;
    let snapshot = host.snapshot(&run).await;
    let data = &snapshot["interrupt"]["payload"]["data"];
    assert_eq!(data["eventType"], "runwright.worker.result", "{snapshot}");
    assert_eq!(data["correlation"]["queue"], "q");
    crate::schemas::check_question(&snapshot["interrupt"]["payload"]);
    let cancel = format!("/v1/runs/{run}/cancel");
    assert_eq!(host.post(&cancel, &json!({})).await.status, 200);
    host.engine.settled(&run.as_str().into()).await.unwrap();
    crate::schemas::check_log(&host, &run).await;
}

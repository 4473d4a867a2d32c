//! Tokens that answer, or show, one question of one run.

use std::collections::BTreeSet;

use runtime::access::{Scope, Scopes};
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::gates::signoff;
use crate::host::Host;

fn accept() -> Value {
    json!({ "action": "accept" })
}

async fn asked(config: &Value) -> (Host, String) {
    let host = Host::new().await;
    host.add(&signoff(config)).await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    (host, run)
}

async fn made(host: &Host, run: &str, order: Value) -> String {
    let path = format!("/v1/runs/{run}/interrupts/signoff/tokens");
    let answer = host.post(&path, &order).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    let body = answer.json();
    let token = body["interruptToken"].as_str().unwrap();
    assert_eq!(body["callbackUrl"], format!("/v1/interrupts/{token}"));
    token.to_owned()
}

#[tokio::test]
async fn a_token_shows_the_question_and_answers_it_once() {
    let (host, run) = asked(&json!({ "title": "Ship it?" })).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    let token = host.token(&run).await;
    let interrupt = &snapshot["interrupt"];
    assert_eq!(interrupt["callbackUrl"], format!("/v1/interrupts/{token}"));
    let shown = host.look_by(&token).await.json();
    for field in ["kind", "key", "data"] {
        assert_eq!(shown[field], interrupt["payload"][field], "{field}");
    }
    assert_eq!(shown["requestedAt"], interrupt["requestedAt"]);
    let wrong = host.answer_by(&token, json!({ "action": "explode" })).await;
    assert_eq!(wrong.refusal(400), "validation_error");
    let answer = host.answer_by(&token, accept()).await;
    let body = answer.json();
    assert_eq!((answer.status, &body["runId"]), (200, &json!(run)));
    assert_eq!(body["nodeId"], "signoff");
    assert_eq!(host.ended(&run).await["status"], "completed");
    let received = host.payload(&run, "approval.received").await;
    assert_eq!(
        received["decidedBy"], "somebody",
        "to whom the token was shown"
    );
    let again = host.answer_by(&token, accept()).await;
    assert_eq!(again.refusal(409), "interrupt_already_resolved");
    // The log does not contain it.
    for event in host.events(&run).await {
        assert!(!event.to_string().contains(&token[..40]), "{event}");
    }
}

#[tokio::test]
async fn an_invalid_token_opens_nothing_with_any_body() {
    let (host, run) = asked(&json!({})).await;
    let token = host.token(&run).await;
    let (claim, mac) = token.split_once('.').unwrap();
    let (other, its) = asked(&json!({})).await;
    let foreign = other.token(&its).await;
    let (foreign_claim, _) = foreign.split_once('.').unwrap();
    for forged in [
        "nothing".to_owned(),
        claim.to_owned(),
        format!("{claim}.{}", "A".repeat(mac.len())),
        format!("{foreign_claim}.{mac}"),
        foreign.clone(),
        format!("{token}x"),
        "x".repeat(5_000),
    ] {
        let path = format!("/v1/interrupts/{forged}");
        assert_eq!(
            host.look_by(&forged).await.refusal(404),
            "interrupt_not_found"
        );
        for body in [&b"{"[..], b"", br#"{"resumeValue":{"action":"accept"}}"#] {
            let request = Request::new("POST", &path).body("application/json", body.to_vec());
            let answer = request.send(host.address).await;
            assert_eq!(answer.refusal(404), "interrupt_not_found");
        }
    }
    assert_eq!(host.types(&run).await.len(), 5);
    let nothing = Request::new("POST", &format!("/v1/interrupts/{token}"));
    assert_eq!(
        nothing.send(host.address).await.refusal(400),
        "validation_error"
    );
}

#[tokio::test]
async fn a_token_expires_and_never_after_its_question() {
    let (host, run) = asked(&json!({ "timeoutMs": 3_600_000 })).await;
    let token = made(&host, &run, json!({ "expiresInMs": 1 })).await;
    let code = loop {
        let looked = host.look_by(&token).await;
        if looked.status != 200 {
            break looked.refusal(410);
        }
    };
    assert_eq!(code, "interrupt_expired");
    assert_eq!(
        host.answer_by(&token, accept()).await.refusal(410),
        "interrupt_expired"
    );
    let path = format!("/v1/runs/{run}/interrupts/signoff/tokens");
    let week = host
        .post(&path, &json!({ "expiresInMs": 604_800_000 }))
        .await
        .json();
    let open = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(week["expiresAt"], open["interrupt"]["expiresAt"]);
    for wrong in [
        json!({ "intent": "steal" }),
        json!({ "subject": "" }),
        json!({ "expiresInMs": 0 }),
        json!({ "expiresInMs": "soon" }),
        json!({ "more": 1 }),
    ] {
        assert_eq!(
            host.post(&path, &wrong).await.refusal(400),
            "validation_error",
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_token_for_looking_answers_nothing() {
    let (host, run) = asked(&json!({})).await;
    let token = made(&host, &run, json!({ "intent": "inspect" })).await;
    assert_eq!(host.look_by(&token).await.status, 200);
    assert_eq!(
        host.answer_by(&token, accept()).await.refusal(403),
        "forbidden"
    );
    assert_eq!(host.answer(&run, "signoff", accept()).await.status, 200);
    assert_eq!(
        host.look_by(&token).await.refusal(409),
        "interrupt_already_resolved"
    );
}

#[tokio::test]
async fn a_gate_for_people_known_by_name_takes_no_token() {
    let profile = json!({ "profile": "openwop-interrupt-auth-required" });
    let (host, run) = asked(&profile).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["interrupt"].get("interruptToken"), None);
    assert_eq!(snapshot["interrupt"].get("callbackUrl"), None);
    let path = format!("/v1/runs/{run}/interrupts/signoff");
    let tokens = format!("{path}/tokens");
    let refused = host.post(&tokens, &json!({})).await;
    assert_eq!(refused.refusal(403), "auth_elevation_required");
    let looking = made(&host, &run, json!({ "intent": "inspect" })).await;
    assert_eq!(host.look_by(&looking).await.status, 200);
    assert_eq!(host.answer_by(&looking, accept()).await.status, 403);

    let body = json!({ "resumeValue": accept() });
    let nobody = Request::new("POST", &path)
        .json(&body)
        .send(host.address)
        .await;
    assert_eq!(nobody.refusal(401), "unauthenticated");
    let low = Scopes::Only(BTreeSet::from([Scope::RunsRead]));
    let low = host.key_of("acme", None, low).await;
    let refused = host.answer_as(&low, &run, "signoff", accept()).await;
    assert_eq!(refused.refusal(403), "insufficient_scope");
    assert_eq!(host.answer(&run, "signoff", accept()).await.status, 200);
}

#[tokio::test]
async fn a_token_for_another_principal_needs_the_right() {
    let (host, run) = asked(&json!({ "requiredApprovals": 2 })).await;
    let only = Scopes::Only(BTreeSet::from([Scope::ApprovalsRespond]));
    let key = host.key_of("acme", None, only).await;
    let path = format!("/v1/runs/{run}/interrupts/signoff/tokens");
    let order = |subject: &str| {
        let request = Request::new("POST", &path).key(&key);
        request
            .json(&json!({ "subject": subject }))
            .send(host.address)
    };
    let refused = order("ada").await;
    assert_eq!(refused.refusal(403), "insufficient_scope");
    assert_eq!(
        refused.json()["details"]["requiredScope"],
        "approvals:delegate"
    );
    let own = order("somebody").await.json();
    let own = own["interruptToken"].as_str().unwrap();
    // The holder of a token has one vote, and casts it in their own name.
    for field in ["voter", "decidedBy"] {
        let named = |name: &str| {
            let mut answer = accept();
            answer[field] = json!(name);
            answer
        };
        let by_token = host.answer_by(own, named("ada")).await;
        assert_eq!(by_token.refusal(403), "forbidden", "{field}");
        let by_key = host.answer_as(&key, &run, "signoff", named("ada")).await;
        assert_eq!(by_key.refusal(403), "insufficient_scope", "{field}");
        let needs = &by_key.json()["details"]["requiredScope"];
        assert_eq!(needs, "approvals:delegate");
        for unreadable in ["x".repeat(300), "a\u{7}".to_owned()] {
            let refused = host.answer_by(own, named(&unreadable)).await;
            assert_eq!(refused.refusal(400), "validation_error", "{field}");
        }
        let types = host.types(&run).await;
        assert!(!types.contains(&"approval.granted".to_owned()) || field == "decidedBy");
        let answer = host.answer_by(own, named("somebody")).await;
        assert_eq!(answer.json()["status"], "waiting-approval");
    }
    assert_eq!(
        host.payload(&run, "approval.granted").await["principal"],
        "somebody"
    );
}

async fn with_key(host: &Host, token: &str, key: &str, value: &Value) -> Answer {
    let request = Request::new("POST", &format!("/v1/interrupts/{token}"));
    let request = request.header("idempotency-key", key);
    let request = request.json(&json!({ "resumeValue": value }));
    request.send(host.address).await
}

#[tokio::test]
async fn an_answer_by_token_with_a_key_is_answered_again() {
    let (host, run) = asked(&json!({ "requiredApprovals": 2 })).await;
    let ada = made(&host, &run, json!({ "subject": "ada" })).await;
    let bob = made(&host, &run, json!({ "subject": "bob" })).await;
    // An invalid answer leaves the key free.
    let wrong = with_key(&host, &ada, "k-1", &json!({ "action": "explode" })).await;
    assert_eq!(wrong.refusal(400), "validation_error");
    let first = with_key(&host, &ada, "k-1", &accept()).await;
    assert_eq!(first.status, 200, "{}", first.json());
    let replay = "openwop-idempotent-replay";
    assert_eq!(first.header(replay), Some("false"));
    // The same question, another token of the same subject.
    let other = made(&host, &run, json!({ "subject": "ada" })).await;
    for token in [&ada, &other] {
        let again = with_key(&host, token, "k-1", &accept()).await;
        assert_eq!((again.status, again.header(replay)), (200, Some("true")));
        assert_eq!(again.json(), first.json());
    }
    let reject = json!({ "action": "reject" });
    let other = with_key(&host, &ada, "k-1", &reject).await;
    assert_eq!(other.refusal(409), "idempotency_key_mismatch");
    // Another voter with the same key is another request, and both votes count.
    assert_eq!(host.snapshot(&run).await["status"], "waiting-approval");
    let second = with_key(&host, &bob, "k-1", &accept()).await;
    assert_eq!((second.status, second.header(replay)), (200, Some("false")));
    assert_eq!(host.ended(&run).await["status"], "completed");
    // Also when the question is closed; with another key it is late.
    let again = with_key(&host, &bob, "k-1", &accept()).await;
    assert_eq!((again.status, again.header(replay)), (200, Some("true")));
    let late = with_key(&host, &bob, "k-2", &accept()).await;
    assert_eq!(late.refusal(409), "interrupt_already_resolved");
    // An invalid token uses no key.
    assert_eq!(
        with_key(&host, "nonsense", "k-1", &accept())
            .await
            .refusal(404),
        "interrupt_not_found"
    );
}

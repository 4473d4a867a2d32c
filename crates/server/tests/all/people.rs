//! Gates that restrict their approvers, the list of open questions, and events that arrive twice.

use std::collections::BTreeSet;

use runtime::access::{NewKey, Scope, Scopes};
use serde_json::{Value, json};

use crate::client::Request;
use crate::gates::{one, signoff};
use crate::host::{Host, everything};

fn accept() -> Value {
    json!({ "action": "accept" })
}

fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A key of a person with groups and roles.
async fn person(host: &Host, name: &str, groups: &[&str], roles: &[&str]) -> String {
    host.key(NewKey {
        principal: Some(name.into()),
        groups: words(groups),
        roles: words(roles),
        ..everything()
    })
    .await
}

#[tokio::test]
async fn a_gate_is_for_members_of_a_group_and_holders_of_a_role() {
    let host = Host::new().await;
    let config = json!({
        "approverGroupRefs": ["finance"], "approverRoleRefs": ["controller"],
        "audience": { "groups": ["finance"] },
    });
    host.add(&signoff(&config)).await;
    let order = json!({ "workflowId": "signoff" });
    let run = host.waiting(&order).await;
    let shown = host.snapshot(&run).await["interrupt"]["payload"]["data"].clone();
    for field in ["approverGroupRefs", "approverRoleRefs", "audience"] {
        assert_eq!(shown[field], config[field], "as the definition has it");
    }
    let stranger = person(&host, "eve", &["sales"], &["finance"]).await;
    for key in [&stranger, &host.key] {
        let answer = host.answer_as(key, &run, "signoff", accept()).await;
        assert_eq!(answer.refusal(403), "not_an_approver");
    }
    // The memberships of another person are unknown.
    let member = person(&host, "ada", &["finance", "sales"], &[]).await;
    let for_another = json!({ "action": "accept", "decidedBy": "eve" });
    let answer = host.answer_as(&member, &run, "signoff", for_another).await;
    assert_eq!(answer.refusal(403), "not_an_approver");
    let answer = host.answer_as(&member, &run, "signoff", accept()).await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    assert_eq!(host.ended(&run).await["status"], "completed");
    let received = host.payload(&run, "approval.received").await;
    assert_eq!(received["decidedBy"], "ada");

    // The memberships are recorded, so later changes of them do not change the decision.
    let replay = host
        .post(
            &format!("/v1/runs/{run}:fork"),
            &json!({ "mode": "replay" }),
        )
        .await
        .json();
    assert_eq!(replay.get("divergedAtSeq"), None, "{replay}");

    let run = host.waiting(&order).await;
    let holder = person(&host, "bob", &[], &["controller"]).await;
    let answer = host.answer_as(&holder, &run, "signoff", accept()).await;
    assert_eq!(answer.status, 200);
    let discovery = host.get("/.well-known/openwop").await.json();
    let routing = json!({ "supported": true, "refKinds": ["group", "role"] });
    assert_eq!(discovery["interrupt"]["approverRouting"], routing);
}

#[tokio::test]
async fn a_token_has_its_makers_groups_for_half_an_hour() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "approverGroupRefs": ["finance"] })))
        .await;
    let run = host.waiting(&json!({ "workflowId": "signoff" })).await;
    let others = host.token(&run).await;
    assert_eq!(
        host.answer_by(&others, accept()).await.refusal(403),
        "not_an_approver"
    );
    let member = person(&host, "ada", &["finance"], &[]).await;
    let path = format!("/v1/runs/{run}/interrupts/signoff/tokens");
    let made = async |order: Value| {
        let request = Request::new("POST", &path).key(&member).json(&order);
        let made = request.send(host.address).await;
        assert_eq!(made.status, 201, "{}", made.json());
        made.json()
    };
    let for_eve = made(json!({ "subject": "eve", "expiresInMs": 86_400_000 })).await;
    let token = for_eve["interruptToken"].as_str().unwrap();
    assert_eq!(
        host.answer_by(token, accept()).await.refusal(403),
        "not_an_approver",
        "a group is not handed on"
    );
    let mine = made(json!({ "expiresInMs": 86_400_000 })).await;
    let time = |body: &Value| {
        let text = body["expiresAt"].as_str().unwrap();
        kernel::time::Timestamp::parse(text).unwrap().0
    };
    assert!(
        time(&mine) < time(&for_eve) - 80_000_000,
        "half an hour, not the day that was asked for: {mine}"
    );
    let token = mine["interruptToken"].as_str().unwrap();
    assert_eq!(host.answer_by(token, accept()).await.status, 200);
}

#[tokio::test]
async fn everything_a_tenant_is_asked_is_listed_page_by_page() {
    let host = Host::new().await;
    host.add(&signoff(&json!({}))).await;
    let event = json!({
        "kind": "external-event", "data": { "eventType": "paid", "correlation": { "n": 1 } },
    });
    host.add(&one("pays", "core.interrupt", &event)).await;
    let empty = host.get("/v1/interrupts").await.json();
    assert_eq!(empty, json!({ "interrupts": [] }));
    let mut runs = Vec::new();
    for workflow in ["signoff", "pays", "signoff", "signoff"] {
        runs.push(host.waiting(&json!({ "workflowId": workflow })).await);
    }
    // Another workspace of the tenant, and a run without open questions.
    let order = json!({ "workflowId": "signoff", "scopeId": "red" });
    let red = host.waiting(&order).await;
    host.answer(&runs[3], "signoff", accept()).await;
    let listed = async |path: &str, key: &str| {
        let answer = Request::new("GET", path).key(key).send(host.address).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    };
    let ids = |page: &Value| -> Vec<String> {
        let open = page["interrupts"].as_array().unwrap().iter();
        open.map(|open| open["runId"].as_str().unwrap().to_owned())
            .collect()
    };
    let (mut seen, mut path) = (Vec::new(), "/v1/interrupts?limit=2".to_owned());
    loop {
        let page = listed(&path, &host.key).await;
        assert!(page["interrupts"].as_array().unwrap().len() <= 2);
        seen.extend(ids(&page));
        match page["nextCursor"].as_str() {
            Some(next) => path = format!("/v1/interrupts?limit=2&cursor={next}"),
            None => break,
        }
    }
    let newest_first = [&red, &runs[2], &runs[1], &runs[0]];
    assert_eq!(seen.iter().collect::<Vec<_>>(), newest_first);

    let of_kind = listed("/v1/interrupts?kind=external-event", &host.key).await;
    assert_eq!(ids(&of_kind), [runs[1].clone()]);
    let shown = &of_kind["interrupts"][0];
    assert_eq!(shown["workflowId"], "pays");
    assert_eq!(shown["payload"]["data"]["eventType"], "paid");
    // It equals the run's own view, and its token answers.
    let token = shown["interruptToken"].as_str().unwrap();
    assert_eq!(host.answer_by(token, json!({ "n": 1 })).await.status, 200);
    let of_workflow = listed("/v1/interrupts?workflowId=pays", &host.key).await;
    assert_eq!(of_workflow["interrupts"], json!([]));

    let bound = host.key_of("acme", Some("red"), Scopes::Everything).await;
    assert_eq!(ids(&listed("/v1/interrupts", &bound).await), [red]);
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let theirs = listed("/v1/interrupts", &stranger).await;
    assert_eq!(theirs["interrupts"], json!([]));
    for wrong in ["limit=0", "limit=101", "cursor=x", "kind=approvals"] {
        let answer = host.get(&format!("/v1/interrupts?{wrong}")).await;
        assert_eq!(answer.refusal(400), "validation_error", "{wrong}");
    }
}

#[tokio::test]
async fn an_event_with_an_id_may_come_again() {
    let host = Host::new().await;
    let config = json!({
        "kind": "external-event",
        "data": { "eventType": "paid", "correlation": { "order": "o-7" } },
    });
    host.add(&one("pays", "core.interrupt", &config)).await;
    for by_token in [true, false] {
        let run = host.waiting(&json!({ "workflowId": "pays" })).await;
        let token = host.token(&run).await;
        let send = async |value: Value| {
            if by_token {
                host.answer_by(&token, value).await
            } else {
                host.answer(&run, "pays", value).await
            }
        };
        let event = json!({ "order": "o-7", "eventId": "evt-1" });
        let first = send(event.clone()).await;
        assert_eq!(first.status, 200);
        host.ended(&run).await;
        let before = host.types(&run).await;
        // In the first form and in the other one; also twice concurrently.
        let wrapped = json!({ "eventPayload": event });
        let (again, wrapped) = tokio::join!(send(event.clone()), send(wrapped));
        for answer in [again, wrapped] {
            let body = answer.json();
            assert_eq!(answer.status, 200, "{body}");
            assert_eq!(body["nodeId"], "pays");
            assert_eq!(body["status"], "completed");
        }
        assert_eq!(host.types(&run).await, before, "nothing was written");
        for other in [
            json!({ "order": "o-7", "eventId": "evt-2" }),
            json!({ "order": "o-7" }),
            // The same id with another correlation.
            json!({ "order": "o-8", "eventId": "evt-1" }),
            json!({ "eventId": "evt-1" }),
            json!({ "eventPayload": { "order": "o-8", "eventId": "evt-1" } }),
        ] {
            let answer = send(other).await;
            assert_eq!(answer.refusal(409), "interrupt_already_resolved");
        }
    }
}

#[tokio::test]
async fn a_governed_gate_is_decided_by_role_and_scope_alone() {
    let host = Host::new().await;
    let gate = json!({
        "requiredRole": "admin", "quorum": 2, "override": { "requiredRole": "owner" },
    });
    let type_id = "core.openwop.governance.approvalGate";
    host.add(&one("publish", type_id, &gate)).await;
    let order = json!({ "workflowId": "publish" });
    let run = host.waiting(&order).await;
    let asked = host.payload(&run, "interrupt.requested").await;
    assert_eq!(asked["kind"], "approval");
    for (field, value) in [("gateId", json!("publish")), ("quorum", json!(2))] {
        assert_eq!(asked["data"][field], value);
    }
    assert!(
        !host
            .types(&run)
            .await
            .contains(&"approval.requested".to_owned())
    );
    let granted = || json!({ "decision": "granted" });
    // Every scope together does not confer the admin role.
    let denied = host.answer(&run, "publish", granted()).await;
    assert_eq!(denied.refusal(403), "not_an_approver");
    assert_eq!(host.snapshot(&run).await["status"], "waiting-approval");
    let trail = host.trail().await;
    let attempt = trail
        .iter()
        .rfind(|entry| entry["action"] == "approvals.respond")
        .expect("the attempt is on record");
    assert_eq!(attempt["outcome"]["as"], "denied");
    assert_eq!(attempt["on"]["id"], run.as_str());

    let ada = person(&host, "ada", &[], &["admin"]).await;
    let malformed = json!({ "decision": "perhaps" });
    let refused = host.answer_as(&ada, &run, "publish", malformed).await;
    assert_eq!(refused.refusal(400), "INVALID_RESUME_VALUE");
    let first = host.answer_as(&ada, &run, "publish", granted()).await;
    assert_eq!(first.json()["status"], "waiting-approval");
    let again = host.answer_as(&ada, &run, "publish", granted()).await;
    assert_eq!(again.status, 200, "once more changes nothing");
    let progress = host.payload(&run, "approval.granted").await["quorumProgress"].clone();
    assert_eq!(progress, json!({ "granted": 1, "required": 2 }));

    let olga = person(&host, "olga", &[], &["owner"]).await;
    let path = format!("/v1/runs/{run}/interrupts/publish/tokens");
    let token = Request::new("POST", &path)
        .key(&olga)
        .send(host.address)
        .await;
    assert_eq!(token.refusal(403), "auth_elevation_required");
    let overrides = json!({ "decision": "overridden", "reason": "the site is down" });
    let last = host.answer_as(&olga, &run, "publish", overrides).await;
    assert_eq!(last.status, 200, "{}", last.json());
    assert_eq!(host.ended(&run).await["status"], "completed");
    let told = host.payload(&run, "approval.overridden").await;
    let expected = json!({
        "gateId": "publish", "principal": "olga", "reason": "the site is down",
    });
    assert_eq!(told, expected);
    let resolved = host.payload(&run, "interrupt.resolved").await;
    assert_eq!(resolved["outcome"], "granted");
    let overridden = host
        .trail()
        .await
        .into_iter()
        .rfind(|entry| entry["action"] == "approval.overridden");
    assert_eq!(
        overridden.expect("it is audited")["by"]["principal"],
        "olga"
    );

    let scoped = json!({ "requiredScope": "keys:manage" });
    host.add(&one("scoped", type_id, &scoped)).await;
    let run = host.waiting(&json!({ "workflowId": "scoped" })).await;
    let only = Scopes::Only([Scope::ApprovalsRespond].into());
    let key = host.key_of("acme", None, only).await;
    let answer = host.answer_as(&key, &run, "scoped", granted()).await;
    assert_eq!(answer.refusal(403), "not_an_approver");
    let answer = host.answer(&run, "scoped", granted()).await;
    assert_eq!(answer.json()["status"], "completed");

    // No answer in time: as if rejected.
    let late = json!({ "requiredScope": "keys:manage", "timeoutSec": 1 });
    host.add(&one("late", type_id, &late)).await;
    let run = host.create(&json!({ "workflowId": "late" })).await;
    let ended = host.ended(&run).await;
    assert_eq!(ended["error"]["code"], "interrupt_rejected");
    let resolved = host.payload(&run, "interrupt.resolved").await;
    assert_eq!(
        (&resolved["outcome"], &resolved["reason"]),
        (&json!("rejected"), &json!("timeout"))
    );
}

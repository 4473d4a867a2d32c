//! Gates: approvals and clarifications.

use kernel::run::event::RunEvent;
use kernel::run::{Capacity, Command};
use serde_json::{Value, json};

use crate::world::{World, started, unborn};

const ASKED: &str = "interrupt.requested gate; approval.requested gate; node.suspended gate";

fn gate(config: &str, more: &str) -> World {
    started(&format!(
        "gate: core.approvalGate {{\"config\":{config}}}\ngate -> b\n{more}"
    ))
}

fn outputs(events: &[kernel::run::Event]) -> Value {
    let given = events.iter().find_map(|event| match &event.body {
        RunEvent::NodeCompleted { outputs, .. } => Some(Value::Object(outputs.clone())),
        _ => None,
    });
    given.expect("a node completed")
}

#[test]
fn a_gate_asks_in_the_order_the_protocol_has() {
    let mut run = unborn("gate: core.approvalGate");
    run.create(serde_json::Map::new())
        .then(&format!("run.started; node.started gate; {ASKED}"));
    assert_eq!(run.run.status().as_str(), "waiting-approval");
    assert_eq!(
        run.run.facts().expect("facts").interrupts[0].data,
        json!({
            "artifactId": "gate", "artifactType": "approval", "title": "gate",
            "actions": ["accept", "reject"],
        })
    );
}

#[test]
fn an_accepted_gate_lets_the_run_continue() {
    let mut run = gate("{}", "gate.reject -> h");
    let events = run
        .answer(
            "gate",
            "ada",
            json!({ "action": "accept", "comment": "fine" }),
        )
        .then(
            "interrupt.resolved gate = {\"action\":\"accept\",\"comment\":\"fine\"}; \
         approval.received gate accept; node.resumed gate; node.completed gate -> accept; \
         node.started b; node.skipped h",
        );
    let outputs = outputs(&events);
    assert_eq!(outputs["action"], "accept");
    assert_eq!(outputs["decidedBy"], "ada");
    assert_eq!(outputs["comment"], "fine");
}

#[test]
fn a_rejection_is_followed_where_an_edge_says_so() {
    let reject = || json!({ "action": "reject" });
    gate("{}", "gate.reject -> h")
        .answer("gate", "ada", reject())
        .then(
            "interrupt.resolved gate = {\"action\":\"reject\"}; approval.received gate reject; \
         node.resumed gate; node.completed gate -> reject; node.skipped b; node.started h",
        );
    gate("{}", "gate -> h any_failed")
        .answer("gate", "ada", reject())
        .then(
            "interrupt.resolved gate = {\"action\":\"reject\"}; approval.received gate reject; \
         node.resumed gate; node.failed gate interrupt_rejected; node.skipped b; node.started h",
        );
    gate("{}", "").answer("gate", "ada", reject()).then(
        "interrupt.resolved gate = {\"action\":\"reject\"}; approval.received gate reject; \
         node.resumed gate; node.failed gate interrupt_rejected; run.failed interrupt_rejected",
    );
}

#[test]
fn an_answer_that_was_not_asked_for_is_refused() {
    let config = r#"{"actions":["accept","refine","edit-accept"]}"#;
    for value in [
        json!(true),
        json!({}),
        json!({ "action": "reject" }),
        json!({ "action": "explode" }),
        json!({ "action": "timeout" }),
        json!({ "action": 7 }),
        json!({ "action": "accept", "comment": 7 }),
        json!({ "action": "refine" }),
        json!({ "action": "refine", "feedback": "shorter" }),
        json!({ "action": "refine", "refineFeedback": {} }),
        json!({ "action": "refine", "refineFeedback": { "scope": "half" } }),
        json!({ "action": "refine", "refineFeedback": { "scope": "items", "itemIds": [1] } }),
        json!({ "action": "edit-accept" }),
        json!({ "action": "edit-accept", "editedArtifactData": null }),
        json!({ "decision": "maybe" }),
    ] {
        let mut run = gate(config, "");
        run.answer("gate", "ada", value)
            .refused("invalid_resume_value");
        assert_eq!(run.run.status().as_str(), "waiting-approval");
    }
}

#[test]
fn an_edited_value_is_passed_on() {
    let mut run = gate(r#"{"actions":["edit-accept"],"artifactData":"draft"}"#, "");
    let value = json!({ "action": "edit-accept", "editedArtifactData": { "text": "better" } });
    let events = run.answer("gate", "ada", value).decided();
    assert_eq!(
        outputs(&events)["artifactData"],
        json!({ "text": "better" })
    );
    let mut run = gate(r#"{"artifactData":"draft"}"#, "");
    let events = run
        .answer("gate", "ada", json!({ "action": "accept" }))
        .decided();
    assert_eq!(outputs(&events)["artifactData"], "draft");
}

#[test]
fn a_refinement_leads_back_through_a_loop() {
    let mut run = started(
        "head: core.loop {\"config\":{\"times\":3}}\nhead.body -> draft -> gate\n\
         gate: core.approvalGate {\"config\":{\"actions\":[\"accept\",\"refine\"]}}\n\
         gate.refine -> head\nhead.done -> z",
    );
    run.completes("draft")
        .then(&format!("node.completed draft; node.started gate; {ASKED}"));
    let refine = json!({ "action": "refine", "refineFeedback": { "scope": "whole" } });
    run.answer("gate", "ada", refine.clone()).then(&format!(
        "interrupt.resolved gate = {refine}; approval.received gate refine; node.resumed gate; \
         node.completed gate -> refine; node.started head@1; node.completed head@1 -> body; \
         node.started draft@1"
    ));
    run.completes("draft").decided();
    run.answer("gate", "ada", json!({ "action": "accept" }))
        .then(
            "interrupt.resolved gate = {\"action\":\"accept\"}; approval.received gate accept; \
         node.resumed gate; node.completed gate@1 -> accept; node.started head@2; \
         node.completed head@2 -> done; node.started z"
                .replace("received gate", "received gate@1")
                .replace("resumed gate", "resumed gate@1")
                .as_str(),
        );
}

#[test]
fn a_refinement_that_leads_nowhere_is_asked_again() {
    let mut run = gate(r#"{"actions":["accept","refine"]}"#, "");
    let first = run.interrupt("gate");
    let refine = json!({ "action": "refine", "refineFeedback": { "scope": "whole" } });
    run.answer("gate", "ada", refine.clone()).then(&format!(
        "interrupt.resolved gate = {refine}; approval.received gate refine; node.resumed gate; {ASKED}"
    ));
    assert_ne!(run.interrupt("gate"), first, "another question, another id");
    run.answer("gate", "ada", json!({ "action": "accept" }))
        .decided();
    assert_eq!(run.status_of("gate"), "completed");
}

#[test]
fn clients_of_before_the_five_actions_are_understood() {
    for (value, action) in [
        (json!({ "decision": "approved" }), "accept"),
        (
            json!({ "decision": "rejected", "feedback": "shorter" }),
            "refine",
        ),
        (json!({ "decision": "rejected" }), "reject"),
    ] {
        let mut run = gate(
            r#"{"actions":["accept","reject","refine"]}"#,
            "gate.reject -> r\ngate.refine -> f",
        );
        let events = run.answer("gate", "ada", value).decided();
        assert_eq!(outputs(&events)["action"], action);
    }
}

const THREE: &str = r#"{"requiredApprovals":3,"rejectionPolicy":"majority"}"#;

#[test]
fn a_gate_waits_for_as_many_as_it_needs() {
    let mut run = gate(THREE, "");
    let accept = || json!({ "action": "accept" });
    run.answer("gate", "ada", accept())
        .then("approval.granted gate ada 1/3");
    run.answer("gate", "ada", accept()).refused("duplicate");
    run.answer("gate", "ada", json!({ "action": "reject" }))
        .refused("already_voted");
    run.answer("gate", "bob", accept())
        .then("approval.granted gate bob 2/3");
    assert_eq!(run.run.status().as_str(), "waiting-approval");
    run.answer("gate", "eve", accept()).then(
        "interrupt.resolved gate = {\"action\":\"accept\"}; approval.received gate accept; \
         approval.granted gate eve 3/3; node.resumed gate; node.completed gate -> accept; node.started b",
    );
}

#[test]
fn rejections_decide_by_the_policy_of_the_gate() {
    let reject = || json!({ "action": "reject", "feedback": "no" });
    let mut run = gate(THREE, "");
    run.answer("gate", "ada", reject())
        .then("approval.rejected gate ada");
    assert_eq!(run.run.status().as_str(), "waiting-approval");
    run.answer("gate", "bob", reject()).then(
        "interrupt.resolved gate = {\"action\":\"reject\",\"feedback\":\"no\"}; \
         approval.received gate reject; approval.rejected gate bob; node.resumed gate; \
         node.failed gate interrupt_rejected; run.failed interrupt_rejected",
    );
    let mut run = gate(r#"{"requiredApprovals":3}"#, "");
    run.answer("gate", "ada", reject()).decided();
    assert_eq!(
        run.run.status().as_str(),
        "failed",
        "one veto is enough by default"
    );
}

/// Anonymous votes of a test key differ by the name in the vote; an authenticated voter cannot use
/// another name.
#[test]
fn a_voter_is_who_the_engine_says() {
    let mut run = gate(THREE, "");
    let vote = |voter: &str| json!({ "action": "accept", "voter": voter });
    run.resolve("gate", vote("x"))
        .then("approval.granted gate x 1/3");
    run.resolve("gate", vote("x")).refused("duplicate");
    run.resolve("gate", json!({ "action": "accept" }))
        .refused("invalid_resume_value");
    run.answer("gate", "ada", vote("y"))
        .then("approval.granted gate ada 2/3");
    run.answer("gate", "ada", vote("z")).refused("duplicate");
}

#[test]
fn only_those_listed_may_decide() {
    let mut run = gate(r#"{"approversList":["ada"]}"#, "");
    let accept = || json!({ "action": "accept" });
    run.answer("gate", "bob", accept())
        .refused("not_an_approver");
    run.resolve("gate", accept()).refused("not_an_approver");
    run.answer("gate", "ada", accept()).decided();
    assert_eq!(run.status_of("gate"), "completed");
}

#[test]
fn a_person_may_vote_for_others_where_the_engine_allows() {
    let mut run = gate(THREE, "");
    for (voter, votes) in [("x", 1), ("y", 2)] {
        let capacity = Capacity {
            speaks_for: Some(voter.into()),
            ..Capacity::default()
        };
        run.answer_as("gate", "bot", capacity, json!({ "action": "accept" }))
            .then(&format!("approval.granted gate {voter} {votes}/3"));
    }
    run.answer("gate", "bot", json!({ "action": "accept" }))
        .decided();
    assert_eq!(run.status_of("gate"), "completed");
}

#[test]
fn groups_and_roles_count_as_they_are_at_the_answer() {
    let config =
        r#"{"approversList":["ada"],"approverGroupRefs":["leads"],"approverRoleRefs":["owner"]}"#;
    let of = |groups: &[&str], roles: &[&str]| Capacity {
        speaks_for: None,
        groups: groups.iter().map(|&word| word.to_owned()).collect(),
        roles: roles.iter().map(|&word| word.to_owned()).collect(),
        ..Capacity::default()
    };
    let accept = || json!({ "action": "accept" });
    for stranger in [
        of(&[], &[]),
        of(&["owner"], &["leads"]),
        of(&["others"], &[]),
        // The groups of a represented person are unknown.
        Capacity {
            speaks_for: Some("cleo".into()),
            ..of(&["leads"], &[])
        },
    ] {
        let mut run = gate(config, "");
        run.answer_as("gate", "bob", stranger, accept())
            .refused("not_an_approver");
    }
    for member in [of(&["leads", "secret"], &[]), of(&[], &["owner"])] {
        let mut run = gate(config, "");
        let events = run.answer_as("gate", "bob", member, accept()).decided();
        assert_eq!(run.status_of("gate"), "completed");
        // The log contains the facts that the gate refers to, and no others about people.
        let log = serde_json::to_string(&events).expect("JSON");
        assert!(log.contains("capacity") && !log.contains("secret"), "{log}");
    }
}

#[test]
fn a_gate_may_name_its_approver() {
    let mut run = gate(r#"{"profile":"openwop-interrupt-auth-required"}"#, "");
    let accept = || json!({ "action": "accept", "decidedBy": "somebody" });
    run.resolve("gate", accept())
        .refused("auth_elevation_required");
    run.signal("gate", "1", accept())
        .then("signal.received gate 1");
    run.answer("gate", "ada", accept()).decided();
    assert_eq!(run.status_of("gate"), "completed");
    let node = &run.run.plan.nodes[0];
    assert!(kernel::control::answer::needs_authentication(node));
}

#[test]
fn a_question_back_leaves_the_gate_open() {
    let mut run = gate(r#"{"actions":["accept","ask"]}"#, "");
    run.answer("gate", "ada", json!({ "action": "ask", "comment": "why?" }))
        .then("approval.asked gate");
    run.answer("gate", "ada", json!({ "action": "accept" }))
        .decided();
    assert_eq!(run.status_of("gate"), "completed");
}

#[test]
fn a_gate_that_times_out_takes_its_configured_action() {
    let late = |action: &str| {
        let mut run = gate(
            &format!(r#"{{"timeoutMs":50,"timeoutAction":"{action}"}}"#),
            "gate.reject -> h",
        );
        let interrupt = run.interrupt("gate");
        let lines = crate::notation::lines(&run.next_timer().decided());
        if !run.run.is_settled() {
            run.when(Command::Resolve {
                interrupt,
                value: json!({ "action": "accept" }),
                by: None,
                capacity: Default::default(),
            })
            .refused("interrupt_expired");
        }
        lines.join("; ")
    };
    assert_eq!(
        late("fail"),
        "approval.received gate timeout; node.failed gate interrupt_expired; run.failed interrupt_expired"
    );
    assert!(late("accept").ends_with(
        "approval.received gate timeout; node.resumed gate; node.completed gate -> accept; \
         node.started b; node.skipped h"
    ));
    assert!(
        late("reject").ends_with("node.completed gate -> reject; node.skipped b; node.started h")
    );
}

#[test]
fn the_first_decision_counts() {
    let mut run = gate("{}", "");
    let interrupt = run.interrupt("gate");
    run.answer("gate", "ada", json!({ "action": "accept" }))
        .decided();
    run.when(Command::Resolve {
        interrupt: interrupt.clone(),
        value: json!({ "action": "reject" }),
        by: Some("bob".into()),
        capacity: Default::default(),
    })
    .refused("interrupt_already_resolved");

    let mut run = gate("{}", "");
    run.cancel().then("node.cancelled gate; run.cancelled");
    run.when(Command::Resolve {
        interrupt,
        value: json!({ "action": "accept" }),
        by: None,
        capacity: Default::default(),
    })
    .refused("run_terminal");
}

#[test]
fn a_gate_may_be_decided_while_the_run_is_paused() {
    let mut run = gate(THREE, "");
    run.answer("gate", "ada", json!({ "action": "accept" }))
        .decided();
    run.pause(kernel::run::event::DrainPolicy::Immediate)
        .then("run.paused immediate");
    run.answer("gate", "bob", json!({ "action": "accept" }))
        .then("approval.granted gate bob 2/3");
    run.answer("gate", "eve", json!({ "action": "accept" }))
        .decided();
    run.resume().then("run.resumed; node.started b");
}

#[test]
fn wrong_configs_do_not_compile() {
    for (node, path) in [
        (
            r#"a: core.approvalGate {"config":{"actions":["accept","approve"]}}"#,
            "/nodes/0/config/actions",
        ),
        (
            r#"a: core.approvalGate {"config":{"actions":[]}}"#,
            "/nodes/0/config/actions",
        ),
        (
            r#"a: core.approvalGate {"config":{"timeoutAction":"shrug"}}"#,
            "/nodes/0/config/timeoutAction",
        ),
        (
            r#"a: core.interrupt {"config":{"resumeSchema":{"type":7}}}"#,
            "/nodes/0/config/resumeSchema",
        ),
        (
            r#"a: core.clarificationGate {"config":{"questions":[{"id":"q"}]}}"#,
            "/nodes/0/config/questions",
        ),
        (
            r#"a: core.clarificationGate {"config":{"questions":[{"id":"q","question":"?"},{"id":"q","question":"!"}]}}"#,
            "/nodes/0/config/questions",
        ),
    ] {
        let problems = crate::flow::problems(&crate::flow::document(node));
        assert_eq!(problems.listed[0].path, path);
    }
}

const QUESTIONS: &str = r#"ask: core.clarificationGate {"config":{"questions":[{"id":"q1","question":"Which colour?"},{"id":"n","question":"How many?","schema":{"type":"integer"}}]}}"#;

#[test]
fn every_question_is_answered_and_fits() {
    let mut run = unborn(QUESTIONS);
    run.create(serde_json::Map::new()).then(
        "run.started; node.started ask; interrupt.requested ask; clarification.requested ask; \
         node.suspended ask",
    );
    assert_eq!(run.run.status().as_str(), "waiting-input");
    for value in [
        json!("blue"),
        json!({}),
        json!({ "answers": { "q1": "blue" } }),
        json!({ "answers": { "q1": "blue", "n": "many" } }),
        json!({ "answers": [{ "id": "q1" }] }),
        json!({ "answers": "blue" }),
    ] {
        run.answer("ask", "ada", value)
            .refused("invalid_resume_value");
    }
    let answers = json!({ "answers": { "n": 2, "q1": "blue" } });
    let events = run.answer("ask", "ada", answers.clone()).then(&format!(
        "interrupt.resolved ask = {answers}; clarification.resolved ask {{\"n\":2,\"q1\":\"blue\"}}; \
         node.resumed ask; node.completed ask; run.completed"
    ));
    assert_eq!(outputs(&events)["answers"], json!({ "n": 2, "q1": "blue" }));
}

#[test]
fn answers_may_come_as_a_list() {
    let mut run = started(QUESTIONS);
    let answers =
        json!({ "answers": [{ "id": "q1", "answer": null }, { "id": "n", "answer": 1 }] });
    let events = run.answer("ask", "ada", answers).decided();
    assert_eq!(outputs(&events)["answers"], json!({ "n": 1, "q1": null }));
}

pub(crate) const GENERAL: &str = r#"gate: core.interrupt {"config":{"kind":"approval","timeoutMs":50,"timeoutAction":"accept","data":{"title":"May it?","key":"no","actions":["accept","reject","refine"],"requiredApprovals":2}}}
    gate -> b
    gate -> h any_failed"#;

/// A general question of this kind is asked, judged and recorded like the gate's.
#[test]
fn a_general_question_for_approval_is_one() {
    let mut run = unborn(GENERAL);
    run.create(serde_json::Map::new())
        .then(&format!("run.started; node.started gate; {ASKED}"));
    let open = run.run.facts().expect("facts").interrupts[0].clone();
    assert_eq!(open.key, "gate");
    assert_eq!(
        open.data,
        json!({
            "artifactId": "gate", "artifactType": "approval", "title": "May it?",
            "actions": ["accept", "reject", "refine"], "requiredApprovals": 2,
        })
    );
    for odd in [
        json!(true),
        json!({ "action": "dance" }),
        json!({ "answers": {} }),
    ] {
        run.answer("gate", "ada", odd)
            .refused("invalid_resume_value");
    }
    // Without ports a refinement asks again.
    run.answer(
        "gate",
        "ada",
        json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "shorter" } }),
    )
    .decided();
    assert_eq!(run.run.facts().expect("facts").interrupts.len(), 1);
    run.answer("gate", "ada", json!({ "action": "accept" }))
        .then("approval.granted gate ada 1/2");
    run.answer("gate", "bob", json!({ "action": "accept" }))
        .then(
            "interrupt.resolved gate = {\"action\":\"accept\"}; approval.received gate accept; \
             approval.granted gate bob 2/2; node.resumed gate; node.completed gate; node.started b; \
             node.skipped h",
        );

    let mut run = started(GENERAL);
    run.answer("gate", "ada", json!({ "action": "reject" }))
        .decided();
    assert_eq!(run.status_of("gate"), "failed");
    assert_eq!(run.status_of("h"), "running");

    let mut run = started(GENERAL);
    run.next_timer().decided();
    assert_eq!(run.status_of("gate"), "completed", "by its timeoutAction");
    let received = run.events.iter().find_map(|event| match &event.body {
        RunEvent::ApprovalReceived { action, .. } => Some(*action),
        _ => None,
    });
    assert_eq!(received, Some(kernel::run::event::ApprovalAction::Timeout));
}

#[test]
fn general_questions_are_answered_by_their_ids() {
    let text = r#"gate: core.interrupt {"config":{"kind":"clarification","data":{"questions":[{"id":"n","question":"How many?","schema":{"type":"integer"}}]}}}"#;
    let mut run = unborn(text);
    run.create(serde_json::Map::new()).then(
        "run.started; node.started gate; interrupt.requested gate; clarification.requested gate; \
         node.suspended gate",
    );
    for odd in [
        json!(3),
        json!({ "answers": {} }),
        json!({ "answers": { "n": "many" } }),
    ] {
        run.answer("gate", "ada", odd)
            .refused("invalid_resume_value");
    }
    let events = run
        .answer(
            "gate",
            "ada",
            json!({ "answers": [{ "id": "n", "answer": 3 }] }),
        )
        .decided();
    assert_eq!(outputs(&events)["answers"], json!({ "n": 3 }));
    let told = |event: &kernel::run::Event| matches!(&event.body, RunEvent::ClarificationResolved { answers, .. } if answers["n"] == 3);
    assert!(events.iter().any(told), "{events:?}");
}

/// Two votes at a general question.
pub(crate) fn scene_of_general(run: &mut World) {
    let create = kernel::run::Create::new(serde_json::Map::new(), "test", kernel::run::Start::Now);
    run.when(Command::Create(create)).decided();
    for who in ["ada", "bob"] {
        run.answer("gate", who, json!({ "action": "accept" }))
            .decided();
    }
    run.completes("b").decided();
}

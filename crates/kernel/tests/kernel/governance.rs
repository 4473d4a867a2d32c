//! Gates that only people with a role or a scope decide.

use std::collections::BTreeSet;

use kernel::audit::AuditAction;
use kernel::run::event::DrainPolicy;
use kernel::run::{Capacity, Rejection};
use serde_json::{Value, json};

use crate::world::{World, started, unborn};

fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn holds(roles: &[&str]) -> Capacity {
    Capacity {
        roles: words(roles),
        ..Capacity::default()
    }
}

fn gate(config: &str, more: &str) -> World {
    started(&format!(
        "gate: core.openwop.governance.approvalGate {{\"config\":{config}}}\ngate -> b\n{more}"
    ))
}

fn granted() -> Value {
    json!({ "decision": "granted" })
}

fn rejected() -> Value {
    json!({ "decision": "rejected", "reason": "too soon" })
}

fn overridden() -> Value {
    json!({ "decision": "overridden", "reason": "the site is down" })
}

#[test]
fn the_request_names_approvers_and_is_not_approval_requested() {
    let mut run = unborn(
        r#"gate: core.openwop.governance.approvalGate {"config":{"requiredRole":"admin","quorum":2,"override":{"requiredRole":"owner","audited":true},"timeoutSec":60}}"#,
    );
    run.create(serde_json::Map::new())
        .then("run.started; node.started gate; interrupt.requested gate; node.suspended gate");
    assert_eq!(run.run.status().as_str(), "waiting-approval");
    let open = &run.run.facts().expect("facts").interrupts[0];
    assert_eq!(
        open.data,
        json!({
            "gateId": "gate", "artifactId": "gate", "artifactType": "approval", "title": "gate",
            "actions": ["accept", "reject"], "requiredRole": "admin", "quorum": 2,
            "requiredApprovals": 2, "override": { "requiredRole": "owner" },
        })
    );
    let waits = open.timeout_at.map(|at| at.ms_since(open.requested_at));
    assert_eq!(waits, Some(60_000));
}

#[test]
fn only_the_role_or_the_scope_grants() {
    for (config, enough, short) in [
        (
            r#"{"requiredRole":"admin"}"#,
            holds(&["admin", "clerk"]),
            vec![Capacity::default(), holds(&["clerk"])],
        ),
        (
            r#"{"requiredScope":"keys:manage"}"#,
            Capacity {
                scopes: words(&["keys:manage"]),
                ..Capacity::default()
            },
            vec![holds(&["keys:manage"])],
        ),
        (
            r#"{"requiredRole":"admin","requiredScope":"keys:manage"}"#,
            Capacity {
                scopes: words(&["keys:manage"]),
                ..holds(&["admin"])
            },
            vec![holds(&["admin"])],
        ),
    ] {
        let mut run = gate(config, "");
        for capacity in short {
            run.answer_as("gate", "eve", capacity, granted())
                .refused("not_an_approver");
        }
        let spoken = Capacity {
            speaks_for: Some("ada".into()),
            ..enough.clone()
        };
        run.answer_as("gate", "eve", spoken, granted())
            .refused("not_an_approver");
        run.resolve("gate", granted())
            .refused("auth_elevation_required");
        run.answer_as("gate", "ada", enough, granted()).then(
            "interrupt.resolved gate = {\"decision\":\"granted\"}; approval.received gate accept;
             approval.granted gate ada 1/1; node.resumed gate; node.completed gate -> accept;
             node.started b",
        );
    }
}

#[test]
fn a_decision_that_is_none_is_refused_in_the_protocols_word() {
    let config = r#"{"requiredRole":"admin","override":{"requiredRole":"admin"}}"#;
    for value in [
        json!("granted"),
        json!({}),
        json!({ "decision": "maybe" }),
        json!({ "decision": 7 }),
        json!({ "action": "refine" }),
        json!({ "decision": "granted", "reason": 7 }),
        json!({ "decision": "overridden" }),
        json!({ "decision": "overridden", "reason": "  " }),
    ] {
        let mut run = gate(config, "");
        let why = run
            .answer_as("gate", "ada", holds(&["admin"]), value)
            .refused("INVALID_RESUME_VALUE");
        assert!(matches!(why, Rejection::InvalidDecision { .. }));
        assert_eq!(run.run.status().as_str(), "waiting-approval");
    }
}

#[test]
fn a_quorum_counts_each_once_and_one_rejection_decides() {
    let config = r#"{"requiredRole":"admin","quorum":2}"#;
    let mut run = gate(config, "gate.reject -> h");
    let as_admin = || holds(&["admin"]);
    run.answer_as("gate", "ada", as_admin(), granted())
        .then("approval.granted gate ada 1/2");
    run.answer_as("gate", "ada", as_admin(), granted())
        .refused("duplicate");
    run.answer_as("gate", "bob", as_admin(), json!({ "action": "accept" }))
        .then(
            "interrupt.resolved gate = {\"action\":\"accept\"}; approval.received gate accept;
             approval.granted gate bob 2/2; node.resumed gate; node.completed gate -> accept;
             node.started b; node.skipped h",
        );

    let mut run = gate(config, "gate.reject -> h");
    run.answer_as("gate", "ada", as_admin(), granted())
        .decided();
    run.answer_as("gate", "bob", as_admin(), rejected()).then(
        "interrupt.resolved gate = {\"decision\":\"rejected\",\"reason\":\"too soon\"};
         approval.received gate reject; approval.rejected gate bob; node.resumed gate;
         node.completed gate -> reject; node.skipped b; node.started h",
    );
}

#[test]
fn a_rejection_ends_nothing_and_the_gate_asks_again() {
    let mut run = gate(r#"{"requiredRole":"admin"}"#, "");
    let first = run.interrupt("gate");
    run.answer_as("gate", "ada", holds(&["admin"]), rejected())
        .then(
            "interrupt.resolved gate = {\"decision\":\"rejected\",\"reason\":\"too soon\"};
         approval.received gate reject; approval.rejected gate ada; node.resumed gate;
         interrupt.requested gate; node.suspended gate",
        );
    assert_ne!(run.interrupt("gate"), first);
    run.answer_as("gate", "ada", holds(&["admin"]), granted())
        .decided();
    assert_eq!(run.status_of("gate"), "completed");
}

/// The overrides sent to the audit trail since the last call.
fn overriders(run: &mut World) -> Vec<String> {
    let told = run.audited().into_iter().map(|(_, told)| told.audit);
    let overrides = told.filter(|entry| entry.action == AuditAction::ApprovalOverridden);
    overrides.map(|entry| entry.by.principal).collect()
}

#[test]
fn an_override_is_audited_and_counts_once_unless_it_bypasses() {
    let with = |more: &str| {
        format!(
            r#"{{"requiredRole":"admin","quorum":2,"override":{{"requiredRole":"owner"}}{more}}}"#
        )
    };
    let mut run = gate(&with(""), "");
    run.answer_as("gate", "ada", holds(&["admin"]), overridden())
        .refused("not_an_approver");
    run.answer_as("gate", "olga", holds(&["owner"]), granted())
        .refused("not_an_approver");
    assert!(overriders(&mut run).is_empty());
    run.answer_as("gate", "olga", holds(&["owner"]), overridden())
        .then("approval.overridden gate olga");
    assert_eq!(overriders(&mut run), ["olga"]);
    run.answer_as("gate", "ada", holds(&["admin"]), granted())
        .then(
            "interrupt.resolved gate = {\"decision\":\"granted\"}; approval.received gate accept;
         approval.granted gate ada 2/2; node.resumed gate; node.completed gate -> accept;
         node.started b",
        );

    let mut run = gate(&with(r#","overrideBypassesQuorum":true"#), "");
    run.answer_as("gate", "olga", holds(&["owner"]), overridden()).then(
        "interrupt.resolved gate = {\"decision\":\"overridden\",\"reason\":\"the site is down\"};
         approval.received gate accept; approval.overridden gate olga; node.resumed gate;
         node.completed gate -> accept; node.started b",
    );
    assert_eq!(overriders(&mut run), ["olga"]);
}

#[test]
fn no_answer_in_time_is_a_rejection() {
    let config = r#"{"requiredRole":"admin","timeoutSec":60}"#;
    let timed_out = "interrupt.resolved gate = {\"decision\":\"rejected\",\"reason\":\"timeout\"};
        approval.received gate timeout; node.resumed gate;";
    gate(config, "gate.reject -> h").next_timer().then(&format!(
        "{timed_out} node.completed gate -> reject; node.skipped b; node.started h"
    ));
    gate(config, "").next_timer().then(&format!(
        "{timed_out} node.failed gate interrupt_rejected; run.failed interrupt_rejected"
    ));
}

#[test]
fn a_grant_after_the_deadline_is_too_late() {
    let config = r#"{"requiredRole":"admin","quorum":2,"override":{"requiredRole":"owner"},"timeoutSec":60}"#;
    let mut run = gate(config, "gate.reject -> h");
    run.answer_as("gate", "ada", holds(&["admin"]), granted())
        .decided();
    run.pause(DrainPolicy::Immediate)
        .then("run.paused immediate");
    run.at(60_000);
    for (who, role, answer) in [
        ("bob", "admin", granted()),
        ("bob", "admin", rejected()),
        ("olga", "owner", overridden()),
    ] {
        run.answer_as("gate", who, holds(&[role]), answer)
            .refused("interrupt_expired");
    }
    run.resume().then("run.resumed");
    run.next_timer().decided();
    assert_eq!(run.status_of("b"), "skipped");
    assert_eq!(run.status_of("h"), "running");
}

#[test]
fn a_gate_without_possible_approvers_is_invalid() {
    let keys = |config: Value| -> Vec<String> {
        let document = crate::flow::document(&format!(
            "gate: core.openwop.governance.approvalGate {{\"config\":{config}}}"
        ));
        let listed = crate::flow::problems(&document).listed.into_iter();
        listed
            .map(|problem| {
                let key = problem.path.rsplit('/').next();
                key.unwrap_or_default().to_owned()
            })
            .collect()
    };
    for (config, key) in [
        (json!({}), "requiredRole"),
        (json!({ "requiredRole": "" }), "requiredRole"),
        (json!({ "requiredScope": 1 }), "requiredScope"),
        (json!({ "requiredRole": "a", "quorum": 0 }), "quorum"),
        (json!({ "requiredRole": "a", "override": {} }), "override"),
        (
            json!({ "requiredRole": "a", "override": { "requiredRole": "o", "audited": false } }),
            "override",
        ),
        (
            json!({ "requiredRole": "a", "timeoutSec": 0.5 }),
            "timeoutSec",
        ),
        (
            json!({ "requiredRole": "a", "overrideBypassesQuorum": "no" }),
            "overrideBypassesQuorum",
        ),
    ] {
        assert_eq!(keys(config.clone()), [key], "{config}");
    }
}

/// A rejection, a quorum completed by an override, a gate that is bypassed, and one that times out.
pub(crate) const SCENE: &str = r#"gate: core.openwop.governance.approvalGate {"config":{"requiredRole":"admin","quorum":2,"override":{"requiredRole":"owner"}}}
    fast: core.openwop.governance.approvalGate {"config":{"requiredScope":"keys:manage","quorum":9,"override":{"requiredRole":"owner"},"overrideBypassesQuorum":true}}
    late: core.openwop.governance.approvalGate {"config":{"requiredRole":"admin","timeoutSec":60}}
    gate -> b
    late.reject -> reminder"#;

pub(crate) fn scene(run: &mut World) {
    let create = kernel::run::Create::new(serde_json::Map::new(), "test", kernel::run::Start::Now);
    run.when(kernel::run::Command::Create(create)).decided();
    run.answer_as("gate", "ada", holds(&["admin"]), rejected())
        .decided();
    run.answer_as("gate", "ada", holds(&["admin", "clerk"]), granted())
        .decided();
    run.at(5)
        .answer_as("gate", "olga", holds(&["owner"]), overridden())
        .decided();
    run.answer_as("fast", "olga", holds(&["owner"]), overridden())
        .decided();
    run.next_timer().decided();
    run.completes("reminder").decided();
    run.completes("b").decided();
}

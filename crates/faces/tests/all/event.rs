//! Events as OpenWOP v1 documents.

use std::collections::BTreeSet;

use faces::Mask;
use faces::openwop::v1;
use serde_json::Value;

use crate::samples;

/// The roots of event types that belong to the protocol.
const RESERVED: &[&str] = &[
    "agent",
    "envelope",
    "run",
    "node",
    "approval",
    "clarification",
    "interrupt",
    "channel",
    "artifact",
    "output",
    "variable",
    "log",
    "cap",
    "replay",
    "provider",
    "budget",
    "agent",
    "core",
    "prompt",
    "runOrchestrator",
    "workflow",
];

/// The types of the protocol that this engine writes.
const LISTED: &[&str] = &[
    "agent.toolCalled",
    "agent.toolReturned",
    "envelope.refusal",
    "envelope.truncated",
    "envelope.retry.attempted",
    "envelope.nlToFormat.engaged",
    "envelope.recovery.applied",
    "prompt.composed",
    "envelope.retry.exhausted",
    "budget.reserved",
    "budget.threshold.crossed",
    "budget.exhausted",
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.paused",
    "run.resumed",
    "run.resuming",
    "run.dead_lettered",
    "node.started",
    "node.completed",
    "node.failed",
    "node.retried",
    "node.skipped",
    "node.cancelled",
    "node.suspended",
    "node.resumed",
    "node.dispatched",
    "interrupt.requested",
    "interrupt.resolved",
    "approval.requested",
    "approval.received",
    "approval.granted",
    "approval.rejected",
    "clarification.requested",
    "approval.overridden",
    "clarification.resolved",
    "channel.written",
    "variable.changed",
    "artifact.created",
    "output.chunk",
    "log.appended",
    "cap.breached",
    "provider.usage",
    "replay.diverged",
    "agent.decided",
    "agent.handoff",
    "runOrchestrator.decided",
    "core.workflowChain.event",
    "core.workflowChain.confidence-escalated",
    "core.dispatch.fanOut",
    "core.dispatch.join",
    "workflow.loopback-limit",
];

#[test]
fn every_kind_of_event_is_rendered_as_documented() {
    let header = samples::header();
    insta::assert_json_snapshot!(v1::events(&header, Mask::bare(), &samples::log()));
}

#[test]
fn the_samples_cover_every_type_and_carry_the_tag_of_the_log() {
    let header = samples::header();
    let mut seen = BTreeSet::new();
    for event in samples::log() {
        let doc = v1::event(&header, Mask::bare(), &event);
        let stored = serde_json::to_value(&event).expect("an event is JSON");
        assert_eq!(doc["type"], stored["type"]);
        seen.insert(doc["type"].as_str().expect("a type").to_owned());
    }
    let all: BTreeSet<_> = v1::EVENT_TYPES.iter().map(|&t| t.to_owned()).collect();
    assert_eq!(seen, all);
}

#[test]
fn no_type_under_a_root_of_the_protocol_is_invented() {
    for kind in v1::EVENT_TYPES {
        let root = kind.split('.').next().expect("a root");
        if RESERVED.contains(&root) {
            assert!(
                LISTED.contains(kind),
                "{kind} is not a type of the protocol"
            );
        } else {
            assert_eq!(root, "runwright", "{kind} needs the vendor prefix");
        }
    }
}

#[test]
fn causation_ids_name_the_first_event_of_the_batch() {
    let header = samples::header();
    let log = samples::log();
    let whole = v1::events(&header, Mask::bare(), &log);
    assert_eq!(whole[0].get("causationId"), None);
    assert_eq!(whole[1]["causationId"], "run-sample.0");
    assert_eq!(whole[4].get("causationId"), None);
    assert_eq!(whole[7]["causationId"], "run-sample.4");
    let from_the_middle = v1::events(&header, Mask::bare(), &log[2..]);
    assert_eq!(from_the_middle[0].get("causationId"), None);
    assert_eq!(from_the_middle[2..], whole[4..]);
}

#[test]
fn nothing_absent_is_null_outside_of_values_given_by_users() {
    let header = samples::header();
    for doc in v1::events(&header, Mask::bare(), &samples::log()) {
        let payload = doc["payload"].as_object().expect("an object");
        let nulls = payload.values().filter(|value| value.is_null()).count();
        assert_eq!(nulls, 0, "{}", doc["type"]);
        assert!(
            !doc.as_object()
                .expect("an object")
                .values()
                .any(Value::is_null)
        );
    }
}

/// Types whose rendering has less than a line of the log: no visit, no transport without an OpenWOP
/// name, or an error without its code.
const TOLD_OTHERWISE: &[&str] = &[
    "approval.granted",
    "approval.overridden",
    "core.dispatch.fanOut",
    "core.dispatch.join",
    "core.workflowChain.confidence-escalated",
    "core.workflowChain.event",
    "envelope.nlToFormat.engaged",
    "envelope.recovery.applied",
    "envelope.refusal",
    "envelope.retry.attempted",
    "envelope.retry.exhausted",
    "envelope.truncated",
    "prompt.composed",
    "run.failed",
    "run.started",
    "runOrchestrator.decided",
];

#[test]
fn wire_events_are_read_back_as_logged() {
    let header = samples::header();
    let mut otherwise = std::collections::BTreeSet::new();
    for event in samples::log() {
        let doc = v1::event(&header, Mask::bare(), &event);
        let told = faces::transcript::line(Mask::bare(), &event);
        match v1::read(&doc).map(|read| faces::transcript::line(Mask::bare(), &read)) {
            Some(read) if read == told => {}
            _ => {
                otherwise.insert(told.kind);
            }
        }
    }
    assert_eq!(Vec::from_iter(otherwise), TOLD_OTHERWISE);
    assert_eq!(
        v1::read(&serde_json::json!({ "type": "run.started" })),
        None
    );
}

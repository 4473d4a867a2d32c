//! Sensitive values of a workflow, in everything that readers see of its runs.

use std::collections::BTreeSet;

use faces::openwop::v1;
use faces::{Mask, transcript};
use kernel::definition::Plan;
use kernel::run::{Event, RunEvent};
use serde_json::{Value, json};

use crate::samples;
use crate::world::{definition, node, plan};

const CANARY: &str = "canary-7f3a";

/// A workflow with a sensitive and a public value of each kind.
fn declared() -> Plan {
    let mut work = node("work", "runwright.process", json!({}));
    work["outputSensitivity"] = json!({ "stdout": true });
    let mut reader = node("reader", "work.read", json!({}));
    reader["inputs"] = json!({
        "port": { "type": "connection", "nodeId": "work", "outputKey": "stdout" },
        "variable": { "type": "variable", "variableName": "pin" },
        "expression": { "type": "expression", "expression": "variables.pin" },
        "clear": { "type": "variable", "variableName": "owner" },
    });
    let mut gate = node("gate", "core.clarificationGate", json!({}));
    gate["outputSensitivity"] = json!({ "answers": true });
    let of_work = json!({ "type": "connection", "nodeId": "work", "outputKey": "stdout" });
    let mut ask = node("ask", "core.approvalGate", json!({}));
    ask["inputs"] = json!({
        "artifactData": of_work, "title": of_work, "artifactId": of_work, "artifactType": of_work,
    });
    let mut boss = node("boss", "core.orchestrator.supervisor", json!({}));
    boss["inputs"] = json!({ "decision": of_work });
    plan(&definition(
        "safe",
        json!([
            work,
            node("open", "work.open", json!({})),
            reader,
            gate,
            ask,
            boss,
            node(
                "set",
                "core.setVariable",
                json!({ "name": "pin", "value": CANARY })
            ),
            node("get", "core.getVariable", json!({ "name": "pin" })),
            node(
                "write",
                "core.channelWrite",
                json!({ "channel": "found", "value": CANARY })
            ),
            node(
                "child",
                "core.subWorkflow",
                json!({ "workflowId": "w", "outputMapping": { "pin": "its", "owner": "name" } })
            ),
        ]),
        json!([{ "id": "e", "sourceNodeId": "work", "targetNodeId": "reader" }]),
        json!({
            "variables": [
                { "name": "pin", "type": "string", "sensitive": true },
                { "name": "owner", "type": "string" },
            ],
            "channels": {
                "found": { "reducer": "append", "sensitive": true },
                "seen": { "reducer": "append" },
            },
        }),
    ))
}

fn event(kind: &str, data: Value) -> Event {
    let event = json!({ "seq": 7, "at": 1_000, "type": kind, "data": data });
    serde_json::from_value(event).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// Events that hold a value twice: in a sensitive place, and in a public one.
fn telling(hidden: &Value, clear: &Value) -> Vec<Event> {
    let completed = |node: &str, hidden_port: &str| {
        event(
            "node.completed",
            json!({ "nodeId": node, "visit": 0, "attempt": 0, "durationMs": 1,
                "outputs": { hidden_port: hidden, "exitCode": clear } }),
        )
    };
    let failure = json!({
        "code": "process_failed", "message": format!("it failed; it said:\n{hidden}"),
        "details": { "stderr": hidden },
    });
    vec![
        completed("work", "stdout"),
        completed("set", "pin"),
        event(
            "node.started",
            json!({
                "nodeId": "reader", "typeId": "work.read", "visit": 0, "attempt": 0,
                "inputs": { "port": hidden, "variable": hidden, "expression": hidden, "clear": clear },
            }),
        ),
        event("variable.changed", json!({ "name": "pin", "next": hidden })),
        event(
            "channel.written",
            json!({
                "channel": "found", "value": hidden, "reducer": "append", "writtenAt": 1_000,
                "schemaVersion": 1,
            }),
        ),
        event(
            "output.chunk",
            json!({
                "nodeId": "work", "visit": 0, "attempt": 0, "channel": "stdout",
                "chunk": hidden.to_string(), "isLast": true, "meta": { "toolCalls": hidden },
            }),
        ),
        event(
            "runwright.child.settled",
            json!({
                "childRunId": "c", "status": "completed",
                "variables": { "its": hidden, "name": clear },
            }),
        ),
        event(
            "run.completed",
            json!({
                "outputs": { "work": { "stdout": hidden, "exitCode": clear } }, "durationMs": 1,
            }),
        ),
        event(
            "node.failed",
            json!({ "nodeId": "work", "visit": 0, "attempts": 1, "error": failure }),
        ),
        event(
            "node.retried",
            json!({
                "nodeId": "work", "visit": 0, "attempt": 1, "delayMs": 1, "lastError": failure,
            }),
        ),
        event(
            "run.failed",
            json!({ "error": failure, "failedNodeId": "work", "durationMs": 1 }),
        ),
        event(
            "interrupt.resolved",
            json!({
                "interruptId": "i", "nodeId": "gate", "kind": "clarification",
                "resumeValue": { "answers": { "q": hidden } },
            }),
        ),
        event(
            "clarification.resolved",
            json!({
                "interruptId": "i", "nodeId": "gate", "answers": { "q": hidden },
            }),
        ),
    ]
    .into_iter()
    .chain(asking(hidden, &failure))
    .collect()
}

/// Questions, answers and decisions that hold a value.
fn asking(hidden: &Value, failure: &Value) -> Vec<Event> {
    let of = |kind: &str, node: &str, more: Value| {
        let mut data = json!({ "interruptId": "i", "nodeId": node });
        let more = more.as_object().expect("an object").clone();
        data.as_object_mut().expect("an object").extend(more);
        event(kind, data)
    };
    let decision = json!({ "kind": "ask-user", "prompt": hidden });
    let attempt = json!({ "node": "work", "visit": 0, "attempt": 0 });
    vec![
        of(
            "interrupt.requested",
            "ask",
            json!({
                "kind": "approval", "key": "ask", "data": {
                    "artifactId": hidden, "artifactType": hidden, "title": hidden,
                    "artifactData": hidden, "actions": ["accept"],
                },
            }),
        ),
        of(
            "interrupt.requested",
            "work",
            json!({
                "kind": "custom", "key": "work/failed",
                "data": { "reason": "node-failed", "actions": ["retry"], "error": failure },
            }),
        ),
        of(
            "approval.requested",
            "ask",
            json!({
                "artifactId": hidden, "artifactType": hidden, "title": hidden,
                "actions": ["accept"], "requiredApprovals": 1,
            }),
        ),
        of(
            "approval.received",
            "ask",
            json!({
                "action": "refine", "comment": hidden, "feedback": hidden,
                "refineFeedback": { "scope": "whole", "text": hidden },
                "editedArtifactData": hidden,
            }),
        ),
        of(
            "approval.rejected",
            "ask",
            json!({ "principal": "ada", "reason": hidden, "resumeValue": { "comment": hidden } }),
        ),
        of(
            "approval.overridden",
            "ask",
            json!({ "principal": "ada", "reason": hidden }),
        ),
        of(
            "runwright.approval.asked",
            "ask",
            json!({ "resumeValue": { "action": "ask", "comment": hidden } }),
        ),
        of(
            "agent.decided",
            "boss",
            json!({ "agentId": "host:boss", "decision": decision }),
        ),
        of(
            "runOrchestrator.decided",
            "boss",
            json!({ "agentId": "host:boss", "decision": decision, "iteration": 1 }),
        ),
        of(
            "core.workflowChain.confidence-escalated",
            "boss",
            json!({ "confidence": 0.1, "floor": 0.5, "originalDecision": decision }),
        ),
        of(
            "agent.handoff",
            "boss",
            json!({ "fromAgentId": "host:boss", "toAgentId": "host:w", "reason": hidden }),
        ),
        event(
            "log.appended",
            json!({ "level": "info", "message": hidden, "attempt": attempt }),
        ),
        event(
            "runwright.signal.received",
            json!({
                "name": "ask", "id": "1",
                "payload": { "comment": hidden, "action": hidden, "decision": hidden },
            }),
        ),
        event(
            "agent.toolCalled",
            json!({
                "nodeId": "work", "attempt": 0, "toolName": "a.b", "callId": "1",
                "inputs": { "it": hidden }, "argsHash": hidden, "transport": "mcp",
            }),
        ),
        // Versions 1 to 4 passed on any data of a definition.
        of(
            "interrupt.requested",
            "ask",
            json!({ "kind": "custom", "key": "ask", "data": hidden }),
        ),
        of(
            "core.workflowChain.event",
            "work",
            json!({ "phase": "child.failed", "workerId": "w", "error": failure }),
        ),
    ]
}

#[test]
fn a_declared_value_is_in_no_event_and_its_neighbours_are() {
    let (plan, header) = (declared(), samples::header());
    for event in telling(&json!(CANARY), &json!("in the open")) {
        let doc = v1::event(&header, Mask::from_plan(&plan), &event);
        assert!(!doc.to_string().contains(CANARY), "{doc:#}");
        assert!(doc["payload"].to_string().contains("[REDACTED]"), "{doc:#}");
        let stored = serde_json::to_string(&event).expect("JSON");
        let is_beside = doc.to_string().contains("in the open");
        assert_eq!(is_beside, stored.contains("in the open"), "{doc:#}");
        let line = transcript::line(Mask::from_plan(&plan), &event);
        assert!(!line.text.contains(CANARY), "{}", line.text);
        // Without its plan it would be shown: the events do contain it.
        let bare = v1::event(&header, Mask::bare(), &event);
        assert!(bare.to_string().contains(CANARY), "{bare:#}");
    }
}

#[test]
fn kernel_nodes_hide_hidden_values_they_output_again() {
    let plan = declared();
    let hides = |node: &str, port: &str| {
        plan.hides_port(plan.node(plan.node_ix(node).expect("a node")), port)
    };
    assert!(hides("get", "value") && hides("get", "pin"));
    assert!(hides("write", "value"));
    assert!(hides("set", "pin") && !hides("set", "owner"));
    assert!(!hides("work", "exitCode") && !hides("open", "stdout"));
    assert!(plan.hides_channel("found") && !plan.hides_channel("seen"));
}

/// Gates whose questions pass from one to the next; the first asks about the variable `pin`, and
/// the last gets the answer of the one before it by an expression.
fn gates(count: usize, pin: bool) -> Plan {
    let gates = (0..count).map(|n| {
        let mut gate = node(&format!("g{n}"), "core.approvalGate", json!({}));
        let before = n.checked_sub(1).map(|before| format!("g{before}"));
        gate["inputs"] = match before {
            None => json!({ "artifactData": { "type": "variable", "variableName": "pin" } }),
            Some(before) if n == count - 1 => {
                let said = format!("nodes['{before}'].outputs.comment");
                json!({ "artifactData": { "type": "expression", "expression": said } })
            }
            Some(before) => {
                let given = |port: &str| {
                    json!({ "type": "connection", "nodeId": before, "outputKey": port })
                };
                json!({
                    "artifactData": given("artifactData"), "title": given("comment"),
                    "description": given("value"),
                })
            }
        };
        gate
    });
    let edges = (1..count).map(|n| {
        json!({
            "id": format!("e{n}"), "sourceNodeId": format!("g{}", n - 1),
            "targetNodeId": format!("g{n}"),
        })
    });
    plan(&definition(
        "gates",
        gates.collect(),
        edges.collect(),
        json!({ "variables": [
            { "name": "pin", "type": "string", "sensitive": pin },
            { "name": "other", "type": "string", "sensitive": true },
        ] }),
    ))
}

#[test]
fn values_passed_through_gates_stay_hidden() {
    for is_hidden in [true, false] {
        let plan = gates(400, is_hidden);
        let last = plan.nodes.last().expect("gates");
        assert_eq!(plan.hides_input(last, "artifactData"), is_hidden);
        assert_eq!(plan.hides_port(last, "artifactData"), is_hidden);
        assert_eq!(plan.hides_answers(&last.id), is_hidden);
        assert_eq!(plan.hides_signals(), is_hidden);
        assert!(!plan.hides_port(last, "decidedBy"));
    }
}

/// The questions of every node are collected once. Collecting them for every shown port would never
/// end.
#[test]
fn many_gates_are_looked_through_once() {
    let plan = gates(5_000, false);
    for node in &plan.nodes {
        let ports = ["artifactData", "comment", "value"];
        assert!(!ports.iter().any(|port| plan.hides_port(node, port)));
        assert!(!plan.hides_answers(&node.id) && !plan.hides_signals());
    }
}

#[test]
fn sensitive_inputs_of_a_child_are_known_by_name() {
    let of = |more: Value| {
        let one = json!({ "theirs": "pin", "name": "owner" });
        let own = json!({ "b": { "its": "pin", "other": "pin", "who": "owner" } });
        let dispatch = json!({ "inputMapping": one, "perWorkerInputMappings": own });
        let call = json!({ "workflowId": "w", "inputMapping": one });
        let nodes = [
            node("call", "core.subWorkflow", call),
            node("boss", "core.orchestrator.supervisor", json!({})),
            node("hands-out", "core.dispatch", dispatch),
        ];
        plan(&definition("parent", json!(nodes), json!([]), more))
    };
    let variables = |pin: bool| {
        json!([
            { "name": "pin", "type": "string", "sensitive": pin },
            { "name": "owner", "type": "string" },
        ])
    };
    let parent = of(json!({ "variables": variables(true) }));
    let hidden = |node: &str, worker: &str| {
        let names = parent.hidden_of_parent(&node.into(), worker);
        names.map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(hidden("call", "w").as_deref(), Some("theirs"));
    assert_eq!(hidden("hands-out", "a").as_deref(), Some("theirs"));
    assert_eq!(hidden("hands-out", "b").as_deref(), Some("its other"));
    assert_eq!(hidden("nobody", "b").as_deref(), Some(""));
    let open = of(json!({ "variables": variables(false) }));
    let none = open.hidden_of_parent(&"call".into(), "w");
    assert_eq!(none, Some(BTreeSet::new()));
    let classed =
        json!({ "variables": variables(false), "metadata": { "complianceClass": "pii" } });
    let all = of(classed).hidden_of_parent(&"call".into(), "w");
    assert_eq!(all, None, "everything is hidden");
}

#[test]
fn how_an_answer_decides_is_shown_where_a_known_word_says_it() {
    let (plan, header) = (declared(), samples::header());
    for word in ["accept", "edit-accept", "overridden", "abort"] {
        let payload = json!({ "action": word, "decision": word, "comment": CANARY });
        let told = event(
            "runwright.signal.received",
            json!({ "name": "ask", "id": "1", "payload": payload }),
        );
        let doc = v1::event(&header, Mask::from_plan(&plan), &told);
        let shown = json!({ "action": word, "decision": word, "comment": "[REDACTED]" });
        assert_eq!(doc["payload"]["payload"], shown);
    }
}

/// The protocol's shape of such a question keeps its content.
#[test]
fn unshaped_question_data_becomes_the_correlation() {
    let header = samples::header();
    for (data, correlation) in [
        (json!("order 7"), json!({ "data": "order 7" })),
        (json!([7]), json!({ "data": [7] })),
        (Value::Null, json!({})),
        (json!({ "order": 7 }), json!({ "order": 7 })),
    ] {
        let asked = event(
            "interrupt.requested",
            json!({
                "interruptId": "i", "nodeId": "work", "kind": "external-event", "key": "paid",
                "data": data,
            }),
        );
        let doc = v1::event(&header, Mask::bare(), &asked);
        let shown = json!({ "eventType": "paid", "correlation": correlation });
        assert_eq!(doc["payload"]["data"], shown);
    }
}

#[test]
fn only_a_question_about_a_failed_node_is_read_as_one() {
    let header = samples::header();
    let said = |reason: &str| json!({ "reason": reason, "actions": ["retry"], "error": { "message": "no" } });
    for (reason, is_failure) in [("node-failed", true), ("review", false)] {
        let asked = event(
            "interrupt.requested",
            json!({
                "interruptId": "i", "nodeId": "work", "kind": "custom", "key": "k",
                "data": said(reason),
            }),
        );
        let doc = v1::event(&header, Mask::bare(), &asked);
        let data = &doc["payload"]["data"];
        assert_eq!(
            v1::failure_of_question(data).is_some(),
            is_failure,
            "{data}"
        );
        let read = v1::read(&doc).expect("an event");
        let RunEvent::InterruptRequested { data: read, .. } = read.body else {
            panic!("{read:?}");
        };
        let as_shown = if is_failure {
            said(reason)
        } else {
            data.clone()
        };
        assert_eq!(read, as_shown);
    }
}

#[test]
fn a_class_of_compliance_hides_every_value_and_public_none() {
    let of_class = |class: &str| {
        plan(&definition(
            "safe",
            json!([
                node("work", "work.open", json!({})),
                node("gate", "core.clarificationGate", json!({}))
            ]),
            json!([]),
            json!({ "metadata": { "complianceClass": class } }),
        ))
    };
    let header = samples::header();
    for class in ["pii", "phi", "pci", "regulated"] {
        let plan = of_class(class);
        for event in telling(&json!(CANARY), &json!(CANARY)) {
            let doc = v1::event(&header, Mask::from_plan(&plan), &event);
            // Errors and answers of nodes that are not part of this workflow.
            assert!(!doc.to_string().contains(CANARY), "{class}: {doc:#}");
        }
    }
    let public = of_class("public");
    let event = &telling(&json!(CANARY), &json!(CANARY))[3];
    let doc = v1::event(&header, Mask::from_plan(&public), event);
    assert_eq!(doc["payload"]["next"], CANARY);
}

#[test]
fn ciphertext_is_never_shown() {
    let sealed = json!({ "$sealed": { "key": "k", "nonce": "bg==", "body": "canary-Ym9keQ==" } });
    let header = samples::header();
    let events = [
        event(
            "runwright.child.settled",
            json!({
                "childRunId": "c", "status": "completed", "variables": { "its": sealed },
            }),
        ),
        event(
            "channel.written",
            json!({
                "channel": "seen", "value": [{ "deep": sealed }], "reducer": "append",
                "writtenAt": 1_000, "schemaVersion": 1,
            }),
        ),
        event(
            "variable.changed",
            json!({ "name": "owner", "next": { "$sealed": 1, "more": sealed } }),
        ),
    ];
    for event in events {
        let doc = v1::event(&header, Mask::bare(), &event);
        assert!(!doc.to_string().contains("canary-"), "{doc:#}");
        let line = transcript::line(Mask::bare(), &event);
        assert!(!line.text.contains("canary-"), "{}", line.text);
    }
}

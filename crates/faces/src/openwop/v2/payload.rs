//! Payloads. Version 2 closes every object: each type lists its fields
//! (`run-event-payloads.schema.json`). Another field of a v1 payload is carried as
//! `x-runwright-<name>`: a projection drops nothing (`events.md`; RFC 0185).

use kernel::stream::Owner;
use serde_json::{Map, Value, json};

use super::codes::run_code;
use super::id::bind;
use super::owner::{legacy_subject, subject};

/// The fields of each protocol type that this engine emits, by its v2 name.
const FIELDS: [(&str, &[&str]); 44] = [
    (
        "run.started",
        &[
            "workflowId",
            "inputs",
            "transport",
            "engineVersion",
            "owner",
            "tags",
            "metadata",
        ],
    ),
    ("run.completed", &["outputs", "durationMs"]),
    ("run.failed", &["error", "failedNodeId", "durationMs"]),
    (
        "run.cancelled",
        &["reason", "cancelledBy", "durationMs", "parentRunId"],
    ),
    ("run.resume-started", &["fromStatus"]),
    ("run.paused", &["reason", "drainPolicy"]),
    ("run.resumed", &["reason"]),
    (
        "run.dead-lettered",
        &["runId", "nodeId", "reason", "attempts"],
    ),
    ("node.started", &["nodeId", "typeId", "attempt"]),
    ("node.completed", &["nodeId", "outputs", "durationMs"]),
    ("node.failed", &["nodeId", "error", "attempts"]),
    ("node.suspended", &["nodeId", "interruptId", "kind", "key"]),
    ("node.resumed", &["nodeId", "interruptId", "resumeValue"]),
    (
        "node.retried",
        &["nodeId", "attempt", "delayMs", "lastError"],
    ),
    ("node.skipped", &["nodeId", "reason"]),
    ("node.cancelled", &["nodeId", "reason"]),
    (
        "node.dispatched",
        &["childRunId", "childWorkflowId", "childStatus"],
    ),
    (
        "interrupt.requested",
        &["kind", "key", "data", "resumeSchema", "timeoutMs"],
    ),
    ("interrupt.resolved", &RESOLVED),
    ("approval.requested", &["kind", "key", "data"]),
    ("approval.received", &RESOLVED),
    ("approval.granted", &RESOLVED),
    ("approval.rejected", &RESOLVED),
    ("approval.overridden", &RESOLVED),
    ("clarification.requested", &["kind", "key", "data"]),
    ("clarification.resolved", &RESOLVED),
    (
        "channel.written",
        &[
            "channel",
            "value",
            "reducer",
            "nodeId",
            "writtenAt",
            "schemaVersion",
        ],
    ),
    (
        "artifact.created",
        &["artifactId", "artifactType", "nodeId"],
    ),
    (
        "output.chunk",
        &["nodeId", "runId", "chunk", "isLast", "channel", "meta"],
    ),
    ("variable.changed", &["name", "previous", "next", "nodeId"]),
    ("log.appended", &["level", "message", "nodeId", "fields"]),
    (
        "workflow.loopback-limit",
        &["nodeId", "iterations", "limit"],
    ),
    ("budget.reserved", &["effectiveBudget", "scope"]),
    (
        "budget.threshold-crossed",
        &["dimension", "consumed", "limit", "percent"],
    ),
    ("budget.exhausted", &["dimension", "consumed", "limit"]),
    ("cap.breached", &["kind", "limit", "observed", "nodeId"]),
    (
        "agent.tool-called",
        &[
            "agentId",
            "toolName",
            "callId",
            "inputs",
            "argsHash",
            "principal",
            "transport",
        ],
    ),
    (
        "agent.tool-returned",
        &[
            "agentId",
            "toolName",
            "callId",
            "outcome",
            "error",
            "status",
            "durationMs",
        ],
    ),
    ("agent.handoff", &["fromAgentId", "toAgentId", "reason"]),
    ("agent.decided", &["agentId", "decision", "confidence"]),
    (
        "replay.diverged",
        &[
            "sourceRunId",
            "atSequence",
            "originalEventId",
            "divergenceKind",
            "divergencePoint",
        ],
    ),
    (
        "workflow-chain.event",
        &[
            "phase",
            "workerId",
            "parentRunId",
            "childRunId",
            "harvestedKeys",
            "error",
        ],
    ),
    (
        "orchestrator.decided",
        &["agentId", "decision", "iteration"],
    ),
    (
        "prompt.composed",
        &["nodeId", "refs", "kind", "hash", "variableHashes"],
    ),
];
/// The prefix of fields that version 2 has no place for.
const OURS: &str = "x-runwright-";
const RESOLVED: [&str; 6] = [
    "nodeId",
    "interruptId",
    "kind",
    "resumeValue",
    "resolvedBy",
    "decision",
];

/// Fields with ids that v2 writes with their tenant.
pub(super) const BOUND: [&str; 6] = [
    "runId",
    "childRunId",
    "parentRunId",
    "sourceRunId",
    "interruptId",
    "activeRunId",
];

/// Facts of an event that its v1 document does not have.
#[derive(Clone, Copy, Default)]
pub(super) struct Beyond<'a> {
    /// The question of a gate.
    pub interrupt: Option<&'a str>,
    /// The issuer of the answerer's credential.
    pub issuer: Option<&'a str>,
}

/// The payload of a v1 document, by the v2 name of its type.
pub(super) fn project_payload(
    owner: &Owner,
    kind: &str,
    payload: Value,
    beyond: Beyond<'_>,
) -> Value {
    let Value::Object(mut fields) = payload else {
        return payload;
    };
    match kind {
        "run.started" => {
            fields.insert("owner".into(), super::owner::owner(owner));
            number(&mut fields, "engineVersion");
        }
        "interrupt.resolved" => resolved(owner, &mut fields, beyond.issuer),
        kind if kind.starts_with("approval.") || kind.starts_with("clarification.") => {
            fields = gate(owner, kind, fields, beyond.interrupt);
        }
        "runwright.run.stopping" => {
            if let Some(Value::Object(ending)) = fields.get_mut("ending") {
                bind_fields(owner, ending);
                codes(ending);
            }
        }
        _ => {}
    }
    bind_fields(owner, &mut fields);
    codes(&mut fields);
    let known = FIELDS.iter().find(|(name, _)| *name == kind);
    let shown = fields.into_iter().map(|(name, value)| {
        let is_other = known.is_some_and(|(_, known)| !known.contains(&name.as_str()));
        let name = if is_other {
            format!("{OURS}{name}")
        } else {
            name
        };
        (name, value)
    });
    Value::Object(shown.collect())
}

/// Puts the tenant in front of the ids of an object.
pub(super) fn bind_fields(owner: &Owner, fields: &mut Map<String, Value>) {
    for name in BOUND {
        if let Some(Value::String(id)) = fields.get_mut(name) {
            *id = bind(&owner.tenant, &id);
        }
    }
    for name in ["mergeOrder", "childRunIds"] {
        let ids = fields.get_mut(name).and_then(Value::as_array_mut);
        for id in ids.into_iter().flatten() {
            if let Value::String(id) = id {
                *id = bind(&owner.tenant, &id);
            }
        }
    }
}

/// Spells the codes of the errors of an object as v2 does.
pub(super) fn codes(fields: &mut Map<String, Value>) {
    for name in ["error", "lastError"] {
        if let Some(error) = fields.get_mut(name) {
            project_error(error);
        }
    }
}

/// Spells the code of an error as v2 does.
pub fn project_error(error: &mut Value) {
    if let Some(Value::String(code)) = error.get_mut("code") {
        *code = run_code(code).into_owned();
    }
}

/// Makes a number of a text that is one.
pub(super) fn number(fields: &mut Map<String, Value>, name: &str) {
    let number = fields.get(name).and_then(Value::as_str);
    if let Some(number) = number.and_then(|text| text.parse::<u64>().ok()) {
        fields.insert(name.to_owned(), json!(number));
    }
}

/// An answered question: the answerer is a subject, and the decision has a field.
fn resolved(owner: &Owner, fields: &mut Map<String, Value>, issuer: Option<&str>) {
    let answer = fields.get("resumeValue");
    let word = |name: &str| answer.and_then(|answer| answer.get(name)?.as_str());
    let is_approval = fields.get("kind").and_then(Value::as_str) == Some("approval");
    if let Some(decision) = decision(word("decision"), word("action")).filter(|_| is_approval) {
        fields.insert("decision".into(), json!(decision));
    }
    let who = decider(fields, "resolvedBy");
    if let Some(who) = who {
        fields.insert("resolvedBy".into(), subject(owner, &who, issuer));
    }
}

/// The word for a decision at an approval.
fn decision(decision: Option<&str>, action: Option<&str>) -> Option<&'static str> {
    match (decision, action) {
        (Some("granted"), _) => Some("granted"),
        (Some("rejected"), _) => Some("rejected"),
        (Some("overridden"), _) => Some("overridden"),
        (None, Some("accept" | "edit-accept")) => Some("granted"),
        (None, Some("reject")) => Some("rejected"),
        _ => None,
    }
}

/// Takes the name of a decider. A decision by timeout has none.
fn decider(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    let who = fields.get(name)?.as_str()?.to_owned();
    (who != super::super::v1::BY_TIMEOUT).then(|| {
        fields.remove(name);
        who
    })
}

/// Events of gates resolve to the shapes of questions and answers in v2.
fn gate(
    owner: &Owner,
    kind: &str,
    mut fields: Map<String, Value>,
    interrupt: Option<&str>,
) -> Map<String, Value> {
    let (of, verb) = kind.split_once('.').unwrap_or((kind, ""));
    let mut shown = Map::new();
    shown.insert("kind".into(), json!(of));
    let id = interrupt.map(str::to_owned);
    let id = id.or_else(|| Some(fields.get("interruptId")?.as_str()?.to_owned()));
    if verb == "requested" {
        for name in ["nodeId", "interruptId", "visit"] {
            fields.remove(name);
        }
        for action in fields
            .get_mut("actions")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            // v1 keeps the older word here.
            if action == "edit" {
                *action = json!("edit-accept");
            }
        }
        shown.insert("key".into(), json!(id.unwrap_or_default()));
        shown.insert("data".into(), Value::Object(fields));
        return shown;
    }
    if let Some(id) = id {
        shown.insert("interruptId".into(), json!(id));
    }
    let node = fields.remove("nodeId").or_else(|| fields.remove("gateId"));
    shown.extend(node.map(|node| ("nodeId".to_owned(), node)));
    let word = match verb {
        "granted" | "rejected" | "overridden" => Some(verb),
        _ => decision(None, fields.get("action").and_then(Value::as_str)),
    };
    shown.extend(word.map(|word| ("decision".to_owned(), json!(word))));
    for name in ["principal", "decidedBy", "answeredBy"] {
        if let Some(who) = decider(&mut fields, name) {
            shown.insert("resolvedBy".into(), legacy_subject(owner, &who));
        }
    }
    for name in ["visit", "decidedAt", "quorumProgress"] {
        let value = fields.remove(name);
        shown.extend(value.map(|value| (name.to_owned(), value)));
    }
    fields.remove("interruptId");
    if !fields.is_empty() {
        shown.insert("resumeValue".into(), Value::Object(fields));
    }
    shown
}

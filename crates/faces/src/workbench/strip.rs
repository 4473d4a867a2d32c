//! A bundle reduced by its schema: unknown members of known objects are removed, defaults are
//! filled. The integrity hash covers this form, not the sent one.

use serde_json::{Map, Value, json};

/// How a member is read.
#[derive(Clone, Copy)]
pub(super) enum As {
    /// Unchanged.
    Any,
    /// An object.
    One(&'static Shape),
    /// A list of objects.
    Each(&'static Shape),
    /// A list of pairs of a key and an object.
    Pairs(&'static Shape),
    /// Unchanged; by default this text.
    OrText(&'static str),
    /// Unchanged; by default an empty list.
    OrEmpty,
    /// A list of objects; by default empty.
    EachOrEmpty(&'static Shape),
    /// Unchanged; by default an empty object.
    OrObject,
}

pub(super) type Shape = [(&'static str, As)];

const EDGE: &Shape = &[("id", As::Any), ("from", As::Any), ("to", As::Any)];
const STEP: &Shape = &[
    ("id", As::Any),
    ("title", As::Any),
    ("description", As::Any),
    ("gatePolicy", As::OrText("AUTO")),
    ("inputs", As::OrEmpty),
    ("outputs", As::OrEmpty),
];
const WORKFLOW: &Shape = &[
    ("id", As::Any),
    ("version", As::Any),
    ("title", As::Any),
    ("steps", As::Each(STEP)),
    ("edges", As::EachOrEmpty(EDGE)),
];
const PINNED: &Shape = &[("artifactKey", As::Any), ("version", As::Any)];
const CONTEXT: &Shape = &[
    ("parentRunId", As::Any),
    ("parentRunIds", As::Any),
    ("forkedFromStepId", As::Any),
    ("pinnedArtifacts", As::Each(PINNED)),
];
const ANNOTATION: &Shape = &[("at", As::Any), ("text", As::Any)];
pub(super) const RUN: &Shape = &[
    ("id", As::Any),
    ("workflowId", As::Any),
    ("workflowVersion", As::Any),
    ("workflowSnapshot", As::One(WORKFLOW)),
    ("startedAt", As::Any),
    ("endedAt", As::Any),
    ("status", As::Any),
    ("context", As::One(CONTEXT)),
    ("subject", As::Any),
    ("metadata", As::Any),
    ("tags", As::Any),
    ("annotations", As::Each(ANNOTATION)),
];
const POINTER: &Shape = &[
    ("kind", As::Any),
    ("ref", As::Any),
    ("payloadHash", As::Any),
    ("sha256", As::Any),
    ("byteLength", As::Any),
];
pub(super) const ARTIFACT: &Shape = &[
    ("artifactKey", As::Any),
    ("typeId", As::Any),
    ("version", As::Any),
    ("createdAt", As::Any),
    ("pointer", As::One(POINTER)),
    ("data", As::Any),
];
const RULE: &Shape = &[
    ("id", As::Any),
    ("priority", As::Any),
    ("enabled", As::Any),
    ("label", As::Any),
    ("payload", As::Any),
];
pub(super) const RULES: &Shape = &[
    ("id", As::Any),
    ("ruleSchemaId", As::Any),
    ("rules", As::Each(RULE)),
];
const GATE: &Shape = &[
    ("before", As::Any),
    ("after", As::Any),
    ("checkpoints", As::OrObject),
];
pub(super) const ENGINE: &Shape = &[
    ("revision", As::Any),
    ("stepStatus", As::Any),
    ("gateState", As::Pairs(GATE)),
    ("idempotency", As::Pairs(PINNED)),
];
const FAILURE: &Shape = &[("message", As::Any), ("code", As::Any)];

/// The members of every event.
const EVERY: &Shape = &[
    ("id", As::Any),
    ("type", As::Any),
    ("runId", As::Any),
    ("ts", As::Any),
    ("stepId", As::Any),
    ("correlationId", As::Any),
];

/// The additional members of an event of a kind; `None` for a kind that bundles do not know.
fn of_kind(kind: &str) -> Option<&'static Shape> {
    Some(match kind {
        "step_started" => &[],
        "step_completed" => &[("ok", As::Any), ("error", As::One(FAILURE))],
        "artifact_written" => &[("artifact", As::One(ARTIFACT)), ("idempotencyKey", As::Any)],
        "artifact_patch" => &[
            ("artifactKey", As::Any),
            ("fromVersion", As::Any),
            ("toVersion", As::Any),
            ("patch", As::Any),
            ("idempotencyKey", As::Any),
        ],
        "model_io" => &[
            ("direction", As::Any),
            ("provider", As::Any),
            ("model", As::Any),
            ("usage", As::Any),
            ("cost", As::Any),
            ("durationMs", As::Any),
            ("summary", As::Any),
            ("payload", As::Any),
        ],
        "tool_call" => &[("name", As::Any), ("args", As::Any), ("result", As::Any)],
        "human_gate_requested" => &[("gate", As::Any), ("reason", As::Any)],
        "human_gate_resolved" => &[("gate", As::Any), ("decision", As::Any), ("note", As::Any)],
        "rule_changed" => &[("ruleSetId", As::Any), ("snapshot", As::One(RULES))],
        "policy_changed" => &[("policy", As::Any)],
        "error" => &[("message", As::Any), ("code", As::Any), ("fatal", As::Any)],
        "run_forked" => &[
            ("parentRunId", As::Any),
            ("parentRunIds", As::Any),
            ("forkedFromStepId", As::Any),
        ],
        "annotation" => &[("text", As::Any), ("tags", As::Any)],
        "run_status_changed" => &[("status", As::Any), ("reason", As::Any)],
        "span_started" => &[
            ("spanId", As::Any),
            ("parentSpanId", As::Any),
            ("name", As::Any),
            ("kind", As::Any),
            ("attributes", As::Any),
        ],
        "span_ended" => &[
            ("spanId", As::Any),
            ("status", As::Any),
            ("durationMs", As::Any),
            ("attributes", As::Any),
            ("error", As::One(FAILURE)),
        ],
        _ => return None,
    })
}

/// An event reduced by its schema; `None` for a kind that bundles do not know.
pub(super) fn event(event: &Value) -> Option<Value> {
    let own = of_kind(event["type"].as_str()?)?;
    let (mut read, own) = (object(event, EVERY), object(event, own));
    if let (Value::Object(read), Value::Object(own)) = (&mut read, own) {
        read.extend(own);
    }
    Some(read)
}

/// An object reduced to the members of a schema. Other values stay unchanged.
pub(super) fn object(value: &Value, shape: &Shape) -> Value {
    let Value::Object(members) = value else {
        return value.clone();
    };
    let mut read = Map::new();
    for (name, how) in shape {
        if let Some(value) = member(members.get(*name), *how) {
            read.insert((*name).to_owned(), value);
        }
    }
    Value::Object(read)
}

/// A list of objects.
pub(super) fn each(value: &Value, shape: &Shape) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| object(item, shape)).collect(),
        other => other.clone(),
    }
}

fn member(value: Option<&Value>, how: As) -> Option<Value> {
    let Some(value) = value else {
        return match how {
            As::OrText(text) => Some(json!(text)),
            As::OrEmpty | As::EachOrEmpty(_) => Some(json!([])),
            As::OrObject => Some(json!({})),
            As::Any | As::One(_) | As::Each(_) | As::Pairs(_) => None,
        };
    };
    Some(match how {
        As::One(shape) => object(value, shape),
        As::Each(shape) | As::EachOrEmpty(shape) => each(value, shape),
        As::Pairs(shape) => match value {
            Value::Array(pairs) => pairs.iter().map(|pair| pair_of(pair, shape)).collect(),
            other => other.clone(),
        },
        As::Any | As::OrText(_) | As::OrEmpty | As::OrObject => value.clone(),
    })
}

fn pair_of(pair: &Value, shape: &Shape) -> Value {
    match pair.as_array().map(Vec::as_slice) {
        Some([key, value]) => json!([key, object(value, shape)]),
        _ => pair.clone(),
    }
}

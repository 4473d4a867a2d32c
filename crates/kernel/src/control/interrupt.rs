//! `core.interrupt`: waits for an answer from outside.
//!
//! Config `{ "kind": …, "key": …, "data": …, "resumeSchema": …, "timeoutMs": …, "profile": … }`. A
//! signal whose name is the key answers it, even if it arrived before the question. Output:
//! `value`. An `external-event` only accepts events that match `data.correlation`.
//!
//! The kind is one of the protocol's that a workflow may use: `approval`, `clarification`,
//! `external-event` (`data`: `eventType`, `correlation`) or `custom` (`data`: `customKind`,
//! `payload`; without `data` the key is the `customKind`). An `approval` or a `clarification` is
//! asked, judged and recorded like the gate of its kind, with `data` as the gate's config. It has
//! no ports: an answer other than an accept fails the node, and `refine` asks again. An input port
//! overrides the config, including `kind`.

use serde_json::{Map, Value};

use super::approval::{self, ApprovalGate};
use super::clarification::{self, ClarificationGate};
use super::{
    Ask, Began, ConfigProblems, Context, ControlKind, ControlNode, PortSensitivity, Spec, Wait,
    misconfigured, schema, sensitivity_of_gate, setting, with_resume_schema,
};
use crate::definition::config_keys::{PROFILE, RESUME_SCHEMA, TEXT, TIMEOUT_MS, Takes};
use crate::definition::{Node, Plan, PlanNode};
use crate::limits::MAX_WAIT_MS;
use crate::run::InterruptKind;
use crate::run::state::OpenInterrupt;

/// The node kind.
pub(crate) struct Interrupt;

const SPEC: Spec = Spec {
    type_id: "core.interrupt",
    summary: "Waits for an answer from outside.",
    config_keys: &[
        key!("key": TEXT, "The key of an answer; default: the node's id."),
        key!("kind": TEXT, "The kind of the question; default: custom."),
        key!("data": Takes::Anything, "The question."),
        RESUME_SCHEMA,
        TIMEOUT_MS,
        PROFILE,
    ],
    ..Spec::DEFAULT
};

impl ControlNode for Interrupt {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn check_config(&self, node: &Node) -> ConfigProblems {
        let mut problems = check_config(&node.config);
        // A port gives the kind, and thereby the required data, when the node starts.
        if node.inputs.iter().any(|(port, _)| port == "kind") {
            problems.retain(|(key, _)| *key != "data");
        }
        with_resume_schema(problems, &node.config)
    }

    fn wait(&self, config: &Value) -> Option<Wait> {
        Some(Wait::from_config(config, "timeoutMs"))
    }

    fn sensitivity(&self, _: &Plan, _: &PlanNode, port: &str) -> PortSensitivity {
        sensitivity_of_gate(port)
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let kind = match kind(setting(cx, "kind")) {
            Ok(kind) => kind,
            Err(what) => return misconfigured(cx, format_args!("kind {what}")),
        };
        let given = setting(cx, "data").filter(|data| !data.is_null());
        let data = match (kind, given) {
            // All fields of an approval have defaults.
            (InterruptKind::Approval, None) => Map::new(),
            (InterruptKind::Custom, None) => {
                Map::from_iter([("customKind".to_owned(), Value::from(question_key(cx)))])
            }
            (_, given) => match check_data(kind, given.unwrap_or(&Value::Null)) {
                Ok(data) => data.clone(),
                Err(what) => return misconfigured(cx, format_args!("data {what}")),
            },
        };
        let as_gate = |mut data: Map<String, Value>| {
            // The question's key is outside of its data.
            data.remove("key");
            data.extend(
                cx.inputs
                    .get_key_value("key")
                    .map(|(key, of)| (key.clone(), of.clone())),
            );
            data
        };
        match kind {
            InterruptKind::Approval => ApprovalGate.begin(&Context {
                inputs: &as_gate(data),
                ..*cx
            }),
            InterruptKind::Clarification => ClarificationGate.begin(&Context {
                inputs: &as_gate(data),
                ..*cx
            }),
            _ => ask(cx, kind, Value::Object(data)),
        }
    }

    fn asks_as(&self, open: &OpenInterrupt) -> Option<ControlKind> {
        match open.kind {
            InterruptKind::Approval => Some(ControlKind::ApprovalGate),
            InterruptKind::Clarification if open.data.get("questions").is_some() => {
                Some(ControlKind::ClarificationGate)
            }
            _ => None,
        }
    }
}

/// The kinds that a workflow may use.
const KINDS: [InterruptKind; 4] = [
    InterruptKind::Approval,
    InterruptKind::Clarification,
    InterruptKind::ExternalEvent,
    InterruptKind::Custom,
];

/// The kind in an input port or a config.
fn kind(named: Option<&Value>) -> Result<InterruptKind, &'static str> {
    let named = match named {
        None | Some(Value::Null) => Some(InterruptKind::Custom),
        Some(word) => KINDS
            .into_iter()
            .find(|kind| word.as_str() == Some(kind.as_str())),
    };
    named.ok_or("must be approval, clarification, external-event or custom")
}

/// The data of a question, if it has the protocol's required fields for its kind.
fn check_data(kind: InterruptKind, data: &Value) -> Result<&Map<String, Value>, String> {
    let fields = data.as_object();
    let fields = fields.ok_or(match kind {
        InterruptKind::ExternalEvent => "must be an object with `eventType` and `correlation`",
        InterruptKind::Clarification => "must be an object with `questions`",
        _ => "must be an object",
    })?;
    let only = |known: &[&str]| {
        if fields.keys().all(|name| known.contains(&name.as_str())) {
            Ok(())
        } else {
            Err(format!(
                "has a field that {kind} does not have; it has {}",
                known.join(" and ")
            ))
        }
    };
    let is_text = |name: &str| {
        let text = fields.get(name).and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    match kind {
        InterruptKind::ExternalEvent => {
            only(&["eventType", "correlation"])?;
            if !is_text("eventType") {
                return Err("must have `eventType`, the name of the awaited event".into());
            }
            if !fields.get("correlation").is_some_and(Value::is_object) {
                let what = "must have `correlation`, an object that the event must match";
                return Err(what.into());
            }
        }
        InterruptKind::Custom => {
            only(&["customKind", "payload"])?;
            if !is_text("customKind") {
                return Err("must have `customKind`, the name of the question".into());
            }
        }
        InterruptKind::Clarification if !fields.contains_key("questions") => {
            return Err("must have `questions`".into());
        }
        _ => {}
    }
    Ok(fields)
}

/// Faults in a config, by its key. Values from an input port are checked when they arrive.
fn check_config(config: &Value) -> ConfigProblems {
    let kind = match kind(config.get("kind")) {
        Ok(kind) => kind,
        Err(what) => return vec![("kind", what.to_owned())],
    };
    let Some(data) = config.get("data").filter(|data| !data.is_null()) else {
        return Vec::new();
    };
    let problems = match (kind, check_data(kind, data)) {
        (_, Err(what)) => return vec![("data", what)],
        (InterruptKind::Approval, Ok(_)) => approval::check_config(data),
        (InterruptKind::Clarification, Ok(_)) => clarification::check_config(data),
        _ => Vec::new(),
    };
    let in_data = |(key, what)| ("data", format!("is wrong in `{key}`: {what}"));
    problems.into_iter().map(in_data).collect()
}

/// The key by which a signal answers the question.
pub(crate) fn question_key(cx: &Context<'_>) -> String {
    let key = setting(cx, "key").and_then(Value::as_str);
    key.map_or_else(|| cx.node.id.to_string(), str::to_owned)
}

/// A question of a kind. Key, schema and timeout are in the config of every asking node.
pub(crate) fn ask(cx: &Context<'_>, kind: InterruptKind, data: Value) -> Began {
    let config = &cx.node.config;
    let timeout_ms = match config.get("timeoutMs") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_u64() {
            Some(ms) => Some(ms.min(MAX_WAIT_MS)),
            None => return misconfigured(cx, "config.timeoutMs must be a number of milliseconds"),
        },
    };
    let resume_schema = config.get("resumeSchema").cloned();
    if let Some(Err(error)) = resume_schema.as_ref().map(|of| schema::check(of, "")) {
        return misconfigured(cx, format_args!("config.resumeSchema{error}"));
    }
    Began::Asks(Ask {
        kind,
        key: question_key(cx),
        data,
        resume_schema,
        timeout_ms: timeout_ms.filter(|ms| *ms > 0),
    })
}

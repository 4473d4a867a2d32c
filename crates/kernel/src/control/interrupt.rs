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

use super::{Ask, Began, Context, approval, clarification, misconfigured, schema, setting};
use crate::limits::MAX_WAIT_MS;

/// The kind of a question that is accepted or rejected.
pub(crate) const APPROVAL: &str = "approval";
/// The kind of questions that are answered by their ids.
pub(crate) const CLARIFICATION: &str = "clarification";
/// The kind of an event from outside.
const EXTERNAL_EVENT: &str = "external-event";
/// The kind of all other questions.
const CUSTOM: &str = "custom";
/// The kinds that a workflow may use.
const KINDS: [&str; 4] = [APPROVAL, CLARIFICATION, EXTERNAL_EVENT, CUSTOM];

/// Begins according to the kind.
pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let kind = match kind(setting(cx, "kind")) {
        Ok(kind) => kind,
        Err(what) => return misconfigured(cx, format_args!("kind {what}")),
    };
    let given = setting(cx, "data").filter(|data| !data.is_null());
    let data = match (kind, given) {
        // All fields of an approval have defaults.
        (APPROVAL, None) => Map::new(),
        (CUSTOM, None) => Map::from_iter([("customKind".to_owned(), Value::from(key(cx)))]),
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
        APPROVAL => approval::begin(&Context {
            inputs: &as_gate(data),
            ..*cx
        }),
        CLARIFICATION => clarification::begin(&Context {
            inputs: &as_gate(data),
            ..*cx
        }),
        _ => ask(cx, kind, Value::Object(data)),
    }
}

/// The kind in an input port or a config.
fn kind(named: Option<&Value>) -> Result<&'static str, &'static str> {
    let named = match named {
        None | Some(Value::Null) => Some(CUSTOM),
        Some(word) => KINDS.into_iter().find(|kind| word.as_str() == Some(kind)),
    };
    named.ok_or("must be approval, clarification, external-event or custom")
}

/// The data of a question, if it has the protocol's required fields for its kind.
fn check_data<'a>(kind: &str, data: &'a Value) -> Result<&'a Map<String, Value>, String> {
    let fields = data.as_object();
    let fields = fields.ok_or(match kind {
        EXTERNAL_EVENT => "must be an object with `eventType` and `correlation`",
        CLARIFICATION => "must be an object with `questions`",
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
        EXTERNAL_EVENT => {
            only(&["eventType", "correlation"])?;
            if !is_text("eventType") {
                return Err("must have `eventType`, a text that says what is awaited".into());
            }
            if !fields.get("correlation").is_some_and(Value::is_object) {
                let what = "must have `correlation`, an object of what the event has to have";
                return Err(what.into());
            }
        }
        CUSTOM => {
            only(&["customKind", "payload"])?;
            if !is_text("customKind") {
                return Err("must have `customKind`, a text that says what is asked".into());
            }
        }
        CLARIFICATION if !fields.contains_key("questions") => {
            return Err("must have `questions`".into());
        }
        _ => {}
    }
    Ok(fields)
}

/// Faults in a config, by its key. Values from an input port are checked when they arrive.
pub(crate) fn check_config(config: &Value) -> Vec<(&'static str, String)> {
    let kind = match kind(config.get("kind")) {
        Ok(kind) => kind,
        Err(what) => return vec![("kind", what.to_owned())],
    };
    let Some(data) = config.get("data").filter(|data| !data.is_null()) else {
        return Vec::new();
    };
    let problems = match (kind, check_data(kind, data)) {
        (_, Err(what)) => return vec![("data", what)],
        (APPROVAL, Ok(_)) => approval::check_config(data),
        (CLARIFICATION, Ok(_)) => clarification::check_config(data),
        _ => Vec::new(),
    };
    let in_data = |(key, what)| ("data", format!("is wrong in `{key}`: {what}"));
    problems.into_iter().map(in_data).collect()
}

fn key(cx: &Context<'_>) -> String {
    let key = setting(cx, "key").and_then(Value::as_str);
    key.map_or_else(|| cx.node.id.to_string(), str::to_owned)
}

/// A question of a kind. Key, schema and timeout are in the config of every asking node.
pub(crate) fn ask(cx: &Context<'_>, kind: &str, data: Value) -> Began {
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
        kind: kind.to_owned(),
        key: key(cx),
        data,
        resume_schema,
        timeout_ms: timeout_ms.filter(|ms| *ms > 0),
    })
}

//! `core.interrupt`: waits for somebody or something outside.
//!
//! Config `{ "kind": …, "key": …, "data": …, "resumeSchema": …, "timeoutMs": …, "profile": … }`. A
//! signal whose name is the key answers it, also one that came before anybody asked. Output:
//! `value`. An `external-event` takes only what agrees with `data.correlation`.
//!
//! Since engine version 5 an `approval`, and a `clarification` with `questions`, is asked, judged
//! and told as by the gate of its kind, with `data` for the gate's config. It has no ports: what is
//! not accepted fails it, and `refine` asks again.

use serde_json::{Map, Value};

use super::{Ask, Began, Context, approval, clarification, misconfigured, schema, setting};
use crate::limits::MAX_WAIT_MS;

/// The kind of a question that is accepted or rejected.
pub(crate) const APPROVAL: &str = "approval";
/// The kind of questions that are answered by their ids.
pub(crate) const CLARIFICATION: &str = "clarification";

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let kind = cx.node.config.get("kind").and_then(Value::as_str);
    let data = setting(cx, "data").cloned();
    ask(
        cx,
        kind.unwrap_or("custom"),
        data.unwrap_or_else(|| Value::Object(Map::new())),
    )
}

/// Begins as [`begin`] does, or as the gate of the kind.
pub(crate) fn begin_by_kind(cx: &Context<'_>) -> Began {
    let kind = cx.node.config.get("kind").and_then(Value::as_str);
    let mut data = setting(cx, "data")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let has_questions = data.contains_key("questions");
    // That of the question stands beside its data.
    data.remove("key");
    data.extend(
        cx.inputs
            .get_key_value("key")
            .map(|(key, of)| (key.clone(), of.clone())),
    );
    let as_gate = Context {
        inputs: &data,
        ..*cx
    };
    match kind {
        Some(APPROVAL) => approval::begin(&as_gate),
        Some(CLARIFICATION) if has_questions => clarification::begin(&as_gate),
        _ => begin(cx),
    }
}

/// A question of a kind. Key, schema and timeout stand in the config of every node that asks.
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
        key: setting(cx, "key")
            .and_then(Value::as_str)
            .map_or_else(|| cx.node.id.to_string(), str::to_owned),
        data,
        resume_schema,
        timeout_ms: timeout_ms.filter(|ms| *ms > 0),
    })
}

//! `core.interrupt`: waits for somebody or something outside.
//!
//! Config `{ "kind": …, "key": …, "data": …, "resumeSchema": …, "timeoutMs": …, "profile": … }`. A
//! signal whose name is the key answers it, also one that came before anybody asked. Output:
//! `value`. An `external-event` takes only what agrees with `data.correlation`.

use serde_json::{Map, Value};

use super::{Ask, Began, Context, misconfigured, schema, setting};
use crate::limits::MAX_WAIT_MS;

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let kind = cx.node.config.get("kind").and_then(Value::as_str);
    let data = setting(cx, "data").cloned();
    ask(
        cx,
        kind.unwrap_or("custom"),
        data.unwrap_or_else(|| Value::Object(Map::new())),
    )
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

//! `core.interrupt`: waits for somebody or something outside.
//!
//! Config `{ "kind": …, "key": …, "data": …, "resumeSchema": …, "timeoutMs": … }`. A signal whose
//! name is the key answers it, also one that came before anybody asked. Output: `value`.

use serde_json::{Map, Value};

use super::{Ask, Began, Context, misconfigured, setting};
use crate::limits::MAX_WAIT_MS;

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let config = &cx.node.config;
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let timeout_ms = match config.get("timeoutMs") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_u64() {
            Some(ms) => Some(ms.min(MAX_WAIT_MS)),
            None => return misconfigured(cx, "config.timeoutMs must be a number of milliseconds"),
        },
    };
    Began::Asks(Ask {
        kind: text("kind").unwrap_or("custom").to_owned(),
        key: setting(cx, "key")
            .and_then(Value::as_str)
            .map_or_else(|| cx.node.id.to_string(), str::to_owned),
        data: setting(cx, "data")
            .cloned()
            .unwrap_or_else(|| Value::Object(Map::new())),
        resume_schema: config.get("resumeSchema").cloned(),
        timeout_ms: timeout_ms.filter(|ms| *ms > 0),
    })
}

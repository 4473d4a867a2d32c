//! The trace context of a run, and its propagation.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::trace::TraceContext;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::redact::Redactor;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// A context as a log may store it: anything shaped like a credential is dropped.
pub(crate) fn hand_on(context: TraceContext) -> TraceContext {
    let is_clean = |state: &Arc<str>| Redactor::default().text(state) == **state;
    TraceContext {
        state: context.state.filter(is_clean),
        ..context
    }
}

/// Adds the trace context to a request, unless its headers have one.
pub(crate) fn say(context: &TraceContext, headers: &mut HeaderMap) {
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    if let Ok(value) = HeaderValue::from_str(&context.traceparent()) {
        headers.insert(TRACEPARENT, value);
    }
    let state = context.state.as_deref().map(HeaderValue::from_str);
    if let Some(Ok(state)) = state {
        headers.insert(TRACESTATE, state);
    }
}

/// Adds the trace context to a program's environment, unless it has one.
pub(crate) fn say_to_program(context: &TraceContext, env: &mut BTreeMap<String, String>) {
    if env.contains_key("TRACEPARENT") {
        return;
    }
    env.insert("TRACEPARENT".into(), context.traceparent());
    if let Some(state) = &context.state {
        env.insert("TRACESTATE".into(), state.to_string());
    }
}

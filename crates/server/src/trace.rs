//! The identity of a request in logs: its id and its trace.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use kernel::trace::{TraceContext, hex};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The identity of a request.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The client's id if it is a valid one, else a new one.
    pub(crate) id: HeaderValue,
    /// The `traceparent`, if the client sent a well-formed one.
    pub(crate) parent: Option<HeaderValue>,
    /// Its trace context, with its `tracestate`.
    pub(crate) context: Option<TraceContext>,
}

impl Trace {
    /// The identity of a request with these headers.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).filter(|value| is_plain(value));
        let id = given.cloned().unwrap_or_else(|| {
            let id = uuid::Uuid::now_v7().simple().to_string();
            HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("-"))
        });
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let states = headers.get_all(TRACESTATE).iter();
        let states: Vec<&str> = states.filter_map(|value| value.to_str().ok()).collect();
        let states = Some(states.join(",")).filter(|states| !states.is_empty());
        let context =
            text(TRACEPARENT).and_then(|parent| TraceContext::parse(parent, states.as_deref()));
        let parent = headers.get(TRACEPARENT).filter(|_| context.is_some());
        Self {
            id,
            parent: parent.cloned(),
            context,
        }
    }

    /// The id as text.
    pub(crate) fn id(&self) -> &str {
        self.id.to_str().unwrap_or("-")
    }

    /// The id of the trace, as in logs and traces.
    pub(crate) fn trace_id(&self) -> Option<String> {
        self.context.as_ref().map(|context| hex(&context.trace))
    }

    /// The trace context as text.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.parent.as_ref().and_then(|value| value.to_str().ok())
    }
}

fn is_plain(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (8..=64).contains(&bytes.len()) && bytes.iter().all(is_plain)
}

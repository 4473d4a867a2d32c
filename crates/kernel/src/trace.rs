//! The trace of a run, in the form of W3C Trace Context.
//!
//! Ids of spans are derived from the run. So all readers of a log, now or later, compute the same
//! span ids, and spans sent during the run agree with later exports. A trace begins with the
//! creator's trace context if the request has one, else with the run itself. Child runs continue
//! the trace.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{AttemptId, NodeId, StreamId};

/// The id of a trace.
pub type TraceId = [u8; 16];
/// The id of a span.
pub type SpanId = [u8; 8];

/// Bytes of a `tracestate` that are kept (W3C Trace Context, section 3.3.1.5).
const MAX_STATE_BYTES: usize = 512;
/// Members of a `tracestate`.
const MAX_STATE_MEMBERS: usize = 32;
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// A place in a trace: the span that encloses the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Flags as they were sent; bit 0: the trace is recorded.
    pub flags: u8,
    /// Opaque data that tracing systems pass on (`tracestate`).
    pub state: Option<Arc<str>>,
}

/// The form in a stream's header.
#[derive(Serialize, Deserialize)]
struct Written {
    parent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Arc<str>>,
}

impl From<TraceContext> for Written {
    fn from(context: TraceContext) -> Self {
        Self {
            parent: context.traceparent(),
            state: context.state,
        }
    }
}

impl TryFrom<Written> for TraceContext {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let context = Self::parse(&written.parent, written.state.as_deref());
        context.ok_or("no trace context")
    }
}

impl TraceContext {
    /// Parses the two headers. `None` for a malformed `traceparent`; a malformed `tracestate` is
    /// dropped.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let parts: Vec<&str> = traceparent.split('-').collect();
        let (version, trace, span, flags) = match parts.as_slice() {
            // Later versions may append further fields.
            [version, trace, span, flags, more @ ..] if more.is_empty() || *version != "00" => {
                (version, trace, span, flags)
            }
            _ => return None,
        };
        let ([version], [flags]) = (bytes::<1>(version)?, bytes::<1>(flags)?);
        let (trace, span) = (bytes::<16>(trace)?, bytes::<8>(span)?);
        let is_id = trace != [0; 16] && span != [0; 8];
        let state = tracestate.filter(|state| is_state(state)).map(Arc::from);
        (version != 0xff && is_id).then_some(Self {
            trace,
            span,
            flags,
            state,
        })
    }

    /// The value of `traceparent`.
    pub fn traceparent(&self) -> String {
        let (trace, span) = (hex(&self.trace), hex(&self.span));
        format!("00-{trace}-{span}-{:02x}", self.flags)
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Another span of the same trace.
    pub fn within(&self, span: SpanId) -> Self {
        Self {
            span,
            ..self.clone()
        }
    }

    /// The trace that begins with a run.
    pub fn named_after(top: &StreamId) -> Self {
        Self {
            trace: id(&format!("trace\0{top}")),
            span: run_span(top),
            flags: SAMPLED,
            state: None,
        }
    }
}

/// The span of a run.
pub fn run_span(run: &StreamId) -> SpanId {
    span(&format!("run\0{run}"))
}

/// The span of a visit of a node.
pub fn node_span(run: &StreamId, node: &NodeId, visit: u32) -> SpanId {
    span(&format!("node\0{run}\0{node}\0{visit}"))
}

/// The span of an attempt.
pub fn attempt_span(run: &StreamId, attempt: &AttemptId) -> SpanId {
    let (node, visit, number) = (&attempt.node, attempt.visit, attempt.attempt);
    span(&format!("attempt\0{run}\0{node}\0{visit}\0{number}"))
}

/// A span named by what makes it unique.
pub fn span(parts: &str) -> SpanId {
    id(parts)
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn id<const N: usize>(parts: &str) -> [u8; N] {
    let digest = Digest::compute(format!("span\0{parts}").as_bytes());
    let mut id = [0; N];
    id.copy_from_slice(&digest.0[..N]);
    id
}

/// `N` bytes in lower-case hexadecimal digits, and nothing else.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Whether a text is a valid `tracestate`.
fn is_state(text: &str) -> bool {
    let is_member = |member: &str| {
        let member = member.trim();
        member.is_empty()
            || member
                .split_once('=')
                .is_some_and(|(key, _)| !key.is_empty())
    };
    let members = text.split(',');
    (1..=MAX_STATE_BYTES).contains(&text.len())
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && members.clone().count() <= MAX_STATE_MEMBERS
        && members.clone().all(is_member)
        && members.clone().any(|member| !member.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_read_and_written_as_it_came() {
        let context = TraceContext::parse(GOOD, Some("acme=1,other=x:y")).unwrap();
        assert_eq!(context.traceparent(), GOOD);
        assert_eq!(context.state.as_deref(), Some("acme=1,other=x:y"));
        assert!(context.is_sampled());
        let text = serde_json::to_string(&context).unwrap();
        assert_eq!(
            text,
            format!("{{\"parent\":\"{GOOD}\",\"state\":\"acme=1,other=x:y\"}}")
        );
        let again: TraceContext = serde_json::from_str(&text).unwrap();
        assert_eq!(again, context);
        let unsampled = TraceContext::parse(&GOOD.replace("-01", "-00"), None).unwrap();
        assert!(!unsampled.is_sampled());
    }

    #[test]
    fn a_later_version_may_say_more_and_is_written_as_this_one() {
        let later = format!("{}-more", GOOD.replacen("00", "cc", 1));
        let context = TraceContext::parse(&later, None).unwrap();
        assert_eq!(context.traceparent(), GOOD);
    }

    #[test]
    fn malformed_trace_contexts_are_rejected() {
        for bad in [
            "",
            "00-0-0-0",
            &GOOD.to_uppercase(),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            &format!("{GOOD}-more"),
        ] {
            assert_eq!(TraceContext::parse(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn a_state_that_cannot_be_handed_on_is_left_out() {
        let long = format!("a={}", "x".repeat(MAX_STATE_BYTES));
        let many = vec!["a=1"; MAX_STATE_MEMBERS + 1].join(",");
        for bad in [
            "",
            " , ",
            "no value",
            "=1",
            "a=ü",
            "a=1\r\nx: y",
            &long,
            &many,
        ] {
            let context = TraceContext::parse(GOOD, Some(bad)).unwrap();
            assert_eq!(context.state, None, "{bad}");
        }
    }
}

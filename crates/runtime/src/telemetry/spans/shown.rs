//! Spans as a debug bundle shows them (OpenWOP v1 `debug-bundle.md`).

use kernel::trace::hex;
use serde_json::{Map, Value, json};

use super::{Attribute, Span};

/// The spans that fit into `at_most` bytes, and whether all do.
pub fn shown(spans: &[Span], at_most: usize) -> (Vec<Value>, bool) {
    let (mut shown, mut bytes) = (Vec::new(), 0);
    // The run's own span is last; a reader begins with it.
    for span in spans.iter().rev() {
        let span = json_of(span);
        bytes += span.to_string().len();
        if bytes > at_most {
            return (shown, false);
        }
        shown.push(span);
    }
    (shown, true)
}

fn json_of(span: &Span) -> Value {
    let attributes: Map<String, Value> = span
        .attributes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value_of(value)))
        .collect();
    let status = match (&span.error, span.end) {
        (Some(code), _) => json!({ "code": "error", "message": code }),
        (None, Some(_)) => json!({ "code": "ok" }),
        (None, None) => json!({ "code": "unset" }),
    };
    json!({
        "name": span.name,
        "traceId": hex(&span.trace),
        "spanId": hex(&span.id),
        "parentSpanId": span.parent.map(|id| hex(&id)),
        "kind": if span.is_call { "client" } else { "internal" },
        "startedAt": span.start.to_string(),
        "endedAt": span.end.map(|end| end.to_string()),
        "attributes": attributes,
        "status": status,
    })
}

fn value_of(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Text(text) => json!(text),
        Attribute::Count(count) => json!(count),
        Attribute::Number(number) => json!(number),
        Attribute::Flag(flag) => json!(flag),
        Attribute::Texts(texts) => json!(texts),
    }
}

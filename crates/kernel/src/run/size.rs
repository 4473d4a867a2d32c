//! How large values are, before they go into an event.

use serde_json::{Map, Value};

/// Roughly how many bytes a value takes as JSON.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 12,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => json_size(fields),
    }
}

/// Roughly how many bytes an object takes as JSON.
pub(super) fn json_size(fields: &Map<String, Value>) -> usize {
    fields
        .iter()
        .map(|(key, value)| key.len() + size(value) + 4)
        .sum::<usize>()
        + 2
}

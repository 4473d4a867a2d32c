//! Approximate sizes of values, checked before they go into an event.

use serde_json::{Map, Value};

/// The approximate bytes of a value as JSON.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 12,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => json_size(fields),
    }
}

/// The approximate bytes of an object as JSON.
pub(super) fn json_size(fields: &Map<String, Value>) -> usize {
    fields
        .iter()
        .map(|(key, value)| key.len() + size(value) + 4)
        .sum::<usize>()
        + 2
}

//! A JSON object built field by field, without absent ones.

use std::fmt::Display;

use kernel::run::NodeError;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// An object in the making.
#[derive(Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Without any field.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    pub(super) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.insert(name.to_owned(), to_json(&value));
        self
    }

    /// Adds a field whose value is a text.
    pub(super) fn text(self, name: &str, value: impl Display) -> Self {
        self.with(name, value.to_string())
    }

    /// Adds a field that may be absent.
    pub(super) fn maybe(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a field that may be absent and whose value is a text.
    pub(super) fn maybe_text(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Adds an array or object unless it is empty.
    pub(super) fn filled(self, name: &str, value: impl Serialize) -> Self {
        let value = to_json(&value);
        let empty = match &value {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        if empty {
            return self;
        }
        self.with(name, value)
    }

    /// The object.
    pub(super) fn build(self) -> Value {
        Value::Object(self.0)
    }
}

/// # Panics
/// Cannot fail for the kernel's values: map keys are texts and floats are finite.
fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("kernel values are always JSON")
}

/// An error with the fields that the protocol knows everywhere: its text is never empty and its
/// details are an object.
pub(super) fn error(error: &NodeError) -> Fields {
    let or_else =
        |text: &str, instead: &str| if text.is_empty() { instead } else { text }.to_owned();
    let code = or_else(&error.code, "unknown_error");
    let message = or_else(&error.message, &code);
    let details = error.details.as_ref().map(|details| match details {
        Value::Object(_) => details.clone(),
        other => json!({ "value": other }),
    });
    Fields::new()
        .with("code", code)
        .with("message", message)
        .maybe("details", details)
}

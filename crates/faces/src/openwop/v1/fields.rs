//! A JSON object built field by field, without absent ones.

use std::fmt::Display;

use kernel::run::event::About;
use kernel::run::{NodeError, RunEvent};
use kernel::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// An object in the making.
#[derive(Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// The fields that are stored of an event. The visit of its node is always there; times and
    /// errors have the form of the wire.
    pub(super) fn stored(event: &RunEvent) -> Self {
        let mut stored = to_json(event);
        let Some(Value::Object(mut fields)) = stored.get_mut("data").map(Value::take) else {
            return Self::new();
        };
        if let About::Visit(_, visit) = event.about()
            && fields.contains_key("nodeId")
        {
            fields.insert("visit".to_owned(), visit.into());
        }
        for name in ["dueAt", "timeoutAt", "writtenAt"] {
            let Some(at) = fields.get_mut(name) else {
                continue;
            };
            if let Some(ms) = at.as_i64() {
                *at = Timestamp(ms).to_string().into();
            }
        }
        for name in ["error", "lastError"] {
            let Some(error) = fields.get_mut(name) else {
                continue;
            };
            if let Ok(stored) = serde_json::from_value(error.take()) {
                *error = failure(&stored);
            }
        }
        Self(fields)
    }

    /// Leaves fields out.
    pub(super) fn without(mut self, names: &[&str]) -> Self {
        for name in names {
            self.0.remove(*name);
        }
        self
    }

    /// Gives a field another name.
    pub(super) fn renamed(mut self, name: &str, to: &str) -> Self {
        if let Some(value) = self.0.remove(name) {
            self.0.insert(to.to_owned(), value);
        }
        self
    }

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

/// An error of a node or run, with whether a retry may help.
pub(super) fn failure(node_error: &NodeError) -> Value {
    error(node_error)
        .maybe("retryable", node_error.retryable)
        .build()
}

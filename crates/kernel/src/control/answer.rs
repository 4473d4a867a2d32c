//! Answers to interrupts: the checks for every kind of question.
//!
//! An answer that does not fit is rejected and writes nothing; the question stays open.

use serde_json::{Map, Value};

use super::{Given, schema, schema_words};
use crate::definition::PlanNode;
use crate::limits::MAX_NAME_BYTES;
use crate::run::InterruptKind;
use crate::run::rejection::Rejection;

/// The profile of a gate that only an authenticated person may answer.
const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// The id of an event from outside, given by its sender: `eventId`, of the answer or of its
/// `eventPayload`.
pub fn event_id(value: &Value) -> Option<&str> {
    let told = value
        .get("eventId")
        .or_else(|| value.get("eventPayload")?.get("eventId"));
    let id = told.and_then(Value::as_str);
    id.filter(|id| (1..=MAX_NAME_BYTES).contains(&id.len()))
}

/// Whether only an authenticated person may answer the interrupts of a node, so that no token may
/// be issued for them.
pub fn needs_authentication(node: &PlanNode) -> bool {
    is_governed(node) || node.config.get("profile").and_then(Value::as_str) == Some(AUTH_REQUIRED)
}

/// Whether only people with a role or a scope may answer the interrupts of a node.
pub fn is_governed(node: &PlanNode) -> bool {
    let control = node.kind.control();
    control.is_some_and(|control| control.spec().is_governed)
}

/// Checks an answer to any kind of question.
pub(crate) fn check(given: &Given<'_>) -> Result<(), Rejection> {
    if given.who.by.is_none() && needs_authentication(given.node) {
        return Err(Rejection::AuthRequired);
    }
    if given.open.kind == InterruptKind::ExternalEvent {
        correlate(&given.open.data, given.value)?;
    }
    match &given.open.resume_schema {
        Some(schema) => fits(schema, given.value, "the answer"),
        None => Ok(()),
    }
}

/// Whether an event matches the question: it, or its `eventPayload`, contains every key of the
/// correlation with a deeply equal value. Other keys are ignored.
///
/// # Errors
/// `CorrelationMismatch` if it does not match.
pub fn correlate(data: &Value, value: &Value) -> Result<(), Rejection> {
    let Some(wanted) = data.get("correlation").and_then(Value::as_object) else {
        return Ok(());
    };
    let has_all = |event: Option<&Value>| {
        event.is_some_and(|event| wanted.iter().all(|(key, of)| event.get(key) == Some(of)))
    };
    if has_all(Some(value)) || has_all(value.get("eventPayload")) {
        Ok(())
    } else {
        Err(Rejection::CorrelationMismatch)
    }
}

/// Whether a value fits a schema; the error names the broken rule of the schema and quotes nothing
/// of the value.
pub(crate) fn fits(schema: &Value, value: &Value, what: &str) -> Result<(), Rejection> {
    schema::validate(schema, value).map_err(|rule| {
        let said = schema_words::say(schema, &rule);
        invalid(format!("{what}{said} (the rule {rule} of its schema)"))
    })
}

/// A rejection that describes the fault.
pub(crate) fn invalid(what: impl Into<String>) -> Rejection {
    Rejection::InvalidAnswer { what: what.into() }
}

/// An optional text of an answer.
pub(crate) fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, Rejection> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(format!("`{key}` must be a text"))),
    }
}

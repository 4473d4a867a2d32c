//! A document as a client sends it.
//!
//! Refused are what is no JSON, what the API's description forbids, and what the client itself
//! would refuse to load again. Absent members are filled as the client fills them. Kept as they
//! are: unknown kinds of events, and unknown members of run, events and artifacts. Numbers are
//! those of JavaScript: doubles; integers that no double holds are refused, as is half a character.

use std::sync::Arc;

use kernel::document::{Body, Sent};
use kernel::json::{self, Limits};
use kernel::limits::{MAX_DOCUMENT_BYTES, MAX_JSON_DEPTH};
use kernel::problem::ProblemCode;
use serde_json::{Number, Value};

use super::{Bad, bad, check, text};

/// Bytes of the longest run id.
const MAX_ID: usize = 128;
/// Up to here a double holds every integer.
const SAFE_INTEGER: u64 = 1 << 53;

/// Whether a text can be the id of a run: `run_` and letters, digits, `-` and `_`.
pub fn is_run_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let name = text.strip_prefix("run_");
    text.len() <= MAX_ID && name.is_some_and(|name| !name.is_empty() && name.bytes().all(plain))
}

/// Reads a document whose run has this id. `known` is the one that was sent before it: events
/// that it began with are taken from there. Answers also what the next one may take from this.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(
    sent: Vec<u8>,
    id: &str,
    known: Option<&Sent>,
) -> Result<(Arc<Body>, Option<Sent>), Bad> {
    if sent.len() > MAX_DOCUMENT_BYTES {
        return bad("BODY_TOO_LARGE", "the document is too large");
    }
    let shared = known.and_then(|known| known.shared_by(&sent));
    let (body, events) = match shared {
        None => (of_value(read(&sent)?)?, None),
        Some(shared) => {
            // A place is one in what was sent.
            let rest = read(&shared.rest).map_err(|bad| match bad.at {
                Some(_) => text::check(&sent).err().unwrap_or(bad),
                None => bad,
            });
            let mut body = shaped(rest?)?;
            let events = shared.known.trace.iter().cloned();
            body.trace.splice(..1, events);
            check::invariants(&body, Some(shared.known))?;
            (body, Some(shared.events))
        }
    };
    if body.id() != id {
        return bad(
            "RUN_ID_MISMATCH",
            "state.run.id must match the id in the address",
        );
    }
    let body = Arc::new(body);
    let kept = Sent::keep(body.clone(), sent, events);
    Ok((body, kept))
}

/// Reads JSON with numbers as JavaScript has them.
///
/// # Errors
/// It is no JSON, too deep, or says something twice.
pub fn read(bytes: &[u8]) -> Result<Value, Bad> {
    let limits = Limits {
        max_bytes: MAX_DOCUMENT_BYTES,
        max_depth: MAX_JSON_DEPTH,
    };
    text::check(bytes)?;
    let mut value = json::parse(bytes, limits).map_err(|problems| {
        let code = problems.listed.first().map(|problem| problem.code);
        let (code, message) = match code {
            Some(ProblemCode::TooDeep) => (
                "TOO_DEEP",
                "the JSON is nested more than 100 deep; flatten it",
            ),
            Some(ProblemCode::DuplicateKey) => (
                "DUPLICATE_KEY",
                "an object has the same key twice; keep one of them",
            ),
            Some(ProblemCode::TooLarge) => ("BODY_TOO_LARGE", "the document is too large"),
            _ => ("INVALID_JSON", "Invalid JSON body"),
        };
        Bad::new(code, message)
    })?;
    as_doubles(&mut value);
    Ok(value)
}

/// A document of a value.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn of_value(value: Value) -> Result<Body, Bad> {
    checked(shaped(value)?)
}

fn shaped(value: Value) -> Result<Body, Bad> {
    check::shape(&value)?;
    match Body::from_value(value) {
        Some(body) => Ok(body),
        None => bad(
            "INVALID_RUN_STATE",
            "a member of the document has a shape it cannot have",
        ),
    }
}

/// A document that was made here, as strictly looked at as one that was sent.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn checked(body: Body) -> Result<Body, Bad> {
    check::invariants(&body, None)?;
    Ok(body)
}

/// Makes each number what JavaScript makes of it, in one spelling.
fn as_doubles(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            if whole.is_some_and(|whole| whole <= SAFE_INTEGER) {
                return;
            }
            let double = number.as_f64().unwrap_or_default();
            #[expect(clippy::cast_possible_truncation, reason = "whole and within bounds")]
            let whole = (double.fract() == 0.0 && double.abs() <= SAFE_INTEGER as f64)
                .then_some(double as i64);
            *number = match whole {
                Some(whole) => whole.into(),
                None => Number::from_f64(double).unwrap_or_else(|| 0.into()),
            };
        }
        Value::Array(items) => items.iter_mut().for_each(as_doubles),
        Value::Object(members) => members.values_mut().for_each(as_doubles),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

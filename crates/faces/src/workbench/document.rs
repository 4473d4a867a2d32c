//! A document in the form of clients.
//!
//! It rejects invalid JSON, members that the API's description forbids, and documents that the
//! client itself would refuse to load. Absent members get the client's defaults. Unknown kinds of
//! events, and unknown members of run, events and artifacts, are kept. Numbers are those of
//! JavaScript: doubles; integers without an exact double are rejected, as are lone surrogates.

use std::sync::Arc;

use kernel::document::{Body, Sent, Text};
use kernel::json::{self, Limits};
use kernel::limits::{MAX_DOCUMENT_BYTES, MAX_DOCUMENT_DEPTH};
use kernel::problem::ProblemCode;
use serde_json::Value;

use super::{Bad, bad, check, text};

/// Bytes of the longest run id.
const MAX_ID: usize = 128;

/// Whether a text can be the id of a run: `run_` and letters, digits, `-` and `_`.
pub fn is_run_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let name = text.strip_prefix("run_");
    text.len() <= MAX_ID && name.is_some_and(|name| !name.is_empty() && name.bytes().all(plain))
}

/// The result of parsing a text.
#[derive(Clone, Debug)]
pub struct Read {
    /// The document.
    pub body: Arc<Body>,
    /// Its text, with members in their original order.
    pub text: Option<Text>,
    /// The parts that the next text can reuse.
    pub sent: Option<Sent>,
}

/// Parses a document whose run has this id. `known` is the previously sent one: the events that
/// both begin with are reused.
///
/// # Errors
/// The first error.
pub fn parse(sent: Vec<u8>, id: &str, known: Option<&Sent>) -> Result<Read, Bad> {
    if sent.len() > MAX_DOCUMENT_BYTES {
        return bad("BODY_TOO_LARGE", "the document is too large");
    }
    let shared = known.and_then(|known| known.shared_by(&sent));
    let (body, events) = match shared {
        None => (of_value(read(&sent)?)?, None),
        Some(shared) => {
            // Convert the place to one in the sent text.
            let rest = read(&shared.rest).map_err(|bad| match bad.at {
                Some(_) => read(&sent).err().unwrap_or(bad),
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
    let text = Text::of_sent(&sent, events.as_ref());
    let sent = Sent::keep(body.clone(), sent, events);
    Ok(Read { body, text, sent })
}

/// Parses JSON with JavaScript's numbers.
///
/// # Errors
/// It is not JSON, is nested too deeply, or has a duplicate key.
pub fn read(bytes: &[u8]) -> Result<Value, Bad> {
    let limits = Limits {
        max_bytes: MAX_DOCUMENT_BYTES,
        max_depth: MAX_DOCUMENT_DEPTH,
    };
    text::check(bytes)?;
    let mut value = json::parse(bytes, limits).map_err(|problems| {
        let first = problems.listed.first();
        let code = first.map(|problem| problem.code);
        let (code, message) = match code {
            Some(ProblemCode::TooDeep) => (
                "TOO_DEEP",
                "the JSON is nested more than 512 deep; flatten it",
            ),
            Some(ProblemCode::DuplicateKey) => (
                "DUPLICATE_KEY",
                "an object has the same key twice; keep one of them",
            ),
            Some(ProblemCode::TooLarge) => ("BODY_TOO_LARGE", "the document is too large"),
            _ => ("INVALID_JSON", "Invalid JSON body"),
        };
        Bad {
            at: first.and_then(|problem| problem.at),
            ..Bad::new(code, message)
        }
    })?;
    json::as_doubles(&mut value);
    Ok(value)
}

/// A document of a value.
///
/// # Errors
/// The first error.
pub fn of_value(value: Value) -> Result<Body, Bad> {
    checked(shaped(value)?)
}

fn shaped(value: Value) -> Result<Body, Bad> {
    check::shape(&value)?;
    match Body::from_value(value) {
        Some(body) => Ok(body),
        None => bad(
            "INVALID_RUN_STATE",
            "a member of the document has a wrong type",
        ),
    }
}

/// A document that was made here, with the same checks as a sent one.
///
/// # Errors
/// The first error.
pub fn checked(body: Body) -> Result<Body, Bad> {
    check::invariants(&body, None)?;
    Ok(body)
}

//! Request bodies, read within limits of size and time.

use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use kernel::json::{self, Limits};
use kernel::limits::MAX_JSON_DEPTH;
use serde_json::{Map, Value};

use crate::problem::Problem;

/// Reads a body.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    time: Duration,
) -> Result<Vec<u8>, Problem> {
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        return Err(Problem::too_large(limit));
    }
    let collected = tokio::time::timeout(time, Limited::new(body, limit).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Problem::too_large(limit))
        }
        Ok(Err(_)) => Err(Problem::invalid("the body ended before it was complete")),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            "the body took too long to arrive",
        )),
    }
}

/// Rejects a body with a content type other than JSON, or with an encoding.
pub(crate) fn check_media(headers: &HeaderMap) -> Result<(), Problem> {
    check_type(headers)?;
    match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(()),
        Some(_) => Err(unsupported("send the body without a content encoding")),
    }
}

/// Rejects a body with a content type other than JSON.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let is_json = |media: &HeaderValue| {
        let media = media.to_str().unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        let media = media.to_ascii_lowercase();
        media == "application/json"
            || (media.starts_with("application/") && media.ends_with("+json"))
    };
    if types.all(is_json) {
        Ok(())
    } else {
        Err(not_json())
    }
}

/// 415: the content type is not JSON.
pub(crate) fn not_json() -> Problem {
    unsupported("send JSON: Content-Type: application/json")
}

fn unsupported(what: &str) -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        what,
    )
}

/// Reads a JSON object.
pub(crate) fn object(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    object_within(bytes, MAX_JSON_DEPTH)
}

/// Reads a JSON object with limited nesting.
pub(crate) fn object_within(bytes: &[u8], max_depth: usize) -> Result<Map<String, Value>, Problem> {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_depth,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Problem::invalid("send a JSON object as the body"));
    }
    match json::parse(bytes, limits)? {
        Value::Object(object) => Ok(object),
        _ => Err(Problem::invalid("the body must be a JSON object")),
    }
}

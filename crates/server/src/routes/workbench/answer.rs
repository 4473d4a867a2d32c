//! Responses of this face: the format of its errors, and common headers.

use axum::response::Response;
use bytes::Bytes;
use faces::workbench::Bad;
use hyper::header::{HeaderValue, LINK};
use hyper::{HeaderMap, StatusCode};
use kernel::document::DocumentRejection;
use runtime::api::{ApiError, DocumentError, ResourceKind};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::reply::{self, Reply};

/// The header of every response: the location of the API's description.
const DESCRIBED: &str = "</api/openapi.json>; rel=\"describedby\"";

/// An error of this face: `error` for a person, `code` for a program.
pub(crate) fn refusal(problem: &Problem) -> Response {
    let mut response = reply::refusal(problem);
    let text = envelope(problem).to_string();
    *response.body_mut() = text.into();
    response
        .headers_mut()
        .insert(LINK, HeaderValue::from_static(DESCRIBED));
    response
}

/// The body of an error.
pub(crate) fn envelope(problem: &Problem) -> Value {
    let error = match problem.status {
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        StatusCode::INTERNAL_SERVER_ERROR if problem.code == "internal_error" => {
            "Internal server error"
        }
        _ => &problem.message,
    };
    let mut body = json!({ "error": error, "code": problem.code.to_ascii_uppercase() });
    for name in ["requiredScope", "correlationId"] {
        if let Some(value) = problem.details.get(name) {
            body[name] = value.clone();
        }
    }
    body
}

/// The same response with the common header, and links of its own.
pub(super) fn described(reply: Reply, link: Option<String>) -> Reply {
    let link = link.map_or_else(|| DESCRIBED.to_owned(), |own| format!("{DESCRIBED}, {own}"));
    reply.with(LINK, link)
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    let reply = Reply::Whole {
        status,
        headers: HeaderMap::new(),
        body: Bytes::new(),
    };
    described(reply, None)
}

/// 400 for invalid input.
pub(super) fn refused(bad: Bad) -> Problem {
    let status = match bad.code {
        "BODY_TOO_LARGE" => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    };
    let message = match bad.at {
        Some(at) => format!("{} (line {}, column {})", bad.message, at.line, at.column),
        None => bad.message.to_owned(),
    };
    Problem::new(status, bad.code, message)
}

/// 400 for a query or a small body.
pub(super) fn invalid(message: &'static str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
}

impl From<DocumentError> for Problem {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Rejected(rejection) => rejection.into(),
            DocumentError::NoSuchSave => Self::new(
                StatusCode::NOT_FOUND,
                "REVISION_NOT_FOUND",
                "the run has no such revision; GET /api/runs/{runId}/revisions lists them",
            ),
            DocumentError::Api(error) => error.into(),
        }
    }
}

impl From<DocumentRejection> for Problem {
    fn from(rejection: DocumentRejection) -> Self {
        let status = match rejection {
            DocumentRejection::Unborn | DocumentRejection::UnknownStep => StatusCode::NOT_FOUND,
            DocumentRejection::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            DocumentRejection::Unchanged
            | DocumentRejection::Stale
            | DocumentRejection::NotPending
            | DocumentRejection::NotRunning
            | DocumentRejection::StepRunning
            | DocumentRejection::TooManySaves => StatusCode::CONFLICT,
        };
        Self::new(status, rejection.code(), rejection.to_string())
    }
}

/// A missing run has an empty body, as the API defines; anything else is a problem.
pub(super) fn or_absent(error: DocumentError) -> Result<Reply, Problem> {
    match error {
        DocumentError::Api(ApiError::NotFound(ResourceKind::Run)) => {
            Ok(empty(StatusCode::NOT_FOUND))
        }
        other => Err(other.into()),
    }
}

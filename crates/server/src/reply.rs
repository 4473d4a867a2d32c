//! Responses before they are serialised.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;

use crate::problem::Problem;

/// Whether the response is a repeated one.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("openwop-idempotent-replay");

/// The media type of everything but streams.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// A response.
pub(crate) enum Reply {
    /// A body that may be encoded.
    Whole {
        status: StatusCode,
        /// Headers in addition to the length and the encoding.
        headers: HeaderMap,
        body: Bytes,
    },
    /// A complete response, sent unchanged.
    Ready(Response),
}

impl Reply {
    /// A JSON response.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).unwrap_or_default();
        Self::bytes(status, JSON, body.into())
    }

    /// 200 with JSON.
    pub(crate) fn ok(value: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, value)
    }

    /// Bytes of a media type.
    pub(crate) fn bytes(status: StatusCode, media: HeaderValue, body: Bytes) -> Self {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, media);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Self::Whole {
            status,
            headers,
            body,
        }
    }

    /// The same answer with another JSON body. One that is not JSON stays as it is.
    pub(crate) fn map(self, change: impl FnOnce(Value) -> Value) -> Self {
        match self {
            Self::Whole {
                status,
                headers,
                body,
            } => {
                let body = match serde_json::from_slice(&body) {
                    Ok(value) => change(value).to_string().into(),
                    Err(_) => body,
                };
                Self::Whole {
                    status,
                    headers,
                    body,
                }
            }
            ready => ready,
        }
    }

    /// The same response with a header. An invalid value is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        let Ok(value) = HeaderValue::from_str(value.as_ref()) else {
            return self;
        };
        match &mut self {
            Self::Whole { headers, .. } => headers.insert(name, value),
            Self::Ready(response) => response.headers_mut().insert(name, value),
        };
        self
    }
}

/// The response for a problem.
pub(crate) fn refusal(problem: &Problem) -> Response {
    let body = serde_json::to_vec(&problem.envelope()).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = problem.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = problem.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(allow) = problem
        .allow
        .as_deref()
        .and_then(|allow| HeaderValue::from_str(allow).ok())
    {
        headers.insert(ALLOW, allow);
    }
    if problem.is_first_answer {
        headers.insert(REPLAYED, HeaderValue::from_static("false"));
    }
    if problem.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

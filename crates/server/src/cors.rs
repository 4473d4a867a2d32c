//! Cross-origin resource sharing: answers that pages of allowed origins may read.

use axum::extract::Request;
use axum::response::Response;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, VARY,
};
use hyper::{Method, StatusCode};

/// What pages of other origins may ask with.
const METHODS: HeaderValue = HeaderValue::from_static("GET, PUT, POST, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, content-encoding, if-match, if-none-match, last-event-id, \
     idempotency-key, range, traceparent, tracestate, x-dedup, x-request-id",
);
/// What they may read of an answer.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-disposition, content-range, etag, link, location, retry-after, \
     traceparent, x-request-id, openwop-idempotent-replay, runwright-warning, run-revision, \
     run-save, run-replaced-save, run-put-back, run-unknown-events",
);

/// What a browser asks before it lets a page of another origin ask; `None` for anything else.
pub(crate) fn preflight(request: &Request) -> Option<Response> {
    let asks = request
        .headers()
        .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    (*request.method() == Method::OPTIONS && asks).then(|| {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        response
    })
}

/// Lets a page of an allowed origin read an answer.
pub(crate) fn share(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        HeaderValue::from_static("true"),
    );
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}

/// Says to caches that the answer depends on the origin of the page.
pub(crate) fn vary(response: &mut Response) {
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
}

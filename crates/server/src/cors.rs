//! Cross-origin resource sharing: responses that pages of allowed origins may read.

use axum::extract::Request;
use axum::response::Response;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, VARY,
};
use hyper::{Method, StatusCode};

/// Methods and headers allowed to pages of other origins.
const METHODS: HeaderValue = HeaderValue::from_static("GET, PUT, POST, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, content-encoding, if-match, if-none-match, last-event-id, \
     idempotency-key, range, traceparent, tracestate, x-dedup, x-request-id, \
     openwop-version, openwop-client-version, openwop-dedup, openwop-force-engine-version",
);
/// Response headers exposed to them.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-disposition, content-range, etag, link, location, retry-after, \
     traceparent, x-request-id, openwop-idempotent-replay, openwop-version, runwright-warning, run-revision, \
     run-save, run-replaced-save, run-put-back, run-unknown-events, deprecation, sunset",
);

/// The response to a preflight request; `None` for anything else.
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

/// Lets a page of an allowed origin read a response.
pub(crate) fn share(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        HeaderValue::from_static("true"),
    );
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}

/// Tells caches that the response depends on the origin of the page.
pub(crate) fn vary(response: &mut Response) {
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
}

//! Sessions of browsers: a token in the cookie `__session`, and pages of other origins.

use axum::extract::Request;
use axum::response::Response;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, COOKIE, HOST, HeaderValue, ORIGIN, VARY,
};
use hyper::{HeaderMap, Method, StatusCode};

use crate::problem::Problem;

/// What pages of other origins may ask with.
const METHODS: HeaderValue = HeaderValue::from_static("GET, PUT, POST, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, content-encoding, if-match, if-none-match, last-event-id, \
     idempotency-key",
);
/// What they may read of an answer.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "etag, link, retry-after, run-revision, run-save, run-replaced-save, run-put-back, \
     run-unknown-events",
);

/// Lets a session's cookie stand for the credential it holds. A browser sends it to us from any
/// page, so what changes something must say that it comes from a page of ours, or from one of the
/// `origins` that are allowed. A request with a credential in its own header needs no such proof:
/// no other page can make a browser send that.
pub(crate) fn admit_session(request: &mut Request, origins: &[String]) -> Result<(), Problem> {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let headers = request.headers_mut();
    if headers.contains_key(AUTHORIZATION) {
        return Ok(());
    }
    let session = session(headers);
    if changes {
        check_origin(headers, origins, session.is_some())?;
    }
    if let Some(token) = session {
        headers.insert(AUTHORIZATION, token);
    }
    Ok(())
}

/// The origin of a request, where it is one of those that are allowed.
pub(crate) fn allowed_origin(headers: &HeaderMap, origins: &[String]) -> Option<HeaderValue> {
    let given = headers.get(ORIGIN)?;
    let is_allowed = |origin: &String| given.as_bytes() == origin.as_bytes();
    origins.iter().any(is_allowed).then(|| given.clone())
}

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
    headers.append(VARY, HeaderValue::from_static("origin"));
}

/// The credential of a session. Keys are for programs: one that stands in a cookie counts for
/// nothing.
fn session(headers: &HeaderMap) -> Option<HeaderValue> {
    let given = headers.get_all(COOKIE).iter();
    let mut pairs = given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, token) = pairs.find(|(name, _)| *name == "__session")?;
    let is_jwt = token.split('.').count() == 3;
    let value = is_jwt.then(|| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    value.flatten()
}

fn check_origin(headers: &HeaderMap, origins: &[String], has_session: bool) -> Result<(), Problem> {
    if allowed_origin(headers, origins).is_some() {
        return Ok(());
    }
    let text =
        |value: Option<&HeaderValue>| value.and_then(|it| it.to_str().ok().map(str::to_owned));
    let origin = text(headers.get(ORIGIN));
    let is_ours = match (&origin, text(headers.get(HOST))) {
        (Some(origin), Some(host)) => origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(&host)),
        (None, _) => !has_session,
        (Some(_), None) => false,
    };
    match is_ours {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "ORIGIN_NOT_ALLOWED",
            "a session may change something only from a page of this server, or of an origin that \
             it allows (serve --allow-origin)",
        )),
    }
}

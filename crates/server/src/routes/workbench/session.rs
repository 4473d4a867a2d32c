//! Sessions of browsers: a token in the cookie `__session`.

use axum::extract::Request;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Method, StatusCode};

use crate::problem::Problem;

/// Lets a session's cookie stand for the credential it holds. A browser sends it to us from any
/// page, so what changes something must say that it comes from a page of ours. A request with a
/// credential in its own header needs no such proof: no other page can make a browser send that.
pub(crate) fn admit_session(request: &mut Request) -> Result<(), Problem> {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let headers = request.headers_mut();
    if headers.contains_key(AUTHORIZATION) {
        return Ok(());
    }
    let session = session(headers);
    if changes {
        check_origin(headers, session.is_some())?;
    }
    if let Some(token) = session {
        headers.insert(AUTHORIZATION, token);
    }
    Ok(())
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

fn check_origin(headers: &HeaderMap, has_session: bool) -> Result<(), Problem> {
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
            "a session may change something only from a page of this server",
        )),
    }
}

//! Sessions of browsers: a token in the cookie `__session`.

use axum::extract::Request;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Method};

use crate::origin;
use crate::problem::Problem;

/// Lets a session's cookie stand for the credential it holds. A browser sends it with requests of any
/// page; which pages may call was checked before. What changes something must also say its origin,
/// as every browser does. A credential in a header of its own is stronger.
pub(crate) fn admit_session(request: &mut Request) -> Result<(), Problem> {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let headers = request.headers_mut();
    if headers.contains_key(AUTHORIZATION) {
        return Ok(());
    }
    let Some(token) = session(headers) else {
        return Ok(());
    };
    if changes && !headers.contains_key(ORIGIN) {
        return Err(origin::foreign_page());
    }
    headers.insert(AUTHORIZATION, token);
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

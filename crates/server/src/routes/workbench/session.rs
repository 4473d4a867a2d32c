//! Sessions of browsers: a token in the cookie `__session`.

use axum::extract::Request;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Method};

use crate::origin;
use crate::problem::Problem;

/// Uses the credential in a session's cookie. A browser sends the cookie with requests of any page;
/// allowed pages were checked before. A request that changes something must also name its origin,
/// as every browser does. A credential in a header of its own has precedence.
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

/// The credential of a session. API keys are for programs: a key in a cookie is ignored.
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

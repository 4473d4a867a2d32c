//! The session of a page: its cookie, and the secret of the page that goes with it.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderName, HeaderValue};
use hyper::http::uri::Authority;

use crate::app::App;
use crate::origin;
use crate::problem::Problem;

/// The header with the page's secret.
pub(crate) const SECRET: HeaderName = HeaderName::from_static("x-runwright-session");

/// Uses the credential in the session of a request, if its page knows the session's secret. A
/// credential in a header of its own has precedence.
pub(crate) fn admit(app: &App, headers: &mut HeaderMap) -> Result<(), Problem> {
    if !app.gate().asks() || headers.contains_key(AUTHORIZATION) {
        headers.remove(SECRET);
        return Ok(());
    }
    let (Some(text), Some(given)) = (cookie(headers), headers.get(SECRET)) else {
        headers.remove(SECRET);
        return Ok(());
    };
    origin::check_own_page(headers)?;
    let session = app.api().session(&text)?;
    if given.as_bytes() != session.page_secret.as_bytes() {
        return Err(Problem::unauthenticated(
            "unauthenticated",
            "this page belongs to an earlier session; reload it",
        ));
    }
    let value = HeaderValue::from_str(&format!("Bearer {}", session.bearer));
    headers.insert(AUTHORIZATION, value.map_err(|_| Problem::invalid_token())?);
    Ok(())
}

/// The headers by which a request of a session is authenticated again later. `None` for a request
/// with a credential of its own.
pub(crate) fn of_session(headers: &HeaderMap) -> Option<HeaderMap> {
    headers.get(SECRET)?;
    let mut kept = headers.clone();
    kept.remove(AUTHORIZATION);
    Some(kept)
}

/// The name of the cookie. A browser sends a cookie to every port of a host, so the name has the
/// port.
pub(crate) fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let host = host.and_then(|host| Authority::try_from(host).ok());
    let port = host.and_then(|host| host.port_u16());
    port.map_or("runwright_session".into(), |port| {
        format!("runwright_session_{port}")
    })
}

/// The session in the cookie of a request.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(headers);
    let given = headers.get_all(COOKIE).iter();
    let mut pairs = given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, text) = pairs.find(|(key, _)| *key == name)?;
    (!text.is_empty()).then(|| text.to_owned())
}

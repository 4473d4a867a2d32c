//! The hosts this server accepts, and the web pages that may call it.
//!
//! A browser sends requests for any page that it shows, and a page can make its own host name
//! resolve to this machine (DNS rebinding), so that its browser treats the responses of this server
//! as the page's own. So every request without a credential in its own header must name a host of
//! this server and, if a browser sent it, come from a page of this server or of an origin that the
//! operator allows. A request with a credential needs neither: a browser adds no such header by
//! itself, and a foreign page does not know one.

use std::net::IpAddr;

use axum::extract::Request;
use hyper::body::Body as _;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode};

use crate::body;
use crate::limits::Limits;
use crate::problem::Problem;

/// The browser's statement of the relation of the requesting page to the target.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The address that the listener of a connection is bound to; an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound(pub(crate) IpAddr);

/// Checks host and page of a request without a credential.
pub(crate) fn check(request: &Request, limits: &Limits) -> Result<(), Problem> {
    let bound = request.extensions().get().map(|Bound(address)| *address);
    let host = host(request).filter(|host| is_served(host, &limits.hosts, bound));
    let host = host.ok_or_else(foreign_host)?;
    check_page(request.headers(), &host, &limits.origins)
}

/// Whether a request names no host and comes from no page, as that of a load balancer may: browsers
/// always name the host.
pub(crate) fn is_unnamed(request: &Request) -> bool {
    let headers = request.headers();
    let named = [HOST, ORIGIN, FETCH_SITE];
    request.uri().authority().is_none() && !named.iter().any(|name| headers.contains_key(name))
}

/// Rejects a body without the JSON content type, for requests without a credential: a form or a
/// page can only send other content types without a preflight.
pub(crate) fn check_body(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    match request.body().is_end_stream() {
        true => Ok(()),
        false if headers.contains_key(CONTENT_TYPE) => body::check_type(headers),
        false => Err(body::not_json()),
    }
}

/// Rejects a request of any page but those of this server, allowed origins included.
pub(crate) fn check_own_page(headers: &HeaderMap) -> Result<(), Problem> {
    let host = single(headers, HOST).ok().flatten();
    let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    check_page(headers, &host.ok_or_else(foreign_host)?, &[])
}

/// 403 for a page of another origin.
pub(crate) fn foreign_page() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "origin_not_allowed",
        "a web page of another origin may not call this server without a key or token; send one \
         (Authorization: Bearer …), or allow the origin with serve --allow-origin",
    )
}

fn foreign_host() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "host_not_allowed",
        "without a key or token, this server answers only to localhost, to its own address and to \
         the names of serve --host; call one of these, or send a key or token (Authorization: \
         Bearer …)",
    )
}

/// The origin of a request, if it is an allowed one.
pub(crate) fn allowed(headers: &HeaderMap, origins: &[String]) -> Option<HeaderValue> {
    let Ok(Some(given)) = single(headers, ORIGIN) else {
        return None;
    };
    let is_allowed = |origin: &String| given.as_bytes() == origin.as_bytes();
    origins.iter().any(is_allowed).then(|| given.clone())
}

/// The host that a request names: in exactly one header, and in the URL if it has one.
fn host(request: &Request) -> Option<Authority> {
    let header = single(request.headers(), HOST).ok().flatten()?;
    let host = Authority::try_from(header.as_bytes()).ok()?;
    let in_address = request.uri().authority();
    let is_one = in_address.is_none_or(|address| *address == host);
    (is_one && !host.as_str().contains('@')).then_some(host)
}

/// Whether the server accepts a host, with any port, as ports may be forwarded.
fn is_served(host: &Authority, names: &[String], bound: Option<IpAddr>) -> bool {
    let name = host.host();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            // An address cannot be rebound. A server that is bound to every address does not know
            // them all: some are those of a gateway.
            let is_bound = bound.is_some_and(|bound| bound.is_unspecified() || bound == address);
            let is_named = || names.iter().any(|name| name.parse() == Ok(address));
            address.is_loopback() || is_bound || is_named()
        }
        Err(_) => {
            name.eq_ignore_ascii_case("localhost")
                || names.iter().any(|it| it.eq_ignore_ascii_case(name))
        }
    }
}

/// Rejects a request that a browser sent for a page of another origin.
fn check_page(headers: &HeaderMap, host: &Authority, origins: &[String]) -> Result<(), Problem> {
    if allowed(headers, origins).is_some() {
        return Ok(());
    }
    let text = |name| match single(headers, name) {
        Ok(value) => Ok(value.map(|value| value.to_str().unwrap_or_default())),
        Err(_) => Err(foreign_page()),
    };
    // A page on another port of the same machine is `same-site`, and as foreign as any other.
    let is_own_site = matches!(text(FETCH_SITE)?, None | Some("same-origin" | "none"));
    let is_own_origin = text(ORIGIN)?.is_none_or(|origin| {
        let authority = ["http://", "https://"].map(|scheme| origin.strip_prefix(scheme));
        let authority = authority.into_iter().flatten().next();
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str()))
    });
    if is_own_site && is_own_origin {
        Ok(())
    } else {
        Err(foreign_page())
    }
}

/// A header that occurs at most once.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, Repeated> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Repeated),
    }
}

/// A header occurs more than once.
struct Repeated;

#[cfg(test)]
mod tests {
    use super::*;

    fn served(host: &str, bound: &str) -> bool {
        let names = ["runs.example.org".to_owned(), "192.0.2.7".to_owned()];
        let host = Authority::try_from(host).expect("a host");
        is_served(&host, &names, Some(bound.parse().expect("an address")))
    }

    #[test]
    fn own_hosts_are_served_at_any_port() {
        for host in [
            "localhost",
            "LocalHost:81",
            "127.0.0.1:8080",
            "127.8.9.1",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
            "runs.example.org",
            "RUNS.example.org:443",
            "192.0.2.7",
        ] {
            assert!(served(host, "127.0.0.1"), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_not_served() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "127.0.0.1.evil.example",
            "x.runs.example.org",
            "0.0.0.0:8080",
            "192.0.2.8",
            "[::2]",
            "2130706433",
        ] {
            assert!(!served(host, "127.0.0.1"), "{host}");
        }
    }

    #[test]
    fn bound_addresses_are_served() {
        assert!(served("192.0.2.8:1", "192.0.2.8"));
        assert!(!served("192.0.2.9:1", "192.0.2.8"));
        for all in ["0.0.0.0", "::"] {
            assert!(served("192.0.2.9", all) && served("[2001:db8::1]:1", all));
            assert!(!served("evil.example", all));
        }
    }
}

//! The real servers for requests to models.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
pub(crate) use runtime::outbound::Response;
use runtime::outbound::{Allowed, Outbound, OutboundError, Redirects, Request};
use url::Url;

/// The timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(3_600);
/// Headers of a single connection, and those that the proxy sets itself.
const NOT_PASSED_ON: [HeaderName; 10] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
    header::EXPECT,
];

/// The server of one interface.
#[derive(Clone)]
pub(crate) struct Upstream {
    base: Url,
    outbound: Outbound,
}

/// A base URL that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAServer {
    /// It is not a URL.
    #[error("{variable} is not the URL of a server: it must start with http:// or https://")]
    NoUrl {
        /// The variable that has it.
        variable: &'static str,
    },
    /// It has a user name or a password, which would be sent to the server that receives the
    /// request.
    #[error(
        "{variable} has a user name or a password in its URL, which is not supported: remove it \
         and give the key in its own variable"
    )]
    HasCredentials {
        /// The variable that has it.
        variable: &'static str,
    },
}

impl Upstream {
    /// A server by its base URL, from the user's environment.
    pub(crate) fn new(variable: &'static str, base: &str) -> Result<Self, NotAServer> {
        let not = NotAServer::NoUrl { variable };
        let base = Url::parse(base.trim()).map_err(|_| not.clone())?;
        let (Some(host), Some(port)) = (base.host_str(), base.port_or_known_default()) else {
            return Err(not);
        };
        if !matches!(base.scheme(), "http" | "https") {
            return Err(not);
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(NotAServer::HasCredentials { variable });
        }
        let entry = format!("{host}:{port}");
        let allowed = Allowed::parse([entry.as_str()]).map_err(|_| not)?;
        Ok(Self {
            base,
            outbound: Outbound::new(allowed),
        })
    }

    /// Its host and port, without anything else of its URL.
    pub(crate) fn host(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Sends a request below the base.
    pub(crate) async fn send(
        &self,
        method: Method,
        rest: &str,
        query: Option<&str>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response, OutboundError> {
        let mut url = self.base.clone();
        let path = format!(
            "{}/{}",
            url.path().trim_end_matches('/'),
            rest.trim_start_matches('/')
        );
        url.set_path(&path);
        if query.is_some() {
            url.set_query(query);
        }
        let mut passed = headers.clone();
        for name in NOT_PASSED_ON {
            passed.remove(name);
        }
        // A compressed body can be neither read nor cleaned; without this header a server may
        // compress.
        let plain = HeaderValue::from_static("identity");
        passed.insert(header::ACCEPT_ENCODING, plain);
        self.outbound
            .send(Request {
                method,
                url,
                headers: passed,
                origin_headers: HeaderMap::new(),
                body,
                timeout: TIMEOUT,
                redirects: Redirects::Return,
            })
            .await
    }

    /// The redirect target of an answer. A target below the base becomes relative to the request,
    /// so that it also goes through the proxy; any other keeps its full address.
    pub(crate) fn aim(&self, asked: &Url, aim: &[u8]) -> String {
        let aim = String::from_utf8_lossy(aim);
        let Ok(meant) = asked.join(&aim) else {
            return aim.into_owned();
        };
        let base = self.base.path().trim_end_matches('/');
        let rest = meant.path().strip_prefix(base);
        let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match asked.make_relative(&meant) {
            Some(metadata) if is_below && meant.origin() == self.base.origin() => metadata,
            _ => meant.to_string(),
        }
    }
}

/// The first segment of a path, and the rest after it.
pub(crate) fn first_segment(path: &str) -> (&str, &str) {
    let path = path.trim_start_matches('/');
    path.split_once('/').unwrap_or((path, ""))
}

/// The query of a request.
pub(crate) fn query(uri: &Uri) -> Option<&str> {
    uri.query().filter(|query| !query.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_below_the_base_are_proxied() {
        let upstream = Upstream::new("OPENAI_BASE_URL", "https://models.test/v1").unwrap();
        let asked = Url::parse("https://models.test/v1/chat/completions?a=1").unwrap();
        for (aim, expected) in [
            ("/v1/files/x?b=2", "../files/x?b=2"),
            ("https://models.test/v1/chat/other", "other"),
            (
                "https://models.test/v10/chat",
                "https://models.test/v10/chat",
            ),
            ("/login", "https://models.test/login"),
            (
                "https://elsewhere.test/v1/chat",
                "https://elsewhere.test/v1/chat",
            ),
            ("http://[", "http://["),
        ] {
            assert_eq!(upstream.aim(&asked, aim.as_bytes()), expected, "{aim}");
        }
    }
}

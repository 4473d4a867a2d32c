//! Requests of a recorded command to other servers than the proxy.
//!
//! The command can connect only to the proxy ([`crate::run`]), and the proxy variables lead to it
//! too. So every request arrives here. One to a model at a hard-coded address is recorded like any
//! other. One to another server is passed on and reported, or refused during a replay.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use crate::dialect::Route;

/// Bytes of a proxy's answer to a request for a tunnel.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of servers reported by name.
const MAX_TOLD: usize = 100;

type Answer = Response<BoxBody<Bytes, io::Error>>;

/// How requests to other servers are handled.
pub enum Rule {
    /// They are refused.
    Denied,
    /// They are passed on.
    Passed(Onward),
}

/// The servers other than models that a command requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Servers that were reached, as host and port.
    pub passed: BTreeSet<String>,
    /// Servers that were refused.
    pub refused: BTreeSet<String>,
}

/// Requests to other servers, and their outcomes.
pub(crate) struct Elsewhere {
    rule: Rule,
    seen: Mutex<Seen>,
}

impl Elsewhere {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            seen: Mutex::default(),
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    /// The route to a server; `None` where it is refused.
    fn way(&self, server: &str) -> Option<&Onward> {
        match &self.rule {
            Rule::Denied => {
                self.refuse(server);
                None
            }
            Rule::Passed(onward) => {
                tell(&mut self.seen.lock().passed, server);
                Some(onward)
            }
        }
    }

    /// Whether no server may be called.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self.rule, Rule::Denied)
    }

    /// Records that a server was refused.
    pub(crate) fn refuse(&self, server: &str) {
        tell(&mut self.seen.lock().refused, server);
    }

    /// Opens a tunnel; `None` where it is refused.
    pub(crate) async fn tunnel(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        server: &str,
    ) -> Option<io::Result<Answer>> {
        let onward = self.way(server)?;
        let mut stream = match onward.tunnel(server).await {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        tokio::spawn(async move {
            if let Ok(upgraded) = hyper::upgrade::on(&mut request).await {
                let mut upgraded = TokioIo::new(upgraded);
                // Either side may end it.
                let _ = tokio::io::copy_bidirectional(&mut upgraded, &mut stream).await;
            }
        });
        let nothing = Empty::new().map_err(|never| match never {});
        Some(Ok(Response::new(BodyExt::boxed(nothing))))
    }

    /// Passes a request on; `None` where it is refused.
    pub(crate) async fn pass(
        &self,
        request: Request<Incoming>,
        server: &str,
    ) -> Option<io::Result<Answer>> {
        let onward = self.way(server)?;
        Some(onward.pass(request, server).await)
    }
}

/// Adds a name to a list that is not full.
pub(crate) fn tell(told: &mut BTreeSet<String>, server: &str) {
    if told.len() < MAX_TOLD {
        told.insert(server.to_owned());
    }
}

/// A request to a model at a hard-coded address: the base of its server, and the path below it.
/// `None` for other requests.
pub(crate) fn to_model(uri: &Uri) -> Option<(&'static str, String, String)> {
    let (authority, path) = (uri.authority()?, uri.path());
    let route = Route::from_path(path);
    let is_near =
        matches!(authority.host(), "localhost" | "[::1]") || authority.host().starts_with("127.");
    let is_usual = path.starts_with("/v1/") || path.starts_with("/api/");
    if route == Route::Other && !(is_near && is_usual) {
        return None;
    }
    let origin = format!("http://{authority}");
    let below = |place: usize| {
        (
            format!("{origin}{}", &path[..place]),
            path[place + 1..].to_owned(),
        )
    };
    let (provider, (base, rest)) = match (route, path.find("/v1/")) {
        (Route::Messages, Some(place)) => ("anthropic", below(place)),
        (Route::Messages, None) => ("anthropic", below(0)),
        (_, Some(place)) => ("openai", below(place + 3)),
        (_, None) => ("openai", below(0)),
    };
    Some((provider, base, rest))
}

/// The route to other servers: through the proxies that the command itself would have used.
pub struct Onward {
    http: Option<Url>,
    https: Option<Url>,
    direct: Vec<String>,
}

impl Onward {
    /// The route from an environment.
    pub fn from_environment(environment: &BTreeMap<String, String>) -> Self {
        let set = |name: &str| {
            let lower = environment.get(&name.to_ascii_lowercase());
            let value = lower.or_else(|| environment.get(name));
            value
                .map(|value| value.trim())
                .filter(|value| !value.is_empty())
        };
        let proxy = |name: &str| {
            let url = Url::parse(set(name).or_else(|| set("ALL_PROXY"))?).ok()?;
            (url.scheme() == "http").then_some(url)
        };
        let direct = set("NO_PROXY").unwrap_or_default().split(',');
        Self {
            http: proxy("HTTP_PROXY"),
            https: proxy("HTTPS_PROXY"),
            direct: direct
                .map(|part| part.trim().to_ascii_lowercase())
                .collect(),
        }
    }

    fn proxy<'a>(&self, proxy: Option<&'a Url>, server: &str) -> Option<&'a Url> {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let is_direct = self
            .direct
            .iter()
            .any(|part| match part.trim_start_matches('.') {
                "" => false,
                "*" => true,
                part => host == part || host.ends_with(&format!(".{part}")),
            });
        let is_near = matches!(host, "localhost" | "[::1]") || host.starts_with("127.");
        proxy.filter(|_| !is_direct && !is_near)
    }

    async fn tunnel(&self, server: &str) -> io::Result<TcpStream> {
        let Some(proxy) = self.proxy(self.https.as_ref(), server) else {
            return TcpStream::connect(server).await;
        };
        let mut stream = open(proxy).await?;
        let mut head = format!("CONNECT {server} HTTP/1.1\r\nhost: {server}\r\n");
        if let Some(credentials) = credentials(proxy) {
            head.push_str(&format!("proxy-authorization: {credentials}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > MAX_HEAD {
                return Err(io::Error::other("the proxy sent no proxy answer"));
            }
            answer.push(stream.read_u8().await?);
        }
        let line = String::from_utf8_lossy(&answer);
        match line.split(' ').nth(1) {
            Some("200") => Ok(stream),
            _ => Err(io::Error::other("the proxy refuses the connection")),
        }
    }

    async fn pass(&self, mut request: Request<Incoming>, server: &str) -> io::Result<Answer> {
        let headers = request.headers_mut();
        headers.remove(header::PROXY_AUTHORIZATION);
        headers.remove("proxy-connection");
        let stream = match self.proxy(self.http.as_ref(), server) {
            Some(proxy) => {
                if let Some(credentials) = credentials(proxy)
                    && let Ok(credentials) = HeaderValue::from_str(&credentials)
                {
                    headers.insert(header::PROXY_AUTHORIZATION, credentials);
                }
                open(proxy).await?
            }
            None => {
                let path = request.uri().path_and_query();
                let path = path.map_or("/", |path| path.as_str());
                *request.uri_mut() = path.parse().map_err(io::Error::other)?;
                let port = match server.rsplit_once(':') {
                    Some((_, port)) if port.parse::<u16>().is_ok() => "",
                    _ => ":80",
                };
                TcpStream::connect(format!("{server}{port}")).await?
            }
        };
        let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connected.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await;
        let response = response.map_err(io::Error::other)?;
        Ok(response.map(|body| BodyExt::boxed(body.map_err(io::Error::other))))
    }
}

async fn open(proxy: &Url) -> io::Result<TcpStream> {
    let host = proxy.host_str().unwrap_or_default();
    let port = proxy.port_or_known_default().unwrap_or(80);
    TcpStream::connect(format!("{host}:{port}")).await
}

fn credentials(proxy: &Url) -> Option<String> {
    let password = proxy.password().unwrap_or_default();
    let pair = format!("{}:{password}", proxy.username());
    (pair != ":").then(|| format!("Basic {}", STANDARD.encode(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_at_a_written_address_is_known() {
        for (uri, expected) in [
            (
                "http://127.0.0.1:8000/v1/chat/completions",
                Some(("openai", "http://127.0.0.1:8000/v1", "chat/completions")),
            ),
            (
                "http://gpu.test/llm/v1/responses",
                Some(("openai", "http://gpu.test/llm/v1", "responses")),
            ),
            (
                "http://localhost:11434/api/chat",
                Some(("openai", "http://localhost:11434", "api/chat")),
            ),
            (
                "http://127.0.0.1:1/v1/messages",
                Some(("anthropic", "http://127.0.0.1:1", "v1/messages")),
            ),
            ("http://127.0.0.1:3000/health", None),
            ("http://example.org/v1/things", None),
        ] {
            let found = to_model(&uri.parse().unwrap());
            let found = found
                .as_ref()
                .map(|(provider, base, rest)| (*provider, &**base, &**rest));
            assert_eq!(found, expected, "{uri}");
        }
    }

    #[test]
    fn the_proxies_of_the_command_are_asked_as_it_would() {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let onward = Onward::from_environment(&BTreeMap::from([
            set("https_proxy", "http://ada:pw@proxy.test:3128"),
            set("NO_PROXY", "intern.test, .lab.test"),
        ]));
        let asks = |server: &str| onward.proxy(onward.https.as_ref(), server).is_some();
        assert!(asks("example.org:443") && asks("notintern.test:443"));
        for server in [
            "intern.test:443",
            "a.intern.test:443",
            "x.lab.test:1",
            "127.0.0.1:1",
        ] {
            assert!(!asks(server), "{server}");
        }
        assert!(onward.proxy(onward.http.as_ref(), "example.org").is_none());
        let basic = credentials(onward.https.as_ref().unwrap());
        assert_eq!(basic.as_deref(), Some("Basic YWRhOnB3"));
    }
}

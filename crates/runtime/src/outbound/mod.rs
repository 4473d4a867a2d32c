//! HTTP to the outside, past a guard against server-side request forgery.
//!
//! A workflow says where a request goes, and so may anybody who writes one, or whose answer
//! redirects it. The guard resolves a name once, checks **every** address it has, and connects to
//! one of those and to nothing else, so that a name cannot change its mind in between. Each
//! redirect passes the guard again. Proxies of the environment are not used: they would resolve
//! the name a second time, elsewhere.

mod address;
mod retry_after;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::trace::TraceContext;
use reqwest::header::{
    AUTHORIZATION, COOKIE, HeaderMap, HeaderName, LOCATION, PROXY_AUTHORIZATION,
};
use reqwest::{Client, Method, StatusCode, redirect};
use rustls::ClientConfig;
use url::Url;

use crate::telemetry::context;
use address::Target;
pub use address::{Allowed, NotATarget};
pub(crate) use retry_after::retry_after_ms;

/// Redirects that are followed at most.
pub const MAX_REDIRECTS: usize = 10;
/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends HTTP requests to the outside. Cheap to clone.
#[derive(Clone)]
pub struct Outbound {
    allowed: Arc<Allowed>,
    resolver: Arc<dyn Resolve>,
    tls: Arc<OnceLock<ClientConfig>>,
    /// The span that requests are made in.
    trace: Option<TraceContext>,
}

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Every address of a host.
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// Asks the system.
struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let addresses = tokio::net::lookup_host((host, 0)).await?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// Answers with the addresses that were checked, whatever it is asked.
struct Pinned(Vec<SocketAddr>);

impl reqwest::dns::Resolve for Pinned {
    fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let addresses: reqwest::dns::Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// What becomes of an answer that redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// It is the answer.
    Return,
    /// It is followed, at most [`MAX_REDIRECTS`] times.
    Follow,
}

/// A request. Not `Debug`: its headers hold secrets.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its headers.
    pub headers: HeaderMap,
    /// Those that are for this host alone: a redirect to another does not get them.
    pub origin_headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// How long all of it may take, the body of the answer included.
    pub timeout: Duration,
    /// What becomes of an answer that redirects.
    pub redirects: Redirects,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The guard refused the target. Nothing was sent to it.
    #[error("requests to {host} are refused: {reason}")]
    Refused {
        /// Where it would have gone, without path and query.
        host: String,
        /// Why not.
        reason: String,
    },
    /// The name has no address.
    #[error("the name {host} could not be resolved: {reason}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// No connection came about. Nothing was sent.
    #[error("no connection to {host}: {reason}")]
    Unreachable {
        /// Where it went.
        host: String,
        /// What went wrong.
        reason: String,
    },
    /// It took too long. The request may have been received.
    #[error("no complete answer from {host} in time")]
    TimedOut {
        /// Where it went.
        host: String,
    },
    /// The connection broke. The request may have been received.
    #[error("the connection to {host} broke: {reason}")]
    Broken {
        /// Where it went.
        host: String,
        /// What went wrong.
        reason: String,
    },
    /// More redirects than are followed, or one that leads nowhere.
    #[error("{host} redirects {reason}")]
    BadRedirect {
        /// Where the last one came from.
        host: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// An answer whose body is still to be read.
pub struct Response {
    inner: reqwest::Response,
    host: String,
}

impl Default for Outbound {
    /// To the public internet only.
    fn default() -> Self {
        Self::new(Allowed::default())
    }
}

impl Outbound {
    /// To the public internet and what else is allowed.
    pub fn new(allowed: Allowed) -> Self {
        Self::with_resolver(allowed, Arc::new(SystemResolver))
    }

    /// The same with another way to find addresses.
    pub fn with_resolver(allowed: Allowed, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            allowed: Arc::new(allowed),
            resolver,
            tls: Arc::default(),
            trace: None,
        }
    }

    /// The same for requests that are made within a span. They say so.
    pub fn within(&self, trace: TraceContext) -> Self {
        Self {
            trace: Some(trace),
            ..self.clone()
        }
    }

    /// Sends a request and follows redirects; the body of the answer is still to be read.
    ///
    /// # Errors
    /// When there is no answer. An answer of any status is one.
    pub async fn send(&self, mut request: Request) -> Result<Response, OutboundError> {
        let deadline = tokio::time::Instant::now() + request.timeout;
        if let Some(trace) = &self.trace {
            context::say(trace, &mut request.headers);
        }
        for _ in 0..=MAX_REDIRECTS {
            let host = shown(&request.url);
            let hop = self.hop(&request, deadline);
            let response = match tokio::time::timeout_at(deadline, hop).await {
                Ok(response) => response?,
                Err(_) => return Err(OutboundError::TimedOut { host }),
            };
            let to = match request.redirects {
                Redirects::Follow if response.status().is_redirection() => location(&response),
                _ => None,
            };
            let Some(to) = to else {
                return Ok(Response {
                    inner: response,
                    host,
                });
            };
            redirect(&mut request, to, response.status())?;
        }
        Err(OutboundError::BadRedirect {
            host: shown(&request.url),
            reason: "too often",
        })
    }

    /// Whether a request to a URL would pass the guard as its name resolves now.
    ///
    /// # Errors
    /// `Refused` or `Unresolved`.
    pub async fn check(&self, url: &Url) -> Result<(), OutboundError> {
        self.addresses(url).await.map(drop)
    }

    /// One request to one validated address, without redirects.
    async fn hop(
        &self,
        request: &Request,
        deadline: tokio::time::Instant,
    ) -> Result<reqwest::Response, OutboundError> {
        let host = shown(&request.url);
        let addresses = self.addresses(&request.url).await?;
        let broken = |error: &reqwest::Error| OutboundError::Unreachable {
            host: host.clone(),
            reason: innermost(error),
        };
        // A client per request, because the addresses are pinned in it.
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .dns_resolver(Arc::new(Pinned(addresses)))
            .tls_backend_preconfigured(self.tls_config(&request.url, &host)?)
            .build()
            .map_err(|error| broken(&error))?;
        let timeout = deadline.saturating_duration_since(tokio::time::Instant::now());
        let sent = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .headers(request.origin_headers.clone())
            .timeout(timeout)
            .body(request.body.clone())
            .send()
            .await;
        sent.map_err(|error| match &error {
            error if error.is_connect() => broken(error),
            error => failed(host.clone(), error),
        })
    }

    /// The addresses a request may go to: all the host has, or none.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, OutboundError> {
        let refuse = |reason: address::Refusal| OutboundError::Refused {
            host: shown(url),
            reason: reason.to_string(),
        };
        let target = Target::of(url, &self.allowed).map_err(refuse)?;
        let addresses = match target.address {
            Some(address) => vec![address],
            None => {
                let unresolved = |reason: String| OutboundError::Unresolved {
                    host: target.host.clone(),
                    reason,
                };
                let found = self.resolver.resolve(&target.host).await;
                let found = found.map_err(|error| unresolved(error.to_string()))?;
                if found.is_empty() {
                    return Err(unresolved("it has no address".to_owned()));
                }
                found
            }
        };
        for &address in &addresses {
            target.check(address, &self.allowed).map_err(refuse)?;
        }
        Ok(addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, target.port))
            .collect())
    }

    /// Certificates are read once, and only when a request needs them.
    fn tls_config(&self, url: &Url, host: &str) -> Result<ClientConfig, OutboundError> {
        use rustls_platform_verifier::BuilderVerifierExt as _;
        let unreachable = |error: rustls::Error| OutboundError::Unreachable {
            host: host.to_owned(),
            reason: format!("TLS cannot be set up: {error}"),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unreachable)?;
        if url.scheme() == "http" {
            let no_roots = rustls::RootCertStore::empty();
            return Ok(builder
                .with_root_certificates(no_roots)
                .with_no_client_auth());
        }
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let config = builder
            .with_platform_verifier()
            .map_err(unreachable)?
            .with_no_client_auth();
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

impl Response {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// Where the answer came from, after redirects.
    pub fn url(&self) -> &Url {
        self.inner.url()
    }

    /// The next piece of the body.
    ///
    /// # Errors
    /// When the connection breaks or takes too long.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, OutboundError> {
        let chunk = self.inner.chunk().await;
        chunk.map_err(|error| failed(self.host.clone(), &error))
    }
}

fn location(response: &reqwest::Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Makes the request that a redirect asks for of the one it answers.
fn redirect(request: &mut Request, to: String, status: StatusCode) -> Result<(), OutboundError> {
    let bad = |reason| OutboundError::BadRedirect {
        host: shown(&request.url),
        reason,
    };
    let url = request
        .url
        .join(&to)
        .map_err(|_| bad("to something that is no URL"))?;
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(bad(
            "from https to http, which would send everything in the clear",
        ));
    }
    if url.origin() != request.url.origin() {
        request.origin_headers.clear();
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            request.headers.remove(name);
        }
    }
    let is_get_now = match status {
        StatusCode::SEE_OTHER => request.method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method == Method::POST,
        _ => false,
    };
    if is_get_now {
        request.method = Method::GET;
        request.body = Bytes::new();
        let of_body = |name: &HeaderName| name.as_str().starts_with("content-");
        let names: Vec<HeaderName> = request
            .headers
            .keys()
            .filter(|n| of_body(n))
            .cloned()
            .collect();
        for name in names {
            request.headers.remove(name);
        }
    }
    request.url = url;
    Ok(())
}

fn failed(host: String, error: &reqwest::Error) -> OutboundError {
    if error.is_timeout() {
        OutboundError::TimedOut { host }
    } else {
        OutboundError::Broken {
            host,
            reason: innermost(error),
        }
    }
}

/// Scheme, host and port: path and query may hold what is nobody's business.
fn shown(url: &Url) -> String {
    let origin = url.origin();
    if origin.is_tuple() {
        origin.ascii_serialization()
    } else {
        format!("{}:", url.scheme())
    }
}

/// The cause at the bottom, which says what happened; those above name the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => error.to_string(),
    }
}

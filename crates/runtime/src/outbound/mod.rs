//! Outgoing HTTP through a guard against server-side request forgery.
//!
//! The target of a request is chosen by the author of a workflow, or by a server that redirects.
//! The guard resolves a name once, checks **every** address it has, and connects to one of those
//! only, so that the name cannot resolve differently in between. Each redirect passes the guard
//! again. Proxies of the environment are not used: they would resolve the name a second time,
//! elsewhere.

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

use crate::trace_context;
use address::Target;
pub use address::{Allowed, NotATarget};
pub(crate) use retry_after::retry_after_ms;

/// The most redirects that are followed.
pub const MAX_REDIRECTS: usize = 10;
/// The timeout of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends HTTP requests to the outside. Cheap to clone.
#[derive(Clone)]
pub struct Outbound {
    allowed: Arc<Allowed>,
    resolver: Arc<dyn Resolve>,
    tls: Arc<OnceLock<ClientConfig>>,
    /// The span of the requests.
    trace: Option<TraceContext>,
}

/// Resolves names.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Every address of a host.
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let addresses = tokio::net::lookup_host((host, 0)).await?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// Returns the checked addresses for every name.
struct Pinned(Vec<SocketAddr>);

impl reqwest::dns::Resolve for Pinned {
    fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let addresses: reqwest::dns::Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// The treatment of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// Return it as the response.
    Return,
    /// Follow it, at most [`MAX_REDIRECTS`] times.
    Follow,
}

/// A request. Not `Debug`: its headers hold secrets.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct Request {
    pub method: Method,
    /// The URL.
    pub url: Url,
    pub headers: HeaderMap,
    /// Headers for the original host alone: a redirect to another drops them.
    pub origin_headers: HeaderMap,
    pub body: Bytes,
    /// The timeout of the whole request, including the response body.
    pub timeout: Duration,
    /// The treatment of a redirect.
    pub redirects: Redirects,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The guard rejected the target. Nothing was sent to it.
    #[error("requests to {host} are refused: {reason}")]
    Refused {
        /// The target, without path and query.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The name has no address.
    #[error("the name {host} could not be resolved: {reason}")]
    Unresolved {
        /// The name.
        host: String,
        /// The resolver's error.
        reason: String,
    },
    /// Connecting failed. Nothing was sent.
    #[error("no connection to {host}: {reason}")]
    Unreachable {
        /// The target.
        host: String,
        /// The error.
        reason: String,
    },
    /// Timeout. The request may have been received.
    #[error("no complete answer from {host} in time")]
    TimedOut {
        /// The target.
        host: String,
    },
    /// The connection broke. The request may have been received.
    #[error("the connection to {host} broke: {reason}")]
    Broken {
        /// The target.
        host: String,
        /// The error.
        reason: String,
    },
    /// Too many redirects, or an invalid one.
    #[error("{host} redirects {reason}")]
    BadRedirect {
        /// The host of the last one.
        host: String,
        /// The error.
        reason: &'static str,
    },
}

/// A response whose body is not read yet.
pub struct Response {
    inner: reqwest::Response,
    host: String,
}

impl Default for Outbound {
    /// Allows the public internet only.
    fn default() -> Self {
        Self::new(Allowed::default())
    }
}

impl Outbound {
    /// Allows the public internet and these targets.
    pub fn new(allowed: Allowed) -> Self {
        Self::with_resolver(allowed, Arc::new(SystemResolver))
    }

    /// The same with another resolver.
    pub fn with_resolver(allowed: Allowed, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            allowed: Arc::new(allowed),
            resolver,
            tls: Arc::default(),
            trace: None,
        }
    }

    /// The same for requests within a span. They carry its trace context.
    pub fn within(&self, trace: TraceContext) -> Self {
        Self {
            trace: Some(trace),
            ..self.clone()
        }
    }

    /// Sends a request and follows redirects; the body of the response is not read yet.
    ///
    /// # Errors
    /// A failure to receive a response. A response of any status is not an error.
    pub async fn send(&self, mut request: Request) -> Result<Response, OutboundError> {
        let deadline = tokio::time::Instant::now() + request.timeout;
        if let Some(trace) = &self.trace {
            trace_context::say(trace, &mut request.headers);
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

    /// Whether the guard currently allows a URL.
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
        // One client per request, because the addresses are pinned in it.
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

    /// The allowed addresses of a request: all of the host's, or an error.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, OutboundError> {
        let refuse = |reason: address::Refusal| OutboundError::Refused {
            host: shown(url),
            reason: reason.to_string(),
        };
        let target = Target::resolve(url, &self.allowed).map_err(refuse)?;
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

    /// Certificates are read once, on the first request that needs them.
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

    /// The URL of the response, after redirects.
    pub fn url(&self) -> &Url {
        self.inner.url()
    }

    /// The next chunk of the body.
    ///
    /// # Errors
    /// If the connection breaks or times out.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, OutboundError> {
        let chunk = self.inner.chunk().await;
        chunk.map_err(|error| failed(self.host.clone(), &error))
    }
}

fn location(response: &reqwest::Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Turns a request into the one that its redirect asks for.
fn redirect(request: &mut Request, to: String, status: StatusCode) -> Result<(), OutboundError> {
    let bad = |reason| OutboundError::BadRedirect {
        host: shown(&request.url),
        reason,
    };
    let url = request
        .url
        .join(&to)
        .map_err(|_| bad("to an invalid URL"))?;
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(bad("from https to http, which is not encrypted"));
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

/// Scheme, host and port: path and query may hold secrets.
fn shown(url: &Url) -> String {
    let origin = url.origin();
    if origin.is_tuple() {
        origin.ascii_serialization()
    } else {
        format!("{}:", url.scheme())
    }
}

/// The innermost cause, which says what happened; the outer ones quote the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => error.to_string(),
    }
}

//! The HTTP client of a Runwright server.

use std::time::Duration;

use kernel::json;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use runtime::outbound::{Allowed, Outbound, Redirects, Request, Response};
use serde_json::Value;
use url::Url;

use crate::env;
use crate::exit::Failure;

/// The timeout of an answer; a poll is held for less.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer.
const MAX_ANSWER: usize = 64 << 20;

/// A server, and our credentials.
pub(crate) struct Remote {
    base: Url,
    key: Option<String>,
    outbound: Outbound,
}

impl Remote {
    /// A server by its address.
    pub(crate) fn new(server: &str, key: Option<String>) -> Result<Self, Failure> {
        let typed = kernel::problem::quoted(server);
        let wrong = || {
            Failure::new(format!("--server {typed} is not the address of a server"))
                .hint("write http://HOST:PORT")
        };
        let base = Url::parse(server).map_err(|_| wrong())?;
        let host = base.host_str().ok_or_else(wrong)?;
        let port = base.port_or_known_default().ok_or_else(wrong)?;
        // Named explicitly, so it may be at a private address.
        let place = format!("{host}:{port}");
        let allowed = Allowed::parse([place.as_str()]).map_err(|_| wrong())?;
        let outbound = Outbound::new(allowed);
        Ok(Self {
            outbound: match env::trace() {
                Some(trace) => outbound.within(trace),
                None => outbound,
            },
            base,
            key,
        })
    }

    /// The options that make a command use this server.
    pub(crate) fn place(&self) -> String {
        let server = self.address();
        // A key from the environment also opens the server for the next command.
        let is_typed = self.key.is_some() && std::env::var_os(env::KEY).is_none();
        let key = if is_typed { " --key KEY" } else { "" };
        format!(" --server {server}{key}")
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, None).await
    }

    /// Sends a POST request.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a DELETE request.
    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.send(Method::DELETE, path, None).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        match self.exchange(method, path, body).await? {
            (status, Some(answer)) if status.is_success() => Ok(answer),
            (status, answer) => Err(refused(status, answer.as_ref())),
        }
    }

    /// Sends a request; returns the answer if it can be read.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Option<Value>), Failure> {
        self.exchange_with(method, path, body, HeaderMap::new())
            .await
    }

    /// A page of a run's log after an event, as large as the server allows.
    pub(crate) async fn log(&self, run: &str, after: Option<u64>) -> Result<Value, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(after) = after {
            headers.insert("last-event-id", HeaderValue::from(after));
        }
        let path = format!("/v1/runs/{run}/events?streamMode=debug");
        match self
            .exchange_with(Method::GET, &path, None, headers)
            .await?
        {
            (status, Some(answer)) if status.is_success() => Ok(answer),
            (status, answer) => Err(refused(status, answer.as_ref())),
        }
    }

    /// The same with further headers.
    pub(crate) async fn exchange_with(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        headers: HeaderMap,
    ) -> Result<(StatusCode, Option<Value>), Failure> {
        read(self.sent(method, path, body, headers, TIMEOUT).await?).await
    }

    /// Sends a request. The body of the answer must arrive within the `timeout`.
    pub(crate) async fn sent(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        mut headers: HeaderMap,
        timeout: Duration,
    ) -> Result<Response, Failure> {
        let url = self.base.join(path);
        let url = url.map_err(|_| Failure::new("the address of the request is not a URL"))?;
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &self.key {
            let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut bearer =
                bearer.map_err(|_| Failure::new("--key has characters that a key cannot have"))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let request = Request {
            method,
            url,
            headers: HeaderMap::new(),
            origin_headers: headers,
            body: body.map(Value::to_string).unwrap_or_default().into(),
            timeout,
            redirects: Redirects::Return,
        };
        let sent = self.outbound.send(request).await;
        sent.map_err(|error| {
            Failure::new(error.to_string())
                .hint("check that the server runs: GET /readyz answers 200 when it does")
        })
    }
}

/// A whole answer, if it is JSON.
pub(crate) async fn read(mut response: Response) -> Result<(StatusCode, Option<Value>), Failure> {
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken_off)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_ANSWER {
            return Err(Failure::new("the server's answer is too large"));
        }
    }
    let answer: Option<Value> = match status {
        StatusCode::NO_CONTENT => Some(Value::Null),
        _ => json::from_slice(&bytes).ok(),
    };
    Ok((status, answer))
}

/// A truncated answer.
pub(crate) fn broken_off(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

/// A server's rejection, in its words.
pub(crate) fn refused(status: StatusCode, envelope: Option<&Value>) -> Failure {
    let text = |name: &str| envelope.and_then(|envelope| envelope[name].as_str());
    let (Some(message), Some(code)) = (text("message"), text("error")) else {
        return Failure::new(format!(
            "the server answered {} without a readable body",
            status.as_u16()
        ));
    };
    let mut what = format!(
        "{} [{}]",
        crate::text::plain(message),
        crate::text::plain(code)
    );
    let errors = envelope.and_then(|envelope| envelope["details"]["errors"].as_array());
    for error in errors.into_iter().flatten() {
        let part = |name: &str| crate::text::plain(error[name].as_str().unwrap_or_default());
        what.push_str(&format!("\n  {}: {}", part("path"), part("message")));
    }
    let failure = Failure::new(what);
    match status {
        StatusCode::UNAUTHORIZED => failure
            .hint("give a key with --key or RUNWRIGHT_KEY; `runwright keys create` makes one"),
        _ => failure,
    }
}

/// A text, encoded as part of an address.
pub(crate) fn urlencoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}

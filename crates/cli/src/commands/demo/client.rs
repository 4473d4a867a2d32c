//! The demo's requests to the server, over HTTP.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use runtime::outbound::{Allowed, Outbound, OutboundError, Redirects, Request};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::exit::Failure;
use crate::text;

/// The timeout of an answer. Longer than a poll is held.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds a poll is held.
const HOLD: u32 = 10;

/// A client with a key.
pub(super) struct Client {
    outbound: Outbound,
    base: Url,
    headers: HeaderMap,
}

/// A page of events.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    /// Events in wire format.
    pub(super) events: Vec<Value>,
    /// The highest sequence seen.
    pub(super) last_event_seq: u64,
    /// Whether no further events will follow.
    pub(super) is_complete: bool,
    /// Whether the run has ended.
    pub(super) is_terminal: bool,
}

impl Client {
    pub(super) fn new(url: &str, key: &str) -> Result<Self, Failure> {
        let broken = || Failure::new("the server's address cannot be used");
        let base = Url::parse(url).map_err(|_| broken())?;
        let allowed = Allowed::parse(["127.0.0.0/8"]).map_err(|_| broken())?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| broken())?;
        bearer.set_sensitive(true);
        let json = HeaderValue::from_static("application/json");
        Ok(Self {
            outbound: Outbound::new(allowed),
            base,
            headers: HeaderMap::from_iter([(AUTHORIZATION, bearer), (CONTENT_TYPE, json)]),
        })
    }

    /// Creates a run; returns its id.
    pub(super) async fn create(&self, workflow: &str) -> Result<String, Failure> {
        let order = json!({ "workflowId": workflow }).to_string();
        let answer = self.ask(Method::POST, "/v1/runs", order).await?;
        text_of(&answer, "runId")
    }

    /// The events after a sequence, once there is one.
    pub(super) async fn poll(&self, run: &str, after: Option<u64>) -> Result<Page, Failure> {
        let after = after.map(|seq| format!("&lastSequence={seq}"));
        let after = after.unwrap_or_default();
        let path = format!("/v1/runs/{run}/events/poll?timeout={HOLD}{after}");
        let answer = self.ask(Method::GET, &path, String::new()).await?;
        serde_json::from_value(answer).map_err(|_| odd())
    }

    /// The current run.
    pub(super) async fn snapshot(&self, run: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, &format!("/v1/runs/{run}"), String::new())
            .await
    }

    async fn ask(&self, method: Method, path: &str, body: String) -> Result<Value, Failure> {
        let fail = |error: OutboundError| Failure::new(error.to_string());
        let request = Request {
            method,
            url: self.base.join(path).map_err(|_| odd())?,
            headers: self.headers.clone(),
            origin_headers: HeaderMap::new(),
            body: Bytes::from(body),
            timeout: TIMEOUT,
            redirects: Redirects::Return,
        };
        let mut response = self.outbound.send(request).await.map_err(fail)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(fail)? {
            bytes.extend_from_slice(&chunk);
        }
        let answer: Value = serde_json::from_slice(&bytes).map_err(|_| odd())?;
        if response.status().is_success() {
            Ok(answer)
        } else {
            let why = answer["message"].as_str().unwrap_or("no reason given");
            let why = text::one_line(why, 200);
            Err(Failure::new(format!(
                "the server answered {}: {why}",
                response.status().as_u16()
            )))
        }
    }
}

fn text_of(answer: &Value, field: &str) -> Result<String, Failure> {
    let text = answer[field].as_str().map(str::to_owned);
    text.ok_or_else(odd)
}

fn odd() -> Failure {
    Failure::new("the server's answer has an unexpected form")
}

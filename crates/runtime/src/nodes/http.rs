//! `runwright.http`: one HTTP request and its response.
//!
//! ```json
//! { "method": "POST", "url": "https://api.example.com/items/${inputs.id}",
//!   "json": { "state": "done" }, "secretHeaders": { "Authorization": "env:API_TOKEN" } }
//! ```
//!
//! Requests with unsafe methods carry `Idempotency-Key`: the key of the effect, which retries and
//! restarts reuse, or a key of the workflow's own in `headers`. Outputs: `status`, `headers`, and `json` or `body`; a long or binary body
//! is an artifact.

mod body;
mod config;
mod schema;

use std::collections::BTreeMap;

use async_trait::async_trait;
use kernel::definition::Reads;
use kernel::problem::Problem;
use kernel::run::{Completion, NodeError, Outcome};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, SET_COOKIE};
use serde_json::{Map, Value, json};

use super::{NodeContext, ReceiverKey, Repeat, Started, WorkNode};
use crate::outbound::{OutboundError, Response, retry_after_ms};
use body::Body;
use config::{Config, ReadJson};

/// Characters of a response body quoted in an error.
const QUOTED: usize = 1_000;

/// Sends a request.
pub(super) struct Http;

#[async_trait]
impl WorkNode for Http {
    fn type_id(&self) -> &'static str {
        "runwright.http"
    }

    fn summary(&self) -> &'static str {
        "Sends an HTTP request and gives the status, headers and body of the answer."
    }

    fn repeat(&self, config: &Value) -> Repeat {
        Config::parse(config).map_or(Repeat::Once, |config| config.repeat())
    }

    fn effect(&self, config: &Value, inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        let config = Config::parse(config);
        Some(config.map_or(ReceiverKey::None, |config| config.receiver_key(inputs)))
    }

    fn config_schema(&self) -> Value {
        schema::schema()
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        config::check(config)
    }

    fn reads(&self, config: &Value) -> Reads {
        config::reads(config)
    }

    fn outputs(&self, _config: &Value) -> Option<Vec<String>> {
        let names = ["status", "headers", "bodyTruncated", "json", "body"];
        Some(names.map(str::to_owned).into())
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        tokio::select! {
            biased;
            () = cx.stop.cancelled() => Outcome::Stopped,
            result = exchange(&started, &cx) => match result {
                Ok(completion) => Outcome::Completed(completion),
                Err(Failure { error, artifacts }) => Outcome::Failed {
                    error,
                    artifacts,
                    usage: Vec::new(),
                    spent: BTreeMap::new(),
                },
            },
        }
    }
}

struct Failure {
    error: NodeError,
    artifacts: Vec<kernel::run::Artifact>,
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        Self {
            error,
            artifacts: Vec::new(),
        }
    }
}

async fn exchange(started: &Started, cx: &NodeContext) -> Result<Completion, Failure> {
    let config = Config::parse(started.config())?;
    let repeat = config.repeat();
    let request = config.request(started, &cx.ports).await?;
    let gone = |error| no_answer(&error, repeat);
    let mut response = cx.ports.outbound.send(request).await.map_err(gone)?;
    let body = Body::read(&mut response, &config)
        .await
        .map_err(|error| match error {
            body::Unread::Outbound(error) => gone(error),
            body::Unread::Node(error) => error,
        })?;
    let is_text = body.text().is_some();
    let mut artifacts = Vec::new();
    if body.is_truncated() || !is_text {
        let media_type = header(response.headers(), &CONTENT_TYPE);
        let media_type = media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
        artifacts.push(body.keep(&media_type, cx).await?);
    }
    let status = response.status();
    if !config.is_success(status) {
        return Err(Failure {
            error: bad_status(&response, &body),
            artifacts,
        });
    }
    let mut outputs = Map::new();
    outputs.insert("status".into(), status.as_u16().into());
    outputs.insert("headers".into(), shown_headers(response.headers()));
    outputs.insert("bodyTruncated".into(), body.is_truncated().into());
    match config.read_json(header(response.headers(), &CONTENT_TYPE).as_deref()) {
        ReadJson::No => {}
        ReadJson::IfItIs if body.is_truncated() => {}
        expectation => match (body.json().await, expectation) {
            (Ok(value), _) => {
                outputs.insert("json".into(), value);
            }
            (Err(error), ReadJson::Must) => return Err(Failure { error, artifacts }),
            (Err(_), _) => {}
        },
    }
    if let Some(text) = body.text()
        && !outputs.contains_key("json")
    {
        outputs.insert("body".into(), text.into());
    }
    Ok(Completion {
        outputs,
        artifacts,
        ..Completion::default()
    })
}

/// The error of a request without a response. If the request may have had its effect, a `Once`
/// request is not retried: its server may not know idempotency keys.
fn no_answer(error: &OutboundError, repeat: Repeat) -> NodeError {
    let text = error.to_string();
    let lost = |code: &str| match repeat {
        Repeat::Repeatable => NodeError::new(code, text.clone()),
        Repeat::Once => NodeError::new(
            code,
            format!("{text}; the request may have had its effect, so it is not sent again"),
        )
        .fatal(),
    };
    match error {
        OutboundError::Refused { .. } => NodeError::new("http_refused", text).fatal(),
        OutboundError::BadRedirect { .. } => NodeError::new("http_bad_redirect", text).fatal(),
        OutboundError::Unresolved { .. } => NodeError::new("http_unresolved", text),
        OutboundError::Unreachable { .. } => NodeError::new("http_unreachable", text),
        OutboundError::TimedOut { .. } => lost("http_timed_out"),
        OutboundError::Broken { .. } => lost("http_broken"),
    }
}

fn bad_status(response: &Response, body: &Body) -> NodeError {
    let status = response.status();
    let host = response.url().origin().ascii_serialization();
    let said = body
        .text()
        .map(|text| text.chars().take(QUOTED).collect::<String>());
    let mut details = json!({ "status": status.as_u16(), "body": said });
    let may_pass = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        );
    let retry_after = retry_after_ms(response.headers());
    if let (true, Some(ms)) = (may_pass, retry_after) {
        details["retryAfterMs"] = ms.into();
    }
    let advice = match (may_pass, retry_after) {
        (true, Some(ms)) => format!("try again in {ms} ms"),
        (true, None) => "try again later".to_owned(),
        (false, _) => "correct the request, or list the code in successCodes".to_owned(),
    };
    let mut error = NodeError::new("http_status", format!("{host} answered {status}; {advice}"))
        .with_details(details);
    error.retryable = Some(may_pass);
    error
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Headers by lower-case name. Cookies are credentials and are left out.
fn shown_headers(headers: &HeaderMap) -> Value {
    let mut shown: Map<String, Value> = Map::new();
    for (name, value) in headers.iter().filter(|(name, _)| *name != SET_COOKIE) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let text = match shown.get(name.as_str()).and_then(Value::as_str) {
            Some(earlier) => format!("{earlier}, {value}"),
            None => value.into_owned(),
        };
        shown.insert(name.as_str().to_owned(), text.into());
    }
    Value::Object(shown)
}

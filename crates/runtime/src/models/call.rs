//! One call of a model: sent through the guard, its answer read as it arrives.

use std::time::Duration;

use bytes::Bytes;
use kernel::ids::EffectKey;
use kernel::run::NodeError;
use reqwest::Method;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};

use super::anthropic::{self, Blocks};
use super::ask::{Answer, Ask};
use super::failure;
use super::openai;
use super::providers::{Api, Provider, Structured};
use super::reading::Reading;
use super::sse::SseReader;
use crate::outbound::{Outbound, Redirects, Request, Response};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// Bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 16 << 10;
/// Bytes of an answer that is not streamed.
const MAX_BODY_BYTES: usize = 8 << 20;

/// Time limits of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the whole call.
    pub whole: Duration,
    /// Between two chunks of an answer.
    pub idle: Duration,
}

/// A call in progress.
pub(crate) struct Calling {
    api: Api,
    /// The provider's name.
    provider: String,
    response: Response,
    idle: Duration,
    is_stream: bool,
    has_shape: bool,
    reader: SseReader,
    blocks: Blocks,
    reading: Reading,
    /// Texts that were read but not returned yet.
    texts: std::collections::VecDeque<String>,
}

/// The body of a request.
pub(crate) fn body(provider: &Provider, ask: &Ask) -> String {
    match provider.api {
        Api::OpenAi => openai::body(ask, provider.structured),
        Api::Anthropic => anthropic::body(ask, provider.structured),
    }
    .to_string()
}

/// Sends a request with this body.
///
/// # Errors
/// The provider's error, or a failure to receive its answer.
pub(crate) async fn call(
    outbound: &Outbound,
    provider: &Provider,
    credential: Option<&str>,
    (ask, body): (&Ask, String),
    key: &EffectKey,
    patience: Patience,
) -> Result<Calling, NodeError> {
    let path = match provider.api {
        Api::OpenAi => openai::PATH,
        Api::Anthropic => anthropic::PATH,
    };
    let url = provider.base_url.join(path);
    let url = url.map_err(|_| failure::bad_answer("its address cannot be built"))?;
    let request = Request {
        method: Method::POST,
        url,
        headers: headers(provider.api, key.as_str())?,
        origin_headers: credentials(provider.api, credential)?,
        body: Bytes::from(body),
        timeout: patience.whole,
        redirects: Redirects::Return,
    };
    let sent = outbound.send(request).await;
    let mut response = sent.map_err(|error| failure::no_answer(&error, &provider.name))?;
    let status = response.status();
    if !status.is_success() {
        let of = (&*provider.name, patience.idle);
        let said = read(&mut response, MAX_ERROR_BYTES, of).await;
        let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
        return Err(failure::status(status, response.headers(), &said));
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    Ok(Calling {
        api: provider.api,
        provider: provider.name.clone(),
        // Some servers do not stream, even if requested.
        is_stream: kind.starts_with("text/event-stream"),
        has_shape: ask.shape.is_some() && provider.structured == Structured::Native,
        response,
        idle: patience.idle,
        reader: SseReader::default(),
        blocks: Blocks::default(),
        reading: Reading::default(),
        texts: Default::default(),
    })
}

impl Calling {
    /// The next text of the answer; `None` at its end. Cancel-safe: no text is lost.
    ///
    /// # Errors
    /// If the answer breaks off, is malformed or ends in an error.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, NodeError> {
        loop {
            if let Some(text) = self.texts.pop_front() {
                return Ok(Some(text));
            }
            if !self.is_stream {
                if self.reading.is_whole {
                    return Ok(None);
                }
                let of = (&*self.provider, self.idle);
                let body = read(&mut self.response, MAX_BODY_BYTES, of).await?;
                self.whole(&body)?;
                continue;
            }
            let of = (&*self.provider, self.idle);
            let Some(bytes) = piece(&mut self.response, of).await? else {
                return Ok(None);
            };
            let events = self.reader.take(&bytes);
            let events = events.map_err(|_| failure::bad_answer("an event does not end"))?;
            for event in events {
                let text = match self.api {
                    Api::OpenAi => openai::take(&mut self.reading, &event.data)?,
                    Api::Anthropic => anthropic::take(
                        &mut self.reading,
                        &mut self.blocks,
                        &event.data,
                        self.has_shape,
                    )?,
                };
                self.texts.extend(text);
            }
        }
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), NodeError> {
        let body = std::str::from_utf8(body).map_err(|_| failure::bad_answer("it is not text"))?;
        match self.api {
            Api::OpenAi => openai::whole(&mut self.reading, body)?,
            Api::Anthropic => anthropic::whole(&mut self.reading, body, self.has_shape)?,
        }
        let text = &self.reading.answer.text;
        if !text.is_empty() {
            self.texts.push_back(text.clone());
        }
        Ok(())
    }

    /// The complete answer, once [`Calling::next`] has returned `None`.
    ///
    /// # Errors
    /// If the answer broke off.
    pub(crate) fn answer(self) -> Result<Answer, NodeError> {
        self.reading.finish()
    }
}

/// A chunk of an answer, within a time limit.
async fn piece(
    response: &mut Response,
    (provider, idle): (&str, Duration),
) -> Result<Option<Bytes>, NodeError> {
    match tokio::time::timeout(idle, response.chunk()).await {
        Ok(piece) => piece.map_err(|error| failure::no_answer(&error, provider)),
        Err(_) => Err(failure::timed_out(
            "the model was silent for too long; raise idleTimeoutMs if it needs longer",
        )),
    }
}

/// Reads a body up to a limit.
async fn read(
    response: &mut Response,
    at_most: usize,
    of: (&str, Duration),
) -> Result<Vec<u8>, NodeError> {
    let mut body = Vec::new();
    while let Some(bytes) = piece(response, of).await? {
        body.extend_from_slice(&bytes);
        if body.len() > at_most {
            return Err(failure::bad_answer("it is too long"));
        }
    }
    Ok(body)
}

fn headers(api: Api, key: &str) -> Result<HeaderMap, NodeError> {
    let mut headers = HeaderMap::new();
    let agent = concat!("runwright/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = HeaderValue::from_static("text/event-stream, application/json");
    headers.insert(ACCEPT, accept);
    headers.insert(IDEMPOTENCY_KEY, value(key)?);
    if api == Api::Anthropic {
        headers.insert(VERSION, HeaderValue::from_static(anthropic::VERSION));
    }
    Ok(headers)
}

fn credentials(api: Api, credential: Option<&str>) -> Result<HeaderMap, NodeError> {
    let mut headers = HeaderMap::new();
    if let Some(credential) = credential {
        let (name, mut header) = match api {
            Api::OpenAi => (AUTHORIZATION, value(&format!("Bearer {credential}"))?),
            Api::Anthropic => (API_KEY, value(credential)?),
        };
        header.set_sensitive(true);
        headers.insert(name, header);
    }
    Ok(headers)
}

fn value(text: &str) -> Result<HeaderValue, NodeError> {
    HeaderValue::from_str(text).map_err(|_| {
        let text = "the credential has a line break or another control character in it";
        NodeError::new("credential_unusable", text).fatal()
    })
}

//! The Model Context Protocol over HTTP, through the outbound guard.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use url::Url;

use crate::models::sse::{SseEvent, SseReader};
use crate::outbound::{Outbound, OutboundError, Redirects, Request, Response};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The largest response that is not streamed, in bytes.
const MAX_BODY_BYTES: usize = 8 << 20;

/// A client for one server.
#[derive(Clone)]
pub(super) struct GuardedClient {
    pub outbound: Outbound,
    pub timeout: Duration,
}

type Failed = StreamableHttpError<OutboundError>;

impl GuardedClient {
    async fn send(
        &self,
        method: Method,
        uri: &str,
        body: Bytes,
        session: Option<&str>,
        credential: Option<String>,
        more: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failed> {
        let odd = |what: &'static str| Failed::UnexpectedServerResponse(Cow::Borrowed(what));
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| odd("an invalid header"));
        let mut headers = HeaderMap::from_iter(more);
        let agent = concat!("runwright/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, accept);
        if let Some(session) = session {
            headers.insert(SESSION, value(session)?);
        }
        let mut origin_headers = HeaderMap::new();
        if let Some(credential) = credential {
            let mut bearer = value(&format!("Bearer {credential}"))?;
            bearer.set_sensitive(true);
            origin_headers.insert(AUTHORIZATION, bearer);
        }
        let request = Request {
            method,
            url: Url::parse(uri).map_err(|_| odd("an invalid address"))?,
            headers,
            origin_headers,
            body,
            timeout: self.timeout,
            redirects: Redirects::Return,
        };
        let sent = self.outbound.send(request).await;
        sent.map_err(StreamableHttpError::Client)
    }
}

impl StreamableHttpClient for GuardedClient {
    type Error = OutboundError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        credential: Option<String>,
        more: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        let had_session = session.is_some();
        let mut response = self
            .send(
                Method::POST,
                &uri,
                body,
                session.as_deref(),
                credential,
                more,
            )
            .await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && had_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let text = |name: &HeaderName| {
            let value = response.headers().get(name);
            value.and_then(|value| Some(value.to_str().ok()?.to_owned()))
        };
        let (kind, session) = (text(&CONTENT_TYPE).unwrap_or_default(), text(&SESSION));
        if status.is_success() && kind.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(events(response), session));
        }
        let body = read(&mut response).await?;
        let parsed = serde_json::from_slice::<ServerJsonRpcMessage>(&body);
        match (status.is_success(), parsed) {
            (true, Ok(message)) => Ok(StreamableHttpPostResponse::Json(message, session)),
            (true, Err(_)) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            (true, Err(error)) => Err(error.into()),
            (false, Ok(message @ ServerJsonRpcMessage::Error(_))) => {
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            (false, _) => Err(HttpStatusError::new(status.as_u16(), None).into()),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        credential: Option<String>,
        more: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let none = Bytes::new();
        self.send(Method::DELETE, &uri, none, Some(&session), credential, more)
            .await
            .map(drop)
    }

    /// Unsolicited messages of a server are ignored.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session: Option<Arc<str>>,
        _last: Option<String>,
        _credential: Option<String>,
        _more: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

async fn read(response: &mut Response) -> Result<Vec<u8>, Failed> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(Failed::Client)? {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_BODY_BYTES {
            let max_size = MAX_BODY_BYTES;
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size });
        }
    }
    Ok(body)
}

/// The events of a response as they arrive.
fn events(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| Err(SseError::Body(error));
    let start = (response, SseReader::default());
    let batches = stream::try_unfold(start, move |(mut response, mut reader)| async move {
        let bytes = match response.chunk().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error) => return broken(error.into()),
        };
        match reader.take(&bytes) {
            Ok(events) => Ok(Some((events, (response, reader)))),
            Err(_) => broken("an event does not end".into()),
        }
    });
    let flat = batches.map(|batch: Result<Vec<SseEvent>, SseError>| {
        let events: Vec<Result<Sse, SseError>> = match batch {
            Ok(events) => events.into_iter().map(|event| Ok(sse(event))).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(events)
    });
    flat.flatten().boxed()
}

fn sse(event: SseEvent) -> Sse {
    let named = Sse::default().data(event.data);
    if event.name.is_empty() {
        named
    } else {
        named.event(event.name)
    }
}

//! Event streams whose frames come from a source. The subscriber sets the pace; a stream ends with
//! its source, with the credential or with the server.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use runtime::access::Action;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::app::App;
use crate::contract::Contract;
use crate::problem::{Problem, RETRY_AFTER};
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::Cx;

/// Frames of a source; empty if none is ready.
pub(crate) enum Frames {
    /// Others may follow.
    More(Vec<u8>),
    /// The last ones.
    Last(Vec<u8>),
}

/// The source of a stream.
pub(crate) trait Source: Send + 'static {
    /// The frames that are ready.
    fn read(&mut self) -> impl Future<Output = Frames> + Send;
    /// Waits until others may be ready.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

struct Subscription<S> {
    app: App,
    source: S,
    pass: CredentialRecheck,
    spoke: Instant,
    is_over: bool,
    _slot: OwnedSemaphorePermit,
}

impl<S: Source> Subscription<S> {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over {
            self.pass.check().await.ok()?;
            let out = match self.source.read().await {
                Frames::More(out) => out,
                Frames::Last(out) => {
                    self.is_over = true;
                    out
                }
            };
            if !out.is_empty() {
                self.spoke = Instant::now();
                return Some(out.into());
            }
            if self.is_over {
                return None;
            }
            let heartbeat = self.spoke + self.app.limits().heartbeat;
            let draining = self.app.draining().clone();
            tokio::select! {
                () = self.source.changed() => {}
                () = tokio::time::sleep_until(heartbeat) => {
                    self.spoke = Instant::now();
                    return Some(Bytes::from_static(b":keepalive\n\n"));
                }
                () = tokio::time::sleep_until(self.pass.due) => {}
                () = draining.cancelled() => self.is_over = true,
            }
        }
        None
    }
}

/// A place for a stream.
pub(crate) fn slot(app: &App, contract: Contract) -> Result<OwnedSemaphorePermit, Problem> {
    let slot = app.streams().clone().try_acquire_owned();
    slot.map_err(|_| too_many_streams(contract))
}

/// Answers with the frames of a source, while the caller may do `action`.
pub(crate) fn answer<S: Source>(
    cx: &Cx,
    contract: Contract,
    action: Action,
    source: S,
) -> Result<Reply, Problem> {
    let subscription = Subscription {
        app: cx.app.clone(),
        source,
        pass: CredentialRecheck::new(cx, action)?,
        spoke: Instant::now(),
        is_over: false,
        _slot: slot(&cx.app, contract)?,
    };
    let frames = stream::unfold(subscription, |mut subscription| async move {
        let bytes = subscription.next().await?;
        Some((Ok::<_, Infallible>(bytes), subscription))
    });
    Ok(reply(frames))
}

/// An event stream as an answer.
pub(crate) fn reply(
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Reply {
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    let text = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, text("text/event-stream"));
    headers.insert(CACHE_CONTROL, text("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), text("no"));
    Reply::Ready(response)
}

/// The refusal of a stream over the limit: version 2 counts it as a rate.
fn too_many_streams(contract: Contract) -> Problem {
    let message = "the server has the most open streams that it serves; try again, or poll";
    match contract {
        Contract::Two => Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
            .retry_after(RETRY_AFTER),
        Contract::One | Contract::Workbench => Problem::unavailable(message),
    }
}

//! The trace of a run as it is saved, as server-sent events (extension).
//!
//! An event's id is its place in the trace, from 1, so that a client can resume. If a save removed
//! events from the trace, `rebased` tells from which place they are repeated.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use hyper::Method;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use runtime::access::Action;
use runtime::api::{ApiError, DocumentTail};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::answer::described;
use super::query;
use crate::app::App;
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(
        Method::GET,
        "/api/runs/{runId}/events",
        Access::May(Action::ReadRun),
        follow,
        Doc {
            operation: "streamTrace",
            summary: "Events of a run's trace as they are saved, as server-sent events",
            parameters: &[
                ("query", "after", "the number of events already known"),
                ("header", "Last-Event-ID", "the id of the last event seen"),
            ],
            request: None,
            responses: &[(200, "stream"), (404, "ErrorBody")],
        },
    )]
}

/// A subscriber's place in a trace.
struct Subscription {
    app: App,
    tail: DocumentTail,
    pass: CredentialRecheck,
    spoke: Instant,
    is_over: bool,
    _slot: OwnedSemaphorePermit,
}

async fn follow(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let last = cx
        .headers
        .get("last-event-id")
        .and_then(|it| it.to_str().ok()?.parse().ok());
    let after = match last {
        Some(last) => last,
        None => cx
            .query()
            .number("after", 0..=u64::MAX)?
            .unwrap_or_default(),
    };
    let after = usize::try_from(after).unwrap_or(usize::MAX);
    let tail = cx.app.api().follow_document(&who, &id, after).await?;
    let Ok(slot) = cx.app.streams().clone().try_acquire_owned() else {
        return Err(Problem::unavailable(
            "the server has the most open streams that it serves",
        ));
    };
    let subscription = Subscription {
        app: cx.app.clone(),
        tail,
        pass: CredentialRecheck::new(&cx, Action::ReadRun)?,
        spoke: Instant::now(),
        is_over: false,
        _slot: slot,
    };
    let frames = stream::unfold(subscription, |mut subscription| async move {
        let bytes = subscription.next().await?;
        Some((Ok::<_, Infallible>(bytes), subscription))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    let text = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, text("text/event-stream"));
    headers.insert(CACHE_CONTROL, text("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), text("no"));
    Ok(described(Reply::Ready(response), None))
}

impl Subscription {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over {
            if self.pass.check().await.is_err() {
                return None;
            }
            let out = self.read().await;
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
                () = self.tail.changed() => {}
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

    async fn read(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.tail.news().await {
            Ok(Some(news)) => {
                if news.rebased {
                    let data = json!({ "from": news.first, "revision": news.revision });
                    write(&mut out, news.first, "rebased", &data);
                }
                for (place, event) in (news.first + 1..).zip(&news.events) {
                    write(&mut out, place, "trace", event);
                }
            }
            Ok(None) => {
                self.is_over = true;
                write(&mut out, 0, "deleted", &json!({}));
            }
            Err(ApiError::Store(error)) => {
                // The subscriber reconnects with the last id it saw.
                tracing::warn!(%error, "a stream ended early");
                self.is_over = true;
            }
            Err(_) => self.is_over = true,
        }
        out
    }
}

fn write(out: &mut Vec<u8>, id: usize, event: &str, data: &Value) {
    out.extend_from_slice(format!("id: {id}\nevent: {event}\ndata: ").as_bytes());
    // JSON has line breaks only within texts, where they are escaped.
    let _ = serde_json::to_writer(&mut *out, data);
    out.extend_from_slice(b"\n\n");
}

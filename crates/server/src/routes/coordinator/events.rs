//! The events of a queue: by pages that may be held, and as a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use faces::coordinator::EventJson;
use futures_util::stream;
use hyper::Method;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use kernel::coordinator::{Event, event_name};
use runtime::access::Action;
use runtime::api::{QueueEvents, QueueWatch};
use serde::Serialize;
use tokio::time::Instant;

use super::{MAX_WAIT_MS, queue};
use crate::app::App;
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The largest page of events, and the default.
const MAX_EVENTS: u64 = 1_000;
const EVENTS: u64 = 100;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/coordinator/{queue}/events",
            Access::May(Action::ReadQueue),
            events,
            Doc {
                operation: "queueEvents",
                summary: "Events of a queue after a cursor; waits for the next one, or streams",
                parameters: &[
                    ("query", "after", "the name of the last event seen, as e12"),
                    ("query", "limit", "events at most, 1 to 1000"),
                    ("query", "wait_ms", "milliseconds to wait, 0 to 25000"),
                    ("header", "Last-Event-ID", "for a stream: as after"),
                ],
                request: None,
                responses: &[(200, "QueueEventPage")],
            },
        )
        .held(),
    ]
}

async fn events(cx: Cx) -> Result<Reply, Problem> {
    let wants_stream = cx
        .headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"));
    let query = cx.query();
    let after = query.get("after").map(str::to_owned);
    if wants_stream {
        let last = cx.header("last-event-id")?.map(str::to_owned);
        return streamed(cx, last.or(after)).await;
    }
    let (who, queue, api) = (cx.who()?, queue(&cx), cx.app.api());
    let mut watch = api.watch_queue(&who, Action::ReadQueue, &queue)?;
    let limit = query.number("limit", 1..=MAX_EVENTS)?.unwrap_or(EVENTS);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let wait = query.number("wait_ms", 0..=MAX_WAIT_MS)?.unwrap_or(0);
    let until = Instant::now() + Duration::from_millis(wait);
    let mut pass = CredentialRecheck::new(&cx, Action::ReadQueue)?;
    let page = loop {
        pass.check().await?;
        let page = page(&cx.app, &who, &queue, after.as_deref(), limit).await?;
        let is_over = Instant::now() >= until || cx.app.draining().is_cancelled();
        if !page.events.is_empty() || is_over {
            break page;
        }
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep_until(until.min(pass.due)) => {}
            () = cx.app.draining().cancelled() => {}
        }
    };
    Ok(Reply::ok(&PageJson {
        events: page.events.iter().map(EventDoc::from).collect(),
        next: event_name(page.next),
        complete: page.is_complete,
    }))
}

async fn page(
    app: &App,
    who: &runtime::access::Principal,
    queue: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<QueueEvents, Problem> {
    use kernel::coordinator::Rejection;
    use runtime::api::ApiError;
    let page = app.api().queue_events(who, queue, after, limit).await;
    page.map_err(|error| match error {
        ApiError::Coordinator(Rejection::UnknownEvent) => Problem::new(
            hyper::StatusCode::BAD_REQUEST,
            "unknown_cursor",
            "after is not an event of this queue; omit it to start with the first",
        ),
        other => other.into(),
    })
}

/// A page of events. Each has its fields in the contract's order.
#[derive(Serialize)]
struct PageJson {
    events: Vec<EventDoc>,
    next: String,
    complete: bool,
}

#[derive(Serialize)]
struct EventDoc {
    id: String,
    at: String,
    event: EventJson,
}

impl From<&Event> for EventDoc {
    fn from(event: &Event) -> Self {
        Self {
            id: event_name(event.n),
            at: event.at.to_string(),
            event: EventJson::from(&event.body),
        }
    }
}

/// A subscriber's place in the events of a queue.
struct Subscription {
    cx: Cx,
    pass: CredentialRecheck,
    queue: String,
    watch: QueueWatch,
    after: Option<String>,
    ready: VecDeque<Bytes>,
    spoke: Instant,
    _slot: tokio::sync::OwnedSemaphorePermit,
}

async fn streamed(cx: Cx, after: Option<String>) -> Result<Reply, Problem> {
    let (who, queue) = (cx.who()?, queue(&cx));
    let watch = cx.app.api().watch_queue(&who, Action::ReadQueue, &queue)?;
    // An invalid cursor is rejected before the stream begins.
    page(&cx.app, &who, &queue, after.as_deref(), 1).await?;
    let Ok(slot) = cx.app.streams().clone().try_acquire_owned() else {
        return Err(Problem::unavailable(
            "the server has the most open streams that it serves; try again, or poll",
        ));
    };
    let subscription = Subscription {
        pass: CredentialRecheck::new(&cx, Action::ReadQueue)?,
        cx,
        queue,
        watch,
        after,
        ready: VecDeque::new(),
        spoke: Instant::now(),
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
    Ok(Reply::Ready(response))
}

impl Subscription {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                self.spoke = Instant::now();
                return Some(frame);
            }
            if self.cx.app.draining().is_cancelled() || self.pass.check().await.is_err() {
                return None;
            }
            let (who, limit) = (self.cx.who().ok()?, 64);
            let after = self.after.as_deref();
            let page = page(&self.cx.app, &who, &self.queue, after, limit).await;
            for event in &page.ok()?.events {
                self.after = Some(event_name(event.n));
                self.ready.push_back(frame(event));
            }
            if !self.ready.is_empty() {
                continue;
            }
            let heartbeat = self.spoke + self.cx.app.limits().heartbeat;
            let draining = self.cx.app.draining().clone();
            tokio::select! {
                () = self.watch.changed() => {}
                () = tokio::time::sleep_until(self.pass.due) => {}
                () = draining.cancelled() => {}
                () = tokio::time::sleep_until(heartbeat) => {
                    self.spoke = Instant::now();
                    return Some(Bytes::from_static(b":keepalive\n\n"));
                }
            }
        }
    }
}

fn frame(event: &Event) -> Bytes {
    let data = serde_json::to_value(EventJson::from(&event.body)).unwrap_or_default();
    let name = data["event"].as_str().unwrap_or_default().to_owned();
    // JSON has line breaks only within texts, where they are escaped.
    let data = serde_json::to_string(&EventJson::from(&event.body)).unwrap_or_default();
    format!(
        "id: {}\nevent: {name}\ndata: {data}\n\n",
        event_name(event.n)
    )
    .into()
}

//! The events of a queue: by pages that may be held, and as a stream.

use std::sync::Arc;
use std::time::Duration;

use faces::coordinator::EventJson;
use hyper::Method;
use hyper::header::ACCEPT;
use kernel::coordinator::{Event, event_name};
use runtime::access::{Action, Principal};
use runtime::api::{QueueEvents, QueueWatch};
use serde::Serialize;
use tokio::time::Instant;

use super::{MAX_WAIT_MS, queue};
use crate::app::App;
use crate::contract::Contract;
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::sse::paced::{self, Frames, Source};
use crate::sse::write;

/// The largest page of events, and the default.
const MAX_EVENTS: u64 = 1_000;
const EVENTS: u64 = 100;
/// Events of a stream read at a time.
const AT_A_TIME: usize = 64;

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
    who: &Principal,
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

/// The events of a queue as they come.
struct News {
    app: App,
    who: Arc<Principal>,
    queue: String,
    watch: QueueWatch,
    after: Option<String>,
}

async fn streamed(cx: Cx, after: Option<String>) -> Result<Reply, Problem> {
    let (who, queue) = (cx.who()?, queue(&cx));
    let watch = cx.app.api().watch_queue(&who, Action::ReadQueue, &queue)?;
    // An invalid cursor is rejected before the stream begins.
    page(&cx.app, &who, &queue, after.as_deref(), 1).await?;
    let news = News {
        app: cx.app.clone(),
        who,
        queue,
        watch,
        after,
    };
    paced::answer(&cx, Contract::One, Action::ReadQueue, news)
}

impl Source for News {
    async fn read(&mut self) -> Frames {
        let after = self.after.as_deref();
        let Ok(page) = page(&self.app, &self.who, &self.queue, after, AT_A_TIME).await else {
            return Frames::Last(Vec::new());
        };
        let mut out = Vec::new();
        for event in &page.events {
            let name = event_name(event.n);
            let data = serde_json::to_value(EventJson::from(&event.body)).unwrap_or_default();
            let kind = data["event"].as_str().unwrap_or_default();
            write(&mut out, &name, kind, &EventJson::from(&event.body));
            self.after = Some(name);
        }
        Frames::More(out)
    }

    async fn changed(&mut self) {
        self.watch.changed().await;
    }
}

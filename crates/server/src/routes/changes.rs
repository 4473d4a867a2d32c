//! Changes of the list of runs, as they happen.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use hyper::Method;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use runtime::access::Action;
use runtime::api::{ChangedRuns, RunChanges};
use serde_json::json;
use tokio::time::Instant;

use crate::app::App;
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/runs:changes",
            Access::May(Action::ReadRun),
            follow,
            Doc {
                operation: "followRuns",
                summary: "Ids of runs that change, as server-sent events (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "stream")],
            },
        )
        .closed()
        .held(),
    ]
}

/// A follower of the list.
struct Follower {
    app: App,
    pass: CredentialRecheck,
    changes: RunChanges,
    spoke: Instant,
    _slot: tokio::sync::OwnedSemaphorePermit,
}

async fn follow(cx: Cx) -> Result<Reply, Problem> {
    let changes = cx.app.api().follow_runs(&*cx.who()?).await?;
    let Ok(slot) = cx.app.streams().clone().try_acquire_owned() else {
        return Err(Problem::unavailable(
            "the server has the most open streams that it serves; try again, or poll",
        ));
    };
    let follower = Follower {
        pass: CredentialRecheck::new(&cx, Action::ReadRun)?,
        app: cx.app,
        changes,
        spoke: Instant::now(),
        _slot: slot,
    };
    // The first frame tells the client that later changes are not missed.
    let begun = stream::iter([Ok::<_, Infallible>(frame(
        "following",
        &ChangedRuns::default(),
    ))]);
    let frames = stream::unfold(follower, |mut follower| async move {
        let bytes = follower.next().await?;
        Some((Ok::<_, Infallible>(bytes), follower))
    });
    let frames = futures_util::StreamExt::chain(begun, frames);
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    let text = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, text("text/event-stream"));
    headers.insert(CACHE_CONTROL, text("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), text("no"));
    Ok(Reply::Ready(response))
}

impl Follower {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let draining = self.app.draining().clone();
            if draining.is_cancelled() || self.pass.check().await.is_err() {
                return None;
            }
            let heartbeat = self.spoke + self.app.limits().heartbeat;
            let changed = tokio::select! {
                changed = self.changes.next() => changed,
                () = tokio::time::sleep_until(self.pass.due) => continue,
                () = draining.cancelled() => return None,
                () = tokio::time::sleep_until(heartbeat) => {
                    self.spoke = Instant::now();
                    return Some(Bytes::from_static(b":keepalive\n\n"));
                }
            };
            let changed = match changed {
                Ok(changed) => changed,
                Err(error) => {
                    // The client reconnects and reads the list.
                    tracing::warn!(%error, "a stream of changed runs ended early");
                    return None;
                }
            };
            if changed.has_more || !changed.runs.is_empty() {
                self.spoke = Instant::now();
                return Some(frame("changed", &changed));
            }
        }
    }
}

fn frame(event: &str, changed: &ChangedRuns) -> Bytes {
    let data = json!({ "runIds": changed.runs, "more": changed.has_more });
    format!("event: {event}\ndata: {data}\n\n").into()
}

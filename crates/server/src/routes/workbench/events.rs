//! The trace of a run as it is saved, as server-sent events (extension).
//!
//! An event's id is its place in the trace, from 1, so that a client can resume. If a save removed
//! events from the trace, `rebased` tells from which place they are repeated.

use hyper::Method;
use runtime::access::Action;
use runtime::api::{ApiError, DocumentTail};
use serde_json::json;

use super::answer::described;
use super::query;
use crate::contract::Contract;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::sse::paced::{self, Frames, Source};
use crate::sse::write;

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

/// The events of a trace.
struct Trace(DocumentTail);

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
    let trace = paced::answer(&cx, Contract::Workbench, Action::ReadRun, Trace(tail))?;
    Ok(described(trace, None))
}

impl Source for Trace {
    async fn read(&mut self) -> Frames {
        let mut out = Vec::new();
        match self.0.news().await {
            Ok(Some(news)) => {
                if news.rebased {
                    let data = json!({ "from": news.first, "revision": news.revision });
                    write(&mut out, news.first, "rebased", &data);
                }
                for (place, event) in (news.first + 1..).zip(&news.events) {
                    write(&mut out, place, "trace", event);
                }
                return Frames::More(out);
            }
            Ok(None) => write(&mut out, 0, "deleted", &json!({})),
            // The subscriber reconnects with the last id it saw.
            Err(ApiError::Store(error)) => tracing::warn!(%error, "a stream ended early"),
            Err(_) => {}
        }
        Frames::Last(out)
    }

    async fn changed(&mut self) {
        self.0.changed().await;
    }
}

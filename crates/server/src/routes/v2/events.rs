//! Events of a run: by polling, and as a stream.

use std::time::Duration;

use faces::openwop::v2;
use runtime::access::Action;

use super::reads;
use crate::contract::Contract;
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::{ACCESS_TOKEN, Cx, Doc, Route};
use crate::routes::events::{held, page_in_v2, stream_in};
use crate::routes::runs::named;
use crate::routes::workbench::view;

/// The default time that a poll is held, in seconds. The protocol says 30, and the official client
/// gives up after 30: the answer has to be there before.
const HOLD: u64 = 29;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        reads(
            "/runs/{runId}/events/poll",
            Action::ReadRun,
            poll,
            Doc {
                operation: "pollRunEvents",
                summary: "Events after a sequence number; waits until there is one",
                parameters: &[
                    (
                        "query",
                        "afterSequence",
                        "the highest sequence number already received",
                    ),
                    ("query", "timeout", "seconds to wait, 1 to 60"),
                    ACCESS_TOKEN,
                ],
                request: None,
                responses: &[(200, "EventPage")],
            },
        )
        .closed()
        .held(),
        reads(
            "/runs/{runId}/events",
            Action::ReadRun,
            |cx| stream_in(cx, Contract::Two),
            Doc {
                operation: "streamRunEvents",
                summary: "Live events, as server-sent events",
                parameters: &[
                    (
                        "query",
                        "streamMode",
                        "updates, values, messages, debug, or some joined by commas",
                    ),
                    (
                        "query",
                        "bufferMs",
                        "collects frames for this many milliseconds, 0 to 5000",
                    ),
                    (
                        "query",
                        "resumable",
                        "true: the stream begins with the time after which the client reconnects",
                    ),
                    (
                        "header",
                        "Last-Event-ID",
                        "the id of the last received frame",
                    ),
                    ACCESS_TOKEN,
                ],
                request: None,
                responses: &[(200, "events")],
            },
        ),
    ]
}

async fn poll(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let query = cx.query();
    let after = query.seq("afterSequence");
    let hold = query.number("timeout", 1..=60);
    if view::is_document(&run) {
        let hold = Duration::from_secs(hold?.unwrap_or(HOLD));
        return view::poll(cx, run, after?, hold, Contract::Two).await;
    }
    // Access to the run is checked before the query.
    let seen = after.as_ref().copied().unwrap_or_default();
    let mut tail = cx.app.api().follow(&who, &run, seen).await?;
    after?;
    let hold = Duration::from_secs(hold?.unwrap_or(HOLD));
    let pass = CredentialRecheck::new(&cx, Action::ReadRun)?;
    let (events, page) = held(&cx.app, pass, (&mut tail, hold), v2::event).await?;
    Ok(Reply::ok(&page_in_v2(&tail, events, &page)))
}

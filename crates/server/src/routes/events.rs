//! Events of a run: by polling, and as a stream.

use faces::Mask;
use faces::openwop::v1::{self, StreamMode, StreamModes, UnsupportedModes};
use faces::openwop::v2;
use hyper::header::ACCEPT;
use hyper::{HeaderMap, Method, StatusCode};
use kernel::ids::Seq;
use kernel::run::Event;
use kernel::stream::StreamHeader;
use runtime::access::Action;
use runtime::api::{LogPage, Tail};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

use super::runs::named;
use crate::app::App;
use crate::contract::Contract;
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::{ACCESS_TOKEN, Access, Cx, Doc, Route};
use crate::routes::workbench::view;
use crate::sse::{self, Form, Subscription, paced};

/// The most events of a poll's response.
const POLL_EVENTS: usize = 1_000;
/// The most bytes of a poll's response, except for a single larger event.
const POLL_BYTES: usize = 4 << 20;
/// Events read at a time.
const PAGE: usize = 64;
/// The default time that a poll is held, in seconds. Below the protocol's 30, which is also the
/// clients' own timeout.
const HOLD: u64 = 25;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let reads = Access::May(Action::ReadRun);
    vec![
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/events/poll",
            reads,
            poll,
            Doc {
                operation: "pollEvents",
                summary: "Events after a sequence; waits for the next one",
                parameters: &[
                    (
                        "query",
                        "lastSequence",
                        "the highest sequence number already received",
                    ),
                    ("query", "since", "another name of lastSequence"),
                    (
                        "query",
                        "timeout",
                        "seconds to wait, 1 to 60; 0 answers at once",
                    ),
                    ACCESS_TOKEN,
                ],
                request: None,
                responses: &[(200, "EventPage")],
            },
        )
        .held(),
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/events",
            reads,
            stream,
            Doc {
                operation: "streamEvents",
                summary: "Live events, as server-sent events",
                parameters: &[
                    (
                        "query",
                        "streamMode",
                        "updates, values, messages, progress, debug, or some joined by commas",
                    ),
                    (
                        "query",
                        "bufferMs",
                        "collects frames for this many milliseconds, 0 to 5000",
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
    // Ownership is checked before the query.
    let api = cx.app.api();
    let after = query.seq("lastSequence").and_then(|seq| match seq {
        Some(seq) => Ok(Some(seq)),
        None => query.seq("since"),
    });
    let hold = query.number("timeout", 0..=60);
    if view::is_document(&run) {
        let hold = Duration::from_secs(hold?.unwrap_or(HOLD));
        return view::poll(cx, run, after?, hold, Contract::One).await;
    }
    let mut tail = api
        .follow(&who, &run, after.as_ref().copied().unwrap_or_default())
        .await?;
    let after = after?;
    let hold = Duration::from_secs(hold?.unwrap_or(HOLD));
    let pass = CredentialRecheck::new(&cx, Action::ReadRun)?;
    let (events, page) = held(&cx.app, pass, (&mut tail, hold), v1::event_caused_by).await?;
    let last = match page.next.min(page.end) {
        // The run has no events yet.
        0 => after.unwrap_or_default(),
        next => next - 1,
    };
    Ok(Reply::ok(&json!({
        "runId": run,
        "events": events,
        "isComplete": page.is_last(),
        "lastEventSeq": last,
        "runStatus": page.status,
        "isTerminal": page.settled,
    })))
}

/// How an event is shown.
pub(super) type Show = fn(&StreamHeader, Mask<'_>, &Event, Option<Seq>) -> Value;

/// Events past the tail's place, held until there is one, the run has ended or time is up.
pub(super) async fn held(
    app: &App,
    mut pass: CredentialRecheck,
    (tail, hold): (&mut Tail, Duration),
    show: Show,
) -> Result<(Vec<Value>, LogPage), Problem> {
    let until = Instant::now() + hold;
    loop {
        pass.check().await?;
        let (events, page) = gather(tail, show).await?;
        let is_over = Instant::now() >= until || app.draining().is_cancelled();
        if !events.is_empty() || page.settled || is_over {
            return Ok((events, page));
        }
        tokio::select! {
            () = tail.changed() => {}
            () = tokio::time::sleep_until(until.min(pass.due)) => {}
            () = app.draining().cancelled() => {}
        }
    }
}

/// The existing events, within the limits of one response.
async fn gather(tail: &mut Tail, show: Show) -> Result<(Vec<Value>, LogPage), Problem> {
    let mut docs = Vec::new();
    let mut bytes = 0;
    loop {
        let page = tail.page(PAGE).await?;
        for (event, cause) in &page.events {
            let doc = show(tail.header(), Mask::from_plan(tail.plan()), event, *cause);
            bytes += doc.to_string().len();
            docs.push(doc);
        }
        let is_full = docs.len() >= POLL_EVENTS || bytes >= POLL_BYTES;
        if is_full || page.next >= page.end || page.events.is_empty() {
            return Ok((docs, page));
        }
    }
}

async fn stream(cx: Cx) -> Result<Reply, Problem> {
    stream_in(cx, Contract::One).await
}

/// Events as they come, in the wire format of a contract.
pub(super) async fn stream_in(cx: Cx, contract: Contract) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let after = last_event_id(&cx.headers);
    if view::is_document(&run) {
        // Ownership is checked before the query.
        cx.app.api().document_view(&who, &run).await?;
        let modes = modes(cx.query().get("streamMode"), contract)?;
        return match wanted(&cx.headers) {
            Wanted::Json => view::poll(cx, run, after, Duration::ZERO, contract).await,
            Wanted::Stream => view::stream(cx, run, after, (modes, contract)).await,
            Wanted::Other => Err(no_such_form()),
        };
    }
    let tail = cx.app.api().follow(&who, &run, after).await?;
    let query = cx.query();
    let modes = modes(query.get("streamMode"), contract)?;
    let buffer = query.number("bufferMs", 0..=5_000)?;
    let buffer = buffer.filter(|ms| *ms > 0).map(Duration::from_millis);
    let resumable = match contract {
        Contract::Two => query.flag("resumable")?,
        _ => false,
    };
    match wanted(&cx.headers) {
        Wanted::Stream => {}
        Wanted::Json => return whole_log(tail, &modes, contract).await,
        Wanted::Other => return Err(no_such_form()),
    }
    let slot = paced::slot(&cx.app, contract)?;
    let pass = CredentialRecheck::new(&cx, Action::ReadRun)?;
    let form = Form {
        modes,
        buffer,
        contract,
        resumable,
    };
    let subscription = Subscription::new(cx.app.clone(), tail, form, (slot, pass)).await?;
    Ok(paced::reply(sse::frames(subscription)))
}

fn no_such_form() -> Problem {
    Problem::new(
        StatusCode::NOT_ACCEPTABLE,
        "not_acceptable",
        "events come as text/event-stream, or as application/json",
    )
}

/// The existing log, for a client that wants JSON instead of a stream.
async fn whole_log(
    mut tail: Tail,
    modes: &StreamModes,
    contract: Contract,
) -> Result<Reply, Problem> {
    let show: Show = match contract {
        Contract::Two => v2::event,
        Contract::One | Contract::Workbench => v1::event_caused_by,
    };
    let (mut events, mut bytes) = (Vec::new(), 0);
    loop {
        let page = tail.page(PAGE).await?;
        for (event, cause) in &page.events {
            if modes.admitting(&event.body).is_some() {
                let doc = show(tail.header(), Mask::from_plan(tail.plan()), event, *cause);
                bytes += doc.to_string().len();
                events.push(doc);
            }
        }
        if page.next >= page.end || page.events.is_empty() || bytes >= POLL_BYTES {
            if contract == Contract::Two {
                return Ok(Reply::ok(&page_in_v2(&tail, events, &page)));
            }
            return Ok(Reply::ok(&json!({
                "runId": tail.header().stream,
                "events": events,
                "isComplete": page.is_last(),
            })));
        }
    }
}

/// The position to resume from. Anything but a sequence is ignored.
fn last_event_id(headers: &HeaderMap) -> Option<Seq> {
    let text = headers.get("last-event-id")?.to_str().ok()?;
    text.trim().parse().ok()
}

/// Events and the state of their run, as v2 answers a poll.
pub(super) fn page_in_v2(tail: &Tail, events: Vec<Value>, page: &LogPage) -> Value {
    let header = tail.header();
    json!({
        "runId": v2::bind(&header.owner.tenant, &header.stream),
        "events": events,
        // -1 for a log without events. A page that was cut ends with its last event.
        "lastSequence": i128::from(page.next.min(page.end)) - 1,
        "status": page.status,
        // A client stops here: a page that was cut is followed by another.
        "isTerminal": page.is_last(),
    })
}

fn modes(text: Option<&str>, contract: Contract) -> Result<StreamModes, Problem> {
    let Some(text) = text else {
        return Ok(StreamModes::default());
    };
    let is_v2 = contract == Contract::Two;
    let parse = if is_v2 { v2::modes } else { StreamModes::parse };
    parse(text).map_err(|unsupported| {
        let message = match unsupported {
            UnsupportedModes::Unknown => "streamMode lists names of details.supported",
            UnsupportedModes::ValuesCombined => {
                "the stream mode values cannot be combined with another"
            }
        };
        let all = StreamMode::ALL.iter().map(|(name, _)| *name);
        let supported: Vec<&str> = all.filter(|name| !is_v2 || *name != "progress").collect();
        Problem::new(StatusCode::BAD_REQUEST, "unsupported_stream_mode", message)
            .with("supported", json!(supported))
    })
}

enum Wanted {
    Stream,
    Json,
    Other,
}

/// The format the client accepts: a stream if possible.
fn wanted(headers: &HeaderMap) -> Wanted {
    let given = headers.get_all(ACCEPT).iter();
    let types: Vec<String> = given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(|part| {
            part.split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase()
        })
        .collect();
    let takes = |names: &[&str]| types.iter().any(|given| names.contains(&given.as_str()));
    if types.is_empty() || takes(&["text/event-stream", "text/*", "*/*"]) {
        Wanted::Stream
    } else if takes(&["application/json", "application/*"]) {
        Wanted::Json
    } else {
        Wanted::Other
    }
}

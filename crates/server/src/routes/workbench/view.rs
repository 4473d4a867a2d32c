//! The run of a document, at the paths of runs. Read-only except for its gates: the browser
//! executes it.

use std::time::Duration;

use bytes::Bytes;
use faces::openwop::v1::{Diff, StreamModes};
use faces::openwop::v2;
use faces::workbench::{run_events, run_view};
use hyper::header::{CACHE_CONTROL, ETAG, LINK};
use hyper::{HeaderMap, StatusCode};
use kernel::document::{Document, DocumentRejection, GateDecision};
use kernel::ids::StreamId;
use runtime::access::{Action, Principal};
use runtime::api::{Api, ApiError, DocumentError, DocumentViewTail, ResourceKind};
use serde_json::json;
use tokio::time::Instant;

use super::super::snapshots;
use super::gates::MAX_NOTE;
use crate::contract::Contract;
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::Cx;
use crate::routes::runs::is_known;
use crate::sse::paced::{self, Frames, Source};
use crate::sse::write;

/// Whether an id is that of a document, or a client's id of one.
pub(crate) fn is_document(run: &StreamId) -> bool {
    let id = run.as_str();
    id.starts_with("doc-") || faces::workbench::document::is_run_id(id)
}

/// The state of the run.
pub(crate) async fn snapshot(cx: Cx, run: StreamId, contract: Contract) -> Result<Reply, Problem> {
    let document = cx.app.api().document_view(&*cx.who()?, &run).await?;
    // As for any run: it depends on the newest event's sequence only.
    let last = document.next_seq().saturating_sub(1);
    let tag = format!("\"{}-{last}\"", document.header().stream);
    if is_known(&cx.headers, &tag) {
        let reply = Reply::Whole {
            status: StatusCode::NOT_MODIFIED,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        return Ok(reply.with(ETAG, tag));
    }
    let snapshot = run_view::snapshot(&document);
    let mut snapshot = snapshot.ok_or(ApiError::NotFound(ResourceKind::Run))?;
    if contract == Contract::Two {
        snapshot = crate::routes::v2::snapshot(&document.header().owner, snapshot);
    }
    let reply = Reply::ok(&snapshot).with(ETAG, tag);
    let reply = reply.with(CACHE_CONTROL, "private, no-cache");
    Ok(
        match snapshots::link(&cx.app, &document.header().stream, contract) {
            Some(link) => reply.with(LINK, link),
            None => reply,
        },
    )
}

/// The open questions of the run.
pub(crate) async fn interrupts(cx: Cx, run: StreamId) -> Result<Reply, Problem> {
    let document = cx.app.api().document_view(&*cx.who()?, &run).await?;
    let status = run_view::snapshot(&document).map(|view| view["status"].clone());
    Ok(Reply::ok(&json!({
        "runId": document.header().stream, "status": status,
        "interrupts": run_view::open_interrupts(&document),
    })))
}

/// Answers the question of a step: decides its gate. Later saves of the browser keep the decision.
pub(crate) async fn answer(mut cx: Cx, run: StreamId) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let api = cx.app.api().clone();
    // Ownership is checked before the body.
    api.document_asking(&who, &run).await?;
    let step = cx.param("nodeId").to_owned();
    let mut body = cx.object().await?;
    let value = body.remove("resumeValue").filter(|_| body.is_empty());
    let value =
        value.ok_or_else(|| Problem::invalid("the body takes only `resumeValue`, the answer"))?;
    let decision = match value["action"].as_str() {
        Some("accept") => GateDecision::Approved,
        Some("reject") => GateDecision::Rejected,
        Some("edit-accept") => GateDecision::Edited,
        _ => {
            return Err(Problem::invalid(
                "the answer has an `action`: accept, reject or edit-accept",
            ));
        }
    };
    let note = value["comment"]
        .as_str()
        .filter(|note| note.len() <= MAX_NOTE);
    let answer = (step.as_str(), decision);
    let trace = cx.trace.id();
    let outcome = api
        .answer_document(&who, &run, answer, note.map(str::to_owned), Some(trace))
        .await
        .map_err(answered)?;
    let document = &outcome.held.document;
    let status = run_view::snapshot(document).map(|view| view["status"].clone());
    let doc = json!({ "runId": document.header().stream, "nodeId": step, "status": status });
    Ok(Reply::ok(&doc))
}

/// An error in OpenWOP's format.
fn answered(error: DocumentError) -> Problem {
    match error {
        DocumentError::Rejected(DocumentRejection::NotPending) => Problem::new(
            StatusCode::CONFLICT,
            "interrupt_already_resolved",
            "the gate has already been decided",
        ),
        other => other.into(),
    }
}

/// The differences between the run and that of another document.
pub(crate) async fn diff(
    api: &Api,
    who: &Principal,
    (a, b): (&Document, &StreamId),
    contract: Contract,
) -> Result<Reply, Problem> {
    if !is_document(b) {
        // The events of an engine's run cannot be compared with it.
        api.run(who, b).await?;
        return Err(ApiError::ReadOnly.into());
    }
    let b = api.document_view(who, b).await?;
    let mut diff = Diff::default();
    let (mut a_events, mut b_events) = (
        run_events::events(a, 0).into_iter(),
        run_events::events(&b, 0).into_iter(),
    );
    for seq in 0..a.next_seq().max(b.next_seq()) {
        if !diff.pair_shown(seq, a_events.next(), b_events.next()) {
            break;
        }
    }
    let have_ended = a.view().has_ended() && b.view().has_ended();
    let snapshots = (run_view::snapshot(a), run_view::snapshot(&b));
    let owners = [&a.header().owner, &b.header().owner];
    let (Some(a), Some(b)) = snapshots else {
        return Err(ApiError::NotFound(ResourceKind::Run).into());
    };
    let diff = diff.build_shown(&a, &b, have_ended);
    Ok(Reply::ok(&match contract {
        Contract::Two => v2::project_diff(owners, diff),
        Contract::One | Contract::Workbench => diff,
    }))
}

/// Events after a sequence, held until there is one.
pub(crate) async fn poll(
    cx: Cx,
    run: StreamId,
    after: Option<u64>,
    hold: Duration,
    contract: Contract,
) -> Result<Reply, Problem> {
    let (app, who) = (cx.app.clone(), cx.who()?);
    let mut pass = CredentialRecheck::new(&cx, Action::ReadRun)?;
    drop(cx);
    let mut tail = app.api().follow_document_view(&who, &run).await?;
    let until = Instant::now() + hold;
    let from = after.map_or(0, |after| after.saturating_add(1));
    loop {
        pass.check().await?;
        let document = tail.look().await?;
        let (end, ended) = (document.next_seq(), document.view().has_ended());
        let is_over = Instant::now() >= until || app.draining().is_cancelled();
        if end > from || ended || is_over {
            let events = run_events::events(&document, from);
            let status = run_view::snapshot(&document).map(|view| view["status"].clone());
            let header = document.header();
            return Ok(Reply::ok(&match contract {
                Contract::One | Contract::Workbench => json!({
                    "runId": header.stream,
                    "events": events,
                    "isComplete": ended,
                    "lastEventSeq": end.saturating_sub(1).max(after.unwrap_or_default()),
                    "runStatus": status,
                    "isTerminal": ended,
                }),
                Contract::Two => {
                    let shown = events.into_iter();
                    let shown = shown.map(|event| v2::project_event(&header.owner, event));
                    json!({
                        "runId": v2::bind(&header.owner.tenant, &header.stream),
                        "events": shown.collect::<Vec<_>>(),
                        "lastSequence": i128::from(end) - 1,
                        "status": status,
                        "isTerminal": ended,
                    })
                }
            }));
        }
        tokio::select! {
            () = tail.changed() => {}
            () = tokio::time::sleep_until(until.min(pass.due)) => {}
            () = app.draining().cancelled() => {}
        }
    }
}

/// The events of a document.
struct Events {
    tail: DocumentViewTail,
    modes: StreamModes,
    contract: Contract,
    next: u64,
}

/// Events as they arrive. The stream ends with the run; later saves of the document are only in the
/// document's own stream, that of the trace.
pub(crate) async fn stream(
    cx: Cx,
    run: StreamId,
    after: Option<u64>,
    (modes, contract): (StreamModes, Contract),
) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let tail = cx.app.api().follow_document_view(&who, &run).await?;
    let events = Events {
        tail,
        modes,
        contract,
        next: after.map_or(0, |after| after.saturating_add(1)),
    };
    paced::answer(&cx, contract, Action::ReadRun, events)
}

impl Source for Events {
    async fn read(&mut self) -> Frames {
        // The deletion of a run ends its stream.
        let Ok(document) = self.tail.look().await else {
            return Frames::Last(Vec::new());
        };
        let mut frames = run_events::frames(&document, self.next, &self.modes);
        if self.contract == Contract::Two {
            let owner = &document.header().owner;
            let project = |frame| v2::project_frame(owner, frame);
            frames = frames.into_iter().map(project).collect();
        }
        self.next = self.next.max(document.next_seq());
        let mut out = Vec::new();
        for frame in &frames {
            write(&mut out, frame.id, frame.event, &frame.data);
        }
        if document.view().has_ended() {
            Frames::Last(out)
        } else {
            Frames::More(out)
        }
    }

    async fn changed(&mut self) {
        self.tail.changed().await;
    }
}

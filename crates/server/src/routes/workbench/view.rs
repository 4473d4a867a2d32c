//! The run a document tells of, at the addresses of runs. Read only: the browser is the executor.

use std::time::Duration;

use faces::workbench::run_view;
use hyper::StatusCode;
use hyper::header::CACHE_CONTROL;
use kernel::ids::StreamId;
use runtime::api::{ApiError, Thing};
use serde_json::json;
use tokio::time::Instant;

use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::Cx;

/// How often a held poll looks again.
const LOOK: Duration = Duration::from_millis(500);

/// Whether an id is that of a document, or one that a client chose for one.
pub(crate) fn is_document(run: &StreamId) -> bool {
    let id = run.as_str();
    id.starts_with("doc-") || faces::workbench::document::is_run_id(id)
}

/// How the run stands.
pub(crate) async fn snapshot(cx: Cx, run: StreamId) -> Result<Reply, Problem> {
    let (app, who) = (cx.app.clone(), cx.who()?);
    drop(cx);
    let document = app.api().document_view(&who, &run).await?;
    let snapshot = run_view::snapshot(&document);
    let snapshot = snapshot.ok_or(ApiError::NotFound(Thing::Run))?;
    Ok(Reply::ok(&snapshot).with(CACHE_CONTROL, "no-cache"))
}

/// Events behind a sequence, held until there is one.
pub(crate) async fn poll(
    cx: Cx,
    run: StreamId,
    after: Option<u64>,
    hold: Duration,
) -> Result<Reply, Problem> {
    let (app, who) = (cx.app.clone(), cx.who()?);
    drop(cx);
    let until = Instant::now() + hold;
    let from = after.map_or(0, |after| after.saturating_add(1));
    loop {
        let document = app.api().document_view(&who, &run).await?;
        let (end, ended) = (document.next_seq(), document.view().has_ended());
        let is_over = Instant::now() >= until || app.draining().is_cancelled();
        if end > from || ended || is_over {
            let events = run_view::events(&document, from);
            let status = run_view::snapshot(&document).map(|view| view["status"].clone());
            return Ok(Reply::ok(&json!({
                "runId": document.header().stream,
                "events": events,
                "isComplete": ended,
                "lastEventSeq": end.saturating_sub(1).max(after.unwrap_or_default()),
                "runStatus": status,
                "isTerminal": ended,
            })));
        }
        tokio::select! {
            () = tokio::time::sleep_until(until.min(Instant::now() + LOOK)) => {}
            () = app.draining().cancelled() => {}
        }
    }
}

/// What is answered where only a stream would do.
pub(crate) async fn no_stream(cx: Cx, run: StreamId) -> Result<Reply, Problem> {
    let (app, who) = (cx.app.clone(), cx.who()?);
    drop(cx);
    app.api().document_view(&who, &run).await?;
    Err(Problem::new(
        StatusCode::NOT_ACCEPTABLE,
        "not_acceptable",
        "events of a document's run come as application/json, or by polling; its trace is \
         streamed by GET /api/runs/{runId}/events",
    ))
}

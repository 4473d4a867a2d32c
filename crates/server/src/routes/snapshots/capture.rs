//! Capturing snapshots of runs.

use faces::Mask;
use faces::provenance::capture::{Captured, RunCapture};
use faces::provenance::document_capture::of_document;
use hyper::{Method, StatusCode};
use kernel::ids::StreamId;
use provenance::Redaction;
use runtime::access::{Action, Principal};
use runtime::api::{ApiError, ResourceKind};
use serde_json::Value;

use super::{address, failed, folder, linked, with_files};
use crate::app::App;
use crate::params::run_id;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::routes::workbench::view::is_document;

/// Events read at a time.
const PAGE: usize = 256;
/// Characters of a name.
const MAX_NAME: usize = 256;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/snapshots",
            Access::May(Action::AnnotateRun),
            create,
            Doc {
                operation: "captureSnapshot",
                summary: "Captures a run in its present state (extension); the same log gives the same snapshot",
                parameters: &[],
                request: Some("SnapshotCreate"),
                responses: &[(201, "ExecutionSnapshot"), (200, "ExecutionSnapshot")],
            },
        )
        .keyed(),
    ]
}

async fn create(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let folder = folder(&cx, &who)?;
    let mut body = cx.object().await?;
    let run = body.remove("runId");
    let name = match body.remove("name") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) if name.chars().count() <= MAX_NAME => Some(name),
        Some(_) => {
            return Err(Problem::invalid(
                "`name` must be a text of 256 characters at most",
            ));
        }
    };
    if !body.is_empty() {
        return Err(Problem::invalid("the body takes `runId` and `name` only"));
    }
    let run = run.as_ref().and_then(Value::as_str).and_then(run_id);
    let run = run.ok_or_else(|| Problem::invalid("`runId` is required: the id of a run"))?;
    let redaction = Redaction::of_environment(std::env::vars());
    let app = cx.app.clone();
    let captured = if is_document(&run) {
        of_browser(&app, &who, &run, &redaction).await?
    } else {
        of_run(&app, &who, &run, &redaction).await?
    };
    let written = with_files(move || {
        let writer = folder.writer().map_err(failed)?;
        writer.write_run(captured, name, &redaction).map_err(failed)
    });
    let written = written.await?;
    let status = if written.is_new() {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let kept = written.kept();
    let reply = Reply::json(status, &kept.document.raw);
    Ok(linked(
        reply.with(hyper::header::LOCATION, address(kept)),
        kept,
    ))
}

/// The capture of a run's current state.
async fn of_run(
    app: &App,
    who: &Principal,
    run: &StreamId,
    redaction: &Redaction,
) -> Result<Captured, Problem> {
    let api = app.api();
    api.may_annotate(who, run).await?;
    let mut log = api.follow(who, run, None).await?;
    let run = api.run(who, run).await?;
    let mut capture = RunCapture::default();
    'log: loop {
        let page = log.page(PAGE).await?;
        for (event, _) in &page.events {
            if event.seq >= run.head.next_seq {
                break 'log;
            }
            let mask = Mask::from_plan(&run.plan);
            capture.take(mask, event, &mut |value| redaction.value(value));
        }
        if page.events.is_empty() {
            break;
        }
    }
    capture.build(&run).ok_or_else(Problem::internal)
}

/// The capture of a run that a browser recorded, at its last save.
async fn of_browser(
    app: &App,
    who: &Principal,
    run: &StreamId,
    redaction: &Redaction,
) -> Result<Captured, Problem> {
    let api = app.api();
    api.may_annotate_document(who, run).await?;
    let document = api.document_view(who, run).await?;
    let (Some(save), Some(body)) = (document.saves().last(), document.head()) else {
        return Err(ApiError::NotFound(ResourceKind::Run).into());
    };
    let mut redact = |value: &mut Value| redaction.value(value);
    Ok(of_document(document.header(), save, body, &mut redact))
}

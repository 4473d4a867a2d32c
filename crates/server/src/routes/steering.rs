//! Pausing, resuming, signalling and erasing runs, and cancelling several at a time.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use hyper::{Method, StatusCode};
use kernel::run::Rejection;
use kernel::run::event::DrainPolicy;
use runtime::access::{Action, Principal};
use runtime::api::{Api, ApiError, CancelledOne, Expired, ResourceKind};
use serde_json::{Map, Value, json};

use super::runs::{bounded, named};
use crate::params::run_id;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::trace::Trace;

/// Runs of one bulk cancellation.
const MAX_RUN_IDS: usize = 100;
/// Characters of the reason of a bulk cancellation.
pub(super) const MAX_BULK_REASON: usize = 512;
/// Characters of any other reason.
pub(super) const MAX_REASON: usize = 4_096;
/// Runs of a bulk cancellation that are cancelled concurrently.
const AT_A_TIME: usize = 16;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/runs/{runId}:pause",
            Access::May(Action::ControlRun),
            pause,
            Doc {
                operation: "pauseRun",
                summary: "Pauses a run, at once or after its running nodes",
                parameters: &[],
                request: Some("PauseOrder"),
                responses: &[(202, "PausedRun")],
            },
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/runs/{runId}:resume",
            Access::May(Action::ControlRun),
            resume,
            Doc {
                operation: "resumeRun",
                summary: "Resumes a paused run",
                parameters: &[],
                request: Some("ResumeOrder"),
                responses: &[(202, "ResumedRun")],
            },
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/runs/{runId}:signal",
            Access::May(Action::ControlRun),
            signal,
            Doc {
                operation: "signalRun",
                summary: "Sends a signal to the node that waits for this external event (extension)",
                parameters: &[],
                request: Some("SignalOrder"),
                responses: &[(202, "RunStatus")],
            },
        )
        .keyed(),
        Route::new(
            Method::DELETE,
            "/v1/runs/{runId}",
            Access::May(Action::CancelRun),
            purge,
            Doc {
                operation: "purgeRun",
                summary: "Erases a run that has ended, and those it started, for good (extension)",
                parameters: &[("query", "reason", "why; kept in the tombstone")],
                request: None,
                responses: &[(200, "Purged")],
            },
        )
        .keyed()
        .closed(),
        Route::new(
            Method::POST,
            "/v1/runs:bulk-cancel",
            Access::May(Action::CancelRun),
            bulk_cancel,
            Doc {
                operation: "bulkCancelRuns",
                summary: "Cancels up to 100 runs, each separately",
                parameters: &[],
                request: Some("BulkCancelOrder"),
                responses: &[(200, "BulkCancelled")],
            },
        )
        .keyed(),
    ]
}

pub(super) async fn pause(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    // Ownership is checked before the request.
    cx.app.api().may_control(&who, &run).await?;
    let mut body = cx.object_or_nothing().await?;
    let policy = match body.remove("drainPolicy").as_ref() {
        None | Some(Value::Null) => DrainPolicy::DrainCurrentNode,
        Some(word) => match word.as_str() {
            Some("immediate") => DrainPolicy::Immediate,
            Some("drain-current-node") => DrainPolicy::DrainCurrentNode,
            _ => {
                let message = "drainPolicy is immediate or drain-current-node";
                return Err(Problem::invalid(message));
            }
        },
    };
    let reason = reason(&mut body, MAX_REASON)?;
    let since = match cx.app.api().pause_run(&who, &run, reason, policy).await {
        // Already done; the earlier response was lost.
        Err(ApiError::NotNow(why))
            if cx.is_repeated() && why.rejection == Rejection::AlreadyPaused =>
        {
            why.paused_at
        }
        since => since?,
    };
    // The protocol has no status for a run that is about to pause: `pausedAt` is set once it has.
    let mut doc = json!({ "runId": run, "status": "paused" });
    if let Some(since) = since {
        doc["pausedAt"] = json!(since.to_string());
    }
    Ok(Reply::json(StatusCode::ACCEPTED, &doc))
}

pub(super) async fn resume(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    cx.app.api().may_control(&who, &run).await?;
    let reason = reason(&mut cx.object_or_nothing().await?, MAX_REASON)?;
    let at = match cx.app.api().resume_run(&who, &run, reason).await {
        Err(ApiError::NotNow(why)) if cx.is_repeated() && why.rejection == Rejection::NotPaused => {
            cx.app.api().engine().door().store().now()
        }
        at => at?,
    };
    let doc = json!({ "runId": run, "status": "running", "resumedAt": at.to_string() });
    Ok(Reply::json(StatusCode::ACCEPTED, &doc))
}

async fn signal(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    cx.app.api().may_control(&who, &run).await?;
    let mut body = cx.object().await?;
    let mut text = |name: &str| match body.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if (1..=256).contains(&text.chars().count()) => Ok(Some(text)),
        Some(_) => Err(Problem::invalid(format!(
            "{name} must be a text of 1 to 256 characters"
        ))),
    };
    let name = text("name")?;
    let name = name.ok_or_else(|| Problem::invalid("name is required: the name of the signal"))?;
    // A repeated request without an id is the same signal.
    let id = text("id")?.unwrap_or_else(|| match &cx.effect {
        Some(effect) => effect.name().to_owned(),
        None => cx.trace.id().to_owned(),
    });
    let payload = body.remove("payload").unwrap_or(Value::Null);
    if let Some(name) = body.keys().next() {
        let name = kernel::problem::quoted(name);
        let message = format!("unknown field {name}; a signal has name, id and payload");
        return Err(Problem::invalid(message));
    }
    let api = cx.app.api();
    let status = api.signal_run(&who, &run, (name, id), payload).await?;
    let doc = json!({ "runId": run, "status": status });
    Ok(Reply::json(StatusCode::ACCEPTED, &doc))
}

async fn purge(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let reason = bounded(&cx.query(), "reason")?;
    let reason = reason.as_deref().unwrap_or("removed by hand");
    let reason = (reason, Some(cx.trace.id()));
    let purged = match cx.app.api().purge_run(&who, &run, reason).await {
        // Already done; the earlier response was lost.
        Err(ApiError::Erased { .. }) if cx.is_repeated() => Expired::Erased,
        purged => purged?,
    };
    match purged {
        Expired::Erased => Ok(Reply::ok(&json!({ "runId": run, "purged": true }))),
        Expired::Active => Err(Problem::new(
            StatusCode::CONFLICT,
            "run_active",
            "the run, its parent, or one that it started has not ended; cancel it first",
        )),
    }
}

/// The reason in a request.
pub(super) fn reason(body: &mut Map<String, Value>, max: usize) -> Result<Option<String>, Problem> {
    match body.remove("reason") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(reason)) if reason.chars().count() <= max => Ok(Some(reason)),
        Some(_) => Err(Problem::invalid(format!(
            "reason must be a text of at most {max} characters"
        ))),
    }
}

async fn bulk_cancel(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let mut body = cx.object().await?;
    let ids = run_ids(body.remove("runIds"))?;
    let reason = reason(&mut body, MAX_BULK_REASON)?;
    let api = cx.app.api();
    let trace = &cx.trace;
    let one = |id| cancel_one(api.clone(), who.clone(), id, reason.clone(), trace.clone());
    let results = stream::iter(ids).map(one);
    let results: Vec<Value> = results.buffered(AT_A_TIME).collect().await;
    Ok(Reply::ok(&json!({ "results": results })))
}

pub(super) fn run_ids(given: Option<Value>) -> Result<Vec<String>, Problem> {
    let wrong = || {
        Problem::invalid("runIds must be a list of 1 to 100 run ids").with("maxRunIds", MAX_RUN_IDS)
    };
    let ids = given.and_then(|ids| serde_json::from_value::<Vec<String>>(ids).ok());
    ids.filter(|ids| (1..=MAX_RUN_IDS).contains(&ids.len()))
        .ok_or_else(wrong)
}

async fn cancel_one(
    api: Api,
    who: Arc<Principal>,
    id: String,
    reason: Option<String>,
    trace: Trace,
) -> Value {
    let result = match run_id(&id) {
        Some(run) => api.cancel_one(&who, &run, reason, Some(trace.id())).await,
        None => Err(ApiError::NotFound(ResourceKind::Run)),
    };
    let refused = |code: &str, message: &str| {
        json!({
            "runId": id, "ok": false,
            "error": { "code": code, "error": code, "message": message },
        })
    };
    match result {
        Ok(CancelledOne::Done(status)) => json!({ "runId": id, "ok": true, "status": status }),
        Ok(CancelledOne::Ended(status)) => {
            let message = format!("the run has already {status}");
            let mut doc = refused("run_terminal", &message);
            doc["status"] = json!(status);
            doc
        }
        Err(ApiError::NotFound(_) | ApiError::Erased { .. }) => {
            refused("not_found", "unknown run id")
        }
        Err(error) => {
            let problem = Problem::from(error);
            refused(problem.code, &problem.message)
        }
    }
}

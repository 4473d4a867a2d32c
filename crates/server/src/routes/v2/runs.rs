//! Reading, listing, cancelling, pausing and resuming runs.

use faces::openwop::v2;
use faces::workbench::run_view;
use futures_util::{StreamExt, stream};
use runtime::access::{Action, Principal};
use runtime::api::{Api, ApiError, ResourceKind, RunPage};
use serde_json::{Value, json};
use store::StoreError;

use super::{bound, changes, check_fields, checked, closed, doc, own, own_of_query, reads};
use crate::contract::Contract;
use crate::params::run_id;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{ACCESS_TOKEN, Cx, Doc, Route};
use crate::routes::runs::{get_in, named, page, write_cursor};
use crate::routes::steering::{self, MAX_BULK_REASON, MAX_REASON, reason, run_ids};
use crate::routes::workbench::view;

/// Runs of a page at most.
pub(crate) const MAX_PAGE: u64 = 100;
/// The filters of a list of runs.
pub(crate) const FILTERS: [&str; 4] = ["workflowId", "status", "tag", "parentRunId"];
/// Runs read or cancelled at a time.
const AT_A_TIME: usize = 16;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        reads(
            "/runs",
            Action::ReadRun,
            list,
            Doc {
                operation: "listRuns",
                summary: "Runs, newest first",
                parameters: &[
                    ("query", "workflowId", "only runs of this workflow"),
                    (
                        "query",
                        "status",
                        "only this status; may be given several times",
                    ),
                    ("query", "tag", "only runs with this tag"),
                    ("query", "parentRunId", "only children of this run"),
                    ("query", "limit", "runs of a page, 1 to 100"),
                    ("query", "cursor", "nextCursor of the previous page"),
                ],
                request: None,
                responses: &[(200, "RunList")],
            },
        ),
        reads(
            "/runs/{runId}",
            Action::ReadRun,
            |cx| get_in(cx, Contract::Two),
            Doc {
                operation: "getRun",
                summary: "The snapshot of a run",
                parameters: &[
                    (
                        "header",
                        "If-None-Match",
                        "the ETag of the client's snapshot",
                    ),
                    ACCESS_TOKEN,
                ],
                request: None,
                responses: &[(200, "RunSnapshot"), (304, "")],
            },
        ),
        changes(
            "/runs/{runId}/cancel",
            Action::CancelRun,
            cancel,
            doc(
                "cancelRun",
                "Cancels a run",
                Some("CancelOrder"),
                &[(200, "RunStatus")],
            ),
        ),
        changes(
            "/runs/{runId}:pause",
            Action::ControlRun,
            pause,
            doc(
                "pauseRun",
                "Pauses a run, at once or after its running nodes",
                Some("PauseOrder"),
                &[(202, "PausedRun")],
            ),
        ),
        changes(
            "/runs/{runId}:resume",
            Action::ControlRun,
            resume,
            doc(
                "resumeRun",
                "Resumes a paused run",
                Some("ResumeOrder"),
                &[(202, "ResumedRun")],
            ),
        ),
        changes(
            "/runs:bulk-cancel",
            Action::CancelRun,
            bulk_cancel,
            doc(
                "bulkCancelRuns",
                "Cancels up to 100 runs, each separately",
                Some("BulkCancelOrder"),
                &[(200, "BulkCancelled")],
            ),
        ),
    ]
}

async fn list(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    if let Some(parent) = cx.query().get("parentRunId") {
        let parent = own_of_query(&who, "parentRunId", parent)?;
        cx.set_query("parentRunId", &parent);
    }
    let RunPage { runs, next, .. } = page(cx.app.api(), cx.query(), &who, MAX_PAGE).await?;
    let api = cx.app.api();
    let read = |listed: store::Listed| snapshot(api, &who, listed);
    let read = stream::iter(runs).map(read).buffered(AT_A_TIME);
    let read: Vec<Result<Option<Value>, Problem>> = read.collect().await;
    let runs: Result<Vec<Option<Value>>, Problem> = read.into_iter().collect();
    let runs: Vec<Value> = runs?.into_iter().flatten().collect();
    let mut page = json!({ "runs": runs });
    if let Some(next) = next {
        page["nextCursor"] = json!(write_cursor(&next));
    }
    Ok(Reply::ok(&page))
}

/// A listed run; `None` for one that was erased meanwhile.
async fn snapshot(
    api: &Api,
    who: &Principal,
    listed: store::Listed,
) -> Result<Option<Value>, Problem> {
    let shown = if view::is_document(&listed.stream) {
        let read = api.document_view(who, &listed.stream).await;
        read.map(|document| {
            let shown = run_view::snapshot(&document)?;
            Some(v2::project_snapshot(&document.header().owner, shown))
        })
    } else {
        let read = api.run(who, &listed.stream).await;
        read.map(|run| Some(v2::snapshot(&run)))
    };
    match shown {
        Ok(shown) => Ok(shown),
        Err(ApiError::NotFound(_) | ApiError::Erased { .. }) => Ok(None),
        // The other runs of the page can be read.
        Err(ApiError::Store(StoreError::Corrupt(_))) => {
            let run = v2::unreadable(&listed.stream, &listed.tenant, &listed.index);
            Ok(Some(run))
        }
        Err(error) => Err(error.into()),
    }
}

async fn cancel(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    // Access to the run is checked before the body.
    cx.app.api().may_cancel(&who, &run).await?;
    let mut body = cx.object_or_nothing().await?;
    check_fields(&body, &["reason"])?;
    let reason = reason(&mut body, MAX_REASON)?;
    let trace = Some(cx.trace.id());
    let api = cx.app.api();
    let status = if cx.is_repeated() {
        // It was perhaps this request that cancelled it.
        api.cancel_run(&who, &run, reason, trace).await?
    } else {
        api.cancel_active(&who, &run, reason, trace).await?
    };
    let doc = json!({ "runId": run, "status": status });
    Ok(Reply::ok(&bound(&who, doc, &["runId"])))
}

async fn pause(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    cx.app.api().may_control(&who, &run).await?;
    checked(&mut cx, &["reason", "drainPolicy"]).await?;
    let reply = steering::pause(cx).await?;
    Ok(reply.map(|doc| bound(&who, doc, &["runId"])))
}

async fn resume(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    cx.app.api().may_control(&who, &run).await?;
    checked(&mut cx, &["reason"]).await?;
    let reply = steering::resume(cx).await?;
    Ok(reply.map(|doc| bound(&who, doc, &["runId"])))
}

async fn bulk_cancel(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let mut body = cx.object().await?;
    check_fields(&body, &["runIds", "reason"])?;
    let ids = run_ids(body.remove("runIds"))?;
    let reason = reason(&mut body, MAX_BULK_REASON)?;
    let (api, trace) = (cx.app.api(), cx.trace.id());
    let one = |id: String| cancel_one(api, &who, id, reason.clone(), trace);
    let results = stream::iter(ids).map(one).buffered(AT_A_TIME);
    let results: Vec<Value> = results.collect().await;
    Ok(Reply::ok(&json!({ "results": results })))
}

async fn cancel_one(
    api: &Api,
    who: &Principal,
    id: String,
    reason: Option<String>,
    trace: &str,
) -> Value {
    let result = async {
        let run = run_id(own(who, &id)?).ok_or(ApiError::NotFound(ResourceKind::Run))?;
        let status = api.cancel_active(who, &run, reason, Some(trace)).await?;
        Ok::<_, Problem>(status)
    };
    let result = result.await;
    let id = if id.contains('/') {
        id
    } else {
        v2::bind(&who.tenant, &id)
    };
    match result {
        Ok(status) => json!({ "runId": id, "ok": true, "status": status }),
        Err(problem) => {
            let envelope = problem.in_v2(Some(who.tenant.as_str())).envelope();
            let error = closed(envelope, &["error", "message", "details"]);
            json!({ "runId": id, "ok": false, "error": error })
        }
    }
}

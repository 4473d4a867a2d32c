//! Forks of runs, and runs next to each other.

use hyper::Method;
use runtime::access::Action;
use serde_json::{Value, json};

use super::{address, bound, check_fields, closed, doc, own_of_query, reads, settings};
use crate::contract::Contract;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::routes::forks as v1;
use crate::routes::runs::named;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/runs/{runId}:fork",
            Access::May(Action::CreateRun),
            fork,
            Doc {
                operation: "forkRun",
                summary: "Forks a run at an event, as a replay or as a branch. Also needs runs:read",
                parameters: &[(
                    "header",
                    "Idempotency-Key",
                    "22 to 128 characters; the same key and body make one fork",
                )],
                request: Some("ForkOrder"),
                responses: &[(201, "ForkedRun")],
            },
        ),
        reads(
            "/runs/{runId}:diff",
            Action::ReadRun,
            diff,
            Doc {
                operation: "diffRuns",
                summary: "Compares two runs",
                parameters: &[("query", "against", "the other run")],
                request: None,
                responses: &[(200, "RunDiff")],
            },
        ),
        reads(
            "/runs/{runId}/ancestry",
            Action::ReadRun,
            ancestry,
            doc(
                "getRunAncestry",
                "The ancestors of a run",
                None,
                &[(200, "RunAncestry")],
            ),
        ),
    ]
}

async fn fork(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    // Access to the run is checked before the body.
    cx.app.api().may_fork(&who, &run).await?;
    let mut body = cx.object().await?;
    check_fields(&body, &["fromSeq", "mode", "runOptionsOverlay"])?;
    if let Some(Value::Object(overlay)) = body.get_mut("runOptionsOverlay") {
        settings(overlay, "/runOptionsOverlay")?;
    }
    cx.put_body(&body);
    let reply = v1::fork(cx).await?;
    let fields = [
        "runId",
        "sourceRunId",
        "mode",
        "status",
        "eventsUrl",
        "fromSeq",
    ];
    Ok(reply.map(|mut doc| {
        let run = doc["runId"].as_str().unwrap_or_default().to_owned();
        doc["eventsUrl"] = json!(format!("{}/events", address(&who, &run)));
        closed(bound(&who, doc, &["runId", "sourceRunId"]), &fields)
    }))
}

async fn diff(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    if let Some(against) = cx.query().get("against") {
        let against = own_of_query(&who, "against", against)?;
        cx.set_query("against", &against);
    }
    v1::diff_in(cx, Contract::Two).await
}

async fn ancestry(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let reply = v1::ancestry(cx).await?;
    Ok(reply.map(|mut doc| {
        let parent = bound(&who, doc["parent"].take(), &["runId"]);
        doc["parent"] = parent;
        bound(&who, doc, &["runId"])
    }))
}

//! Ending the retention of a run at once, for tests. Disabled unless the server was given a token.

use hyper::{Method, StatusCode};
use runtime::api::{ApiError, Expired, ResourceKind};
use serde_json::json;
use store::StoreError;

use super::runs::named;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(
        Method::POST,
        "/v1/test/runs/{runId}/expire",
        // The protocol's checks send no credential: the token in the query is one.
        Access::Anyone,
        expire,
        Doc {
            operation: "expireRun",
            summary: "Erases an ended run as if its retention were over; for tests",
            parameters: &[("query", "token", "the token of the server's --expire-token")],
            request: None,
            responses: &[(200, "Expired")],
        },
    )]
}

fn unknown_token() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "this needs the token of the server's --expire-token",
    )
}

async fn expire(cx: Cx) -> Result<Reply, Problem> {
    let query = cx.query();
    let token = query.get("token").unwrap_or_default();
    let run = named(&cx);
    // A caller without the token learns nothing, not even whether the run exists.
    let Some(run) = run.ok().filter(|_| cx.app.api().can_expire()) else {
        return Err(unknown_token());
    };
    match cx.app.api().expire(token, &run).await {
        Ok(Some(Expired::Erased)) => Ok(Reply::ok(&json!({ "runId": run, "expired": true }))),
        Ok(Some(Expired::Active)) => Err(Problem::new(
            StatusCode::CONFLICT,
            "run_active",
            "the run or a child of it has not ended; cancel it, or wait",
        )),
        Ok(None) => Err(unknown_token()),
        Err(StoreError::Missing) => Err(ApiError::NotFound(ResourceKind::Run).into()),
        Err(error) => Err(error.into()),
    }
}

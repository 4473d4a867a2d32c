//! The usage of model calls over all runs (extension).

use hyper::Method;
use runtime::access::Action;

use super::answer::{described, invalid};
use super::query;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::routes::costs::{GROUPS, MAX_SCAN, Sums};

/// Runs read at a time.
const PAGE: usize = 500;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let route = Route::new(
        Method::GET,
        "/api/costs",
        Access::May(Action::ReadRun),
        costs,
        Doc {
            operation: "sumCosts",
            summary: "Tokens and costs of model calls, summed over runs",
            parameters: &[
                ("query", "by", "model, workflow, tag, status or day"),
                ("query", "status", "only runs of this status"),
                ("query", "workflowId", "only runs of this workflow"),
                ("query", "tag", "only runs with this tag"),
                (
                    "query",
                    "startedAfter",
                    "only runs started at this time or later",
                ),
                (
                    "query",
                    "startedBefore",
                    "only runs started before this time",
                ),
            ],
            request: None,
            responses: &[(200, "Costs"), (401, "ErrorBody")],
        },
    );
    vec![route.closed()]
}

async fn costs(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let query = cx.query();
    let by = query.get("by").unwrap_or("model");
    if !GROUPS.contains(&by) {
        return Err(invalid("by is model, workflow, tag, status or day"));
    }
    let mut filter = query::filter(&query)?;
    filter.limit = PAGE;
    let (mut sums, mut scanned) = (Sums::new(by), 0);
    let is_whole = loop {
        let page = cx.app.api().documents(&who, filter.clone()).await?;
        page.rows.iter().for_each(|row| sums.add(row));
        scanned += page.scanned;
        match page.next {
            None => break true,
            Some(_) if scanned >= MAX_SCAN => break false,
            next => filter.after = next,
        }
    };
    Ok(described(Reply::ok(&sums.to_json(is_whole)), None))
}

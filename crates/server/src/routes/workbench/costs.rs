//! The usage of model calls over all runs (extension).

use std::collections::BTreeMap;

use hyper::Method;
use kernel::document::ModelUse;
use runtime::access::Action;
use serde_json::{Value, json};

use super::answer::{described, invalid};
use super::query;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// Runs read at a time.
const PAGE: usize = 500;
/// The most runs of one response.
const MAX_RUNS: usize = 20_000;
/// The most separate groups; the rest is counted as `other`.
const MAX_GROUPS: usize = 1_000;

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
    if !["model", "workflow", "tag", "status", "day"].contains(&by) {
        return Err(invalid("by is model, workflow, tag, status or day"));
    }
    let mut filter = query::filter(&query)?;
    filter.limit = PAGE;
    let (mut total, mut runs) = (ModelUse::default(), 0);
    let mut groups: BTreeMap<String, ModelUse> = BTreeMap::new();
    let is_whole = loop {
        let page = cx.app.api().documents(&who, filter.clone()).await?;
        runs += page.rows.len();
        for row in &page.rows {
            let index = &row.index;
            let models = index.summary["models"].as_object();
            for (model, used) in models.into_iter().flatten() {
                let used = ModelUse::from_json(used);
                total.add(&used);
                let names = match by {
                    "workflow" => vec![index.subject.clone()],
                    "status" => vec![index.status.clone()],
                    "day" => vec![index.created_at.to_string()[..10].to_owned()],
                    "tag" => {
                        let tags = index.tags.iter().filter(|tag| !tag.starts_with('\u{1}'));
                        tags.cloned().collect()
                    }
                    _ => vec![model.clone()],
                };
                for name in names {
                    let is_room = groups.len() < MAX_GROUPS || groups.contains_key(&name);
                    let name = if is_room { name } else { "other".to_owned() };
                    groups.entry(name).or_default().add(&used);
                }
            }
        }
        match page.next {
            None => break true,
            Some(_) if runs >= MAX_RUNS => break false,
            next => filter.after = next,
        }
    };
    let groups: Vec<Value> = groups
        .iter()
        .map(|(name, used)| json!({ "name": name, "used": used.to_json() }))
        .collect();
    let answer = json!({
        "runs": runs, "complete": is_whole, "by": by, "total": total.to_json(), "groups": groups,
    });
    Ok(described(Reply::ok(&answer), None))
}

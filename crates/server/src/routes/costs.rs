//! The usage of model calls, summed over runs.

use std::collections::BTreeMap;

use hyper::Method;
use kernel::document::is_mark;
use kernel::usage::ModelUse;
use runtime::access::Action;
use serde_json::{Value, json};
use store::Listed;

use super::runs::{AFTER, BEFORE, PRINCIPAL, TAG, WORKFLOW, conditions, filter};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The groups of the sums.
pub(crate) const GROUPS: [&str; 5] = ["model", "workflow", "tag", "status", "day"];
/// Runs read at a time.
const PAGE: usize = 500;
/// The most runs read for one response.
pub(super) const MAX_SCAN: usize = 20_000;
/// The most separate groups; the rest is counted as `other`.
const MAX_GROUPS: usize = 1_000;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let route = Route::new(
        Method::GET,
        "/v1/costs",
        Access::May(Action::ReadRun),
        costs,
        Doc {
            operation: "sumRunCosts",
            summary: "Tokens and costs of model calls, summed over runs (extension)",
            parameters: &[
                ("query", "by", "model, workflow, tag, status or day"),
                WORKFLOW,
                TAG,
                PRINCIPAL,
                AFTER,
                BEFORE,
            ],
            request: None,
            responses: &[(200, "Costs")],
        },
    );
    vec![route.closed()]
}

async fn costs(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let query = cx.query();
    let by = query.get("by").unwrap_or("model");
    if !GROUPS.contains(&by) {
        return Err(Problem::invalid(
            "by is model, workflow, tag, status or day",
        ));
    }
    let mut filter = conditions(&query, filter(&query, PAGE as u64)?)?;
    filter.limit = PAGE;
    let (mut sums, mut scanned) = (Sums::new(by), 0);
    let is_whole = loop {
        let page = cx.app.api().runs(&who, filter.clone()).await?;
        page.runs.iter().for_each(|row| sums.add(row));
        scanned += page.scanned;
        match page.next {
            None => break true,
            Some(_) if scanned >= MAX_SCAN => break false,
            next => filter.after = next,
        }
    };
    Ok(Reply::ok(&sums.to_json(is_whole)))
}

/// Sums of runs, by group.
pub(super) struct Sums<'a> {
    by: &'a str,
    runs: usize,
    total: ModelUse,
    groups: BTreeMap<String, ModelUse>,
}

impl<'a> Sums<'a> {
    pub(super) fn new(by: &'a str) -> Self {
        Self {
            by,
            runs: 0,
            total: ModelUse::default(),
            groups: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, row: &Listed) {
        self.runs += 1;
        let index = &row.index;
        let models = index.summary["models"].as_object();
        for (model, used) in models.into_iter().flatten() {
            let used = ModelUse::from_json(used);
            self.total.add(&used);
            let names = match self.by {
                "workflow" => vec![index.subject.clone()],
                "status" => vec![index.status.clone()],
                "day" => vec![index.created_at.to_string()[..10].to_owned()],
                "tag" => {
                    let tags = index.tags.iter().filter(|tag| !is_mark(tag));
                    tags.cloned().collect()
                }
                _ => vec![model.clone()],
            };
            for name in names {
                let groups = &mut self.groups;
                let is_room = groups.len() < MAX_GROUPS || groups.contains_key(&name);
                let name = if is_room { name } else { "other".to_owned() };
                groups.entry(name).or_default().add(&used);
            }
        }
    }

    pub(super) fn to_json(&self, is_whole: bool) -> Value {
        let groups = self.groups.iter();
        let groups: Vec<Value> = groups
            .map(|(name, used)| json!({ "name": name, "used": used.to_json() }))
            .collect();
        json!({
            "runs": self.runs, "complete": is_whole, "by": self.by,
            "total": self.total.to_json(), "groups": groups,
        })
    }
}

//! Earlier saves of a run, and the differences of two of them (extension).

use faces::workbench::compare::compare;
use faces::workbench::list::{SavePosition, save};
use hyper::Method;
use runtime::access::Action;
use serde_json::{Value, json};

use super::answer::described;
use super::{documents, query};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let reads = Access::May(Action::ReadRun);
    vec![
        Route::new(
            Method::GET,
            "/api/runs/{runId}/revisions",
            reads,
            revisions,
            Doc {
                operation: "listRevisions",
                summary: "Every save of a run, the last one first",
                parameters: &[
                    ("query", "limit", "rows, 1 to 500 [default: 100]"),
                    ("query", "before", "only saves below this number"),
                ],
                request: None,
                responses: &[(200, "Revisions"), (404, "ErrorBody")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/api/runs/{runId}/compare",
            reads,
            difference,
            Doc {
                operation: "compareRevisions",
                summary: "The differences between two saves of a run",
                parameters: &[
                    (
                        "query",
                        "from",
                        "a revision; fromSave names a save by its number",
                    ),
                    ("query", "fromSave", "a save by its number"),
                    (
                        "query",
                        "to",
                        "a revision, the last save if absent; or toSave",
                    ),
                    ("query", "toSave", "a save by its number"),
                ],
                request: None,
                responses: &[(200, "Comparison"), (404, "ErrorBody")],
            },
        )
        .closed(),
    ]
}

async fn revisions(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let document = cx.app.api().document_saves(&who, &id).await?;
    let before = cx
        .query()
        .number("before", 0..=u64::MAX)?
        .unwrap_or(u64::MAX);
    let saves = document
        .saves()
        .iter()
        .rev()
        .filter(|save| save.number < before);
    let replaced: std::collections::BTreeSet<u64> = document
        .saves()
        .iter()
        .filter_map(|save| save.replaced)
        .collect();
    let rows = saves.take(query::limit(&cx.query())).map(|record| {
        let standing = if replaced.contains(&record.number) {
            SavePosition::Branch
        } else {
            SavePosition::Main
        };
        save(record, standing)
    });
    let rows: Vec<Value> = rows.collect();
    let page = json!({ "runId": id, "saves": document.saves().len(), "revisions": rows });
    Ok(described(Reply::ok(&page), None))
}

async fn difference(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let api = cx.app.api();
    let document = api.document_saves(&who, &id).await?;
    let last = document.saves().len() as u64;
    let from = documents::which(&cx.query(), ("from", "fromSave"), &document)?;
    let to = documents::which(&cx.query(), ("to", "toSave"), &document)?.unwrap_or(last);
    // By default the last save is compared with the one before.
    let from = from.unwrap_or_else(|| to.saturating_sub(1).max(1));
    let (old, new) = (
        api.document_at(&who, &id, Some(from)).await?,
        api.document_at(&who, &id, Some(to)).await?,
    );
    let mut difference = compare(&old, &new);
    difference["from"] = json!({ "save": from, "revision": old.revision });
    difference["to"] = json!({ "save": to, "revision": new.revision });
    Ok(described(Reply::ok(&difference), None))
}

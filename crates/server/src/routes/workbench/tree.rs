//! Descendants of runs: children, cancelling all of them, forks (extension).

use std::sync::Arc;

use faces::workbench::{fork, list};
use hyper::{Method, StatusCode};
use kernel::document::{DocumentCommand, Expected, Save, Via};
use runtime::access::Action;
use runtime::api::DocumentSave;
use serde_json::{Value, json};

use super::answer::{described, invalid, refused};
use super::{body, documents, query};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/api/runs/{runId}/children",
            Access::May(Action::ReadRun),
            children,
            Doc {
                operation: "listChildren",
                summary: "Runs that name this one as a parent",
                parameters: &[
                    ("query", "limit", "rows, 1 to 500 [default: 100]"),
                    ("query", "cursor", "the end of the previous page"),
                ],
                request: None,
                responses: &[(200, "Children"), (401, "ErrorBody")],
            },
        )
        .closed(),
        Route::new(
            Method::POST,
            "/api/runs/{runId}/cancel",
            Access::May(Action::CancelRun),
            cancel,
            Doc {
                operation: "cancelRunCascade",
                summary: "Cancels a run and its descendants",
                parameters: &[],
                request: Some("CancelOrder"),
                responses: &[(200, "Cascade"), (404, "ErrorBody")],
            },
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/api/runs/{runId}/fork",
            Access::May(Action::SaveDocument),
            branch_off,
            Doc {
                operation: "forkRun",
                summary: "Starts a new run with the artifacts and rules of a revision of this one",
                parameters: &[],
                request: Some("ForkOrder"),
                responses: &[
                    (201, "Forked"),
                    (400, "ErrorBody"),
                    (404, "ErrorBody"),
                    (409, "ErrorBody"),
                ],
            },
        )
        .keyed(),
    ]
}

async fn children(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let mut filter = query::filter(&cx.query())?;
    filter.parent = Some(id.clone());
    let page = cx.app.api().documents(&who, filter).await?;
    let rows: Vec<_> = page.rows.iter().map(|row| list::Row(&row.index)).collect();
    let mut answer = json!({ "runId": id, "children": rows });
    if let Some(next) = &page.next {
        answer["nextCursor"] = json!(query::write_cursor(next));
    }
    Ok(described(Reply::ok(&answer), None))
}

/// A small body; empty if there is none.
async fn order(cx: &mut Cx) -> Result<Value, Problem> {
    let bytes = body::read(cx).await?;
    if bytes.is_empty() {
        Ok(json!({}))
    } else {
        faces::workbench::document::read(&bytes).map_err(refused)
    }
}

async fn cancel(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let order = order(&mut cx).await?;
    let reason = order["reason"]
        .as_str()
        .filter(|reason| reason.len() <= 4_096);
    let (api, trace) = (cx.app.api(), cx.trace.id());
    let cascade = api.cancel_documents(&who, &id, reason, Some(trace)).await?;
    let skipped = cascade.skipped.iter();
    let skipped: Vec<Value> = skipped
        .map(|(id, why)| json!({ "id": id, "code": why.code().to_ascii_uppercase() }))
        .collect();
    let answer = json!({
        "cancelled": cascade.cancelled, "skipped": skipped, "complete": !cascade.is_cut,
    });
    Ok(described(Reply::ok(&answer), None))
}

async fn branch_off(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let order = order(&mut cx).await?;
    let api = cx.app.api();
    let document = api.document_saves(&who, &id).await?;
    let number = match order.get("revision") {
        None | Some(Value::Null) => None,
        Some(revision) => {
            let save = revision
                .as_u64()
                .and_then(|revision| document.save_of(revision));
            let save = save.ok_or(runtime::api::DocumentError::NoSuchSave)?;
            Some(save.number)
        }
    };
    let source = api.document_at(&who, &id, number).await?;
    let new = match order.get("id").map(Value::as_str) {
        None => format!("run_{}", uuid::Uuid::new_v4()),
        Some(Some(new)) => query::checked(new)?,
        Some(None) => return Err(invalid("id is the new run's id, a text")),
    };
    let tags = order.get("tags").and_then(Value::as_array).cloned();
    let step = order["forkedFromStepId"].as_str().map(str::to_owned);
    let now = api.engine().door().store().now();
    let body = fork::fork(&source, &new, now, step.as_deref(), tags).map_err(refused)?;
    let save = Save {
        body: Arc::new(body),
        text: None,
        via: Via::Fork,
        expected: Expected::Nothing,
    };
    let order = DocumentSave {
        id: new.clone(),
        command: DocumentCommand::Save(Box::new(save)),
        sent: None,
        request_id: Some(cx.trace.id().to_owned()),
    };
    let outcome = api.save_document(&who, order).await?;
    let revision = outcome.save().map(|save| save.revision);
    let answer = json!({ "id": new, "parentRunId": id, "revision": revision });
    let reply = Reply::json(StatusCode::CREATED, &answer);
    Ok(described(documents::saved(&outcome, reply), None))
}

//! Waiting gates of all runs, and their decisions (extension).

use faces::workbench::list::gates;
use hyper::Method;
use kernel::document::{DocumentCommand, GateDecision};
use runtime::access::Action;
use runtime::api::DocumentSave;
use serde_json::{Value, json};

use super::answer::{described, invalid, refused};
use super::{body, documents, query};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// Bytes of a note.
pub(super) const MAX_NOTE: usize = 4_096;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/api/gates",
            Access::May(Action::ReadRun),
            inbox,
            Doc {
                operation: "listPendingGates",
                summary: "Waiting gates of all runs",
                parameters: &[
                    ("query", "limit", "runs to search, 1 to 500"),
                    ("query", "cursor", "the end of the previous page"),
                    ("query", "workflowId", "only runs of this workflow"),
                    ("query", "tag", "only runs with this tag"),
                ],
                request: None,
                responses: &[(200, "PendingGates"), (401, "ErrorBody")],
            },
        )
        .closed(),
        Route::new(
            Method::POST,
            "/api/runs/{runId}/gates",
            Access::May(Action::AnswerRun),
            decide,
            Doc {
                operation: "decideGate",
                summary: "Decides a gate; later saves of the run keep the decision",
                parameters: &[],
                request: Some("GateDecision"),
                responses: &[
                    (200, "Saved"),
                    (400, "ErrorBody"),
                    (404, "ErrorBody"),
                    (409, "ErrorBody"),
                ],
            },
        )
        .keyed(),
    ]
}

async fn inbox(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let mut filter = query::filter(&cx.query())?;
    filter.with_gates = true;
    let page = cx.app.api().documents(&who, filter).await?;
    let waiting: Vec<Value> = page.rows.iter().flat_map(|row| gates(&row.index)).collect();
    let mut answer = json!({ "gates": waiting });
    if let Some(next) = &page.next {
        answer["nextCursor"] = json!(query::write_cursor(next));
    }
    Ok(described(Reply::ok(&answer), None))
}

async fn decide(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let bytes = body::read(&mut cx).await?;
    let order = faces::workbench::document::read(&bytes).map_err(refused)?;
    let text = |name: &str| order[name].as_str().filter(|text| text.len() <= MAX_NOTE);
    let decision = text("decision").and_then(GateDecision::parse);
    let gate =
        text("gate").filter(|gate| ["PAUSE_BEFORE", "PAUSE_AFTER", "CHECKPOINT"].contains(gate));
    let (Some(step), Some(gate), Some(decision)) = (text("stepId"), gate, decision) else {
        return Err(invalid(
            "send stepId, gate (PAUSE_BEFORE, PAUSE_AFTER, CHECKPOINT) and decision (approved, \
             rejected, edited)",
        ));
    };
    let note = text(if gate == "CHECKPOINT" {
        "checkpoint"
    } else {
        "note"
    });
    let command = DocumentCommand::Decide {
        step: step.to_owned(),
        gate: gate.to_owned(),
        decision,
        note: note.or(text("note")).map(str::to_owned),
    };
    let order = DocumentSave {
        id,
        command,
        sent: None,
        request_id: Some(cx.trace.id().to_owned()),
    };
    let outcome = cx.app.api().save_document(&who, order).await?;
    let revision = outcome.save().map(|save| save.revision);
    let reply = Reply::ok(&json!({ "revision": revision }));
    Ok(described(documents::saved(&outcome, reply), None))
}

//! Bundles: portable runs (extension).

use std::sync::Arc;

use faces::workbench::bundle::{self, Integrity};
use faces::workbench::document::{is_run_id, read};
use hyper::header::CONTENT_DISPOSITION;
use hyper::{Method, StatusCode};
use kernel::document::{DocumentCommand, Expected, Save, Via};
use runtime::access::Action;
use runtime::api::DocumentSave;
use serde_json::json;

use super::answer::{described, refused};
use super::{body, documents, query};
use crate::problem::Problem;
use crate::reply::{JSON, Reply};
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/api/runs/{runId}/bundle",
            Access::May(Action::ReadRun),
            export,
            Doc {
                operation: "exportBundle",
                summary: "A run as a bundle with its integrity hash",
                parameters: &[("query", "revision", "an earlier revision of the run")],
                request: None,
                responses: &[(200, "RunBundle"), (404, "ErrorBody")],
            },
        ),
        Route::new(
            Method::POST,
            "/api/bundles",
            Access::May(Action::SaveDocument),
            import,
            Doc {
                operation: "importBundle",
                summary: "Saves the run of a bundle",
                parameters: &[("query", "verifyIntegrity", "false: the hash is not checked")],
                request: Some("RunBundle"),
                responses: &[(201, "Imported"), (400, "ErrorBody"), (413, "ErrorBody")],
            },
        ),
        Route::new(
            Method::POST,
            "/api/bundles/verify",
            Access::May(Action::ReadRun),
            verify,
            Doc {
                operation: "verifyBundle",
                summary: "Checks the hashes of a bundle and saves nothing",
                parameters: &[],
                request: Some("RunBundle"),
                responses: &[
                    (200, "VerifiedBundle"),
                    (400, "ErrorBody"),
                    (413, "ErrorBody"),
                ],
            },
        ),
    ]
}

async fn export(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let api = cx.app.api();
    let document = api.document_saves(&who, &id).await?;
    let number = documents::which(&cx.query(), ("revision", "save"), &document)?;
    let body = api.document_at(&who, &id, number).await?;
    let bytes = kernel::json::canonical(&bundle::export(&body));
    let name = format!("attachment; filename=\"{id}.json\"");
    let reply = Reply::bytes(StatusCode::OK, JSON, bytes.into()).with(CONTENT_DISPOSITION, name);
    Ok(described(reply, None))
}

async fn import(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let integrity = match cx.query().get("verifyIntegrity") {
        Some("false") => Integrity::Ignored,
        _ => Integrity::Required,
    };
    let bytes = body::read(&mut cx).await?;
    let value = read(&bytes).map_err(refused)?;
    let body = bundle::import(&value, integrity).map_err(refused)?;
    let id = body.id().to_owned();
    if !is_run_id(&id) {
        query::checked(&id)?;
    }
    let save = Save {
        body: Arc::new(body),
        text: None,
        via: Via::Import,
        expected: Expected::Anything,
    };
    let order = DocumentSave {
        id: id.clone(),
        command: DocumentCommand::Save(Box::new(save)),
        sent: None,
        request_id: Some(cx.trace.id().to_owned()),
    };
    let outcome = cx.app.api().save_document(&who, order).await?;
    let revision = outcome.save().map(|save| save.revision);
    let answer = json!({ "id": id, "revision": revision, "unchanged": outcome.unchanged });
    let reply = Reply::json(StatusCode::CREATED, &answer);
    Ok(described(documents::saved(&outcome, reply), None))
}

async fn verify(mut cx: Cx) -> Result<Reply, Problem> {
    let bytes = body::read(&mut cx).await?;
    let value = read(&bytes).map_err(refused)?;
    let found = bundle::verify(&value).map_err(refused)?;
    let structure = bundle::import(&value, Integrity::Ignored).err();
    let answer = json!({
        "runId": found.run,
        "sha256": found.sha256,
        "integrity": match found.matches {
            Some(true) => "valid",
            Some(false) => "mismatch",
            None => "missing",
        },
        "structure": structure.map_or("valid", |bad| bad.code),
        "stalePayloadHashes": found.stale_hashes,
        "unknownEvents": found.unknown_events,
    });
    Ok(described(Reply::ok(&answer), None))
}

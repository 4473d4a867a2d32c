//! Managing snapshots: pin, unpin, export and import.

use faces::provenance::export::{openlineage, prov};
use hyper::{Method, StatusCode};
use provenance::{Bundle, BundleError, Entry, Imported};
use runtime::access::Action;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SnapshotQuery, address, failed, folder, linked, sees, unredacted, with_files, word};
use crate::body;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let noting = Access::May(Action::AnnotateRun);
    vec![
        Route::new(
            Method::PUT,
            "/v1/snapshots/{snapshotId}/pin",
            noting,
            |cx| pin(cx, true),
            Doc {
                operation: "pinSnapshot",
                summary: "Pins a snapshot, so that it does not expire (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "SnapshotPin")],
            },
        )
        .keyed(),
        Route::new(
            Method::DELETE,
            "/v1/snapshots/{snapshotId}/pin",
            noting,
            |cx| pin(cx, false),
            Doc {
                operation: "unpinSnapshot",
                summary: "Unpins a snapshot (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "SnapshotPin")],
            },
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/snapshots:prune",
            noting,
            prune,
            Doc {
                operation: "pruneSnapshots",
                summary: "Lists expired snapshots, or deletes them (extension)",
                parameters: &[],
                request: Some("SnapshotPruneOrder"),
                responses: &[(200, "SnapshotPrune")],
            },
        )
        .keyed(),
        Route::new(
            Method::GET,
            "/v1/snapshots/{snapshotId}/export",
            Access::May(Action::ReadRun),
            export,
            Doc {
                operation: "exportSnapshot",
                summary: "A snapshot as PROV-JSON, OpenLineage or a complete bundle (extension)",
                parameters: &[("query", "format", "prov-json, openlineage or bundle")],
                request: None,
                responses: &[(200, "SnapshotExport")],
            },
        ),
        Route::new(
            Method::POST,
            "/v1/snapshots:import",
            noting,
            import,
            Doc {
                operation: "importSnapshot",
                summary: "Imports a snapshot from a bundle (extension)",
                parameters: &[],
                request: Some("SnapshotBundle"),
                responses: &[(201, "ExecutionSnapshot"), (200, "ExecutionSnapshot")],
            },
        )
        .takes(|limits| limits.bundle_bytes)
        .keyed(),
    ]
}

async fn pin(cx: Cx, is_wanted: bool) -> Result<Reply, Problem> {
    let asked = SnapshotQuery::from_request(&cx)?;
    let answer = with_files(move || {
        let kept = asked.find(&asked.id)?;
        asked.folder.pin(&kept.path, is_wanted).map_err(failed)?;
        Ok(json!({ "snapshot_id": asked.id, "pinned": is_wanted }))
    });
    Ok(Reply::ok(&answer.await?))
}

async fn prune(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let folder = folder(&cx, &who)?;
    let mut body = cx.object_or_nothing().await?;
    let apply = match body.remove("apply") {
        None => false,
        Some(Value::Bool(apply)) => apply,
        Some(_) => return Err(Problem::invalid("`apply` is true or false")),
    };
    if !body.is_empty() {
        return Err(Problem::invalid("the body takes `apply` only"));
    }
    let now = cx.app.api().engine().door().store().now();
    let workspace = who.workspace.clone();
    let answer = with_files(move || {
        let is_seen = |entry: &Entry| sees(workspace.as_deref(), entry);
        let plan = folder.plan_of(now, &is_seen).map_err(failed)?;
        let fates = plan.fates.iter().filter(|fate| is_seen(&fate.entry));
        let shown: Vec<Value> = fates
            .map(|fate| {
                let id = &fate.entry.snapshot_id;
                json!({ "snapshot_id": id, "verdict": fate.verdict, "until": fate.until })
            })
            .collect();
        let pruned = if apply {
            Some(folder.prune_of(now, &is_seen).map_err(failed)?)
        } else {
            None
        };
        Ok(json!({ "applied": apply, "snapshots": shown, "pruned": pruned }))
    });
    Ok(Reply::ok(&answer.await?))
}

/// The export format of a snapshot.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    #[default]
    ProvJson,
    Openlineage,
    Bundle,
}

async fn export(cx: Cx) -> Result<Reply, Problem> {
    let asked = SnapshotQuery::from_request(&cx)?;
    let format = word(&cx.query(), "format", "prov-json, openlineage or bundle");
    let found = with_files(move || {
        let kept = asked.find_clean(&asked.id)?;
        // Existence is checked before the query.
        let snapshot = &kept.document.snapshot;
        Ok(match format?.unwrap_or_default() {
            Format::ProvJson => {
                let attempts = asked.folder.attempts(&kept.path).map_err(failed)?;
                prov::document(snapshot, &attempts)
            }
            Format::Openlineage => json!({ "events": openlineage::events(snapshot) }),
            Format::Bundle => {
                let bundle = asked.folder.bundle(&kept).map_err(not_bundled)?;
                serde_json::to_value(bundle).map_err(|_| Problem::internal())?
            }
        })
    });
    Ok(Reply::ok(&found.await?))
}

async fn import(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let folder = folder(&cx, &who)?;
    let limit = cx.app.limits().bundle_bytes;
    let body = Value::Object(body::object(&cx.bytes(limit).await?)?);
    let bundle: Bundle = serde_json::from_value(body).map_err(|_| {
        Problem::invalid(
            "the body is not a bundle; `export?format=bundle` and `runwright snapshot \
                          export` write bundles",
        )
    })?;
    let workspace = who.workspace.clone();
    let (kept, is_new) = with_files(move || {
        let document = bundle.verified().map_err(not_bundled)?;
        if document.snapshot.is_unredacted() {
            return Err(unredacted(StatusCode::UNPROCESSABLE_ENTITY));
        }
        let entry = Entry::new(String::new(), &document, false);
        if !sees(workspace.as_deref(), &entry) {
            let message = "the snapshot belongs to another workspace than this credential";
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "other_workspace",
                message,
            ));
        }
        let writer = folder.writer().map_err(failed)?;
        let imported = writer.take_in(&bundle).map_err(not_bundled)?;
        let (path, is_new) = match imported {
            Imported::New(path) => (path, true),
            Imported::Known(path) => (path, false),
        };
        Ok((folder.read(&path).map_err(failed)?, is_new))
    })
    .await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let reply = Reply::json(status, &kept.document.raw);
    Ok(linked(
        reply.with(hyper::header::LOCATION, address(&kept)),
        &kept,
    ))
}

/// An error of a bundle, or of making one.
fn not_bundled(error: BundleError) -> Problem {
    match error {
        BundleError::Folder(error) => failed(error),
        BundleError::TooLarge => {
            let message = error.to_string();
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "snapshot_too_large", message)
        }
        BundleError::IdTaken => {
            let message = "another snapshot has this id already; nothing was written";
            Problem::new(StatusCode::CONFLICT, "snapshot_conflict", message)
        }
        BundleError::Damaged(findings) => {
            let message = "the snapshot was changed after it was written; `findings` shows where";
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Problem::new(status, "snapshot_damaged", message).with(
                "findings",
                json!(findings.iter().take(20).collect::<Vec<_>>()),
            )
        }
    }
}

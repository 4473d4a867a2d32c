//! Evidence of runs: captured, listed, verified, compared. A tenant's snapshots are in a folder of
//! its own; a caller bound to a workspace sees those of its runs.

mod capture;
mod keeping;

use std::path::PathBuf;

use faces::provenance::compare::{Fields, Options, Part, Side, compare};
use hyper::{Method, StatusCode};
use kernel::digest::Digest;
use kernel::ids::StreamId;
use provenance::{Entry, Folder, FolderError, Kept, Strictness};
use runtime::access::{Action, Principal};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::app::App;
use crate::contract::Contract;
use crate::params::Query;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::routes::runs::bounded;

/// Snapshots per page.
const LISTED: u64 = 100;
const MAX_LISTED: u64 = 1_000;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let read = Access::May(Action::ReadRun);
    let mut routes = vec![
        Route::new(
            Method::GET,
            "/v1/snapshots",
            read,
            list,
            Doc {
                operation: "listSnapshots",
                summary: "Snapshots, latest first (extension)",
                parameters: &[
                    ("query", "runId", "only of this run"),
                    ("query", "workflowId", "only of this workflow"),
                    ("query", "limit", "the most snapshots"),
                    ("query", "after", "after the snapshot with this id"),
                ],
                request: None,
                responses: &[(200, "SnapshotList")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/snapshots/{snapshotId}",
            read,
            get,
            Doc {
                operation: "getSnapshot",
                summary: "A snapshot as stored (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "ExecutionSnapshot")],
            },
        ),
        Route::new(
            Method::GET,
            "/v1/snapshots/{snapshotId}/verification",
            read,
            verify,
            Doc {
                operation: "verifySnapshot",
                summary: "Verifies that a snapshot was not changed (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "SnapshotVerification")],
            },
        ),
        Route::new(
            Method::GET,
            "/v1/snapshots/{snapshotId}/comparison",
            read,
            comparison,
            Doc {
                operation: "compareSnapshots",
                summary: "Compares another snapshot with this one (extension)",
                parameters: &[
                    ("query", "with", "the other snapshot"),
                    ("query", "strategy", "exact, semantic or structural"),
                    (
                        "query",
                        "similarity",
                        "the least similarity of two sentences",
                    ),
                    (
                        "query",
                        "fields",
                        "artifacts, tool_calls, both separated by a comma, or none",
                    ),
                ],
                request: None,
                responses: &[(200, "SnapshotComparison")],
            },
        ),
    ];
    routes.extend(capture::routes());
    routes.extend(keeping::routes());
    routes
}

/// The folder of a caller's tenant.
fn folder(cx: &Cx, who: &Principal) -> Result<Folder, Problem> {
    let base: &PathBuf = cx.app.snapshots().ok_or_else(|| {
        let message = "this server keeps no snapshots; it was started without a folder for them";
        Problem::new(StatusCode::NOT_IMPLEMENTED, "snapshots_not_kept", message)
    })?;
    // A tenant's name may contain any characters; its digest is a valid folder name.
    let name = Digest::compute(who.tenant.as_str().as_bytes()).to_string();
    Ok(Folder::at(base.join(name)))
}

fn missing() -> Problem {
    let message = "unknown snapshot";
    Problem::new(StatusCode::NOT_FOUND, "snapshot_not_found", message)
}

/// A snapshot with secrets must neither leave nor enter over the network.
fn unredacted(status: StatusCode) -> Problem {
    let message = "the snapshot contains secrets, so a server neither exports nor imports it; \
                   capture the command again without --no-redact";
    Problem::new(status, "snapshot_unredacted", message)
}

fn failed(error: FolderError) -> Problem {
    match error {
        FolderError::Busy { .. } => {
            let message = "snapshots are being pruned; try again";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "snapshots_busy", message).retry_after(1)
        }
        // Paths of the server are not disclosed.
        error => {
            tracing::warn!(%error, "a snapshot could not be read or written");
            Problem::internal()
        }
    }
}

/// Does blocking work on files in a separate thread.
async fn with_files<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Problem::internal()))
}

/// Whether a caller may see a snapshot of its tenant.
fn sees(workspace: Option<&str>, entry: &Entry) -> bool {
    workspace.is_none_or(|workspace| entry.workspace.as_deref() == Some(workspace))
}

fn find(folder: &Folder, workspace: Option<&str>, id: &str) -> Result<Kept, Problem> {
    let listing = folder.list().map_err(failed)?;
    let entries = listing.entries.iter();
    let mut found = entries.filter(|entry| entry.snapshot_id == id && sees(workspace, entry));
    let entry = found.next().ok_or_else(missing)?;
    folder
        .read(&folder.snapshots().join(&entry.file))
        .map_err(failed)
}

fn shown(entry: &Entry) -> Value {
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    value["captured_at"] = entry.captured_at.to_string().into();
    let run = entry.run_id.as_ref();
    let run = run.map(|run| format!("/v1/runs/{}", segment(run)));
    let itself = format!("/v1/snapshots/{}", segment(&entry.snapshot_id));
    value["links"] = json!({ "self": itself, "run": run });
    value
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let folder = folder(&cx, &who)?;
    let query = cx.query();
    let limit = query.number("limit", 1..=MAX_LISTED)?.unwrap_or(LISTED);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let text = |name| bounded(&query, name);
    let (run, workflow, after) = (text("runId")?, text("workflowId")?, text("after")?);
    let workspace = who.workspace.clone();
    let listing = with_files(move || {
        let listing = folder.list().map_err(failed)?;
        let wanted = |entry: &&Entry| {
            sees(workspace.as_deref(), entry)
                && run
                    .as_ref()
                    .is_none_or(|run| entry.run_id.as_ref() == Some(run))
                && workflow
                    .as_ref()
                    .is_none_or(|workflow| *workflow == entry.workflow_id)
        };
        let entries: Vec<&Entry> = listing.entries.iter().filter(wanted).collect();
        let behind = match &after {
            None => 0,
            Some(after) => {
                let at = entries.iter().position(|entry| entry.snapshot_id == *after);
                let wrong = || {
                    let message =
                        "after must be the id of a snapshot of this list; omit it to start again";
                    Problem::invalid(message)
                };
                at.ok_or_else(wrong)? + 1
            }
        };
        let page: Vec<Value> = entries[behind..]
            .iter()
            .take(limit)
            .map(|entry| shown(entry))
            .collect();
        let next = (entries.len() > behind + page.len())
            .then(|| page.last().map(|last| last["snapshot_id"].clone()))
            .flatten();
        Ok(json!({ "snapshots": page, "next": next, "broken": listing.broken.len() }))
    });
    Ok(Reply::ok(&listing.await?))
}

async fn get(cx: Cx) -> Result<Reply, Problem> {
    let asked = SnapshotQuery::from_request(&cx)?;
    let kept = with_files(move || asked.find_clean(&asked.id)).await?;
    Ok(linked(Reply::ok(&kept.document.raw), &kept))
}

/// The snapshot in the path, before it is looked up.
struct SnapshotQuery {
    folder: Folder,
    workspace: Option<String>,
    id: String,
}

impl SnapshotQuery {
    fn from_request(cx: &Cx) -> Result<Self, Problem> {
        let who = cx.who()?;
        Ok(Self {
            folder: folder(cx, &who)?,
            workspace: who.workspace.clone(),
            id: cx.param("snapshotId").to_owned(),
        })
    }

    fn find(&self, id: &str) -> Result<Kept, Problem> {
        find(&self.folder, self.workspace.as_deref(), id)
    }

    /// One without secrets.
    fn find_clean(&self, id: &str) -> Result<Kept, Problem> {
        let kept = self.find(id)?;
        if kept.document.snapshot.is_unredacted() {
            Err(unredacted(StatusCode::FORBIDDEN))
        } else {
            Ok(kept)
        }
    }
}

/// The URL of a snapshot.
fn address(kept: &Kept) -> String {
    let id = segment(&kept.document.snapshot.snapshot_id);
    format!("/v1/snapshots/{id}")
}

/// A text as one segment of a path: an imported snapshot may have any id.
fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                segment.push(char::from(byte));
            }
            // A segment of one or two dots would be resolved as a path.
            b'.' if !matches!(text, "." | "..") => segment.push('.'),
            byte => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

/// A response with a link to the run.
fn linked(reply: Reply, kept: &Kept) -> Reply {
    let extensions = kept.document.snapshot.extensions.as_ref();
    match extensions.and_then(|more| more.run_id.as_deref()) {
        Some(run) => reply.with(
            hyper::header::LINK,
            format!("</v1/runs/{}>; rel=\"run\"", segment(run)),
        ),
        None => reply,
    }
}

/// The link from a run to its snapshots, if there may be any. Their addresses are of version 1.
pub(super) fn link(app: &App, run: &StreamId, contract: Contract) -> Option<String> {
    if contract == Contract::Two {
        return None;
    }
    let run = segment(run.as_str());
    let link = format!("</v1/snapshots?runId={run}>; rel=\"snapshots\"");
    app.snapshots().map(|_| link)
}

async fn verify(cx: Cx) -> Result<Reply, Problem> {
    let asked = SnapshotQuery::from_request(&cx)?;
    let verified = with_files(move || {
        let kept = asked.find(&asked.id)?;
        asked
            .folder
            .verify(&kept, Strictness::Strict)
            .map_err(failed)
    });
    Ok(Reply::ok(&verified.await?))
}

async fn comparison(cx: Cx) -> Result<Reply, Problem> {
    let asked = SnapshotQuery::from_request(&cx)?;
    let query = cx.query();
    let with = query.get("with").map(str::to_owned);
    let options = options(&query)?;
    let found = with_files(move || {
        let a = asked.find_clean(&asked.id)?;
        let with =
            with.ok_or_else(|| Problem::invalid("`with` is required: the other snapshot"))?;
        let b = asked.find_clean(&with)?;
        let folder = &asked.folder;
        let calls = |kept: &Kept| folder.calls(&kept.path).map_err(failed);
        let (calls_a, calls_b) = (calls(&a)?, calls(&b)?);
        let contents = |hash: &str| folder.blob(hash).ok();
        let one = Side {
            snapshot: &a.document.snapshot,
            calls: &calls_a,
            contents: &contents,
        };
        let other = Side {
            snapshot: &b.document.snapshot,
            calls: &calls_b,
            contents: &contents,
        };
        Ok(compare(&one, &other, &options))
    });
    Ok(Reply::ok(&found.await?))
}

/// The options of a comparison in the query. Meanings are not compared: that would send texts to
/// another service.
fn options(query: &Query) -> Result<Options<'static>, Problem> {
    let mut options = Options {
        strategy: word(query, "strategy", "exact, semantic or structural")?,
        ..Options::default()
    };
    if let Some(similarity) = query.get("similarity") {
        let number = similarity.parse::<f32>().ok();
        let number = number.filter(|number| (0.0..=1.0).contains(number));
        let wrong = || Problem::invalid("`similarity` is a number from 0 to 1");
        options.similarity = number.ok_or_else(wrong)?;
    }
    if let Some(fields) = query.get("fields") {
        options.fields = Fields {
            artifacts: Part::Left,
            tool_calls: Part::Left,
        };
        for field in fields.split(',') {
            match field {
                "artifacts" => options.fields.artifacts = Part::Taken,
                "tool_calls" => options.fields.tool_calls = Part::Taken,
                "none" => {}
                _ => {
                    return Err(Problem::invalid(
                        "`fields` takes `artifacts`, `tool_calls` or `none`",
                    ));
                }
            }
        }
    }
    Ok(options)
}

/// A parameter that is one of some words.
fn word<T: DeserializeOwned>(query: &Query, name: &str, words: &str) -> Result<Option<T>, Problem> {
    let Some(typed) = query.get(name) else {
        return Ok(None);
    };
    let read = serde_json::from_value(typed.into());
    read.map(Some)
        .map_err(|_| Problem::invalid(format!("`{name}` is {words}")))
}

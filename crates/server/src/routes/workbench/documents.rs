//! Listing, reading, saving and deleting runs.

use bytes::Bytes;
use faces::workbench::document::Read;
use faces::workbench::{document, list};
use hyper::header::{CACHE_CONTROL, ETAG, IF_MATCH, IF_NONE_MATCH};
use hyper::{HeaderMap, Method, StatusCode};
use kernel::digest::Digest;
use kernel::document::{DocumentCommand, Expected, Save, Via};
use runtime::access::Action;
use runtime::api::{DocumentError, DocumentSave, Outcome};

use super::answer::{described, empty, invalid, or_absent, refused};
use super::{body, query};
use crate::limits::Saves;
use crate::problem::Problem;
use crate::reply::{JSON, Reply};
use crate::route::{Access, Cx, Doc, Route};

/// The size in bytes from which bodies are parsed in a separate thread.
const LARGE: usize = 128 << 10;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let id = |operation, summary, request, responses| Doc {
        operation,
        summary,
        parameters: &[
            (
                "query",
                "revision",
                "an earlier revision of the run (GET only)",
            ),
            (
                "query",
                "save",
                "an earlier save of the run, by its number (GET only)",
            ),
            (
                "header",
                "If-Match",
                "the ETag of the save to continue (PUT only)",
            ),
            (
                "header",
                "If-None-Match",
                "the ETag of the client's save; * for none",
            ),
        ],
        request,
        responses,
    };
    vec![
        Route::new(
            Method::GET,
            "/api/runs",
            Access::May(Action::ReadRun),
            list,
            Doc {
                operation: "listRuns",
                summary: "List runs for the caller's tenant",
                parameters: &[
                    ("query", "limit", "rows, 1 to 500 [default: 100]"),
                    ("query", "cursor", "the end of the previous page"),
                    (
                        "query",
                        "status",
                        "only this status; may be given several times",
                    ),
                    ("query", "workflowId", "only runs of this workflow"),
                    ("query", "tag", "only runs with this tag"),
                    ("query", "parentRunId", "only children of this run"),
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
                    ("query", "gates", "pending: only runs with a waiting gate"),
                    ("query", "q", "a text in id, workflow, title or tags"),
                    ("query", "text", "a text in an event of the trace"),
                ],
                request: None,
                responses: &[(200, "SavedRunMetas"), (401, "ErrorBody")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/api/runs/{runId}",
            Access::May(Action::ReadRun),
            get,
            id(
                "getRun",
                "Fetch a serialized run state",
                None,
                &[(200, "SerializedRunStoreState"), (304, ""), (404, "")],
            ),
        )
        .closed(),
        Route::new(
            Method::PUT,
            "/api/runs/{runId}",
            Access::May(Action::SaveDocument),
            put,
            id(
                "putRun",
                "Persist a new revision of a run state",
                Some("SerializedRunStoreState"),
                &[
                    (204, ""),
                    (400, "ErrorBody"),
                    (409, "ErrorBody"),
                    (413, "ErrorBody"),
                ],
            ),
        ),
        Route::new(
            Method::DELETE,
            "/api/runs/{runId}",
            Access::May(Action::CancelRun),
            delete,
            id("deleteRun", "Delete a run", None, &[(204, "")]),
        ),
    ]
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let filter = query::filter(&cx.query())?;
    let page = cx.app.api().documents(&who, filter).await?;
    let rows: Vec<_> = page.rows.iter().map(|row| list::Row(&row.index)).collect();
    let next = page.next.as_ref().map(|next| {
        let mut others = url::form_urlencoded::Serializer::new(String::new());
        let given = url::form_urlencoded::parse(cx.uri.query().unwrap_or_default().as_bytes());
        others.extend_pairs(given.filter(|(name, _)| name != "cursor"));
        others.append_pair("cursor", &query::write_cursor(next));
        format!("</api/runs?{}>; rel=\"next\"", others.finish())
    });
    Ok(described(Reply::ok(&rows), next))
}

/// The tag of a document: its digest.
pub(super) fn tag(digest: Digest) -> String {
    format!("\"{digest}\"")
}

fn tags(headers: &HeaderMap, name: hyper::header::HeaderName) -> Vec<String> {
    let given = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let tags = given.flat_map(|text| text.split(','));
    tags.map(|tag| tag.trim().trim_start_matches("W/").to_owned())
        .collect()
}

/// The save in the query; `None` for the last one.
pub(super) fn which(
    query: &crate::params::Query,
    (revision, save): (&'static str, &'static str),
    document: &kernel::document::Document,
) -> Result<Option<u64>, Problem> {
    let number = |name: &'static str| match query.get(name) {
        None | Some("") => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(invalid("revision and save are whole numbers")),
        },
    };
    if let Some(save) = number(save)? {
        return Ok(Some(save));
    }
    match number(revision)? {
        None => Ok(None),
        Some(revision) => match document.save_of(revision) {
            Some(save) => Ok(Some(save.number)),
            None => Err(DocumentError::NoSuchSave.into()),
        },
    }
}

async fn get(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let document = match cx.app.api().document_saves(&who, &id).await {
        Ok(document) => document,
        Err(error) => return or_absent(error.into()),
    };
    let number = which(&cx.query(), ("revision", "save"), &document)?;
    let saves = document.saves();
    let number = number.unwrap_or(saves.len() as u64);
    let save = usize::try_from(number)
        .ok()
        .and_then(|number| saves.get(number.checked_sub(1)?));
    let Some(save) = save else {
        return Err(DocumentError::NoSuchSave.into());
    };
    let tag = tag(save.digest);
    if tags(&cx.headers, IF_NONE_MATCH)
        .iter()
        .any(|known| *known == tag || known == "*")
    {
        return Ok(empty(StatusCode::NOT_MODIFIED).with(ETAG, tag));
    }
    let is_last = number == saves.len() as u64;
    let canonical = match document.canonical().filter(|_| is_last) {
        Some(canonical) => canonical.clone(),
        None => {
            let api = cx.app.api();
            api.document_text_at(&who, &id, number).await?
        }
    };
    let bytes = Bytes::from_owner(canonical);
    let reply = Reply::bytes(StatusCode::OK, JSON, bytes).with(ETAG, tag);
    Ok(described(
        reply.with(CACHE_CONTROL, "private, no-cache"),
        None,
    ))
}

async fn put(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let bytes = body::read(&mut cx).await?;
    let expected = expected(&cx)?;
    // Most of it is usually equal to the previous text.
    let known = cx.app.api().document_sent(&who, &id)?;
    let parse = {
        let id = id.clone();
        move |bytes: Vec<u8>| document::parse(bytes, &id, known.as_ref())
    };
    let body = if bytes.len() < LARGE {
        parse(bytes)
    } else {
        tokio::task::spawn_blocking(move || parse(bytes))
            .await
            .map_err(|_| Problem::internal())?
    };
    let Read { body, text, sent } = body.map_err(refused)?;
    let save = Save {
        body,
        text,
        via: Via::Client,
        expected,
    };
    let command = DocumentCommand::Save(Box::new(save));
    let order = DocumentSave {
        id,
        command,
        sent,
        request_id: Some(cx.trace.id().to_owned()),
    };
    let outcome = cx.app.api().save_document(&who, order).await?;
    Ok(saved(&outcome, empty(StatusCode::NO_CONTENT)))
}

/// A response with the result of a save.
pub(super) fn saved(outcome: &Outcome, reply: Reply) -> Reply {
    let Some(save) = outcome.save() else {
        return reply;
    };
    let header = hyper::header::HeaderName::from_static;
    let mut reply = reply
        .with(ETAG, tag(save.digest))
        .with(header("run-revision"), save.revision.to_string())
        .with(header("run-save"), save.number.to_string());
    if let (Some(replaced), false) = (save.replaced, outcome.unchanged) {
        reply = reply.with(header("run-replaced-save"), replaced.to_string());
    }
    if save.put_back > 0 {
        reply = reply.with(header("run-put-back"), save.put_back.to_string());
    }
    match outcome.held.document.unknown_events() {
        0 => reply,
        count => reply.with(header("run-unknown-events"), count.to_string()),
    }
}

fn expected(cx: &Cx) -> Result<Expected, Problem> {
    let known = tags(&cx.headers, IF_MATCH);
    if let [tag] = known.as_slice() {
        let digest = tag.trim_matches('"').parse();
        return digest.map(Expected::Digest).map_err(|_| {
            let what = "If-Match must be the ETag of an earlier answer";
            Problem::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", what)
        });
    }
    if !known.is_empty() {
        return Err(invalid("If-Match must have one ETag"));
    }
    if tags(&cx.headers, IF_NONE_MATCH) == ["*"] {
        return Ok(Expected::Nothing);
    }
    Ok(match cx.app.limits().saves {
        Saves::LastWins => Expected::Anything,
        Saves::Continue => Expected::Continuation,
    })
}

async fn delete(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, query::named(&cx)?);
    let api = cx.app.api();
    api.delete_document(&who, &id, Some(cx.trace.id())).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

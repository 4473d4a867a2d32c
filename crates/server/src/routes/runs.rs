//! Reading, listing and cancelling runs.

use kernel::run::RunStatus;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use faces::openwop::v1;
use faces::workbench::run_view;
use hyper::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, LINK};
use hyper::{HeaderMap, Method, StatusCode};
use kernel::digest::Digest;
use kernel::ids::StreamId;
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use runtime::access::{Action, Principal};
use runtime::api::{Api, ApiError, ResourceKind, RunFilter, RunPage};
use serde_json::{Value, json};
use store::ListCursor;

use super::steering::reason;
use super::{interrupts, snapshots};
use crate::contract::Contract;
use crate::params::{Query, run_id};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{ACCESS_TOKEN, Access, Cx, Doc, Route};
use crate::routes::workbench::view;

/// The default number of rows per page.
const PAGE: u64 = 50;
/// The most rows per page.
const MAX_PAGE: u64 = 500;

/// The most conditions on members of the metadata.
const MAX_ATTRIBUTES: usize = 8;

type Parameter = (&'static str, &'static str, &'static str);
pub(super) const WORKFLOW: Parameter = ("query", "workflowId", "only runs of this workflow");
pub(super) const TAG: Parameter = ("query", "tag", "only runs with this tag");
const PARENT: Parameter = ("query", "parentRunId", "only children of this run");
pub(super) const PRINCIPAL: Parameter = (
    "query",
    "principal",
    "only runs that this principal created",
);
const ATTRIBUTE: Parameter = (
    "query",
    "attribute",
    "NAME=VALUE: only runs with this member of the metadata; may be given several times",
);
const TEXT: Parameter = (
    "query",
    "text",
    "only runs whose id, workflow, creator, error, tags or metadata contain this, ignoring case",
);
pub(super) const AFTER: Parameter = (
    "query",
    "createdAfter",
    "only runs created at this time or later",
);
pub(super) const BEFORE: Parameter = (
    "query",
    "createdBefore",
    "only runs created before this time",
);

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let cancels = |path, operation, summary| {
        Route::new(
            Method::POST,
            path,
            Access::May(Action::CancelRun),
            cancel,
            Doc {
                operation,
                summary,
                parameters: &[],
                request: Some("CancelOrder"),
                responses: &[(200, "RunStatus")],
            },
        )
        .keyed()
    };
    vec![
        Route::new(
            Method::GET,
            "/v1/runs",
            Access::May(Action::ReadRun),
            list,
            Doc {
                operation: "listRuns",
                summary: "Runs, newest first (extension)",
                parameters: &[
                    WORKFLOW,
                    (
                        "query",
                        "status",
                        "only this status; may be given several times",
                    ),
                    TAG,
                    PARENT,
                    PRINCIPAL,
                    ATTRIBUTE,
                    TEXT,
                    AFTER,
                    BEFORE,
                    ("query", "limit", "rows of a page, 1 to 500"),
                    ("query", "cursor", "nextCursor of the previous page"),
                ],
                request: None,
                responses: &[(200, "RunList")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/runs:count",
            Access::May(Action::ReadRun),
            count,
            Doc {
                operation: "countRuns",
                summary: "Counts runs by status (extension)",
                parameters: &[
                    WORKFLOW, TAG, PARENT, PRINCIPAL, ATTRIBUTE, TEXT, AFTER, BEFORE,
                ],
                request: None,
                responses: &[(200, "RunCounts")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/runs/{runId}",
            Access::May(Action::ReadRun),
            get,
            Doc {
                operation: "getRun",
                summary: "The state of a run",
                parameters: &[
                    (
                        "header",
                        "If-None-Match",
                        "the ETag of the client's snapshot",
                    ),
                    ACCESS_TOKEN,
                ],
                request: None,
                responses: &[(200, "RunSnapshot"), (304, "")],
            },
        ),
        Route::new(
            Method::POST,
            "/v1/runs/{runId}/tokens",
            Access::May(Action::ReadRun),
            issue_token,
            Doc {
                operation: "issueReadToken",
                summary: "Issues a token that reads this run for some minutes (extension)",
                parameters: &[],
                request: Some("ReadTokenOrder"),
                responses: &[(201, "ReadToken")],
            },
        )
        .keyed(),
        cancels("/v1/runs/{runId}/cancel", "cancelRun", "Cancels a run"),
        cancels(
            "/v1/runs/{runId}:cancel",
            "cancelRunByVerb",
            "Cancels a run; an alias",
        ),
    ]
}

/// The run in the path.
pub(super) fn named(cx: &Cx) -> Result<StreamId, Problem> {
    let id = run_id(cx.param("runId"));
    id.ok_or_else(|| ApiError::NotFound(ResourceKind::Run).into())
}

async fn issue_token(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let api = cx.app.api().clone();
    // Ownership is checked before the request.
    api.version(&who, &run).await?;
    let mut body = cx.object_or_nothing().await?;
    let life = match body.remove("expiresInMs").map(|ms| ms.as_u64()) {
        None => None,
        Some(Some(ms @ 1_000..=900_000)) => Some(Duration::from_millis(ms)),
        Some(_) => {
            let message = "expiresInMs is a number of milliseconds, 1000 to 900000";
            return Err(Problem::invalid(message));
        }
    };
    if !body.is_empty() {
        return Err(Problem::invalid("the body takes expiresInMs, or is empty"));
    }
    let made = api.read_token(&who, &run, life).await?;
    let doc = json!({
        "runId": run, "token": made.text, "expiresAt": made.expires_at.to_string(),
    });
    Ok(Reply::json(StatusCode::CREATED, &doc))
}

async fn get(cx: Cx) -> Result<Reply, Problem> {
    get_in(cx, Contract::One).await
}

/// The snapshot of a run, in the wire format of a contract.
pub(super) async fn get_in(cx: Cx, contract: Contract) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    if view::is_document(&run) {
        return view::snapshot(cx, run, contract).await;
    }
    if cx.headers.contains_key(IF_NONE_MATCH) {
        let version = cx.app.api().version(&who, &run).await?;
        let tag = etag(&cx, &who, &run, version.0, version.1);
        if is_known(&cx.headers, &tag) {
            return Ok(unchanged(tag));
        }
    }
    let read = cx.app.api().run(&who, &run).await?;
    let mut snapshot = v1::snapshot(&read);
    let mut tag = etag(&cx, &who, &run, read.head.next_seq, read.is_settled());
    if let (true, Some(children)) = (read.is_settled(), snapshot.get("childRuns")) {
        // Children may continue after the log of their parent has ended.
        let children = Digest::compute(children.to_string().as_bytes());
        tag = format!("{}-{children}\"", tag.trim_end_matches('"'));
        if is_known(&cx.headers, &tag) {
            return Ok(unchanged(tag));
        }
    }
    for token in interrupts::tokens(cx.app.api(), &who, &read) {
        let is_it = |open: &Value| open["interruptId"] == token.interrupt.as_str();
        let all = snapshot["interrupts"].as_array_mut().into_iter().flatten();
        for open in all.filter(|open| is_it(open)) {
            crate::token::with_token(open, &token);
        }
        if snapshot.get("interrupt").is_some_and(is_it) {
            crate::token::with_token(&mut snapshot["interrupt"], &token);
        }
    }
    if contract == Contract::Two {
        snapshot = super::v2::snapshot(&read.header.owner, snapshot);
    }
    let reply = Reply::ok(&snapshot)
        .with(ETAG, tag)
        .with(CACHE_CONTROL, "private, no-cache");
    Ok(match snapshots::link(&cx.app, &run, contract) {
        Some(link) => reply.with(LINK, link),
        None => reply,
    })
}

fn unchanged(tag: String) -> Reply {
    Reply::Whole {
        status: StatusCode::NOT_MODIFIED,
        headers: HeaderMap::new(),
        body: Bytes::new(),
    }
    .with(ETAG, tag)
}

/// The tag of a snapshot. It depends on the newest event's sequence only, and for callers who may
/// answer on the shown tokens.
fn etag(cx: &Cx, who: &Principal, run: &StreamId, next_seq: u64, is_settled: bool) -> String {
    let seq = next_seq.saturating_sub(1);
    if !is_settled && who.scopes.has(Action::AnswerRun.scope()) {
        format!("\"{run}-{seq}-{}\"", cx.app.api().token_window())
    } else {
        format!("\"{run}-{seq}\"")
    }
}

/// Whether `If-None-Match` names a tag.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(|known| known.trim());
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let filter = conditions(&cx.query(), filter(&cx.query(), MAX_PAGE)?)?;
    let RunPage { runs, next, .. } = cx.app.api().runs(&who, filter).await?;
    let rows: Vec<Value> = runs.iter().map(row).collect();
    let mut page = json!({ "runs": rows });
    if let Some(next) = next {
        page["nextCursor"] = json!(write_cursor(&next));
    }
    Ok(Reply::ok(&page))
}

async fn count(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let filter = conditions(&cx.query(), filter(&cx.query(), MAX_PAGE)?)?;
    let counts = cx.app.api().count_runs(&who, filter).await?;
    Ok(Reply::ok(&json!({
        "total": counts.by_status.values().sum::<u64>(),
        "byStatus": counts.by_status,
        "complete": counts.is_complete,
    })))
}

/// The page of runs that a query asks for.
pub(super) async fn page(
    api: &Api,
    query: Query,
    who: &Principal,
    most: u64,
) -> Result<RunPage, Problem> {
    Ok(api.runs(who, filter(&query, most)?).await?)
}

/// The conditions of our own.
pub(super) fn conditions(query: &Query, filter: RunFilter) -> Result<RunFilter, Problem> {
    let attribute = |text: &str| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && text.chars().count() <= 512 => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(Problem::invalid(
            "attribute must be NAME=VALUE, the name and value of a member of the metadata",
        )),
    };
    let attributes: Result<Vec<_>, _> = query.all("attribute").map(attribute).collect();
    let attributes = attributes?;
    if attributes.len() > MAX_ATTRIBUTES {
        return Err(Problem::invalid("attribute can occur at most 8 times"));
    }
    Ok(RunFilter {
        principal: bounded(query, "principal")?,
        text: bounded(query, "text")?.filter(|text| !text.is_empty()),
        since: time(query, "createdAfter")?,
        until: time(query, "createdBefore")?,
        attributes,
        ..filter
    })
}

/// A time of a query, if it is present.
fn time(query: &Query, name: &str) -> Result<Option<Timestamp>, Problem> {
    let wrong = || {
        Problem::invalid(format!(
            "{name} must be a time such as 2026-01-31T08:00:00Z"
        ))
    };
    let read = |text| Timestamp::parse_end(text).ok_or_else(wrong);
    query.get(name).map(read).transpose()
}

/// The filter of the protocol.
pub(super) fn filter(query: &Query, most: u64) -> Result<RunFilter, Problem> {
    let statuses: Vec<String> = query.all("status").map(str::to_owned).collect();
    let is_status = |status: &String| RunStatus::parse(status).is_some();
    if statuses.len() > 16 || !statuses.iter().all(is_status) {
        return Err(Problem::invalid(format!(
            "status can occur at most 16 times and must be one of {}",
            RunStatus::ALL.map(RunStatus::as_str).join(", ")
        )));
    }
    let parent = match bounded(query, "parentRunId")? {
        Some(parent) => {
            Some(run_id(&parent).ok_or_else(|| Problem::invalid("parentRunId must be a run id"))?)
        }
        None => None,
    };
    let after = match query.get("cursor") {
        Some(text) => Some(read_cursor(text)?),
        None => None,
    };
    let limit = query.number("limit", 1..=most)?.unwrap_or(PAGE);
    Ok(RunFilter {
        workflow: bounded(query, "workflowId")?,
        statuses,
        tag: bounded(query, "tag")?,
        parent,
        after,
        limit: limit as usize,
        ..RunFilter::default()
    })
}

/// A text of a query, if it is present.
pub(super) fn bounded(query: &Query, name: &'static str) -> Result<Option<String>, Problem> {
    match query.get(name) {
        Some(text) if text.chars().count() > 256 || text.contains('\0') => {
            let message = format!("{name} has at most 256 characters, and no NUL");
            Err(Problem::invalid(message))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

fn row(listed: &store::Listed) -> Value {
    let index = &listed.index;
    if index.kind == StreamKind::Document {
        return run_view::row(&listed.stream, listed.next_seq, index);
    }
    let mut row = json!({
        "runId": listed.stream,
        "workflowId": index.subject,
        "status": index.status,
        "createdAt": index.created_at.to_string(),
        "updatedAt": index.updated_at.to_string(),
        "settled": index.settled,
        "events": listed.next_seq,
        "tags": index.tags,
    });
    if let Some(parent) = &index.parent {
        row["parentRunId"] = json!(parent);
    }
    if let Some(code) = index.summary.get("error") {
        row["error"] = json!({ "code": code });
    }
    if let Some(workspace) = &index.workspace {
        row["workspace"] = json!(workspace);
    }
    for name in ["principal", "attributes"] {
        if let Some(found) = index.summary.get(name) {
            row[name] = found.clone();
        }
    }
    row
}

pub(super) fn write_cursor(cursor: &ListCursor) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(cursor).unwrap_or_default())
}

pub(super) fn read_cursor(text: &str) -> Result<ListCursor, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let cursor = bytes.and_then(|bytes| serde_json::from_slice::<ListCursor>(&bytes).ok());
    cursor
        .filter(|cursor| run_id(cursor.stream.as_str()).is_some())
        .ok_or_else(|| Problem::invalid("cursor must be the nextCursor of another page"))
}

async fn cancel(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    // Ownership is checked before the request.
    cx.app.api().may_cancel(&who, &run).await?;
    let mut body = cx.object_or_nothing().await?;
    let reason = reason(&mut body, 4_096)?;
    let request_id = Some(cx.trace.id());
    let api = cx.app.api();
    let status = api.cancel_run(&who, &run, reason, request_id).await?;
    Ok(Reply::ok(&json!({ "runId": run, "status": status })))
}

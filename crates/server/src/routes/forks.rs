//! Forking runs, comparing two, and the lineage of one.

use std::collections::VecDeque;

use faces::Mask;
use faces::openwop::{v1, v2};
use hyper::{Method, StatusCode};
use kernel::digest::Digest;
use kernel::ids::Seq;
use kernel::problem::{ProblemCode, Problems};
use kernel::run::{Event, Overlay};
use kernel::stream::ForkMode;
use runtime::access::Action;
use runtime::api::{ApiError, ForkRequest, KeyedBy, Tail};
use runtime::redact::Redactor;
use serde_json::{Map, Value, json};
use store::StoreError;

use super::runs::named;
use super::workbench::view;
use crate::contract::Contract;
use crate::idempotency;
use crate::params::run_id;
use crate::problem::{Problem, unknown_fields};
use crate::reply::REPLAYED;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// Events read at a time.
const PAGE: usize = 64;
/// The name of this host among runs of several hosts.
pub(crate) const HOST_ID: &str = "runwright";

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let reads = Access::May(Action::ReadRun);
    vec![
        Route::new(
            Method::POST,
            "/v1/runs/{runId}:fork",
            Access::May(Action::CreateRun),
            fork,
            Doc {
                operation: "forkRun",
                summary: "Starts a run with a part of another, to repeat it or to continue differently. \
                          Needs runs:read as well",
                parameters: &[(
                    "header",
                    "Idempotency-Key",
                    "1 to 255 characters; the same key and body make one fork",
                )],
                request: Some("ForkOrder"),
                responses: &[(201, "ForkedRun")],
            },
        ),
        Route::new(
            Method::GET,
            "/v1/runs/{runId}:diff",
            reads,
            diff,
            Doc {
                operation: "diffRuns",
                summary: "Differences between two runs",
                parameters: &[("query", "against", "the other run")],
                request: None,
                responses: &[(200, "RunDiff")],
            },
        ),
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/ancestry",
            reads,
            ancestry,
            Doc {
                operation: "runAncestry",
                summary: "The ancestors of a run",
                parameters: &[],
                request: None,
                responses: &[(200, "RunAncestry")],
            },
        ),
    ]
}

pub(super) async fn fork(cx: Cx) -> Result<Reply, Problem> {
    let is_keyed = cx.headers.contains_key(idempotency::KEY);
    fork_once(cx).await.map_err(|problem| {
        if is_keyed {
            problem.first_answer()
        } else {
            problem
        }
    })
}

/// The transaction that completes the fork claims the key, not the pipeline.
async fn fork_once(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, source) = (cx.who()?, named(&cx)?);
    let key = idempotency::key(&cx.headers)?;
    // Ownership is checked before the request.
    let may = cx.app.api().may_fork(&who, &source).await;
    may.map_err(|error| of_source(error, &source))?;
    let body = cx.object().await?;
    let digest = Digest::compute(&kernel::json::canonical(&Value::Object(body.clone())));
    let mut request = read(body)?;
    let (mode, is_keyed) = (request.mode, key.is_some());
    request.request_id = Some(cx.trace.id().to_owned());
    request.trace.clone_from(&cx.trace.context);
    request.keyed = key.map(|key| KeyedBy {
        key,
        operation: format!("POST /v1/runs/{source}/fork"),
        request: digest,
    });
    let forked = cx.app.api().fork_run(&who, &source, request).await;
    let forked = forked.map_err(|error| of_source(error, &source))?;
    let run = &forked.run;
    let mut answer = json!({
        "runId": run,
        "sourceRunId": source,
        "fromSeq": forked.from,
        "mode": mode,
        "status": forked.status,
        "eventsUrl": format!("/v1/runs/{run}/events"),
        "statusUrl": format!("/v1/runs/{run}"),
    });
    if let Some(seq) = forked.diverged_at {
        answer["divergedAtSeq"] = json!(seq);
    }
    let reply = Reply::json(StatusCode::CREATED, &answer);
    Ok(match (is_keyed, forked.is_again) {
        (true, true) => reply.with(REPLAYED, "true"),
        (true, false) => reply.with(REPLAYED, "false"),
        (false, _) => reply,
    })
}

/// An error that names its run, by which the client knows the URL of the fork.
fn of_source(error: ApiError, source: &kernel::ids::StreamId) -> Problem {
    let is_about_source = matches!(error, ApiError::Erased { .. } | ApiError::Fork(_));
    let problem = Problem::from(error);
    if is_about_source && problem.status.is_client_error() {
        problem.with("sourceRunId", source.as_str())
    } else {
        problem
    }
}

/// Parses the body, and reports all problems. Unknown fields are ignored.
fn read(mut body: Map<String, Value>) -> Result<ForkRequest, Problem> {
    let mut problems = Problems::new();
    let mode = match body.remove("mode") {
        Some(Value::String(mode)) if mode == "replay" => Some(ForkMode::Replay),
        Some(Value::String(mode)) if mode == "branch" => Some(ForkMode::Branch),
        Some(Value::Null) | None => {
            let what = "is required: replay or branch";
            problems.add("/mode", ProblemCode::MissingField, what);
            None
        }
        Some(_) => {
            problems.add(
                "/mode",
                ProblemCode::InvalidValue,
                "must be replay or branch",
            );
            None
        }
    };
    let from = match body.remove("fromSeq") {
        None | Some(Value::Null) => None,
        Some(given) => match given.as_u64() {
            Some(seq) => Some(seq),
            None => {
                let what = "must be a whole number of at least 0";
                problems.add("/fromSeq", ProblemCode::InvalidValue, what);
                None
            }
        },
    };
    let overlay = match body.remove("runOptionsOverlay") {
        None | Some(Value::Null) => Overlay::default(),
        Some(Value::Object(overlay)) => read_overlay(overlay, &mut problems),
        Some(_) => {
            let what = "must be an object";
            problems.add("/runOptionsOverlay", ProblemCode::WrongType, what);
            Overlay::default()
        }
    };
    let definition = match body.remove("definition") {
        None | Some(Value::Null) => None,
        Some(definition @ Value::Object(_)) => Some(definition),
        Some(_) => {
            problems.add("/definition", ProblemCode::WrongType, "must be an object");
            None
        }
    };
    if mode == Some(ForkMode::Branch) && from.is_none() && problems.is_empty() {
        let what = "is required for a branch: events below it are copied";
        problems.add("/fromSeq", ProblemCode::MissingField, what);
    }
    problems.or(())?;
    Ok(ForkRequest {
        mode: mode.unwrap_or(ForkMode::Replay),
        from,
        overlay,
        definition,
        trace: None,
        keyed: None,
        request_id: None,
    })
}

/// An overlay. Empty members change nothing and count as missing.
fn read_overlay(mut overlay: Map<String, Value>, problems: &mut Problems) -> Overlay {
    let mut object = |overlay: &mut Map<String, Value>, name: &str| match overlay.remove(name) {
        None | Some(Value::Null) => None,
        Some(Value::Object(object)) => (!object.is_empty()).then_some(object),
        Some(_) => {
            let path = format!("/runOptionsOverlay/{name}");
            problems.add(path, ProblemCode::WrongType, "must be an object");
            None
        }
    };
    let configurable = object(&mut overlay, "configurable");
    let metadata = object(&mut overlay, "metadata");
    let tags = match overlay.remove("tags") {
        None | Some(Value::Null) => None,
        Some(tags) => match serde_json::from_value::<Vec<String>>(tags) {
            Ok(tags) => (!tags.is_empty()).then_some(tags),
            Err(_) => {
                let path = "/runOptionsOverlay/tags";
                problems.add(path, ProblemCode::WrongType, "must be an array of texts");
                None
            }
        },
    };
    let known = ["tags", "metadata", "configurable"];
    unknown_fields(&overlay, "/runOptionsOverlay", &known, problems);
    Overlay {
        tags,
        metadata,
        configurable,
    }
}

async fn diff(cx: Cx) -> Result<Reply, Problem> {
    diff_in(cx, Contract::One).await
}

/// The differences between two runs, in the wire format of a contract.
pub(super) async fn diff_in(cx: Cx, contract: Contract) -> Result<Reply, Problem> {
    let (who, a) = (cx.who()?, named(&cx)?);
    let api = cx.app.api();
    // Ownership is checked before the query.
    let a_log = if view::is_document(&a) {
        Err(api.document_view(&who, &a).await?)
    } else {
        Ok(api.follow(&who, &a, None).await?)
    };
    let against = cx.query().get("against").map(str::to_owned);
    let against = against.ok_or_else(|| Problem::invalid("against names the other run"))?;
    let not_there = || ApiError::NotFound(runtime::api::ResourceKind::Run);
    let b = run_id(&against).ok_or_else(not_there)?;
    let a_log = match a_log {
        Ok(log) => log,
        Err(document) => return view::diff(api, &who, (&document, &b), contract).await,
    };
    let b_log = api.follow(&who, &b, None).await?;
    let (mut a_log, mut b_log) = (Reading::new(a_log), Reading::new(b_log));
    let mut diff = v1::Diff::default();
    for seq in 0.. {
        let (a, b) = (a_log.next().await?, b_log.next().await?);
        if a.is_none() && b.is_none() {
            break;
        }
        let (a_of, b_of) = (a_log.tail.header(), b_log.tail.header());
        let (a_mask, b_mask) = (
            Mask::from_plan(a_log.tail.plan()),
            Mask::from_plan(b_log.tail.plan()),
        );
        let a = a.as_ref().map(|event| (&**a_of, a_mask, event));
        let b = b.as_ref().map(|event| (&**b_of, b_mask, event));
        if !diff.pair(seq, a, b) {
            break;
        }
    }
    let (a, b) = (api.run(&who, &a).await?, api.run(&who, &b).await?);
    let mut answer = diff.build(&a, &b);
    if contract == Contract::Two {
        answer = v2::project_diff([&a.header.owner, &b.header.owner], answer);
    }
    // The logs contain no secrets; this is the second line of defence.
    Redactor::masking().value(&mut answer["stateDiff"]);
    Ok(Reply::ok(&answer))
}

/// A log read event by event, up to its length when it was opened.
struct Reading {
    tail: Tail,
    read: VecDeque<Event>,
    /// The end of the log at the first read; `None` before it.
    end: Option<Seq>,
    next: Seq,
}

impl Reading {
    fn new(tail: Tail) -> Self {
        Self {
            tail,
            read: VecDeque::new(),
            end: None,
            next: 0,
        }
    }

    async fn next(&mut self) -> Result<Option<Event>, StoreError> {
        if self.read.is_empty() && self.end.is_none_or(|end| self.next < end) {
            let page = self.tail.page(PAGE).await?;
            self.end.get_or_insert(page.end);
            self.read
                .extend(page.events.into_iter().map(|(event, _)| event));
        }
        let is_there = self.end.is_some_and(|end| self.next < end);
        let event = is_there.then(|| self.read.pop_front()).flatten();
        self.next += u64::from(event.is_some());
        Ok(event)
    }
}

pub(super) async fn ancestry(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let lineage = cx.app.api().lineage(&who, &run).await?;
    let parent = lineage.parent.as_ref();
    let parent = parent.map(|(parent, node_type)| (parent, node_type.as_deref()));
    Ok(Reply::ok(&v1::ancestry(HOST_ID, &run, parent)))
}

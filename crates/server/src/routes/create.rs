//! Creating runs.

use hyper::{Method, StatusCode};
use kernel::digest::Digest;
use kernel::problem::{ProblemCode, Problems};
use kernel::registry::WebhookContract;
use kernel::stream::QuestionNotices;
use runtime::access::Action;
use runtime::api::{ApiError, CreateRunRequest, Created, DuplicateRuns, KeyedBy};
use serde_json::{Map, Value, json};

use crate::idempotency;
use crate::openapi;
use crate::problem::{Problem, unknown_fields};
use crate::reply::REPLAYED;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(
        Method::POST,
        "/v1/runs",
        Access::May(Action::CreateRun),
        create,
        Doc {
            operation: "createRun",
            summary: "Creates a run and drives it",
            parameters: &[
                (
                    "header",
                    "Idempotency-Key",
                    "1 to 255 characters; the same key and body create one run",
                ),
                (
                    "header",
                    "X-Dedup",
                    "enforce: refuse while a run of the same workflow and scope is active",
                ),
                (
                    "header",
                    "X-Force-Engine-Version",
                    "with test keys: the engine version of the run",
                ),
                (
                    "header",
                    "traceparent",
                    "the span that the run continues (W3C Trace Context, with tracestate)",
                ),
            ],
            request: Some("RunOrder"),
            responses: &[(201, "CreatedRun")],
        },
    )]
}

async fn create(cx: Cx) -> Result<Reply, Problem> {
    create_in(cx, WebhookContract::V1).await
}

/// Creates a run. Notices of its questions are in `contract`.
pub(super) async fn create_in(cx: Cx, contract: WebhookContract) -> Result<Reply, Problem> {
    let is_keyed = cx.headers.contains_key(idempotency::KEY);
    create_once(cx, contract).await.map_err(|problem| {
        if is_keyed {
            problem.first_answer()
        } else {
            problem
        }
    })
}

/// The transaction that creates the run claims the key, not the pipeline.
async fn create_once(mut cx: Cx, contract: WebhookContract) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let key = idempotency::key(&cx.headers)?;
    let duplicate_runs = match cx.header("x-dedup")? {
        Some(value) if value.eq_ignore_ascii_case("enforce") => DuplicateRuns::Refused,
        Some(_) => return Err(Problem::invalid("X-Dedup must be enforce or absent")),
        None => DuplicateRuns::Allowed,
    };
    // Non-numeric values map to an unknown version.
    let engine_version = cx.header("x-force-engine-version")?;
    let engine_version = engine_version.map(|text| text.trim().parse().unwrap_or(u32::MAX));
    let body = cx.object().await?;
    let request = Digest::compute(&kernel::json::canonical(&Value::Object(body.clone())));
    let mut order = read(body, contract)?;
    order.duplicate_runs = duplicate_runs;
    order.trace.clone_from(&cx.trace.context);
    order.request_id = Some(cx.trace.id().to_owned());
    order.engine_version = engine_version;
    let is_keyed = key.is_some();
    order.keyed = key.map(|key| KeyedBy {
        key,
        operation: "POST /v1/runs".into(),
        request,
    });
    let (run, status, replayed) = match cx.app.api().create_run(&who, order).await? {
        Created::Fresh { run, status } => (run, status.to_string(), "false"),
        Created::Again(first) => (first.run, first.answer, "true"),
    };
    let reply = Reply::json(
        StatusCode::CREATED,
        &json!({
            "runId": run,
            "status": status,
            "eventsUrl": format!("/v1/runs/{run}/events"),
            "statusUrl": format!("/v1/runs/{run}"),
        }),
    );
    Ok(if is_keyed {
        reply.with(REPLAYED, replayed)
    } else {
        reply
    })
}

/// Parses the closed body of a creation, and reports all problems.
fn read(
    mut body: Map<String, Value>,
    contract: WebhookContract,
) -> Result<CreateRunRequest, Problem> {
    // Null counts as missing.
    body.retain(|_, value| !value.is_null());
    let mut problems = Problems::new();
    let mut text = |body: &mut Map<String, Value>, name: &'static str| match body.remove(name) {
        None => None,
        Some(Value::String(text)) if !text.is_empty() && text.len() <= 2_048 => Some(text),
        Some(_) => {
            let what = "must be a text of at most 2048 bytes";
            problems.add(format!("/{name}"), ProblemCode::WrongType, what);
            None
        }
    };
    let workflow = text(&mut body, "workflowId");
    let tenant = text(&mut body, "tenantId");
    let scope = text(&mut body, "scopeId");
    let callback = text(&mut body, "callbackUrl");
    let mode = text(&mut body, "mode");
    let suite = text(&mut body, "evalSuiteRef");
    let agent = text(&mut body, "agentId");
    let mut object = |body: &mut Map<String, Value>, name: &'static str| match body.remove(name) {
        None => Map::new(),
        Some(Value::Object(object)) => object,
        Some(_) => {
            problems.add(
                format!("/{name}"),
                ProblemCode::WrongType,
                "must be an object",
            );
            Map::new()
        }
    };
    let inputs = object(&mut body, "inputs");
    let metadata = object(&mut body, "metadata");
    let configurable = object(&mut body, "configurable");
    let tags = match body
        .remove("tags")
        .map(serde_json::from_value::<Vec<String>>)
    {
        None => Vec::new(),
        Some(Ok(tags)) => tags,
        Some(Err(_)) => {
            problems.add("/tags", ProblemCode::WrongType, "must be an array of texts");
            Vec::new()
        }
    };
    if !body.is_empty() {
        let known = openapi::fields("RunOrder");
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        unknown_fields(&body, "", &known, &mut problems);
    }
    if mode.as_deref().is_some_and(|mode| mode != "eval") {
        problems.add("/mode", ProblemCode::InvalidValue, "must be eval or absent");
    }
    let is_missing = workflow.is_none() && mode.is_none();
    if is_missing && problems.listed.iter().all(|p| p.path != "/workflowId") {
        let what = "workflowId is required: the id of the workflow to run";
        problems.add("/workflowId", ProblemCode::MissingField, what);
    }
    problems.or(())?;
    if mode.is_some() || suite.is_some() || agent.is_some() {
        let capability = "agents.evalSuite";
        return Err(ApiError::NotProvided { capability }.into());
    }
    Ok(CreateRunRequest {
        workflow: workflow.unwrap_or_default(),
        inputs,
        tenant,
        scope,
        tags,
        metadata,
        configurable,
        question_notices: callback.map(|url| QuestionNotices { url, contract }),
        transport: "rest",
        duplicate_runs: DuplicateRuns::Allowed,
        trace: None,
        request_id: None,
        keyed: None,
        engine_version: None,
    })
}

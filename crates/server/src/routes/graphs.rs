//! Drawings of workflows: positions and paths, for pages that paint them.

use hyper::header::{CACHE_CONTROL, ETAG};
use hyper::{HeaderMap, Method, StatusCode};
use kernel::digest::Digest;
use runtime::access::Action;
use runtime::api::{ApiError, CheckedWorkflow, ResourceKind};
use serde_json::{Value, json};

use super::runs::{is_known, named};
use super::workbench::view;
use crate::body;
use crate::params::workflow_id;
use crate::problem::{Problem, shown};
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let doc = |operation, summary, request, responses| Doc {
        operation,
        summary,
        parameters: &[],
        request,
        responses,
    };
    vec![
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/graph",
            Access::May(Action::ReadRun),
            of_run,
            doc(
                "getRunGraph",
                "The drawing of the definition that a run follows (extension)",
                None,
                &[(200, "Graph"), (304, "")],
            ),
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/workflow",
            Access::May(Action::ReadRun),
            definition,
            doc(
                "getRunWorkflow",
                "The definition that a run follows (extension). Needs manifest:read as well",
                None,
                &[(200, "Workflow")],
            ),
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/workflows/{workflowId}/graph",
            Access::May(Action::ReadWorkflows),
            of_workflow,
            doc(
                "getWorkflowGraph",
                "The drawing of a workflow (extension)",
                None,
                &[(200, "Graph"), (304, "")],
            ),
        )
        .closed(),
        Route::new(
            Method::POST,
            "/v1/workflows:check",
            Access::May(Action::ReadWorkflows),
            check,
            doc(
                "checkWorkflow",
                "Validates a definition and draws it, without registering it (extension)",
                Some("Workflow"),
                &[(200, "WorkflowCheck")],
            ),
        ),
    ]
}

async fn of_run(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    if view::is_document(&run) {
        // Ownership is checked before.
        cx.app.api().document_view(&who, &run).await?;
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "a run that a browser app recorded follows no definition, so it has no drawing",
        ));
    }
    let read = cx.app.api().run(&who, &run).await?;
    Ok(tagged(&cx, &faces::graph::draw(&read.plan)))
}

async fn definition(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let document = cx.app.api().workflow_of_run(&who, &run).await?;
    Ok(Reply::ok(&document))
}

async fn of_workflow(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let id = workflow_id(cx.param("workflowId"));
    let id = id.ok_or(ApiError::NotFound(ResourceKind::Workflow))?;
    let plan = cx.app.api().workflow_plan(&who, id).await?;
    Ok(tagged(&cx, &faces::graph::draw(&plan)))
}

fn tagged(cx: &Cx, drawing: &Value) -> Reply {
    let tag = format!("\"{}\"", Digest::compute(drawing.to_string().as_bytes()));
    let reply = if is_known(&cx.headers, &tag) {
        Reply::Whole {
            status: StatusCode::NOT_MODIFIED,
            headers: HeaderMap::new(),
            body: bytes::Bytes::new(),
        }
    } else {
        Reply::ok(drawing)
    };
    reply
        .with(ETAG, tag)
        .with(CACHE_CONTROL, "private, no-cache")
}

async fn check(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let limit = cx.app.limits().definition_bytes;
    let document = cx.bytes(limit).await?;
    // A body that is not an object is an invalid request, not an invalid workflow.
    body::object(&document)?;
    let checked = cx.app.api().check_workflow(&who, &document)?;
    Ok(Reply::ok(&match checked {
        CheckedWorkflow::Valid(plan) => json!({
            "valid": true, "problems": [], "warnings": findings(&plan.warnings),
            "graph": faces::graph::draw(&plan),
        }),
        CheckedWorkflow::Invalid(problems) => json!({
            "valid": false, "problems": findings(&problems.listed), "warnings": [],
        }),
    }))
}

fn findings(problems: &[kernel::problem::Problem]) -> Vec<Value> {
    problems.iter().map(shown).collect()
}

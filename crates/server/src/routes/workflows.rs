//! Workflows: read, list, register.

use hyper::{Method, StatusCode};
use runtime::access::Action;
use runtime::api::{ApiError, Registered, ResourceKind};
use serde_json::{Value, json};

use crate::body;
use crate::params::workflow_id;
use crate::problem::{Problem, shown};
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let reads = Access::May(Action::ReadWorkflows);
    let writes = Access::May(Action::WriteWorkflows);
    vec![
        Route::new(
            Method::GET,
            "/v1/workflows",
            reads,
            list,
            Doc {
                operation: "listWorkflows",
                summary: "The workflows that may be run (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "WorkflowList")],
            },
        )
        .closed(),
        Route::new(
            Method::POST,
            "/v1/workflows",
            writes,
            post,
            Doc {
                operation: "registerWorkflow",
                summary: "Registers a definition under the id it carries (extension)",
                parameters: &[],
                request: Some("Workflow"),
                responses: &[(201, "RegisteredWorkflow")],
            },
        )
        .keyed(),
        Route::new(
            Method::GET,
            "/v1/workflows/{workflowId}",
            reads,
            get,
            Doc {
                operation: "getWorkflow",
                summary: "A definition as it was registered",
                parameters: &[],
                request: None,
                responses: &[(200, "Workflow")],
            },
        ),
        Route::new(
            Method::PUT,
            "/v1/workflows/{workflowId}",
            writes,
            put,
            Doc {
                operation: "putWorkflow",
                summary: "Registers a definition, or another version of it (extension)",
                parameters: &[],
                request: Some("Workflow"),
                responses: &[(200, "RegisteredWorkflow")],
            },
        )
        .keyed(),
    ]
}

pub(super) async fn get(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let id = workflow_id(cx.param("workflowId"));
    let id = id.ok_or(ApiError::NotFound(ResourceKind::Workflow))?;
    let document = cx.app.api().workflow(&who, id).await?;
    Ok(Reply::ok(&document))
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let workflows = cx.app.api().workflows(&who).await?;
    let rows = workflows.into_iter().map(|described| {
        json!({
            "id": described.definition.workflow,
            "workflowId": described.definition.workflow,
            "version": described.definition.version,
            "digest": described.definition.digest,
            "shared": described.shared,
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(Reply::ok(&json!({ "workflows": rows })))
}

async fn post(cx: Cx) -> Result<Reply, Problem> {
    register(cx, StatusCode::CREATED, None).await
}

async fn put(cx: Cx) -> Result<Reply, Problem> {
    let id = cx.param("workflowId").to_owned();
    register(cx, StatusCode::OK, Some(id)).await
}

async fn register(mut cx: Cx, status: StatusCode, id: Option<String>) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let limit = cx.app.limits().definition_bytes;
    let document = cx.bytes(limit).await?;
    let object = body::object(&document)?;
    if id.is_some_and(|id| object.get("id").and_then(Value::as_str) != Some(&id)) {
        return Err(Problem::invalid(
            "the definition's id differs from the one in the address",
        ));
    }
    let Registered {
        definition,
        warnings,
    } = cx
        .app
        .api()
        .put_workflow(&who, &document, Some(cx.trace.id()))
        .await?;
    let warnings: Vec<Value> = warnings
        .iter()
        .map(|warning| {
            let mut shown = shown(warning);
            // The definition is registered, and its author reads it with the same path.
            shown["path"] = json!(warning.path);
            shown
        })
        .collect();
    let mut answer = json!({
        "id": definition.workflow,
        "workflowId": definition.workflow,
        "version": definition.version,
        "digest": definition.digest,
    });
    if !warnings.is_empty() {
        answer["warnings"] = warnings.into();
    }
    Ok(Reply::json(status, &answer))
}

//! Annotations, artifacts, workflows and the audit trail.

use runtime::access::{Action, Principal};
use serde_json::Value;

use super::{bound, changes, check_fields, doc, own, reads};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Cx, Doc, Route};
use crate::routes::runs::named;
use crate::routes::{annotations, artifacts, audit, workflows};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        reads(
            "/workflows/{workflowId}",
            Action::ReadWorkflows,
            workflows::get,
            doc("getWorkflow", "A workflow", None, &[(200, "Workflow")]),
        ),
        reads(
            "/runs/{runId}/artifacts/{artifactId}",
            Action::ReadArtifact,
            artifacts::get,
            doc(
                "getArtifact",
                "The bytes of an artifact, with its media type",
                None,
                &[(200, "bytes"), (206, "bytes"), (304, "")],
            ),
        ),
        changes(
            "/runs/{runId}/annotations",
            Action::AnnotateRun,
            annotate,
            doc(
                "createAnnotation",
                "Adds an annotation to a run, an event or a node",
                Some("AnnotationCreate"),
                &[(201, "Annotation")],
            ),
        ),
        reads(
            "/runs/{runId}/annotations",
            Action::ReadRun,
            list,
            doc(
                "listAnnotations",
                "Annotations of a run, oldest first",
                None,
                &[(200, "AnnotationList")],
            ),
        ),
        reads(
            "/audit/verify",
            Action::ReadAudit,
            verify,
            Doc {
                operation: "verifyAuditLog",
                summary: "Recomputes hashes, roots and signatures of the tenant's audit trail",
                parameters: &[
                    ("query", "fromSeq", "the first entry"),
                    ("query", "toSeq", "the last entry"),
                ],
                request: None,
                responses: &[(200, "AuditVerification")],
            },
        ),
    ]
}

async fn annotate(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    // Access to the run is checked before the body.
    cx.app.api().may_annotate(&who, &run).await?;
    let mut body = cx.object().await?;
    check_fields(&body, &["target", "signal", "note"])?;
    if let Some(Value::Object(target)) = body.get_mut("target")
        && let Some(Value::String(of)) = target.remove("runId")
        && own(&who, &of)? != run.as_str()
    {
        return Err(Problem::invalid(
            "target.runId names another run than the address; remove it",
        ));
    }
    cx.put_body(&body);
    let reply = annotations::annotate(cx).await?;
    Ok(reply.map(|said| annotation(&who, said)))
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let reply = annotations::list(cx).await?;
    Ok(reply.map(|mut doc| {
        let all = doc["annotations"].as_array_mut();
        for said in all.into_iter().flatten() {
            *said = annotation(&who, said.take());
        }
        doc
    }))
}

fn annotation(who: &Principal, mut said: Value) -> Value {
    let target = bound(who, said["target"].take(), &["runId"]);
    said["target"] = target;
    said
}

async fn verify(cx: Cx) -> Result<Reply, Problem> {
    let query = cx.query();
    for name in ["fromSeq", "toSeq"] {
        if query.seq(name)?.is_none() {
            let message = format!("{name} is required; use a whole number, 0 or more");
            return Err(Problem::invalid(message).with("field", name));
        }
    }
    audit::verify(cx).await
}

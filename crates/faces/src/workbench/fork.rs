//! A new run that begins with the results of another.

use std::sync::Arc;

use kernel::digest::Digest;
use kernel::document::{Body, Derived};
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

use super::{Bad, document};

/// Begins a run under a new id with the workflow, the latest artifacts (as their first versions),
/// the rules, the subject and the metadata of another. It names its origin in its context and its
/// first event. Without tags of its own it has its parent's and `fork`.
///
/// # Errors
/// When the step is not one of the workflow.
pub fn fork(
    source: &Body,
    id: &str,
    now: Timestamp,
    step: Option<&str>,
    tags: Option<Vec<Value>>,
) -> Result<Body, Bad> {
    if step.is_some_and(|step| source.derived.steps.get(step).is_none()) {
        return super::bad("UNKNOWN_STEP", "the workflow has no step forkedFromStepId");
    }
    let (parent, from) = (source.id(), &source.derived.run);
    let mut run = Map::new();
    for name in [
        "workflowId",
        "workflowVersion",
        "workflowSnapshot",
        "subject",
        "metadata",
    ] {
        if let Some(value) = from.get(name) {
            run.insert(name.to_owned(), value.clone());
        }
    }
    let tags = tags.unwrap_or_else(|| {
        let mut tags = from
            .get("tags")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        tags.push(json!("fork"));
        tags
    });
    let mut context = json!({ "parentRunId": parent, "parentRunIds": [parent] });
    if let Some(step) = step {
        context["forkedFromStepId"] = json!(step);
    }
    let at = now.to_string();
    run.insert("id".into(), json!(id));
    run.insert("startedAt".into(), json!(at));
    run.insert("status".into(), json!("running"));
    run.insert("context".into(), context.clone());
    run.insert("tags".into(), tags.into());

    let mut trace: Vec<Value> = Vec::new();
    let mut add = |kind: &str, more: Value| {
        let digest = Digest::compute(format!("{id}\0{}", trace.len()).as_bytes()).to_string();
        let mut event = json!({
            "id": format!("evt_{}", &digest[..32]), "type": kind, "runId": id, "ts": at,
        });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        trace.push(event);
    };
    for (_, artifact) in source.derived.artifacts.iter() {
        let mut artifact = artifact.clone();
        artifact["version"] = json!(1);
        artifact["createdAt"] = json!(at);
        add("artifact_written", json!({ "artifact": artifact }));
    }
    for (id, rules) in source.derived.rules.iter() {
        add(
            "rule_changed",
            json!({ "ruleSetId": id, "snapshot": rules }),
        );
    }
    add("run_forked", context);
    let mut derived = Derived::opened(run);
    for event in &trace {
        derived.fold(event);
    }
    let body = Body {
        revision: trace.len() as u64,
        trace: trace.into_iter().map(Arc::new).collect(),
        derived,
    };
    document::checked(body)
}

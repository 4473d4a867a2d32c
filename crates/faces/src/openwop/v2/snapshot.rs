//! The state of a run: a folded run as a `RunSnapshot` of v2, which is closed. Further fields of
//! this engine go to `extensions`.

use kernel::batch::IndexRow;
use kernel::document::run_status;
use kernel::ids::{StreamId, TenantId};
use kernel::run::Run;
use kernel::stream::{Owner, StreamKind};
use serde_json::{Map, Value, json};

use super::super::v1;
use super::configurable::nested;
use super::id::bind;
use super::payload::{bind_fields, codes, number, project_error};
use super::{EVENT_LOG_SCHEMA_VERSION, EXTENSION};

/// The fields of the closed object.
const FIELDS: [&str; 23] = [
    "runId",
    "workflowId",
    "status",
    "owner",
    "currentNodeId",
    "startedAt",
    "completedAt",
    "agent",
    "runOrchestrator",
    "nodeStates",
    "variables",
    "channels",
    "error",
    "engineVersion",
    "eventLogSchemaVersion",
    "tags",
    "metadata",
    "configurable",
    "metrics",
    "parentRunId",
    "inputs",
    "compensationStatus",
    "extensions",
];
/// Fields that the extension leaves out: `endedAt` is `completedAt`, `interrupt` is the first of
/// `interrupts`.
const REPEATED: [&str; 2] = ["endedAt", "interrupt"];

/// A folded run.
pub fn snapshot(run: &Run) -> Value {
    project_snapshot(&run.header.owner, v1::snapshot(run))
}

/// A listed run whose log cannot be read: what its index row has.
pub fn unreadable(run: &StreamId, tenant: &TenantId, index: &IndexRow) -> Value {
    let status = match index.kind {
        StreamKind::Document => run_status(index),
        _ => index.status.as_str(),
    };
    json!({
        "runId": bind(tenant, run),
        "workflowId": index.subject,
        "status": status,
        "owner": super::owner::legacy_owner(tenant, index.workspace.as_deref()),
        "eventLogSchemaVersion": EVENT_LOG_SCHEMA_VERSION,
        "tags": index.tags,
        "extensions": { EXTENSION: { "unreadable": true } },
    })
}

/// A v1 snapshot of an owner's run, as v2 shows it.
pub fn project_snapshot(owner: &Owner, doc: Value) -> Value {
    let Value::Object(mut doc) = doc else {
        return doc;
    };
    doc.insert("owner".into(), super::owner::owner(owner));
    doc.insert(
        "eventLogSchemaVersion".into(),
        json!(EVENT_LOG_SCHEMA_VERSION),
    );
    number(&mut doc, "engineVersion");
    if let Some(error) = doc.get_mut("error") {
        project_error(error);
    }
    if let Some(Value::Object(settings)) = doc.remove("configurable") {
        doc.insert("configurable".into(), nested(&settings));
    }
    for state in states(&mut doc) {
        bind_fields(owner, state);
        codes(state);
    }
    let mut beyond = Map::new();
    if let Some(Value::Object(metrics)) = doc.get_mut("metrics")
        && let Some(budget) = metrics.remove("runwrightBudget")
    {
        beyond.insert("budget".into(), budget);
        if metrics.is_empty() {
            doc.remove("metrics");
        }
    }
    // v2 calls the run that a run was forked from its parent. The run that dispatched it has no
    // field there.
    if let Some(Value::Object(forked)) = doc.get_mut("forkedFrom") {
        let source = forked.get("runId").cloned();
        bind_fields(owner, forked);
        let parent = source.and_then(|source| doc.insert("parentRunId".into(), source));
        if let Some(Value::String(parent)) = parent {
            let parent = bind(&owner.tenant, parent);
            beyond.insert("parentRunId".into(), json!(parent));
        }
    }
    bind_fields(owner, &mut doc);
    let (doc, rest): (Map<_, _>, Map<_, _>) = doc
        .into_iter()
        .partition(|(name, _)| FIELDS.contains(&name.as_str()));
    let rest = rest
        .into_iter()
        .filter(|(name, _)| !REPEATED.contains(&name.as_str()));
    beyond.extend(rest);
    for name in ["childRuns", "interrupts"] {
        let listed = beyond.get_mut(name).and_then(Value::as_array_mut);
        for one in listed.into_iter().flatten() {
            if let Value::Object(one) = one {
                bind_fields(owner, one);
            }
        }
    }
    let mut doc = doc;
    if !beyond.is_empty() {
        doc.insert("extensions".into(), json!({ EXTENSION: beyond }));
    }
    Value::Object(doc)
}

fn states(doc: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let states = doc.get_mut("nodeStates").and_then(Value::as_object_mut);
    let states = states.into_iter().flat_map(|states| states.values_mut());
    states.filter_map(Value::as_object_mut)
}

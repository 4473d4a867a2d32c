//! OpenLineage: the start of a run, and its completion or failure.

use serde_json::{Value, json};

use super::super::document::{Operation, Snapshot};
use super::span;

const SCHEMA: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";
const FACET: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet";
const DATASET_FACET: &str =
    "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetFacet";
/// The standard facet for the change of a dataset.
const LIFECYCLE_FACET: &str = "https://openlineage.io/spec/facets/1-0-1/LifecycleStateChangeDatasetFacet.json#/$defs/LifecycleStateChangeDatasetFacet";
/// The producer of the events.
const PRODUCER: &str = "urn:runwright:snapshot";

/// The two events of a snapshot, in order. Its id is the run's, so it should be a UUID.
pub fn events(snapshot: &Snapshot) -> Vec<Value> {
    let (started, ended) = span(snapshot);
    let status = snapshot
        .extensions
        .as_ref()
        .and_then(|more| more.run_status.as_deref());
    let last = match status {
        Some("failed") => "FAIL",
        Some("cancelled") => "ABORT",
        _ => "COMPLETE",
    };
    let config = &snapshot.config;
    let facet = json!({
        "_producer": PRODUCER,
        "_schemaURL": FACET,
        "model": config.model.id,
        "execution_mode": config.execution_mode.as_str(),
        "seed": config.seed,
        "temperature": config.temperature,
        "user_prompt_hash": snapshot.inputs.user_prompt_hash,
        "response_hash": snapshot.outputs.response_hash,
        "match_status": snapshot.replays().match_status.as_str(),
    });
    let dataset = |path: &Option<String>, hash: &Option<String>| {
        json!({
            "namespace": "file",
            "name": path,
            "facets": { "checksum": {
                "_producer": PRODUCER, "_schemaURL": DATASET_FACET, "checksum": hash,
            } },
        })
    };
    let files = snapshot.inputs.context_files.iter().flatten();
    let inputs: Vec<Value> = files.map(|file| dataset(&file.path, &file.hash)).collect();
    let artifacts = snapshot.outputs.artifacts_created.iter().flatten();
    let outputs = artifacts.map(|file| {
        let mut output = dataset(&file.path, &file.hash);
        let change = file.operation.map(|operation| match operation {
            Operation::Created => "CREATE",
            Operation::Modified => "OVERWRITE",
            Operation::Deleted => "DROP",
        });
        if let Some(change) = change {
            output["facets"]["lifecycleStateChange"] = json!({
                "_producer": PRODUCER, "_schemaURL": LIFECYCLE_FACET,
                "lifecycleStateChange": change,
            });
        }
        output
    });
    let outputs: Vec<Value> = outputs.collect();
    let event = |kind: &str, at: String| {
        json!({
            "eventType": kind,
            "eventTime": at,
            "producer": PRODUCER,
            "schemaURL": SCHEMA,
            "run": { "runId": snapshot.snapshot_id, "facets": { "runwright_snapshot": facet } },
            "job": { "namespace": "runwright", "name": snapshot.workflow_id },
            "inputs": inputs,
            "outputs": outputs,
        })
    };
    vec![
        event("START", started.to_string()),
        event(last, ended.to_string()),
    ]
}

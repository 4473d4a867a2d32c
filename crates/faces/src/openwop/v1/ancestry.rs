//! The parent of a run: a `RunAncestryResponse`.

use kernel::ids::StreamId;
use serde_json::{Value, json};

/// Builds the answer. `parent` is the run that started this one, with the type of the starting
/// node; every parent is on the same host. An unknown type, after the parent was erased, is
/// reported as the most common one.
pub fn ancestry(host: &str, run: &StreamId, parent: Option<(&StreamId, Option<&str>)>) -> Value {
    let parent = parent.map(|(parent, node_type)| {
        let cause = match node_type {
            Some("core.dispatch") => "core.dispatch",
            _ => "core.subWorkflow",
        };
        json!({ "runId": parent, "hostId": host, "cause": cause })
    });
    json!({ "runId": run, "hostId": host, "parent": parent })
}

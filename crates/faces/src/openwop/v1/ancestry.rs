//! Who started a run: a `RunAncestryResponse`.

use kernel::ids::StreamId;
use serde_json::{Value, json};

/// The answer. `parent` is the run that started this one and the type of the node it did it
/// with; every parent lives on the same host. A type that is not known, because the parent was
/// erased, is told as the most common one.
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

//! Rows of lists: index rows in the API's words.

use kernel::batch::IndexRow;
use kernel::document::SaveRecord;
use kernel::time::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// A row of the list of runs. Members beyond the API are left out where they are empty.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a>(pub &'a IndexRow);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(index) = self;
        let summary = |name: &str| index.summary.get(name);
        let mut row = serializer.serialize_map(None)?;
        let text = |name: &str| summary(name).and_then(Value::as_str).unwrap_or_default();
        row.serialize_entry("id", text("id"))?;
        row.serialize_entry("workflowId", &index.subject)?;
        row.serialize_entry("startedAt", text("startedAt"))?;
        row.serialize_entry("status", &index.status)?;
        for name in [
            "endedAt",
            "tags",
            "title",
            "revision",
            "events",
            "parents",
            "pendingGates",
            "branches",
            "unknownEvents",
        ] {
            if let Some(value) = summary(name) {
                row.serialize_entry(name, value)?;
            }
        }
        row.serialize_entry("updatedAt", &index.updated_at.to_string())?;
        row.end()
    }
}

/// The gates of a run that wait for an answer.
pub fn gates(index: &IndexRow) -> Vec<Value> {
    let gates = index.summary["gates"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let about = |mut gate: Value| {
        gate["runId"] = index.summary["id"].clone();
        gate["workflowId"] = json!(index.subject);
        gate["waitingSince"] = match gate.get("requestedAt") {
            Some(at) => at.clone(),
            None => json!(index.updated_at.to_string()),
        };
        gate
    };
    gates.into_iter().map(about).collect()
}

/// A save in the history of a run.
pub fn save(save: &SaveRecord, is_branch: SavePosition) -> Value {
    let mut row = json!({
        "save": save.number,
        "revision": save.revision,
        "events": save.events,
        "savedAt": Timestamp::to_string(&save.at),
        "digest": save.digest,
        "via": save.via.as_str(),
        "branch": is_branch == SavePosition::Branch,
    });
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            row[name] = value;
        }
    };
    put("savedBy", save.by.as_ref().map(|by| json!(by)));
    put("replaced", save.replaced.map(|number| json!(number)));
    put("putBack", (save.put_back > 0).then(|| json!(save.put_back)));
    row
}

/// Whether anything was built on a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavePosition {
    /// It is the last save, or one of its predecessors.
    Main,
    /// Superseded by another.
    Branch,
}

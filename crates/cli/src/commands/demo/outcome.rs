//! The demo's summary at the end.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::data::Data;
use crate::exit::Failure;
use crate::{style, text};

/// The outcome of the nodes of a run whose server was killed.
pub(super) struct Outcome {
    /// The last event seen before the kill.
    pub(super) killed_at: u64,
    /// Finished before the kill; not repeated.
    pub(super) kept: Vec<String>,
    /// In flight at the kill; started over.
    pub(super) restarted: Vec<String>,
    /// Started after it.
    pub(super) after: Vec<String>,
    /// The number of starts of each node by the scheduler, which is one.
    pub(super) starts: BTreeMap<String, u32>,
}

impl Outcome {
    /// Prints it for people.
    pub(super) fn print(&self, snapshot: &Value) -> Result<(), Failure> {
        let mut data = Data::new();
        data.line("")?;
        data.line(style::strong("The result of each node"))?;
        let groups = [
            (
                &self.kept,
                style::good("finished before the kill; not run again"),
            ),
            (
                &self.restarted,
                style::warn("in flight at the kill; started over with the same key"),
            ),
            (&self.after, "started after the kill".to_owned()),
        ];
        for (nodes, what) in groups {
            for node in nodes {
                data.line(format!("  {:<12} {what}", text::one_line(node, 40)))?;
            }
        }
        data.line("")?;
        data.line(style::strong("The snapshot, without inputs and outputs"))?;
        data.json(&short(snapshot))?;
        let report = &snapshot["nodeStates"]["report"]["outputs"]["stdout"];
        if let Some(report) = report.as_str() {
            data.line("")?;
            data.line(style::strong("The output of the workflow"))?;
            for line in report.lines() {
                data.line(format!("  {}", text::plain(line)))?;
            }
        }
        data.done()
    }
}

/// A snapshot cut to a page.
fn short(snapshot: &Value) -> Value {
    let mut kept = Map::new();
    for field in [
        "runId",
        "workflowId",
        "status",
        "startedAt",
        "endedAt",
        "owner",
    ] {
        kept.insert(field.to_owned(), snapshot[field].clone());
    }
    let states = snapshot["nodeStates"].as_object();
    let states = states.into_iter().flatten().map(|(node, state)| {
        let said = format!(
            "{}, {} to {}",
            state["status"].as_str().unwrap_or_default(),
            state["startedAt"].as_str().unwrap_or_default(),
            state["completedAt"].as_str().unwrap_or_default(),
        );
        (node.clone(), json!(said))
    });
    kept.insert("nodeStates".to_owned(), Value::Object(states.collect()));
    Value::Object(kept)
}

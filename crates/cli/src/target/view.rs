//! The state of a run for people.

use std::sync::Arc;

use kernel::definition::Plan;
use kernel::ids::StreamId;
use kernel::run::{End, NodeError};
use kernel::time::Timestamp;
use serde_json::Value;

use crate::budget::{self, Used};
use crate::data::{Data, Table};
use crate::exit::Failure;
use crate::lookup::short;
use crate::summary::RunSummary;
use crate::{style, summary, text};

/// The state of a run for people.
#[derive(Default)]
pub(crate) struct RunView {
    /// Named facts. Empty ones are not shown.
    pub facts: Vec<(&'static str, String)>,
    /// Its nodes.
    pub nodes: Table,
    /// Its artifacts.
    pub artifacts: Vec<ArtifactRow>,
    /// Its end, if it has ended.
    pub end: Option<End>,
    /// The name of the run in a command.
    pub name: String,
    /// Its workflow, if it is known.
    pub plan: Option<Arc<Plan>>,
}

/// An artifact in a list.
pub(crate) struct ArtifactRow {
    /// Its id.
    pub id: String,
    /// The node that left it.
    pub node: String,
    /// Its type.
    pub kind: String,
    /// Its bytes.
    pub size: u64,
    /// Its SHA-256 digest.
    pub digest: String,
}

impl RunView {
    /// A run by its snapshot in the protocol's form.
    pub(super) fn from_snapshot(run: &StreamId, snapshot: &Value, used: &Used) -> Self {
        let word = |name: &str| text::one_line(snapshot[name].as_str().unwrap_or_default(), 120);
        let status = style::status(&word("status"));
        let tags = snapshot["tags"].as_array().into_iter().flatten();
        let tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
        let attempts = attempts_of_failure(snapshot).map(style::bad);
        let mut facts = vec![
            ("run", style::strong(run)),
            ("workflow", word("workflowId")),
            ("status", format!("{status}  {}", counts(snapshot, 0))),
            ("", attempts.unwrap_or_default()),
            ("began", word("startedAt")),
            ("ended", word("endedAt")),
            ("used", used.words()),
        ];
        let left = budget::left(&budget::of_snapshot(snapshot));
        facts.extend(left.into_iter().map(|limit| ("budget", limit)));
        facts.push(("tags", text::one_line(&tags.join(", "), 120)));
        facts.push(("parent", word("parentRunId")));
        let mut nodes = Table::new(["NODE", "STATUS", "ATTEMPTS", "NOTE"]);
        for (node, state) in snapshot["nodeStates"].as_object().into_iter().flatten() {
            let errors = [&state["error"]["message"], &state["lastError"]["message"]];
            let error = errors.into_iter().find_map(Value::as_str);
            let status = state["status"].as_str().unwrap_or_default();
            let attempts = state["attempts"].as_u64().filter(|attempts| *attempts > 0);
            nodes.row([
                style::strong(text::one_line(node, 40)),
                style::status(&text::one_line(status, 30)),
                attempts.map_or_else(String::new, |attempts| attempts.to_string()),
                text::one_line(error.unwrap_or_default(), 100),
            ]);
        }
        Self {
            facts,
            nodes,
            end: end(snapshot),
            name: short(run).to_owned(),
            ..Self::default()
        }
    }

    /// Prints the facts, the nodes, the artifacts and the end.
    pub(crate) fn print(&self, data: &mut Data) -> Result<(), Failure> {
        for (name, value) in &self.facts {
            if !value.is_empty() {
                data.line(format!("{} {value}", style::dim(format!("{name:<9}"))))?;
            }
        }
        data.line("")?;
        self.nodes.lines().try_for_each(|line| data.line(line))?;
        if !self.artifacts.is_empty() {
            let mut table = Table::new(["ARTIFACT", "NODE", "TYPE", "SIZE"]);
            for one in &self.artifacts {
                table.row([
                    text::plain(&one.id),
                    text::one_line(&one.node, 40),
                    text::one_line(&one.kind, 40),
                    text::bytes(one.size),
                ]);
            }
            data.line("")?;
            table.lines().try_for_each(|line| data.line(line))?;
        }
        match &self.end {
            Some(End::Completed { outputs }) => {
                data.line("")?;
                summary::print_outputs_of(data, &self.name, outputs, self.plan.as_deref())
            }
            Some(End::Failed { error, .. }) => summary::print_error(data, error),
            Some(End::Cancelled { .. }) | None => Ok(()),
        }
    }
}

/// The number of attempts of the failed node, if there were several. Only events show whether the
/// run was dead-lettered.
fn attempts_of_failure(snapshot: &Value) -> Option<String> {
    let node = snapshot["failedNodeId"].as_str()?;
    let attempts = snapshot["nodeStates"][node]["attempts"].as_u64()?;
    (attempts > 1).then(|| {
        let attempts = text::count(attempts as usize, "attempt");
        format!("failed after {attempts} of {}", text::one_line(node, 60))
    })
}

/// Prints how a run ended, from its snapshot and further facts: the name of the run in a command,
/// how often another engine took it over, that it was dead-lettered, and its workflow.
pub(crate) fn say_end(
    data: &mut Data,
    snapshot: &Value,
    name: &str,
    (takeovers, dead_letter): (u32, Option<String>),
    plan: Option<&Plan>,
) -> Result<(), Failure> {
    let Some(end) = end(snapshot) else {
        return Ok(());
    };
    let text = |name: &str| snapshot[name].as_str().unwrap_or_default();
    let time = |name: &str| Timestamp::parse(text(name));
    let took_ms = time("endedAt").zip(time("startedAt"));
    summary::say_end(&RunSummary {
        id: &text("runId").into(),
        workflow: text("workflowId"),
        end: &end,
        took_ms: took_ms.map_or(0, |(ended, began)| ended.ms_since(began)),
        counts: counts(snapshot, takeovers),
        dead_letter: dead_letter.or_else(|| attempts_of_failure(snapshot)),
    });
    if let End::Completed { outputs } = &end {
        summary::print_outputs_of(data, name, outputs, plan)?;
    }
    Ok(())
}

/// How a run ended, by its snapshot; `None` while it is in progress.
fn end(snapshot: &Value) -> Option<End> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match snapshot["status"].as_str()? {
        "completed" => Some(End::Completed {
            outputs: snapshot["outputs"].as_object().cloned().unwrap_or_default(),
        }),
        "failed" => {
            let error = &snapshot["error"];
            Some(End::Failed {
                error: NodeError::new(text(&error["code"]), text(&error["message"])),
                node: snapshot["failedNodeId"].as_str().map(Into::into),
            })
        }
        "cancelled" => Some(End::Cancelled {
            reason: snapshot["cancelReason"].as_str().map(str::to_owned),
        }),
        _ => None,
    }
}

/// The number of a run's nodes in each state, from its snapshot.
fn counts(snapshot: &Value, takeovers: u32) -> String {
    let nodes = snapshot["nodeStates"].as_object().into_iter().flatten();
    let statuses: Vec<&str> = nodes
        .filter_map(|(_, node)| node["status"].as_str())
        .collect();
    summary::counted(statuses.iter().copied(), takeovers)
}

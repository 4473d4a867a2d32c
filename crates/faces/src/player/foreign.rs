//! Sessions that another player began: the results in their state file.

use std::collections::{BTreeMap, BTreeSet};

use kernel::json::{self, Limits};
use kernel::problem::{ProblemCode, Problems, closest, quoted};
use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::plan::{Batch, ExecutionPlan};
use super::state::NodeStatus;
use super::template::Template;

/// A session of another player.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    /// Its id.
    pub session_id: String,
    /// The path of its template, from the project folder.
    pub template_path: String,
    /// Its status, unchanged from the file.
    pub status: String,
    /// Its context.
    pub context: BTreeMap<String, String>,
    /// When it began, unchanged from the file.
    pub created_at: Option<String>,
    /// Its steps, as node ids.
    pub plan: Vec<Vec<String>>,
    /// Results of the nodes that are over, by id.
    pub recorded: BTreeMap<String, Recorded>,
    /// Nodes that failed, with the reason.
    pub failed: BTreeMap<String, String>,
}

/// Another player's record of a node that is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Completed or skipped.
    pub status: NodeStatus,
    /// When it started.
    pub started_at: Option<String>,
    /// The time of its end, or of its snapshot.
    pub completed_at: Option<String>,
    /// The session it worked in.
    pub session_id: Option<String>,
    /// The main file it wrote.
    pub output_path: Option<String>,
    /// The files it wrote.
    pub artifacts: Vec<String>,
    /// The error, if it was skipped because of one.
    pub error: Option<String>,
    /// The task of a `cli` node.
    pub cli_task_id: Option<String>,
    /// The output for later nodes, where it is known.
    pub output: Option<String>,
}

impl Recorded {
    /// In the form of a node's config.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "status": self.status.as_str(),
            "startedAt": self.started_at,
            "completedAt": self.completed_at,
            "sessionId": self.session_id,
            "outputPath": self.output_path,
            "artifacts": self.artifacts,
            "error": self.error,
            "cliTaskId": self.cli_task_id,
            "output": self.output,
        })
    }

    /// Reads the output of [`Recorded::to_json`].
    pub(super) fn of_json(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        let artifacts = value.get("artifacts")?.as_array()?.iter();
        Some(Self {
            status: match value.get("status")?.as_str()? {
                "completed" => NodeStatus::Completed,
                "skipped" => NodeStatus::Skipped,
                _ => return None,
            },
            started_at: text("startedAt"),
            completed_at: text("completedAt"),
            session_id: text("sessionId"),
            output_path: text("outputPath"),
            artifacts: (artifacts.filter_map(Value::as_str))
                .map(str::to_owned)
                .collect(),
            error: text("error"),
            cli_task_id: text("cliTaskId"),
            output: text("output"),
        })
    }
}

impl Foreign {
    /// Parses a state file. Unknown keys are ignored, and so is the `...` that players write for
    /// omitted parts.
    ///
    /// # Errors
    /// All errors, each with its line and column.
    pub fn parse(bytes: &[u8]) -> Result<Self, Problems> {
        let document = json::parse(bytes, Limits::DEFINITION)?;
        let mut problems = Problems::new();
        let foreign = read(&document, &mut problems);
        json::locate(bytes, &mut problems.listed);
        match foreign {
            Some(foreign) if problems.is_empty() => Ok(foreign),
            _ => Err(problems),
        }
    }

    /// Its steps with the nodes of its template, in the recorded order, without new planning.
    ///
    /// # Errors
    /// Nodes that are missing in the template, or in the steps.
    pub fn plan(&self, template: &Template) -> Result<ExecutionPlan, Problems> {
        let position = |id: &str| template.nodes.iter().position(|node| node.id == id);
        let (mut problems, mut plan) = (Problems::new(), ExecutionPlan::default());
        let mut planned = BTreeSet::new();
        for (number, ids) in self.plan.iter().enumerate() {
            let mut nodes = Vec::new();
            for id in ids {
                match position(id) {
                    Some(node) if planned.insert(node) => nodes.push(node),
                    Some(_) => {}
                    None => {
                        let known = template.nodes.iter().map(|node| node.id.as_str());
                        let hint = match closest(id, known) {
                            Some(meant) => format!("did you mean `{meant}`?"),
                            None => "the template has changed since".to_owned(),
                        };
                        let what = format!("the template has no node {}; {hint}", quoted(id));
                        let path = format!("/execution_plan/{number}/nodes");
                        problems.add(path, ProblemCode::UnknownReference, what);
                    }
                }
            }
            if !nodes.is_empty() {
                plan.batches.push(Batch { nodes });
            }
        }
        for (at, node) in template.nodes.iter().enumerate() {
            if !planned.contains(&at) {
                let id = quoted(&node.id);
                let what = match node.round {
                    None => format!(
                        "the node {id} of the template is in no batch; the template has changed \
                         since"
                    ),
                    Some(_) => format!(
                        "the template has a loop, and its round {id} is in no batch: the player \
                         that started this session does not support loops; start a new session"
                    ),
                };
                problems.add("/execution_plan", ProblemCode::MissingField, what);
            }
        }
        problems.or(plan)
    }
}

fn read(document: &Value, problems: &mut Problems) -> Option<Foreign> {
    let fields = Fields::open(String::new(), document, problems)?;
    let mut text = |key: &str, what: &str| {
        let text = fields.required_text(key, what, problems);
        text.unwrap_or_default().to_owned()
    };
    let mut foreign = Foreign {
        session_id: text("session_id", "the name of the session"),
        template_path: text("template_path", "the path of its template"),
        status: text("status", "running, paused, …"),
        ..Foreign::default()
    };
    foreign.created_at = fields.text("created_at", problems).map(str::to_owned);
    for (name, value) in fields.object("context", problems).into_iter().flatten() {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        foreign.context.insert(name.clone(), value);
    }
    if fields.get("execution_plan").is_none() {
        fields.missing("execution_plan", "the batches of the session", problems);
    }
    for (index, value) in fields
        .array("execution_plan", problems)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let path = format!("/execution_plan/{index}");
        if let Some(batch) = Fields::open(path, value, problems) {
            foreign.plan.push(batch.texts("nodes", problems));
        }
    }
    for (id, value) in fields.object("node_states", problems).into_iter().flatten() {
        if let Some(recorded) = value.as_object().and_then(recorded) {
            foreign.recorded.insert(id.clone(), recorded);
        }
        if value.get("status").and_then(Value::as_str) == Some("failed") {
            let error = value.get("error").and_then(Value::as_str);
            let error = error.unwrap_or_default().to_owned();
            foreign.failed.insert(id.clone(), error);
        }
    }
    Some(foreign)
}

/// A node that is over; nodes in progress start over.
fn recorded(state: &Map<String, Value>) -> Option<Recorded> {
    let text = |key: &str| state.get(key)?.as_str().map(str::to_owned);
    let status = match state.get("status")?.as_str()? {
        "completed" => NodeStatus::Completed,
        "skipped" => NodeStatus::Skipped,
        _ => return None,
    };
    let artifacts = state.get("artifacts").and_then(Value::as_array);
    let artifacts = artifacts.into_iter().flatten().filter_map(Value::as_str);
    Some(Recorded {
        status,
        started_at: text("started_at"),
        completed_at: text("completed_at").or_else(|| text("saved_at")),
        session_id: text("session_id"),
        output_path: text("output_path"),
        artifacts: artifacts.map(str::to_owned).collect(),
        error: text("error"),
        cli_task_id: text("cli_task_id"),
        output: None,
    })
}

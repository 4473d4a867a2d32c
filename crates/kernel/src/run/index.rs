//! The index row of a run, for lists and the queue.

use serde_json::{Map, Value};

use crate::batch::IndexRow;
use crate::run::schedule;
use crate::run::state::{End, Phase, Run, RunState};
use crate::stream::StreamKind;

/// The value in the summary of an index row for an unfinished fork.
pub const FORKING: &str = "forking";

/// The most members of the metadata in a row, and the most bytes of a name or value. Each append
/// rewrites the row.
const MAX_ATTRIBUTES: usize = 16;
const MAX_ATTRIBUTE_BYTES: usize = 128;

/// The index row of a run stream, always `RunIndex::from_run(fold(log))`.
#[derive(Debug)]
pub struct RunIndex;

impl RunIndex {
    /// The row of a state.
    pub fn from_run(run: &Run) -> IndexRow {
        let header = &run.header;
        let facts = run.facts();
        let error = match run.end() {
            Some(End::Failed { error, .. }) => Some(&error.code),
            _ => None,
        };
        IndexRow {
            kind: StreamKind::Run,
            workspace: header.owner.workspace.clone(),
            subject: run.plan.workflow.to_string(),
            status: run.status().to_string(),
            settled: run.is_settled(),
            runnable: is_runnable(run),
            queue: header.policy.queue.clone(),
            priority: header.policy.priority,
            // Unfinished forks and replays are not driven, so they do not block others.
            concurrency_key: if run.is_copying() || run.is_replay() {
                None
            } else {
                header.policy.concurrency_key.clone()
            },
            // Its parent started the source, not the fork.
            parent: match header.origin {
                None => header.parent.as_ref().map(|parent| parent.run.clone()),
                Some(_) => None,
            },
            created_at: header.created_at,
            updated_at: run.head.at,
            tags: facts.map(|facts| facts.tags.clone()).unwrap_or_default(),
            summary: summary(run, error.map(String::as_str)),
        }
    }
}

/// The facts that lists of runs show and filter by.
fn summary(run: &Run, error: Option<&str>) -> Value {
    let mut summary = Map::new();
    if let Some(code) = error {
        summary.insert("error".into(), code.into());
    } else if run.is_forking() {
        summary.insert(FORKING.into(), true.into());
    }
    if let Some(principal) = &run.header.owner.principal {
        summary.insert("principal".into(), principal.as_str().into());
    }
    let Some(facts) = run.facts() else {
        return summary.into();
    };
    let attributes: Map<String, Value> = (facts.metadata.iter())
        .filter(|(name, value)| is_attribute(name, value))
        .take(MAX_ATTRIBUTES)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !attributes.is_empty() {
        summary.insert("attributes".into(), attributes.into());
    }
    let models = facts.usage_by_model.iter();
    let models: Map<String, Value> = models
        .map(|(name, used)| (name.clone(), used.to_json()))
        .collect();
    if !models.is_empty() {
        summary.insert("models".into(), models.into());
    }
    summary.into()
}

/// Whether a list can be filtered by a member of the metadata: a short scalar.
fn is_attribute(name: &str, value: &Value) -> bool {
    let is_short = |text: &str| text.len() <= MAX_ATTRIBUTE_BYTES;
    is_short(name)
        && match value {
            Value::String(text) => is_short(text),
            Value::Number(_) | Value::Bool(_) => true,
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
}

/// Whether a worker has something to do now, without waiting for a timer.
fn is_runnable(run: &Run) -> bool {
    if run.is_replay() || run.is_copying() {
        return false;
    }
    let RunState::Active { phase, .. } = &run.state else {
        return false;
    };
    match phase {
        Phase::Pending => true,
        Phase::Paused { .. } => false,
        Phase::Draining { .. } | Phase::Stopping { .. } => run.has_live_work(),
        Phase::Running => {
            run.has_live_work()
                || run
                    .undispatched()
                    .any(|live| !run.waits_for_budget(live.node))
                || schedule::has_startable(run)
        }
    }
}

//! The index row of a run, for lists and the queue.

use serde_json::json;

use crate::batch::IndexRow;
use crate::run::schedule;
use crate::run::state::{End, Phase, Run, RunState};
use crate::stream::StreamKind;

/// The value in the summary of an index row for an unfinished fork.
pub const FORKING: &str = "forking";

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
            summary: match error {
                Some(code) => json!({ "error": code }),
                None if run.is_forking() => json!({ FORKING: true }),
                None => json!({}),
            },
        }
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
                || run.undispatched().next().is_some()
                || schedule::has_startable(run)
        }
    }
}

//! Updates the state of a node from events and from other players' records.

use kernel::ids::NodeId;
use kernel::run::RunEvent;
use kernel::run::event::NodeError;
use serde_json::{Map, Value};

use super::{Node, NodeState, NodeStatus, Recorded, WorkState};

/// The reason for a node's wait, if it waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Wait {
    #[default]
    Nothing,
    /// The decision to continue after a checkpoint.
    Continue,
    /// The decision about its failure.
    Decision,
    /// An external callback, by this name.
    Callback(String),
}

impl Node {
    /// Whether it failed and its loop continues. In the last round of a loop, a failure counts as
    /// for any node.
    pub(super) fn has_failed_round(&self) -> bool {
        self.may_fail && self.state.status() == NodeStatus::Failed && self.wait == Wait::Nothing
    }

    /// Whether the session is at it, or before it.
    pub(super) fn is_open(&self) -> bool {
        let is_over = self.state.status().is_over() || self.has_failed_round();
        !is_over || self.wait != Wait::Nothing
    }
}

pub(super) fn adopt(state: &mut NodeState, recorded: &Recorded) {
    match state {
        NodeState::Work(state) => {
            *state = WorkState {
                status: recorded.status,
                started_at: recorded.started_at.clone(),
                completed_at: recorded.completed_at.clone(),
                session_id: recorded.session_id.clone(),
                output_path: recorded.output_path.clone(),
                artifacts: recorded.artifacts.clone(),
                error: recorded.error.clone(),
                cli_task_id: recorded.cli_task_id.clone(),
            };
        }
        // Its snapshot is taken at once when the run reaches it.
        NodeState::Checkpoint(_) => {}
    }
}

pub(super) fn complete(state: &mut WorkState, outputs: &Map<String, Value>, time: String) {
    let text = |key: &str| {
        let text = outputs.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let artifacts = outputs.get("artifacts").and_then(Value::as_array);
    let artifacts = artifacts.into_iter().flatten().filter_map(Value::as_str);
    state.status = NodeStatus::Completed;
    state.completed_at = Some(time);
    state.session_id = text("session_id");
    state.output_path = text("output_path");
    state.artifacts = artifacts.map(str::to_owned).collect();
    state.error = None;
}

pub(super) fn said(error: &NodeError) -> String {
    error.message.clone()
}

pub(super) fn exit_code(details: Option<&Value>) -> Option<i64> {
    details?.get("exitCode")?.as_i64()
}

/// The node of an event, and its visit.
pub fn node_of(body: &RunEvent) -> Option<(&NodeId, u32)> {
    match body {
        RunEvent::NodeStarted { node_id, visit, .. }
        | RunEvent::AttemptRestarted { node_id, visit, .. }
        | RunEvent::NodeCompleted { node_id, visit, .. }
        | RunEvent::NodeFailed { node_id, visit, .. }
        | RunEvent::NodeRetried { node_id, visit, .. }
        | RunEvent::NodeSkipped { node_id, visit, .. }
        | RunEvent::NodeCancelled { node_id, visit, .. }
        | RunEvent::NodeSuspended { node_id, visit, .. }
        | RunEvent::InterruptRequested { node_id, visit, .. } => Some((node_id, *visit)),
        RunEvent::ProviderUsage { node_id, .. } => Some((node_id, 0)),
        _ => None,
    }
}

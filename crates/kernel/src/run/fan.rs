//! The progress of concurrent workers of one decision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::PlanNode;
use crate::ids::StreamId;
use crate::run::event::{ChildStatus, NodeError};

/// The concurrent workers of a dispatch node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fan {
    /// Number of workers in the decision.
    pub total: u32,
    /// Maximum number that run at a time.
    pub at_a_time: u32,
    /// The next worker to begin.
    pub next: u32,
    /// The worker whose definition is being looked up.
    pub pending: Option<u32>,
    /// Runs that have not ended, each with its worker.
    pub running: BTreeMap<StreamId, u32>,
    /// Ended workers, in the order of their ends.
    pub ended: Vec<EndedWorker>,
}

/// A worker that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedWorker {
    /// Its place in the decision.
    pub worker: u32,
    /// Its workflow.
    pub workflow: String,
    /// Its run; `None` if it could not be created.
    pub run: Option<StreamId>,
    /// How it ended.
    pub status: ChildStatus,
    /// Its values for variables of the parent.
    pub gave: Vec<(String, Value)>,
    /// The outputs of its last nodes.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// Why it failed.
    pub error: Option<NodeError>,
}

impl Fan {
    /// A fan without begun workers.
    pub(crate) fn new(total: u32, at_a_time: u32) -> Self {
        Self {
            total,
            at_a_time,
            next: 0,
            pending: None,
            running: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Whether another worker may begin now.
    pub(crate) fn may_begin(&self) -> bool {
        self.pending.is_none()
            && self.next < self.total
            && self.running.len() < self.at_a_time as usize
    }

    /// Records that a worker's definition is looked up.
    pub(crate) fn begin(&mut self, worker: u32) {
        self.pending = Some(worker);
        self.next = worker.saturating_add(1);
    }

    /// Records the run of the looked-up worker.
    pub(crate) fn started(&mut self, run: &StreamId) {
        if let Some(worker) = self.pending.take() {
            self.running.insert(run.clone(), worker);
        }
    }

    /// Records that the looked-up worker cannot run.
    pub(crate) fn refused(&mut self, workflow: &str, error: Option<NodeError>) {
        if let Some(worker) = self.pending.take() {
            self.ended.push(EndedWorker {
                worker,
                workflow: workflow.to_owned(),
                run: None,
                status: ChildStatus::Failed,
                gave: Vec::new(),
                outputs: Map::new(),
                error,
            });
        }
    }

    /// Records the end of a run. Ignores runs of others.
    pub(crate) fn settled(
        &mut self,
        run: &StreamId,
        (workflow, node): (&str, &PlanNode),
        status: ChildStatus,
        (variables, outputs): (&Map<String, Value>, &Map<String, Value>),
        error: Option<&NodeError>,
    ) {
        let Some(worker) = self.running.remove(run) else {
            return;
        };
        let gave = match status {
            ChildStatus::Completed => node
                .worker(workflow)
                .map(|child| child.parent_variables(variables))
                .unwrap_or_default(),
            ChildStatus::Failed | ChildStatus::Cancelled => Vec::new(),
        };
        self.ended.push(EndedWorker {
            worker,
            workflow: workflow.to_owned(),
            run: Some(run.clone()),
            status,
            gave,
            outputs: outputs.clone(),
            error: error.cloned(),
        });
    }
}

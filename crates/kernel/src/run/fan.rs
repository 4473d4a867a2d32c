//! Workers of one decision that run at the same time: how far they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::dispatch::Dispatch;
use crate::ids::StreamId;
use crate::run::event::{ChildStatus, NodeError};

/// Workers of a dispatch node that run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fan {
    /// How many workers the decision names.
    pub total: u32,
    /// How many may run at a time.
    pub at_a_time: u32,
    /// The next worker to begin.
    pub next: u32,
    /// The worker whose definition is looked up.
    pub pending: Option<u32>,
    /// Runs that have not ended, and which worker each is.
    pub running: BTreeMap<StreamId, u32>,
    /// Workers that have ended, in the order in which they did.
    pub ended: Vec<EndedWorker>,
}

/// A worker that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedWorker {
    /// Its place in the decision.
    pub worker: u32,
    /// Its workflow.
    pub workflow: String,
    /// Its run; none where it could not be created.
    pub run: Option<StreamId>,
    /// How it ended.
    pub status: ChildStatus,
    /// What is to be kept of it, by variable of the parent.
    pub gave: Vec<(String, Value)>,
    /// What its last nodes gave.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// Why it failed.
    pub error: Option<NodeError>,
}

impl Fan {
    /// Workers none of which has begun.
    pub(crate) fn of(total: u32, at_a_time: u32) -> Self {
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

    /// A worker's definition is looked up from now on.
    pub(crate) fn begin(&mut self, worker: u32) {
        self.pending = Some(worker);
        self.next = worker.saturating_add(1);
    }

    /// The worker that was looked up has a run.
    pub(crate) fn started(&mut self, run: &StreamId) {
        if let Some(worker) = self.pending.take() {
            self.running.insert(run.clone(), worker);
        }
    }

    /// The worker that was looked up cannot be run.
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

    /// A run has ended. Nothing happens where it is none of these.
    pub(crate) fn settled(
        &mut self,
        run: &StreamId,
        (workflow, config): (&str, &Value),
        status: ChildStatus,
        (variables, outputs): (&Map<String, Value>, &Map<String, Value>),
        error: Option<&NodeError>,
    ) {
        let Some(worker) = self.running.remove(run) else {
            return;
        };
        let gave = match status {
            ChildStatus::Completed => Dispatch(config)
                .worker(workflow)
                .parent_variables(variables),
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

//! Views of a coordinator's tasks and workers.

use crate::coordinator::Coordinator;
use crate::coordinator::task::Handing;
use crate::ids::{RequestId, Seq, StreamId, WorkerId};
use crate::limits;
use crate::time::Timestamp;

/// A task assigned to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOut {
    /// The assignment.
    pub assignment: Seq,
    /// The task.
    pub request: RequestId,
    /// The worker.
    pub worker: WorkerId,
    /// The fence of the assignment.
    pub fence: u32,
    /// When it was assigned, or begun.
    pub at: Timestamp,
    /// Its worker still has to report that it begins.
    pub offered: bool,
    /// Rules for its assignment.
    pub handing: Handing,
    /// The place of its `dispatch.queued`.
    pub queued: Seq,
    /// The run that waits for it.
    pub run: Option<StreamId>,
}

/// A worker that was given a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWorker {
    /// The worker.
    pub worker: WorkerId,
    /// A task was taken from it, and it has not reported since.
    pub is_stalled: bool,
    /// Number of tasks assigned to it.
    pub assignments: usize,
}

impl HandedOut {
    /// Maximum time without a report of its worker, in milliseconds: until it begins, then between
    /// two heartbeats.
    pub fn patience_ms(&self) -> u64 {
        let timeout = self.handing.heartbeat_timeout_ms;
        if self.offered {
            timeout.min(limits::MAX_TASK_OFFER_MS)
        } else {
            timeout
        }
    }
}

impl Coordinator {
    /// Assigned tasks, in the order of assignment.
    pub fn assigned(&self) -> impl Iterator<Item = HandedOut> + '_ {
        let assignments = self.state.tasks.handed.keys();
        assignments.filter_map(|assignment| self.assignment(*assignment))
    }

    /// An assigned task.
    pub fn assignment(&self, assignment: Seq) -> Option<HandedOut> {
        let tasks = &self.state.tasks;
        let request = tasks.handed.get(&assignment)?;
        let task = tasks.open.get(request)?;
        let assigned = task.assigned.as_ref()?;
        Some(HandedOut {
            assignment,
            request: request.clone(),
            worker: assigned.worker.clone(),
            fence: task.fence,
            at: assigned.at,
            offered: assigned.offered,
            handing: task.handing,
            queued: task.queued,
            run: task.waits.as_ref().map(|(run, _)| run.clone()),
        })
    }

    /// Whether a task waits that this worker may take.
    pub fn has_work_for(&self, worker: &WorkerId) -> bool {
        let queue = &self.header.policy.queue;
        self.state.tasks.next(queue, worker).is_some()
    }

    /// Number of requests that wait for assignment, and since when the oldest does.
    pub fn waiting(&self) -> (usize, Option<Timestamp>) {
        self.state.tasks.waiting()
    }

    /// Whether a task was taken from this worker, and it has not reported since.
    pub fn is_stalled(&self, worker: &WorkerId) -> bool {
        self.state.tasks.stalled.contains(worker)
    }

    /// The beginning of the present unbroken authority. Without an authority heartbeats cannot be
    /// missed. Only for a coordinator of the native contract.
    pub fn authority_since(&self) -> Option<Timestamp> {
        self.state.tasks.authority.map(|(since, _)| since)
    }

    /// Number of requests that are not settled.
    pub fn open_requests(&self) -> usize {
        self.state.open.len()
    }

    /// The workers that were given a task.
    pub fn known_workers(&self) -> Vec<KnownWorker> {
        let mut counts = std::collections::BTreeMap::new();
        for handed in self.assigned() {
            *counts.entry(handed.worker).or_insert(0) += 1;
        }
        let known = self.state.workers.keys();
        known
            .map(|worker| KnownWorker {
                worker: worker.clone(),
                is_stalled: self.is_stalled(worker),
                assignments: counts.get(worker).copied().unwrap_or(0),
            })
            .collect()
    }
}

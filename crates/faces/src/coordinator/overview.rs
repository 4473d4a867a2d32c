//! The state of a runtime, for people: waiting requests and their age, the workers and their tasks,
//! and the last contact with each. Folded from the log; the current time is added for display.

use std::collections::BTreeMap;

use kernel::coordinator::{Contract, CoordinatorEvent, CoordinatorStatus, DispatchStatus, Event};
use kernel::ids::{RequestId, WorkerId};
use kernel::time::Timestamp;
use serde::Serialize;

use super::SnapshotJson;

/// The worker has an assignment.
const ASSIGNED: &str = "assigned";
/// The worker's assignment has ended.
const IDLE: &str = "idle";

/// The state of requests, messages and workers, from the log.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    open: BTreeMap<RequestId, Open>,
    last_delivered: Option<Timestamp>,
    last_failed: Option<Timestamp>,
    unread: BTreeMap<String, Timestamp>,
    workers: BTreeMap<WorkerId, Worker>,
    /// The worker of each task.
    handed: BTreeMap<String, WorkerId>,
    pulse: Option<(String, Timestamp)>,
}

#[derive(Clone, Debug)]
struct Open {
    target: String,
    status: DispatchStatus,
    since: Timestamp,
}

#[derive(Clone, Debug)]
struct Worker {
    task: String,
    state: String,
    at: Timestamp,
}

/// The printed form of an overview.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverviewJson {
    /// The snapshot of the contract.
    pub snapshot: SnapshotJson,
    /// The contract in force: `native` or `published`.
    pub contract: Contract,
    /// Whether the log says so. A log of another program has no contract until the first command
    /// sets one.
    pub contract_settled: bool,
    /// When this was so.
    pub at: String,
    /// Requests without a notice or an end, the oldest first.
    pub open: Vec<OpenJson>,
    /// When the last request was delivered.
    pub last_delivered_at: Option<String>,
    /// When the last request failed.
    pub last_failed_at: Option<String>,
    /// Unread messages.
    pub unread_mail: usize,
    /// The time of the oldest of them.
    pub oldest_mail_at: Option<String>,
    /// The workers, from the log.
    pub workers: Vec<WorkerJson>,
    /// The last activity that the authority reported.
    pub phase: Option<String>,
    /// The authority's last contact. The log records an unchanged phase once a minute.
    pub last_heartbeat_at: Option<String>,
}

/// An unsettled request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenJson {
    /// Its id.
    pub request_id: String,
    /// Its target.
    pub target: String,
    /// Pending or notified.
    pub status: DispatchStatus,
    /// Since when.
    pub since: String,
    /// Its age, in milliseconds.
    pub age_ms: u64,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerJson {
    /// Its name.
    pub worker: String,
    /// Its current tasks, the latest first; without any, its last task.
    pub task_id: String,
    /// The number of its tasks.
    pub assignments: usize,
    /// `assigned` or `idle`, or `stalled` or `recovered` with the reason.
    pub state: String,
    /// Its last contact.
    pub last_seen_at: String,
    /// The time since then, in milliseconds.
    pub age_ms: u64,
}

impl WorkerJson {
    /// Updates the last contact from outside the log, if that was later.
    pub fn hear(&mut self, seen: Option<Timestamp>, now: Timestamp) {
        let told = Timestamp::parse(&self.last_seen_at);
        if let Some(seen) = seen.filter(|seen| told.is_none_or(|told| told < *seen)) {
            self.last_seen_at = seen.to_string();
            self.age_ms = now.ms_since(seen);
        }
    }
}

impl Overview {
    /// Folds an event.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        match &event.body {
            CoordinatorEvent::DispatchQueued {
                request_id, target, ..
            } => {
                let open = Open {
                    target: target.clone(),
                    status: DispatchStatus::Pending,
                    since: at,
                };
                self.open.insert(request_id.clone(), open);
            }
            CoordinatorEvent::DispatchNotified { request_id, .. } => {
                if let Some(open) = self.open.get_mut(request_id) {
                    open.status = DispatchStatus::Notified;
                    open.since = at;
                }
            }
            CoordinatorEvent::DispatchDelivered { request_id, .. } => {
                self.open.remove(request_id);
                self.handed.remove(request_id.as_str());
                self.last_delivered = Some(at);
            }
            CoordinatorEvent::DispatchFailed { request_id, .. } => {
                self.open.remove(request_id);
                self.handed.remove(request_id.as_str());
                self.last_failed = Some(at);
            }
            CoordinatorEvent::DispatchRemoved { request_ids, .. } => {
                for request in request_ids {
                    self.open.remove(request);
                    self.handed.remove(request.as_str());
                }
            }
            CoordinatorEvent::MailCreated {
                message_id,
                shadowed: false,
                ..
            } => {
                self.unread.insert(message_id.clone(), at);
            }
            CoordinatorEvent::MailDelivered { message_id, .. } => {
                self.unread.remove(message_id);
            }
            CoordinatorEvent::WorkerAssigned {
                worker, task_id, ..
            } => {
                let assigned = Worker {
                    task: task_id.clone(),
                    state: ASSIGNED.to_owned(),
                    at,
                };
                self.handed.insert(task_id.clone(), worker.clone());
                self.workers.insert(worker.clone(), assigned);
            }
            CoordinatorEvent::WorkerReleased {
                worker, task_id, ..
            } => {
                self.handed.remove(task_id);
                self.tell(worker, "returned its task".to_owned(), Some(at));
            }
            CoordinatorEvent::WorkerStalled {
                worker,
                reason,
                task_id,
            } => {
                if let Some(task) = task_id {
                    self.handed.remove(task);
                }
                self.tell(worker, format!("stalled: {reason}"), None);
            }
            CoordinatorEvent::WorkerRecovered {
                worker, recovery, ..
            } => {
                self.tell(worker, format!("recovered: {recovery}"), Some(at));
            }
            CoordinatorEvent::Heartbeat { phase, .. } => self.pulse = Some((phase.clone(), at)),
            CoordinatorEvent::BlockedOnUser { reason, .. } => {
                self.pulse = Some((format!("blocked on user: {reason}"), at));
            }
            CoordinatorEvent::BlockedOnSystem { reason, .. } => {
                self.pulse = Some((format!("blocked on system: {reason}"), at));
            }
            _ => {}
        }
    }

    /// Sets the state of a worker, and its last contact if known.
    fn tell(&mut self, worker: &WorkerId, state: String, heard: Option<Timestamp>) {
        if let Some(worker) = self.workers.get_mut(worker) {
            worker.state = state;
            worker.at = heard.unwrap_or(worker.at);
        }
    }

    /// The overview at a moment.
    pub fn json(
        &self,
        standing: &CoordinatorStatus,
        contract: Contract,
        now: Timestamp,
    ) -> OverviewJson {
        let mut open: Vec<(&RequestId, &Open)> = self.open.iter().collect();
        open.sort_by_key(|(_, open)| open.since);
        let open = open.into_iter().map(|(request, open)| OpenJson {
            request_id: request.to_string(),
            target: open.target.clone(),
            status: open.status,
            since: open.since.to_string(),
            age_ms: now.ms_since(open.since),
        });
        let mut tasks: BTreeMap<&WorkerId, Vec<&String>> = BTreeMap::new();
        for (task, worker) in &self.handed {
            tasks.entry(worker).or_default().push(task);
        }
        let workers = self.workers.iter().map(|(name, worker)| {
            let has = tasks.get(name).map(Vec::as_slice).unwrap_or_default();
            let state = match (worker.state.as_str(), has) {
                (ASSIGNED, []) => IDLE,
                (state, _) => state,
            };
            let given_last = Some(&worker.task).filter(|task| has.contains(task));
            let task = given_last.or(has.first().copied());
            WorkerJson {
                worker: name.to_string(),
                task_id: task.unwrap_or(&worker.task).clone(),
                assignments: has.len(),
                state: state.to_owned(),
                last_seen_at: worker.at.to_string(),
                age_ms: now.ms_since(worker.at),
            }
        });
        OverviewJson {
            snapshot: SnapshotJson::from(standing),
            contract,
            contract_settled: true,
            at: now.to_string(),
            open: open.collect(),
            last_delivered_at: self.last_delivered.map(|at| at.to_string()),
            last_failed_at: self.last_failed.map(|at| at.to_string()),
            unread_mail: self.unread.len(),
            oldest_mail_at: self.unread.values().min().map(ToString::to_string),
            workers: workers.collect(),
            phase: self.pulse.as_ref().map(|(phase, _)| phase.clone()),
            last_heartbeat_at: self.pulse.as_ref().map(|(_, at)| at.to_string()),
        }
    }
}

//! Tasks: requests that workers take from the backlog. Each has one worker at a time, under a
//! fence.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::coordinator::dispatch::DispatchStatus;
use crate::coordinator::event::{CoordinatorEvent, Event};
use crate::ids::{AttemptId, RequestId, Seq, StreamId, WorkerId};
use crate::limits;
use crate::time::Timestamp;

/// The type of the node whose work is done by workers.
pub const WORKER_NODE: &str = "runwright.worker";
/// The party that such a node waits for.
const WORKER: &str = "worker";
/// The default heartbeat timeout in milliseconds.
const HEARTBEAT_TIMEOUT_MS: u64 = 30_000;
/// The prefix of blocking reasons that end with a live authority.
pub(super) const AUTHORITY: &str = "authority lease";
/// The default maximum number of assignments.
const MAX_ASSIGNMENTS: u32 = 5;

/// The terms of a run for a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskTerms {
    /// The waiting run.
    pub run: StreamId,
    /// The waiting attempt.
    pub attempt: AttemptId,
    /// The name of the signal that reports the end to the run.
    pub signal: String,
    /// Rules for its assignment.
    #[serde(flatten)]
    pub handing: Handing,
}

/// Rules for the assignment of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handing {
    /// Whether it may be assigned again after its worker was lost.
    pub repeat: TaskRepeat,
    /// Maximum time between heartbeats of its worker, in milliseconds.
    pub heartbeat_timeout_ms: u64,
    /// Maximum number of assignments, not counting returned ones.
    pub max_assignments: u32,
}

impl Default for Handing {
    fn default() -> Self {
        Self {
            repeat: TaskRepeat::Repeatable,
            heartbeat_timeout_ms: HEARTBEAT_TIMEOUT_MS,
            max_assignments: MAX_ASSIGNMENTS,
        }
    }
}

crate::words! {
    /// Whether a task may be done twice.
    pub enum TaskRepeat {
        /// It may.
        Repeatable = "repeatable",
        /// It may not: if its result is unknown, it has failed.
        Once = "once",
    }
}

/// The config of a node whose work is done by workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The queue.
    pub queue: String,
    /// Rules for the assignment of its tasks.
    pub handing: Handing,
}

impl WorkerConfig {
    /// Parses a config. `None` when it is incomplete or invalid.
    pub fn from_config(config: &Value) -> Option<Self> {
        let queue = config.get("queue")?.as_str()?;
        let whole = |key: &str, default: u64, from: u64, to: u64| match config.get(key) {
            None | Some(Value::Null) => Some(default),
            Some(value) => value.as_u64().filter(|n| (from..=to).contains(n)),
        };
        let most = whole("maxAssignments", u64::from(MAX_ASSIGNMENTS), 1, 100)?;
        let handing = Handing {
            repeat: match config.get("repeat")?.as_str()? {
                "repeatable" => TaskRepeat::Repeatable,
                "once" => TaskRepeat::Once,
                _ => return None,
            },
            heartbeat_timeout_ms: whole(
                "heartbeatTimeoutMs",
                HEARTBEAT_TIMEOUT_MS,
                1_000,
                3_600_000,
            )?,
            max_assignments: u32::try_from(most).ok()?,
        };
        is_written_as_queue(queue).then(|| Self {
            queue: queue.to_owned(),
            handing,
        })
    }
}

/// The data of a node's wait for a worker of a queue.
pub fn awaiting_worker(queue: &str, request: &str) -> Value {
    json!({ "waitsFor": WORKER, "queue": queue, "request": request })
}

/// The queue in the data of such a wait. Such a wait asks no person.
pub fn awaited_queue(data: &Value) -> Option<&str> {
    let is_worker = data.get("waitsFor").and_then(Value::as_str) == Some(WORKER);
    data.get("queue")?.as_str().filter(|_| is_worker)
}

/// The awaited task in the data of such a wait.
pub fn awaited_request(data: &Value) -> Option<RequestId> {
    awaited_queue(data)?;
    data.get("request")?.as_str().map(RequestId::new)
}

/// Whether a text is the name of a queue: 1 to 64 of `A-Z a-z 0-9 . _ -`, and not only dots,
/// because HTTP clients resolve those as path segments.
pub fn is_queue_name(text: &str) -> bool {
    is_written_as_queue(text) && text.bytes().any(|b| b != b'.')
}

/// Whether logs may contain a queue of this name: earlier versions accepted names of dots only.
fn is_written_as_queue(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// An assignment of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Number of assignments so far, including this one. Reports with a smaller number are
    /// rejected.
    pub fence: u32,
    /// The holder of the authority.
    pub owner: String,
    /// The worker must report when it begins the task. Until then no work has been done, and the
    /// task may be assigned to another worker even if it must not be repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offered: bool,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The assignment under which it ended; `None` if it was not assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Seq>,
    /// Number of its assignments.
    pub fence: u32,
    /// Its result.
    pub end: TaskEnd,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskEnd {
    /// It succeeded, with these outputs as the text of a JSON object.
    Outputs(String),
    /// It failed.
    Error(TaskError),
    /// It was withdrawn.
    Withdrawn,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// Stable, snake_case, for programs.
    pub code: String,
    /// For a person.
    pub message: String,
    /// `false` if a retry cannot help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

impl TaskEnd {
    /// The answer to the waiting run's question.
    pub(super) fn answer(&self) -> Option<Value> {
        let (key, value) = match self {
            Self::Outputs(text) => ("outputs", serde_json::from_str(text).ok()?),
            Self::Error(error) => ("error", serde_json::to_value(error).ok()?),
            Self::Withdrawn => return None,
        };
        Some(Value::Object(Map::from_iter([(key.to_owned(), value)])))
    }
}

/// The state of requests that workers may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tasks {
    /// Requests that are not settled.
    pub(super) open: BTreeMap<RequestId, Task>,
    /// Those that can be assigned, by target, in the order of arrival.
    waiting: BTreeMap<String, BTreeMap<Seq, RequestId>>,
    /// Those that are assigned, by assignment.
    pub(super) handed: BTreeMap<Seq, RequestId>,
    /// Workers from which a task was taken, and which have not reported since.
    pub(super) stalled: BTreeSet<WorkerId>,
    /// The recorded reason for blocked tasks, since the last assignment.
    pub(super) blocked: Option<String>,
    /// The beginning of the present unbroken authority, and the end of its latest lease.
    pub(super) authority: Option<(Timestamp, Timestamp)>,
}

/// A request that workers may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    /// The place of its `dispatch.queued`.
    pub(super) queued: Seq,
    /// Since when it waits.
    pub(super) since: Timestamp,
    pub(super) target: String,
    /// The run to notify of its end, and the name of the signal.
    pub(super) waits: Option<(StreamId, String)>,
    pub(super) handing: Handing,
    /// Number of its assignments.
    pub(super) fence: u32,
    /// How often its worker was lost.
    pub(super) lost: u32,
    /// The present assignment.
    pub(super) assigned: Option<Assigned>,
}

/// A task assigned to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Assigned {
    pub(super) seq: Seq,
    pub(super) worker: WorkerId,
    /// When it was assigned, or begun.
    pub(super) at: Timestamp,
    /// Its worker still has to report that it begins.
    #[serde(default)]
    pub(super) offered: bool,
}

impl Tasks {
    /// The oldest request that can be assigned to a worker of a queue.
    pub(super) fn next(&self, queue: &str, worker: &WorkerId) -> Option<&RequestId> {
        let first = |target: &str| self.waiting.get(target)?.first_key_value();
        let named = if worker.as_str() == queue {
            None
        } else {
            first(worker.as_str())
        };
        let oldest = [first(queue), named].into_iter().flatten().min();
        oldest.map(|(_, request)| request)
    }

    /// Number of unassigned requests, and since when the oldest waits.
    pub(super) fn waiting(&self) -> (usize, Option<Timestamp>) {
        let count = self.waiting.values().map(BTreeMap::len).sum();
        let oldest = self.waiting.values().filter_map(|of| of.values().next());
        let since = oldest.filter_map(|request| Some(self.open.get(request)?.since));
        (count, since.min())
    }

    pub(super) fn has_assignments(&self, worker: &WorkerId) -> bool {
        let mut of = self.handed.values().filter_map(|id| self.open.get(id));
        of.any(|task| matches!(&task.assigned, Some(a) if a.worker == *worker))
    }

    fn wait(&mut self, request: &RequestId) {
        if let Some(task) = self.open.get_mut(request) {
            let of = self.waiting.entry(task.target.clone()).or_default();
            of.insert(task.queued, request.clone());
        }
    }

    fn wait_no_more(&mut self, request: &RequestId) {
        let Some(task) = self.open.get(request) else {
            return;
        };
        if let Some(of) = self.waiting.get_mut(&task.target) {
            of.remove(&task.queued);
            if of.is_empty() {
                self.waiting.remove(&task.target);
            }
        }
    }

    fn take_back(&mut self, request: &RequestId, at: Timestamp) {
        if let Some(task) = self.open.get_mut(request)
            && let Some(assigned) = task.assigned.take()
        {
            task.since = at;
            self.handed.remove(&assigned.seq);
            self.wait(request);
        }
    }

    fn remove(&mut self, request: &RequestId) {
        self.wait_no_more(request);
        if let Some(assigned) = self.open.remove(request).and_then(|task| task.assigned) {
            self.handed.remove(&assigned.seq);
        }
    }

    pub(super) fn fold(&mut self, event: &Event) {
        match &event.body {
            CoordinatorEvent::AuthorityReleased { .. } => self.authority = None,
            CoordinatorEvent::AuthorityAcquired(lease) => {
                self.blocked = None;
                let until = lease.ends().unwrap_or(event.at);
                self.authority = Some((event.at, until));
            }
            CoordinatorEvent::AuthorityRenewed(lease) => {
                let until = lease.ends().unwrap_or(event.at);
                let held = self.authority.filter(|(_, until)| event.at < *until);
                self.authority = Some((held.map_or(event.at, |(since, _)| since), until));
                let is_past = |why: &String| why.starts_with(AUTHORITY);
                self.blocked = self.blocked.take().filter(|why| !is_past(why));
            }
            CoordinatorEvent::BlockedOnSystem { reason, .. } => {
                self.blocked = Some(reason.clone());
            }
            CoordinatorEvent::DispatchQueued {
                request_id,
                target,
                task,
                ..
            } => {
                let of_run = |terms: &TaskTerms| (terms.run.clone(), terms.signal.clone());
                let task = Task {
                    queued: event.seq,
                    since: event.at,
                    target: target.clone(),
                    waits: task.as_deref().map(of_run),
                    handing: task
                        .as_ref()
                        .map_or_else(Handing::default, |terms| terms.handing),
                    fence: 0,
                    lost: 0,
                    assigned: None,
                };
                self.open.insert(request_id.clone(), task);
                self.wait(request_id);
            }
            // Assigned here, or presented to its target by another channel.
            CoordinatorEvent::DispatchNotified { request_id, .. } => self.wait_no_more(request_id),
            CoordinatorEvent::DispatchDelivered { request_id, .. }
            | CoordinatorEvent::DispatchFailed { request_id, .. } => self.remove(request_id),
            CoordinatorEvent::DispatchRemoved { request_ids, .. } => {
                for request in request_ids {
                    self.remove(request);
                }
            }
            CoordinatorEvent::WorkerAssigned {
                worker,
                task_id,
                handed: Some(handed),
            } => {
                let request = RequestId::new(task_id);
                self.wait_no_more(&request);
                self.blocked = None;
                if let Some(task) = self.open.get_mut(&request) {
                    task.fence = handed.fence;
                    task.assigned = Some(Assigned {
                        seq: event.seq,
                        worker: worker.clone(),
                        at: event.at,
                        offered: handed.offered,
                    });
                    self.handed.insert(event.seq, request);
                }
            }
            CoordinatorEvent::WorkerBegan { task_id, .. } => {
                let task = self.open.get_mut(&RequestId::new(task_id));
                if let Some(assigned) = task.and_then(|task| task.assigned.as_mut()) {
                    assigned.offered = false;
                    assigned.at = event.at;
                }
            }
            CoordinatorEvent::WorkerReleased { task_id, .. } => {
                self.take_back(&RequestId::new(task_id), event.at);
            }
            CoordinatorEvent::WorkerStalled {
                worker, task_id, ..
            } => {
                self.stalled.insert(worker.clone());
                if self.stalled.len() > limits::MAX_KNOWN_WORKERS {
                    self.stalled.pop_first();
                }
                if let Some(request) = task_id.as_deref().map(RequestId::new) {
                    if let Some(task) = self.open.get_mut(&request) {
                        task.lost += 1;
                    }
                    self.take_back(&request, event.at);
                }
            }
            CoordinatorEvent::WorkerRecovered { worker, .. } => {
                self.stalled.remove(worker);
            }
            _ => {}
        }
    }
}

impl Task {
    /// Whether it may be assigned again if its worker is lost once more.
    pub(super) fn may_go_out_again(&self) -> bool {
        let Handing {
            repeat,
            max_assignments,
            ..
        } = self.handing;
        repeat == TaskRepeat::Repeatable && self.lost + 1 < max_assignments
    }
}

/// The end of an assignment, as remembered by its unique key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAssignment {
    /// The task.
    pub request: RequestId,
    /// The fence of the assignment.
    pub fence: u32,
    /// How it ended.
    pub end: AssignmentEnd,
}

/// How an assignment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentEnd {
    /// Its worker reported a result.
    Delivered,
    /// Its worker reported a failure.
    Failed,
    /// Its worker returned it.
    Released,
    /// Its heartbeats stayed away.
    Lost,
    /// The task was withdrawn.
    Withdrawn,
}

impl AssignmentEnd {
    pub(super) fn new(end: &TaskEnd, status: DispatchStatus) -> Self {
        match (end, status) {
            (TaskEnd::Withdrawn, _) => Self::Withdrawn,
            (_, DispatchStatus::Delivered) => Self::Delivered,
            _ => Self::Failed,
        }
    }
}

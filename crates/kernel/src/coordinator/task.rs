//! Tasks: requests that workers take from the backlog, one at a time each, under a fence.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::coordinator::dispatch::DispatchStatus;
use crate::coordinator::event::{CoordinatorEvent, Event};
use crate::ids::{AttemptId, RequestId, Seq, StreamId, WorkerId};
use crate::limits;
use crate::time::Timestamp;

/// The type of the node whose work goes to workers.
pub const WORKER_NODE: &str = "runwright.worker";
/// For whom such a node waits.
const WORKER: &str = "worker";
/// How long a worker may be silent where nobody said otherwise, in milliseconds.
const HEARTBEAT_TIMEOUT_MS: u64 = 30_000;
/// How reasons begin that are over once there is a live authority.
pub(super) const AUTHORITY: &str = "authority lease";
/// How often a task is handed out where nobody said otherwise.
const MAX_ASSIGNMENTS: u32 = 5;

/// What a run wants of whoever does a task of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskTerms {
    /// The run that waits.
    pub run: StreamId,
    /// The attempt that waits.
    pub attempt: AttemptId,
    /// The name of the signal by which it hears of the end.
    pub signal: String,
    /// How it is handed out.
    #[serde(flatten)]
    pub handing: Handing,
}

/// How a task is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handing {
    /// Whether it may be handed out again when its worker was lost.
    pub repeat: TaskRepeat,
    /// How long its worker may be silent, in milliseconds.
    pub heartbeat_timeout_ms: u64,
    /// How often it is handed out at most, not counting what was given back.
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

/// Whether a task may be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskRepeat {
    /// It may.
    Repeatable,
    /// It may not: where nobody knows what became of it, it has failed.
    Once,
}

impl TaskRepeat {
    /// The word on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repeatable => "repeatable",
            Self::Once => "once",
        }
    }
}

/// The config of a node whose work goes to workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The queue.
    pub queue: String,
    /// How its tasks are handed out.
    pub handing: Handing,
}

impl WorkerConfig {
    /// Reads a config. `None` when it says too little or something wrong.
    pub fn of(config: &Value) -> Option<Self> {
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

/// What a node says while a worker of a queue has its task, or is to take it.
pub fn awaiting_worker(queue: &str, request: &str) -> Value {
    json!({ "waitsFor": WORKER, "queue": queue, "request": request })
}

/// The queue whose worker is waited for, by what a node says of what it waits for: nobody is
/// asked anything then.
pub fn awaited_queue(data: &Value) -> Option<&str> {
    let is_worker = data.get("waitsFor").and_then(Value::as_str) == Some(WORKER);
    data.get("queue")?.as_str().filter(|_| is_worker)
}

/// The task that is waited for, by the same.
pub fn awaited_request(data: &Value) -> Option<RequestId> {
    awaited_queue(data)?;
    data.get("request")?.as_str().map(RequestId::new)
}

/// Whether a text is the name of a queue: 1 to 64 of `A-Z a-z 0-9 . _ -`, and not of dots alone,
/// which clients take for another place of an address.
pub fn is_queue_name(text: &str) -> bool {
    is_written_as_queue(text) && text.bytes().any(|b| b != b'.')
}

/// Whether logs may name a queue so: names of dots alone were taken once.
fn is_written_as_queue(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// That a task was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// How often it has been handed out, this time included: what comes under a smaller number is
    /// refused.
    pub fence: u32,
    /// Who held the authority.
    pub owner: String,
    /// Its worker says when it begins, before it does. Until then nothing has been done, and the
    /// task may be given to another, also one that is not to be repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offered: bool,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The assignment under which it ended; none where it ended in nobody's hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Seq>,
    /// How often it had been handed out.
    pub fence: u32,
    /// What came of it.
    pub end: TaskEnd,
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskEnd {
    /// It was done; what it gives, as the text of a JSON object.
    Outputs(String),
    /// It failed.
    Error(TaskError),
    /// Nobody wants it any more.
    Withdrawn,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// Stable, snake_case, for programs.
    pub code: String,
    /// For a person.
    pub message: String,
    /// `false` where trying again cannot help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

impl TaskEnd {
    /// What the run is told that waits: the answer to its question.
    pub(super) fn answer(&self) -> Option<Value> {
        let (key, value) = match self {
            Self::Outputs(text) => ("outputs", serde_json::from_str(text).ok()?),
            Self::Error(error) => ("error", serde_json::to_value(error).ok()?),
            Self::Withdrawn => return None,
        };
        Some(Value::Object(Map::from_iter([(key.to_owned(), value)])))
    }
}

/// What a coordinator knows of the requests that workers may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tasks {
    /// Requests that are not settled.
    pub(super) open: BTreeMap<RequestId, Task>,
    /// Those that can be handed out, by target, in the order they came.
    waiting: BTreeMap<String, BTreeMap<Seq, RequestId>>,
    /// Those that are handed out, by assignment.
    pub(super) handed: BTreeMap<Seq, RequestId>,
    /// Workers from which a task was taken, and that were not heard of since.
    pub(super) stalled: BTreeSet<WorkerId>,
    /// Why it was said that tasks are blocked, since the last time one was handed out.
    pub(super) blocked: Option<String>,
    /// Since when somebody has held the authority without a gap, and until when as was said last.
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
    /// Whom to tell of its end, and by which name.
    pub(super) waits: Option<(StreamId, String)>,
    pub(super) handing: Handing,
    /// How often it was handed out.
    pub(super) fence: u32,
    /// How often its worker was lost.
    pub(super) lost: u32,
    /// Who has it.
    pub(super) assigned: Option<Assigned>,
}

/// A task in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Assigned {
    pub(super) seq: Seq,
    pub(super) worker: WorkerId,
    /// When it was handed out, or begun.
    pub(super) at: Timestamp,
    /// Its worker has still to say that it begins.
    #[serde(default)]
    pub(super) offered: bool,
}

impl Tasks {
    /// The oldest request that can be handed out to a worker of a queue.
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

    /// Requests that nobody has, and since when the oldest of them waits.
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
            // Handed out here, or brought to its target another way.
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
    /// Whether it may be handed out once more after its worker was lost once more.
    pub(super) fn may_go_out_again(&self) -> bool {
        let Handing {
            repeat,
            max_assignments,
            ..
        } = self.handing;
        repeat == TaskRepeat::Repeatable && self.lost + 1 < max_assignments
    }
}

/// The end of an assignment, as its unique key remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAssignment {
    /// The task.
    pub request: RequestId,
    /// Which time it was handed out.
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
    /// Its worker gave it back.
    Released,
    /// Its heartbeats stayed away.
    Lost,
    /// Nobody wanted it any more.
    Withdrawn,
}

impl AssignmentEnd {
    pub(super) fn of(end: &TaskEnd, status: DispatchStatus) -> Self {
        match (end, status) {
            (TaskEnd::Withdrawn, _) => Self::Withdrawn,
            (_, DispatchStatus::Delivered) => Self::Delivered,
            _ => Self::Failed,
        }
    }
}

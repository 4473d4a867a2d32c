//! The coordinator: one authority lease and a backlog of requests for others, with mailboxes, a
//! replay cursor and readiness, as defined by the runtime contract of commands, events and
//! snapshots.
//!
//! Each name of a tenant has a stream of its own. Settled requests leave the state, so that a
//! long-lived coordinator stays as fast as a new one. The unique keys that its batches claim
//! remember every id, and the caller passes their facts as a [`Recall`].

mod assign;
mod command;
mod contract;
mod decide;
mod dispatch;
mod draft;
mod event;
mod group;
mod import;
mod takes;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::IndexRow;
use crate::coordinator::task::Tasks;
use crate::ids::{RequestId, Seq, StreamId, TenantId, WorkerId};
use crate::limits;
use crate::log::{Aggregate, Checkpointed, Log};
use crate::stream::{Owner, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use assign::{TaskCommand, TaskMessage, assignment_name, assignment_number};
pub use assign::{is_worker_name, memory_of_assignments, message};
pub use command::{CoordinatorCommand, PastDispatch, PastMail, Recall, Rejection};
pub use contract::{Blocker, Contract, CoordinatorStatus, LEASE_EXPIRED, LeaseRule};
pub use decide::Decision;
pub use dispatch::{Backlog, DispatchStatus};
pub use draft::{Remembered, memory_of_mail, memory_of_request};
pub use event::{CoordinatorEvent, Event, Lease};
pub use group::Group;
pub use import::{Import, ImportedEntry, ImportedMail, Reached};
pub use takes::{claim_of_take, memory_of_takes, take_name, taken_before};
pub use task::{
    AssignmentEnd, Handed, Handing, PastAssignment, Report, TaskEnd, TaskError, TaskRepeat,
    TaskTerms, WORKER_NODE, WorkerConfig, awaited_queue, awaited_request, awaiting_worker,
    is_queue_name,
};
pub use view::{HandedOut, KnownWorker};

/// A coordinator.
pub type Coordinator = Log<State>;

/// The state of a coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    lease: Option<Lease>,
    /// Requests that are not settled.
    open: BTreeMap<RequestId, DispatchStatus>,
    backlog: Backlog,
    /// Settled requests below this sequence are not listed.
    compacted: Seq,
    /// Messages that were not read.
    mail: BTreeMap<String, MailStatus>,
    replay: Replay,
    /// Number of events that a replay would apply.
    replayable: u64,
    leader_deferred: bool,
    workers: BTreeMap<WorkerId, String>,
    pulse: Option<Pulse>,
    /// For a coordinator of the native contract.
    #[serde(default)]
    tasks: Tasks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MailStatus {
    Unread,
    Notified,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Replay {
    cursor: Option<String>,
    applied: Cursor,
    last: Option<String>,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cursor {
    /// No replay was requested.
    #[default]
    None,
    /// Up to and including this replayable event.
    Event(u64),
    /// The given name is unknown.
    Unknown,
}

/// The last logged heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pulse {
    owner: String,
    phase: String,
    at: Timestamp,
}

impl Coordinator {
    /// The stream of a tenant's coordinator of this name. Derived, because there is one.
    pub fn stream(tenant: &TenantId, name: &str) -> StreamId {
        StreamId::derived("coordinator", &[tenant.as_str(), name])
    }

    /// A coordinator without events.
    pub fn unborn(tenant: &TenantId, name: &str, contract: Contract, now: Timestamp) -> Self {
        let owner = Owner::tenant(tenant.clone());
        let stream = Self::stream(tenant, name);
        let mut header = StreamHeader::new(stream, StreamKind::Coordinator, owner, now);
        header.policy.queue = name.to_owned();
        header.policy.contract = Some(contract);
        Self::at_start(header.seal_genesis())
    }

    /// Whether a request is queued and not settled.
    pub fn is_open(&self, request: &RequestId) -> bool {
        self.state.open.contains_key(request)
    }

    /// The sequence below which settled requests are not listed.
    pub fn compacted(&self) -> Seq {
        self.state.compacted
    }
}

impl Aggregate for State {
    type Event = Event;
    type Body = CoordinatorEvent;

    fn at_start() -> Self {
        Self::default()
    }

    fn event(log: &Coordinator, at: Timestamp, body: CoordinatorEvent) -> Event {
        Event {
            seq: log.next_seq,
            at,
            n: log.state.replayable + u64::from(body.is_replayable()),
            body,
        }
    }

    fn place(event: &Event) -> (Seq, Timestamp) {
        (event.seq, event.at)
    }

    fn accepts(log: &Coordinator, event: &Event) -> bool {
        event.n == log.state.replayable + u64::from(event.body.is_replayable())
    }

    fn fold(&mut self, header: &StreamHeader, event: &Event, _: &[u8]) {
        self.apply(event);
        if header.policy.contract.unwrap_or_default() == Contract::Native {
            self.tasks.fold(event);
        }
    }

    fn index(log: &Coordinator) -> IndexRow {
        let (queue, backlog) = (&log.header.policy.queue, json!(log.state.backlog));
        IndexRow::new(&log.header, log.at, (queue, "open"), backlog)
    }
}

impl Checkpointed for State {
    const VERSION: u32 = 2;
}

impl State {
    fn apply(&mut self, event: &Event) {
        self.replayable = event.n;
        match &event.body {
            CoordinatorEvent::AuthorityAcquired(lease)
            | CoordinatorEvent::AuthorityRenewed(lease) => self.lease = Some(lease.clone()),
            CoordinatorEvent::AuthorityReleased { .. } => self.lease = None,
            CoordinatorEvent::DispatchQueued { request_id, .. } => {
                self.open
                    .insert(request_id.clone(), DispatchStatus::Pending);
                self.backlog.pending += 1;
            }
            CoordinatorEvent::DispatchNotified { request_id, .. } => {
                self.advance(request_id, DispatchStatus::Notified);
            }
            CoordinatorEvent::DispatchDelivered { request_id, .. } => {
                self.advance(request_id, DispatchStatus::Delivered);
            }
            CoordinatorEvent::DispatchFailed { request_id, .. } => {
                self.advance(request_id, DispatchStatus::Failed);
            }
            CoordinatorEvent::DispatchRemoved {
                request_ids,
                delivered,
                failed,
            } => {
                for request in request_ids {
                    if let Some(status) = self.open.remove(request) {
                        let count = self.backlog.count_mut(status);
                        *count = count.saturating_sub(1);
                    }
                }
                self.backlog.delivered = self.backlog.delivered.saturating_sub(*delivered);
                self.backlog.failed = self.backlog.failed.saturating_sub(*failed);
            }
            CoordinatorEvent::DispatchCompacted => {
                self.backlog.delivered = 0;
                self.backlog.failed = 0;
                self.compacted = event.seq;
            }
            CoordinatorEvent::MailCreated {
                message_id,
                shadowed,
                ..
            } => {
                if !shadowed {
                    self.mail.insert(message_id.clone(), MailStatus::Unread);
                }
            }
            CoordinatorEvent::MailNotified { message_id, .. } => {
                self.mail.insert(message_id.clone(), MailStatus::Notified);
            }
            CoordinatorEvent::MailDelivered { message_id, .. } => {
                self.mail.remove(message_id);
            }
            CoordinatorEvent::ReplayRequested { cursor } => {
                self.replay.applied = self.resolve(cursor.as_deref());
                self.replay.cursor.clone_from(cursor);
            }
            CoordinatorEvent::ReplayMarked { event_id } => {
                self.replay.applied = self.resolve(Some(event_id));
                self.replay.last = Some(event_id.clone());
            }
            CoordinatorEvent::LeaderDeferred => self.leader_deferred = true,
            CoordinatorEvent::LeaderCleared => self.leader_deferred = false,
            CoordinatorEvent::Heartbeat { owner, phase } => {
                self.pulse = Some(Pulse {
                    owner: owner.clone(),
                    phase: phase.clone(),
                    at: event.at,
                });
            }
            CoordinatorEvent::WorkerAssigned {
                worker, task_id, ..
            } => {
                self.workers.insert(worker.clone(), task_id.clone());
                if self.workers.len() > limits::MAX_KNOWN_WORKERS {
                    self.forget_a_worker(worker);
                }
            }
            CoordinatorEvent::Opened
            | CoordinatorEvent::Imported { .. }
            | CoordinatorEvent::Foreign { .. }
            | CoordinatorEvent::SnapshotCaptured
            | CoordinatorEvent::BlockedOnUser { .. }
            | CoordinatorEvent::BlockedOnSystem { .. }
            | CoordinatorEvent::WorkerBegan { .. }
            | CoordinatorEvent::WorkerReleased { .. }
            | CoordinatorEvent::WorkerStalled { .. }
            | CoordinatorEvent::WorkerRecovered { .. } => {}
        }
    }

    /// Makes room for a worker that was given a task.
    fn forget_a_worker(&mut self, but: &WorkerId) {
        let is_idle = |worker: &&WorkerId| *worker != but && !self.tasks.has_assignments(worker);
        if let Some(worker) = self.workers.keys().find(is_idle).cloned() {
            self.workers.remove(&worker);
        }
    }

    fn advance(&mut self, request: &RequestId, to: DispatchStatus) {
        let Some(status) = self.open.get_mut(request) else {
            return;
        };
        self.backlog.moved(*status, to);
        *status = to;
        if matches!(to, DispatchStatus::Delivered | DispatchStatus::Failed) {
            self.open.remove(request);
        }
    }

    /// The event with a name.
    fn resolve(&self, name: Option<&str>) -> Cursor {
        let Some(name) = name else {
            return Cursor::None;
        };
        event_number(name)
            .filter(|n| *n <= self.replayable)
            .map_or(Cursor::Unknown, Cursor::Event)
    }
}

/// The name of the `n`-th replayable event. `e0` is the place before the first.
pub fn event_name(n: u64) -> String {
    format!("e{n}")
}

/// Parses the name of an event.
pub fn event_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('e')?;
    let n = digits.parse().ok()?;
    (event_name(n) == name).then_some(n)
}

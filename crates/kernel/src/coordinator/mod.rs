//! The coordinator: one authority lease and a backlog of requests for others, with mailboxes, a
//! replay cursor and readiness, as the runtime contract of commands, events and snapshots says.
//!
//! A stream of its own per tenant and name. What is settled leaves the state, so that a
//! coordinator with a long life stays as quick as a young one: the unique keys which its batches
//! claim remember every id, and whoever decides brings what they say as a [`Recall`].

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
use crate::digest::Digest;
use crate::ids::{RequestId, Seq, StreamId, TenantId, WorkerId};
use crate::limits;
use crate::stream::{FORMAT_VERSION, Owner, Policy, StreamHeader, StreamKind};
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
#[derive(Clone, Debug)]
pub struct Coordinator {
    header: StreamHeader,
    next_seq: Seq,
    chain: Digest,
    at: Timestamp,
    state: State,
}

/// What a coordinator is the fold of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    lease: Option<Lease>,
    /// Requests that are not settled.
    open: BTreeMap<RequestId, DispatchStatus>,
    backlog: Backlog,
    /// Settled requests below this place are shown no more.
    compacted: Seq,
    /// Messages that were not read.
    mail: BTreeMap<String, MailStatus>,
    replay: Replay,
    /// Events so far that a replay would apply.
    replayable: u64,
    leader_deferred: bool,
    workers: BTreeMap<WorkerId, String>,
    pulse: Option<Pulse>,
    /// Of a coordinator that keeps the native contract.
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

/// How far a replay has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cursor {
    /// Nobody asked for one.
    #[default]
    None,
    /// Up to and with this replayable event.
    Event(u64),
    /// No event has the name that was given.
    Unknown,
}

/// The last heartbeat that was logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pulse {
    owner: String,
    phase: String,
    at: Timestamp,
}

impl Coordinator {
    /// The stream of a tenant's coordinator of this name. Derived, because there is one.
    pub fn stream(tenant: &TenantId, name: &str) -> StreamId {
        let hex = Digest::of(format!("coordinator\0{tenant}\0{name}").as_bytes()).to_string();
        StreamId::new(format!("coordinator-{}", &hex[..32]))
    }

    /// A coordinator nothing was told yet.
    pub fn unborn(tenant: &TenantId, name: &str, contract: Contract, now: Timestamp) -> Self {
        Self::at_start(
            StreamHeader {
                stream: Self::stream(tenant, name),
                kind: StreamKind::Coordinator,
                owner: Owner::tenant(tenant.clone()),
                format: FORMAT_VERSION,
                engine_version: None,
                created_at: now,
                definition: None,
                origin: None,
                parent: None,
                trace: None,
                policy: Policy {
                    queue: name.to_owned(),
                    contract: Some(contract),
                    ..Policy::default()
                },
                genesis: Digest([0; 32]),
                predecessor: None,
                nonce: None,
            }
            .seal_genesis(),
        )
    }

    /// The fold of no event.
    pub fn at_start(header: StreamHeader) -> Self {
        Self {
            next_seq: 0,
            chain: header.genesis,
            at: header.created_at,
            state: State::default(),
            header,
        }
    }

    /// Folds a stored event and gives it back. `None` when it is not an event of this stream's
    /// format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<Event> {
        let event: Event = serde_json::from_slice(content).ok()?;
        let counted = self.state.replayable + u64::from(event.body.is_replayable());
        let fits = event.seq == self.next_seq && event.at >= self.at && event.n == counted;
        fits.then_some(())?;
        self.fold(&event);
        self.chain = self.chain.chain(content);
        Some(event)
    }

    fn fold(&mut self, event: &Event) {
        self.state.fold(event);
        if self.contract() == Contract::Native {
            self.state.tasks.fold(event);
        }
        self.next_seq += 1;
        self.at = event.at;
    }

    /// The state as bytes, for a checkpoint.
    pub fn checkpoint(&self) -> Vec<u8> {
        serde_json::to_vec(&(STATE_VERSION, self.at, &self.state)).expect("a state is always JSON")
    }

    /// A coordinator at the place a checkpoint was taken: after `next_seq` events, the last of
    /// which has this link of the hash chain. `None` when the bytes are not a state of this build:
    /// the log is then folded from its start.
    pub fn from_checkpoint(
        header: StreamHeader,
        next_seq: Seq,
        chain: Digest,
        bytes: &[u8],
    ) -> Option<Self> {
        let (version, at, state): (u32, _, _) = serde_json::from_slice(bytes).ok()?;
        (version == STATE_VERSION).then_some(Self {
            header,
            next_seq,
            chain,
            at,
            state,
        })
    }

    /// Its header.
    pub fn header(&self) -> &StreamHeader {
        &self.header
    }

    /// How many events it has folded.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The last link of the hash chain.
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// Whether a request is queued and not settled.
    pub fn is_open(&self, request: &RequestId) -> bool {
        self.state.open.contains_key(request)
    }

    /// The place below which settled requests are shown no more.
    pub fn compacted(&self) -> Seq {
        self.state.compacted
    }

    /// The index row of this state.
    pub fn index(&self) -> IndexRow {
        IndexRow {
            kind: StreamKind::Coordinator,
            workspace: None,
            subject: self.header.policy.queue.clone(),
            status: "open".into(),
            settled: false,
            runnable: false,
            queue: self.header.policy.queue.clone(),
            priority: 0,
            concurrency_key: None,
            parent: None,
            created_at: self.header.created_at,
            updated_at: self.at,
            tags: Vec::new(),
            summary: json!(self.state.backlog),
        }
    }
}

/// Raised whenever a checkpoint of an earlier build would be read wrongly.
const STATE_VERSION: u32 = 2;

impl State {
    fn fold(&mut self, event: &Event) {
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

    /// The event that a name stands for.
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

/// Reads the name of an event.
pub fn event_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('e')?;
    let n = digits.parse().ok()?;
    (event_name(n) == name).then_some(n)
}

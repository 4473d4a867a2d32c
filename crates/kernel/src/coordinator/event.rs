//! The events of a coordinator stream, as stored. Changing this file is a change of the event
//! format: see `docs/design/event-format.md`.

use serde::{Deserialize, Serialize};

use crate::coordinator::task::{Handed, Report, TaskTerms};
use crate::ids::{RequestId, Seq, WorkerId};
use crate::time::Timestamp;

/// An event of a coordinator stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// Number of replayable events up to and including this one. It names a replayable event
    /// (`e7`). An event that only records a replay's progress has the number of the one before.
    pub n: u64,
    /// The event.
    #[serde(flatten)]
    pub body: CoordinatorEvent,
}

/// The events of a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum CoordinatorEvent {
    /// The log was begun only to record its contract in the header.
    #[serde(rename = "opened")]
    Opened,
    /// The following events were imported from files of another program. Its events have no times,
    /// so they get the time of the import. Only mailboxes have times of their own.
    #[serde(rename = "imported")]
    Imported {
        /// Number of events.
        events: u64,
    },
    /// An entry of another program's log without an effect here: its name is unknown, or the
    /// published rules ignore it at this place. Kept as written.
    #[serde(rename = "foreign")]
    Foreign {
        /// The entry, as JSON text.
        text: String,
    },
    /// A lease of the authority is active.
    #[serde(rename = "authority.acquired")]
    AuthorityAcquired(Lease),
    /// The owner replaced the active lease.
    #[serde(rename = "authority.renewed")]
    AuthorityRenewed(Lease),
    /// The owner released the authority.
    #[serde(rename = "authority.released")]
    AuthorityReleased {
        /// The former holder.
        owner: String,
    },
    /// A request entered the backlog.
    #[serde(rename = "dispatch.queued", rename_all = "camelCase")]
    DispatchQueued {
        request_id: RequestId,
        target: String,
        /// The sender's metadata, as JSON text, so that it is returned unchanged, including the
        /// spelling of numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<String>,
        /// The terms, for a task that a run gives to a worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<Box<TaskTerms>>,
    },
    /// A pending request was presented to its target.
    #[serde(rename = "dispatch.notified", rename_all = "camelCase")]
    DispatchNotified {
        request_id: RequestId,
        channel: String,
    },
    /// A request succeeded.
    #[serde(rename = "dispatch.delivered", rename_all = "camelCase")]
    DispatchDelivered {
        request_id: RequestId,
        /// The report of its worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<Box<Report>>,
    },
    /// A request failed.
    #[serde(rename = "dispatch.failed", rename_all = "camelCase")]
    DispatchFailed {
        request_id: RequestId,
        reason: String,
        /// For a task: the report of its worker, or the one written for a lost worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<Box<Report>>,
    },
    /// Records were removed from the backlog. Their ids stay taken.
    #[serde(rename = "dispatch.removed", rename_all = "camelCase")]
    DispatchRemoved {
        /// The requests, in order.
        request_ids: Vec<RequestId>,
        /// Number of delivered ones.
        delivered: u64,
        /// Number of failed ones.
        failed: u64,
    },
    /// All settled records were removed from the backlog. Their ids stay taken.
    #[serde(rename = "dispatch.compacted")]
    DispatchCompacted,
    /// A message is in a mailbox.
    #[serde(rename = "mailbox.created", rename_all = "camelCase")]
    MailCreated {
        message_id: String,
        /// Its sender.
        from_worker: String,
        /// The owner of the mailbox.
        to_worker: String,
        /// The text. Absent in logs of other programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
        /// There was a message of this id before; later events of the id refer to that one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shadowed: bool,
        /// The time in the imported files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said_at: Option<String>,
    },
    /// The mailbox's owner was notified of a message.
    #[serde(rename = "mailbox.notified", rename_all = "camelCase")]
    MailNotified {
        message_id: String,
        /// The time in the imported files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said_at: Option<String>,
    },
    /// A message was read.
    #[serde(rename = "mailbox.delivered", rename_all = "camelCase")]
    MailDelivered {
        message_id: String,
        /// The time in the imported files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said_at: Option<String>,
    },
    /// Events after a cursor are to be applied again; without a cursor, none are.
    #[serde(rename = "replay.requested")]
    ReplayRequested {
        /// The cursor, as received.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
    },
    /// The events up to this one were applied again.
    #[serde(rename = "replay.marked", rename_all = "camelCase")]
    ReplayMarked {
        /// The name of the event.
        event_id: String,
    },
    /// The leader will be notified later.
    #[serde(rename = "leader.deferred")]
    LeaderDeferred,
    /// The deferred notification of the leader is done.
    #[serde(rename = "leader.cleared")]
    LeaderCleared,
    /// A snapshot was requested.
    #[serde(rename = "snapshot.captured")]
    SnapshotCaptured,
    /// The owner is alive and makes progress.
    #[serde(rename = "run.heartbeat")]
    Heartbeat {
        owner: String,
        /// Its current activity.
        phase: String,
    },
    /// The owner waits for a person.
    #[serde(rename = "run.blocked_on_user")]
    BlockedOnUser { owner: String, reason: String },
    /// The owner waits for tooling or repair.
    #[serde(rename = "run.blocked_on_system")]
    BlockedOnSystem { owner: String, reason: String },
    /// A worker was given a task.
    #[serde(rename = "worker.assigned", rename_all = "camelCase")]
    WorkerAssigned {
        worker: WorkerId,
        task_id: String,
        /// The assignment, for a task that was taken from the backlog.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handed: Option<Handed>,
    },
    /// A worker begins a task that was offered to it.
    #[serde(rename = "worker.began", rename_all = "camelCase")]
    WorkerBegan {
        worker: WorkerId,
        task_id: String,
        /// The fence of the assignment.
        fence: u32,
    },
    /// A worker returned a task, or did not begin it in time.
    #[serde(rename = "worker.released", rename_all = "camelCase")]
    WorkerReleased {
        worker: WorkerId,
        task_id: String,
        /// The fence of the assignment.
        fence: u32,
    },
    /// A worker needs attention.
    #[serde(rename = "worker.stalled", rename_all = "camelCase")]
    WorkerStalled {
        worker: WorkerId,
        reason: String,
        /// The task that was taken from it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<String>,
    },
    /// A worker continues.
    #[serde(rename = "worker.recovered")]
    WorkerRecovered {
        worker: WorkerId,
        /// How it recovered.
        recovery: String,
    },
}

/// The lease of a coordinator's one authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The holder.
    pub owner: String,
    /// Its name.
    pub lease_id: String,
    /// Its end as given by the owner. Parsed as a time if the contract lets leases expire.
    pub leased_until: String,
}

impl CoordinatorEvent {
    /// The same event with the time from another program's files. Only mailbox events keep it.
    pub(super) fn dated(mut self, at: Option<String>) -> Self {
        if let Self::MailCreated { said_at, .. }
        | Self::MailNotified { said_at, .. }
        | Self::MailDelivered { said_at, .. } = &mut self
        {
            *said_at = at;
        }
        self
    }

    /// Whether followers of the coordinator have something to apply.
    pub fn is_replayable(&self) -> bool {
        !matches!(
            self,
            Self::Opened | Self::ReplayRequested { .. } | Self::ReplayMarked { .. }
        )
    }
}

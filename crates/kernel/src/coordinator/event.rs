//! The events of a coordinator stream, as they are stored. Changing this file is a change of the
//! event format: see `docs/design/event-format.md`.

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
    /// How many replayable events there are up to and with this one. A replayable event is named
    /// by it (`e7`); one that only keeps the books of a replay has the number of the one before.
    pub n: u64,
    /// What happened.
    #[serde(flatten)]
    pub body: CoordinatorEvent,
}

/// What happened to a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum CoordinatorEvent {
    /// The log was begun only to say, by its header, which rules it keeps.
    #[serde(rename = "opened")]
    Opened,
    /// What follows was taken over from files that another program wrote, whose events carry no
    /// times: these have the time of the taking over. Only mailboxes say theirs.
    #[serde(rename = "imported")]
    Imported {
        /// How many events.
        events: u64,
    },
    /// An entry of another program's log that has no effect here: its name is not known, or the
    /// published rules pass over it where it stands. Kept as it was written.
    #[serde(rename = "foreign")]
    Foreign {
        /// The entry, as JSON text.
        text: String,
    },
    /// A lease of the authority is active.
    #[serde(rename = "authority.acquired")]
    AuthorityAcquired(Lease),
    /// The active lease was replaced by its owner.
    #[serde(rename = "authority.renewed")]
    AuthorityRenewed(Lease),
    /// The owner gave the authority up.
    #[serde(rename = "authority.released")]
    AuthorityReleased {
        /// Who held it.
        owner: String,
    },
    /// A request entered the backlog.
    #[serde(rename = "dispatch.queued", rename_all = "camelCase")]
    DispatchQueued {
        /// The request.
        request_id: RequestId,
        /// Whom it is for.
        target: String,
        /// What its sender says about it, as JSON text: it comes out as it went in, and numbers
        /// are then not written another way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<String>,
        /// Of a task that a run gives to a worker: on what terms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<Box<TaskTerms>>,
    },
    /// A pending request was put before its target.
    #[serde(rename = "dispatch.notified", rename_all = "camelCase")]
    DispatchNotified {
        /// The request.
        request_id: RequestId,
        /// By which way.
        channel: String,
    },
    /// A request ended well.
    #[serde(rename = "dispatch.delivered", rename_all = "camelCase")]
    DispatchDelivered {
        /// The request.
        request_id: RequestId,
        /// What its worker said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<Box<Report>>,
    },
    /// A request failed.
    #[serde(rename = "dispatch.failed", rename_all = "camelCase")]
    DispatchFailed {
        /// The request.
        request_id: RequestId,
        /// Why.
        reason: String,
        /// Of a task: what its worker said, or what is said for a worker that was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        report: Option<Box<Report>>,
    },
    /// Records were taken out of what is shown. Their ids stay taken.
    #[serde(rename = "dispatch.removed", rename_all = "camelCase")]
    DispatchRemoved {
        /// The requests, in order.
        request_ids: Vec<RequestId>,
        /// How many of them were delivered.
        delivered: u64,
        /// How many of them had failed.
        failed: u64,
    },
    /// All settled records were taken out of what is shown. Their ids stay taken.
    #[serde(rename = "dispatch.compacted")]
    DispatchCompacted,
    /// A message lies in a mailbox.
    #[serde(rename = "mailbox.created", rename_all = "camelCase")]
    MailCreated {
        /// The message.
        message_id: String,
        /// Its sender.
        from_worker: String,
        /// Whose mailbox.
        to_worker: String,
        /// What it says. Missing in logs that others wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
        /// There was a message of this id before; what is said of the id is said of that one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shadowed: bool,
        /// When, as the files say that it was taken over from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said_at: Option<String>,
    },
    /// The mailbox's owner was told of a message.
    #[serde(rename = "mailbox.notified", rename_all = "camelCase")]
    MailNotified {
        /// The message.
        message_id: String,
        /// When, as the files say that it was taken over from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said_at: Option<String>,
    },
    /// A message was read.
    #[serde(rename = "mailbox.delivered", rename_all = "camelCase")]
    MailDelivered {
        /// The message.
        message_id: String,
        /// When, as the files say that it was taken over from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said_at: Option<String>,
    },
    /// Events behind a cursor are to be applied again; without a cursor, none are.
    #[serde(rename = "replay.requested")]
    ReplayRequested {
        /// The cursor, as it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
    },
    /// The events up to this one were applied again.
    #[serde(rename = "replay.marked", rename_all = "camelCase")]
    ReplayMarked {
        /// The name of the event.
        event_id: String,
    },
    /// The leader will be told later.
    #[serde(rename = "leader.deferred")]
    LeaderDeferred,
    /// Nothing waits for the leader any more.
    #[serde(rename = "leader.cleared")]
    LeaderCleared,
    /// Somebody asked for a snapshot.
    #[serde(rename = "snapshot.captured")]
    SnapshotCaptured,
    /// The owner is alive and makes progress.
    #[serde(rename = "run.heartbeat")]
    Heartbeat {
        /// Who.
        owner: String,
        /// What it is doing.
        phase: String,
    },
    /// The owner waits for a person.
    #[serde(rename = "run.blocked_on_user")]
    BlockedOnUser {
        /// Who.
        owner: String,
        /// For what.
        reason: String,
    },
    /// The owner waits for tooling or repair.
    #[serde(rename = "run.blocked_on_system")]
    BlockedOnSystem {
        /// Who.
        owner: String,
        /// For what.
        reason: String,
    },
    /// A worker was given a task.
    #[serde(rename = "worker.assigned", rename_all = "camelCase")]
    WorkerAssigned {
        /// The worker.
        worker: WorkerId,
        /// The task.
        task_id: String,
        /// Of a task that was taken from the backlog: which time it is handed out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handed: Option<Handed>,
    },
    /// A worker begins a task that was offered to it.
    #[serde(rename = "worker.began", rename_all = "camelCase")]
    WorkerBegan {
        /// The worker.
        worker: WorkerId,
        /// The task.
        task_id: String,
        /// Which time it was handed out.
        fence: u32,
    },
    /// A worker gave a task back, or did not begin it in time.
    #[serde(rename = "worker.released", rename_all = "camelCase")]
    WorkerReleased {
        /// The worker.
        worker: WorkerId,
        /// The task.
        task_id: String,
        /// Which time it was handed out.
        fence: u32,
    },
    /// A worker needs attention.
    #[serde(rename = "worker.stalled", rename_all = "camelCase")]
    WorkerStalled {
        /// The worker.
        worker: WorkerId,
        /// Why.
        reason: String,
        /// The task that was taken from it, if one was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<String>,
    },
    /// A worker goes on.
    #[serde(rename = "worker.recovered")]
    WorkerRecovered {
        /// The worker.
        worker: WorkerId,
        /// How.
        recovery: String,
    },
}

/// The lease of a coordinator's one authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// Who holds it.
    pub owner: String,
    /// Its name.
    pub lease_id: String,
    /// Until when, as the owner said it. Read as a time where the contract lets leases expire.
    pub leased_until: String,
}

impl CoordinatorEvent {
    /// The same, as something that happened when another program's files say. Only mailboxes
    /// keep that.
    pub(super) fn dated(mut self, at: Option<String>) -> Self {
        if let Self::MailCreated { said_at, .. }
        | Self::MailNotified { said_at, .. }
        | Self::MailDelivered { said_at, .. } = &mut self
        {
            *said_at = at;
        }
        self
    }

    /// Whether whoever follows the coordinator has something to apply.
    pub fn is_replayable(&self) -> bool {
        !matches!(
            self,
            Self::Opened | Self::ReplayRequested { .. } | Self::ReplayMarked { .. }
        )
    }
}

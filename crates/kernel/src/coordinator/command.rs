//! The commands of a coordinator, the recalled facts that they need, and the rejections.

use std::collections::BTreeMap;

use crate::coordinator::dispatch::DispatchStatus;
use crate::coordinator::event::Lease;
use crate::coordinator::task::AssignmentEnd;
use crate::ids::{RequestId, Seq, WorkerId};

/// A command to a coordinator.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum CoordinatorCommand {
    /// Claim the authority.
    AcquireAuthority(Lease),
    /// Extend the lease without a change of its owner.
    RenewAuthority(Lease),
    /// Release the authority.
    ReleaseAuthority {
        /// The holder.
        owner: String,
    },
    /// Add a request to the backlog.
    QueueDispatch {
        /// Chosen by the sender; never used again.
        request_id: RequestId,
        target: String,
        /// The sender's metadata, as JSON text.
        metadata: Option<String>,
    },
    /// A pending request was presented to its target.
    MarkNotified {
        request_id: RequestId,
        channel: String,
    },
    /// A request succeeded.
    MarkDelivered { request_id: RequestId },
    /// A request failed.
    MarkFailed {
        request_id: RequestId,
        reason: String,
    },
    /// Remove settled records from the backlog: all of these or none.
    RemoveDispatchRecords { request_ids: Vec<RequestId> },
    /// Remove every settled record from the backlog.
    CompactDispatches,
    /// Put a message into a mailbox.
    CreateMail {
        /// Chosen by the sender.
        message_id: String,
        /// The sender.
        from_worker: String,
        /// The owner of the mailbox.
        to_worker: String,
        /// The text.
        body: String,
    },
    /// The mailbox's owner was notified of a message.
    MarkMailNotified { message_id: String },
    /// A message was read.
    MarkMailDelivered { message_id: String },
    /// Apply the events after a cursor again; without a cursor, stop.
    RequestReplay {
        /// The name of an event.
        cursor: Option<String>,
    },
    /// The events up to this one were applied again.
    MarkReplayed {
        /// The name of an event.
        event_id: String,
    },
    /// The leader will be notified later.
    DeferLeaderNotification,
    /// The deferred notification of the leader is done.
    ClearDeferredLeaderNotification,
    /// Emit a snapshot.
    CaptureSnapshot,
    /// The owner is alive.
    Heartbeat {
        owner: String,
        /// Its current activity.
        phase: String,
    },
    /// The owner waits for a person.
    BlockOnUser { owner: String, reason: String },
    /// The owner waits for tooling or repair.
    BlockOnSystem { owner: String, reason: String },
    /// Give a worker a task.
    AssignWorker { worker: WorkerId, task_id: String },
    /// A worker needs attention.
    StallWorker { worker: WorkerId, reason: String },
    /// A worker continues.
    RecoverWorker {
        worker: WorkerId,
        /// How it recovered.
        recovery: String,
    },
}

impl CoordinatorCommand {
    /// The requests in the command. The ends of those that the state has dropped must be recalled.
    pub fn requests(&self) -> &[RequestId] {
        match self {
            Self::QueueDispatch { request_id, .. }
            | Self::MarkNotified { request_id, .. }
            | Self::MarkDelivered { request_id }
            | Self::MarkFailed { request_id, .. } => std::slice::from_ref(request_id),
            Self::RemoveDispatchRecords { request_ids } => request_ids,
            _ => &[],
        }
    }

    /// The message in the command.
    pub fn mail(&self) -> Option<&str> {
        match self {
            Self::CreateMail { message_id, .. }
            | Self::MarkMailNotified { message_id }
            | Self::MarkMailDelivered { message_id } => Some(message_id),
            _ => None,
        }
    }
}

/// Facts from the unique keys of the coordinator about ids that its state has dropped. The state
/// only keeps open ids, so that its size does not grow with the coordinator's age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// Requests that were queued before and have ended.
    pub requests: BTreeMap<RequestId, PastDispatch>,
    /// The known state of the message in the command, open or not.
    pub mail: Option<PastMail>,
    /// The assignments that were granted before under the key of a take.
    pub taken: Option<Vec<Seq>>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastDispatch {
    /// It was settled by the event at this sequence.
    Settled {
        /// Delivered or failed.
        status: DispatchStatus,
        /// The sequence.
        seq: Seq,
    },
    /// It was removed.
    Removed,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastMail {
    /// It is in the mailbox.
    Created,
    /// It was read.
    Delivered,
}

/// Why a coordinator rejects a command. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum Rejection {
    /// Another owner holds the authority.
    #[error("another owner has the authority")]
    LeaseHeld { owner: String },
    /// Only the owner of the lease may do this.
    #[error("another owner has the authority; only the owner can do this")]
    OwnerMismatch {
        /// The holder.
        owner: String,
    },
    /// The authority has no holder.
    #[error("the authority has no owner; acquire it first")]
    NoLease,
    /// The lease has expired.
    #[error("the lease of the authority has expired; renew or acquire it first")]
    LeaseExpired,
    /// The request's id was used before, or twice in one command.
    #[error("a request with this id exists already, or the command has the id twice")]
    DuplicateRequest(RequestId),
    /// The id is invalid.
    #[error("a request id is empty, missing or too long")]
    InvalidRequest(RequestId),
    /// The request has no record.
    #[error("no request has this id")]
    UnknownRequest(RequestId),
    /// The request's status does not allow the transition.
    #[error("a request cannot change from {from} to {to}")]
    InvalidTransition {
        request: RequestId,
        from: DispatchStatus,
        /// The requested status.
        to: DispatchStatus,
    },
    /// No such message.
    #[error("unknown message")]
    UnknownMail(String),
    /// The message was read already.
    #[error("the message is already delivered")]
    MailDelivered(String),
    /// A message of this id exists.
    #[error("a message with this id exists already")]
    DuplicateMail(String),
    /// No event has this name.
    #[error("unknown event name")]
    UnknownEvent,
    /// No replay was requested, or its cursor is unknown.
    #[error("no replay of known events was requested")]
    NoReplay,
    /// The worker was never given a task.
    #[error("no task was ever assigned to this worker")]
    UnknownWorker(WorkerId),
    /// A field is empty or invalid.
    #[error("the field {0} is empty or has the wrong form")]
    InvalidField(&'static str),
    /// The command exceeds the size of an event.
    #[error("the command exceeds the size of an event; store the text elsewhere and refer to it")]
    TooLarge,
    /// The assignment has ended, or never existed.
    #[error("the assignment has ended or never existed")]
    NoAssignment(Option<AssignmentEnd>),
    /// A limit is reached.
    #[error("the coordinator has reached its limit of {0}")]
    Full(&'static str),
}

impl Rejection {
    /// Stable, snake_case, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::LeaseHeld { .. } => "lease_held",
            Self::OwnerMismatch { .. } => "owner_mismatch",
            Self::NoLease => "no_authority",
            Self::LeaseExpired => "lease_expired",
            Self::DuplicateRequest(_) => "duplicate_request",
            Self::InvalidRequest(_) => "invalid_request_id",
            Self::UnknownRequest(_) => "request_not_found",
            Self::InvalidTransition { .. } => "invalid_transition",
            Self::UnknownMail(_) => "message_not_found",
            Self::MailDelivered(_) => "message_delivered",
            Self::DuplicateMail(_) => "duplicate_message",
            Self::UnknownEvent => "event_not_found",
            Self::NoReplay => "no_replay",
            Self::UnknownWorker(_) => "worker_not_found",
            Self::InvalidField(_) => "invalid_field",
            Self::TooLarge => "command_too_large",
            Self::NoAssignment(end) => match end {
                None => "assignment_not_found",
                Some(AssignmentEnd::Delivered | AssignmentEnd::Failed) => "assignment_settled",
                Some(AssignmentEnd::Released) => "assignment_released",
                Some(AssignmentEnd::Lost) => "assignment_lost",
                Some(AssignmentEnd::Withdrawn) => "assignment_withdrawn",
            },
            Self::Full(_) => "coordinator_full",
        }
    }
}

//! What a coordinator is told, what it must be told beside, and why it refuses.

use std::collections::BTreeMap;

use crate::coordinator::dispatch::DispatchStatus;
use crate::coordinator::event::Lease;
use crate::coordinator::task::AssignmentEnd;
use crate::ids::{RequestId, Seq, WorkerId};

/// What a coordinator is told.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorCommand {
    /// Claim the authority.
    AcquireAuthority(Lease),
    /// Extend the lease without a change of its owner.
    RenewAuthority(Lease),
    /// Give the authority up.
    ReleaseAuthority {
        /// Who holds it.
        owner: String,
    },
    /// Add a request to the backlog.
    QueueDispatch {
        /// Chosen by the sender; never used again.
        request_id: RequestId,
        /// Whom it is for.
        target: String,
        /// What the sender says about it, as JSON text.
        metadata: Option<String>,
    },
    /// A pending request was put before its target.
    MarkNotified {
        /// The request.
        request_id: RequestId,
        /// By which way.
        channel: String,
    },
    /// A request ended well.
    MarkDelivered {
        /// The request.
        request_id: RequestId,
    },
    /// A request failed.
    MarkFailed {
        /// The request.
        request_id: RequestId,
        /// Why.
        reason: String,
    },
    /// Take records out of what is shown: all of these or none.
    RemoveDispatchRecords {
        /// The requests.
        request_ids: Vec<RequestId>,
    },
    /// Take every settled record out of what is shown.
    CompactDispatches,
    /// Put a message into a mailbox.
    CreateMail {
        /// Chosen by the sender.
        message_id: String,
        /// The sender.
        from_worker: String,
        /// Whose mailbox.
        to_worker: String,
        /// What it says.
        body: String,
    },
    /// The mailbox's owner was told of a message.
    MarkMailNotified {
        /// The message.
        message_id: String,
    },
    /// A message was read.
    MarkMailDelivered {
        /// The message.
        message_id: String,
    },
    /// Apply the events behind a cursor again; without one, stop.
    RequestReplay {
        /// The name of an event.
        cursor: Option<String>,
    },
    /// The events up to this one were applied again.
    MarkReplayed {
        /// The name of an event.
        event_id: String,
    },
    /// The leader will be told later.
    DeferLeaderNotification,
    /// Nothing waits for the leader any more.
    ClearDeferredLeaderNotification,
    /// Emit a snapshot.
    CaptureSnapshot,
    /// The owner is alive.
    Heartbeat {
        /// Who.
        owner: String,
        /// What it is doing.
        phase: String,
    },
    /// The owner waits for a person.
    BlockOnUser {
        /// Who.
        owner: String,
        /// For what.
        reason: String,
    },
    /// The owner waits for tooling or repair.
    BlockOnSystem {
        /// Who.
        owner: String,
        /// For what.
        reason: String,
    },
    /// Give a worker a task.
    AssignWorker {
        /// The worker.
        worker: WorkerId,
        /// The task.
        task_id: String,
    },
    /// A worker needs attention.
    StallWorker {
        /// The worker.
        worker: WorkerId,
        /// Why.
        reason: String,
    },
    /// A worker goes on.
    RecoverWorker {
        /// The worker.
        worker: WorkerId,
        /// How.
        recovery: String,
    },
}

impl CoordinatorCommand {
    /// The requests it names. What became of those that the state has let go must be recalled.
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

    /// The message it names.
    pub fn mail(&self) -> Option<&str> {
        match self {
            Self::CreateMail { message_id, .. }
            | Self::MarkMailNotified { message_id }
            | Self::MarkMailDelivered { message_id } => Some(message_id),
            _ => None,
        }
    }
}

/// What the unique keys of the coordinator say about ids that its state has let go. The state
/// keeps what is open, so that it stays small however long the coordinator lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// Requests that were queued before and are not open.
    pub requests: BTreeMap<RequestId, PastDispatch>,
    /// What is known of the message the command names, whether open or not.
    pub mail: Option<PastMail>,
    /// The assignments that were handed out before under the key of a take.
    pub taken: Option<Vec<Seq>>,
}

/// What became of a request that is not open any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastDispatch {
    /// It was settled by the event at this place.
    Settled {
        /// Delivered or failed.
        status: DispatchStatus,
        /// Where.
        seq: Seq,
    },
    /// It was taken out.
    Removed,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastMail {
    /// It lies there.
    Created,
    /// It was read.
    Delivered,
}

/// Why a coordinator refuses a command. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Another owner holds the authority.
    #[error("another owner holds the authority")]
    LeaseHeld {
        /// Who.
        owner: String,
    },
    /// Only the owner of the lease may do this.
    #[error("another owner holds the authority, and only the owner may do this")]
    OwnerMismatch {
        /// Who holds it.
        owner: String,
    },
    /// Nobody holds the authority.
    #[error("nobody holds the authority")]
    NoLease,
    /// The lease has run out.
    #[error("the lease of the authority has expired; renew or acquire it first")]
    LeaseExpired,
    /// The request's id was used before, or twice in one command.
    #[error("a request of this id was queued before, or the id is given twice")]
    DuplicateRequest(RequestId),
    /// Not an id.
    #[error("a request id is empty, missing or too long")]
    InvalidRequest(RequestId),
    /// No record of this request.
    #[error("there is no record of this request")]
    UnknownRequest(RequestId),
    /// The request is past that, or not there yet.
    #[error("a request that is {from} does not become {to}")]
    InvalidTransition {
        /// The request.
        request: RequestId,
        /// What it is.
        from: DispatchStatus,
        /// What it should have become.
        to: DispatchStatus,
    },
    /// No such message.
    #[error("there is no such message")]
    UnknownMail(String),
    /// The message was read already.
    #[error("the message was delivered already")]
    MailDelivered(String),
    /// A message of this id is there.
    #[error("a message of this id was created before")]
    DuplicateMail(String),
    /// No event has this name.
    #[error("there is no event of this name")]
    UnknownEvent,
    /// Nobody asked for a replay, or its cursor is unknown.
    #[error("no replay of known events was requested")]
    NoReplay,
    /// The worker was never given a task.
    #[error("the worker was never given a task")]
    UnknownWorker(WorkerId),
    /// A field says nothing, or what cannot be.
    #[error("the field {0} is empty or not of its form")]
    InvalidField(&'static str),
    /// The command holds more than an event may.
    #[error("the command is larger than an event may be; put the text where it can be referred to")]
    TooLarge,
    /// The assignment is over, or there never was one of this name.
    #[error("the assignment is over, or there never was one of this name")]
    NoAssignment(Option<AssignmentEnd>),
    /// A bound is reached.
    #[error("the coordinator holds as many {0} as it may")]
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

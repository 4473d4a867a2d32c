//! Events as JSON.

use kernel::coordinator::{Contract, CoordinatorCommand, CoordinatorEvent, Lease};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The printed form of an event: its fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
#[allow(
    missing_docs,
    reason = "the fields are those of the contract and the kernel's event"
)]
pub enum EventJson {
    AuthorityAcquired {
        owner: String,
        lease_id: String,
        leased_until: String,
    },
    AuthorityRenewed {
        owner: String,
        lease_id: String,
        leased_until: String,
    },
    DispatchQueued {
        request_id: String,
        target: String,
        #[serde(default, skip_serializing_if = "Shown::is_hidden")]
        metadata: Shown,
    },
    DispatchNotified {
        request_id: String,
        channel: String,
    },
    DispatchDelivered {
        request_id: String,
    },
    DispatchFailed {
        request_id: String,
        reason: String,
    },
    DispatchRecordsRemoved {
        request_ids: Vec<String>,
    },
    ReplayRequested {
        #[serde(default)]
        cursor: Option<String>,
    },
    SnapshotCaptured,
    MailboxMessageCreated {
        message_id: String,
        from_worker: String,
        to_worker: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    MailboxNotified {
        message_id: String,
    },
    MailboxDelivered {
        message_id: String,
    },
    AuthorityReleased {
        owner: String,
    },
    DispatchesCompacted,
    Opened,
    Imported {
        events: u64,
    },
    Foreign {
        text: String,
    },
    ReplayMarked {
        event_id: String,
    },
    LeaderNotificationDeferred,
    LeaderNotificationCleared,
    #[serde(rename = "run.heartbeat")]
    Heartbeat {
        owner: String,
        phase: String,
    },
    #[serde(rename = "run.blocked_on_user")]
    BlockedOnUser {
        owner: String,
        reason: String,
    },
    #[serde(rename = "run.blocked_on_system")]
    BlockedOnSystem {
        owner: String,
        reason: String,
    },
    #[serde(rename = "worker.assigned")]
    WorkerAssigned {
        worker: String,
        task_id: String,
    },
    #[serde(rename = "worker.began")]
    WorkerBegan {
        worker: String,
        task_id: String,
    },
    #[serde(rename = "worker.stalled")]
    WorkerStalled {
        worker: String,
        reason: String,
    },
    #[serde(rename = "worker.released")]
    WorkerReleased {
        worker: String,
        task_id: String,
    },
    #[serde(rename = "worker.recovered")]
    WorkerRecovered {
        worker: String,
        recovery: String,
    },
}

/// The metadata from the sender of a request. The contract's own form of the event has no such
/// field; the published form always has it, and uses `null` for none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shown {
    /// The field is left out.
    #[default]
    #[serde(skip)]
    Hidden,
    /// The field is there.
    Is(Value),
}

impl Shown {
    fn is_hidden(&self) -> bool {
        *self == Self::Hidden
    }
}

impl EventJson {
    /// The event in the published form, in which a queued request always has `metadata`.
    pub fn published(event: &CoordinatorEvent) -> Self {
        let mut json = Self::from(event);
        if let Self::DispatchQueued { metadata, .. } = &mut json
            && metadata.is_hidden()
        {
            *metadata = Shown::Is(Value::Null);
        }
        json
    }

    /// The event as returned to the sender of the command, in the form of the contract in force.
    pub fn answer(event: &CoordinatorEvent, contract: Contract) -> Self {
        match contract {
            Contract::Native => Self::from(event),
            Contract::Published => Self::published(event),
        }
    }

    /// Whether the published program reads a log that has this event.
    pub fn is_published(&self) -> bool {
        matches!(
            self,
            Self::AuthorityAcquired { .. }
                | Self::AuthorityRenewed { .. }
                | Self::DispatchQueued { .. }
                | Self::DispatchNotified { .. }
                | Self::DispatchDelivered { .. }
                | Self::DispatchFailed { .. }
                | Self::DispatchRecordsRemoved { .. }
                | Self::ReplayRequested { .. }
                | Self::SnapshotCaptured
                | Self::MailboxMessageCreated { .. }
                | Self::MailboxNotified { .. }
                | Self::MailboxDelivered { .. }
        )
    }
}

impl EventJson {
    /// Whether it changes the authority.
    pub fn is_of_authority(&self) -> bool {
        matches!(
            self,
            Self::AuthorityAcquired { .. }
                | Self::AuthorityRenewed { .. }
                | Self::AuthorityReleased { .. }
        )
    }

    /// The command that produced an event of another program's log. `None` for events that change
    /// no state or do not belong to such a log; mailboxes are read from their own file.
    pub fn command(&self) -> Option<CoordinatorCommand> {
        use CoordinatorCommand as C;
        let lease = |owner: &str, lease_id: &str, leased_until: &str| Lease {
            owner: owner.to_owned(),
            lease_id: lease_id.to_owned(),
            leased_until: leased_until.to_owned(),
        };
        Some(match self {
            Self::AuthorityAcquired {
                owner,
                lease_id,
                leased_until,
            } => C::AcquireAuthority(lease(owner, lease_id, leased_until)),
            Self::AuthorityRenewed {
                owner,
                lease_id,
                leased_until,
            } => C::RenewAuthority(lease(owner, lease_id, leased_until)),
            Self::DispatchQueued {
                request_id,
                target,
                metadata,
            } => C::QueueDispatch {
                request_id: request_id.as_str().into(),
                target: target.clone(),
                metadata: match metadata {
                    Shown::Hidden | Shown::Is(Value::Null) => None,
                    Shown::Is(value) => Some(value.to_string()),
                },
            },
            Self::DispatchNotified {
                request_id,
                channel,
            } => C::MarkNotified {
                request_id: request_id.as_str().into(),
                channel: channel.clone(),
            },
            Self::DispatchDelivered { request_id } => C::MarkDelivered {
                request_id: request_id.as_str().into(),
            },
            Self::DispatchFailed { request_id, reason } => C::MarkFailed {
                request_id: request_id.as_str().into(),
                reason: reason.clone(),
            },
            Self::ReplayRequested { cursor } => C::RequestReplay {
                cursor: cursor.clone(),
            },
            Self::SnapshotCaptured => C::CaptureSnapshot,
            Self::AuthorityReleased { owner } => C::ReleaseAuthority {
                owner: owner.clone(),
            },
            Self::Heartbeat { owner, phase } => C::Heartbeat {
                owner: owner.clone(),
                phase: phase.clone(),
            },
            Self::BlockedOnUser { owner, reason } => C::BlockOnUser {
                owner: owner.clone(),
                reason: reason.clone(),
            },
            Self::BlockedOnSystem { owner, reason } => C::BlockOnSystem {
                owner: owner.clone(),
                reason: reason.clone(),
            },
            Self::WorkerAssigned { worker, task_id } => C::AssignWorker {
                worker: worker.as_str().into(),
                task_id: task_id.clone(),
            },
            Self::WorkerStalled { worker, reason } => C::StallWorker {
                worker: worker.as_str().into(),
                reason: reason.clone(),
            },
            Self::WorkerRecovered { worker, recovery } => C::RecoverWorker {
                worker: worker.as_str().into(),
                recovery: recovery.clone(),
            },
            _ => return None,
        })
    }
}

impl From<&CoordinatorEvent> for EventJson {
    fn from(event: &CoordinatorEvent) -> Self {
        use CoordinatorEvent as E;
        match event.clone() {
            E::AuthorityAcquired(Lease {
                owner,
                lease_id,
                leased_until,
            }) => Self::AuthorityAcquired {
                owner,
                lease_id,
                leased_until,
            },
            E::AuthorityRenewed(Lease {
                owner,
                lease_id,
                leased_until,
            }) => Self::AuthorityRenewed {
                owner,
                lease_id,
                leased_until,
            },
            E::AuthorityReleased { owner } => Self::AuthorityReleased { owner },
            E::DispatchQueued {
                request_id,
                target,
                metadata,
                ..
            } => Self::DispatchQueued {
                request_id: request_id.to_string(),
                target,
                metadata: metadata
                    .and_then(|text| serde_json::from_str(&text).ok())
                    .map_or(Shown::Hidden, Shown::Is),
            },
            E::DispatchNotified {
                request_id,
                channel,
            } => Self::DispatchNotified {
                request_id: request_id.to_string(),
                channel,
            },
            E::DispatchDelivered { request_id, .. } => Self::DispatchDelivered {
                request_id: request_id.to_string(),
            },
            E::DispatchFailed {
                request_id, reason, ..
            } => Self::DispatchFailed {
                request_id: request_id.to_string(),
                reason,
            },
            E::DispatchRemoved { request_ids, .. } => Self::DispatchRecordsRemoved {
                request_ids: request_ids.iter().map(ToString::to_string).collect(),
            },
            E::DispatchCompacted => Self::DispatchesCompacted,
            E::Opened => Self::Opened,
            E::Imported { events } => Self::Imported { events },
            E::Foreign { text } => Self::Foreign { text },
            E::MailCreated {
                message_id,
                from_worker,
                to_worker,
                body,
                ..
            } => Self::MailboxMessageCreated {
                message_id,
                from_worker,
                to_worker,
                body,
            },
            E::MailNotified { message_id, .. } => Self::MailboxNotified { message_id },
            E::MailDelivered { message_id, .. } => Self::MailboxDelivered { message_id },
            E::ReplayRequested { cursor } => Self::ReplayRequested { cursor },
            E::ReplayMarked { event_id } => Self::ReplayMarked { event_id },
            E::LeaderDeferred => Self::LeaderNotificationDeferred,
            E::LeaderCleared => Self::LeaderNotificationCleared,
            E::SnapshotCaptured => Self::SnapshotCaptured,
            E::Heartbeat { owner, phase } => Self::Heartbeat { owner, phase },
            E::BlockedOnUser { owner, reason } => Self::BlockedOnUser { owner, reason },
            E::BlockedOnSystem { owner, reason } => Self::BlockedOnSystem { owner, reason },
            E::WorkerAssigned {
                worker, task_id, ..
            } => Self::WorkerAssigned {
                worker: worker.to_string(),
                task_id,
            },
            E::WorkerBegan {
                worker, task_id, ..
            } => Self::WorkerBegan {
                worker: worker.to_string(),
                task_id,
            },
            E::WorkerReleased {
                worker, task_id, ..
            } => Self::WorkerReleased {
                worker: worker.to_string(),
                task_id,
            },
            E::WorkerStalled { worker, reason, .. } => Self::WorkerStalled {
                worker: worker.to_string(),
                reason,
            },
            E::WorkerRecovered { worker, recovery } => Self::WorkerRecovered {
                worker: worker.to_string(),
                recovery,
            },
        }
    }
}

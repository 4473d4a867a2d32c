//! Commands as JSON.

use kernel::coordinator::{CoordinatorCommand, Lease};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A command, as sent. Unknown fields are ignored. In the order of the published program's list,
/// followed by our additions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command")]
#[allow(
    missing_docs,
    reason = "the fields are those of the contract and the kernel's command"
)]
pub enum CommandJson {
    AcquireAuthority {
        owner: String,
        lease_id: String,
        leased_until: String,
    },
    RenewAuthority {
        owner: String,
        lease_id: String,
        leased_until: String,
    },
    QueueDispatch {
        request_id: String,
        target: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    MarkNotified {
        request_id: String,
        channel: String,
    },
    MarkDelivered {
        request_id: String,
    },
    MarkFailed {
        request_id: String,
        reason: String,
    },
    RemoveDispatchRecords {
        request_ids: Vec<String>,
    },
    RequestReplay {
        #[serde(default)]
        cursor: Option<String>,
    },
    CaptureSnapshot,
    CreateMailboxMessage {
        message_id: String,
        from_worker: String,
        to_worker: String,
        body: String,
    },
    MarkMailboxNotified {
        message_id: String,
    },
    MarkMailboxDelivered {
        message_id: String,
    },
    ReleaseAuthority {
        owner: String,
    },
    #[serde(alias = "run.heartbeat")]
    Heartbeat {
        owner: String,
        phase: String,
    },
    #[serde(alias = "run.blocked_on_user")]
    BlockOnUser {
        owner: String,
        reason: String,
    },
    #[serde(alias = "run.blocked_on_system")]
    BlockOnSystem {
        owner: String,
        reason: String,
    },
    #[serde(alias = "worker.assigned")]
    AssignWorker {
        worker: String,
        task_id: String,
    },
    #[serde(alias = "worker.stalled")]
    StallWorker {
        worker: String,
        reason: String,
    },
    #[serde(alias = "worker.recovered")]
    RecoverWorker {
        worker: String,
        recovery: String,
    },
    DeferLeaderNotification,
    ClearDeferredLeaderNotification,
    MarkReplayed {
        event_id: String,
    },
}

impl CommandJson {
    /// Reads a command.
    ///
    /// # Errors
    /// When the text is not a command, with line and column.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl From<CommandJson> for CoordinatorCommand {
    fn from(json: CommandJson) -> Self {
        use CommandJson as J;
        match json {
            J::AcquireAuthority {
                owner,
                lease_id,
                leased_until,
            } => Self::AcquireAuthority(Lease {
                owner,
                lease_id,
                leased_until,
            }),
            J::RenewAuthority {
                owner,
                lease_id,
                leased_until,
            } => Self::RenewAuthority(Lease {
                owner,
                lease_id,
                leased_until,
            }),
            J::QueueDispatch {
                request_id,
                target,
                metadata,
            } => Self::QueueDispatch {
                request_id: request_id.into(),
                target,
                metadata: metadata.map(|value| value.to_string()),
            },
            J::MarkNotified {
                request_id,
                channel,
            } => Self::MarkNotified {
                request_id: request_id.into(),
                channel,
            },
            J::MarkDelivered { request_id } => Self::MarkDelivered {
                request_id: request_id.into(),
            },
            J::MarkFailed { request_id, reason } => Self::MarkFailed {
                request_id: request_id.into(),
                reason,
            },
            J::RequestReplay { cursor } => Self::RequestReplay { cursor },
            J::CaptureSnapshot => Self::CaptureSnapshot,
            J::CreateMailboxMessage {
                message_id,
                from_worker,
                to_worker,
                body,
            } => Self::CreateMail {
                message_id,
                from_worker,
                to_worker,
                body,
            },
            J::MarkMailboxNotified { message_id } => Self::MarkMailNotified { message_id },
            J::MarkMailboxDelivered { message_id } => Self::MarkMailDelivered { message_id },
            J::RemoveDispatchRecords { request_ids } => Self::RemoveDispatchRecords {
                request_ids: request_ids.into_iter().map(Into::into).collect(),
            },
            J::ReleaseAuthority { owner } => Self::ReleaseAuthority { owner },
            J::Heartbeat { owner, phase } => Self::Heartbeat { owner, phase },
            J::BlockOnUser { owner, reason } => Self::BlockOnUser { owner, reason },
            J::BlockOnSystem { owner, reason } => Self::BlockOnSystem { owner, reason },
            J::AssignWorker { worker, task_id } => Self::AssignWorker {
                worker: worker.into(),
                task_id,
            },
            J::StallWorker { worker, reason } => Self::StallWorker {
                worker: worker.into(),
                reason,
            },
            J::RecoverWorker { worker, recovery } => Self::RecoverWorker {
                worker: worker.into(),
                recovery,
            },
            J::DeferLeaderNotification => Self::DeferLeaderNotification,
            J::ClearDeferredLeaderNotification => Self::ClearDeferredLeaderNotification,
            J::MarkReplayed { event_id } => Self::MarkReplayed { event_id },
        }
    }
}

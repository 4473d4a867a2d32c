//! The events of an audit stream, as stored. Changing this file is a change of the event format:
//! see `docs/design/event-format.md`.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{MessageId, Seq};
use crate::time::Timestamp;

/// An event of an audit stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was recorded here. It was decided at or before this time.
    pub at: Timestamp,
    /// The SHA-256 of the entry before this one, as stored. Absent in the first entry.
    #[serde(default, rename = "prevHash", skip_serializing_if = "Option::is_none")]
    pub prev_hash: Option<Digest>,
    /// The event.
    #[serde(flatten)]
    pub body: AuditEvent,
}

/// The events of an audit stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum AuditEvent {
    /// An action on the tenant was done, or denied.
    #[serde(rename = "runwright.audit.recorded")]
    Recorded(Entry),
    /// The entries since the last checkpoint were signed.
    #[serde(rename = "runwright.audit.checkpointed")]
    Checkpointed(Checkpoint),
}

/// A signed Merkle root over the entries since the checkpoint before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Its id.
    pub checkpoint: String,
    /// The last entry it covers, directly before its own.
    pub at_sequence: Seq,
    /// The root.
    pub merkle_root: Digest,
    /// Ed25519 over the 32 bytes of the root, base64.
    pub signature: String,
    /// The id of the keyring's key that the signing key was derived from.
    pub key: String,
}

/// An action, its actor and its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct Entry {
    /// The message that delivered it. A repeated message is dropped.
    pub message: MessageId,
    /// When it was decided.
    pub decided_at: Timestamp,
    pub action: AuditAction,
    pub by: Actor,
    pub on: Subject,
    pub outcome: Outcome,
}

/// The actions in an audit trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditAction {
    /// A workflow's name was set to another definition.
    #[serde(rename = "workflow.put")]
    WorkflowPut,
    /// A key was created.
    #[serde(rename = "key.created")]
    KeyCreated,
    /// A key was replaced by a successor.
    #[serde(rename = "key.rotated")]
    KeyRotated,
    /// A key was revoked.
    #[serde(rename = "key.revoked")]
    KeyRevoked,
    /// A key was used, for the first time in an hour.
    #[serde(rename = "key.used")]
    KeyUsed,
    /// A run was created by a principal.
    #[serde(rename = "run.created")]
    RunCreated,
    /// A question of a run was answered.
    #[serde(rename = "interrupt.answered")]
    InterruptAnswered,
    /// A run was cancelled by a principal.
    #[serde(rename = "run.cancelled")]
    RunCancelled,
    /// A person overrode the regular deciders of a gate.
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden,
    /// Denied: answering or annotating runs, or deciding a gate.
    #[serde(rename = "approvals.respond")]
    ApprovalsRespond,
    /// A webhook was created.
    #[serde(rename = "webhook.registered")]
    WebhookRegistered,
    /// A webhook got another secret.
    #[serde(rename = "webhook.rotated")]
    WebhookRotated,
    /// A webhook was removed.
    #[serde(rename = "webhook.removed")]
    WebhookRemoved,
    /// Denied: reading or changing webhooks.
    #[serde(rename = "webhooks.manage")]
    WebhooksManage,
    /// A run was forked.
    #[serde(rename = "run.forked")]
    RunForked,
    /// A run was annotated.
    #[serde(rename = "run.annotated")]
    RunAnnotated,
    /// All data of a run was exported as a bundle.
    #[serde(rename = "run.bundled")]
    RunBundled,
    /// A run was erased.
    #[serde(rename = "run.purged")]
    RunPurged,
    /// A gate of a document was decided.
    #[serde(rename = "gate.decided")]
    GateDecided,
    /// A document was saved.
    #[serde(rename = "document.saved")]
    DocumentSaved,
    /// A document was deleted with all its saves.
    #[serde(rename = "document.deleted")]
    DocumentDeleted,
    /// Denied: reading or changing keys.
    #[serde(rename = "keys.manage")]
    KeysManage,
    /// Denied: changing workflows.
    #[serde(rename = "workflows.write")]
    WorkflowsWrite,
    /// Denied: reading the audit trail.
    #[serde(rename = "audit.read")]
    AuditRead,
    /// Denied: reading workflows.
    #[serde(rename = "workflows.read")]
    WorkflowsRead,
    /// Denied: creating runs or saving documents.
    #[serde(rename = "runs.create")]
    RunsCreate,
    /// Denied: reading runs.
    #[serde(rename = "runs.read")]
    RunsRead,
    /// Denied: cancelling, pausing, resuming or signalling runs.
    #[serde(rename = "runs.cancel")]
    RunsCancel,
    /// Denied: answering for another person.
    #[serde(rename = "approvals.delegate")]
    ApprovalsDelegate,
    /// Denied: reading artifacts of runs.
    #[serde(rename = "artifacts.read")]
    ArtifactsRead,
    /// Denied: taking tasks of a queue.
    #[serde(rename = "workers.take")]
    WorkersTake,
    /// Denied: reading a queue.
    #[serde(rename = "coordinator.read")]
    CoordinatorRead,
    /// Denied: sending commands to a queue's coordinator.
    #[serde(rename = "coordinator.write")]
    CoordinatorWrite,
}

/// An actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// Opaque, never personal data.
    pub principal: String,
    /// The issuer of the principal's credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The subject of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Its kind: `run`, `workflow`, `key`, …
    pub kind: String,
    /// Its id, if it is a single thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its part of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was denied because this scope was missing.
    Denied {
        /// The scope.
        needs: String,
    },
}

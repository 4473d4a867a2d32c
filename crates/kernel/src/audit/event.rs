//! The events of an audit stream, as they are stored. Changing this file is a change of the event
//! format: see `docs/design/event-format.md`.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{MessageId, Seq};
use crate::time::Timestamp;

/// An event of an audit stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it came here. What it tells of was decided at or before this time.
    pub at: Timestamp,
    /// The SHA-256 of the entry before this one, as it is stored. The first entry has
    /// none.
    #[serde(default, rename = "prevHash", skip_serializing_if = "Option::is_none")]
    pub prev_hash: Option<Digest>,
    /// What happened.
    #[serde(flatten)]
    pub body: AuditEvent,
}

/// What happened to an audit stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum AuditEvent {
    /// Something was done to the tenant, or refused.
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
    /// The last entry it covers, which stands right before its own.
    pub at_sequence: Seq,
    /// The root.
    pub merkle_root: Digest,
    /// Ed25519 over the 32 bytes of the root, base64.
    pub signature: String,
    /// The id of the key of the keyring that the signing key was made of.
    pub key: String,
}

/// Who did what to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The message it came by. One that is here already is dropped.
    pub message: MessageId,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// What was done.
    pub action: AuditAction,
    /// Who did it.
    pub by: Actor,
    /// What it was done to.
    pub on: Subject,
    /// What came of it.
    pub outcome: Outcome,
}

/// What can be done that an audit trail tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditAction {
    /// A workflow's name was given another definition.
    #[serde(rename = "workflow.put")]
    WorkflowPut,
    /// A key was made.
    #[serde(rename = "key.created")]
    KeyCreated,
    /// A key was given a successor.
    #[serde(rename = "key.rotated")]
    KeyRotated,
    /// A key was taken back.
    #[serde(rename = "key.revoked")]
    KeyRevoked,
    /// A key was used, for the first time in an hour.
    #[serde(rename = "key.used")]
    KeyUsed,
    /// A run was created by somebody.
    #[serde(rename = "run.created")]
    RunCreated,
    /// What a run waited for was answered by somebody.
    #[serde(rename = "interrupt.answered")]
    InterruptAnswered,
    /// A run was cancelled by somebody.
    #[serde(rename = "run.cancelled")]
    RunCancelled,
    /// Somebody decided a gate past those who should have.
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden,
    /// Runs were to be answered or annotated; somebody without the right to was about to decide a
    /// gate.
    #[serde(rename = "approvals.respond")]
    ApprovalsRespond,
    /// A webhook was made.
    #[serde(rename = "webhook.registered")]
    WebhookRegistered,
    /// A webhook was given another secret.
    #[serde(rename = "webhook.rotated")]
    WebhookRotated,
    /// A webhook was taken away.
    #[serde(rename = "webhook.removed")]
    WebhookRemoved,
    /// Webhooks were to be read or changed.
    #[serde(rename = "webhooks.manage")]
    WebhooksManage,
    /// A run was forked.
    #[serde(rename = "run.forked")]
    RunForked,
    /// Something was noted about a run.
    #[serde(rename = "run.annotated")]
    RunAnnotated,
    /// All there is of a run was taken out at once, for somebody to look at elsewhere.
    #[serde(rename = "run.bundled")]
    RunBundled,
    /// A run was erased by somebody.
    #[serde(rename = "run.purged")]
    RunPurged,
    /// A gate of a document was decided by somebody.
    #[serde(rename = "gate.decided")]
    GateDecided,
    /// A document was saved.
    #[serde(rename = "document.saved")]
    DocumentSaved,
    /// A document was deleted with all its saves.
    #[serde(rename = "document.deleted")]
    DocumentDeleted,
    /// Keys were to be read or changed.
    #[serde(rename = "keys.manage")]
    KeysManage,
    /// Workflows were to be changed.
    #[serde(rename = "workflows.write")]
    WorkflowsWrite,
    /// The audit trail was to be read.
    #[serde(rename = "audit.read")]
    AuditRead,
    /// Workflows were to be read.
    #[serde(rename = "workflows.read")]
    WorkflowsRead,
    /// Runs were to be created, or documents saved.
    #[serde(rename = "runs.create")]
    RunsCreate,
    /// Runs were to be read.
    #[serde(rename = "runs.read")]
    RunsRead,
    /// Runs were to be cancelled, paused, resumed or told something.
    #[serde(rename = "runs.cancel")]
    RunsCancel,
    /// Somebody was to be answered for.
    #[serde(rename = "approvals.delegate")]
    ApprovalsDelegate,
    /// Artifacts of runs were to be read.
    #[serde(rename = "artifacts.read")]
    ArtifactsRead,
    /// Tasks of a queue were to be taken.
    #[serde(rename = "workers.take")]
    WorkersTake,
    /// A queue was to be read.
    #[serde(rename = "coordinator.read")]
    CoordinatorRead,
    /// A queue's coordinator was to be told commands.
    #[serde(rename = "coordinator.write")]
    CoordinatorWrite,
}

/// Somebody who acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// Opaque, never personal data.
    pub principal: String,
    /// Who vouches for the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The request it was asked for with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Something that is acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// What kind of thing: `run`, `workflow`, `key`, …
    pub kind: String,
    /// Which one, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The part of the tenant it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was refused for want of this scope.
    Denied {
        /// The scope.
        needs: String,
    },
}

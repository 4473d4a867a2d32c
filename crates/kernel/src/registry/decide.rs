//! Decide: from a registry and a command to a batch, or to a rejection that writes nothing.

use crate::audit::{Actor, AuditAction, Subject};
use crate::batch::Batch;
use crate::digest::Digest;
use crate::ids::{KeyId, TenantId, WebhookId};
use crate::limits;
use crate::log::Draft;
use crate::registry::event::{Grant, RegistryEvent, WebhookSecret, WebhookSpec};
use crate::registry::key::{self, KeyStatus};
use crate::registry::{Entries, Key, Registry};
use crate::stream::{DefinitionRef, PutBy};
use crate::time::Timestamp;

/// A command to a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum RegistryCommand {
    /// Set the definition of a workflow's name.
    PutWorkflow {
        /// The definition; its document must be in the store.
        definition: DefinitionRef,
    },
    /// Create a key for the tenant.
    CreateKey {
        /// The new key's id.
        key: KeyId,
        /// SHA-256 of its token.
        digest: Digest,
        grant: Grant,
    },
    /// Reject a key from now on.
    RevokeKey {
        key: KeyId,
        /// The reason; kept in the log.
        reason: Option<String>,
    },
    /// Replace a key by a successor with the same grant.
    RotateKey {
        /// The key that ends.
        key: KeyId,
        /// The new key's id.
        successor: KeyId,
        /// SHA-256 of the new token.
        digest: Digest,
        /// Milliseconds for which both are valid. Never lengthens the old key's life.
        overlap_ms: u64,
    },
    /// Register a webhook for runs from now on.
    RegisterWebhook {
        /// The new webhook's id.
        webhook: WebhookId,
        /// Its events and its address.
        spec: WebhookSpec,
        /// Its signing secret.
        secret: WebhookSecret,
    },
    /// Set another secret of a webhook.
    RotateWebhook {
        webhook: WebhookId,
        /// The new secret.
        secret: WebhookSecret,
        /// Milliseconds for which both sign. An earlier overlap ends at once.
        overlap_ms: u64,
    },
    /// Remove a webhook.
    RemoveWebhook { webhook: WebhookId },
}

/// Why a registry rejects a command. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The registry has this content already.
    #[error("the registry has this already")]
    Unchanged,
    /// The version of the workflow is registered with other content.
    #[error(
        "this `version` of the workflow is registered with other content, which cannot change; \
         give the changed definition another `version`"
    )]
    VersionTaken,
    /// The id is in use; draw another.
    #[error("there is a key with this id")]
    KeyExists,
    /// The tenant has no such key.
    #[error("unknown key")]
    UnknownKey,
    /// The key is revoked or expired.
    #[error("the key is no longer valid")]
    DeadKey,
    /// The maximum number of keys is reached.
    #[error("the tenant has {} valid keys; revoke some", limits::MAX_KEYS)]
    TooManyKeys,
    /// The grant violates a limit.
    #[error("{0}")]
    InvalidGrant(&'static str),
    /// The webhook's id is in use; draw another.
    #[error("there is a webhook with this id")]
    WebhookExists,
    /// The tenant has no such webhook.
    #[error("unknown webhook")]
    UnknownWebhook,
    /// The maximum number of webhooks is reached.
    #[error("the tenant has {} webhooks; remove some", limits::MAX_WEBHOOKS)]
    TooManyWebhooks,
    /// The webhook violates a limit.
    #[error("{0}")]
    InvalidWebhook(&'static str),
    /// Deliveries to this webhook can have only one signature.
    #[error("this webhook can have only one signature at a time; remove it and create another")]
    NoOverlap,
}

impl Rejection {
    /// Stable, snake_case, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::VersionTaken => "workflow_version_taken",
            Self::KeyExists => "key_exists",
            Self::UnknownKey => "key_not_found",
            Self::DeadKey => "key_not_live",
            Self::TooManyKeys => "too_many_keys",
            Self::InvalidGrant(_) => "invalid_grant",
            Self::WebhookExists => "webhook_exists",
            Self::UnknownWebhook => "subscription_not_found",
            Self::TooManyWebhooks => "too_many_webhooks",
            Self::InvalidWebhook(_) => "invalid_webhook",
            Self::NoOverlap => "webhook_not_rotatable",
        }
    }
}

impl Registry {
    /// Decides a command. Its audit entry is sent by the outbox of the same batch.
    ///
    /// # Errors
    /// The rejection.
    pub fn decide(
        self,
        command: RegistryCommand,
        by: &Actor,
        now: Timestamp,
    ) -> Result<Batch, Rejection> {
        let mut draft = Draft::new(self, now);
        let now = draft.now;
        match command {
            RegistryCommand::PutWorkflow { definition } => {
                let before = draft.log.workflow(definition.workflow.as_str());
                if before.is_some_and(|before| says_as_much(before, &definition)) {
                    return Err(Rejection::Unchanged);
                }
                if draft.log.is_taken(&definition) {
                    return Err(Rejection::VersionTaken);
                }
                let subject = Subject::new("workflow", definition.workflow.as_str());
                draft.audit(AuditAction::WorkflowPut, subject, by);
                draft.blobs.push(definition.digest);
                draft.emit(RegistryEvent::WorkflowPut { definition });
            }
            RegistryCommand::CreateKey { key, digest, grant } => {
                draft.may_create(&key)?;
                key::check(&grant, now)?;
                if TenantId::parse(draft.log.tenant().as_str()).is_none() {
                    return Err(Rejection::InvalidGrant(
                        "a key cannot have a tenant of this name",
                    ));
                }
                draft.audit_key(AuditAction::KeyCreated, &key, &grant, by);
                draft.emit(RegistryEvent::KeyCreated {
                    key_id: key,
                    digest,
                    grant,
                    replaces: None,
                });
            }
            RegistryCommand::RevokeKey { key, reason } => {
                let old = draft.log.key(&key).ok_or(Rejection::UnknownKey)?;
                if old.standing(now) == KeyStatus::Revoked {
                    return Err(Rejection::Unchanged);
                }
                let grant = old.grant.clone();
                draft.audit_key(AuditAction::KeyRevoked, &key, &grant, by);
                draft.emit(RegistryEvent::KeyRevoked {
                    key_id: key,
                    reason,
                });
            }
            RegistryCommand::RotateKey {
                key,
                successor,
                digest,
                overlap_ms,
            } => {
                let old = draft.log.key(&key).ok_or(Rejection::UnknownKey)?.clone();
                if old.standing(now) != KeyStatus::Live {
                    return Err(Rejection::DeadKey);
                }
                draft.may_create(&successor)?;
                draft.audit_key(AuditAction::KeyRotated, &key, &old.grant, by);
                draft.emit(RegistryEvent::KeyCreated {
                    key_id: successor.clone(),
                    digest,
                    grant: renewed(&old, now),
                    replaces: Some(key.clone()),
                });
                let end = now.plus_ms(overlap_ms);
                draft.emit(RegistryEvent::KeyRotated {
                    key_id: key,
                    successor,
                    expires_at: old.grant.expires_at.map_or(end, |expiry| expiry.min(end)),
                });
            }
            RegistryCommand::RegisterWebhook {
                webhook,
                spec,
                secret,
            } => draft.register_webhook(webhook, spec, secret, by)?,
            RegistryCommand::RotateWebhook {
                webhook,
                secret,
                overlap_ms,
            } => draft.rotate_webhook(webhook, secret, overlap_ms, by)?,
            RegistryCommand::RemoveWebhook { webhook } => draft.remove_webhook(webhook, by)?,
        }
        Ok(draft.seal().0)
    }
}

/// Whether a registered definition covers a new one: both are the same, and the registered one
/// gives at least the same rights.
fn says_as_much(before: &DefinitionRef, after: &DefinitionRef) -> bool {
    let same = DefinitionRef {
        put_by: before.put_by,
        ..after.clone()
    };
    *before == same && (before.put_by == after.put_by || before.put_by == PutBy::Operator)
}

/// The grant of a successor: its lifetime equals the old key's, from now on.
fn renewed(old: &Key, now: Timestamp) -> Grant {
    let life = |expires_at: Timestamp| expires_at.ms_since(old.created_at);
    Grant {
        expires_at: old
            .grant
            .expires_at
            .map(|expires_at| now.plus_ms(life(expires_at))),
        ..old.grant.clone()
    }
}

impl Draft<Entries> {
    fn may_create(&self, key: &KeyId) -> Result<(), Rejection> {
        if self.log.key(key).is_some() {
            return Err(Rejection::KeyExists);
        }
        let is_live = |key: &&Key| key.standing(self.now) == KeyStatus::Live;
        match self.log.keys().filter(is_live).count() {
            count if count >= limits::MAX_KEYS => Err(Rejection::TooManyKeys),
            _ => Ok(()),
        }
    }

    fn audit_key(&mut self, action: AuditAction, key: &KeyId, grant: &Grant, by: &Actor) {
        let mut subject = Subject::new("key", key.as_str());
        subject.workspace.clone_from(&grant.workspace);
        self.audit(action, subject, by);
    }
}

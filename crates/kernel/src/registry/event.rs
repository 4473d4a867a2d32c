//! The events of a registry stream, as they are stored. Changing this file is a change of the
//! event format: see `docs/design/event-format.md`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{KeyId, WebhookId};
use crate::log;
use crate::sealed::Sealed;
use crate::stream::DefinitionRef;
use crate::time::Timestamp;

/// An event of a registry stream.
pub type Event = log::Event<RegistryEvent>;

/// What a key lets its bearer be and do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Who acts with the key; opaque, never personal data.
    pub principal: String,
    /// The only workspace it reaches; without one it reaches the whole tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Scope words. Their meaning is the runtime's.
    pub scopes: BTreeSet<String>,
    /// Groups that its bearer belongs to, for gates that name some.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// Roles that its bearer has, for gates that name some.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    /// What people call the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From when on the key is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What a webhook is told, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSpec {
    /// Where deliveries go.
    pub url: String,
    /// The event types it is told of; `*` stands for all.
    pub events: BTreeSet<String>,
    /// Only runs with one of these tags, unless it is empty.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Only runs of this workspace; without one those of the whole tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Whether deliveries are also signed as Standard Webhooks 1.0.0 says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standard: bool,
}

/// What a webhook's deliveries are signed with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSecret {
    /// The secret, sealed for the tenant.
    pub sealed: Sealed,
    /// The first 8 hex digits of the secret's SHA-256: what people and logs call it by.
    pub fingerprint: String,
}

/// What happened to a registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum RegistryEvent {
    /// A workflow's name stands for this definition from now on.
    #[serde(rename = "runwright.workflow.put")]
    WorkflowPut {
        /// The definition.
        definition: DefinitionRef,
    },
    /// A key exists. Its secret was shown once and is not here.
    #[serde(rename = "runwright.key.created", rename_all = "camelCase")]
    KeyCreated {
        /// The key.
        key_id: KeyId,
        /// SHA-256 of the whole token.
        digest: Digest,
        /// What it grants.
        #[serde(flatten)]
        grant: Grant,
        /// The key it takes the place of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<KeyId>,
    },
    /// A key has a successor and ends soon. The successor's own event stands before this one.
    #[serde(rename = "runwright.key.rotated", rename_all = "camelCase")]
    KeyRotated {
        /// The key that ends.
        key_id: KeyId,
        /// The key that takes its place.
        successor: KeyId,
        /// From when on the old key is refused.
        expires_at: Timestamp,
    },
    /// A key is refused from now on.
    #[serde(rename = "runwright.key.revoked", rename_all = "camelCase")]
    KeyRevoked {
        /// The key.
        key_id: KeyId,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A webhook exists. Its secret was shown once.
    #[serde(rename = "runwright.webhook.registered", rename_all = "camelCase")]
    WebhookRegistered {
        /// The webhook.
        webhook_id: WebhookId,
        /// What it is told, and where.
        #[serde(flatten)]
        spec: WebhookSpec,
        /// What its deliveries are signed with.
        secret: WebhookSecret,
    },
    /// A webhook has another secret; for a while both sign.
    #[serde(rename = "runwright.webhook.rotated", rename_all = "camelCase")]
    WebhookRotated {
        /// The webhook.
        webhook_id: WebhookId,
        /// The new secret.
        secret: WebhookSecret,
        /// From when on the secret before it signs nothing.
        previous_expires_at: Timestamp,
    },
    /// Nothing is delivered to a webhook any more.
    #[serde(rename = "runwright.webhook.removed", rename_all = "camelCase")]
    WebhookRemoved {
        /// The webhook.
        webhook_id: WebhookId,
    },
}

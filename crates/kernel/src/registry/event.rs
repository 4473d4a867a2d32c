//! The events of a registry stream, as stored. Changing this file is a change of the event format:
//! see `docs/design/event-format.md`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{KeyId, WebhookId};
use crate::log;
use crate::sealed::Sealed;
use crate::stream::{DefinitionRef, WebhookContract};
use crate::time::Timestamp;

/// An event of a registry stream.
pub type Event = log::Event<RegistryEvent>;

/// The identity and rights of a key's bearer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The acting principal; opaque, never personal data.
    pub principal: String,
    /// The only accessible workspace; without one the whole tenant is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Scope names. Their meaning is defined by the runtime.
    pub scopes: BTreeSet<String>,
    /// The bearer's groups, for gates that name some.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// The bearer's roles, for gates that name some.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    /// The key's name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From when on the key is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The events and the address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSpec {
    /// Where deliveries go.
    pub url: String,
    /// The event types to deliver; `*` means all.
    pub events: BTreeSet<String>,
    /// Only runs with one of these tags, unless it is empty.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Only runs of this workspace; without one those of the whole tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Whether deliveries are also signed as defined by Standard Webhooks 1.0.0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standard: bool,
    /// The major of the protocol that deliveries are in.
    #[serde(default, skip_serializing_if = "WebhookContract::is_first")]
    pub contract: WebhookContract,
}

/// The signing secret of a webhook's deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSecret {
    /// The secret, sealed for the tenant.
    pub sealed: Sealed,
    /// The first 8 hex digits of the secret's SHA-256, by which people and logs refer to it.
    pub fingerprint: String,
}

/// The events of a registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum RegistryEvent {
    /// A workflow's name has this definition from now on.
    #[serde(rename = "runwright.workflow.put")]
    WorkflowPut { definition: DefinitionRef },
    /// A key exists. Its secret was shown once and is not here.
    #[serde(rename = "runwright.key.created", rename_all = "camelCase")]
    KeyCreated {
        key_id: KeyId,
        /// SHA-256 of the whole token.
        digest: Digest,
        #[serde(flatten)]
        grant: Grant,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<KeyId>,
    },
    /// A key has a successor and ends soon. The successor's own event precedes this one.
    #[serde(rename = "runwright.key.rotated", rename_all = "camelCase")]
    KeyRotated {
        /// The key that ends.
        key_id: KeyId,
        /// The key that replaces it.
        successor: KeyId,
        /// From when on the old key is rejected.
        expires_at: Timestamp,
    },
    /// A key is rejected from now on.
    #[serde(rename = "runwright.key.revoked", rename_all = "camelCase")]
    KeyRevoked {
        key_id: KeyId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A webhook exists. Its secret was shown once.
    #[serde(rename = "runwright.webhook.registered", rename_all = "camelCase")]
    WebhookRegistered {
        webhook_id: WebhookId,
        /// Its events and its address.
        #[serde(flatten)]
        spec: WebhookSpec,
        /// Its signing secret.
        secret: WebhookSecret,
    },
    /// A webhook has another secret; for a while both sign.
    #[serde(rename = "runwright.webhook.rotated", rename_all = "camelCase")]
    WebhookRotated {
        webhook_id: WebhookId,
        /// The new secret.
        secret: WebhookSecret,
        /// From when on the previous secret does not sign.
        previous_expires_at: Timestamp,
    },
    /// Deliveries to a webhook have ended.
    #[serde(rename = "runwright.webhook.removed", rename_all = "camelCase")]
    WebhookRemoved { webhook_id: WebhookId },
}

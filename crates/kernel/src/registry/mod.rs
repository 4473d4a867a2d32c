//! The registry of a tenant: the definitions of workflow names, the tenant's keys, and the webhooks
//! for its runs.
//!
//! Each tenant has a stream of its own. Putting a workflow again appends; existing runs keep the
//! definition in their header. A key is never removed, only revoked or expired.

mod decide;
mod event;
mod key;
#[cfg(test)]
mod tests;
mod webhook;

use std::collections::BTreeMap;

use serde_json::json;

use crate::batch::IndexRow;
use crate::digest::Digest;
use crate::ids::{KeyId, Seq, StreamId, TenantId, WebhookId, WorkflowId};
use crate::log::{Aggregate, Log};
use crate::stream::{DefinitionRef, Owner, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use crate::stream::WebhookContract;
pub use decide::{RegistryCommand, Rejection};
pub use event::{Event, Grant, RegistryEvent, WebhookSecret, WebhookSpec};
pub use key::{KEY_ID_BYTES, Key, KeyStatus};
pub use webhook::{EVERY_EVENT, Previous, QUESTION_NOTICES, Webhook};

/// The prefix of the ids of registry streams.
const PREFIX: &str = "registry-";

/// The registry of a tenant.
pub type Registry = Log<Entries>;

/// The state of a registry.
#[derive(Clone, Debug)]
pub struct Entries {
    workflows: BTreeMap<WorkflowId, DefinitionRef>,
    /// The document of each version of a workflow, which never changes.
    versions: BTreeMap<(WorkflowId, String), Digest>,
    keys: BTreeMap<KeyId, Key>,
    webhooks: BTreeMap<WebhookId, Webhook>,
}

impl Entries {
    /// Whether the earlier keys and webhooks that an event names exist.
    fn knows_what(&self, body: &RegistryEvent) -> bool {
        match body {
            RegistryEvent::WorkflowPut { .. } => true,
            RegistryEvent::KeyCreated {
                key_id, replaces, ..
            } => {
                let is_known = |id: &KeyId| self.keys.contains_key(id);
                !is_known(key_id) && replaces.as_ref().is_none_or(is_known)
            }
            RegistryEvent::KeyRotated {
                key_id, successor, ..
            } => [key_id, successor]
                .iter()
                .all(|id| self.keys.contains_key(*id)),
            RegistryEvent::KeyRevoked { key_id, .. } => self.keys.contains_key(key_id),
            RegistryEvent::WebhookRegistered { webhook_id, .. } => {
                !self.webhooks.contains_key(webhook_id)
            }
            RegistryEvent::WebhookRotated { webhook_id, .. }
            | RegistryEvent::WebhookRemoved { webhook_id } => {
                self.webhooks.contains_key(webhook_id)
            }
        }
    }
}

impl Aggregate for Entries {
    type Event = Event;
    type Body = RegistryEvent;

    fn at_start() -> Self {
        Self {
            workflows: BTreeMap::new(),
            versions: BTreeMap::new(),
            keys: BTreeMap::new(),
            webhooks: BTreeMap::new(),
        }
    }

    fn event(log: &Registry, at: Timestamp, body: RegistryEvent) -> Event {
        Event::next(log, at, body)
    }

    fn place(event: &Event) -> (Seq, Timestamp) {
        (event.seq, event.at)
    }

    fn accepts(log: &Registry, event: &Event) -> bool {
        log.state.knows_what(&event.body)
    }

    fn fold(&mut self, _: &StreamHeader, event: &Event, _: &[u8]) {
        match &event.body {
            RegistryEvent::WorkflowPut { definition } => {
                let version = (definition.workflow.clone(), definition.version.clone());
                self.versions.insert(version, definition.digest);
                self.workflows
                    .insert(definition.workflow.clone(), definition.clone());
            }
            RegistryEvent::KeyCreated {
                key_id,
                digest,
                grant,
                replaces,
            } => {
                let key = Key {
                    id: key_id.clone(),
                    digest: *digest,
                    grant: grant.clone(),
                    created_at: event.at,
                    revoked_at: None,
                    revoke_reason: None,
                    replaces: replaces.clone(),
                    successor: None,
                };
                self.keys.insert(key_id.clone(), key);
            }
            RegistryEvent::KeyRotated {
                key_id,
                successor,
                expires_at,
            } => {
                if let Some(key) = self.keys.get_mut(key_id) {
                    key.grant.expires_at = Some(*expires_at);
                    key.successor = Some(successor.clone());
                }
            }
            RegistryEvent::KeyRevoked { key_id, reason } => {
                if let Some(key) = self.keys.get_mut(key_id) {
                    key.revoked_at = Some(event.at);
                    key.revoke_reason.clone_from(reason);
                }
            }
            RegistryEvent::WebhookRegistered {
                webhook_id,
                spec,
                secret,
            } => {
                let webhook = Webhook {
                    id: webhook_id.clone(),
                    spec: spec.clone(),
                    secret: secret.clone(),
                    previous: None,
                    created_at: event.at,
                    rotated_at: None,
                };
                self.webhooks.insert(webhook_id.clone(), webhook);
            }
            RegistryEvent::WebhookRotated {
                webhook_id,
                secret,
                previous_expires_at,
            } => {
                if let Some(webhook) = self.webhooks.get_mut(webhook_id) {
                    let before = std::mem::replace(&mut webhook.secret, secret.clone());
                    webhook.previous = Some(Previous {
                        secret: before,
                        expires_at: *previous_expires_at,
                    });
                    webhook.rotated_at = Some(event.at);
                }
            }
            RegistryEvent::WebhookRemoved { webhook_id } => {
                self.webhooks.remove(webhook_id);
            }
        }
    }

    fn index(log: &Registry) -> IndexRow {
        let Self {
            workflows,
            keys,
            webhooks,
            ..
        } = &log.state;
        let mut summary = json!({ "workflows": workflows.len() });
        if !keys.is_empty() {
            summary["keys"] = keys.len().into();
        }
        if !webhooks.is_empty() {
            summary["webhooks"] = webhooks.len().into();
        }
        IndexRow::new(&log.header, log.at, ("registry", "open"), summary)
    }
}

impl Registry {
    /// The stream of a tenant's registry. Derived, because there is one per tenant.
    pub fn stream(tenant: &TenantId) -> StreamId {
        StreamId::derived("registry", &[tenant.as_str()])
    }

    /// Whether a stream is a registry's.
    pub fn is_stream(stream: &StreamId) -> bool {
        stream.as_str().starts_with(PREFIX)
    }

    /// An empty registry.
    pub fn unborn(tenant: &TenantId, now: Timestamp) -> Self {
        let owner = Owner::tenant(tenant.clone());
        let header = StreamHeader::new(Self::stream(tenant), StreamKind::Registry, owner, now);
        Self::at_start(header.seal_genesis())
    }

    /// The tenant whose registry it is.
    pub fn tenant(&self) -> &TenantId {
        self.header.tenant()
    }

    /// The definition of a name.
    pub fn workflow(&self, id: &str) -> Option<&DefinitionRef> {
        self.state.workflows.get(id)
    }

    /// Whether a version of a workflow is registered with another document than this definition's.
    fn is_taken(&self, definition: &DefinitionRef) -> bool {
        let version = (definition.workflow.clone(), definition.version.clone());
        let digest = self.state.versions.get(&version);
        digest.is_some_and(|digest| *digest != definition.digest)
    }

    /// Every workflow, by name.
    pub fn workflows(&self) -> impl Iterator<Item = &DefinitionRef> {
        self.state.workflows.values()
    }

    /// A key, valid or not.
    pub fn key(&self, id: &KeyId) -> Option<&Key> {
        self.state.keys.get(id)
    }

    /// Every key, valid or not, by id.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.state.keys.values()
    }

    /// A webhook.
    pub fn webhook(&self, id: &WebhookId) -> Option<&Webhook> {
        self.state.webhooks.get(id)
    }

    /// Every webhook, by id.
    pub fn webhooks(&self) -> impl Iterator<Item = &Webhook> {
        self.state.webhooks.values()
    }
}

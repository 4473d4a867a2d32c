//! The registry of a tenant: which definition a workflow's name stands for, which keys open the
//! tenant, and which webhooks are told of its runs.
//!
//! A stream of its own per tenant. Putting a workflow again appends; runs that exist keep the
//! definition their header names. A key is never taken out, only revoked or expired.

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
use crate::stream::{DefinitionRef, FORMAT_VERSION, Owner, Policy, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use decide::{RegistryCommand, Rejection};
pub use event::{Event, Grant, RegistryEvent, WebhookSecret, WebhookSpec};
pub use key::{KEY_ID_BYTES, Key, KeyStatus};
pub use webhook::{EVERY_EVENT, Previous, Webhook};

/// How the ids of registry streams begin.
const PREFIX: &str = "registry-";

/// The state of a registry.
#[derive(Clone, Debug)]
pub struct Registry {
    header: StreamHeader,
    next_seq: Seq,
    chain: Digest,
    at: Timestamp,
    workflows: BTreeMap<WorkflowId, DefinitionRef>,
    /// What each version of a workflow stands for, for good.
    versions: BTreeMap<(WorkflowId, String), Digest>,
    keys: BTreeMap<KeyId, Key>,
    webhooks: BTreeMap<WebhookId, Webhook>,
}

impl Registry {
    /// The stream of a tenant's registry. Derived, because there is one per tenant.
    pub fn stream(tenant: &TenantId) -> StreamId {
        let hex = Digest::of(format!("registry\0{tenant}").as_bytes()).to_string();
        StreamId::new(format!("{PREFIX}{}", &hex[..32]))
    }

    /// Whether a stream is one of a registry.
    pub fn is_stream(stream: &StreamId) -> bool {
        stream.as_str().starts_with(PREFIX)
    }

    /// A registry nothing was put into yet.
    pub fn unborn(tenant: &TenantId, now: Timestamp) -> Self {
        Self::at_start(
            StreamHeader {
                stream: Self::stream(tenant),
                kind: StreamKind::Registry,
                owner: Owner::tenant(tenant.clone()),
                format: FORMAT_VERSION,
                engine_version: None,
                created_at: now,
                definition: None,
                origin: None,
                parent: None,
                trace: None,
                policy: Policy::default(),
                genesis: Digest([0; 32]),
                predecessor: None,
                nonce: None,
            }
            .seal_genesis(),
        )
    }

    /// The fold of no event.
    pub fn at_start(header: StreamHeader) -> Self {
        Self {
            next_seq: 0,
            chain: header.genesis,
            at: header.created_at,
            workflows: BTreeMap::new(),
            versions: BTreeMap::new(),
            keys: BTreeMap::new(),
            webhooks: BTreeMap::new(),
            header,
        }
    }

    /// Folds a stored event. `None` when it is not an event of this stream's format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<()> {
        let event: Event = serde_json::from_slice(content).ok()?;
        (event.seq == self.next_seq && self.knows_what(&event.body)).then_some(())?;
        self.fold(&event);
        self.chain = self.chain.chain(content);
        Some(())
    }

    /// What an event says of earlier keys and webhooks must be there to be said.
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

    fn fold(&mut self, event: &Event) {
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
        self.next_seq += 1;
        self.at = event.at;
    }

    /// The tenant whose registry it is.
    pub fn tenant(&self) -> &TenantId {
        self.header.tenant()
    }

    /// How many events it has folded.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The definition a name stands for.
    pub fn workflow(&self, id: &str) -> Option<&DefinitionRef> {
        self.workflows.get(id)
    }

    /// Whether a version of a workflow stands for another document than this definition's.
    fn is_taken(&self, definition: &DefinitionRef) -> bool {
        let version = (definition.workflow.clone(), definition.version.clone());
        let digest = self.versions.get(&version);
        digest.is_some_and(|digest| *digest != definition.digest)
    }

    /// Every workflow, by name.
    pub fn workflows(&self) -> impl Iterator<Item = &DefinitionRef> {
        self.workflows.values()
    }

    /// A key, whether it works or not.
    pub fn key(&self, id: &KeyId) -> Option<&Key> {
        self.keys.get(id)
    }

    /// Every key, whether it works or not, by id.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.values()
    }

    /// A webhook.
    pub fn webhook(&self, id: &WebhookId) -> Option<&Webhook> {
        self.webhooks.get(id)
    }

    /// Every webhook, by id.
    pub fn webhooks(&self) -> impl Iterator<Item = &Webhook> {
        self.webhooks.values()
    }

    /// The last link of the hash chain.
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// The index row of this state.
    pub fn index(&self) -> IndexRow {
        let mut summary = json!({ "workflows": self.workflows.len() });
        // Left out where there is none, as in rows written before there were keys.
        if !self.keys.is_empty() {
            summary["keys"] = self.keys.len().into();
        }
        if !self.webhooks.is_empty() {
            summary["webhooks"] = self.webhooks.len().into();
        }
        IndexRow {
            kind: StreamKind::Registry,
            workspace: None,
            subject: "registry".into(),
            status: "open".into(),
            settled: false,
            runnable: false,
            queue: self.header.policy.queue.clone(),
            priority: 0,
            concurrency_key: None,
            parent: None,
            created_at: self.header.created_at,
            updated_at: self.at,
            tags: Vec::new(),
            summary,
        }
    }
}

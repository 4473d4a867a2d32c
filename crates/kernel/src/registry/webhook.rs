//! Webhooks of the registry. The progress of their deliveries is in a log for each: see
//! [`crate::delivery`].

use crate::audit::{Actor, AuditAction, Subject};
use crate::ids::WebhookId;
use crate::limits;
use crate::log::Draft;
use crate::registry::event::{RegistryEvent, WebhookSecret, WebhookSpec};
use crate::registry::{Entries, Rejection};
use crate::time::Timestamp;

/// The name for all event types.
pub const EVERY_EVENT: &str = "*";
/// The id of the webhook that delivers notices of questions. Each run names its own address. The
/// first such run of a tenant registers the webhook.
pub const QUESTION_NOTICES: &str = "wh_question_notices";

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its events and its address.
    pub spec: WebhookSpec,
    /// Its signing secret.
    pub secret: WebhookSecret,
    /// The previous secret.
    pub previous: Option<Previous>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last got another secret.
    pub rotated_at: Option<Timestamp>,
}

/// A secret that has a successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    /// The secret.
    pub secret: WebhookSecret,
    /// From when on it does not sign.
    pub expires_at: Timestamp,
}

impl Webhook {
    /// Whether it delivers notices of questions, to the addresses that runs name.
    pub fn is_for_notices(&self) -> bool {
        self.id.as_str() == QUESTION_NOTICES
    }

    /// Whether events of a type are delivered to it.
    pub fn wants(&self, event_type: &str) -> bool {
        let events = &self.spec.events;
        events.contains(event_type) || events.contains(EVERY_EVENT)
    }

    /// Whether events of runs of a workspace and with some tags are delivered to it. The caller
    /// checks the tenant first.
    pub fn wants_run<T: AsRef<str>>(&self, workspace: Option<&str>, tags: &[T]) -> bool {
        let WebhookSpec {
            tags: wanted,
            workspace: only,
            ..
        } = &self.spec;
        let is_within = only.as_deref().is_none_or(|only| workspace == Some(only));
        let mut tags = tags.iter().map(AsRef::as_ref);
        is_within && (wanted.is_empty() || tags.any(|tag| wanted.contains(tag)))
    }

    /// The previous secret, while both sign.
    pub fn overlapping(&self, now: Timestamp) -> Option<&WebhookSecret> {
        let previous = self.previous.as_ref()?;
        (now < previous.expires_at).then_some(&previous.secret)
    }
}

/// Checks the settings of a webhook against their limits.
pub(super) fn check(spec: &WebhookSpec) -> Result<(), Rejection> {
    let is_word = |word: &String| {
        !word.is_empty()
            && word.len() <= limits::MAX_NAME_BYTES
            && !word.chars().any(char::is_control)
    };
    if spec.url.is_empty() || spec.url.len() > limits::MAX_WEBHOOK_URL_BYTES {
        return Err(Rejection::InvalidWebhook(
            "a webhook's url has 1 to 2048 bytes",
        ));
    }
    if spec.events.is_empty() || spec.events.len() > limits::MAX_WEBHOOK_EVENTS {
        return Err(Rejection::InvalidWebhook(
            "a webhook names 1 to 128 event types",
        ));
    }
    if spec.tags.len() > limits::MAX_TAGS {
        return Err(Rejection::InvalidWebhook(
            "a webhook names at most 100 tags",
        ));
    }
    let mut words = spec.events.iter().chain(&spec.tags).chain(&spec.workspace);
    if words.all(is_word) {
        Ok(())
    } else {
        Err(Rejection::InvalidWebhook(
            "event types, tags and workspace are 1 to 256 bytes of text without control characters",
        ))
    }
}

impl Draft<Entries> {
    pub(super) fn register_webhook(
        &mut self,
        id: WebhookId,
        spec: WebhookSpec,
        secret: WebhookSecret,
        by: &Actor,
    ) -> Result<(), Rejection> {
        check(&spec)?;
        if self.log.webhook(&id).is_some() {
            return Err(Rejection::WebhookExists);
        }
        if self.log.webhooks().count() >= limits::MAX_WEBHOOKS {
            return Err(Rejection::TooManyWebhooks);
        }
        self.audit_webhook(AuditAction::WebhookRegistered, &id, &spec, by);
        self.emit(RegistryEvent::WebhookRegistered {
            webhook_id: id,
            spec,
            secret,
        });
        Ok(())
    }

    pub(super) fn rotate_webhook(
        &mut self,
        id: WebhookId,
        secret: WebhookSecret,
        overlap_ms: u64,
        by: &Actor,
    ) -> Result<(), Rejection> {
        let spec = self.webhook_spec(&id)?;
        if !spec.standard {
            return Err(Rejection::NoOverlap);
        }
        self.audit_webhook(AuditAction::WebhookRotated, &id, &spec, by);
        self.emit(RegistryEvent::WebhookRotated {
            webhook_id: id,
            secret,
            previous_expires_at: self.now.plus_ms(overlap_ms),
        });
        Ok(())
    }

    pub(super) fn remove_webhook(&mut self, id: WebhookId, by: &Actor) -> Result<(), Rejection> {
        let spec = self.webhook_spec(&id)?;
        self.audit_webhook(AuditAction::WebhookRemoved, &id, &spec, by);
        self.emit(RegistryEvent::WebhookRemoved { webhook_id: id });
        Ok(())
    }

    fn webhook_spec(&self, id: &WebhookId) -> Result<WebhookSpec, Rejection> {
        let webhook = self.log.webhook(id);
        let webhook = webhook.ok_or(Rejection::UnknownWebhook)?;
        Ok(webhook.spec.clone())
    }

    fn audit_webhook(
        &mut self,
        action: AuditAction,
        id: &WebhookId,
        spec: &WebhookSpec,
        by: &Actor,
    ) {
        let mut subject = Subject::new("webhook", id.as_str());
        subject.workspace.clone_from(&spec.workspace);
        self.audit(action, subject, by);
    }
}

//! Webhooks: registering, listing, rotating, removing, and the state of their deliveries.

use std::collections::BTreeSet;

use kernel::delivery::Facts;
use kernel::ids::WebhookId;
use kernel::registry::{RegistryCommand, Rejection, Webhook, WebhookContract, WebhookSpec};
use kernel::time::Timestamp;
use store::StoreError;

use super::error::ResourceKind;
use super::{Api, ApiError, Effect};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::door::RegistryError;
use crate::webhooks::{self, OVERLAP_MS, Secret};

/// How many ids are drawn before registration fails because each is in use.
const DRAWS: u32 = 8;

/// A webhook to register.
#[derive(Clone, Debug, Default)]
pub struct NewWebhook {
    /// The target URL.
    pub url: String,
    /// The event types to deliver; `*` means all.
    pub events: BTreeSet<String>,
    /// Only runs with one of these tags, unless it is empty.
    pub tags: BTreeSet<String>,
    /// Only runs of this workspace. The default is the caller's own, if it is bound to one.
    pub workspace: Option<String>,
    /// The signing secret, if the subscriber supplies one.
    pub secret: Option<String>,
    /// Whether deliveries are also signed by Standard Webhooks 1.0.0.
    pub standard: bool,
    /// The major of the protocol that deliveries are in.
    pub contract: WebhookContract,
}

/// A registered webhook.
#[derive(Clone)]
pub struct RegisteredWebhook {
    /// The webhook.
    pub webhook: Webhook,
    /// Its secret, shown this once. `None` if the subscriber supplied it.
    pub secret: Option<Secret>,
}

/// A completed rotation of a webhook's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// When.
    pub at: Timestamp,
    /// When the previous secret expires.
    pub previous_expires_at: Timestamp,
}

/// The state of a webhook's deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryReport {
    /// The webhook.
    pub webhook: Webhook,
    /// The state of its log. `None` before the first delivery was considered.
    pub facts: Option<Facts>,
    /// The current time by the store's clock.
    pub now: Timestamp,
}

impl Api {
    /// Registers a webhook for events from now on. A repeated request returns its earlier webhook.
    ///
    /// # Errors
    /// An address that the guard rejects, an invalid secret, a limit of the registry, or an
    /// endpoint that failed verification.
    pub async fn register_webhook(
        &self,
        who: &Principal,
        new: NewWebhook,
        request_id: Option<&str>,
        effect: Option<&Effect>,
    ) -> Result<RegisteredWebhook, ApiError> {
        self.permit_webhooks(who, who.workspace.as_deref())?;
        if let Some(registered) = self.registered_before(who, &new, effect).await? {
            return Ok(registered);
        }
        let workspace = match (&who.workspace, new.workspace) {
            (Some(bound), Some(asked)) if *bound != asked => return Err(ApiError::NotTheirs),
            (bound, asked) => asked.or_else(|| bound.clone()),
        };
        let url = self.webhooks.check(&new.url).await;
        let url = url.map_err(ApiError::WebhookAddress)?;
        let secret = secret(new.secret.as_deref(), new.standard)?;
        let store = self.door().store();
        if new.standard {
            let outbound = self.webhooks.outbound();
            let verified = webhooks::verify(outbound, &url, &secret, store.now()).await;
            if !(verified.map_err(no_entropy)?) {
                return Err(ApiError::WebhookUnverified);
            }
        }
        let spec = WebhookSpec {
            url: url.into(),
            events: new.events,
            tags: new.tags,
            workspace,
            standard: new.standard,
            contract: new.contract,
        };
        let draw = || match effect {
            Some(effect) => Ok(webhooks::id_of(effect.name())),
            None => webhooks::draw_id(),
        };
        let id = self.put_webhook(who, spec, &secret, draw, request_id);
        let id = id.await?;
        let registry = self.door().workflows(&who.tenant).await?;
        let webhook = registry.webhook(&id).cloned();
        Ok(RegisteredWebhook {
            webhook: webhook.ok_or(ApiError::NotFound(ResourceKind::Webhook))?,
            secret: (!new.standard).then_some(secret),
        })
    }

    /// The webhook of an earlier request whose response was lost.
    async fn registered_before(
        &self,
        who: &Principal,
        new: &NewWebhook,
        effect: Option<&Effect>,
    ) -> Result<Option<RegisteredWebhook>, ApiError> {
        let Some(effect) = effect.filter(|effect| effect.is_repeated) else {
            return Ok(None);
        };
        let registry = self.door().workflows(&who.tenant).await?;
        let Some(webhook) = registry.webhook(&webhooks::id_of(effect.name())).cloned() else {
            return Ok(None);
        };
        let secret = self.secret_of(who, &webhook)?;
        let secret = (!new.standard).then_some(secret);
        Ok(Some(RegisteredWebhook { webhook, secret }))
    }

    /// The secret that signs deliveries to a webhook of the caller's tenant.
    fn secret_of(&self, who: &Principal, webhook: &Webhook) -> Result<Secret, ApiError> {
        let secret = webhooks::open_secret(&self.engine, &who.tenant, &webhook.secret);
        secret.map_err(|error| StoreError::unavailable(error).into())
    }

    /// Adds a webhook to the registry, and starts its delivery log at the feed position of that
    /// registration.
    pub(super) async fn put_webhook(
        &self,
        who: &Principal,
        spec: WebhookSpec,
        secret: &Secret,
        draw: impl Fn() -> std::io::Result<WebhookId>,
        request_id: Option<&str>,
    ) -> Result<WebhookId, ApiError> {
        let sealed = webhooks::seal(&self.engine, &who.tenant, secret);
        let sealed = sealed.map_err(StoreError::unavailable)?;
        let by = who.actor(request_id);
        let mut draws = 0;
        let (id, position) = loop {
            let id = draw().map_err(no_entropy)?;
            let register = RegistryCommand::RegisterWebhook {
                webhook: id.clone(),
                spec: spec.clone(),
                secret: sealed.clone(),
            };
            let done = self.door().registry_command(&who.tenant, &register, &by);
            match done.await {
                Ok(position) => break (id, position),
                Err(RegistryError::Rejected(Rejection::WebhookExists)) if draws < DRAWS => {
                    draws += 1;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let registry = self.door().workflows(&who.tenant).await?;
        if let Some(webhook) = registry.webhook(&id) {
            let store = self.door().store();
            webhooks::open(&**store, &who.tenant, webhook, position).await?;
        }
        self.webhooks.changed();
        Ok(id)
    }

    /// The visible webhooks, newest first.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn webhooks(&self, who: &Principal) -> Result<Vec<Webhook>, ApiError> {
        self.permit_webhooks(who, who.workspace.as_deref())?;
        let registry = self.door().workflows(&who.tenant).await?;
        let reaches =
            |webhook: &&Webhook| who.workspace.is_none() || who.workspace == webhook.spec.workspace;
        let mut all: Vec<Webhook> = registry.webhooks().filter(reaches).cloned().collect();
        all.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(all)
    }

    /// The state of a webhook's deliveries.
    ///
    /// # Errors
    /// `NotFound` if the webhook does not exist or is not visible to the caller.
    pub async fn webhook(
        &self,
        who: &Principal,
        id: &WebhookId,
    ) -> Result<DeliveryReport, ApiError> {
        let webhook = self.reachable_webhook(who, id).await?;
        let store = self.door().store();
        let known = webhooks::load(&**store, &who.tenant, id).await?;
        Ok(DeliveryReport {
            webhook,
            facts: known.map(|deliveries| deliveries.facts().clone()),
            now: store.now(),
        })
    }

    /// Replaces the secret of a webhook with one that the subscriber supplies. Both sign for a day.
    ///
    /// # Errors
    /// `NotFound`; an invalid secret; a webhook that allows one signature only.
    pub async fn rotate_webhook(
        &self,
        who: &Principal,
        id: &WebhookId,
        new: &str,
        request_id: Option<&str>,
    ) -> Result<Rotated, ApiError> {
        let before = self.reachable_webhook(who, id).await?;
        let secret = secret(Some(new), true)?;
        if let Some(rotated) = rotated(&before)
            && self.secret_of(who, &before)? == secret
        {
            // Already the current secret; setting it again would end the overlap.
            return Ok(rotated);
        }
        let sealed = webhooks::seal(&self.engine, &who.tenant, &secret);
        let rotate = RegistryCommand::RotateWebhook {
            webhook: id.clone(),
            secret: sealed.map_err(StoreError::unavailable)?,
            overlap_ms: OVERLAP_MS,
        };
        let by = who.actor(request_id);
        let door = self.door();
        door.registry_command(&who.tenant, &rotate, &by).await?;
        let webhook = self.reachable_webhook(who, id).await?;
        rotated(&webhook).ok_or(ApiError::NotFound(ResourceKind::Webhook))
    }

    /// Removes a webhook and ends its deliveries.
    ///
    /// # Errors
    /// `NotFound` if the webhook does not exist or is not visible to the caller.
    pub async fn remove_webhook(
        &self,
        who: &Principal,
        id: &WebhookId,
        request_id: Option<&str>,
    ) -> Result<(), ApiError> {
        self.reachable_webhook(who, id).await?;
        let webhook = id.clone();
        let remove = RegistryCommand::RemoveWebhook { webhook };
        let by = who.actor(request_id);
        let door = self.door();
        door.registry_command(&who.tenant, &remove, &by).await?;
        self.webhooks.changed();
        Ok(())
    }

    /// A webhook that is visible to the caller.
    pub(super) async fn reachable_webhook(
        &self,
        who: &Principal,
        id: &WebhookId,
    ) -> Result<Webhook, ApiError> {
        self.permit_webhooks(who, who.workspace.as_deref())?;
        let registry = self.door().workflows(&who.tenant).await?;
        let webhook = registry.webhook(id);
        let webhook = webhook.ok_or(ApiError::NotFound(ResourceKind::Webhook))?;
        self.permit_webhooks(who, webhook.spec.workspace.as_deref())?;
        Ok(webhook.clone())
    }

    fn permit_webhooks(&self, who: &Principal, workspace: Option<&str>) -> Result<(), ApiError> {
        let resource = Resource {
            tenant: who.tenant.clone(),
            workspace: workspace.map(str::to_owned),
            what: What::Webhooks,
        };
        authorise(who, Action::ManageWebhooks, &resource)
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Webhook))
    }
}

/// The last rotation of a webhook's secret.
fn rotated(webhook: &Webhook) -> Option<Rotated> {
    let previous = webhook.previous.as_ref()?;
    Some(Rotated {
        at: webhook.rotated_at?,
        previous_expires_at: previous.expires_at,
    })
}

/// The supplied secret, or a new one.
fn secret(brought: Option<&str>, standard: bool) -> Result<Secret, ApiError> {
    let invalid = ApiError::WebhookInvalid;
    match (brought, standard) {
        (Some(text), true) => Secret::standard(text).ok_or(invalid(
            "secret must be whsec_ and the base64 of 24 to 64 random bytes",
        )),
        (None, true) => Err(invalid(
            "standard-webhooks-1 needs a secret: whsec_ and the base64 of 24 to 64 random bytes",
        )),
        (Some(text), false) => Secret::brought(text).ok_or(invalid(
            "secret must have 24 to 256 characters without spaces; omit it to get one",
        )),
        (None, false) => Ok(Secret::draw().map_err(no_entropy)?),
    }
}

pub(super) fn no_entropy(error: std::io::Error) -> ApiError {
    StoreError::Unavailable(format!("the system provides no random bytes: {error}")).into()
}

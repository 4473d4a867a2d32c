//! Webhooks: delivery of runs' events to registered addresses.
//!
//! The registry of a tenant lists its webhooks ([`kernel::registry`]); each has a log of its
//! deliveries' progress ([`kernel::delivery`]). `router` reads the feed of the store, which has
//! every event in commit order, and offers each to the `lane` of the webhooks that want it; a
//! `worker` per webhook delivers. A lane is bounded: when it is full, its worker reads the feed
//! itself until it has caught up. So a slow receiver neither slows down others nor takes memory.
//! Notices go to an address per run; there, a delivery that takes long waits in the log, so that it
//! does not delay those of other runs.
//!
//! **At least once, in order per run.** The cursor moves when the results of the events are
//! durable. After a crash the next holder repeats the deliveries that were in progress; receivers
//! recognise them by webhook, run and sequence.
//!
//! **Architecture invariant:** requests pass the guard of [`crate::outbound`] at registration and
//! at every attempt, with the name resolved once and the address pinned. No redirect is followed.

mod delivery;
mod flight;
mod lane;
mod notice;
mod post;
mod router;
mod sign;
mod worker;

use std::borrow::Cow;
use std::sync::Arc;

use kernel::definition::Plan;
use kernel::delivery::Deliveries;
use kernel::ids::{Seq, TenantId, WebhookId};
use kernel::registry::WebhookContract;
use kernel::run::Event;
use kernel::stream::StreamHeader;
use store::{Store, StoreError};
use tokio::sync::Notify;
use url::Url;

use crate::api::ShownToken;
use crate::engine::Engine;
use crate::logs;
use crate::outbound::{Allowed, Outbound};

pub(crate) use post::verify;
pub use sign::Secret;
pub(crate) use sign::{draw_id, id_of, open as open_secret, seal};
pub(crate) use worker::open;

/// Milliseconds for which two secrets sign after a rotation: a day.
pub const OVERLAP_MS: u64 = 24 * 3_600_000;
/// The largest body of a delivery in bytes; larger ones become dead letters.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// The wire format of deliveries.
pub trait Render: Send + Sync + 'static {
    /// The subscribers' name of an event, given its stored type and content.
    fn event_type<'a>(&self, stored: Cow<'a, str>, content: &[u8]) -> Cow<'a, str>;

    /// The names of a webhook and an event in the headers of a delivery.
    fn names(
        &self,
        contract: WebhookContract,
        header: &StreamHeader,
        webhook: &WebhookId,
        event_type: &str,
    ) -> Names;

    /// The body of a delivery: an event, with the plan of its run, the first sequence of its batch,
    /// and for a notice the token that answers the question.
    fn body(
        &self,
        contract: WebhookContract,
        header: &StreamHeader,
        plan: &Plan,
        event: &Event,
        cause: Option<Seq>,
        token: Option<&ShownToken>,
    ) -> Vec<u8>;
}

/// The names in the headers of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The webhook.
    pub webhook: String,
    /// The type of the event.
    pub event_type: String,
}

/// The addresses that webhooks may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// https addresses of the public internet.
    Public,
    /// Any address, also unencrypted. For tests and closed networks.
    Private,
}

/// The webhook service of this process. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
}

struct Inner {
    reach: Reach,
    outbound: Outbound,
    /// A webhook was added to or removed from a registry.
    changed: Notify,
}

/// Why an address is not allowed for a webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is not a URL.
    #[error("url must be an absolute https URL")]
    NotAUrl,
    /// It is not encrypted.
    #[error("url must start with https://")]
    NotHttps,
    /// The guard rejects it.
    #[error("url must lead to the public internet, without a user name or password")]
    Refused,
}

impl Webhooks {
    /// A service with this reach.
    pub fn new(reach: Reach) -> Self {
        let outbound = match reach {
            Reach::Public => Outbound::default(),
            Reach::Private => Outbound::new(Allowed::private()),
        };
        Self::with_outbound(reach, outbound)
    }

    /// The same with another HTTP client.
    pub fn with_outbound(reach: Reach, outbound: Outbound) -> Self {
        Self {
            inner: Arc::new(Inner {
                reach,
                outbound,
                changed: Notify::new(),
            }),
        }
    }

    /// Delivers while the engine runs.
    pub fn start(&self, engine: &Engine, render: Arc<dyn Render>) {
        let router = router::Router::new(engine.clone(), self.clone(), render);
        engine.inner.tasks.spawn(router.route());
    }

    /// A webhook was added to or removed from a registry.
    pub(crate) fn changed(&self) {
        self.inner.changed.notify_one();
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.inner.outbound
    }

    /// Checks an address, as far as possible without sending anything.
    pub(crate) async fn check(&self, text: &str) -> Result<Url, BadAddress> {
        let url = Url::parse(text).map_err(|_| BadAddress::NotAUrl)?;
        match (url.scheme(), self.inner.reach) {
            ("https", _) | ("http", Reach::Private) => {}
            ("http", Reach::Public) => return Err(BadAddress::NotHttps),
            _ => return Err(BadAddress::NotAUrl),
        }
        // A name that does not resolve now may do so later: the guard checks each attempt.
        let checked = self.inner.outbound.check(&url);
        match tokio::time::timeout(post::LOOK_UP, checked).await {
            Ok(Err(crate::outbound::OutboundError::Refused { .. })) => Err(BadAddress::Refused),
            _ => Ok(url),
        }
    }
}

/// The log of a webhook's deliveries. `None` if it does not exist.
pub(crate) async fn load(
    store: &dyn Store,
    tenant: &TenantId,
    webhook: &WebhookId,
) -> Result<Option<Deliveries>, StoreError> {
    match logs::current(store, &Deliveries::stream(tenant, webhook)).await {
        Ok((deliveries, _)) => Ok(Some(deliveries)),
        Err(StoreError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

//! Webhooks: events of runs, told to addresses that somebody registered.
//!
//! Who is told of what stands in the registry of a tenant ([`kernel::registry`]), how far the
//! deliveries to a webhook have come in a log of its own ([`kernel::delivery`]). `router` reads the
//! feed of the store, which has every event in the order it was committed, and offers each to the
//! `lane` of the webhooks that want it; a `worker` per webhook delivers. A lane is bounded: one that
//! is full is behind, and its worker reads the feed for itself until it has caught up. So a slow
//! receiver makes nobody else slow and takes no memory.
//!
//! **At least once, in order per run.** The cursor moves when what became of the events is durable.
//! After a crash the holder that comes next delivers again what was under way; receivers tell it by
//! webhook, run and sequence.
//!
//! **Architecture invariant:** requests pass the guard of [`crate::outbound`] at registration and
//! at every attempt, with the name resolved once and the address pinned. No redirect is followed.

mod lane;
mod post;
mod router;
mod sign;
mod worker;

use std::borrow::Cow;
use std::sync::Arc;

use kernel::definition::Plan;
use kernel::delivery::Deliveries;
use kernel::ids::{Seq, StreamId, TenantId, WebhookId};
use kernel::run::Event;
use kernel::stream::StreamHeader;
use store::{ReadFrom, Store, StoreError};
use tokio::sync::Notify;
use url::Url;

use crate::engine::Engine;
use crate::outbound::{Allowed, Outbound};

pub(crate) use post::verify;
pub use sign::Secret;
pub(crate) use sign::{draw_id, id_of, open as open_secret, seal};
pub(crate) use worker::open;

/// Milliseconds for which two secrets sign after a rotation: a day.
pub const OVERLAP_MS: u64 = 24 * 3_600_000;
/// Bytes of a delivery's body at most; what is larger becomes a dead letter.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// The wire that deliveries speak.
pub trait Render: Send + Sync + 'static {
    /// What subscribers call an event, of the type it is stored with and as it is stored.
    fn event_type<'a>(&self, stored: Cow<'a, str>, content: &[u8]) -> Cow<'a, str>;

    /// The body of a delivery: an event, with the plan of its run and the first one of its batch.
    fn body(
        &self,
        header: &StreamHeader,
        plan: &Plan,
        event: &Event,
        cause: Option<Seq>,
    ) -> Vec<u8>;
}

/// Where webhooks may point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To https addresses of the public internet.
    Public,
    /// Anywhere, also unencrypted. For tests and closed networks.
    Private,
}

/// What webhooks of this process share. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
}

struct Inner {
    reach: Reach,
    outbound: Outbound,
    /// A registry has one more or one less.
    changed: Notify,
}

/// Why an address is no webhook's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is no address at all.
    #[error("url must be an absolute https URL")]
    NotAUrl,
    /// It is not encrypted.
    #[error("url must begin with https://")]
    NotHttps,
    /// The guard refuses it.
    #[error("url must lead to the public internet, without a user name or password")]
    Refused,
}

impl Webhooks {
    /// Webhooks that reach so far.
    pub fn new(reach: Reach) -> Self {
        let outbound = match reach {
            Reach::Public => Outbound::default(),
            Reach::Private => Outbound::new(Allowed::private()),
        };
        Self::with_outbound(reach, outbound)
    }

    /// The same with another way to the outside.
    pub fn with_outbound(reach: Reach, outbound: Outbound) -> Self {
        Self {
            inner: Arc::new(Inner {
                reach,
                outbound,
                changed: Notify::new(),
            }),
        }
    }

    /// Delivers for as long as the engine runs.
    pub fn start(&self, engine: &Engine, render: Arc<dyn Render>) {
        let router = router::Router::new(engine.clone(), self.clone(), render);
        engine.inner.tasks.spawn(router.route());
    }

    /// A registry has one more webhook, or one less.
    pub(crate) fn changed(&self) {
        self.inner.changed.notify_one();
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.inner.outbound
    }

    /// Whether an address may be a webhook's, as far as it can be told before anything is sent.
    pub(crate) async fn check(&self, text: &str) -> Result<Url, BadAddress> {
        let url = Url::parse(text).map_err(|_| BadAddress::NotAUrl)?;
        match (url.scheme(), self.inner.reach) {
            ("https", _) | ("http", Reach::Private) => {}
            ("http", Reach::Public) => return Err(BadAddress::NotHttps),
            _ => return Err(BadAddress::NotAUrl),
        }
        // A name that does not resolve now may do so later: the guard stands before each attempt.
        let checked = self.inner.outbound.check(&url);
        match tokio::time::timeout(post::LOOK_UP, checked).await {
            Ok(Err(crate::outbound::OutboundError::Refused { .. })) => Err(BadAddress::Refused),
            _ => Ok(url),
        }
    }
}

/// The log of a webhook's deliveries. `None` where nobody began one.
pub(crate) async fn load(
    store: &dyn Store,
    tenant: &TenantId,
    webhook: &WebhookId,
) -> Result<Option<Deliveries>, StoreError> {
    let stream = Deliveries::stream(tenant, webhook);
    let loaded = match store.load(&stream, ReadFrom::Checkpoint, usize::MAX).await {
        Ok(loaded) => loaded,
        Err(StoreError::Missing) => return Ok(None),
        Err(error) => return Err(error),
    };
    let from = loaded.checkpoint.and_then(|at| {
        let header = loaded.header.clone();
        Deliveries::from_checkpoint(header, at.next_seq, at.chain, &at.state)
    });
    let (mut deliveries, records) = match from {
        Some(deliveries) => (deliveries, loaded.records),
        None if loaded.first_seq == 0 => (Deliveries::at_start(loaded.header), loaded.records),
        None => {
            let whole = store.load(&stream, ReadFrom::Seq(0), usize::MAX).await?;
            (Deliveries::at_start(whole.header), whole.records)
        }
    };
    for record in &records {
        let folded = deliveries.fold_content(&record.content);
        folded.ok_or_else(|| corrupt(&stream))?;
    }
    Ok(Some(deliveries))
}

fn corrupt(stream: &StreamId) -> StoreError {
    StoreError::Corrupt(format!("the log of deliveries {stream} does not fold"))
}

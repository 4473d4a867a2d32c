//! The events of a log of deliveries, as they are stored. Changing this file is a change of the
//! event format: see `docs/design/event-format.md`.

use serde::{Deserialize, Serialize};

use crate::ids::{Seq, StreamId, WebhookId};
use crate::log;
use crate::time::Timestamp;

/// An event of a log of deliveries.
pub type Event = log::Event<DeliveryEvent>;

/// An event of a run that is to be delivered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The run.
    pub run_id: StreamId,
    /// The event's place in the run's log.
    pub sequence: Seq,
    /// The event's type.
    pub event_type: String,
}

/// What happened to the deliveries of a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum DeliveryEvent {
    /// Deliveries begin behind a position of the store's feed.
    #[serde(rename = "runwright.delivery.opened", rename_all = "camelCase")]
    Opened {
        /// The webhook.
        webhook_id: WebhookId,
        /// The position.
        from: u64,
    },
    /// Nothing up to a position of the feed is left, except what waits.
    #[serde(rename = "runwright.delivery.advanced")]
    Advanced {
        /// The position.
        through: u64,
        /// How many events were delivered at the first attempt since the last such event.
        delivered: u64,
    },
    /// An event waits behind another one of its run.
    #[serde(rename = "runwright.delivery.deferred")]
    Deferred(Item),
    /// An attempt failed; there will be another.
    #[serde(rename = "runwright.delivery.failed", rename_all = "camelCase")]
    Failed {
        /// The event.
        #[serde(flatten)]
        item: Item,
        /// Which attempt it was, from 1.
        attempt: u32,
        /// Why, for a person.
        why: String,
        /// When the next one is.
        retry_at: Timestamp,
    },
    /// An event that waited was delivered.
    #[serde(rename = "runwright.delivery.succeeded")]
    Succeeded(Item),
    /// An event is not delivered: a dead letter.
    #[serde(rename = "runwright.delivery.dropped", rename_all = "camelCase")]
    Dropped {
        /// The event.
        #[serde(flatten)]
        item: Item,
        /// How many attempts there were.
        attempts: u32,
        /// Why, for a person.
        why: String,
    },
    /// The webhook was removed. Nothing follows.
    #[serde(rename = "runwright.delivery.closed")]
    Closed {},
}

//! The events of a log of deliveries, as stored. Changing this file is a change of the event
//! format: see `docs/design/event-format.md`.

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

/// The events of a webhook's deliveries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum DeliveryEvent {
    /// Deliveries begin after a position of the store's feed.
    #[serde(rename = "runwright.delivery.opened", rename_all = "camelCase")]
    Opened {
        /// The webhook.
        webhook_id: WebhookId,
        /// The position.
        from: u64,
    },
    /// Everything up to a position of the feed is done, except waiting events.
    #[serde(rename = "runwright.delivery.advanced")]
    Advanced {
        /// The position.
        through: u64,
        /// Number of events delivered at the first attempt since the last such event.
        delivered: u64,
    },
    /// An event waits after another one of its run.
    #[serde(rename = "runwright.delivery.deferred")]
    Deferred(Item),
    /// An attempt failed; there will be another.
    #[serde(rename = "runwright.delivery.failed", rename_all = "camelCase")]
    Failed {
        /// The event.
        #[serde(flatten)]
        item: Item,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The reason, for a person.
        why: String,
        /// The time of the next attempt.
        retry_at: Timestamp,
    },
    /// A waiting event was delivered.
    #[serde(rename = "runwright.delivery.succeeded")]
    Succeeded(Item),
    /// An event is given up: a dead letter.
    #[serde(rename = "runwright.delivery.dropped", rename_all = "camelCase")]
    Dropped {
        /// The event.
        #[serde(flatten)]
        item: Item,
        /// Number of attempts.
        attempts: u32,
        /// The reason, for a person.
        why: String,
    },
    /// The webhook was removed. No event follows.
    #[serde(rename = "runwright.delivery.closed")]
    Closed {},
}

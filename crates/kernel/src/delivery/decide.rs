//! Decide: from the results of attempts to a batch.

use super::{Deliveries, DeliveryEvent, Facts, Item};
use crate::batch::Batch;
use crate::ids::WebhookId;
use crate::limits;
use crate::log::Draft;
use crate::time::Timestamp;

/// Milliseconds before the second attempt; each further wait is [`BACKOFF_FACTOR`] times as long.
const BACKOFF_MS: u64 = 1_000;
const BACKOFF_FACTOR: u64 = 5;
/// Maximum milliseconds between two attempts.
const MAX_BACKOFF_MS: u64 = 3_600_000;

/// The result for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The event.
    pub item: Item,
    /// The result.
    pub sent: Sent,
}

/// The result for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The receiver has accepted it.
    Delivered,
    /// The receiver has not accepted it.
    Failed {
        /// The reason, for a person.
        why: String,
    },
    /// It was not attempted.
    Deferred,
    /// It can never be delivered.
    Impossible {
        /// The reason, for a person.
        why: String,
    },
}

impl Deliveries {
    /// Begins a log: deliveries start after a position of the feed.
    pub fn open(self, webhook: &WebhookId, from: u64, now: Timestamp) -> (Batch, Self) {
        let mut draft = Draft::new(self, now);
        draft.emit(DeliveryEvent::Opened {
            webhook_id: webhook.clone(),
            from,
        });
        draft.seal()
    }

    /// Ends a log: the webhook was removed.
    pub fn close(self, now: Timestamp) -> (Batch, Self) {
        let mut draft = Draft::new(self, now);
        draft.emit(DeliveryEvent::Closed {});
        draft.seal()
    }

    /// Records the results for events in order, and the position up to which the feed was read.
    pub fn settle(
        self,
        outcomes: Vec<Outcome>,
        through: Option<u64>,
        now: Timestamp,
    ) -> (Batch, Self) {
        let mut draft = Draft::new(self, now);
        let mut delivered = 0;
        for Outcome { item, sent } in outcomes {
            let waiting = draft.log.state.waiting.get(&item.run_id);
            let attempts = waiting
                .filter(|waiting| waiting.items.front() == Some(&item))
                .map(|waiting| waiting.attempts);
            match (sent, attempts) {
                (Sent::Delivered, None) => delivered += 1,
                (Sent::Delivered, Some(_)) => draft.emit(DeliveryEvent::Succeeded(item)),
                (Sent::Deferred, _) => draft.emit(DeliveryEvent::Deferred(item)),
                (Sent::Impossible { why }, attempts) => draft.emit(DeliveryEvent::Dropped {
                    item,
                    attempts: attempts.unwrap_or(0),
                    why,
                }),
                (Sent::Failed { why }, attempts) => draft.failed(item, attempts, why),
            }
        }
        let cursor = draft.log.state.cursor;
        let through = through.unwrap_or(cursor).max(cursor);
        if delivered > 0 || through > cursor || draft.records.is_empty() {
            draft.emit(DeliveryEvent::Advanced { through, delivered });
        }
        draft.seal()
    }
}

/// Milliseconds from a failed attempt to the next.
fn backoff(attempt: u32) -> u64 {
    let times = BACKOFF_FACTOR.saturating_pow(attempt.saturating_sub(1));
    BACKOFF_MS.saturating_mul(times).min(MAX_BACKOFF_MS)
}

impl Draft<Facts> {
    fn failed(&mut self, item: Item, attempts: Option<u32>, why: String) {
        let attempt = attempts.unwrap_or(0) + 1;
        self.emit(match attempt {
            limits::MAX_DELIVERY_ATTEMPTS.. => DeliveryEvent::Dropped {
                item,
                attempts: attempt,
                why,
            },
            _ => DeliveryEvent::Failed {
                item,
                attempt,
                why,
                retry_at: self.now.plus_ms(backoff(attempt)),
            },
        });
    }
}

//! Events that a webhook did not get, from the log of its deliveries.

use kernel::delivery::{DeadLetter, Deliveries, DeliveryEvent, Facts};
use kernel::ids::{Seq, WebhookId};
use kernel::time::Timestamp;
use store::StoreError;

use super::{Api, ApiError};
use crate::access::Principal;
use crate::logs;

/// Events read at a time.
const CHUNK: u64 = 500;
/// Events read for a page at most.
const MAX_READ: u64 = 10_000;

/// Dead letters, newest first.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterPage {
    /// The letters.
    pub letters: Vec<DeadLetter>,
    /// The place before which the next page begins. `None` at the end.
    pub next: Option<Seq>,
}

impl Api {
    /// Dead letters of a webhook that are younger than `keep_ms`, before a place of its log. A page
    /// may be short, and even empty, and still be followed by another.
    ///
    /// # Errors
    /// `NotFound`, or the store's.
    pub async fn dead_letters(
        &self,
        who: &Principal,
        id: &WebhookId,
        before: Option<Seq>,
        (limit, keep_ms): (usize, u64),
    ) -> Result<DeadLetterPage, ApiError> {
        self.reachable_webhook(who, id).await?;
        let store = &**self.door().store();
        let stream = Deliveries::stream(&who.tenant, id);
        let end = match store.load_head(&stream).await {
            Ok(head) => head.next_seq,
            Err(StoreError::Missing) => return Ok(DeadLetterPage::default()),
            Err(error) => return Err(error.into()),
        };
        let now = store.now();
        let is_kept = |at: Timestamp| at.plus_ms(keep_ms) > now;
        let mut place = before.unwrap_or(end).min(end);
        let least = place.saturating_sub(MAX_READ);
        let mut letters = Vec::new();
        while place > least {
            let from = place.saturating_sub(CHUNK).max(least);
            let size = usize::try_from(place - from).unwrap_or(usize::MAX);
            let events = logs::events::<Facts>(store, &stream, from, size).await?;
            for event in events.into_iter().rev() {
                if !is_kept(event.at) {
                    return Ok(DeadLetterPage {
                        letters,
                        next: None,
                    });
                }
                place = event.seq;
                if let DeliveryEvent::Dropped {
                    item,
                    attempts,
                    why,
                } = event.body
                {
                    let at = event.at;
                    letters.push(DeadLetter {
                        item,
                        attempts,
                        why,
                        at,
                    });
                }
                if letters.len() >= limit {
                    break;
                }
            }
            if letters.len() >= limit {
                break;
            }
            place = from;
        }
        Ok(DeadLetterPage {
            letters,
            next: (place > 0).then_some(place),
        })
    }
}

//! Documents that this process has read or saved, so that the next save need not read the log.
//!
//! A cache, never the truth: a read first compares the length of the log. The store rejects a save
//! that does not follow the end of the log, and the save is decided again.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::document::{Document, Sent};
use kernel::ids::Seq;
use kernel::stream::Owner;
use parking_lot::Mutex;
use store::StoreError;

use super::super::Api;

/// Approximate memory of the cache in bytes.
const MAX_BYTES: usize = 128 << 20;
/// Memory of an event in bytes, in addition to its text.
const EVENT: usize = 1_500;
/// Documents kept.
const MAX_DOCUMENTS: usize = 1_024;

/// A cached document.
#[derive(Clone)]
pub struct Held {
    /// The document.
    pub document: Arc<Document>,
    /// The text last sent to this process, if any.
    pub(super) sent: Option<Sent>,
    /// How many of its events the checkpoint next to it covers.
    pub(super) folded: Seq,
}

impl Held {
    /// Its approximate memory in bytes: its text and its parsed form.
    fn size(&self) -> usize {
        let canonical = self.document.canonical();
        let canonical = canonical.map_or(0, |text| text.as_ref().len());
        let events = self.document.head().map_or(0, |head| head.trace.len());
        2 * canonical + EVENT * events + self.sent.as_ref().map_or(0, Sent::size)
    }
}

/// The cache entry of one id. A writer holds its lock, so that writers of one process take turns
/// instead of racing.
pub(super) type Slot = Arc<tokio::sync::Mutex<Option<Held>>>;

/// The cached documents.
#[derive(Default)]
pub(crate) struct Cache {
    // Locked for a map look-up, never across an await.
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    by_key: HashMap<(String, String), Place>,
    turn: u64,
    bytes: usize,
}

struct Place {
    slot: Slot,
    turn: u64,
    bytes: usize,
}

impl Cache {
    /// The slot of an id.
    pub(super) fn slot(&self, owner: &Owner, id: &str) -> Slot {
        let mut slots = self.slots.lock();
        slots.turn += 1;
        let turn = slots.turn;
        let key = (owner.tenant.to_string(), Document::key(owner, id));
        let place = slots.by_key.entry(key).or_insert_with(|| Place {
            slot: Slot::default(),
            turn,
            bytes: 0,
        });
        place.turn = turn;
        place.slot.clone()
    }

    /// A cached document, unless it is being changed. Adds no slot for others.
    pub(super) fn peek(&self, owner: &Owner, id: &str) -> Option<Held> {
        let key = (owner.tenant.to_string(), Document::key(owner, id));
        let slots = self.slots.lock();
        let known = slots.by_key.get(&key)?.slot.try_lock().ok()?;
        known.clone()
    }

    /// Records the size of a document, and evicts the least recently used ones above the limits. A
    /// document in use is never evicted.
    pub(super) fn weigh(&self, owner: &Owner, id: &str, held: Option<&Held>) {
        let bytes = held.map_or(0, Held::size);
        let mut slots = self.slots.lock();
        let slots = &mut *slots;
        let key = (owner.tenant.to_string(), Document::key(owner, id));
        if let Some(place) = slots.by_key.get_mut(&key) {
            slots.bytes = slots.bytes + bytes - place.bytes;
            place.bytes = bytes;
        }
        if slots.bytes <= MAX_BYTES && slots.by_key.len() <= MAX_DOCUMENTS {
            return;
        }
        let mut idle: Vec<_> = slots
            .by_key
            .iter()
            .filter(|(_, place)| Arc::strong_count(&place.slot) == 1)
            .map(|(key, place)| (place.turn, key.clone()))
            .collect();
        idle.sort();
        // Evict a quarter more than needed, so that not every save sorts them.
        for (_, key) in idle {
            let enough =
                slots.bytes <= MAX_BYTES / 4 * 3 && slots.by_key.len() <= MAX_DOCUMENTS / 4 * 3;
            if enough {
                break;
            }
            if let Some(place) = slots.by_key.remove(&key) {
                slots.bytes -= place.bytes;
            }
        }
    }
}

impl Api {
    /// The current document.
    pub(super) async fn held(&self, owner: &Owner, id: &str) -> Result<Option<Held>, StoreError> {
        let slot = self.documents.slot(owner, id);
        let mut known = slot.lock().await;
        self.refresh(owner, id, &mut known).await?;
        let held = known.clone();
        drop(known);
        drop(slot);
        self.documents.weigh(owner, id, held.as_ref());
        Ok(held)
    }

    /// Brings the cached document up to date.
    pub(super) async fn refresh(
        &self,
        owner: &Owner,
        id: &str,
        known: &mut Option<Held>,
    ) -> Result<(), StoreError> {
        if let Some(held) = known {
            let stream = &held.document.header().stream;
            match self.door().store().load_head(stream).await {
                Ok(loaded) if loaded.next_seq == held.document.next_seq() => return Ok(()),
                Ok(_) | Err(StoreError::Missing) => *known = None,
                Err(error) => return Err(error),
            }
        }
        let Some(stream) = self.door().document_stream(owner, id).await? else {
            return Ok(());
        };
        let standing = match self.door().document(&stream).await {
            Ok(standing) => standing,
            // It was deleted since.
            Err(StoreError::Missing) => return Ok(()),
            Err(error) => return Err(error),
        };
        *known = Some(Held {
            document: Arc::new(standing.document),
            sent: None,
            folded: standing.folded,
        });
        Ok(())
    }
}

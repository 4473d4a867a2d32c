//! Documents this process has read or saved, so that the next save need not read the log again.
//!
//! A cache, never the truth: a read compares the length of the log first, and a save on what is
//! no longer the end of the log is refused by the store and decided again.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::document::{Document, Sent};
use kernel::ids::Seq;
use kernel::stream::Owner;
use parking_lot::Mutex;
use store::{ReadFrom, StoreError};

use super::super::Api;

/// Bytes of memory of the documents kept, about.
const MAX_BYTES: usize = 384 << 20;
/// Bytes of memory of an event, beside those of its text.
const EVENT: usize = 1_500;
/// Documents kept.
const MAX_DOCUMENTS: usize = 4_096;

/// A document that is known here.
#[derive(Clone)]
pub struct Held {
    /// The document.
    pub document: Arc<Document>,
    /// As it was sent last, where it was sent to this process.
    pub(super) sent: Option<Sent>,
    /// How much of its log is folded in the checkpoint beside it.
    pub(super) folded: Seq,
}

impl Held {
    /// Bytes of memory that are kept for it, about: it is there as text, and as what was read of it.
    fn size(&self) -> usize {
        let canonical = self.document.canonical();
        let canonical = canonical.map_or(0, |text| text.as_ref().len());
        let events = self.document.head().map_or(0, |head| head.trace.len());
        2 * canonical + EVENT * events + self.sent.as_ref().map_or(0, Sent::size)
    }
}

/// What is known of one id. Whoever changes it holds the lock, so that the writers of one process
/// take turns instead of racing.
pub(super) type Slot = Arc<tokio::sync::Mutex<Option<Held>>>;

/// The documents this process knows.
#[derive(Default)]
pub(crate) struct Cache {
    // Held for a map look-up, never across an await.
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

    /// A document that is known, where nobody is just changing it. Makes no place for one that is
    /// not.
    pub(super) fn peek(&self, owner: &Owner, id: &str) -> Option<Held> {
        let key = (owner.tenant.to_string(), Document::key(owner, id));
        let slots = self.slots.lock();
        let known = slots.by_key.get(&key)?.slot.try_lock().ok()?;
        known.clone()
    }

    /// Notes how large a document is, and forgets those not used for longest where they are too
    /// many or too large together. One that is in use stays.
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
        // A quarter more than needed, so that not every save sorts them.
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
    /// A document as it stands.
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

    /// Brings what is known up to date.
    pub(super) async fn refresh(
        &self,
        owner: &Owner,
        id: &str,
        known: &mut Option<Held>,
    ) -> Result<(), StoreError> {
        if let Some(held) = known {
            let end = ReadFrom::Seq(u64::MAX);
            let stream = &held.document.header().stream;
            match self.door().store().load(stream, end, 0).await {
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

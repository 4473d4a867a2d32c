//! The cases' environment: a store with a settable clock, and short helpers.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kernel::batch::Record;
use kernel::ids::{HolderId, StreamId};
use kernel::time::Timestamp;

use super::Bed;
pub(crate) use super::draft::*;
use crate::seed::Draws;
use crate::whole::{Opening, WholeStore};
use crate::*;

/// The time at which every case begins.
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);
/// The default duration of leases.
pub(crate) const TTL: Duration = Duration::from_secs(30);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// A fresh store and its clock. Dereferences to the store.
pub(crate) struct World<'a> {
    pub(crate) bed: &'a dyn Bed,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
}

impl Deref for World<'_> {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl<'a> World<'a> {
    pub(crate) async fn new(bed: &'a dyn Bed) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = bed.open(clock.clone()).await;
        Self { bed, clock, store }
    }

    /// Another handle on the same data, as another process would have; the clock is shared.
    pub(crate) async fn other(&self) -> Arc<dyn Store> {
        self.bed.open(self.clock.clone()).await
    }

    /// Drops the handle and opens the data again.
    pub(crate) async fn reopen(&mut self) {
        // The old handle must be gone before the data is opened again, so this is a placeholder.
        self.store = Arc::new(crate::memory::MemoryStore::new(self.clock.clone()));
        self.store = self.bed.open(self.clock.clone()).await;
    }

    /// Drops the handle and opens the data as a whole.
    pub(crate) async fn whole(&mut self, how: Opening) -> Result<Arc<dyn WholeStore>, StoreError> {
        self.store = Arc::new(crate::memory::MemoryStore::new(self.clock.clone()));
        self.bed.open_whole(self.clock.clone(), how).await
    }

    /// Appends from outside; the append must succeed.
    pub(crate) async fn put(&self, log: &mut Log, draft: Draft) -> Appended {
        self.put_as(log, draft, Guard::Outside, LeaseChange::Keep)
            .await
    }

    /// Appends; the append must succeed.
    pub(crate) async fn put_as(
        &self,
        log: &mut Log,
        draft: Draft,
        guard: Guard,
        lease: LeaseChange,
    ) -> Appended {
        let batch = draft.batch();
        let done = self.store.append(batch.clone(), guard, lease).await;
        let done = done.expect("the append is in order");
        log.went(&batch);
        done
    }

    /// Appends from outside; the append may be refused.
    pub(crate) async fn try_put(&self, draft: Draft) -> Result<Appended, StoreError> {
        self.store
            .append(draft.batch(), Guard::Outside, LeaseChange::Keep)
            .await
    }

    /// Creates a stream with one event.
    pub(crate) async fn create(&self, stream: &str) -> Log {
        let mut log = Log::new(stream);
        let draft = log.next(["created"]);
        self.put(&mut log, draft).await;
        log
    }

    /// Claims a lease; the claim must succeed.
    pub(crate) async fn lease(&self, log: &Log, holder: &str) -> Lease {
        let claimed = self
            .store
            .claim(log.id(), &HolderId::new(holder), TTL)
            .await;
        claimed.expect("the stream is free to claim")
    }

    /// The whole log from its beginning.
    pub(crate) async fn read(&self, stream: &StreamId) -> Loaded {
        let loaded = self.store.load(stream, ReadFrom::Seq(0), usize::MAX).await;
        loaded.expect("the stream is there")
    }

    /// Event contents of a stream as text.
    pub(crate) async fn texts(&self, stream: &StreamId) -> Vec<String> {
        texts(&self.read(stream).await.records)
    }

    /// Streams due in the default queue, by id.
    pub(crate) async fn ready(&self) -> Vec<String> {
        self.ready_in("default", usize::MAX).await
    }

    pub(crate) async fn ready_in(&self, queue: &str, limit: usize) -> Vec<String> {
        let answer = self
            .store
            .due(DueQuery {
                queue: queue.into(),
                limit,
            })
            .await
            .unwrap();
        answer
            .ready
            .iter()
            .map(|due| due.stream.to_string())
            .collect()
    }

    /// Ids of a list, in order.
    pub(crate) async fn listed(&self, query: ListQuery) -> Vec<String> {
        let rows = self.store.list(query).await.unwrap();
        rows.iter().map(|row| row.stream.to_string()).collect()
    }

    /// Every event after a position, as `stream.seq`.
    pub(crate) async fn fed(&self, after: Position) -> Vec<String> {
        let events = self.store.feed(after, usize::MAX).await.unwrap();
        events
            .iter()
            .map(|event| format!("{}.{}", event.stream, event.seq))
            .collect()
    }

    /// Message ids of the outbox, in order.
    pub(crate) async fn outgoing(&self) -> Vec<String> {
        let messages = self.store.outbox(usize::MAX).await.unwrap();
        messages
            .iter()
            .map(|message| message.id.to_string())
            .collect()
    }

    /// Runs housekeeping until it is done.
    pub(crate) async fn maintain_all(&self) {
        for _ in 0..10_000 {
            if !self.store.maintain().await.unwrap() {
                return;
            }
        }
        panic!("maintain never says that it is done");
    }
}

/// The texts of records.
pub(crate) fn texts(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .map(|record| String::from_utf8(record.content.clone()).unwrap())
        .collect()
}

/// A query that lists everything.
pub(crate) fn everything() -> ListQuery {
    ListQuery {
        limit: usize::MAX,
        ..ListQuery::default()
    }
}

/// Incompressible bytes.
pub(crate) fn dense(len: usize) -> Vec<u8> {
    let mut draws = Draws::new(0);
    let numbers = std::iter::repeat_with(|| draws.number().to_le_bytes());
    numbers.flatten().take(len).collect()
}

/// The refusal of a moved log.
pub(crate) const SEQUENCE: StoreError = StoreError::Conflict(Conflict::Sequence);
/// The refusal of a held stream.
pub(crate) const HELD: StoreError = StoreError::Conflict(Conflict::Held);

/// The refusal of a key of namespace `dedup`.
pub(crate) fn key_taken(key: &str) -> StoreError {
    StoreError::Conflict(Conflict::Key {
        namespace: "dedup".into(),
        key: key.into(),
    })
}

/// A holder by name.
pub(crate) fn holder(name: &str) -> HolderId {
    HolderId::new(name)
}

/// A creation that takes the lease.
pub(crate) fn taking(name: &str) -> LeaseChange {
    LeaseChange::Take {
        holder: holder(name),
        ttl: TTL,
    }
}

//! The [`Store`] trait.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;

use crate::StoreError;
use crate::types::*;

/// Durable, ordered logs with leases, timers, unique keys, an outbox and blobs.
///
/// **Guarantees of every method.** Once a method has returned success, its result survives a kill
/// of the process and, unless the store was opened otherwise, a power cut. A method that returned
/// an error other than `Unavailable` changed nothing. After `Unavailable` an append may or may not
/// have been made durable; the next load shows which.
///
/// **Time.** Only the store's clock counts for leases, timers and keys. A lease lives and a key is
/// taken *while* `now < expires_at`. A timer is due *from* `due <= now` on, and stays due until a
/// batch cancels or replaces it.
///
/// **Tenants.** Methods that name a tenant see only that tenant's rows. Methods that name a stream
/// trust the caller to have checked its tenant.
///
/// **Texts.** Ids, names and keys are any text without NUL. Contents and answers are any bytes.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Appends a batch: events, index row, timers, keys and outbox in one transaction.
    ///
    /// After `Ok`, everything in the batch is durable and visible to every other method, in this
    /// and in other processes. After an error, nothing of the batch is visible. Where several
    /// refusals apply, the first of these is returned:
    ///
    /// 1. `Fenced`: the guard is `Holder` and its epoch is not that of the lease on record. There
    ///    is none for a stream that is unknown, purged, never claimed or released.
    /// 2. `Conflict::Sequence`: the log does not hold exactly `batch.first_seq()` events. A
    ///    first batch needs a stream that does not exist and was never purged.
    /// 3. `Conflict::Held`: `LeaseChange::Take` while a live lease of the same tenant has the
    ///    stream's concurrency key.
    /// 4. `Conflict::Key`: a key is taken and not expired, by any stream. An earlier claim by the
    ///    same stream or in the same batch counts too. The first such key in the batch is named.
    /// 5. `Missing`: a blob the batch refers to is missing under the batch's tenant.
    ///
    /// A refused append neither delays nor undoes others that share its transaction. An expired key
    /// can be claimed like a new one. Content of any size is accepted.
    ///
    /// # Panics
    /// When the batch is empty, when it has a header and does not begin at 0 or the other way
    /// round, or when the lease change is not allowed (see [`LeaseChange`]). These are bugs of the
    /// caller.
    async fn append(
        &self,
        batch: Batch,
        guard: Guard,
        lease: LeaseChange,
    ) -> Result<Appended, StoreError>;

    /// Reads a stream at one moment: header, at most `limit` events, index row, lease. `Missing`
    /// for an unknown or purged stream. A sequence past the end is valid and returns no records;
    /// `first_seq` is then the requested sequence.
    async fn load(
        &self,
        stream: &StreamId,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Loaded, StoreError>;

    /// Header, head, index row and lease of a stream, without its events.
    ///
    /// # Errors
    /// As for [`Store::load`].
    async fn load_head(&self, stream: &StreamId) -> Result<Loaded, StoreError> {
        self.load(stream, ReadFrom::Seq(u64::MAX), 0).await
    }

    /// Takes the lease on a stream for `ttl` from now. The same holder may claim again and gets a
    /// new epoch. Afterwards every append under an older epoch is `Fenced`. `Missing` for an
    /// unknown or purged stream. `Conflict::Held` while another holder's lease lives, or while a
    /// live lease of the same tenant on another stream has the stream's concurrency key.
    async fn claim(
        &self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
    ) -> Result<Lease, StoreError>;

    /// Renews leases: each expires `ttl` from now. Returns one result per lease, in order.
    /// `Missing` for an unknown or purged stream; `Fenced` for a lease that was released or whose
    /// epoch has passed. An expired lease that was not claimed again becomes live, unless a live
    /// lease has taken its concurrency key meanwhile; then it is `Fenced` too. Touches no log.
    async fn renew(
        &self,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<Vec<Result<Lease, StoreError>>, StoreError>;

    /// Releases a lease, so that another process may claim at once. Does nothing for a lease that
    /// has passed to another holder or a stream that does not exist.
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Streams that are runnable, or have a timer due by the store's clock. Streams with a live
    /// lease and streams blocked by their concurrency key are left out. Streams of a tenant that
    /// share a concurrency key are represented by the first. This is a hint: the claim decides.
    ///
    /// Greater priorities go first, then the longest wait. A runnable stream waits since its
    /// `updated_at`, or since its earliest timer if that is earlier. A stream that is not runnable
    /// waits since its earliest timer. Equal waits are ordered by stream id.
    ///
    /// `next_at` is later than now. It is not later than the first moment at which a blocked stream
    /// becomes due, if nothing is appended, claimed, renewed or released; it may be earlier. A
    /// stream is blocked when it is not runnable and its timers are in the future, when a live
    /// lease is on it, or when one is on its concurrency key. `next_at` is set whenever there is
    /// such a moment. It is `None` if the queue has neither a live lease nor a timer to come.
    async fn due(&self, query: DueQuery) -> Result<DueAnswer, StoreError>;

    /// Looks up an unexpired unique key.
    async fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError>;

    /// Records a unique key that belongs to no stream. It replaces `seen`, the result of the
    /// caller's [`Store::key`]. `Conflict::Key` when the row has changed since. A claim that has
    /// already expired frees the key.
    async fn put_key(
        &self,
        tenant: &TenantId,
        claim: KeyClaim,
        seen: Option<KeyRow>,
    ) -> Result<(), StoreError>;

    /// Keeps a checkpoint, replacing one of the same or a shorter length. One that folds fewer
    /// events than the existing one, or more than the log holds, is ignored. `Missing` for an
    /// unknown or purged stream. Loss of a checkpoint is harmless, so durability may lag.
    async fn put_checkpoint(
        &self,
        stream: &StreamId,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError>;

    /// Keeps bytes once under their digest and tenant. Durable when it returns. A blob that no batch
    /// refers to after its last put stays for [`BLOB_GRACE`]; then [`Store::maintain`] collects it.
    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Result<Digest, StoreError>;

    /// Reads a blob of a tenant. `Missing` for another tenant's, `Corrupt` when the bytes no longer
    /// have the digest.
    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError>;

    /// Lists index rows, newest creation first.
    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, StoreError>;

    /// Counts the rows that match a query, by status. The query's `limit` is ignored.
    async fn count(&self, mut query: ListQuery) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut counts = BTreeMap::new();
        query.limit = 1_000;
        loop {
            let page = self.list(query.clone()).await?;
            for row in &page {
                *counts.entry(row.index.status.clone()).or_default() += 1;
            }
            query.after = match page.last() {
                Some(last) if page.len() == query.limit => Some(ListCursor::after(last)),
                _ => return Ok(counts),
            };
        }
    }

    /// Events after position `after` in commit order, at most `limit`. Never returns an event whose
    /// position is below one already returned. A damaged event does not hide the others: it comes
    /// without its content. Purged events are left out; their positions are never used again. The
    /// first position is greater than `Position(0)`, and positions may have gaps.
    async fn feed(&self, after: Position, limit: usize) -> Result<Vec<FeedEvent>, StoreError>;

    /// A position that no visible event is above, and that every later event is above.
    async fn feed_end(&self) -> Result<Position, StoreError> {
        const PAGE: usize = 1_000;
        let mut end = Position::default();
        while let Some(last) = self.feed(end, PAGE).await?.last() {
            end = last.position;
        }
        Ok(end)
    }

    /// The oldest messages not yet acknowledged as delivered, in commit order and, within a
    /// batch, in the batch's order.
    async fn outbox(&self, limit: usize) -> Result<Vec<Outgoing>, StoreError>;

    /// Deletes delivered messages. An unknown place is ignored. Places are never used again, so
    /// acknowledging twice is harmless.
    async fn delivered(&self, places: &[u64]) -> Result<(), StoreError>;

    /// Erases a stream whole (events, index row, lease, checkpoint, timers, keys, outbox, blob
    /// references) and leaves a tombstone. Its id is never free again. Its keys become free, except
    /// those with a digest and an expiry: those belong to no stream from then on and answer
    /// repeated requests until they expire. Blobs are erased with their last reference, except those
    /// put again since, which wait for a batch. Messages of other streams to it stay.
    /// `Conflict::Held` while a live lease is on it; `Missing` if unknown. A second purge returns
    /// the first tombstone.
    async fn purge(&self, stream: &StreamId, reason: &str) -> Result<Tombstone, StoreError>;

    /// The tombstone of a purged stream.
    async fn tombstone(&self, stream: &StreamId) -> Result<Option<Tombstone>, StoreError>;

    /// Housekeeping in small steps: repacks settled streams, drops expired keys and unreferenced
    /// blobs whose grace is over. Returns whether there is more to do; once it returns `false`,
    /// everything is collected. Changes no result of other methods except for blobs.
    async fn maintain(&self) -> Result<bool, StoreError>;

    /// Checks the store's own structure, not the meaning of events, and lists the faults.
    async fn inspect(&self) -> Result<Vec<Finding>, StoreError>;

    /// The store's clock, which decides about leases and timers.
    fn now(&self) -> Timestamp;
}

/// How long a blob may wait, from its last put, for the batch that refers to it.
pub const BLOB_GRACE: Duration = Duration::from_secs(24 * 3600);

/// Panics on a call of [`Store::append`] that only a bug can make. Every store begins its `append`
/// with it, directly or by `Prepared::new`.
///
/// # Panics
/// As documented at [`Store::append`].
pub fn assert_appendable(batch: &Batch, guard: Guard, lease: &LeaseChange) {
    assert!(
        !batch.records().is_empty(),
        "a batch has at least one event"
    );
    assert_eq!(
        batch.header().is_some(),
        batch.first_seq() == 0,
        "the first batch of a stream, and no other, has the header"
    );
    match lease {
        LeaseChange::Keep => {}
        LeaseChange::Take { .. } => {
            assert_eq!(
                batch.first_seq(),
                0,
                "an append takes a lease only when it creates a stream"
            );
        }
        LeaseChange::Release => {
            assert!(
                matches!(guard, Guard::Holder(_)),
                "only the holder can release a lease"
            );
        }
    }
}

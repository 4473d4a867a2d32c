//! The trait.

use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;

use crate::StoreError;
use crate::types::*;

/// Durable, ordered logs with holds, timers, unique keys, an outbox and blobs beside them.
///
/// **Guarantees of every method.** What a method returned as done survives a kill of the process
/// and, unless the store was opened otherwise, a power cut. A method that returned an error
/// other than `Unavailable` changed nothing. After `Unavailable` an append may or may not have
/// been made durable; the next load tells.
///
/// **Time.** Holds, timers and keys are measured by the store's clock alone. A hold lives and a
/// key is taken *while* `now < expires_at`; a timer is due *from* `due <= now` on, and stays due
/// until a batch cancels or replaces it.
///
/// **Walls.** Methods that name a tenant see only that tenant's rows. Those that name a stream
/// trust the caller to have checked whose it is.
///
/// **Texts.** Ids, names and keys are any text without NUL; contents and answers any bytes.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Appends a batch: events, index row, timers, keys and outbox in one transaction.
    ///
    /// When it returns `Ok` everything in the batch is durable and visible to every other
    /// method, in this and in other processes. When it returns an error nothing of the batch is
    /// visible. Where several refusals apply, the first of these is given:
    ///
    /// 1. `Fenced`: the guard is `Holder` and its epoch is not that of the hold on record. A
    ///    stream that is unknown, purged, never claimed or released has no hold on record.
    /// 2. `Conflict::Sequence`: the log does not hold exactly `batch.first_seq()` events. A
    ///    first batch needs a stream that does not exist and was never purged.
    /// 3. `Conflict::Held`: `HoldChange::Take` while a live hold of the same tenant has the
    ///    stream's concurrency key.
    /// 4. `Conflict::Key`: a key is taken and not expired, by whichever stream, this one and an
    ///    earlier claim of the same batch included. The first such key in the batch is named.
    /// 5. `Missing`: a blob the batch refers to is not there under the batch's tenant.
    ///
    /// A refused append neither delays nor undoes others that share its transaction. An expired
    /// key is claimed as if it had never been. Content of any size is accepted.
    ///
    /// # Panics
    /// When the batch is empty, has a header and does not begin at 0 or the other way round, or
    /// comes with a hold change that is not allowed (see [`HoldChange`]): bugs of the caller.
    async fn append(
        &self,
        batch: Batch,
        guard: Guard,
        hold: HoldChange,
    ) -> Result<Appended, StoreError>;

    /// Reads a stream at one moment: header, at most `limit` events, index row, hold. `Missing`
    /// for an unknown or purged stream. A sequence behind the end is no error and gives no
    /// records; `first_seq` is then the sequence asked for.
    async fn load(
        &self,
        stream: &StreamId,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Loaded, StoreError>;

    /// Takes the hold on a stream for `ttl` from now. `Missing` for an unknown or purged stream;
    /// `Conflict::Held` while another holder's hold lives, or while a live hold of the same
    /// tenant on another stream has the stream's concurrency key; the same holder may claim
    /// again and gets a new epoch. Afterwards every append under an older epoch is `Fenced`.
    async fn claim(
        &self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
    ) -> Result<Hold, StoreError>;

    /// Lets holds expire `ttl` from now; answers for each, in order. `Missing` for an unknown or
    /// purged stream; `Fenced` for a hold whose epoch has passed or that was released. A hold
    /// that expired and that nobody took lives again, unless a live hold has taken its
    /// concurrency key meanwhile: that is `Fenced` too. Touches no log.
    async fn renew(
        &self,
        holds: &[Hold],
        ttl: Duration,
    ) -> Result<Vec<Result<Hold, StoreError>>, StoreError>;

    /// Gives a hold up, so that another process may claim at once. A hold that has passed on is
    /// left alone and that is not an error, nor is a stream that is not there.
    async fn release(&self, hold: &Hold) -> Result<(), StoreError>;

    /// Streams that are runnable, or have a timer due by the store's clock, and are not held by
    /// a live hold nor blocked by their concurrency key; of streams of a tenant that share a
    /// concurrency key only the first. A hint, not a promise: the claim decides.
    ///
    /// Greater priorities go first, then whoever waits longest: a runnable stream since its
    /// `updated_at`, any stream since its earliest timer if that is earlier (for one that is not
    /// runnable, since that timer). Equal waits are ordered by stream id.
    ///
    /// `next_at` is later than now and not later than the first moment at which a stream that is
    /// kept back now no longer is, if nothing is appended, claimed, renewed or released. What
    /// keeps a stream back is that it is not runnable and its timers lie ahead, that a live hold
    /// is on it, or that one is on its concurrency key. It may be earlier than that moment. It
    /// is there whenever there is such a moment, and `None` if the queue has neither a live hold
    /// nor a timer to come.
    async fn due(&self, query: DueQuery) -> Result<DueAnswer, StoreError>;

    /// Looks up an unexpired unique key.
    async fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError>;

    /// Puts a unique key on record that belongs to no stream, in the place of what the caller saw
    /// under its name: `seen` is what [`Store::key`] answered. `Conflict::Key` when something else
    /// is there now. A claim that has expired already frees the key.
    async fn put_key(
        &self,
        tenant: &TenantId,
        claim: KeyClaim,
        seen: Option<KeyRow>,
    ) -> Result<(), StoreError>;

    /// Keeps a checkpoint, replacing one of the same or a shorter length. One that folds fewer
    /// events than the one kept, or more than the log holds, is ignored. `Missing` for an
    /// unknown or purged stream. Loss of a checkpoint is harmless, so durability may lag.
    async fn put_checkpoint(
        &self,
        stream: &StreamId,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError>;

    /// Keeps bytes under their digest and tenant, once. Durable when it returns. A blob that
    /// nothing refers to stays for [`BLOB_GRACE`] from its last put; then [`Store::maintain`] or
    /// a purge collects it.
    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Result<Digest, StoreError>;

    /// Reads a blob of a tenant; `Missing` for another tenant's, `Corrupt` when the bytes do not
    /// have the digest any more.
    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError>;

    /// Lists index rows, newest creation first.
    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, StoreError>;

    /// Events behind `after` in commit order, at most `limit`. Never shows an event whose
    /// position is below one already shown. Purged events are left out; their positions are
    /// never given to others. The first position is greater than `Position(0)`, and positions
    /// may have gaps.
    async fn feed(&self, after: Position, limit: usize) -> Result<Vec<FeedEvent>, StoreError>;

    /// The oldest messages not yet acknowledged as delivered, in commit order and, within a
    /// batch, in the batch's order.
    async fn outbox(&self, limit: usize) -> Result<Vec<Outgoing>, StoreError>;

    /// Forgets delivered messages. A place that is not there is ignored; as no place is ever
    /// used again, acknowledging twice is harmless.
    async fn delivered(&self, places: &[u64]) -> Result<(), StoreError>;

    /// Erases a stream whole (events, index row, hold, checkpoint, timers, keys, outbox, blob
    /// references) and leaves a tombstone. Its id is never free again; the keys it had are, except
    /// those that have a digest and expire: a request stays answered for as long as was said, and
    /// its key belongs to no stream then. Blobs that nothing refers to any more go with it, except
    /// those put within [`BLOB_GRACE`].
    /// Messages of other streams to it stay. `Conflict::Held` while a live hold is on it;
    /// `Missing` if unknown. Purging again answers the first tombstone.
    async fn purge(&self, stream: &StreamId, reason: &str) -> Result<Tombstone, StoreError>;

    /// The tombstone of a purged stream.
    async fn tombstone(&self, stream: &StreamId) -> Result<Option<Tombstone>, StoreError>;

    /// Housekeeping in small steps: repacks settled streams, drops expired keys and unreferenced
    /// blobs whose grace is over. Returns whether there is more to do; called until it says no,
    /// it has collected all there is. Changes nothing that other methods show, except blobs.
    async fn maintain(&self) -> Result<bool, StoreError>;

    /// Checks the store's own structure (not the meaning of events) and lists what is wrong.
    async fn inspect(&self) -> Result<Vec<Finding>, StoreError>;

    /// The store's clock, which holds and timers are measured by.
    fn now(&self) -> Timestamp;
}

/// How long a blob may wait, from its last put, for the batch that refers to it.
pub const BLOB_GRACE: Duration = Duration::from_secs(24 * 3600);

/// Stops a call of [`Store::append`] that only a bug can make. Every store begins with it.
///
/// # Panics
/// As [`Store::append`] says.
pub fn assert_appendable(batch: &Batch, guard: Guard, hold: &HoldChange) {
    assert!(
        !batch.records().is_empty(),
        "a batch has at least one event"
    );
    assert_eq!(
        batch.header().is_some(),
        batch.first_seq() == 0,
        "the first batch of a stream, and no other, has the header"
    );
    match hold {
        HoldChange::Keep => {}
        HoldChange::Take { .. } => {
            assert_eq!(
                batch.first_seq(),
                0,
                "an append takes a hold only as it creates a stream"
            );
        }
        HoldChange::Release => {
            assert!(
                matches!(guard, Guard::Holder(_)),
                "only the holder releases a hold"
            );
        }
    }
}

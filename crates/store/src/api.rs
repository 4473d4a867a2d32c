//! The trait and the types its methods speak.

use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, IndexRow, Record};
use kernel::digest::Digest;
use kernel::ids::{HolderId, MessageId, Seq, StreamId, TenantId};
use kernel::stream::{StreamHeader, StreamKind};
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// A place in the commit order of a whole store. Positions only grow; a reader that has seen
/// one will never later find an event below it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

/// The fencing number of a hold. The first claim of a stream gets 1, each later one a greater
/// number, whether or not the hold was released in between.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// A live hold on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The stream.
    pub stream: StreamId,
    /// The fence.
    pub epoch: Epoch,
    /// Who holds it.
    pub holder: HolderId,
    /// When it lapses by the store's clock, unless renewed.
    pub expires_at: Timestamp,
}

/// By what right an append is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// As the holder: refused as `Fenced` unless the hold on record has this epoch. An expired
    /// hold that nobody took since still passes, as safety comes from the epoch alone; a
    /// released one does not.
    Holder(Epoch),
    /// From outside (cancel, resolve, signal, save): only the sequence decides.
    Outside,
}

/// What an append does to the hold on its stream, in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldChange {
    /// Nothing.
    Keep,
    /// Take it; allowed only with the first batch of a stream.
    Take {
        /// The new holder.
        holder: HolderId,
        /// For how long, by the store's clock.
        ttl: Duration,
    },
    /// Give it up; allowed only under `Guard::Holder`.
    Release,
}

/// An acknowledged append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The position of the last event of the batch.
    pub position: Position,
    /// The hold taken with `HoldChange::Take`.
    pub hold: Option<Hold>,
}

/// Where to begin reading a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At a sequence, ignoring checkpoints.
    Seq(Seq),
    /// At the newest checkpoint if there is one, else at 0.
    Checkpoint,
}

/// A folded state at some length of the log. May be deleted at any moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// How many events it has folded.
    pub next_seq: Seq,
    /// The link of the hash chain after the last of them.
    pub chain: Digest,
    /// The kernel's bytes.
    pub state: Vec<u8>,
}

/// A stream as read at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its header.
    pub header: StreamHeader,
    /// The checkpoint that was asked for.
    pub checkpoint: Option<Checkpoint>,
    /// Events from the start asked for (or from the checkpoint), gapless, up to the limit.
    pub records: Vec<Record>,
    /// The sequence of the first of `records`.
    pub first_seq: Seq,
    /// How many events the whole log holds.
    pub next_seq: Seq,
    /// The index row.
    pub index: IndexRow,
    /// The hold, if one is on record; it may have expired.
    pub hold: Option<Hold>,
}

/// What a worker asks of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueQuery {
    /// Only this queue.
    pub queue: String,
    /// At most so many.
    pub limit: usize,
}

/// A stream that waits to be driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The stream.
    pub stream: StreamId,
    /// Its tenant.
    pub tenant: TenantId,
}

/// The queue as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueAnswer {
    /// Streams to claim now, best first: priority, then the longest waiting.
    pub ready: Vec<Due>,
    /// When to look again even without a hint that something changed, by the store's clock.
    pub next_at: Option<Timestamp>,
}

/// A unique key on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The stream that claimed it.
    pub stream: StreamId,
    /// The digest of the claiming request.
    pub digest: Option<Digest>,
    /// The answer to give again.
    pub answer: Option<Vec<u8>>,
    /// When it is free again.
    pub expires_at: Option<Timestamp>,
}

/// Which index rows to list. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only this tenant. `None` lists all and is for the operator's own commands.
    pub tenant: Option<TenantId>,
    /// Only this workspace.
    pub workspace: Option<String>,
    /// Only this kind.
    pub kind: Option<StreamKind>,
    /// Only this subject (workflow id).
    pub subject: Option<String>,
    /// Only these statuses; empty means all.
    pub statuses: Vec<String>,
    /// Only streams with this tag.
    pub tag: Option<String>,
    /// Only children of this run.
    pub parent: Option<StreamId>,
    /// Continue behind this row of an earlier page.
    pub after: Option<ListCursor>,
    /// At most so many rows.
    pub limit: usize,
}

/// Where a page of a list ended. Lists run from the newest creation to the oldest; equal times
/// are ordered by stream id, descending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListCursor {
    /// Creation time of the last row.
    pub created_at: Timestamp,
    /// Its stream.
    pub stream: StreamId,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The stream.
    pub stream: StreamId,
    /// Its tenant.
    pub tenant: TenantId,
    /// How many events its log holds.
    pub next_seq: Seq,
    /// The index row.
    pub index: IndexRow,
}

/// An event in commit order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// Its position.
    pub position: Position,
    /// Its stream.
    pub stream: StreamId,
    /// The stream's tenant.
    pub tenant: TenantId,
    /// Its sequence.
    pub seq: Seq,
    /// Its content.
    pub content: Vec<u8>,
}

/// A message waiting for delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its place in the outbox; deliveries are acknowledged by it.
    pub place: u64,
    /// The stream that sent it.
    pub source: StreamId,
    /// The tenant of both streams.
    pub tenant: TenantId,
    /// The message id.
    pub id: MessageId,
    /// The stream it is for.
    pub target: StreamId,
    /// The command as JSON.
    pub command: Vec<u8>,
}

/// What is left of a purged stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The stream.
    pub stream: StreamId,
    /// Its tenant.
    pub tenant: TenantId,
    /// How many events its log held.
    pub next_seq: Seq,
    /// The last link of its hash chain.
    pub chain: Digest,
    /// Why it was erased.
    pub reason: String,
    /// When.
    pub purged_at: Timestamp,
}

/// Something [`Store::inspect`] found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The stream, where the finding is about one.
    pub stream: Option<StreamId>,
    /// What is wrong, for a person.
    pub what: String,
}

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
    /// `next_at` is later than now and not later than the first moment at which a stream of the
    /// queue that is not due now would become due if nothing were appended, claimed, renewed or
    /// released. It may be earlier than that moment, and is `None` only if there is none.
    async fn due(&self, query: DueQuery) -> Result<DueAnswer, StoreError>;

    /// Looks up an unexpired unique key.
    async fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError>;

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
    /// references) and leaves a tombstone. Its id is never free again; the keys it had are. Blobs
    /// that nothing refers to any more go with it, except those put within [`BLOB_GRACE`].
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

/// A clock a store measures holds and timers by.
pub trait StoreClock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl StoreClock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

//! The types of the trait's methods.

use std::time::Duration;

use kernel::batch::{IndexRow, Record};
use kernel::digest::Digest;
use kernel::ids::{HolderId, MessageId, Seq, StreamId, TenantId};
use kernel::stream::{StreamHeader, StreamKind};
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read and write; create the store if it does not exist.
    #[default]
    Create,
    /// Read and write an existing store.
    Write,
    /// Read an existing store. Every writing method is `Unavailable`, and a store of an older
    /// version is refused, because it cannot be migrated.
    Read,
}

/// When an acknowledged write is safe from a power cut. Both cases survive a kill of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every acknowledgement waits for the sync of its commit.
    #[default]
    Full,
    /// Commits are not synced one by one. A power cut or a crash of the operating system may lose
    /// the last acknowledged writes, newest first, and with them the record of effects carried out
    /// since. The remaining log is whole, never torn.
    Relaxed,
}

/// A place in the commit order of a whole store. Positions only grow: a reader that has seen one
/// never finds an event below it later.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

/// The fencing number of a lease. The first claim of a stream gets 1, each later one gets one more,
/// even if the lease was released in between.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// A live lease on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The stream.
    pub stream: StreamId,
    /// The fencing number.
    pub epoch: Epoch,
    /// The holder.
    pub holder: HolderId,
    /// When it expires by the store's clock, unless renewed.
    pub expires_at: Timestamp,
}

impl Lease {
    /// The lease of a row; `None` for a stream without a holder.
    pub fn on_record(
        stream: &StreamId,
        epoch: u64,
        holder: Option<String>,
        expires_at: Option<i64>,
    ) -> Option<Self> {
        Some(Self {
            stream: stream.clone(),
            epoch: Epoch(epoch),
            holder: holder?.into(),
            expires_at: Timestamp(expires_at?),
        })
    }
}

/// The right by which an append is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// As the holder: refused as `Fenced` unless the lease on record has this epoch. An expired
    /// lease passes if no later claim was made, because the epoch alone guarantees safety; a
    /// released one does not.
    Holder(Epoch),
    /// From outside (cancel, resolve, signal, save): only the sequence is checked.
    Outside,
}

/// How an append changes the lease on its stream, in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// No change.
    Keep,
    /// Take it; allowed only with the first batch of a stream.
    Take {
        /// The new holder.
        holder: HolderId,
        /// The duration by the store's clock.
        ttl: Duration,
    },
    /// Release it; allowed only under `Guard::Holder`.
    Release,
}

/// An acknowledged append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The position of the last event of the batch.
    pub position: Position,
    /// The lease taken with `LeaseChange::Take`.
    pub lease: Option<Lease>,
}

/// Where a read of a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At a sequence, ignoring checkpoints.
    Seq(Seq),
    /// At the newest checkpoint if there is one, else at 0.
    Checkpoint,
}

impl ReadFrom {
    /// The sequence where it begins, with the checkpoint of the stream if it has one.
    pub fn first_seq(self, checkpoint: Option<&Checkpoint>) -> Seq {
        match self {
            Self::Seq(seq) => seq,
            Self::Checkpoint => checkpoint.map_or(0, |kept| kept.next_seq),
        }
    }
}

/// A folded state at some length of the log. It may be deleted at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// How many events it has folded.
    pub next_seq: Seq,
    /// The link of the hash chain after the last of them.
    pub chain: Digest,
    /// The bytes that the kernel made.
    pub state: Vec<u8>,
}

/// A stream as read at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its header.
    pub header: StreamHeader,
    /// The checkpoint, if one was requested and exists.
    pub checkpoint: Option<Checkpoint>,
    /// Events from the requested start (or from the checkpoint), gapless, up to the limit.
    pub records: Vec<Record>,
    /// The sequence of the first of `records`.
    pub first_seq: Seq,
    /// How many events the whole log holds.
    pub next_seq: Seq,
    /// The index row.
    pub index: IndexRow,
    /// The lease, if one is on record; it may have expired.
    pub lease: Option<Lease>,
}

/// A worker's query of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueQuery {
    /// Only this queue.
    pub queue: String,
    /// Maximum number of streams.
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

/// The current state of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueAnswer {
    /// Streams to claim now, by priority, then the longest wait.
    pub ready: Vec<Due>,
    /// When to query again even without a hint of a change, by the store's clock.
    pub next_at: Option<Timestamp>,
}

/// A unique key on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The stream that claimed it; `None` for one put by [`Store::put_key`](crate::Store::put_key).
    pub stream: Option<StreamId>,
    /// The digest of the claiming request.
    pub digest: Option<Digest>,
    /// The answer to repeat.
    pub answer: Option<Vec<u8>>,
    /// When it becomes free.
    pub expires_at: Option<Timestamp>,
}

/// A filter for index rows. Every given condition must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only this tenant. `None` lists all and is reserved for the operator's commands.
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
    /// Only streams created at this time or later.
    pub since: Option<Timestamp>,
    /// Continue after this row of an earlier page.
    pub after: Option<ListCursor>,
    /// Maximum number of rows.
    pub limit: usize,
}

/// The end of a page of a list. Lists run from the newest creation to the oldest; equal times are
/// ordered by stream id, descending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListCursor {
    /// Creation time of the last row.
    pub created_at: Timestamp,
    /// Its stream.
    pub stream: StreamId,
}

impl ListCursor {
    /// The place after a row.
    pub fn after(row: &Listed) -> Self {
        Self {
            created_at: row.index.created_at,
            stream: row.stream.clone(),
        }
    }
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
    /// Its content; `None` if it is damaged.
    pub content: Option<Vec<u8>>,
}

/// A message that waits for delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its place in the outbox, which acknowledges its delivery.
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

/// The record of a purged stream.
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

/// A fault found by [`Store::inspect`](crate::Store::inspect).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The affected stream, if it concerns one.
    pub stream: Option<StreamId>,
    /// A description for a person.
    pub what: String,
}

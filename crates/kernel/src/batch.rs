//! A batch: one cause and its consequences, to be made durable in one transaction.
//!
//! A store never looks inside the content of an event. The data it acts on (index row, timers,
//! unique keys, outbox messages, blob references) is in plain columns next to the event.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{MessageId, Seq, StreamId, TenantId};
use crate::stream::{StreamHeader, StreamKind};
use crate::time::Timestamp;

/// One event as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Canonical JSON of the event without run id and event id.
    pub content: Vec<u8>,
    /// The link of the hash chain after this event.
    pub chain: Digest,
}

/// The facts that lists, filters and the worker's queue need about a stream. It is always computed
/// from the folded log, never written on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexRow {
    /// The stream's kind.
    pub kind: StreamKind,
    /// The workspace within the tenant.
    pub workspace: Option<String>,
    /// The subject of the stream: for a run its workflow id.
    pub subject: String,
    /// The status word of the stream's kind.
    pub status: String,
    /// The log is complete: no event will be appended.
    pub settled: bool,
    /// A worker should take the stream now. Timers make it due later, without this flag.
    pub runnable: bool,
    /// The queue it waits in.
    pub queue: String,
    /// Greater priorities go first.
    pub priority: i32,
    /// At most one stream of a tenant with the same key is held at a time.
    pub concurrency_key: Option<String>,
    /// The run that started this run.
    pub parent: Option<StreamId>,
    /// When the stream was created.
    pub created_at: Timestamp,
    /// The timestamp of its last event.
    pub updated_at: Timestamp,
    /// Tags to filter by.
    pub tags: Vec<String>,
    /// A few more facts for list pages, as a small JSON object.
    pub summary: serde_json::Value,
}

impl IndexRow {
    /// The row of a stream that no worker drives.
    pub(crate) fn new(
        header: &StreamHeader,
        updated_at: Timestamp,
        (subject, status): (&str, &str),
        summary: serde_json::Value,
    ) -> Self {
        Self {
            kind: header.kind,
            workspace: header.owner.workspace.clone(),
            subject: subject.to_owned(),
            status: status.to_owned(),
            settled: false,
            runnable: false,
            queue: header.policy.queue.clone(),
            priority: 0,
            concurrency_key: None,
            parent: None,
            created_at: header.created_at,
            updated_at,
            tags: Vec::new(),
            summary,
        }
    }
}

/// A change to the named timers of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerChange {
    /// Make the stream due at a time; replaces a timer of the same name.
    Set {
        /// The name, unique within the stream.
        name: String,
        /// When it is due.
        due: Timestamp,
    },
    /// Cancel a timer; an unknown name is ignored.
    Cancel {
        /// The name.
        name: String,
    },
}

/// A unique key that a batch claims. Idempotency keys, de-duplication and client-chosen ids all use
/// it. An append that claims a taken, unexpired key writes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyClaim {
    /// Which mechanism (`idempotency`, `dedup`, …).
    pub namespace: String,
    /// The key within tenant and namespace.
    pub key: String,
    /// The digest of the request that claimed it. The caller, not the store, rejects the same key
    /// with another digest.
    pub digest: Option<Digest>,
    /// The answer to repeat.
    pub answer: Option<Vec<u8>>,
    /// When the key becomes free.
    pub expires_at: Option<Timestamp>,
}

impl KeyClaim {
    /// A claim for good, by nothing but the key.
    pub(crate) fn permanent(namespace: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            key: key.into(),
            digest: None,
            answer: None,
            expires_at: None,
        }
    }
}

/// A message to another stream, committed with the events that cause it and delivered at least once
/// through `transact`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The target drops an id that it has seen.
    pub id: MessageId,
    /// The target stream; it may not exist yet.
    pub target: StreamId,
    /// The command as JSON; the kernel reads it back.
    pub command: Vec<u8>,
}

/// One cause and its consequences. Only the kernel builds one: a decision of an aggregate, or `fork`.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) stream: StreamId,
    pub(crate) tenant: TenantId,
    pub(crate) header: Option<StreamHeader>,
    pub(crate) first_seq: Seq,
    pub(crate) records: Vec<Record>,
    pub(crate) index: IndexRow,
    pub(crate) timers: Vec<TimerChange>,
    pub(crate) keys: Vec<KeyClaim>,
    pub(crate) outbox: Vec<Message>,
    pub(crate) blobs: Vec<Digest>,
}

impl Batch {
    /// The stream it extends.
    pub fn stream(&self) -> &StreamId {
        &self.stream
    }

    /// The tenant that owns the stream.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The header, in the first batch of a stream only.
    pub fn header(&self) -> Option<&StreamHeader> {
        self.header.as_ref()
    }

    /// The sequence of the first record, which is also how many events the log must hold for
    /// this batch to be appended.
    pub fn first_seq(&self) -> Seq {
        self.first_seq
    }

    /// The events, at least one.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The index row after this batch.
    pub fn index(&self) -> &IndexRow {
        &self.index
    }

    /// Timers to set and cancel, in order.
    pub fn timers(&self) -> &[TimerChange] {
        &self.timers
    }

    /// Unique keys to claim.
    pub fn keys(&self) -> &[KeyClaim] {
        &self.keys
    }

    /// Messages to other streams.
    pub fn outbox(&self) -> &[Message] {
        &self.outbox
    }

    /// The same batch with unique keys claimed for the request that caused it. Keys belong to the
    /// request, not to the decision, and so come from outside the kernel.
    pub fn claiming(mut self, keys: Vec<KeyClaim>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Blobs that this batch refers to, each once per reference. They must have been put before.
    pub fn blobs(&self) -> &[Digest] {
        &self.blobs
    }
}

/// Batches for tests of stores, which need rows that no decision made.
#[cfg(feature = "testing")]
pub mod forge {
    use super::*;

    /// Builds a batch from its parts.
    #[derive(Clone, Debug)]
    pub struct Forged {
        /// See [`Batch::stream`].
        pub stream: StreamId,
        /// See [`Batch::tenant`].
        pub tenant: TenantId,
        /// See [`Batch::header`].
        pub header: Option<StreamHeader>,
        /// See [`Batch::first_seq`].
        pub first_seq: Seq,
        /// See [`Batch::records`].
        pub records: Vec<Record>,
        /// See [`Batch::index`].
        pub index: IndexRow,
        /// See [`Batch::timers`].
        pub timers: Vec<TimerChange>,
        /// See [`Batch::keys`].
        pub keys: Vec<KeyClaim>,
        /// See [`Batch::outbox`].
        pub outbox: Vec<Message>,
        /// See [`Batch::blobs`].
        pub blobs: Vec<Digest>,
    }

    impl From<Forged> for Batch {
        fn from(f: Forged) -> Self {
            Self {
                stream: f.stream,
                tenant: f.tenant,
                header: f.header,
                first_seq: f.first_seq,
                records: f.records,
                index: f.index,
                timers: f.timers,
                keys: f.keys,
                outbox: f.outbox,
                blobs: f.blobs,
            }
        }
    }
}

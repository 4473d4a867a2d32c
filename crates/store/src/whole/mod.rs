//! A whole store, row by row: what a [`copy`](copy()) of a store and a report about one need.
//!
//! Every store has the same parts ([`Part`]) with the same columns. Rows of a part are read in pages,
//! in the order of their key, and written in the same order. A store keeps its own tables; only its
//! SQL is its own.

mod copy;
mod inspect;
mod sql;
mod status;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Store, StoreError};

pub use copy::{Copied, CopyError, copy};
pub use inspect::inspect;
pub use sql::{SqlStore, Step};
pub use status::{LiveServer, Outbox, SERVERS_KEY, SERVERS_NAMESPACE, Status, TableSize};

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number, a time in milliseconds, or a truth value.
    Number(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The values of a row, in the order of [`Part::columns`].
pub type Row = Vec<Cell>;

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers.
    Number,
    /// Texts.
    Text,
    /// Bytes.
    Bytes,
}

/// A column: its name and the kind of its values.
pub type Column = (&'static str, Kind);

/// A part of a store. Rows may refer to rows of earlier parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Blobs with their packed bytes and the time of their last put.
    Blobs,
    /// Streams: head, lease, header and index row, the latter two as JSON.
    Streams,
    /// The blobs that a stream refers to: their digests in hexadecimal, sorted, with commas.
    References,
    /// Checkpoints, the state packed as a blob.
    Checkpoints,
    /// Timers.
    Timers,
    /// Events in commit order, the content as [`codec::encode`](crate::codec::encode) makes it.
    Events,
    /// Unique keys, also expired ones.
    Keys,
    /// Messages that wait for delivery.
    Outbox,
    /// Records of purged streams.
    Tombstones,
    /// The greatest position and the greatest place of the outbox ever given.
    Counters,
}

use Kind::{Bytes as B, Number as N, Text as T};

impl Part {
    /// All parts, in the order in which they are copied.
    pub const ALL: [Self; 10] = [
        Self::Blobs,
        Self::Streams,
        Self::References,
        Self::Checkpoints,
        Self::Timers,
        Self::Events,
        Self::Keys,
        Self::Outbox,
        Self::Tombstones,
        Self::Counters,
    ];

    /// Its name, also in the SQL of a store.
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    /// The names of its columns and the kinds of their values.
    pub fn columns(self) -> &'static [Column] {
        self.describe().2
    }

    /// The key of a row: its first columns.
    pub fn key(self, row: &Row) -> &[Cell] {
        &row[..self.describe().1]
    }

    /// A key below that of every row.
    pub fn start(self) -> Row {
        let columns = self.columns().iter().take(self.describe().1);
        let least = columns.map(|(_, kind)| match kind {
            Kind::Number => Cell::Number(i64::MIN),
            Kind::Text => Cell::Text(String::new()),
            Kind::Bytes => Cell::Bytes(Vec::new()),
        });
        least.collect()
    }

    /// How many rows are read at a time. A blob may be large.
    pub fn page(self) -> usize {
        match self {
            Self::Blobs => 8,
            Self::Checkpoints => 64,
            _ => 1_000,
        }
    }

    /// Its name, the length of its key, and its columns.
    fn describe(self) -> (&'static str, usize, &'static [Column]) {
        match self {
            Self::Blobs => {
                const C: &[Column] = &[
                    ("tenant", T),
                    ("digest", B),
                    ("size", N),
                    ("put_at", N),
                    ("stored", B),
                ];
                ("blobs", 2, C)
            }
            Self::Streams => {
                const C: &[Column] = &[
                    ("name", T),
                    ("tenant", T),
                    ("next_seq", N),
                    ("chain", B),
                    ("epoch", N),
                    ("holder", T),
                    ("expires_at", N),
                    ("header", T),
                    ("index_row", T),
                ];
                ("streams", 1, C)
            }
            Self::References => ("references", 1, &[("stream", T), ("digests", T)]),
            Self::Checkpoints => {
                const C: &[Column] = &[("stream", T), ("next_seq", N), ("chain", B), ("state", B)];
                ("checkpoints", 1, C)
            }
            Self::Timers => ("timers", 2, &[("stream", T), ("name", T), ("due", N)]),
            Self::Events => {
                const C: &[Column] = &[
                    ("position", N),
                    ("stream", T),
                    ("seq", N),
                    ("chain", B),
                    ("content", B),
                ];
                ("events", 1, C)
            }
            Self::Keys => {
                const C: &[Column] = &[
                    ("tenant", T),
                    ("namespace", T),
                    ("key", T),
                    ("stream", T),
                    ("digest", B),
                    ("answer", B),
                    ("expires_at", N),
                ];
                ("keys", 3, C)
            }
            Self::Outbox => {
                const C: &[Column] = &[
                    ("place", N),
                    ("source", T),
                    ("message", T),
                    ("target", T),
                    ("command", B),
                ];
                ("outbox", 1, C)
            }
            Self::Tombstones => {
                const C: &[Column] = &[
                    ("name", T),
                    ("tenant", T),
                    ("next_seq", N),
                    ("chain", B),
                    ("reason", T),
                    ("purged_at", N),
                ];
                ("tombstones", 1, C)
            }
            Self::Counters => ("counters", 1, &[("name", T), ("value", N)]),
        }
    }
}

/// How far an unfinished import is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number of imported pages.
    pub step: u64,
    /// The importer's own words; empty before its first page.
    pub text: String,
}

/// How a store is opened as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// To be copied, or to be reported about.
    Source,
    /// To copy another store into it.
    Destination,
}

/// A store that can be read and filled as a whole.
///
/// An import goes into a store that its type's `open_destination` made or found empty. Until the
/// import is finished, every other way of opening that store is refused.
#[async_trait]
pub trait WholeStore: Store {
    /// At most `limit` rows of a part with a key greater than `after`, in the order of their keys.
    async fn export(
        &self,
        part: Part,
        after: &[Cell],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// How far the import into this store is; `None` for a store that is not a destination.
    async fn mark(&self) -> Result<Option<Mark>, StoreError>;

    /// Adds rows and records the mark in one transaction. Fails if another import has made this step.
    async fn import(&self, part: Part, rows: Vec<Row>, mark: Mark) -> Result<(), StoreError>;

    /// Removes the mark: from now on the store opens as any other.
    async fn finish_import(&self) -> Result<(), StoreError>;

    /// Sizes, counts, delays and live servers.
    async fn status(&self) -> Result<Status, StoreError>;
}

/// Why a store with an unfinished import does not open.
pub const UNFINISHED: &str = "the store is the unfinished destination of a copy; repeat the copy, \
    or delete this store";
/// Why a store is not a destination.
pub const NOT_EMPTY: &str = "the destination of a copy has data already; name a new one";

//! The store over SQLite.
//!
//! One thread per process owns the writing connection. Whatever waits at a moment shares one
//! transaction and one sync (`writer`); a write is acknowledged only after its commit. Reads
//! use connections of their own and see one snapshot each (`open`). Any number of processes
//! may open the same file: write transactions exclude each other, and the row id of an event is
//! its position, so the feed is in commit order across all of them.
//!
//! **Architecture invariant:** no event kind is named here; rows are bytes and columns.
//!
//! Reading order: `schema/`, `options`, `open`, `append`, `log`, `due`.

mod append;
mod blobs;
mod due;
mod holds;
mod inspect;
mod log;
mod maintain;
mod open;
mod options;
mod rows;
mod sql;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::Batch;
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;
use rusqlite::Connection;
use store::codec::{self, BlobBody};
use store::group::GroupCommit;
use store::{
    Appended, Checkpoint, DueAnswer, DueQuery, FeedEvent, Finding, Guard, Hold, HoldChange, KeyRow,
    ListQuery, Listed, Loaded, Outgoing, Position, ReadFrom, Store, StoreClock, StoreError,
    Tombstone,
};
use tokio::sync::Semaphore;

pub use options::{Access, Durability, Options, Sharing};

use append::Prepared;
use open::Readers;
use sql::{Fault, Sql, Writing, clamp};

/// A store in one SQLite file.
pub struct SqliteStore {
    clock: Arc<dyn StoreClock>,
    /// `None` where the store was opened for reading only.
    writer: Option<GroupCommit<Writing>>,
    /// `None` where reads queue behind writes.
    readers: Option<Arc<Readers>>,
    free_readers: Semaphore,
}

impl SqliteStore {
    /// Opens the store at `path`, making or migrating it where the options allow. Blocks while
    /// it does.
    ///
    /// # Errors
    /// `Corrupt` for a file that is no store; `Unavailable` for a path that cannot be opened, a
    /// store written by a newer version, and one that another process keeps locked.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let (clock, sharing) = (Arc::clone(&options.clock), options.sharing);
        let free_readers = Semaphore::new(options.readers.max(1));
        let writer = match options.access {
            Access::Create | Access::Write => {
                Some(GroupCommit::start(open::writer(path, &options)?)?)
            }
            Access::Read => None,
        };
        let readers = Readers::new(path, options);
        let readers = match (&writer, sharing) {
            (Some(_), Sharing::Exclusive) => None,
            (Some(_), Sharing::Processes) => Some(Arc::new(readers)),
            (None, _) => readers.check().map(|()| Some(Arc::new(readers)))?,
        };
        Ok(Self {
            clock,
            writer,
            readers,
            free_readers,
        })
    }

    async fn write<T, F>(&self, bytes: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection, Timestamp) -> Result<T, Fault> + Send + 'static,
    {
        let Some(writer) = &self.writer else {
            return Err(StoreError::Unavailable(
                "the store was opened for reading only".into(),
            ));
        };
        let clock = Arc::clone(&self.clock);
        writer
            .submit(bytes, move |to: &Writing| Ok(work(&to.0, clock.now())?))
            .await
    }

    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection, Timestamp) -> Result<T, Fault> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.write(0, work).await;
        };
        let stopped = |_| StoreError::Unavailable("the store is shutting down".into());
        let _free = self.free_readers.acquire().await.map_err(stopped)?;
        let (readers, clock) = (Arc::clone(readers), Arc::clone(&self.clock));
        let reading =
            tokio::task::spawn_blocking(move || readers.run(|conn| work(conn, clock.now())));
        match reading.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(StoreError::Unavailable(
                "the runtime is shutting down".into(),
            )),
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append(
        &self,
        batch: Batch,
        guard: Guard,
        hold: HoldChange,
    ) -> Result<Appended, StoreError> {
        let batch = Prepared::new(batch, guard, hold);
        self.write(batch.bytes(), move |conn, now| batch.run(conn, now))
            .await
    }

    async fn load(
        &self,
        stream: &StreamId,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Loaded, StoreError> {
        let stream = stream.clone();
        self.read(move |conn, _| log::load(conn, &stream, from, limit))
            .await
    }

    async fn claim(
        &self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
    ) -> Result<Hold, StoreError> {
        let (stream, holder) = (stream.clone(), holder.clone());
        self.write(0, move |conn, now| {
            holds::claim(conn, &stream, &holder, ttl, now)
        })
        .await
    }

    async fn renew(
        &self,
        holds: &[Hold],
        ttl: Duration,
    ) -> Result<Vec<Result<Hold, StoreError>>, StoreError> {
        let holds = holds.to_vec();
        let renew = move |conn: &Connection, now| {
            holds
                .iter()
                .map(|hold| holds::renew(conn, hold, ttl, now))
                .collect()
        };
        self.write(0, renew).await
    }

    async fn release(&self, hold: &Hold) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.write(0, move |conn, _| {
            holds::release(conn, &hold.stream, hold.epoch)
        })
        .await
    }

    async fn due(&self, query: DueQuery) -> Result<DueAnswer, StoreError> {
        self.read(move |conn, now| due::due(conn, &query, now))
            .await
    }

    async fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError> {
        let (tenant, namespace, key) = (tenant.clone(), namespace.to_owned(), key.to_owned());
        self.read(move |conn, now| rows::key(conn, &tenant, &namespace, &key, now))
            .await
    }

    async fn put_checkpoint(
        &self,
        stream: &StreamId,
        mut checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        let stream = stream.clone();
        checkpoint.state = codec::pack_blob(&checkpoint.state);
        let bytes = checkpoint.state.len();
        self.write(bytes, move |conn, _| {
            maintain::put_checkpoint(conn, &stream, &checkpoint)
        })
        .await
    }

    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        let tenant = tenant.clone();
        let digest = Digest::of(&bytes);
        let size = bytes.len() as u64;
        let body = BlobBody {
            digest,
            size,
            stored: codec::pack_blob(&bytes),
        };
        drop(bytes);
        let put = move |conn: &Connection, now| blobs::keep(conn, tenant.as_str(), &body, now);
        self.write(usize::try_from(size).unwrap_or(usize::MAX), put)
            .await?;
        Ok(digest)
    }

    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let (tenant, digest) = (tenant.clone(), *digest);
        self.read(move |conn, _| blobs::read(conn, tenant.as_str(), &digest))
            .await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, StoreError> {
        self.read(move |conn, _| rows::list(conn, &query)).await
    }

    async fn feed(&self, after: Position, limit: usize) -> Result<Vec<FeedEvent>, StoreError> {
        self.read(move |conn, _| log::feed(conn, after, limit))
            .await
    }

    async fn outbox(&self, limit: usize) -> Result<Vec<Outgoing>, StoreError> {
        self.read(move |conn, _| rows::outbox(conn, limit)).await
    }

    async fn delivered(&self, places: &[u64]) -> Result<(), StoreError> {
        let places = places.to_vec();
        let forget = move |conn: &Connection, _| {
            for place in &places {
                conn.run("DELETE FROM outbox WHERE place = ?1", [clamp(*place)])?;
            }
            Ok(())
        };
        self.write(0, forget).await
    }

    async fn purge(&self, stream: &StreamId, reason: &str) -> Result<Tombstone, StoreError> {
        let (stream, reason) = (stream.clone(), reason.to_owned());
        self.write(0, move |conn, now| {
            maintain::purge(conn, &stream, &reason, now)
        })
        .await
    }

    async fn tombstone(&self, stream: &StreamId) -> Result<Option<Tombstone>, StoreError> {
        let stream = stream.clone();
        self.read(move |conn, _| rows::tombstone(conn, &stream))
            .await
    }

    async fn maintain(&self) -> Result<bool, StoreError> {
        let more = self.write(0, maintain::sweep).await?;
        let packs = self.read(|conn, _| maintain::pack_settled(conn)).await?;
        if packs.is_empty() {
            return Ok(more);
        }
        self.write(0, move |conn, _| maintain::write_packs(conn, &packs))
            .await?;
        Ok(true)
    }

    async fn inspect(&self) -> Result<Vec<Finding>, StoreError> {
        self.read(|conn, _| inspect::inspect(conn)).await
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

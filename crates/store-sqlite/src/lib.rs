//! The SQLite store.
//!
//! One thread per process owns the writing connection. Waiting jobs share one transaction and one
//! sync ([`store::group`]) and are acknowledged after its commit. Each read sees one snapshot
//! ([`store::readers`]). Write transactions of several processes exclude each other. The row id of
//! an event is its position, so the feed is in commit order across all processes.
//!
//! **Invariant:** no event kind is named here; rows are bytes and columns. Reading order:
//! `schema/`, `options`, `open`, `append`, `log`, `queue`.

mod append;
mod blobs;
mod log;
mod maintain;
mod open;
mod options;
mod queue;
mod rows;
mod sql;
mod whole;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;
use store::codec::{self, BlobBody};
use store::group::GroupCommit;
use store::readers::Readers;
use store::whole::SqlStore as _;
use store::*;

pub use open::SCHEMA_VERSION;
pub use options::{Options, Sharing};
pub use store::{Access, Durability};

use sql::{Db, Fallible};

type Answer<T> = Result<T, StoreError>;

/// A store in one SQLite file.
pub struct SqliteStore {
    clock: Arc<dyn StoreClock>,
    /// `None` if reads use the writing connection. Dropped first: the last connection to close
    /// copies the log into the file, which a reader could not.
    readers: Option<Readers<Db>>,
    /// `None` if the store was opened for reading only.
    writer: Option<GroupCommit<Db>>,
}

impl SqliteStore {
    /// Opens the store at `path`, creating or migrating it if the options allow. Blocks.
    ///
    /// # Errors
    /// `Corrupt` for a file that is not a store. `Unavailable` for a path that cannot be opened, a
    /// store of a newer version, one that another process keeps locked, and the unfinished
    /// destination of a copy.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Answer<Self> {
        let writer = match options.access {
            Access::Create | Access::Write => Some(open::writer(path.as_ref(), &options)?),
            Access::Read => None,
        };
        match &writer {
            Some(db) => open::check(db)?,
            None => open::check(&open::reader(path.as_ref(), &options)?)?,
        }
        Self::start(path.as_ref(), options, writer)
    }

    /// Opens an empty or new store, or an unfinished destination, to copy another store into it. Keeps
    /// every other process out; so does [`Sharing::Exclusive`] for the source of a copy. Blocks.
    ///
    /// # Errors
    /// As for [`SqliteStore::open`]; `Unavailable` for a store with data.
    pub async fn open_destination(path: impl AsRef<Path>, options: Options) -> Answer<Self> {
        let options = open::alone(options, Access::Create);
        let writer = open::writer(path.as_ref(), &options)?;
        let store = Self::start(path.as_ref(), options, Some(writer))?;
        store.begin_import().await?;
        Ok(store)
    }

    fn start(path: &Path, options: Options, writer: Option<Db>) -> Answer<Self> {
        let (path, clock) = (path.to_owned(), Arc::clone(&options.clock));
        let (sharing, limit) = (options.sharing, options.readers);
        let writer = writer.map(GroupCommit::start).transpose()?;
        let readers = Readers::new(limit, move || open::reader(&path, &options));
        let queued = writer.is_some() && sharing == Sharing::Exclusive;
        let readers = (!queued).then_some(readers);
        Ok(Self {
            clock,
            writer,
            readers,
        })
    }

    /// Rewrites the file without the stale copies of rows that SQLite leaves in split pages.
    /// Blocks.
    ///
    /// # Errors
    /// `Unavailable` while the store is open anywhere, or the disk is full; then nothing has
    /// changed.
    pub fn compact(path: impl AsRef<Path>, options: Options) -> Answer<()> {
        let db = open::writer(path.as_ref(), &open::alone(options, Access::Write))?;
        let rewritten =
            db.0.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
        Ok(rewritten.map_err(sql::Fault::from)?)
    }

    async fn write<T, F>(&self, bytes: usize, work: F) -> Answer<T>
    where
        T: Send + 'static,
        F: Fn(&Db, Timestamp) -> Fallible<T> + Send + 'static,
    {
        let read_only = || StoreError::Unavailable("it was opened for reading only".into());
        let writer = self.writer.as_ref().ok_or_else(read_only)?;
        let clock = Arc::clone(&self.clock);
        let work = move |db: &Db| Ok(work(db, clock.now())?);
        writer.submit(bytes, work).await
    }

    async fn read<T, F>(&self, work: F) -> Answer<T>
    where
        T: Send + 'static,
        F: Fn(&Db, Timestamp) -> Fallible<T> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.write(0, work).await;
        };
        let clock = Arc::clone(&self.clock);
        readers.read(move |db| Ok(work(db, clock.now())?)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append(&self, batch: Batch, guard: Guard, lease: LeaseChange) -> Answer<Appended> {
        let append = Prepared::new(batch, guard, lease);
        let bytes = append.bytes();
        let append = move |db: &Db, now| append::append(db, &append, now);
        self.write(bytes, append).await
    }

    async fn load(&self, stream: &StreamId, from: ReadFrom, limit: usize) -> Answer<Loaded> {
        let stream = stream.clone();
        let load = move |db: &Db, _| log::load(db, &stream, from, limit);
        self.read(load).await
    }

    async fn claim(&self, stream: &StreamId, holder: &HolderId, ttl: Duration) -> Answer<Lease> {
        let (stream, holder) = (stream.clone(), holder.clone());
        let claim = move |db: &Db, now: Timestamp| queue::claim(db, &stream, &holder, ttl, now);
        self.write(0, claim).await
    }

    async fn renew(&self, leases: &[Lease], ttl: Duration) -> Answer<Vec<Answer<Lease>>> {
        let leases = leases.to_vec();
        let renew = move |db: &Db, now| {
            let each = |lease| queue::renew(db, lease, ttl, now);
            leases.iter().map(each).collect()
        };
        self.write(0, renew).await
    }

    async fn release(&self, lease: &Lease) -> Answer<()> {
        let (stream, epoch) = (lease.stream.clone(), lease.epoch);
        let release = move |db: &Db, _| queue::release(db, &stream, epoch);
        self.write(0, release).await
    }

    async fn due(&self, query: DueQuery) -> Answer<DueAnswer> {
        self.read(move |db, now| queue::due(db, &query, now)).await
    }

    async fn key(&self, tenant: &TenantId, namespace: &str, key: &str) -> Answer<Option<KeyRow>> {
        let place = [tenant.as_str(), namespace, key].map(str::to_owned);
        let read = move |db: &Db, now| rows::key(db, place.each_ref().map(String::as_str), now);
        self.read(read).await
    }

    async fn put_key(&self, of: &TenantId, claim: KeyClaim, seen: Option<KeyRow>) -> Answer<()> {
        let (tenant, bytes) = (of.to_string(), claim.answer.as_ref().map_or(0, Vec::len));
        let put = move |db: &Db, now| rows::put_key(db, &tenant, &claim, seen.as_ref(), now);
        self.write(bytes, put).await
    }

    async fn put_checkpoint(&self, stream: &StreamId, mut kept: Checkpoint) -> Answer<()> {
        kept.state = codec::pack_blob(&kept.state);
        let (stream, bytes) = (stream.clone(), kept.state.len());
        let put = move |db: &Db, _| maintain::put_checkpoint(db, &stream, &kept);
        self.write(bytes, put).await
    }

    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Answer<Digest> {
        let (tenant, body) = (tenant.clone(), BlobBody::new(&bytes));
        let (digest, weight) = (body.digest, body.stored.len());
        drop(bytes);
        let put = move |db: &Db, now| blobs::keep(db, tenant.as_str(), &body, now);
        self.write(weight, put).await.map(|()| digest)
    }

    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Answer<Vec<u8>> {
        let (tenant, digest) = (tenant.clone(), *digest);
        let read = move |db: &Db, _| blobs::read(db, tenant.as_str(), &digest);
        self.read(read).await
    }

    async fn list(&self, query: ListQuery) -> Answer<Vec<Listed>> {
        self.read(move |db, _| rows::list(db, &query)).await
    }

    async fn count(&self, query: ListQuery) -> Answer<BTreeMap<String, u64>> {
        self.read(move |db, _| rows::count(db, &query)).await
    }

    async fn feed(&self, after: Position, limit: usize) -> Answer<Vec<FeedEvent>> {
        self.read(move |db, _| log::feed(db, after, limit)).await
    }

    async fn feed_end(&self) -> Answer<Position> {
        let sql = "SELECT max(position) FROM events";
        let end = self.read(|db, _| db.value(sql, [])).await?;
        Ok(Position(end.unwrap_or(0)))
    }

    async fn outbox(&self, limit: usize) -> Answer<Vec<Outgoing>> {
        self.read(move |db, _| rows::outbox(db, limit)).await
    }

    async fn delivered(&self, places: &[u64]) -> Answer<()> {
        let places = serde_json::json!(places).to_string();
        let sql = "DELETE FROM outbox WHERE place IN (SELECT value FROM json_each(?1))";
        let delete = move |db: &Db, _| db.run(sql, [&places]).map(drop);
        self.write(0, delete).await
    }

    async fn purge(&self, stream: &StreamId, reason: &str) -> Answer<Tombstone> {
        let (stream, reason) = (stream.clone(), reason.to_owned());
        let purge = move |db: &Db, now| maintain::purge(db, &stream, &reason, now);
        self.write(0, purge).await
    }

    async fn tombstone(&self, stream: &StreamId) -> Answer<Option<Tombstone>> {
        let stream = stream.clone();
        self.read(move |db, _| rows::tombstone(db, &stream)).await
    }

    async fn maintain(&self) -> Answer<bool> {
        let more = self.write(0, maintain::sweep).await?;
        let packed = self.write(0, |db, _| maintain::pack_settled(db)).await?;
        Ok(more || packed)
    }

    async fn inspect(&self) -> Answer<Vec<Finding>> {
        let sql = "PRAGMA integrity_check(1000)";
        let each = move |db: &Db, _| db.all(sql, [], |row| Ok(row.get::<_, String>(0)?));
        let answers = self.read(each).await?.into_iter();
        let damage = answers
            .filter(|answer| answer != "ok")
            .map(|answer| Finding {
                stream: None,
                what: format!("the file is damaged: {answer}"),
            });
        Ok(damage.chain(store::whole::inspect(self).await?).collect())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

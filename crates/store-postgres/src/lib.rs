//! The PostgreSQL store.
//!
//! Any number of processes, on any number of machines, share one database. Leases, timers and keys
//! are judged by the database's clock. One task per process appends: all appends that wait at a
//! moment share one statement and one commit (`group`, `writer`). Everything else is a statement
//! of its own over a pool of connections, so that no call needs two connections at once.
//!
//! Positions of the feed are in commit order; `docs/design/feed-on-postgres.md` has the rule.
//!
//! **Invariant:** no event kind is named here, in Rust or in SQL; rows are bytes and columns.
//! Reading order: `schema/`, `address`, `connect`, `open`, `db`, `writer`, `log`, `queue`.

mod address;
mod clock;
mod connect;
mod db;
mod group;
mod listen;
mod log;
mod open;
mod options;
mod queue;
mod rows;
mod tls;
mod whole;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;
use store::codec::BlobBody;
use store::whole::{SqlStore as _, UNFINISHED, WholeStore as _};
use store::*;
use tokio::sync::watch;

pub use address::Address;
pub use listen::Hint;
pub use open::SCHEMA_VERSION;
pub use options::Options;
pub use store::Access;

use clock::Clock;
use db::{Db, Statements};
use writer::Writer;

type Answer<T> = Result<T, StoreError>;

/// How this process learns of appends of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hints {
    /// The database sends a hint.
    Pushed,
    /// It has to look from time to time.
    Polled,
}

/// A store in the schema `runwright` of a PostgreSQL database.
pub struct PostgresStore {
    clock: Arc<Clock>,
    db: Db,
    /// `None` if the store was opened for reading only.
    writer: Option<Writer>,
    /// Ends the task that listens.
    stop: watch::Sender<()>,
}

impl PostgresStore {
    /// Opens the store at an address, creating or migrating it if the options allow.
    ///
    /// # Errors
    /// `Unavailable` for a server that cannot be reached, that could lose acknowledged writes, whose
    /// store has a newer version or is the unfinished destination of a copy.
    pub async fn open(address: &Address, options: Options) -> Answer<Self> {
        let store = Self::open_any(address, options).await?;
        match store.mark().await? {
            Some(_) => Err(StoreError::Unavailable(UNFINISHED.into())),
            None => Ok(store),
        }
    }

    /// Opens an empty database, an empty store, or an unfinished destination, to copy another store
    /// into it. No other process may use it meanwhile.
    ///
    /// # Errors
    /// As for [`PostgresStore::open`]; `Unavailable` for a store with data.
    pub async fn open_destination(address: &Address, options: Options) -> Answer<Self> {
        let store = Self::open_any(address, options).await?;
        store.begin_import().await?;
        Ok(store)
    }

    async fn open_any(address: &Address, options: Options) -> Answer<Self> {
        let db = open::open(address, &options).await?;
        let clock = Arc::new(Clock::new(options.clock));
        // The estimate of the database's time needs a first value.
        let now = db.look_up("SELECT runwright.clock(NULL) AS t", &[]).await?;
        let now = now
            .first()
            .ok_or_else(|| db::corrupt("a clock has no answer"))?;
        clock.saw(Timestamp(db::column(now, "t")?));
        let writer = match options.access {
            Access::Create | Access::Write => {
                Some(Writer::start(db.for_appends(), Arc::clone(&clock)))
            }
            Access::Read => None,
        };
        Ok(Self {
            clock,
            db,
            writer,
            stop: watch::Sender::new(()),
        })
    }

    /// Calls `hear` after appends of other processes, over a connection of its own, as long as the
    /// store lives. Returns [`Hints::Polled`] where a pooler is in the way.
    pub fn listen(&self, hear: impl Fn(Hint) + Send + Sync + 'static) -> Hints {
        if self.db.statements == Statements::Unnamed {
            return Hints::Polled;
        }
        let (origin, stop) = (self.db.origin, self.stop.subscribe());
        let hosts = self.db.hosts.clone();
        tokio::spawn(listen::listen(hosts, origin, Arc::new(hear), stop));
        Hints::Pushed
    }

    /// The database, for a method that writes.
    fn writable(&self) -> Answer<(&Db, &Writer)> {
        let read_only = || StoreError::Unavailable("it was opened for reading only".into());
        Ok((&self.db, self.writer.as_ref().ok_or_else(read_only)?))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn append(&self, batch: Batch, guard: Guard, lease: LeaseChange) -> Answer<Appended> {
        let append = Prepared::new(batch, guard, lease);
        self.writable()?.1.append(append).await
    }

    async fn load(&self, stream: &StreamId, from: ReadFrom, limit: usize) -> Answer<Loaded> {
        log::load(&self.db, stream, from, limit).await
    }

    async fn claim(&self, stream: &StreamId, holder: &HolderId, ttl: Duration) -> Answer<Lease> {
        queue::claim(self.writable()?.0, &self.clock, stream, holder, ttl).await
    }

    async fn renew(&self, leases: &[Lease], ttl: Duration) -> Answer<Vec<Answer<Lease>>> {
        queue::renew(self.writable()?.0, &self.clock, leases, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Answer<()> {
        queue::release(self.writable()?.0, lease).await
    }

    async fn due(&self, query: DueQuery) -> Answer<DueAnswer> {
        queue::due(&self.db, &self.clock, &query).await
    }

    async fn key(&self, tenant: &TenantId, namespace: &str, key: &str) -> Answer<Option<KeyRow>> {
        let db = self.db.of_tenant(tenant);
        rows::key(&db, &self.clock, [tenant.as_str(), namespace, key]).await
    }

    async fn put_key(&self, of: &TenantId, claim: KeyClaim, seen: Option<KeyRow>) -> Answer<()> {
        let db = self.writable()?.0.of_tenant(of);
        rows::put_key(&db, &self.clock, of, &claim, seen.as_ref()).await
    }

    async fn put_checkpoint(&self, stream: &StreamId, checkpoint: Checkpoint) -> Answer<()> {
        rows::put_checkpoint(self.writable()?.0, stream, &checkpoint).await
    }

    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Answer<Digest> {
        let body = BlobBody::new(&bytes);
        drop(bytes);
        let db = self.writable()?.0.of_tenant(tenant);
        rows::put_blob(&db, &self.clock, tenant, &body).await?;
        Ok(body.digest)
    }

    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Answer<Vec<u8>> {
        rows::blob(&self.db.of_tenant(tenant), tenant, digest).await
    }

    async fn list(&self, query: ListQuery) -> Answer<Vec<Listed>> {
        rows::list(&self.db, &query).await
    }

    async fn count(&self, query: ListQuery) -> Answer<BTreeMap<String, u64>> {
        rows::tally(&self.db, query).await
    }

    async fn feed(&self, after: Position, limit: usize) -> Answer<Vec<FeedEvent>> {
        log::feed(&self.db, after, limit).await
    }

    async fn feed_end(&self) -> Answer<Position> {
        log::feed_end(&self.db).await
    }

    async fn outbox(&self, limit: usize) -> Answer<Vec<Outgoing>> {
        rows::outbox(&self.db, limit).await
    }

    async fn delivered(&self, places: &[u64]) -> Answer<()> {
        rows::delivered(self.writable()?.0, places).await
    }

    async fn purge(&self, stream: &StreamId, reason: &str) -> Answer<Tombstone> {
        rows::purge(&self.writable()?.0.patient(), &self.clock, stream, reason).await
    }

    async fn tombstone(&self, stream: &StreamId) -> Answer<Option<Tombstone>> {
        rows::tombstone(&self.db, stream).await
    }

    async fn maintain(&self) -> Answer<bool> {
        rows::sweep(self.writable()?.0, &self.clock).await
    }

    async fn inspect(&self) -> Answer<Vec<Finding>> {
        store::whole::inspect(self).await
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

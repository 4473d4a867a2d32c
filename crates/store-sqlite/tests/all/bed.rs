//! The stores of the tests, and the batches they append.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use kernel::batch::forge::Forged;
use kernel::batch::{Batch, IndexRow, Record};
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use kernel::stream::{Owner, StreamHeader, StreamKind};
use kernel::time::Timestamp;
use store::conformance::Bed;
use store::memory::MemoryStore;
use store::whole::{Opening, WholeStore};
use store::{Guard, LeaseChange, Store, StoreClock, StoreError, SystemClock};
use store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;

/// A store file in a folder of its own.
pub(crate) struct File(TempDir);

impl File {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("runs.db")
    }

    pub(crate) fn open(&self) -> SqliteStore {
        open(&self.path())
    }
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::default()).expect("the store opens")
}

#[async_trait]
impl Bed for File {
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
        let options = Options {
            clock,
            ..Options::default()
        };
        Arc::new(SqliteStore::open(self.path(), options).expect("the store opens"))
    }

    async fn open_whole(
        &self,
        clock: Arc<dyn StoreClock>,
        how: Opening,
    ) -> Result<Arc<dyn WholeStore>, StoreError> {
        let options = Options {
            clock,
            ..Options::default()
        };
        let opened = match how {
            Opening::Source => SqliteStore::open(self.path(), options)?,
            Opening::Destination => SqliteStore::open_destination(self.path(), options).await?,
        };
        Ok(Arc::new(opened))
    }
}

struct Memory(MemoryStore);

#[async_trait]
impl Bed for Memory {
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
        Arc::new(self.0.share(clock))
    }

    async fn open_whole(
        &self,
        clock: Arc<dyn StoreClock>,
        how: Opening,
    ) -> Result<Arc<dyn WholeStore>, StoreError> {
        Ok(Arc::new(self.0.share_whole(clock, how)?))
    }
}

/// A fresh reference store.
pub(crate) fn memory() -> Box<dyn Bed> {
    Box::new(Memory(MemoryStore::new(Arc::new(SystemClock))))
}

/// A fresh store in a file.
pub(crate) fn file() -> Box<dyn Bed> {
    Box::new(File::new())
}

/// A log as known to its only writer.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) id: StreamId,
    pub(crate) next_seq: Seq,
    chain: Digest,
    pub(crate) settled: bool,
}

impl Log {
    pub(crate) fn new(id: impl Into<String>) -> Self {
        Self {
            id: StreamId::from(id.into()),
            next_seq: 0,
            chain: Digest([1; 32]),
            settled: false,
        }
    }

    /// Continues a log that is in a store.
    pub(crate) async fn find(store: &dyn Store, id: &str) -> Result<Self, StoreError> {
        let mut log = Self::new(id);
        let loaded = store
            .load(&log.id, store::ReadFrom::Seq(0), usize::MAX)
            .await?;
        log.next_seq = loaded.next_seq;
        log.chain = loaded.records.last().map_or(log.chain, |last| last.chain);
        Ok(log)
    }

    /// A batch of these events at the end of the log.
    pub(crate) fn next(&self, contents: &[String]) -> Forged {
        let mut chain = self.chain;
        let records = contents.iter().map(|content| {
            let content = content.clone().into_bytes();
            chain = chain.chain(&content);
            Record { content, chain }
        });
        Forged {
            stream: self.id.clone(),
            tenant: "local".into(),
            header: (self.next_seq == 0).then(|| header(&self.id)),
            first_seq: self.next_seq,
            records: records.collect(),
            index: index(self.settled),
            timers: Vec::new(),
            keys: Vec::new(),
            outbox: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// Appends from outside; the log advances only if that was accepted.
    pub(crate) async fn append(
        &mut self,
        store: &dyn Store,
        contents: &[String],
    ) -> Result<(), StoreError> {
        let batch = self.next(contents).into();
        self.put(store, batch).await
    }

    pub(crate) async fn put(&mut self, store: &dyn Store, batch: Batch) -> Result<(), StoreError> {
        store
            .append(batch.clone(), Guard::Outside, LeaseChange::Keep)
            .await?;
        self.next_seq += batch.records().len() as Seq;
        self.chain = batch.records().last().map_or(self.chain, |last| last.chain);
        Ok(())
    }
}

fn header(stream: &StreamId) -> StreamHeader {
    StreamHeader {
        genesis: Digest([1; 32]),
        ..StreamHeader::new(
            stream.clone(),
            StreamKind::Run,
            Owner::tenant("local"),
            Timestamp(1),
        )
    }
}

fn index(settled: bool) -> IndexRow {
    IndexRow {
        kind: StreamKind::Run,
        workspace: None,
        subject: "order".into(),
        status: "running".into(),
        settled,
        runnable: !settled,
        queue: "default".into(),
        priority: 0,
        concurrency_key: None,
        parent: None,
        created_at: Timestamp(1),
        updated_at: Timestamp(2),
        tags: Vec::new(),
        summary: serde_json::Value::Null,
    }
}

/// Runs an asynchronous test.
pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a test can start a runtime")
        .block_on(test)
}

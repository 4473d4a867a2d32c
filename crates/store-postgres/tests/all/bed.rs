//! The stores of the tests.

use std::sync::Arc;

use async_trait::async_trait;
use store::conformance::Bed;
use store::memory::MemoryStore;
use store::whole::{Opening, WholeStore};
use store::{Store, StoreClock, StoreError, SystemClock};
use store_postgres::{Access, Address, Options, PostgresStore};

/// A database of its own.
pub(crate) struct Database(pub(crate) String);

impl Database {
    /// `None` after a named skip where this machine has no PostgreSQL.
    pub(crate) fn new() -> Option<Self> {
        let database = Self(testkit::postgres::database()?);
        // All tests share the roles of the server.
        database.sql(
            "DO $$ BEGIN CREATE ROLE app LOGIN;
             EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
             DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO app', current_database()); END $$",
        );
        Some(database)
    }

    /// The URL of the role that has the store. Unlike the owner of the server, policies apply to it.
    pub(crate) fn of_app(&self) -> String {
        self.0.replace("user=runwright", "user=app")
    }

    pub(crate) fn address(&self) -> Address {
        Address::parse(&self.of_app()).expect("the URL of a test is right")
    }

    pub(crate) fn sql(&self, script: &str) -> String {
        testkit::postgres::sql(&self.0, script)
    }

    pub(crate) async fn open(&self, options: Options) -> Result<PostgresStore, store::StoreError> {
        PostgresStore::open(&self.address(), options).await
    }

    /// Opens the store with the database's clock.
    pub(crate) async fn store(&self) -> PostgresStore {
        self.open(Options::default())
            .await
            .expect("the store opens")
    }

    pub(crate) async fn refusal(&self, access: Access) -> String {
        let options = Options {
            access,
            ..Options::default()
        };
        match self.open(options).await {
            Ok(_) => panic!("the store was opened"),
            Err(error) => error.to_string(),
        }
    }
}

#[async_trait]
impl Bed for Database {
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
        let options = Options {
            clock: Some(clock),
            connections: 3,
            ..Options::default()
        };
        Arc::new(Self::open(self, options).await.expect("the store opens"))
    }

    async fn open_whole(
        &self,
        clock: Arc<dyn StoreClock>,
        how: Opening,
    ) -> Result<Arc<dyn WholeStore>, StoreError> {
        let options = Options {
            clock: Some(clock),
            connections: 3,
            ..Options::default()
        };
        let address = self.address();
        let opened = match how {
            Opening::Source => PostgresStore::open(&address, options).await?,
            Opening::Destination => PostgresStore::open_destination(&address, options).await?,
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

/// A fresh database. Without PostgreSQL the reference store takes its place: the skip is counted,
/// and the suite needs a store.
pub(crate) fn database() -> Box<dyn Bed> {
    match Database::new() {
        Some(database) => Box::new(database),
        None => memory(),
    }
}

/// Runs an asynchronous test on a database; returns at once where there is none.
pub(crate) fn on_database<F: Future<Output = ()>>(test: impl FnOnce(Database) -> F) {
    let Some(database) = Database::new() else {
        return;
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a test can start a runtime")
        .block_on(test(database));
}

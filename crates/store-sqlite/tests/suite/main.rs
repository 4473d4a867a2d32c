//! Tests of the SQLite store, one crate. A new test goes into the module of its subject.

use std::sync::Arc;

use async_trait::async_trait;
use store::conformance::Bed;
use store::{Store, StoreClock};
use store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;

/// A store file in a directory of its own.
struct File(TempDir);

impl File {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

#[async_trait]
impl Bed for File {
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
        let options = Options {
            clock,
            ..Options::default()
        };
        Arc::new(SqliteStore::open(self.0.path().join("store.db"), options).unwrap())
    }
}

mod conformance {
    use super::*;
    store::conformance!(File::new());
}

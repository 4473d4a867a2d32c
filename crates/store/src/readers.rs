//! Reading concurrently with a writer: a few connections, opened on first use, one snapshot per
//! read.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::StoreError;
use crate::group::Transactions;

/// The reading connections of an embedded database. Clones share them.
pub struct Readers<D> {
    shared: Arc<Shared<D>>,
}

struct Shared<D> {
    open: Box<dyn Fn() -> Result<D, StoreError> + Send + Sync>,
    idle: Mutex<Vec<D>>,
    free: Semaphore,
}

impl<D: Transactions> Readers<D> {
    /// At most `limit` connections, each made by `open`.
    pub fn new(
        limit: usize,
        open: impl Fn() -> Result<D, StoreError> + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            open: Box::new(open),
            idle: Mutex::default(),
            free: Semaphore::new(limit.max(1)),
        });
        Self { shared }
    }

    /// Runs `work` in a read transaction, which sees one state, on a thread that may block.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&D) -> Result<T, StoreError> + Send + 'static,
    {
        let stopping = || StoreError::Unavailable("the process is shutting down".into());
        let free = self.shared.free.acquire().await;
        let _free = free.map_err(|_| stopping())?;
        let shared = Arc::clone(&self.shared);
        match tokio::task::spawn_blocking(move || shared.run(work)).await {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            answer => answer.map_err(|_| stopping())?,
        }
    }

    /// The same on the caller's thread.
    pub fn read_blocking<T>(
        &self,
        work: impl Fn(&D) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.shared.run(work)
    }
}

impl<D: Transactions> Shared<D> {
    fn run<T>(&self, work: impl Fn(&D) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let database = match waiting {
            Some(database) => database,
            None => (self.open)()?,
        };
        database.begin_reading()?;
        let answer = work(&database);
        database.rollback();
        // A failed connection is dropped: it may still hold the cause of its failure.
        if !matches!(
            answer,
            Err(StoreError::Corrupt(_) | StoreError::Unavailable(_))
        ) {
            idle().push(database);
        }
        answer
    }
}

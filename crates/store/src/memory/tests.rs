use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::conformance::Bed;
use crate::whole::{Opening, WholeStore};
use crate::{Store, StoreClock, StoreError, SystemClock};

/// The data of an in-memory store lives as long as this.
struct MemoryBed(MemoryStore);

#[async_trait]
impl Bed for MemoryBed {
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

crate::conformance!(MemoryBed(MemoryStore::new(Arc::new(SystemClock))));

use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::conformance::Bed;
use crate::{Store, StoreClock, SystemClock};

/// The data of an in-memory store lives as long as this.
struct MemoryBed(MemoryStore);

#[async_trait]
impl Bed for MemoryBed {
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
        Arc::new(self.0.share(clock))
    }
}

crate::conformance!(MemoryBed(MemoryStore::new(Arc::new(SystemClock))));

//! The in-memory reference store: the simplest code that fulfils the trait's documentation.
//!
//! One mutex, ordered maps, and a scan where a real store has an index. Other stores are compared
//! with it call by call, so it prefers simplicity to speed. Its data lives as long as one of its
//! handles.

mod append;
mod leases;
mod queue;
mod tables;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;
use parking_lot::Mutex;

use crate::api::{Store, assert_appendable};
use crate::clock::StoreClock;
use crate::error::StoreError;
use crate::types::*;
use tables::Tables;

/// A handle on an in-memory store. Clones are further handles on the same data.
#[derive(Clone)]
pub struct MemoryStore {
    tables: Arc<Mutex<Tables>>,
    clock: Arc<dyn StoreClock>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn StoreClock>) -> Self {
        Self {
            tables: Arc::default(),
            clock,
        }
    }

    /// Another handle on the same data with its own clock, as another process would have.
    pub fn share(&self, clock: Arc<dyn StoreClock>) -> Self {
        Self {
            tables: Arc::clone(&self.tables),
            clock,
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn append(
        &self,
        batch: Batch,
        guard: Guard,
        lease: LeaseChange,
    ) -> Result<Appended, StoreError> {
        assert_appendable(&batch, guard, &lease);
        self.tables.lock().append(batch, guard, lease, self.now())
    }

    async fn load(
        &self,
        stream: &StreamId,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Loaded, StoreError> {
        self.tables.lock().load(stream, from, limit)
    }

    async fn claim(
        &self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
    ) -> Result<Lease, StoreError> {
        self.tables.lock().claim(stream, holder, ttl, self.now())
    }

    async fn renew(
        &self,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<Vec<Result<Lease, StoreError>>, StoreError> {
        let mut tables = self.tables.lock();
        Ok(leases
            .iter()
            .map(|lease| tables.renew(lease, ttl, self.now()))
            .collect())
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.tables.lock().release(lease);
        Ok(())
    }

    async fn due(&self, query: DueQuery) -> Result<DueAnswer, StoreError> {
        Ok(self.tables.lock().due(&query, self.now()))
    }

    async fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError> {
        Ok(self
            .tables
            .lock()
            .key(tenant, namespace, key, self.now())
            .cloned())
    }

    async fn put_key(
        &self,
        tenant: &TenantId,
        claim: KeyClaim,
        seen: Option<KeyRow>,
    ) -> Result<(), StoreError> {
        let now = self.now();
        self.tables.lock().put_key(tenant, claim, seen, now)
    }

    async fn put_checkpoint(
        &self,
        stream: &StreamId,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        self.tables.lock().put_checkpoint(stream, checkpoint)
    }

    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        Ok(self.tables.lock().put_blob(tenant, &bytes, self.now()))
    }

    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.tables.lock().blob(tenant, digest)
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, StoreError> {
        Ok(self.tables.lock().list(&query))
    }

    async fn feed(&self, after: Position, limit: usize) -> Result<Vec<FeedEvent>, StoreError> {
        self.tables.lock().feed(after, limit)
    }

    async fn outbox(&self, limit: usize) -> Result<Vec<Outgoing>, StoreError> {
        Ok(self.tables.lock().outbox(limit))
    }

    async fn delivered(&self, places: &[u64]) -> Result<(), StoreError> {
        self.tables.lock().delivered(places);
        Ok(())
    }

    async fn purge(&self, stream: &StreamId, reason: &str) -> Result<Tombstone, StoreError> {
        self.tables.lock().purge(stream, reason, self.now())
    }

    async fn tombstone(&self, stream: &StreamId) -> Result<Option<Tombstone>, StoreError> {
        Ok(self.tables.lock().tombstone(stream).cloned())
    }

    async fn maintain(&self) -> Result<bool, StoreError> {
        self.tables.lock().maintain(self.now());
        Ok(false)
    }

    async fn inspect(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(self.tables.lock().inspect())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[cfg(test)]
mod tests;

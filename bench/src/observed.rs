//! A store that reports every append as soon as it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;
use store::*;

type Answer<T> = Result<T, StoreError>;

type Tell = dyn Fn(&Batch, Guard, &LeaseChange) + Send + Sync;

/// Reports every append that its inner store acknowledges.
pub(crate) struct Observed {
    inner: Arc<dyn Store>,
    tell: Box<Tell>,
}

impl Observed {
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        tell: impl Fn(&Batch, Guard, &LeaseChange) + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            tell: Box::new(tell),
        }
    }
}

#[async_trait]
impl Store for Observed {
    async fn append(&self, batch: Batch, guard: Guard, lease: LeaseChange) -> Answer<Appended> {
        let copy = (batch.clone(), lease.clone());
        let appended = self.inner.append(batch, guard, lease).await?;
        (self.tell)(&copy.0, guard, &copy.1);
        Ok(appended)
    }

    async fn load(&self, stream: &StreamId, from: ReadFrom, limit: usize) -> Answer<Loaded> {
        self.inner.load(stream, from, limit).await
    }

    async fn claim(&self, stream: &StreamId, holder: &HolderId, ttl: Duration) -> Answer<Lease> {
        self.inner.claim(stream, holder, ttl).await
    }

    async fn renew(&self, leases: &[Lease], ttl: Duration) -> Answer<Vec<Answer<Lease>>> {
        self.inner.renew(leases, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Answer<()> {
        self.inner.release(lease).await
    }

    async fn due(&self, query: DueQuery) -> Answer<DueAnswer> {
        self.inner.due(query).await
    }

    async fn key(&self, tenant: &TenantId, namespace: &str, key: &str) -> Answer<Option<KeyRow>> {
        self.inner.key(tenant, namespace, key).await
    }

    async fn put_key(&self, of: &TenantId, key: KeyClaim, seen: Option<KeyRow>) -> Answer<()> {
        self.inner.put_key(of, key, seen).await
    }

    async fn put_checkpoint(&self, stream: &StreamId, checkpoint: Checkpoint) -> Answer<()> {
        self.inner.put_checkpoint(stream, checkpoint).await
    }

    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Answer<Digest> {
        self.inner.put_blob(tenant, bytes).await
    }

    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Answer<Vec<u8>> {
        self.inner.blob(tenant, digest).await
    }

    async fn list(&self, query: ListQuery) -> Answer<Vec<Listed>> {
        self.inner.list(query).await
    }

    async fn feed(&self, after: Position, limit: usize) -> Answer<Vec<FeedEvent>> {
        self.inner.feed(after, limit).await
    }

    async fn outbox(&self, limit: usize) -> Answer<Vec<Outgoing>> {
        self.inner.outbox(limit).await
    }

    async fn delivered(&self, places: &[u64]) -> Answer<()> {
        self.inner.delivered(places).await
    }

    async fn purge(&self, stream: &StreamId, reason: &str) -> Answer<Tombstone> {
        self.inner.purge(stream, reason).await
    }

    async fn tombstone(&self, stream: &StreamId) -> Answer<Option<Tombstone>> {
        self.inner.tombstone(stream).await
    }

    async fn maintain(&self) -> Answer<bool> {
        self.inner.maintain().await
    }

    async fn inspect(&self) -> Answer<Vec<Finding>> {
        self.inner.inspect().await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}

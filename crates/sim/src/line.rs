//! The line of a process to the store: slow by the seed, cut off when the process dies in the
//! middle of a call, and recorded.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::faults::Strike;
use store::memory::MemoryStore;
use store::seed::Draws;
use store::*;
use tokio::sync::Notify;

use crate::record::{self, ProcessId, Record};

/// A bug planted to check that the judge finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The epoch of a holder is not checked.
    EpochIgnored,
    /// A claim is granted even while another process holds the stream.
    ClaimsGranted,
    /// Some appends are acknowledged and not made.
    AppendsLost,
    /// A bug of an engine, not of the store: after a freeze it sends commands as the new owner of
    /// its leases.
    LeasesBorrowed,
}

/// A process's line to the store.
pub(crate) struct Line {
    inner: MemoryStore,
    who: ProcessId,
    record: Record,
    bug: Option<Bug>,
    state: Mutex<State>,
    died: Notify,
}

struct State {
    draws: Draws,
    /// How many trips in a thousand, to the store or back, are slow.
    slow: u64,
    doom: Option<(u64, Strike)>,
    is_dead: bool,
}

impl Line {
    pub(crate) fn new(
        inner: MemoryStore,
        who: ProcessId,
        record: Record,
        bug: Option<Bug>,
        seed: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            who,
            record,
            bug,
            state: Mutex::new(State {
                draws: Draws::new(seed),
                slow: 0,
                doom: None,
                is_dead: false,
            }),
            died: Notify::new(),
        })
    }

    /// From now on `slow` trips in a thousand are slow.
    pub(crate) fn set_slow(&self, slow: u64) {
        self.state.lock().slow = slow;
    }

    /// Makes the process die in its `nth` call from now, before or after the call is made.
    pub(crate) fn doom(&self, nth: u64, strike: Strike) {
        self.state.lock().doom = Some((nth, strike));
    }

    /// Cancels the planned death of the process.
    pub(crate) fn spare(&self) {
        self.state.lock().doom = None;
    }

    /// Waits until the process has died as planned.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    async fn pass<T>(&self, call: impl Future<Output = T> + Send) -> T {
        self.way(Strike::Before).await;
        let answer = call.await;
        self.way(Strike::After).await;
        answer
    }

    /// One trip, to the store or back.
    async fn way(&self, strike: Strike) {
        let wait = {
            let mut state = self.state.lock();
            if let Some((left, at)) = &mut state.doom {
                if strike == Strike::Before {
                    *left = left.saturating_sub(1);
                }
                if *left == 0 && *at == strike {
                    state.is_dead = true;
                    self.died.notify_one();
                }
            }
            if state.is_dead {
                None
            } else {
                Some(state.wait())
            }
        };
        match wait {
            None => std::future::pending().await,
            Some(Duration::ZERO) => {}
            Some(wait) => tokio::time::sleep(wait).await,
        }
    }

    async fn append_to(
        &self,
        batch: Batch,
        guard: Guard,
        lease: LeaseChange,
    ) -> Result<Appended, StoreError> {
        if self.bug == Some(Bug::EpochIgnored) && guard != Guard::Outside {
            let stream = batch.stream().clone();
            let done = self
                .inner
                .append(batch, Guard::Outside, LeaseChange::Keep)
                .await?;
            if lease == LeaseChange::Release
                && let Some(lease) = self.inner.load_head(&stream).await?.lease
            {
                self.inner.release(&lease).await?;
            }
            return Ok(done);
        }
        if self.bug == Some(Bug::AppendsLost)
            && batch.first_seq() > 0
            && lease == LeaseChange::Keep
            && self.state.lock().draws.per_mille(10)
        {
            return Ok(Appended {
                position: Position(0),
                lease: None,
            });
        }
        self.inner.append(batch, guard, lease).await
    }

    async fn claim_of(
        &self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
    ) -> Result<Lease, StoreError> {
        if self.bug == Some(Bug::ClaimsGranted)
            && let Ok(loaded) = self.inner.load_head(stream).await
            && let Some(lease) = loaded.lease
        {
            self.inner.release(&lease).await?;
        }
        self.inner.claim(stream, holder, ttl).await
    }
}

impl State {
    /// The duration of a trip: mostly zero, sometimes short, rarely longer than a lease lives.
    fn wait(&mut self) -> Duration {
        let slow = self.slow;
        if !self.draws.per_mille(slow) {
            return Duration::ZERO;
        }
        Duration::from_millis(match self.draws.below(20) {
            0 => 200 + self.draws.below(2_500),
            _ => 1 + self.draws.below(40),
        })
    }
}

#[async_trait]
impl Store for Line {
    async fn append(
        &self,
        batch: Batch,
        guard: Guard,
        lease: LeaseChange,
    ) -> Result<Appended, StoreError> {
        let call = async {
            let (stream, first) = (batch.stream().clone(), batch.first_seq());
            let (records, change) = (batch.records().to_vec(), lease.clone());
            let answer = self.append_to(batch, guard, lease).await;
            let at = self.now();
            match &answer {
                Ok(done) => {
                    let done = record::Appended {
                        stream: &stream,
                        first,
                        records: &records,
                        guard,
                        lease: &change,
                        taken: done.lease.as_ref(),
                    };
                    self.record.with(|seen| seen.appended(at, self.who, &done));
                }
                Err(error) => {
                    let who = HolderId::new(self.who.to_string());
                    self.record.with(|seen| {
                        seen.refused(at, &who, format_args!("append to {stream}: {error}"));
                    });
                }
            }
            answer
        };
        self.pass(call).await
    }

    async fn load(
        &self,
        stream: &StreamId,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Loaded, StoreError> {
        self.pass(self.inner.load(stream, from, limit)).await
    }

    async fn claim(
        &self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
    ) -> Result<Lease, StoreError> {
        let call = async {
            let answer = self.claim_of(stream, holder, ttl).await;
            let at = self.now();
            self.record.with(|seen| match &answer {
                Ok(lease) => seen.claimed(at, lease),
                Err(error) => seen.refused(at, holder, format_args!("claim of {stream}: {error}")),
            });
            answer
        };
        self.pass(call).await
    }

    async fn renew(
        &self,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<Vec<Result<Lease, StoreError>>, StoreError> {
        let call = async {
            let answers = self.inner.renew(leases, ttl).await?;
            let at = self.now();
            for lease in answers.iter().flatten() {
                self.record.with(|seen| seen.renewed(at, lease));
            }
            Ok(answers)
        };
        self.pass(call).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let call = async {
            self.inner.release(lease).await?;
            self.record
                .with(|seen| seen.released(&lease.stream, lease.epoch));
            Ok(())
        };
        self.pass(call).await
    }

    async fn due(&self, query: DueQuery) -> Result<DueAnswer, StoreError> {
        self.pass(self.inner.due(query)).await
    }

    async fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError> {
        self.pass(self.inner.key(tenant, namespace, key)).await
    }

    async fn put_key(
        &self,
        tenant: &TenantId,
        claim: KeyClaim,
        seen: Option<KeyRow>,
    ) -> Result<(), StoreError> {
        self.pass(self.inner.put_key(tenant, claim, seen)).await
    }

    async fn put_checkpoint(
        &self,
        stream: &StreamId,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        self.pass(self.inner.put_checkpoint(stream, checkpoint))
            .await
    }

    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        self.pass(self.inner.put_blob(tenant, bytes)).await
    }

    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.pass(self.inner.blob(tenant, digest)).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, StoreError> {
        self.pass(self.inner.list(query)).await
    }

    async fn feed(&self, after: Position, limit: usize) -> Result<Vec<FeedEvent>, StoreError> {
        self.pass(self.inner.feed(after, limit)).await
    }

    async fn outbox(&self, limit: usize) -> Result<Vec<Outgoing>, StoreError> {
        self.pass(self.inner.outbox(limit)).await
    }

    async fn delivered(&self, places: &[u64]) -> Result<(), StoreError> {
        self.pass(self.inner.delivered(places)).await
    }

    async fn purge(&self, stream: &StreamId, reason: &str) -> Result<Tombstone, StoreError> {
        self.pass(self.inner.purge(stream, reason)).await
    }

    async fn tombstone(&self, stream: &StreamId) -> Result<Option<Tombstone>, StoreError> {
        self.pass(self.inner.tombstone(stream)).await
    }

    async fn maintain(&self) -> Result<bool, StoreError> {
        self.pass(self.inner.maintain()).await
    }

    async fn inspect(&self) -> Result<Vec<Finding>, StoreError> {
        self.pass(self.inner.inspect()).await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}

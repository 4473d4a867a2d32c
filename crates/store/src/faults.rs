//! A fault-injecting wrapper: a store that becomes `Unavailable` when a test plans it.
//!
//! A call that fails [`Strike::Before`] is never made. One that fails [`Strike::After`] is made and
//! its answer is lost: the append is durable and its caller does not know. Callers of any real
//! store must handle that.
//!
//! To fail each call of a scenario in turn, run it once with [`Plan::Never`], count
//! [`FaultyStore::calls`], and run it again for each number with [`Plan::Nth`], or with
//! [`Plan::From`] for a process that does not come back.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;
use parking_lot::Mutex;

use crate::api::Store;
use crate::error::StoreError;
use crate::seed::Draws;
use crate::types::*;

/// When the fault strikes within a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The call is not made.
    Before,
    /// The call is made and its answer, good or bad, is lost.
    After,
}

/// Which calls fail. Calls are counted from 0 since the plan was set.
#[derive(Clone, Debug, Default)]
pub enum Plan {
    /// No call.
    #[default]
    Never,
    /// One call.
    Nth {
        /// Its number.
        nth: u64,
        /// When it fails.
        strike: Strike,
    },
    /// One call of a method.
    NthOf {
        /// The method.
        method: Method,
        /// The number of the call among the calls of this method.
        nth: u64,
        /// When it fails.
        strike: Strike,
    },
    /// One call and all later ones, which are not made: the store is gone for this process.
    From {
        /// The number of the first that fails.
        nth: u64,
        /// When that one fails.
        strike: Strike,
    },
    /// Some calls, by chance.
    Random {
        /// The same seed fails the same calls.
        seed: u64,
        /// How many in a thousand fail before the call.
        before: u64,
        /// How many in a thousand of the others fail after the call.
        after: u64,
    },
}

/// A method of [`Store`] that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Method {
    Append,
    Load,
    Claim,
    Renew,
    Release,
    Due,
    Key,
    PutKey,
    PutCheckpoint,
    PutBlob,
    Blob,
    List,
    Feed,
    Outbox,
    Delivered,
    Purge,
    Tombstone,
    Maintain,
    Inspect,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A call that went through the wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The method that was called.
    pub method: Method,
    /// When it failed, if it did.
    pub strike: Option<Strike>,
}

/// A store that fails by plan and records its calls.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: Plan,
    draws: Option<Draws>,
    calls: Vec<Call>,
    /// Where in `calls` the plan began.
    since: usize,
}

impl FaultyStore {
    /// Wraps a store; nothing fails until a plan is set.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// Replaces the plan; the next call has number 0.
    pub fn set_plan(&self, plan: Plan) {
        let mut state = self.state.lock();
        state.draws = match plan {
            Plan::Random { seed, .. } => Some(Draws::new(seed)),
            _ => None,
        };
        state.since = state.calls.len();
        state.plan = plan;
    }

    /// Every call since the wrapper was made, in the order they began.
    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().calls.clone()
    }

    async fn through<T>(
        &self,
        method: Method,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let strike = self.state.lock().begin(method);
        match strike {
            None => call.await,
            Some(Strike::Before) => Err(injected(method, "before it was made")),
            Some(Strike::After) => {
                // Fault injection: the call is made and the caller must not see its answer.
                let _lost = call.await;
                Err(injected(method, "after it was made"))
            }
        }
    }
}

fn injected(method: Method, when: &str) -> StoreError {
    StoreError::Unavailable(format!("a test made {method} fail {when}"))
}

impl State {
    /// Records a call and returns whether it fails.
    fn begin(&mut self, method: Method) -> Option<Strike> {
        let planned = &self.calls[self.since..];
        let number = planned.len() as u64;
        let strike = match self.plan {
            Plan::Never => None,
            Plan::Nth { nth, strike } => (number == nth).then_some(strike),
            Plan::NthOf {
                method: of,
                nth,
                strike,
            } => {
                let earlier = planned.iter().filter(|call| call.method == of).count() as u64;
                (method == of && earlier == nth).then_some(strike)
            }
            Plan::From { nth, strike } => match number.cmp(&nth) {
                std::cmp::Ordering::Less => None,
                std::cmp::Ordering::Equal => Some(strike),
                std::cmp::Ordering::Greater => Some(Strike::Before),
            },
            Plan::Random { before, after, .. } => {
                let draws = self.draws.as_mut().expect("set with the plan");
                if draws.per_mille(before) {
                    Some(Strike::Before)
                } else if draws.per_mille(after) {
                    Some(Strike::After)
                } else {
                    None
                }
            }
        };
        self.calls.push(Call { method, strike });
        strike
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn append(
        &self,
        batch: Batch,
        guard: Guard,
        lease: LeaseChange,
    ) -> Result<Appended, StoreError> {
        self.through(Method::Append, self.inner.append(batch, guard, lease))
            .await
    }

    async fn load(
        &self,
        stream: &StreamId,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Loaded, StoreError> {
        self.through(Method::Load, self.inner.load(stream, from, limit))
            .await
    }

    async fn claim(
        &self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
    ) -> Result<Lease, StoreError> {
        self.through(Method::Claim, self.inner.claim(stream, holder, ttl))
            .await
    }

    async fn renew(
        &self,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<Vec<Result<Lease, StoreError>>, StoreError> {
        self.through(Method::Renew, self.inner.renew(leases, ttl))
            .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.through(Method::Release, self.inner.release(lease))
            .await
    }

    async fn due(&self, query: DueQuery) -> Result<DueAnswer, StoreError> {
        self.through(Method::Due, self.inner.due(query)).await
    }

    async fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError> {
        self.through(Method::Key, self.inner.key(tenant, namespace, key))
            .await
    }

    async fn put_key(
        &self,
        tenant: &TenantId,
        claim: KeyClaim,
        seen: Option<KeyRow>,
    ) -> Result<(), StoreError> {
        self.through(Method::PutKey, self.inner.put_key(tenant, claim, seen))
            .await
    }

    async fn put_checkpoint(
        &self,
        stream: &StreamId,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        self.through(
            Method::PutCheckpoint,
            self.inner.put_checkpoint(stream, checkpoint),
        )
        .await
    }

    async fn put_blob(&self, tenant: &TenantId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        self.through(Method::PutBlob, self.inner.put_blob(tenant, bytes))
            .await
    }

    async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.through(Method::Blob, self.inner.blob(tenant, digest))
            .await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, StoreError> {
        self.through(Method::List, self.inner.list(query)).await
    }

    async fn feed(&self, after: Position, limit: usize) -> Result<Vec<FeedEvent>, StoreError> {
        self.through(Method::Feed, self.inner.feed(after, limit))
            .await
    }

    async fn outbox(&self, limit: usize) -> Result<Vec<Outgoing>, StoreError> {
        self.through(Method::Outbox, self.inner.outbox(limit)).await
    }

    async fn delivered(&self, places: &[u64]) -> Result<(), StoreError> {
        self.through(Method::Delivered, self.inner.delivered(places))
            .await
    }

    async fn purge(&self, stream: &StreamId, reason: &str) -> Result<Tombstone, StoreError> {
        self.through(Method::Purge, self.inner.purge(stream, reason))
            .await
    }

    async fn tombstone(&self, stream: &StreamId) -> Result<Option<Tombstone>, StoreError> {
        self.through(Method::Tombstone, self.inner.tombstone(stream))
            .await
    }

    async fn maintain(&self) -> Result<bool, StoreError> {
        self.through(Method::Maintain, self.inner.maintain()).await
    }

    async fn inspect(&self) -> Result<Vec<Finding>, StoreError> {
        self.through(Method::Inspect, self.inner.inspect()).await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}

#[cfg(test)]
mod tests;

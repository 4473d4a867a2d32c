//! Delivers to one webhook.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use kernel::delivery::{BREAKER_FAILURES, Deliveries, Facts, Gate, Item, Outcome, Sent};
use kernel::ids::{Seq, StreamId};
use kernel::limits::MAX_WAITING_DELIVERIES;
use kernel::registry::Webhook;
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::{Conflict, Guard, Lease, LeaseChange, Position, Store, StoreError};
use tokio::sync::Semaphore;
use url::Url;

use super::Render;
use super::delivery::{Shared, Target};
use super::flight::{Delivery, Flight, deferred};
use super::lane::Lane;
use super::router::{PAGE, wanted};
use super::sign::Signers;
use crate::engine::Engine;
use crate::holder;
use crate::logs;
use crate::outbound::Outbound;

/// Events settled together.
const CHUNK: usize = 64;
/// Runs delivered for concurrently.
const RUNS: usize = 8;
/// How far the cursor may lag when there is nothing to deliver, in positions.
const IDLE_POSITIONS: u64 = 4_096;
/// Events of the delivery log between two checkpoints.
const CHECKPOINT: u64 = 64;
/// How long a notice may delay those of other runs. It continues, and waits in the log.
const PATIENCE: Duration = Duration::from_millis(500);

/// The worker of a webhook.
pub(super) struct Worker {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
}

/// Events to deliver now.
#[derive(Default)]
struct Chunk {
    /// Events that waited, at most one of a run.
    due: Vec<Item>,
    new: Vec<Item>,
    /// The cursor once the new ones are settled.
    through: Option<u64>,
    /// Whether there is more to read at once.
    has_more: bool,
    /// Whether the log of deliveries has room for no further waiting events.
    is_full: bool,
}

impl Worker {
    pub(super) fn new(
        engine: Engine,
        outbound: Outbound,
        render: Arc<dyn Render>,
        lane: Arc<Lane>,
    ) -> Self {
        let shared = Shared {
            engine,
            outbound,
            render,
            wanted: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            lane,
        }
    }

    fn store(&self) -> &dyn Store {
        &**self.shared.engine.door().store()
    }

    fn ttl(&self) -> Duration {
        self.shared.engine.inner.options.lease_ttl
    }

    fn is_draining(&self) -> bool {
        self.shared.engine.inner.shutdown.drain.is_cancelled()
    }

    /// Works until the webhook is removed or the engine drains.
    pub(super) async fn work(self) {
        while !self.is_draining() {
            let Some(webhook) = self.lane.webhook() else {
                return;
            };
            let worked = match self.claim(&webhook).await {
                Ok(Some((lease, deliveries, covered))) => {
                    self.deliver(lease, deliveries, covered).await
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = worked {
                tracing::warn!(webhook = %webhook.id, %error, "deliveries stopped; trying again");
            }
            if self.lane.webhook().is_some() {
                self.wait(None, &mut Flight::default()).await;
            }
        }
    }

    /// Claims the delivery log. Also returns how many events its checkpoint covers. `None` while
    /// another process holds it.
    async fn claim(
        &self,
        webhook: &Webhook,
    ) -> Result<Option<(Lease, Deliveries, Seq)>, StoreError> {
        let tenant = &self.lane.tenant;
        let stream = Deliveries::stream(tenant, &webhook.id);
        if super::load(self.store(), tenant, &webhook.id)
            .await?
            .is_none()
        {
            // Registration crashed before it created the log. Earlier events are not delivered.
            open(self.store(), tenant, webhook, Position(0)).await?;
        }
        holder::release_if_dead(self.store(), &stream).await?;
        let me = &self.shared.engine.inner.options.holder;
        let lease = match self.store().claim(&stream, me, self.ttl()).await {
            Ok(lease) => lease,
            Err(StoreError::Conflict(Conflict::Held)) => return Ok(None),
            Err(error) => return Err(error),
        };
        match logs::current(self.store(), &stream).await {
            Ok((deliveries, covered)) => Ok(Some((lease, deliveries, covered))),
            Err(StoreError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn deliver(
        &self,
        lease: Lease,
        deliveries: Deliveries,
        covered: Seq,
    ) -> Result<(), StoreError> {
        let mut held = lease;
        let result = self.deliver_held(&mut held, deliveries, covered).await;
        if self.is_draining() || self.lane.webhook().is_none() {
            self.store().release(&held).await?;
        }
        result
    }

    async fn deliver_held(
        &self,
        lease: &mut Lease,
        mut deliveries: Deliveries,
        mut covered: Seq,
    ) -> Result<(), StoreError> {
        self.lane.begin(deliveries.facts().cursor);
        let mut flight = Flight::default();
        while !self.is_draining() {
            let Some(webhook) = self.lane.webhook() else {
                let (batch, _) = deliveries.close(self.store().now());
                let guard = Guard::Holder(lease.epoch);
                self.store().append(batch, guard, LeaseChange::Keep).await?;
                return Ok(());
            };
            self.renew(lease).await?;
            let facts = deliveries.facts();
            let limit = match facts.gate(self.store().now()) {
                // A failing address does not stop the notices of other runs.
                _ if webhook.is_for_notices() => CHUNK.saturating_sub(flight.len()),
                Gate::Closed => CHUNK,
                Gate::Probe => 1,
                Gate::Open(until) => {
                    self.wait(Some(until), &mut flight).await;
                    continue;
                }
                Gate::Failed | Gate::Removed => {
                    self.wait(None, &mut flight).await;
                    continue;
                }
            };
            if limit == 0 {
                self.wait(None, &mut flight).await;
                continue;
            }
            let chunk = self.next(&webhook, facts, limit, &flight).await?;
            let is_empty = chunk.due.is_empty() && chunk.new.is_empty() && !flight.has_landed();
            let cursor = facts.cursor + IDLE_POSITIONS;
            if is_empty && chunk.through.is_none_or(|through| through < cursor) {
                if !chunk.has_more {
                    self.wait(flight.next_retry(facts), &mut flight).await;
                }
                continue;
            }
            let through = chunk.through;
            let outcomes = self.attempt(&webhook, facts, chunk, &mut flight).await?;
            let now = self.store().now();
            let (batch, next) = deliveries.settle(outcomes, through, now);
            deliveries = next;
            let guard = Guard::Holder(lease.epoch);
            self.store().append(batch, guard, LeaseChange::Keep).await?;
            if deliveries.next_seq() >= covered + CHECKPOINT {
                covered = deliveries.next_seq();
                logs::checkpoint(self.store(), &deliveries).await?;
            }
        }
        Ok(())
    }

    async fn renew(&self, lease: &mut Lease) -> Result<(), StoreError> {
        let left = lease.expires_at.ms_since(self.store().now());
        let third = u64::try_from(self.ttl().as_millis() / 3).unwrap_or(u64::MAX);
        if left > 2 * third {
            return Ok(());
        }
        let renewed = self.store().renew(std::slice::from_ref(lease), self.ttl());
        *lease = renewed.await?.pop().ok_or(StoreError::Fenced)??;
        Ok(())
    }

    /// Waits until there may be something to do. May return early, and returns in time to renew the
    /// lease.
    async fn wait(&self, until: Option<Timestamp>, flight: &mut Flight) {
        let soon = self.ttl() / 3;
        let until = until.map(|until| {
            let left = until.ms_since(self.store().now());
            Duration::from_millis(left)
        });
        let longest = until.map_or(soon, |until| until.min(soon));
        tokio::select! {
            biased;
            () = self.shared.engine.inner.shutdown.drain.cancelled() => {}
            () = self.lane.wake.notified() => {}
            () = flight.land(), if flight.len() > 0 => {}
            () = tokio::time::sleep(longest) => {}
        }
    }

    /// The next deliveries: due retries, and new events.
    async fn next(
        &self,
        webhook: &Webhook,
        facts: &Facts,
        limit: usize,
        flight: &Flight,
    ) -> Result<Chunk, StoreError> {
        let mut chunk = Chunk::default();
        let due = facts.due(self.store().now()).into_iter();
        let due = due.filter(|item| !flight.has(&item.run_id));
        chunk.due = due.take(limit.min(RUNS)).collect();
        chunk.is_full = facts.waiting_events() + CHUNK > MAX_WAITING_DELIVERIES;
        let limit = limit - chunk.due.len();
        // New events may have to wait: without room for that they are not read. A notice that fails
        // is given up then, as a dead address must not stop the notices to others.
        if limit == 0 || chunk.is_full && !webhook.is_for_notices() {
            return Ok(chunk);
        }
        if let Some(from) = self.lane.behind() {
            let page = self.store().feed(Position(from), PAGE).await?;
            let through = page.last().map_or(from, |event| event.position.0);
            let jobs = page
                .iter()
                .filter_map(|event| wanted(&self.lane, event, &*self.shared.render));
            self.lane.caught(through, jobs.collect());
        }
        let (jobs, through) = self.lane.take(limit);
        chunk.new = jobs.into_iter().map(|job| job.item).collect();
        chunk.through = Some(through);
        chunk.has_more = self.lane.behind().is_some();
        Ok(chunk)
    }

    /// Delivers events, those of a run in order, and returns the results that are known so far.
    async fn attempt(
        &self,
        webhook: &Arc<Webhook>,
        facts: &Facts,
        chunk: Chunk,
        flight: &mut Flight,
    ) -> Result<Vec<Outcome>, StoreError> {
        let now = self.store().now();
        let signers = Signers::load(&self.shared.engine, &self.lane.tenant, webhook, now);
        let target = Arc::new(Target {
            id: webhook.id.clone(),
            url: Url::parse(&webhook.spec.url)
                .map_err(|_| StoreError::Corrupt("the address of a webhook is invalid".into()))?,
            webhook: webhook.clone(),
            signers: signers.map_err(StoreError::unavailable)?,
            now,
        });
        let left = Arc::new(AtomicU32::new(facts.failures_left()));
        let slots = if webhook.is_for_notices() {
            CHUNK
        } else {
            RUNS
        };
        let slots = Arc::new(Semaphore::new(slots));
        let mut blocked = Vec::new();
        let due = by_run(chunk.due).into_iter().map(|of_run| (of_run, true));
        let new = by_run(chunk.new).into_iter().map(|of_run| (of_run, false));
        for ((run, items), are_waiting) in due.chain(new) {
            // Events of a run wait for its earlier ones.
            if !are_waiting && facts.waiting.contains_key(&run) {
                blocked.extend(items.into_iter().map(deferred));
                continue;
            }
            let (shared, target, slots) = (self.shared.clone(), target.clone(), slots.clone());
            let left = if webhook.is_for_notices() {
                Arc::new(AtomicU32::new(BREAKER_FAILURES))
            } else {
                left.clone()
            };
            let delivery = Delivery {
                run,
                items: items.clone(),
                are_waiting,
            };
            flight.start(delivery, |outcomes| async move {
                let _slot = slots.acquire().await;
                shared.deliver_run(&target, items, &left, &outcomes).await
            });
        }
        if !webhook.is_for_notices() {
            while flight.len() > 0 {
                flight.land().await;
            }
        } else if chunk.is_full {
            while flight.has_new() {
                flight.land().await;
            }
        } else {
            let landed = async {
                while flight.has_new() {
                    flight.land().await;
                }
            };
            // A longer one continues, and waits in the log.
            let _ = tokio::time::timeout(PATIENCE, landed).await;
        }
        let mut outcomes = blocked;
        outcomes.extend(flight.collect()?);
        if chunk.is_full {
            for outcome in &mut outcomes {
                give_up(outcome, facts);
            }
        }
        Ok(outcomes)
    }
}

/// Gives an event up that would have to wait without room for it.
fn give_up(outcome: &mut Outcome, facts: &Facts) {
    let item = &outcome.item;
    let waiting = facts.waiting.get(&item.run_id);
    if waiting.is_some_and(|waiting| waiting.items.front() == Some(item)) {
        return;
    }
    let why = match &outcome.sent {
        Sent::Failed { why } => why.clone(),
        Sent::Deferred => "too many events wait for another attempt".to_owned(),
        Sent::Delivered | Sent::Impossible { .. } => return,
    };
    outcome.sent = Sent::Impossible { why };
}

/// Events by their run, in their order.
fn by_run(items: Vec<Item>) -> Vec<(StreamId, Vec<Item>)> {
    let mut runs: Vec<(StreamId, Vec<Item>)> = Vec::new();
    for item in items {
        match runs.iter_mut().find(|(run, _)| *run == item.run_id) {
            Some((_, of_run)) => of_run.push(item),
            None => runs.push((item.run_id.clone(), vec![item])),
        }
    }
    runs
}

/// Creates the log of a webhook's deliveries after a position of the feed, unless it exists.
pub(crate) async fn open(
    store: &dyn Store,
    tenant: &kernel::ids::TenantId,
    webhook: &Webhook,
    from: Position,
) -> Result<(), StoreError> {
    let workspace = webhook.spec.workspace.as_deref();
    let now = store.now();
    let unborn = Deliveries::unborn(tenant, workspace, &webhook.id, now);
    let (batch, _) = unborn.open(&webhook.id, from.0, now);
    match store.append(batch, Guard::Outside, LeaseChange::Keep).await {
        Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

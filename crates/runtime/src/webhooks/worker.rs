//! Delivers to one webhook.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kernel::delivery::{BREAKER_FAILURES, Deliveries, Facts, Gate, Item, Outcome, Sent};
use kernel::ids::{Seq, StreamId, WebhookId};
use kernel::limits::MAX_WAITING_DELIVERIES;
use kernel::registry::Webhook;
use kernel::stream::{ForkMode, StreamHeader};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::{Conflict, Guard, Lease, LeaseChange, Position, Store, StoreError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use url::Url;

use super::lane::Lane;
use super::notice::Notice;
use super::router::{PAGE, wanted};
use super::sign::{self, Signers};
use super::{MAX_BODY_BYTES, Render, post};
use crate::engine::Engine;
use crate::holder;
use crate::logs;
use crate::outbound::Outbound;
use crate::tail::Tail;
use crate::trace_context;

/// Events settled together.
const CHUNK: usize = 64;
/// Runs delivered for concurrently.
const RUNS: usize = 8;
/// How far the cursor may lag when there is nothing to deliver, in positions.
const IDLE_POSITIONS: u64 = 4_096;
/// Events of the delivery log between two checkpoints.
const CHECKPOINT: u64 = 64;
/// Runs whose tags and workspace are cached.
const REMEMBERED: usize = 4_096;

/// The worker of a webhook.
pub(super) struct Worker {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
}

/// The resources of a delivery.
struct Shared {
    engine: Engine,
    outbound: Outbound,
    render: Arc<dyn Render>,
    /// The first event of a run that the webhook wants; `None` if it wants none.
    wanted: Mutex<HashMap<StreamId, Option<Seq>>>,
}

/// The webhook during the delivery of a chunk.
struct Target {
    id: WebhookId,
    webhook: Arc<Webhook>,
    url: Url,
    signers: Signers,
    now: Timestamp,
}

/// Events to deliver now.
struct Chunk {
    items: Vec<Item>,
    /// The cursor once they are settled; events that waited do not move it.
    through: Option<u64>,
    /// Whether there is more to read at once.
    has_more: bool,
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
                self.wait(None).await;
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
                Gate::Closed => CHUNK,
                // A failing address does not stop the notices of other runs.
                Gate::Probe | Gate::Open(_) | Gate::Failed if webhook.is_for_notices() => CHUNK,
                Gate::Probe => 1,
                Gate::Open(until) => {
                    self.wait(Some(until)).await;
                    continue;
                }
                Gate::Failed | Gate::Removed => {
                    self.wait(None).await;
                    continue;
                }
            };
            let chunk = self.next(facts, limit).await?;
            let cursor = facts.cursor + IDLE_POSITIONS;
            if chunk.items.is_empty() && chunk.through.is_none_or(|through| through < cursor) {
                if !chunk.has_more {
                    self.wait(facts.next_retry()).await;
                }
                continue;
            }
            let outcomes = self.attempt(&webhook, facts, chunk.items).await?;
            let now = self.store().now();
            let (batch, next) = deliveries.settle(outcomes, chunk.through, now);
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
    async fn wait(&self, until: Option<Timestamp>) {
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
            () = tokio::time::sleep(longest) => {}
        }
    }

    /// The next deliveries: due retries first, then new events.
    async fn next(&self, facts: &Facts, limit: usize) -> Result<Chunk, StoreError> {
        let mut due = facts.due(self.store().now());
        if !due.is_empty() {
            due.truncate(limit.min(RUNS));
            return Ok(Chunk {
                items: due,
                through: None,
                has_more: false,
            });
        }
        // New events may have to wait: without room for that they are not read.
        if facts.waiting_events() + limit > MAX_WAITING_DELIVERIES {
            return Ok(Chunk {
                items: Vec::new(),
                through: None,
                has_more: false,
            });
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
        Ok(Chunk {
            items: jobs.into_iter().map(|job| job.item).collect(),
            through: Some(through),
            has_more: self.lane.behind().is_some(),
        })
    }

    /// Delivers events, those of a run in order, and returns the result of each.
    async fn attempt(
        &self,
        webhook: &Arc<Webhook>,
        facts: &Facts,
        items: Vec<Item>,
    ) -> Result<Vec<Outcome>, StoreError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
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
        let mut runs: Vec<(StreamId, Vec<Item>)> = Vec::new();
        for item in items {
            match runs.iter_mut().find(|(run, _)| *run == item.run_id) {
                Some((_, of_run)) => of_run.push(item),
                None => runs.push((item.run_id.clone(), vec![item])),
            }
        }
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let left = Arc::new(AtomicU32::new(facts.failures_left()));
        let slots = Arc::new(Semaphore::new(RUNS));
        let mut tasks = JoinSet::new();
        for (run, items) in runs {
            // Events of a run wait for its earlier ones; a retry is the earliest.
            let is_blocked = facts
                .waiting
                .get(&run)
                .is_some_and(|waiting| waiting.items.front() != items.first());
            let (shared, target) = (self.shared.clone(), target.clone());
            let (outcomes, slots) = (outcomes.clone(), slots.clone());
            let left = if webhook.is_for_notices() {
                Arc::new(AtomicU32::new(BREAKER_FAILURES))
            } else {
                left.clone()
            };
            tasks.spawn(async move {
                let _slot = slots.acquire().await;
                shared
                    .deliver_run(&target, items, is_blocked, &left, &outcomes)
                    .await
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(StoreError::unavailable)??;
        }
        let outcomes = std::mem::take(&mut *outcomes.lock());
        Ok(outcomes)
    }
}

impl Shared {
    async fn deliver_run(
        &self,
        target: &Target,
        items: Vec<Item>,
        mut is_blocked: bool,
        left: &AtomicU32,
        outcomes: &Mutex<Vec<Outcome>>,
    ) -> Result<(), StoreError> {
        let Some(first) = items.first() else {
            return Ok(());
        };
        let Some(from) = self.wants(target, &first.run_id).await? else {
            return Ok(());
        };
        for item in items.into_iter().filter(|item| item.sequence >= from) {
            let sent = if is_blocked || left.load(Ordering::Acquire) == 0 {
                Sent::Deferred
            } else {
                self.send(target, &item).await?
            };
            match &sent {
                Sent::Delivered => left.store(BREAKER_FAILURES, Ordering::Release),
                Sent::Failed { .. } => {
                    let less = |left: u32| Some(left.saturating_sub(1));
                    let _ = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
                    is_blocked = true;
                }
                _ => {}
            }
            outcomes.lock().push(Outcome { item, sent });
        }
        Ok(())
    }

    /// Attempts a delivery.
    async fn send(&self, target: &Target, item: &Item) -> Result<Sent, StoreError> {
        let door = self.engine.door();
        let (tail, event, cause) = match Tail::event(door, &item.run_id, item.sequence).await {
            Ok(found) => found,
            Err(StoreError::Missing) => {
                let why = "the run was erased".to_owned();
                return Ok(Sent::Impossible { why });
            }
            Err(error) => return Err(error),
        };
        let header = tail.header();
        let notice = if target.webhook.is_for_notices() {
            match Notice::new(&self.engine, header, &event).await? {
                Some(notice) => Some(notice),
                // The question is settled: there is nothing to deliver.
                None => return Ok(Sent::Delivered),
            }
        } else {
            None
        };
        let (url, contract) = match &notice {
            Some(notice) => (&notice.url, notice.contract),
            None => (&target.url, target.webhook.spec.contract),
        };
        let token = notice.as_ref().and_then(|notice| notice.token.as_ref());
        let plan = tail.plan();
        let body = self
            .render
            .body(contract, header, plan, &event, cause, token);
        if body.len() > MAX_BODY_BYTES {
            let why = "the event is too large for a delivery; read it from the run's events";
            return Ok(Sent::Impossible { why: why.into() });
        }
        let names = self
            .render
            .names(contract, header, &target.id, &item.event_type);
        let id = sign::message_id(&target.id, item);
        let mut headers = target.signers.headers(&names, &id, &body, target.now);
        let trace = header.span_context();
        trace_context::say(&trace, &mut headers);
        let sent = post::deliver(&self.outbound, url, headers, body.into()).await;
        Ok(match sent {
            Ok(()) => Sent::Delivered,
            Err(why) => {
                let (webhook, run) = (&target.id, &item.run_id);
                tracing::debug!(%webhook, %run, seq = item.sequence, %why, "a delivery failed");
                Sent::Failed { why }
            }
        })
    }

    /// The first event of a run that the webhook wants, if the run has the workspace and the tags
    /// that the webhook asks for.
    async fn wants(&self, target: &Target, run: &StreamId) -> Result<Option<Seq>, StoreError> {
        if let Some(known) = self.wanted.lock().get(run) {
            return Ok(*known);
        }
        let head = self.engine.door().store();
        let loaded = match head.load_head(run).await {
            Ok(loaded) => loaded,
            // The reader of the event handles the missing run.
            Err(StoreError::Missing) => return Ok(Some(0)),
            Err(error) => return Err(error),
        };
        let workspace = loaded.header.owner.workspace.as_deref();
        let is_wanted = if target.webhook.is_for_notices() {
            loaded.header.policy.question_notices.is_some()
        } else {
            target.webhook.wants_run(workspace, &loaded.index.tags)
        };
        let wants = own_from(&loaded.header).filter(|_| is_wanted);
        let mut wanted = self.wanted.lock();
        if wanted.len() >= REMEMBERED {
            wanted.clear();
        }
        wanted.insert(run.clone(), wants);
        Ok(wants)
    }
}

/// The first event of a run's own: a branch copies events that its source has delivered, and a
/// replay repeats all of them.
fn own_from(header: &StreamHeader) -> Option<Seq> {
    match &header.origin {
        None => Some(0),
        Some(origin) if origin.mode == ForkMode::Branch => Some(origin.seq),
        Some(_) => None,
    }
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

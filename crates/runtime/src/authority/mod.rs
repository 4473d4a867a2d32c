//! The authority of queues: an engine that is a candidate takes the lease of every queue of its
//! store that has work, renews it, watches for missed heartbeats, and releases it when it is idle
//! or drained. One engine holds a lease at a time; the log names it.
//!
//! Other owners may take it by commands. They receive no heartbeats, as those go to servers: any
//! engine reports missed ones in their name. And if a queue has no owner, any engine records that.
//!
//! The only state apart from the log and the heartbeat rows is since when a queue has had no work.
//! An assignment is missed at the earliest a whole timeout after the authority was taken, because
//! earlier heartbeats could not be received.

pub(crate) mod heartbeats;

pub use heartbeats::BlockedOn;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use kernel::coordinator::{
    Contract, Coordinator, CoordinatorCommand, HandedOut, Lease, LeaseRule, Rejection, TaskCommand,
    TaskMessage,
};
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId, TenantId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::{ListCursor, ListQuery, StoreError};

use crate::door::{CoordinatorError, CoordinatorName, Door};
use crate::engine::Engine;

/// Rows read at a time.
const PAGE: usize = 256;
/// How often queues are checked, as a part of the lease, within these bounds.
const PART: u32 = 8;
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);
/// The lease of a queue without work is released after this many lease periods.
const IDLE_LEASES: u32 = 20;
/// Recorded once for tasks that wait for a worker.
const NO_WORKER: &str = "no worker takes the waiting tasks";

/// The settings of a candidate for the authority of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The life of a lease without renewal: the longest time after a crash until another engine
    /// takes over.
    pub lease: Duration,
}

impl Default for Authority {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
        }
    }
}

impl Authority {
    fn every(&self) -> Duration {
        (self.lease / PART).clamp(OFTEN, SELDOM)
    }

    /// The expiry of a lease in the log. Shorter than `lease` by the time others need to notice it
    /// and take over, so that they succeed within `lease`.
    fn term(&self) -> Duration {
        self.lease
            .saturating_sub(self.every() * 2)
            .max(self.lease / 2)
    }
}

/// The leases this process holds, and the state of its watching.
struct Held {
    /// When it began to watch.
    began: Timestamp,
    /// Since when each queue has had no work.
    leases: BTreeMap<StreamId, Option<Timestamp>>,
    /// When assignments are missed at the earliest.
    due: BTreeMap<(StreamId, Seq), Timestamp>,
}

/// Acts as a candidate while the engine runs; without settings it only watches.
pub(crate) async fn keep(engine: Engine, authority: Option<Authority>) {
    let drain = engine.inner.shutdown.drain.clone();
    let every = authority.map_or(SELDOM, |authority| authority.every());
    let mut held = Held {
        began: engine.door().store().now(),
        leases: BTreeMap::new(),
        due: BTreeMap::new(),
    };
    while !drain.is_cancelled() {
        if let Err(error) = round(&engine, authority, &mut held).await {
            tracing::warn!(%error, "queues were not served; trying again");
        }
        tokio::select! {
            biased;
            () = drain.cancelled() => {}
            () = tokio::time::sleep(every) => {}
        }
    }
    if authority.is_none() {
        return;
    }
    if let Err(error) = give_up(&engine).await {
        tracing::warn!(%error, "a lease was not released; it will expire");
    }
}

/// The name of this engine as an owner. A digest, so as not to disclose where it runs.
fn owner(engine: &Engine) -> String {
    let holder = engine.inner.options.holder.as_str();
    let hex = Digest::compute(holder.as_bytes()).to_string();
    format!("engine-{}", &hex[..16])
}

/// Whether an owner is an engine, which maintains its queue itself.
fn is_engine(owner: &str) -> bool {
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let hex = owner.strip_prefix("engine-");
    hex.is_some_and(|hex| hex.len() == 16 && hex.bytes().all(is_hex))
}

async fn round(
    engine: &Engine,
    authority: Option<Authority>,
    held: &mut Held,
) -> Result<(), StoreError> {
    // Work that came and was done between two rounds leaves a lease to maintain.
    for stream in std::mem::take(&mut *engine.inner.taken_leases.lock().await) {
        held.leases.entry(stream).or_default();
    }
    for (named, open) in coordinators(engine.door()).await? {
        if open == 0 && !held.leases.contains_key(&named.stream()) {
            continue;
        }
        match look_after(engine, authority, held, &named).await {
            Ok(()) => {}
            // Another engine won the race; the next round sees its result.
            Err(CoordinatorError::Rejected(rejection)) => {
                tracing::debug!(queue = %named.name, %rejection, "a queue was skipped");
                held.leases.remove(&named.stream());
            }
            Err(CoordinatorError::Store(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Every coordinator of the store, with the number of its unsettled requests.
async fn coordinators(door: &Door) -> Result<Vec<(CoordinatorName, u64)>, StoreError> {
    let mut found = Vec::new();
    let mut query = ListQuery {
        kind: Some(StreamKind::Coordinator),
        limit: PAGE,
        ..ListQuery::default()
    };
    loop {
        let page = door.store().list(query.clone()).await?;
        let is_over = page.len() < PAGE;
        query.after = page.last().map(|last| ListCursor {
            created_at: last.index.created_at,
            stream: last.stream.clone(),
        });
        found.extend(page.into_iter().map(|row| {
            let count = |of: &str| row.index.summary[of].as_u64().unwrap_or(0);
            let open = count("pending") + count("notified");
            (named(&row.tenant, &row.index.queue), open)
        }));
        if is_over {
            return Ok(found);
        }
    }
}

/// The coordinator of a queue.
pub(crate) fn named(tenant: &TenantId, queue: &str) -> CoordinatorName {
    CoordinatorName {
        tenant: tenant.clone(),
        name: queue.to_owned(),
        contract: Contract::Native,
    }
}

/// The state of a coordinator that its authority needs.
struct Glance {
    contract: Contract,
    lease: Option<Lease>,
    is_stale: bool,
    since: Option<Timestamp>,
    next_seq: Seq,
    open: usize,
    waiting: usize,
    oldest: Option<Timestamp>,
    handed: Vec<HandedOut>,
}

impl Glance {
    fn at(coordinator: &Coordinator, now: Timestamp) -> Self {
        let standing = coordinator.standing(now, LeaseRule::Contract);
        let (waiting, oldest) = coordinator.waiting();
        Self {
            contract: coordinator.contract(),
            lease: standing.lease,
            is_stale: standing.is_stale,
            since: coordinator.authority_since(),
            next_seq: coordinator.next_seq(),
            open: coordinator.open_requests(),
            waiting,
            oldest,
            handed: coordinator.assigned().collect(),
        }
    }

    fn phase(&self) -> &'static str {
        match (self.handed.is_empty(), self.waiting) {
            (false, _) => "working",
            (true, 0) => "idle",
            (true, _) => "waiting_for_workers",
        }
    }
}

async fn look_after(
    engine: &Engine,
    authority: Option<Authority>,
    held: &mut Held,
    named: &CoordinatorName,
) -> Result<(), CoordinatorError> {
    let door = engine.door();
    let (stream, me) = (named.stream(), owner(engine));
    let now = door.store().now();
    let glance = door
        .look_at_coordinator(named, |coordinator| Glance::at(coordinator, now))
        .await?;
    if glance.contract != Contract::Native {
        return Ok(());
    }
    let Some(authority) = authority else {
        return watch(engine, held, named, &glance).await;
    };
    let is_ours = |lease: &Lease| lease.owner == me;
    match &glance.lease {
        Some(lease) if is_ours(lease) => {
            let idle = held.leases.entry(stream.clone()).or_default();
            *idle = (glance.open == 0).then(|| idle.unwrap_or(now));
            let kept = authority.lease * IDLE_LEASES;
            if idle.is_some_and(|since| since.plus(kept) <= now) {
                held.leases.remove(&stream);
                let release = CoordinatorCommand::ReleaseAuthority { owner: me };
                return tell(door, named, release).await;
            }
            let ends = lease.ends().unwrap_or(now);
            if now.plus(authority.lease / 2) >= ends {
                let lease = lease_of(&me, &glance, authority, now);
                tell(door, named, CoordinatorCommand::RenewAuthority(lease)).await?;
            }
        }
        Some(_) if !glance.is_stale => {
            held.leases.remove(&stream);
            return watch(engine, held, named, &glance).await;
        }
        _ if glance.open > 0 => {
            if !take(engine, authority, named).await? {
                // No longer free: the next round sees its owner.
                return Ok(());
            }
            held.leases.insert(stream.clone(), None);
        }
        _ => {
            held.leases.remove(&stream);
            return Ok(());
        }
    }
    // Just taken: heartbeats before now could not be received.
    let since = glance.since.filter(|_| !glance.is_stale).unwrap_or(now);
    miss(engine, named, held, (&me, since), &glance.handed).await?;
    let phase = glance.phase().to_owned();
    let heartbeat = CoordinatorCommand::Heartbeat { owner: me, phase };
    tell(door, named, heartbeat).await?;
    let is_stuck = glance.handed.is_empty() && glance.waiting > 0;
    if is_stuck && (glance.oldest).is_some_and(|oldest| oldest.plus(authority.lease) <= now) {
        let reason = NO_WORKER.to_owned();
        let owner = owner(engine);
        door.tell_tasks(named, &TaskCommand::Block { owner, reason })
            .await?;
    }
    Ok(())
}

/// Watches a queue that has another authority.
async fn watch(
    engine: &Engine,
    held: &mut Held,
    named: &CoordinatorName,
    glance: &Glance,
) -> Result<(), CoordinatorError> {
    match glance.lease.as_ref().filter(|_| !glance.is_stale) {
        Some(lease) if is_engine(&lease.owner) => Ok(()),
        Some(lease) => {
            // Before this engine began there may have been no server to receive a heartbeat.
            let since = glance
                .since
                .map_or(held.began, |since| since.max(held.began));
            miss(engine, named, held, (&lease.owner, since), &glance.handed).await
        }
        None if glance.waiting > 0 => {
            let block = TaskCommand::BlockWithoutAuthority;
            engine.door().tell_tasks(named, &block).await.map(drop)
        }
        None => Ok(()),
    }
}

/// Reports assignments with missed heartbeats, in the name of the owner since `since`.
async fn miss(
    engine: &Engine,
    named: &CoordinatorName,
    held: &mut Held,
    (owner, since): (&str, Timestamp),
    handed: &[HandedOut],
) -> Result<(), CoordinatorError> {
    let (door, stream) = (engine.door(), named.stream());
    let is_current = |seq: Seq| {
        handed
            .binary_search_by_key(&seq, |out| out.assignment)
            .is_ok()
    };
    held.due
        .retain(|(of, seq), _| *of != stream || is_current(*seq));
    for out in handed {
        let timeout = Duration::from_millis(out.patience_ms());
        let due = held
            .due
            .entry((stream.clone(), out.assignment))
            .or_insert_with(|| out.at.max(since).plus(timeout));
        if *due > door.store().now() {
            continue;
        }
        let heartbeat = heartbeats::last(&**door.store(), named, out.assignment).await?;
        let heard = heartbeat.map_or(out.at, |heartbeat| {
            heartbeat.at.plus(heartbeats::unwritten(timeout))
        });
        *due = heard.max(since).plus(timeout);
        if *due > door.store().now() {
            continue;
        }
        let missed = TaskCommand::Miss {
            owner: owner.to_owned(),
            assignment: out.assignment,
            fence: out.fence,
        };
        match door.tell_tasks(named, &missed).await {
            Ok(_) => tracing::info!(queue = %named.name, worker = %out.worker,
                offered = out.offered, "a worker sent no heartbeat; its task was reassigned"),
            Err(CoordinatorError::Rejected(Rejection::NoAssignment(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn lease_of(owner: &str, glance: &Glance, authority: Authority, now: Timestamp) -> Lease {
    Lease {
        owner: owner.to_owned(),
        lease_id: format!("{owner}-{}", glance.next_seq),
        leased_until: now.plus(authority.term()).to_string(),
    }
}

async fn tell(
    door: &Door,
    named: &CoordinatorName,
    command: CoordinatorCommand,
) -> Result<(), CoordinatorError> {
    door.command_queue(named, &command).await.map(drop)
}

/// Takes the free lease of a queue, if this engine is a candidate.
///
/// # Errors
/// The store's.
pub(crate) async fn stand_in(engine: &Engine, named: &CoordinatorName) -> Result<(), StoreError> {
    let Some(authority) = engine.inner.options.authority else {
        return Ok(());
    };
    if engine.inner.shutdown.drain.is_cancelled() {
        return Ok(());
    }
    if free_lease(engine.door(), named).await?.is_none() {
        return Ok(());
    }
    match take(engine, authority, named).await {
        // Another engine won the race: there is an authority.
        Ok(_) | Err(CoordinatorError::Rejected(_)) => Ok(()),
        Err(CoordinatorError::Store(error)) => Err(error),
    }
}

/// Acquires a free lease, and returns whether it did. If several tasks of this engine find it free
/// at once, the first acquires it and the others find it taken.
async fn take(
    engine: &Engine,
    authority: Authority,
    named: &CoordinatorName,
) -> Result<bool, CoordinatorError> {
    let door = engine.door();
    let mut taken = engine.inner.taken_leases.lock().await;
    let Some(glance) = free_lease(door, named).await? else {
        return Ok(false);
    };
    let lease = lease_of(&owner(engine), &glance, authority, door.store().now());
    tell(door, named, CoordinatorCommand::AcquireAuthority(lease)).await?;
    taken.insert(named.stream());
    Ok(true)
}

/// The state of a queue whose lease is free or has expired.
async fn free_lease(door: &Door, named: &CoordinatorName) -> Result<Option<Glance>, StoreError> {
    let now = door.store().now();
    door.look_at_coordinator(named, |coordinator| {
        let standing = coordinator.standing(now, LeaseRule::Contract);
        let is_free = standing.lease.is_none() || standing.is_stale;
        let is_native = coordinator.contract() == Contract::Native;
        (is_free && is_native).then(|| Glance::at(coordinator, now))
    })
    .await
}

/// Releases the leases of this engine, so that others need not wait.
async fn give_up(engine: &Engine) -> Result<(), StoreError> {
    let (door, me) = (engine.door(), owner(engine));
    for (named, _) in coordinators(door).await? {
        let is_ours = door
            .look_at_coordinator(&named, |coordinator| {
                let now = door.store().now();
                let lease = coordinator.standing(now, LeaseRule::Contract).lease;
                lease.is_some_and(|lease| lease.owner == me)
            })
            .await?;
        if !is_ours {
            continue;
        }
        let release = CoordinatorCommand::ReleaseAuthority { owner: me.clone() };
        match tell(door, &named, release).await {
            Ok(()) | Err(CoordinatorError::Rejected(_)) => {}
            Err(CoordinatorError::Store(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Delivers the messages of runs to a queue in order. A repeated message counts as delivered; any
/// other rejection is reported to the run. Returns how many were delivered: messages after a failed
/// one are retried with it, so that nothing is withdrawn before it was queued.
pub(crate) async fn deliver(
    engine: &Engine,
    named: &CoordinatorName,
    messages: &[TaskMessage],
) -> (usize, Result<(), StoreError>) {
    if let Err(error) = stand_in(engine, named).await {
        return (0, Err(error));
    }
    let each = messages.iter().map(|message| async {
        match engine.door().tell_tasks(named, &message.order).await {
            Ok(_) | Err(CoordinatorError::Rejected(Rejection::DuplicateRequest(_))) => Ok(()),
            Err(CoordinatorError::Rejected(rejection)) => refuse(engine, message, &rejection).await,
            Err(CoordinatorError::Store(error)) => Err(error),
        }
    });
    // Concurrently, so that they become durable together.
    let told = join_all(each).await;
    let done = told.iter().take_while(|one| one.is_ok()).count();
    (done, told.into_iter().collect())
}

/// Reports a rejected task to its run, which would otherwise wait for it.
async fn refuse(
    engine: &Engine,
    message: &TaskMessage,
    rejection: &Rejection,
) -> Result<(), StoreError> {
    let TaskCommand::Queue {
        request_id, terms, ..
    } = &message.order
    else {
        return Ok(());
    };
    let error = serde_json::json!({ "code": rejection.code(), "message": rejection.to_string() });
    let command = kernel::run::Command::Signal {
        name: terms.signal.clone(),
        id: format!("{request_id}/refused"),
        payload: serde_json::json!({ "error": error }),
    };
    let envelope = kernel::run::Envelope {
        message: Some(format!("{request_id}/refused").into()),
        ..command.into()
    };
    match engine.command(&terms.run, envelope).await {
        Err(crate::door::DoorError::Store(StoreError::Missing)) => Ok(()),
        Err(crate::door::DoorError::Store(error)) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

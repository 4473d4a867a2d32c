//! The engine of one process: claims runs, drives them, delivers their messages.

mod leases;
pub mod maintenance;
mod outbox;
mod wants;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::definition::{ControlKind, NodeTypes as _, Plan};
use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::problem::{ProblemCode, Problems, pointer};
use kernel::run::{Command, Create, Envelope, Event, Rejection, Run};
use kernel::sealed::has_sealed;
use kernel::stream::{Owner, Policy, StreamHeader, StreamKind};
use kernel::trace::TraceContext;
use parking_lot::Mutex;
use store::{Lease, LeaseChange, Store, StoreError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::authority::Authority;
pub use crate::door::new_run_id;
use crate::door::{Done, Door, DoorError, ForkFailed, ForkSpec, Forked};
use crate::drive::{Driver, DriverMessage};
use crate::hints::Hints;
use crate::keyring::Keyring;
use crate::nodes::{Registry, requires_missing};
use crate::output_progress::HeldBack;
use crate::plans::{Plans, Prepared};
use crate::ports::Ports;
use crate::redact::Redactor;
use crate::seal::Seal;
use crate::sinks::Stalls;
use crate::trace_context::hand_on;
use maintenance::Maintenance;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The engine's name in leases.
    pub holder: HolderId,
    /// The queue its worker serves.
    pub queue: String,
    /// The most runs driven at a time.
    pub max_runs: usize,
    /// The most attempts in flight, over all runs.
    pub max_attempts: usize,
    /// The life of a lease without renewal. After a crash no other process drives the run for this
    /// long, unless the lost holder is known to be dead.
    pub lease_ttl: Duration,
    /// How often the queue is polled: hints do not cross processes.
    pub poll: Duration,
    /// Which runs the worker takes.
    pub scope: Scope,
    /// Maintenance of its store, if any.
    pub maintenance: Option<Maintenance>,
    /// Its candidacy for the authority of queues, if any.
    pub authority: Option<Authority>,
    /// Whether it runs maintenance of queues whose authority another engine has.
    pub watches_queues: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            holder: crate::holder::this_process(),
            queue: "default".into(),
            max_runs: 256,
            max_attempts: 64,
            lease_ttl: Duration::from_secs(10),
            poll: Duration::from_millis(500),
            scope: Scope::Everything,
            maintenance: None,
            authority: None,
            watches_queues: false,
        }
    }
}

/// Which runs a worker takes from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any.
    Everything,
    /// Only those passed to [`Engine::adopt`], and their children.
    Adopted,
}

/// A run to create.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its owner.
    pub owner: Owner,
    /// The workflow to run.
    pub prepared: Prepared,
    /// Its inputs.
    pub create: Create,
    /// How it is driven.
    pub policy: Policy,
    /// The span it continues in, if its creator named one.
    pub trace: Option<TraceContext>,
    /// Its id, if the caller must know it beforehand; otherwise a new one is made.
    pub id: Option<StreamId>,
    /// Needed with an id that is not random: see [`StreamHeader::nonce`].
    pub nonce: Option<String>,
    /// Unique keys to claim with it.
    pub keys: Vec<KeyClaim>,
}

/// The engine of one process.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) door: Door,
    pub(crate) registry: Arc<Registry>,
    pub(crate) ports: Arc<Ports>,
    pub(crate) options: EngineOptions,
    pub(crate) attempts: Arc<Semaphore>,
    pub(crate) runs: Arc<Semaphore>,
    /// Ordered by id, so that leases are renewed in the same order in every replay.
    driven: Mutex<BTreeMap<StreamId, Driven>>,
    adopted: Mutex<HashSet<StreamId>>,
    /// Runs created and held here before [`Engine::start`]; `None` afterwards.
    awaits_start: Mutex<Option<Vec<(Run, Lease)>>>,
    /// Notified when this engine stops driving a run.
    pub(crate) let_go: Notify,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: TaskTracker,
    /// Leases taken since the authority last maintained queues. Locked from the check of a queue's
    /// lease to its acquisition.
    pub(crate) taken_leases: tokio::sync::Mutex<BTreeSet<StreamId>>,
    /// The parts held back of tasks' output.
    pub(crate) held_back: HeldBack,
    /// The error of the last write to the store; `None` if it succeeded.
    trouble: Mutex<Option<String>>,
    /// The attempts that wait for space on the disk.
    pub(crate) stalls: Stalls,
}

/// The two steps of a shutdown.
#[derive(Clone, Default)]
pub(crate) struct Shutdown {
    /// Nothing new is claimed or started.
    pub(crate) drain: CancellationToken,
    /// Running work is stopped.
    pub(crate) stop: CancellationToken,
}

/// A run that this engine drives.
pub(crate) struct Driven {
    pub(crate) mailbox: mpsc::Sender<DriverMessage>,
    pub(crate) lease: Lease,
    pub(crate) lost: CancellationToken,
}

impl Engine {
    /// An engine over a store that only this process changes. Nothing runs before
    /// [`Engine::start`].
    pub fn new(
        store: Arc<dyn Store>,
        registry: Arc<Registry>,
        ports: Ports,
        options: EngineOptions,
    ) -> Self {
        Self::with_hints((store, Hints::default()), registry, ports, options)
    }

    /// As [`Engine::new`], over a store whose changes by other processes are reported as hints.
    pub fn with_hints(
        (store, hints): (Arc<dyn Store>, Hints),
        registry: Arc<Registry>,
        ports: Ports,
        options: EngineOptions,
    ) -> Self {
        let plans = Arc::new(Plans::new(registry.clone()));
        let door = Door::new(store, plans, hints);
        Self {
            inner: Arc::new(Inner {
                door,
                registry,
                ports: Arc::new(ports),
                attempts: Arc::new(Semaphore::new(options.max_attempts)),
                runs: Arc::new(Semaphore::new(options.max_runs)),
                options,
                driven: Mutex::default(),
                adopted: Mutex::default(),
                awaits_start: Mutex::new(Some(Vec::new())),
                let_go: Notify::new(),
                shutdown: Shutdown::default(),
                tasks: TaskTracker::new(),
                taken_leases: tokio::sync::Mutex::default(),
                held_back: HeldBack::default(),
                trouble: Mutex::default(),
                stalls: Stalls::default(),
            }),
        }
    }

    /// The door of this engine.
    pub fn door(&self) -> &Door {
        &self.inner.door
    }

    /// Why writes currently fail. Drivers and attempts retry until they succeed or are stopped.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.inner.trouble.lock().clone();
        trouble.or_else(|| self.inner.stalls.first())
    }

    /// Records the result of a write to the store.
    pub(crate) fn note_write<T>(&self, written: Result<T, &StoreError>) {
        *self.inner.trouble.lock() = match written {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
    }

    /// The source of sealing keys.
    pub(crate) fn keyring(&self) -> Arc<dyn Keyring> {
        self.inner.ports.keyring.clone()
    }

    /// The node types that run here, sorted. Excludes the type for capabilities that no host has.
    pub fn node_types(&self) -> Vec<String> {
        let control = ControlKind::ALL.map(|kind| kind.type_id().to_owned());
        let work = self.inner.registry.type_ids();
        let work = work
            .into_iter()
            .filter(|id| id != requires_missing::TYPE_ID);
        let all: BTreeSet<String> = work.chain(control).collect();
        all.into_iter().collect()
    }

    /// The models its nodes may call.
    pub fn models(&self) -> &crate::models::Providers {
        &self.inner.ports.models
    }

    /// The rules for running programs.
    pub fn programs(&self) -> &crate::programs::Programs {
        &self.inner.ports.programs
    }

    /// The scopes of stored secrets; empty without a secret store.
    pub fn secret_scopes(&self) -> &'static [crate::secrets::Scope] {
        self.inner.ports.secrets.scopes()
    }

    /// Whether any tenant has a secret of this name.
    pub fn has_secret(&self, name: &str) -> bool {
        self.inner.ports.secrets.has(name)
    }

    /// Starts the worker, the renewal of leases, the delivery of the outbox, and maintenance.
    pub fn start(&self) {
        let tasks = &self.inner.tasks;
        tasks.spawn(worker::work(self.clone()));
        tasks.spawn(leases::renew(self.clone()));
        tasks.spawn(outbox::deliver(self.clone()));
        if let Some(maintenance) = self.inner.options.maintenance {
            tasks.spawn(maintenance::keep(self.clone(), maintenance));
            tasks.spawn(wants::retry_all(self.clone()));
        }
        let options = &self.inner.options;
        if options.authority.is_some() || options.watches_queues {
            tasks.spawn(crate::authority::keep(self.clone(), options.authority));
        }
        for (run, lease) in self.inner.awaits_start.lock().take().into_iter().flatten() {
            if self.can_drive(&lease) {
                self.drive(run, lease, &[], self.slot());
                continue;
            }
            // The lease is about to expire: release it, so that the queue offers the run again.
            let engine = self.clone();
            tasks.spawn(async move {
                if let Err(error) = engine.door().store().release(&lease).await {
                    tracing::warn!(%error, "a lease was not released; it will expire");
                }
                engine.door().hints().queue();
            });
        }
    }

    /// Stops in order: nothing new is claimed; running attempts may end within `grace`; the rest
    /// are stopped and their runs released with the attempts in flight, so that the next holder
    /// restarts them with the same keys.
    pub async fn drain(&self, grace: Duration) {
        let Shutdown { drain, stop } = &self.inner.shutdown;
        drain.cancel();
        self.inner.door.hints().queue();
        self.inner.tasks.close();
        if tokio::time::timeout(grace, self.inner.tasks.wait())
            .await
            .is_err()
        {
            stop.cancel();
            self.inner.tasks.wait().await;
        }
        stop.cancel();
    }

    /// Creates a run. With [`kernel::run::Start::Now`] this engine holds and drives it at once.
    ///
    /// # Errors
    /// The rejection of its inputs or bounds, a taken key, or the store's error.
    pub async fn create(&self, new: NewRun) -> Result<Done, DoorError> {
        self.create_in(new, None).await
    }

    /// Creates a run for this engine: no other engine on the store takes it, whenever this one
    /// starts, and it is driven from [`Engine::start`] on.
    ///
    /// # Errors
    /// As [`Engine::create`].
    pub async fn create_held(&self, new: NewRun) -> Result<Done, DoorError> {
        self.create_as(new, None, true).await
    }

    /// Capacity for one more run, if any.
    pub(crate) fn slot(&self) -> Option<OwnedSemaphorePermit> {
        self.inner.runs.clone().try_acquire_owned().ok()
    }

    /// As [`Engine::create`]; a run that starts at once occupies `slot` while it is driven.
    pub(crate) async fn create_in(
        &self,
        new: NewRun,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<Done, DoorError> {
        let is_held = new.create.start == kernel::run::Start::Now;
        self.create_as(new, slot, is_held).await
    }

    async fn create_as(
        &self,
        new: NewRun,
        slot: Option<OwnedSemaphorePermit>,
        is_held: bool,
    ) -> Result<Done, DoorError> {
        let now = self.inner.door.store().now();
        let stream = new.id.unwrap_or_else(new_run_id);
        let (tenant, plan) = (new.owner.tenant.clone(), new.prepared.plan.clone());
        let header = StreamHeader {
            engine_version: Some(new.create.engine_version),
            definition: Some(new.prepared.definition),
            trace: new.trace.map(hand_on),
            policy: new.policy,
            nonce: new.nonce,
            ..StreamHeader::new(stream.clone(), StreamKind::Run, new.owner, now)
        }
        .seal_genesis();
        let waits = is_held && new.create.start == kernel::run::Start::WhenClaimed;
        let lease = if is_held {
            LeaseChange::Take {
                holder: self.inner.options.holder.clone(),
                ttl: self.inner.options.lease_ttl,
            }
        } else {
            LeaseChange::Keep
        };
        self.adopt(&stream);
        let mut create = new.create;
        self.seal_inputs(&tenant, &plan, &mut create)?;
        // Credentials come by reference; one that comes by value is redacted before the log.
        for given in [
            &mut create.inputs,
            &mut create.configurable,
            &mut create.metadata,
        ] {
            Redactor::default().object(given);
        }
        create.tags = Redactor::default().texts(create.tags);
        let envelope = Envelope::from(Command::Create(create));
        let mut done = self
            .inner
            .door
            .create(header, &envelope, new.keys, lease)
            .await?;
        if let Some(lease) = done.lease.take() {
            if waits && let Some(awaits_start) = &mut *self.inner.awaits_start.lock() {
                awaits_start.push((done.run.clone(), lease.clone()));
                done.lease = Some(lease);
            } else if self.can_drive(&lease) {
                self.drive(done.run.clone(), lease.clone(), &done.events, slot);
                done.lease = Some(lease);
            } else if let Err(error) = self.inner.door.store().release(&lease).await {
                tracing::warn!(%error, "a lease was not released; it will expire");
            }
        }
        Ok(done)
    }

    /// Checks inputs before they are sealed, and seals those that the workflow declares sensitive.
    fn seal_inputs(
        &self,
        tenant: &TenantId,
        plan: &Plan,
        create: &mut Create,
    ) -> Result<(), DoorError> {
        if !plan.variables.iter().any(|declared| declared.sensitive) {
            return Ok(());
        }
        let invalid = |problems| DoorError::Rejected(Rejection::InvalidInputs(problems));
        let mut problems = Problems::new();
        for (name, value) in &create.inputs {
            if has_sealed(value) {
                // An undeclared name may be anything; it is not echoed.
                let is_declared = plan.variables.iter().any(|declared| declared.name == *name);
                let path = if is_declared {
                    pointer("", name)
                } else {
                    String::new()
                };
                let message = "must be the plain value, not a sealed one";
                problems.add(path, ProblemCode::WrongType, message);
            }
        }
        problems.or(()).map_err(invalid)?;
        plan.bind_inputs(&create.inputs).map_err(invalid)?;
        let seal = Seal::new(self.inner.ports.keyring.clone(), tenant.clone());
        seal.variables(plan, &mut create.inputs)
            .map_err(|error| DoorError::Store(StoreError::unavailable(error)))
    }

    /// Forks a run. A branch waits in its queue for a worker; a replay is complete when this
    /// returns, and no node has run.
    ///
    /// # Errors
    /// See [`Door::fork`].
    pub async fn fork(&self, source: &StreamId, new: ForkSpec) -> Result<Forked, ForkFailed> {
        let stream = new.id.clone().unwrap_or_else(new_run_id);
        self.adopt(&stream);
        let new = ForkSpec {
            id: Some(stream),
            ..new
        };
        let holder = &self.inner.options.holder;
        self.inner.door.fork(source, new, holder).await
    }

    /// Applies a command to a run: through its driver if that is in this process, otherwise from
    /// outside.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn command(&self, stream: &StreamId, envelope: Envelope) -> Result<(), DoorError> {
        // A driver may end while the command waits in its mailbox; then the door is used.
        let mailbox = self
            .inner
            .driven
            .lock()
            .get(stream)
            .map(|driven| driven.mailbox.clone());
        if let Some(mailbox) = mailbox {
            let (reply, answer) = oneshot::channel();
            let ask = DriverMessage::Command {
                envelope: Box::new(envelope.clone()),
                reply,
            };
            if mailbox.send(ask).await.is_ok()
                && let Ok(result) = answer.await
            {
                return result;
            }
        }
        self.inner.door.transact(stream, &envelope).await.map(drop)
    }

    /// Lets the worker take a run under [`Scope::Adopted`].
    pub fn adopt(&self, stream: &StreamId) {
        if self.inner.options.scope == Scope::Adopted {
            self.inner.adopted.lock().insert(stream.clone());
            self.inner.door.hints().queue();
        }
    }

    /// Lets the worker take a run and every run it started, and frees those whose holder is known
    /// to be dead, so that they need not wait for the lease to expire.
    ///
    /// # Errors
    /// The store's.
    pub async fn adopt_family(&self, root: &StreamId) -> Result<(), StoreError> {
        let mut todo = vec![root.clone()];
        while let Some(stream) = todo.pop() {
            let run = match self.inner.door.load(&stream).await {
                Ok(run) => run,
                // A child whose creation is still in the outbox.
                Err(StoreError::Missing) if stream != *root => continue,
                Err(error) => return Err(error),
            };
            let facts = run.facts();
            todo.extend(
                facts
                    .into_iter()
                    .flat_map(|facts| facts.children.keys().cloned()),
            );
            crate::holder::release_if_dead(&**self.inner.door.store(), &stream).await?;
            self.adopt(&stream);
        }
        Ok(())
    }

    pub(crate) fn takes(&self, stream: &StreamId) -> bool {
        match self.inner.options.scope {
            Scope::Everything => true,
            Scope::Adopted => self.inner.adopted.lock().contains(stream),
        }
    }

    /// Waits until a run has settled. Sees appends of other processes within a poll.
    ///
    /// # Errors
    /// The store's.
    pub async fn settled(&self, stream: &StreamId) -> Result<Run, StoreError> {
        let mut progress = self.inner.door.hints().watch(stream);
        loop {
            let run = self.inner.door.load(stream).await?;
            if run.is_settled() {
                return Ok(run);
            }
            let poll = self.inner.options.poll;
            // Either way the store is read again: another process may have settled the run.
            let _ = tokio::time::timeout(poll, progress.settled()).await;
        }
    }

    /// Whether a lease just claimed can be renewed before it lapses.
    pub(crate) fn can_drive(&self, lease: &Lease) -> bool {
        let now = self.inner.door.store().now();
        leases::is_fresh(lease, self.inner.options.lease_ttl, now)
    }

    /// Starts driving a run this engine holds.
    pub(crate) fn drive(
        &self,
        run: Run,
        lease: Lease,
        started_by_us: &[Event],
        slot: Option<OwnedSemaphorePermit>,
    ) {
        let (mailbox, messages) = mpsc::channel(64);
        let lost = CancellationToken::new();
        let header = run.header.clone();
        let stream = header.stream.clone();
        let driven = Driven {
            mailbox: mailbox.clone(),
            lease: lease.clone(),
            lost: lost.clone(),
        };
        self.inner.driven.lock().insert(stream.clone(), driven);
        let mut driver = Driver::new(self.clone(), run, lease, lost, mailbox, messages);
        driver.remember(started_by_us);
        let engine = self.clone();
        let span = crate::telemetry::of_run(&header);
        let drive = async move {
            let settled = driver.drive().await;
            engine.inner.driven.lock().remove(&stream);
            engine.inner.let_go.notify_one();
            // A finished run frees capacity. One that has not settled may have become due again, by
            // a message between the last look and the release.
            if slot.is_some() || !settled {
                drop(slot);
                engine.inner.door.hints().queue();
            }
        };
        self.inner.tasks.spawn(drive.instrument(span));
    }

    /// The number of runs this engine drives now.
    pub fn driving(&self) -> usize {
        self.inner.driven.lock().len()
    }

    pub(crate) fn is_driven(&self, stream: &StreamId) -> bool {
        self.inner.driven.lock().contains_key(stream)
    }

    /// Every lease of this engine, with the token that tells its driver of the loss.
    pub(crate) fn leases(&self) -> Vec<(Lease, CancellationToken)> {
        let driven = self.inner.driven.lock();
        driven
            .values()
            .map(|driven| (driven.lease.clone(), driven.lost.clone()))
            .collect()
    }

    pub(crate) fn renewed(&self, lease: Lease) {
        if let Some(driven) = self.inner.driven.lock().get_mut(&lease.stream)
            && driven.lease.epoch == lease.epoch
        {
            driven.lease = lease;
        }
    }
}

/// A new random nonce, for a run whose id is not random.
pub fn new_nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

//! The one door: load, fold, decide, append, and only then act.
//!
//! Every write to a run goes through [`Door::transact`] (from outside) or [`Door::append`] (by the
//! driver that holds the run and keeps its folded state). Decisions take effect only after the
//! append has returned. The registry of a tenant has its part of the door in `registry`.

mod command_queue;
mod coordinator;
mod document;
mod fork;
mod notes;
mod registry;

use std::sync::Arc;

use kernel::batch::{Batch, KeyClaim};
use kernel::definition::Plan;
use kernel::ids::{Seq, StreamId};
use kernel::run::{self, Command, Create, Decided, Driving, Envelope, Event, Head, Rejection, Run};
use kernel::stream::StreamHeader;
use store::{Appended, Conflict, Guard, Lease, LeaseChange, Loaded, ReadFrom, Store, StoreError};

use crate::definitions::Definitions;
use crate::hints::Hints;
use crate::logs;
use crate::plans::Plans;
use crate::seal;
use crate::telemetry::Asked;

pub use command_queue::TaskResult;
pub use coordinator::{CommandResult, CoordinatorError, CoordinatorName, CoordinatorOrder};
pub(crate) use document::new_document_id;
pub use document::{DocumentRefused, LoadedDocument};
pub use fork::{CUT_OFF, ForkAnswer, ForkFailed, ForkSpec, Forked, NotReplayed, new_run_id};
pub use notes::NotesError;
pub use registry::RegistryError;

/// Attempts of a command that lost a race, before its caller must retry.
const TRIES: u32 = 100;

/// Why a command had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DoorError {
    /// A rejection by the rules; nothing was written.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A unique key is taken; nothing was written.
    #[error("the key is taken in {namespace}")]
    KeyTaken {
        /// The namespace of the key.
        namespace: String,
        /// The key.
        key: String,
    },
    /// A store error.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for DoorError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict(Conflict::Key { namespace, key }) => {
                Self::KeyTaken { namespace, key }
            }
            other => Self::Store(other),
        }
    }
}

/// The result of a write.
#[derive(Debug)]
pub struct Done {
    /// The state afterwards.
    pub run: Run,
    /// The events it wrote.
    pub events: Vec<Event>,
    /// The lease that came with a creation.
    pub lease: Option<Lease>,
}

/// A failed write, with the state to continue from if there is one.
#[derive(Debug)]
pub struct AppendError {
    /// The error.
    pub error: DoorError,
    /// The unchanged state; `None` after a store error, when the log must be read again.
    pub run: Option<Box<Run>>,
    /// The batch that may have been written, after a store error: see [`Door::was_written`].
    pub indeterminate: Option<Box<Indeterminate>>,
}

/// A batch whose append has no response.
#[derive(Debug)]
pub struct Indeterminate {
    /// Its events.
    pub events: Vec<Event>,
    /// The end of the log if it was written.
    head: Head,
}

/// The door to a store.
#[derive(Clone)]
pub struct Door {
    store: Arc<dyn Store>,
    plans: Arc<Plans>,
    hints: Hints,
    pub(crate) definitions: Arc<Definitions>,
    command_queues: Arc<command_queue::CommandQueues>,
}

impl Door {
    /// A door to `store`.
    pub fn new(store: Arc<dyn Store>, plans: Arc<Plans>, hints: Hints) -> Self {
        Self {
            store,
            plans,
            hints,
            definitions: Arc::default(),
            command_queues: Arc::default(),
        }
    }

    /// Its store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The compiled definitions.
    pub fn plans(&self) -> &Arc<Plans> {
        &self.plans
    }

    /// The plan of a run, from its header.
    ///
    /// # Errors
    /// `Missing` for a stream that is not a run, `Corrupt` if the definition cannot be read.
    pub async fn plan_of(&self, header: &StreamHeader) -> Result<Arc<Plan>, StoreError> {
        let Some(definition) = &header.definition else {
            return Err(StoreError::Missing);
        };
        let store = &*self.store;
        self.plans.load(store, header.tenant(), definition).await
    }

    /// The hints of this process.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// The current state of a run.
    ///
    /// # Errors
    /// `Missing` for an unknown stream or one that is not a run; `Corrupt` if the log does not
    /// fold.
    pub async fn load(&self, stream: &StreamId) -> Result<Run, StoreError> {
        let loaded = logs::newest(&*self.store, stream).await?;
        self.fold(loaded).await
    }

    /// Reads a run for display: with the states of children that its own log no longer records.
    ///
    /// # Errors
    /// As [`Door::load`].
    pub async fn load_to_show(&self, stream: &StreamId) -> Result<Run, StoreError> {
        let mut run = self.load(stream).await?;
        for child in run.untold_children() {
            match self.store.load_head(&child).await {
                Ok(loaded) => run.tell_of_child(&child, &loaded.index.status),
                // The message that creates it is still in the outbox. An erased child reports
                // nothing.
                Err(StoreError::Missing) if self.store.tombstone(&child).await?.is_none() => {
                    run.tell_of_child(&child, "pending");
                }
                Err(StoreError::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(run)
    }

    /// Appends the batch that `decide` makes of the newest state of a stream that is not a run. After
    /// a lost race it decides again on the new state. Without a batch nothing is appended.
    ///
    /// # Errors
    /// What `decide` returns; `Conflict` when the race was lost too often; the store's.
    pub(crate) async fn transact_stream<T, E, F>(
        &self,
        decide: impl Fn() -> F,
    ) -> Result<(Option<Appended>, T), E>
    where
        E: From<StoreError>,
        F: Future<Output = Result<(Option<Batch>, T), E>>,
    {
        let mut tries = 0;
        loop {
            let (batch, decided) = decide().await?;
            let Some(batch) = batch else {
                return Ok((None, decided));
            };
            match self.append_batch(batch).await {
                Ok(appended) => return Ok((Some(appended), decided)),
                Err(StoreError::Conflict(Conflict::Sequence | Conflict::Key { .. }))
                    if tries < TRIES =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Appends to a stream that is not a run, and wakes those who wait for it.
    async fn append_batch(&self, batch: Batch) -> Result<Appended, StoreError> {
        let stream = batch.stream().clone();
        let next_seq = batch.first_seq() + batch.records().len() as Seq;
        let has_messages = !batch.outbox().is_empty();
        let appended = self
            .store
            .append(batch, Guard::Outside, LeaseChange::Keep)
            .await?;
        self.hints.grown(&stream, next_seq);
        if has_messages {
            self.hints.outbox();
        }
        Ok(appended)
    }

    /// Reads a run's state before event `below`, without any checkpoint.
    ///
    /// # Errors
    /// As [`Door::load`].
    pub async fn load_prefix(&self, stream: &StreamId, below: Seq) -> Result<Run, StoreError> {
        let limit = usize::try_from(below).unwrap_or(usize::MAX);
        let loaded = self.store.load(stream, ReadFrom::Seq(0), limit).await?;
        self.fold(loaded).await
    }

    async fn fold(&self, loaded: Loaded) -> Result<Run, StoreError> {
        let Loaded {
            header,
            checkpoint,
            records,
            first_seq,
            ..
        } = loaded;
        let plan = self.plan_of(&header).await?;
        let header = Arc::new(header);
        let resumed = checkpoint.and_then(|at| {
            let (header, plan) = (header.clone(), plan.clone());
            Run::from_checkpoint(header, plan, at.next_seq, at.chain, &at.state)
        });
        let (mut run, records) = match resumed {
            Some(run) => (run, records),
            None if first_seq == 0 => (Run::unborn(header.clone(), plan), records),
            None => {
                // A checkpoint of another build: fold from the start instead.
                let whole = self
                    .store
                    .load(&header.stream, ReadFrom::Seq(0), usize::MAX)
                    .await?;
                (Run::unborn(header.clone(), plan), whole.records)
            }
        };
        for record in &records {
            run.fold_content(&record.content)
                .map_err(|bad| StoreError::Corrupt(format!("run {}: {bad}", header.stream)))?;
        }
        Ok(run)
    }

    /// Applies a command to a run from outside its driver: cancel, pause, signal, resolve, or an
    /// outbox message. After a lost race it is decided again on the new state.
    ///
    /// # Errors
    /// The rejection; `Conflict` if too many races were lost, `Unavailable` if the store did not
    /// respond (the command may have had its effect).
    pub async fn transact(
        &self,
        stream: &StreamId,
        envelope: &Envelope,
    ) -> Result<Done, DoorError> {
        // The run's driver may be another process: it starts the attempts that follow.
        let envelope = &Envelope {
            driving: Driving::Elsewhere,
            ..envelope.clone()
        };
        let mut tries = 0;
        loop {
            let run = self.load(stream).await?;
            // A finished replay is terminal and rejects commands like any settled run.
            if run.is_replay() && !run.is_settled() {
                return Err(Rejection::Replay.into());
            }
            match self
                .append(run, envelope, Guard::Outside, LeaseChange::Keep, Vec::new())
                .await
            {
                Ok(done) => return Ok(done),
                Err(turned) => match turned.error {
                    DoorError::Store(StoreError::Conflict(_)) if tries < TRIES => tries += 1,
                    error => return Err(error),
                },
            }
        }
    }

    /// Creates a run. `keys` are claimed with it; `hold` lets the creator drive it at once.
    ///
    /// # Errors
    /// `Rejected(Existing)` if the stream exists, `KeyTaken` if a key is taken.
    pub async fn create(
        &self,
        header: StreamHeader,
        envelope: &Envelope,
        keys: Vec<KeyClaim>,
        lease: LeaseChange,
    ) -> Result<Done, DoorError> {
        debug_assert!(matches!(envelope.command, Command::Create(Create { .. })));
        let plan = self.plan_of(&header).await?;
        let run = Run::unborn(Arc::new(header), plan);
        let created = self
            .append(run, envelope, Guard::Outside, lease, keys)
            .await;
        created.map_err(|turned| match turned.error {
            DoorError::Store(StoreError::Conflict(Conflict::Sequence)) => {
                Rejection::Existing.into()
            }
            error => error,
        })
    }

    /// Decides on the caller's state, and appends. After a store error the state is lost and must
    /// be loaded again.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn append(
        &self,
        run: Run,
        envelope: &Envelope,
        guard: Guard,
        lease: LeaseChange,
        keys: Vec<KeyClaim>,
    ) -> Result<Done, AppendError> {
        let asked = Asked::from_run(&run);
        let decided = self.decide(run, envelope)?;
        self.commit(decided, &asked, guard, lease, keys).await
    }

    /// As [`Door::append`], for the driver that holds the run: releases the lease in the same
    /// transaction if `when_idle` requires it and nothing is left to drive. Returns whether it was
    /// released.
    pub(crate) async fn append_driven(
        &self,
        run: Run,
        envelope: &Envelope,
        guard: Guard,
        when_idle: LeaseChange,
    ) -> Result<(Done, bool), AppendError> {
        let asked = Asked::from_run(&run);
        let decided = self.decide(run, envelope)?;
        let lease = if decided.run.is_settled() {
            when_idle
        } else {
            LeaseChange::Keep
        };
        let released = lease == LeaseChange::Release;
        let done = self
            .commit(decided, &asked, guard, lease, Vec::new())
            .await?;
        Ok((done, released))
    }

    fn decide(&self, run: Run, envelope: &Envelope) -> Result<Decided, AppendError> {
        let plan = run.plan.clone();
        let envelope = &*seal::unsaid(&plan, envelope);
        run::decide(run, envelope, self.store.now()).map_err(|refused| AppendError {
            error: refused.rejection.into(),
            run: Some(Box::new(refused.run)),
            indeterminate: None,
        })
    }

    async fn commit(
        &self,
        decided: Decided,
        asked: &[Asked],
        guard: Guard,
        lease: LeaseChange,
        keys: Vec<KeyClaim>,
    ) -> Result<Done, AppendError> {
        let has_messages = !decided.batch.outbox().is_empty();
        let is_runnable = decided.batch.index().runnable || !decided.batch.timers().is_empty();
        let batch = decided.batch.claiming(keys);
        let bytes = batch.records().iter().map(|record| record.content.len());
        let bytes = bytes.sum();
        let appended = match self.store.append(batch, guard, lease).await {
            Ok(appended) => appended,
            Err(error) => {
                let indeterminate = matches!(error, StoreError::Unavailable(_)).then(|| {
                    Box::new(Indeterminate {
                        events: decided.events,
                        head: decided.run.head,
                    })
                });
                return Err(AppendError {
                    error: error.into(),
                    run: None,
                    indeterminate,
                });
            }
        };
        let meters = self.hints.meters();
        meters.observe(&decided.run, &decided.events, asked);
        self.hints.appended(&decided.run, &decided.events, bytes);
        if has_messages {
            self.hints.outbox();
        }
        if is_runnable && guard == Guard::Outside {
            self.hints.queue();
        }
        Ok(Done {
            run: decided.run,
            events: decided.events,
            lease: appended.lease,
        })
    }

    /// Whether a batch without a response is in the log. Deciding its command again without this
    /// check could write it twice.
    ///
    /// # Errors
    /// The store's.
    pub async fn was_written(
        &self,
        stream: &StreamId,
        indeterminate: &Indeterminate,
    ) -> Result<bool, StoreError> {
        let last = indeterminate.head.next_seq - 1;
        let loaded = self.store.load(stream, ReadFrom::Seq(last), 1).await?;
        let found = loaded.records.first();
        Ok(found.is_some_and(|record| record.chain == indeterminate.head.chain))
    }
}

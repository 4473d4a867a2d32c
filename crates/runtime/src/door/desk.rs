//! Coordinators that hand tasks out: what this process knows of them, and the door to their tasks.
//!
//! What is told to one coordinator in this process is told in turn, and its state is kept between,
//! checked by the sequence of the next append: a cache, never truth.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::coordinator::{
    Coordinator, CoordinatorEvent, Event, PastAssignment, PastDispatch, Recall, Remembered,
    TaskCommand, TaskDecision, assignment_name, memory_of_assignments, memory_of_request,
};
use kernel::ids::{RequestId, Seq, StreamId};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::{Checkpoint, Conflict, Guard, HoldChange, ReadFrom, StoreError};
use tokio::sync::OwnedMutexGuard;

use super::coordinator::{CHECKPOINT_EVERY, CoordinatorError, CoordinatorName};
use super::{Door, TRIES};

/// Coordinators whose state is kept at a time.
const KEPT: usize = 256;

/// What this process knows of coordinators.
#[derive(Default)]
pub(crate) struct Desks {
    // Held for a map look-up, never across an await.
    known: Mutex<HashMap<StreamId, Desk>>,
}

type Desk = Arc<tokio::sync::Mutex<Option<Seen>>>;

/// A coordinator as it was last seen.
struct Seen {
    coordinator: Coordinator,
    /// How much of its log a checkpoint folds.
    kept: Seq,
}

/// What a command about tasks came to.
#[derive(Clone, Debug)]
pub struct TaskTold {
    /// What happened, with its place. Nothing where nothing changed.
    pub events: Vec<(Seq, CoordinatorEvent)>,
    /// When, by the store's clock.
    pub at: Timestamp,
}

impl Desks {
    async fn at(&self, stream: &StreamId) -> OwnedMutexGuard<Option<Seen>> {
        let desk = {
            let mut known = self.known.lock();
            if known.len() >= KEPT && !known.contains_key(stream) {
                // Those that somebody is at are wanted.
                known.retain(|_, desk| Arc::strong_count(desk) > 1);
            }
            known.entry(stream.clone()).or_default().clone()
        };
        desk.lock_owned().await
    }
}

impl Door {
    /// Looks at a coordinator as it stands.
    ///
    /// # Errors
    /// The store's.
    pub async fn look_at_coordinator<T>(
        &self,
        named: &CoordinatorName,
        look: impl FnOnce(&Coordinator) -> T,
    ) -> Result<T, StoreError> {
        let mut desk = self.desks.at(&named.stream()).await;
        let seen = self.refreshed(named, desk.take()).await?;
        let answer = look(&seen.coordinator);
        *desk = Some(seen);
        Ok(answer)
    }

    /// The state of a coordinator with everything that is in the log.
    async fn refreshed(
        &self,
        named: &CoordinatorName,
        seen: Option<Seen>,
    ) -> Result<Seen, StoreError> {
        let stream = named.stream();
        if let Some(mut seen) = seen.filter(|seen| seen.coordinator.next_seq() > 0) {
            let from = ReadFrom::Seq(seen.coordinator.next_seq());
            let news = self.store.load(&stream, from, usize::MAX).await?;
            let is_ours = news.next_seq >= seen.coordinator.next_seq();
            let mut records = news.records.iter();
            if is_ours
                && records.all(|record| seen.coordinator.fold_content(&record.content).is_some())
            {
                return Ok(seen);
            }
        }
        let (coordinator, kept) = self.load_coordinator(named).await?;
        Ok(Seen { coordinator, kept })
    }

    /// Says something of a coordinator's tasks. A lost race is decided again on what won.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn tell_tasks(
        &self,
        named: &CoordinatorName,
        command: &TaskCommand,
    ) -> Result<TaskTold, CoordinatorError> {
        let stream = named.stream();
        let mut desk = self.desks.at(&stream).await;
        let mut tries = 0;
        loop {
            let Seen { coordinator, kept } = self.refreshed(named, desk.take()).await?;
            let recall = self.recall_task(&coordinator, command).await?;
            let past = self.recall_assignment(&coordinator, command).await?;
            let at = self.store.now();
            let TaskDecision {
                events,
                batch,
                after,
            } = coordinator.decide_task(command, &recall, past.as_ref(), at)?;
            let Some(batch) = batch else {
                let coordinator = after;
                *desk = Some(Seen { coordinator, kept });
                return Ok(TaskTold { events, at });
            };
            let has_messages = !batch.outbox().is_empty();
            let appended = self
                .store
                .append(batch, Guard::Outside, HoldChange::Keep)
                .await;
            match appended {
                Ok(_) => {
                    self.hints.grown(&stream, after.next_seq());
                    self.hints.feed();
                    if has_messages {
                        self.hints.outbox();
                    }
                    let kept = self.keep_coordinator(&after, kept).await;
                    let coordinator = after;
                    *desk = Some(Seen { coordinator, kept });
                    return Ok(TaskTold { events, at });
                }
                Err(StoreError::Conflict(Conflict::Sequence | Conflict::Key { .. }))
                    if tries < TRIES =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn recall_task(
        &self,
        coordinator: &Coordinator,
        command: &TaskCommand,
    ) -> Result<Recall, StoreError> {
        let mut recall = Recall::default();
        if let TaskCommand::Queue { request_id, .. } = command
            && !coordinator.is_open(request_id)
        {
            let used = memory_of_request(&coordinator.header().stream, Remembered::Used);
            let tenant = coordinator.header().tenant();
            let row = self.store.key(tenant, &used, request_id.as_str()).await?;
            if row.is_some() {
                let past = PastDispatch::Removed;
                recall.requests.insert(request_id.clone(), past);
            }
        }
        Ok(recall)
    }

    async fn recall_assignment(
        &self,
        coordinator: &Coordinator,
        command: &TaskCommand,
    ) -> Result<Option<PastAssignment>, StoreError> {
        match command {
            TaskCommand::Report { assignment, .. }
            | TaskCommand::Release { assignment, .. }
            | TaskCommand::Miss { assignment, .. }
                if coordinator.assignment(*assignment).is_none() =>
            {
                self.past_assignment(coordinator, *assignment).await
            }
            _ => Ok(None),
        }
    }

    /// How an assignment ended, as far as that is remembered.
    pub(crate) async fn past_assignment(
        &self,
        coordinator: &Coordinator,
        assignment: Seq,
    ) -> Result<Option<PastAssignment>, StoreError> {
        let header = coordinator.header();
        let namespace = memory_of_assignments(&header.stream);
        let name = assignment_name(assignment);
        let row = self.store.key(header.tenant(), &namespace, &name).await?;
        let answer = row.and_then(|row| row.answer);
        Ok(answer.and_then(|answer| serde_json::from_slice(&answer).ok()))
    }

    /// Keeps the state beside the log, the seldomer the more there is of it. Answers how much of
    /// the log is kept.
    async fn keep_coordinator(&self, coordinator: &Coordinator, kept: Seq) -> Seq {
        let every = CHECKPOINT_EVERY.max(coordinator.open_requests() as Seq);
        let next_seq = coordinator.next_seq();
        if next_seq < kept + every {
            return kept;
        }
        let checkpoint = Checkpoint {
            next_seq,
            chain: coordinator.chain(),
            state: coordinator.checkpoint(),
        };
        let stream = &coordinator.header().stream;
        if let Err(error) = self.store.put_checkpoint(stream, checkpoint).await {
            tracing::debug!(%stream, %error, "a checkpoint was not kept");
        }
        next_seq
    }

    /// Events of a coordinator from a place on, at most so many.
    ///
    /// # Errors
    /// `Corrupt`, or the store's. One that was never told anything has none.
    pub async fn coordinator_events(
        &self,
        named: &CoordinatorName,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let stream = named.stream();
        let loaded = match self.store.load(&stream, ReadFrom::Seq(from), limit).await {
            Ok(loaded) => loaded,
            Err(StoreError::Missing) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let events = loaded.records.iter().map(|record| {
            serde_json::from_slice(&record.content).map_err(|error| {
                StoreError::Corrupt(format!("an event of {stream} cannot be read: {error}"))
            })
        });
        events.collect()
    }

    /// What a task is given: the metadata of its request, and its terms.
    ///
    /// # Errors
    /// `Corrupt` where there is no such request at that place, or the store's.
    pub(crate) async fn queued_at(
        &self,
        named: &CoordinatorName,
        request: &RequestId,
        at: Seq,
    ) -> Result<CoordinatorEvent, StoreError> {
        let found = self.coordinator_events(named, at, 1).await?;
        let is_it = |event: &Event| {
            matches!(&event.body, CoordinatorEvent::DispatchQueued { request_id, .. }
                if request_id == request)
        };
        let found = found.into_iter().find(is_it);
        found
            .map(|event| event.body)
            .ok_or_else(|| StoreError::Corrupt("a task has no request in its log".into()))
    }
}

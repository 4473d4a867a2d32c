//! Coordinators that assign tasks: their cached state, and the door to their tasks.
//!
//! Commands of this process to one coordinator run in turn. Its state is cached between them and
//! verified by the sequence of the next append: a cache, never the truth. Commands that arrive
//! during an append are decided together, in order, and made durable by the next one.

mod pending;

use std::collections::HashMap;
use std::sync::Arc;

use kernel::coordinator::{
    Coordinator, CoordinatorCommand, CoordinatorEvent, Event, Group, LeaseRule, PastAssignment,
    PastDispatch, Recall, Remembered, State, TaskCommand, assignment_name, claim_of_take,
    memory_of_assignments, memory_of_request, memory_of_takes, take_name, taken_before,
};
use kernel::ids::{RequestId, Seq, StreamId, TenantId, WorkerId};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::{Conflict, Guard, LeaseChange, ReadFrom, StoreError};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::coordinator::{CHECKPOINT_EVERY, CoordinatorError, CoordinatorName};
use super::{Door, TRIES};
use crate::logs;
use pending::{Answer, Order, Pending, Request};

pub use pending::TaskResult;

/// Coordinators whose state is cached.
const KEPT: usize = 256;

/// The cached coordinators of this process.
#[derive(Default)]
pub(crate) struct CommandQueues {
    // Locked for a map look-up, never across an await.
    known: Mutex<HashMap<StreamId, Arc<CommandQueue>>>,
}

/// The queue of commands of one coordinator.
#[derive(Default)]
struct CommandQueue {
    seen: Arc<tokio::sync::Mutex<Option<Seen>>>,
    pending: Pending,
}

/// The cached state of a coordinator.
struct Seen {
    coordinator: Coordinator,
    /// How many of its events a checkpoint covers.
    kept: Seq,
}

/// The keys of a command's ids.
struct Recalled {
    recall: Recall,
    past: Option<PastAssignment>,
}

impl CommandQueues {
    fn at(&self, stream: &StreamId) -> Arc<CommandQueue> {
        let mut known = self.known.lock();
        if known.len() >= KEPT && !known.contains_key(stream) {
            // Queues in use are kept.
            known.retain(|_, command_queue| Arc::strong_count(command_queue) > 1);
        }
        known.entry(stream.clone()).or_default().clone()
    }
}

impl Door {
    /// Reads the current state of a coordinator.
    ///
    /// # Errors
    /// The store's.
    pub async fn look_at_coordinator<T>(
        &self,
        named: &CoordinatorName,
        look: impl FnOnce(&Coordinator) -> T,
    ) -> Result<T, StoreError> {
        let command_queue = self.command_queues.at(&named.stream());
        let mut command_queue = command_queue.seen.lock().await;
        let seen = self.refreshed(named, command_queue.take()).await?;
        let answer = look(&seen.coordinator);
        *command_queue = Some(seen);
        Ok(answer)
    }

    /// The state of a coordinator with all events of its log.
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

    /// Sends a command about a coordinator's tasks. After a lost race it is decided again on the
    /// new state.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn tell_tasks(
        &self,
        named: &CoordinatorName,
        command: &TaskCommand,
    ) -> Result<TaskResult, CoordinatorError> {
        match self.say(named, Request::Task(command.clone())).await? {
            Answer::Task(told) => Ok(told),
            Answer::Command(_) => unreachable!("a word about tasks has an answer of its kind"),
        }
    }

    /// Sends a command to a coordinator that assigns tasks, in turn with the commands about its
    /// tasks.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn command_queue(
        &self,
        named: &CoordinatorName,
        command: &CoordinatorCommand,
    ) -> Result<CoordinatorEvent, CoordinatorError> {
        match self.say(named, Request::Command(command.clone())).await? {
            Answer::Command(event) => Ok(*event),
            Answer::Task(_) => unreachable!("a command has an answer of its kind"),
        }
    }

    async fn say(
        &self,
        named: &CoordinatorName,
        request: Request,
    ) -> Result<Answer, CoordinatorError> {
        let command_queue = self.command_queues.at(&named.stream());
        let (reply, mut answer) = oneshot::channel();
        command_queue.pending.join(Order { request, reply });
        let seen = tokio::select! {
            biased;
            // The current holder of the lock processed this command with its own.
            told = &mut answer => return told.unwrap_or_else(|_| Err(lost().into())),
            seen = command_queue.seen.clone().lock_owned() => seen,
        };
        // In a task of its own: others wait for it, even if this caller is dropped.
        let (door, named) = (self.clone(), named.clone());
        tokio::spawn(async move { door.tell_those_in_line(&named, &command_queue, seen).await });
        answer.await.unwrap_or_else(|_| Err(lost().into()))
    }

    /// Processes all queued commands of a coordinator.
    async fn tell_those_in_line(
        &self,
        named: &CoordinatorName,
        command_queue: &CommandQueue,
        mut seen: OwnedMutexGuard<Option<Seen>>,
    ) {
        loop {
            let group = command_queue.pending.next_group();
            if group.is_empty() {
                return;
            }
            self.tell_group(named, &mut seen, group).await;
        }
    }

    async fn tell_group(
        &self,
        named: &CoordinatorName,
        seen: &mut Option<Seen>,
        group: Vec<Order>,
    ) {
        let request: Vec<&Request> = group.iter().map(|order| &order.request).collect();
        let mut answers = self.tell_together(named, seen, &request).await;
        if request.len() > 1 && matches!(&answers, Err(CoordinatorError::Rejected(_))) {
            // One command exceeds the event size limit. Only that one is rejected.
            let mut each = Vec::with_capacity(request.len());
            for one in &request {
                let told = self.tell_together(named, seen, &[one]).await;
                each.push(told.and_then(|mut told| told.pop().expect("an answer of each")));
            }
            answers = Ok(each);
        }
        match answers {
            Ok(answers) => {
                for (order, answer) in group.into_iter().zip(answers) {
                    drop(order.reply.send(answer));
                }
            }
            Err(error) => {
                for order in group {
                    drop(order.reply.send(Err(error.clone())));
                }
            }
        }
    }

    /// Decides several commands of a coordinator and makes them durable by one append. After a lost
    /// race they are decided again on the new state.
    ///
    /// # Errors
    /// The store's, and `TooLarge` if an event exceeds the limit: then nothing happened.
    async fn tell_together(
        &self,
        named: &CoordinatorName,
        seen: &mut Option<Seen>,
        request: &[&Request],
    ) -> Result<Vec<Result<Answer, CoordinatorError>>, CoordinatorError> {
        let mut tries = 0;
        loop {
            let Seen { coordinator, kept } = self.refreshed(named, seen.take()).await?;
            let mut recalled = Vec::with_capacity(request.len());
            for one in request {
                recalled.push(self.recalled(&coordinator, one).await?);
            }
            let at = self.store.now();
            let mut group = Group::new(coordinator, at);
            let answers: Vec<_> = request
                .iter()
                .zip(recalled)
                .map(|(one, recalled)| decide(&mut group, one, recalled, at))
                .collect();
            let (batch, coordinator) = group.seal()?;
            let Some(batch) = batch else {
                *seen = Some(Seen { coordinator, kept });
                return Ok(answers);
            };
            let has_messages = !batch.outbox().is_empty();
            let appended = self
                .store
                .append(batch, Guard::Outside, LeaseChange::Keep)
                .await;
            match appended {
                Ok(_) => {
                    let stream = &coordinator.header().stream;
                    self.hints.grown(stream, coordinator.next_seq());
                    if has_messages {
                        self.hints.outbox();
                    }
                    // The larger the state, the rarer the checkpoints.
                    let every = CHECKPOINT_EVERY.max(coordinator.open_requests() as Seq);
                    let kept = self.keep_checkpoint(&coordinator, kept, every).await;
                    *seen = Some(Seen { coordinator, kept });
                    return Ok(answers);
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

    /// Looks up the ids of a command in the unique keys.
    async fn recalled(
        &self,
        coordinator: &Coordinator,
        request: &Request,
    ) -> Result<Recalled, StoreError> {
        Ok(match request {
            Request::Task(command) => Recalled {
                recall: self.recall_task(coordinator, command).await?,
                past: self.recall_assignment(coordinator, command).await?,
            },
            Request::Command(command) => Recalled {
                recall: self.recall(coordinator, command).await?,
                past: None,
            },
        })
    }

    async fn recall_task(
        &self,
        coordinator: &Coordinator,
        command: &TaskCommand,
    ) -> Result<Recall, StoreError> {
        let mut recall = Recall::default();
        if let TaskCommand::Take {
            worker,
            key: Some(key),
            ..
        } = command
        {
            let stream = &coordinator.header().stream;
            let tenant = coordinator.header().tenant();
            recall.taken = self.taken(tenant, stream, (worker, key)).await?;
        }
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

    async fn taken(
        &self,
        tenant: &TenantId,
        stream: &StreamId,
        (worker, key): (&WorkerId, &str),
    ) -> Result<Option<Vec<Seq>>, StoreError> {
        let (namespace, name) = (memory_of_takes(stream), take_name(worker, key));
        let row = self.store.key(tenant, &namespace, &name).await?;
        Ok(row.and_then(|row| taken_before(&row.answer?)))
    }

    /// The tasks assigned under the key of a take. `None` if the key is unused.
    ///
    /// # Errors
    /// The store's.
    pub async fn taken_under(
        &self,
        named: &CoordinatorName,
        worker: &WorkerId,
        key: &str,
    ) -> Result<Option<Vec<Seq>>, StoreError> {
        self.taken(&named.tenant, &named.stream(), (worker, key))
            .await
    }

    /// Ends a take: its key assigns nothing from now on. Returns the tasks that it was assigned.
    ///
    /// # Errors
    /// The store's.
    pub async fn end_take(
        &self,
        named: &CoordinatorName,
        worker: &WorkerId,
        key: &str,
    ) -> Result<Vec<Seq>, StoreError> {
        loop {
            if let Some(taken) = self.taken_under(named, worker, key).await? {
                return Ok(taken);
            }
            let stream = named.stream();
            let claim = claim_of_take(&stream, (worker, key), &[], self.store.now());
            match self.store.put_key(&named.tenant, claim, None).await {
                // Tasks were assigned concurrently.
                Err(StoreError::Conflict(Conflict::Key { .. })) => {}
                done => return done.map(|()| Vec::new()),
            }
        }
    }

    async fn recall_assignment(
        &self,
        coordinator: &Coordinator,
        command: &TaskCommand,
    ) -> Result<Option<PastAssignment>, StoreError> {
        match command.assignment() {
            Some(assignment) if coordinator.assignment(assignment).is_none() => {
                self.past_assignment(coordinator, assignment).await
            }
            _ => Ok(None),
        }
    }

    /// How an assignment ended, if it is still remembered.
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

    /// Events of a coordinator from `from`, at most `limit`. A coordinator without a log has none.
    ///
    /// # Errors
    /// `Corrupt`, or the store's.
    pub async fn coordinator_events(
        &self,
        named: &CoordinatorName,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        logs::events::<State>(&*self.store, &named.stream(), from, limit).await
    }

    /// The event that queued a task: the metadata of its request, and its terms.
    ///
    /// # Errors
    /// `Corrupt` if the event is not such a request, or the store's.
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

fn decide(
    group: &mut Group,
    request: &Request,
    Recalled { recall, past }: Recalled,
    at: Timestamp,
) -> Result<Answer, CoordinatorError> {
    Ok(match request {
        Request::Task(command) => {
            let events = group.tell_task(command, recall, past)?;
            Answer::Task(TaskResult { events, at })
        }
        Request::Command(command) => {
            let event = group.tell(command, recall, LeaseRule::Contract)?;
            Answer::Command(Box::new(event))
        }
    })
}

/// The error of a command whose durability is unknown.
fn lost() -> StoreError {
    StoreError::Unavailable(
        "the process is ending; check the queue and send the command again".into(),
    )
}

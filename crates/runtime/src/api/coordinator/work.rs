//! Assignments: taking tasks, and heartbeats.

use std::time::Duration;

use futures_util::future::try_join_all;
use kernel::coordinator::{
    AssignmentEnd, Coordinator, CoordinatorCommand, CoordinatorEvent, HandedOut, LeaseRule,
    Rejection, TaskCommand, TaskEnd, TaskError, TaskTerms, is_worker_name,
};
use kernel::ids::{Seq, WorkerId};
use kernel::run;
use serde_json::Value;
use store::StoreError;

use super::super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::authority::{self, BlockedOn, heartbeats};
use crate::door::{CoordinatorError, CoordinatorName};
use crate::seal::Seal;

/// A task assigned to the worker that took it.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The assignment and its terms.
    pub handed: HandedOut,
    /// The task's payload.
    pub task: Value,
    /// The waiting run and its attempt.
    pub terms: Option<TaskTerms>,
}

/// A worker's take.
#[derive(Clone, Debug)]
pub struct Taking {
    /// The worker.
    pub worker: WorkerId,
    /// The most tasks to assign.
    pub max: usize,
    /// Names this take among those of the worker: a repeated key returns the same tasks.
    pub key: Option<String>,
}

/// A worker's report while it works.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    /// Whom it waits for, and why.
    pub blocked: Option<(BlockedOn, String)>,
}

impl Api {
    /// Assigns waiting tasks, at most `max`, possibly none. A repeated key returns the tasks that
    /// it was assigned before and that the worker still has.
    ///
    /// # Errors
    /// As [`Api::queue_standing`], or an invalid worker name.
    pub async fn take_tasks(
        &self,
        who: &Principal,
        queue: &str,
        take: &Taking,
    ) -> Result<Vec<Assignment>, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let Taking { worker, max, key } = take;
        if !is_worker_name(worker.as_str()) {
            return Err(ApiError::Coordinator(Rejection::InvalidField("worker")));
        }
        let (door, store) = (self.door(), &**self.door().store());
        heartbeats::seen(store, &named, worker).await?;
        if let Some(key) = key
            && let Some(before) = door.taken_under(&named, worker, key).await?
        {
            return self.assignments(&named, &before).await;
        }
        // Many workers poll an empty queue: check before the transaction.
        let has_work = |coordinator: &Coordinator| coordinator.has_work_for(worker);
        if !door.look_at_coordinator(&named, has_work).await? {
            return Ok(Vec::new());
        }
        authority::stand_in(&self.engine, &named).await?;
        let command = TaskCommand::Take {
            worker: worker.clone(),
            max: *max,
            key: key.clone(),
        };
        let told = door.tell_tasks(&named, &command).await?;
        let is_assigned = |(seq, event): &(Seq, CoordinatorEvent)| {
            let is_it = matches!(event, CoordinatorEvent::WorkerAssigned { .. });
            is_it.then_some(*seq)
        };
        let mut seqs: Vec<Seq> = told.events.iter().filter_map(is_assigned).collect();
        if let Some(key) = key.as_ref().filter(|_| seqs.is_empty()) {
            // The same take was sent twice, and the other one won.
            seqs = door
                .taken_under(&named, worker, key)
                .await?
                .unwrap_or_default();
        }
        self.assignments(&named, &seqs).await
    }

    /// Assignments as sent to their worker, without those that are over.
    async fn assignments(
        &self,
        named: &CoordinatorName,
        seqs: &[Seq],
    ) -> Result<Vec<Assignment>, ApiError> {
        let handed = self.in_hand(named, seqs).await?;
        let each = handed.into_iter().map(|one| self.assignment(named, one));
        Ok(try_join_all(each).await?.into_iter().flatten().collect())
    }

    async fn in_hand(
        &self,
        named: &CoordinatorName,
        seqs: &[Seq],
    ) -> Result<Vec<HandedOut>, StoreError> {
        let look = |coordinator: &Coordinator| {
            let each = seqs.iter().filter_map(|seq| coordinator.assignment(*seq));
            each.collect()
        };
        self.door().look_at_coordinator(named, look).await
    }

    /// Ends a take whose response its worker did not receive: its tasks are released, and its key
    /// takes nothing more. Returns how many tasks were released.
    ///
    /// # Errors
    /// As [`Api::take_tasks`].
    pub async fn release_take(
        &self,
        who: &Principal,
        queue: &str,
        worker: &WorkerId,
        key: &str,
    ) -> Result<usize, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        if !is_worker_name(worker.as_str()) {
            return Err(ApiError::Coordinator(Rejection::InvalidField("worker")));
        }
        let taken = self.door().end_take(&named, worker, key).await?;
        let handed = self.in_hand(&named, &taken).await?;
        let releases = handed.iter().map(|handed| async {
            let assignment = (handed.assignment, handed.fence);
            match self.release_task(who, queue, assignment).await {
                Ok(_) => Ok(1),
                // The assignment ended meanwhile.
                Err(ApiError::Coordinator(Rejection::NoAssignment(_))) => Ok(0),
                Err(error) => Err(error),
            }
        });
        Ok(try_join_all(releases).await?.into_iter().sum())
    }

    /// Starts a task that was offered to a worker. Idempotent.
    ///
    /// # Errors
    /// As [`Api::heartbeat`].
    pub async fn begin_task(
        &self,
        who: &Principal,
        queue: &str,
        (assignment, fence): (Seq, u32),
    ) -> Result<(), ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let handed = self.current(&named, assignment, fence).await?;
        if !handed.offered {
            return Ok(());
        }
        let begin = TaskCommand::Begin { assignment, fence };
        match self.door().tell_tasks(&named, &begin).await {
            Ok(_) => Ok(()),
            Err(CoordinatorError::Rejected(Rejection::NoAssignment(_))) => {
                Err(self.over(&named, assignment, fence, "begin").await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// An assignment as sent to its worker. `None` if it cannot be sent; the task has then failed.
    async fn assignment(
        &self,
        named: &CoordinatorName,
        handed: HandedOut,
    ) -> Result<Option<Assignment>, ApiError> {
        let (mut task, terms) = self.task(named, &handed).await?;
        let seal = Seal::new(self.engine.keyring(), named.tenant.clone());
        if let Err(error) = seal.open_all(&mut task, &mut |_| {}) {
            let error = run::NodeError::from(error);
            let end = TaskEnd::Error(TaskError {
                code: error.code,
                message: error.message,
                retryable: None,
            });
            let (assignment, fence) = (handed.assignment, handed.fence);
            let report = TaskCommand::Report {
                assignment,
                fence,
                end,
            };
            self.door().tell_tasks(named, &report).await?;
            return Ok(None);
        }
        Ok(Some(Assignment {
            handed,
            task,
            terms,
        }))
    }

    pub(super) async fn handed(
        &self,
        named: &CoordinatorName,
        assignment: Seq,
    ) -> Result<Option<HandedOut>, StoreError> {
        let door = self.door();
        door.look_at_coordinator(named, |coordinator| coordinator.assignment(assignment))
            .await
    }

    /// The payload of a task from the log, with its terms.
    pub(in crate::api) async fn task(
        &self,
        named: &CoordinatorName,
        handed: &HandedOut,
    ) -> Result<(Value, Option<TaskTerms>), StoreError> {
        let queued = self
            .door()
            .queued_at(named, &handed.request, handed.queued)
            .await?;
        let CoordinatorEvent::DispatchQueued { metadata, task, .. } = queued else {
            return Err(StoreError::Corrupt("a task has no request".into()));
        };
        let metadata = metadata.and_then(|text| serde_json::from_str(&text).ok());
        Ok((metadata.unwrap_or_default(), task.map(|terms| *terms)))
    }

    /// The assignment of this fence, or why it is over. Records that a worker is alive whose task
    /// was taken from it.
    pub(in crate::api) async fn current(
        &self,
        named: &CoordinatorName,
        assignment: Seq,
        fence: u32,
    ) -> Result<HandedOut, ApiError> {
        if let Some(handed) = self.handed(named, assignment).await? {
            return if handed.fence == fence {
                Ok(handed)
            } else {
                Err(ApiError::Coordinator(Rejection::NoAssignment(None)))
            };
        }
        Err(self.over(named, assignment, fence, "heartbeat").await?)
    }

    /// Why an assignment is over.
    pub(super) async fn over(
        &self,
        named: &CoordinatorName,
        assignment: Seq,
        fence: u32,
        recovery: &str,
    ) -> Result<ApiError, ApiError> {
        let door = self.door();
        let found = door.look_at_coordinator(named, Clone::clone).await?;
        let past = door.past_assignment(&found, assignment).await?;
        let past = past.filter(|past| past.fence == fence);
        if past.as_ref().map(|past| past.end) == Some(AssignmentEnd::Lost) {
            self.hear(named, assignment, recovery).await?;
        }
        let end = past.map(|past| past.end);
        Ok(ApiError::Coordinator(Rejection::NoAssignment(end)))
    }

    async fn hear(
        &self,
        named: &CoordinatorName,
        assignment: Seq,
        recovery: &str,
    ) -> Result<(), ApiError> {
        let event = self.door().coordinator_events(named, assignment, 1).await?;
        let body = event.into_iter().next().map(|event| event.body);
        if let Some(CoordinatorEvent::WorkerAssigned { worker, .. }) = body {
            let heard = TaskCommand::Hear {
                assignment,
                recovery: recovery.to_owned(),
                worker,
            };
            self.door().tell_tasks(named, &heard).await?;
        }
        Ok(())
    }

    /// Accepts a heartbeat. Returns how long it is valid.
    ///
    /// # Errors
    /// As [`Api::queue_standing`], or why the assignment is over.
    pub async fn heartbeat(
        &self,
        who: &Principal,
        queue: &str,
        (assignment, fence): (Seq, u32),
        said: Heartbeat,
    ) -> Result<Duration, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let handed = self.current(&named, assignment, fence).await?;
        let timeout = Duration::from_millis(handed.handing.heartbeat_timeout_ms);
        let store = self.door().store();
        let mut blocked = said.blocked;
        if let Some((_, reason)) = &mut blocked {
            let (task, _) = self.task(&named, &handed).await?;
            let redactor = self.run_redactor(&named, task)?.redactor();
            *reason = redactor.text(reason).into_owned();
        }
        let before =
            heartbeats::heartbeat(&**store, &named, assignment, timeout, blocked.clone()).await?;
        heartbeats::seen(&**store, &named, &handed.worker).await?;
        let was = before.and_then(|heartbeat| heartbeat.blocked);
        if let Some((on, reason)) = blocked.filter(|blocked| was.as_ref() != Some(blocked)) {
            self.say_blocked(&named, &handed.worker, on, &reason)
                .await?;
        }
        Ok(timeout)
    }

    /// Records in the log that a worker is blocked, if the authority has an owner.
    async fn say_blocked(
        &self,
        named: &CoordinatorName,
        worker: &WorkerId,
        on: BlockedOn,
        reason: &str,
    ) -> Result<(), ApiError> {
        let now = self.door().store().now();
        let standing = self
            .door()
            .look_at_coordinator(named, |at| at.standing(now, LeaseRule::Contract))
            .await?;
        let Some(lease) = standing.lease.filter(|_| !standing.is_stale) else {
            return Ok(());
        };
        let reason = format!("{worker}: {reason}");
        let owner = lease.owner;
        let command = match on {
            BlockedOn::User => CoordinatorCommand::BlockOnUser { owner, reason },
            BlockedOn::System => CoordinatorCommand::BlockOnSystem { owner, reason },
        };
        self.door().command_queue(named, &command).await?;
        Ok(())
    }
}

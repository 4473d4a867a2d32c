//! Tasks in the hands of workers: taking them, and heartbeats.

use std::time::Duration;

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
use crate::authority::{self, BlockedOn, beats};
use crate::door::CoordinatorName;
use crate::seal::Seal;

/// A task in the hands of the worker that asked.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Which, and on what terms.
    pub handed: HandedOut,
    /// What there is to do.
    pub task: Value,
    /// The run that waits, and the attempt of it.
    pub terms: Option<TaskTerms>,
}

/// What a worker says while it works.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    /// Whom it waits for, and why.
    pub blocked: Option<(BlockedOn, String)>,
}

impl Api {
    /// Hands out what waits, at most `max` tasks, possibly none.
    ///
    /// # Errors
    /// As [`Api::queue_standing`], or a name that is no worker's.
    pub async fn take_tasks(
        &self,
        who: &Principal,
        queue: &str,
        worker: &WorkerId,
        max: usize,
    ) -> Result<Vec<Assignment>, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        if !is_worker_name(worker.as_str()) {
            return Err(ApiError::Coordinator(Rejection::InvalidField("worker")));
        }
        let (door, store) = (self.door(), &**self.door().store());
        beats::seen(store, &named, worker).await?;
        // Many ask again and again while there is nothing.
        let has_work = |coordinator: &Coordinator| coordinator.has_work_for(worker);
        if !door.look_at_coordinator(&named, has_work).await? {
            return Ok(Vec::new());
        }
        authority::stand_in(&self.engine, &named).await?;
        let take = TaskCommand::Take {
            worker: worker.clone(),
            max,
        };
        let told = door.tell_tasks(&named, &take).await?;
        let is_handed_out = |(seq, event): &(Seq, CoordinatorEvent)| {
            let is_it = matches!(event, CoordinatorEvent::WorkerAssigned { .. });
            is_it.then_some(*seq)
        };
        let seqs = told.events.iter().filter_map(is_handed_out);
        let handed: Vec<HandedOut> = door
            .look_at_coordinator(&named, |coordinator| {
                seqs.filter_map(|seq| coordinator.assignment(seq)).collect()
            })
            .await?;
        let mut assignments = Vec::with_capacity(handed.len());
        for handed in handed {
            assignments.extend(self.assignment(&named, handed).await?);
        }
        Ok(assignments)
    }

    /// What a worker is given. `None` where it cannot be given, and has failed for that.
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

    /// What there is to do, as the log has it, and on what terms.
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

    /// The assignment of this fence, or why it is none any more. A worker that is heard of although
    /// its task was taken from it is noted.
    pub(in crate::api) async fn current(
        &self,
        named: &CoordinatorName,
        assignment: Seq,
        fence: u32,
    ) -> Result<HandedOut, ApiError> {
        if let Some(handed) = self.handed(named, assignment).await? {
            return match handed.fence == fence {
                true => Ok(handed),
                false => Err(ApiError::Coordinator(Rejection::NoAssignment(None))),
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

    /// Takes a heartbeat. Answers for how long it counts.
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
            let redactor = self.kept_out(&named, task)?.redactor();
            *reason = redactor.text(reason).into_owned();
        }
        let before = beats::beat(&**store, &named, assignment, timeout, blocked.clone()).await?;
        beats::seen(&**store, &named, &handed.worker).await?;
        let was = before.and_then(|beat| beat.blocked);
        if let Some((on, reason)) = blocked.filter(|blocked| was.as_ref() != Some(blocked)) {
            self.say_blocked(&named, &handed.worker, on, &reason)
                .await?;
        }
        Ok(timeout)
    }

    /// Says in the log that a worker waits, where somebody holds the authority.
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

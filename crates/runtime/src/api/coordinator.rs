//! Queues of tasks: taking, heartbeats, output and ends, and how a queue stands.

use std::time::Duration;

use kernel::coordinator::{
    AssignmentEnd, Coordinator, CoordinatorCommand, CoordinatorEvent, Event, HandedOut, LeaseRule,
    Rejection, Standing, TaskCommand, TaskEnd, TaskError, TaskTerms, event_number, is_queue_name,
    is_worker_name,
};
use kernel::ids::{RequestId, Seq, WorkerId};
use kernel::json;
use kernel::limits::{MAX_JSON_DEPTH, MAX_TASK_RESULT_BYTES};
use kernel::problem::{Problem, ProblemCode};
use kernel::run;
use kernel::time::Timestamp;
use serde_json::{Map, Value};
use store::StoreError;

use super::error::Thing;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::authority::{self, BlockedOn, beats};
use crate::door::CoordinatorName;
use crate::hints::Watch;
use crate::redact::Redactor;
use crate::seal::Seal;

/// How often a queue is looked at without a hint: other processes' hints do not reach us.
const LOOK: Duration = Duration::from_millis(500);
/// Events of a page that are read to find the place of a cursor.
const STRIDE: usize = 1_000;

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

/// What a report came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The task.
    pub request: RequestId,
    /// The same was reported before.
    pub is_repeated: bool,
}

/// A worker as others see it.
#[derive(Clone, Debug)]
pub struct SeenWorker {
    /// The worker.
    pub worker: WorkerId,
    /// When it was last heard of.
    pub last_seen: Option<Timestamp>,
    /// A task was taken from it, and it was not heard of since.
    pub is_stalled: bool,
    /// Tasks in its hands.
    pub assignments: usize,
}

/// The workers of a queue, and what they have.
#[derive(Clone, Debug)]
pub struct Workers {
    /// Who was given a task.
    pub workers: Vec<SeenWorker>,
    /// What is handed out, and the last heartbeat of each.
    pub assignments: Vec<(HandedOut, Option<Timestamp>)>,
}

/// A stretch of the events of a queue.
#[derive(Clone, Debug)]
pub struct QueueEvents {
    /// Events that have a name.
    pub events: Vec<Event>,
    /// Whether nothing more is there.
    pub is_complete: bool,
    /// The number of the last event, or of the cursor.
    pub next: u64,
}

/// Waits for something to happen in a queue.
pub struct QueueWatch {
    hint: Watch,
}

impl QueueWatch {
    /// Waits until something may have happened. Returns early rather than late.
    pub async fn changed(&mut self) {
        if let Ok(false) = tokio::time::timeout(LOOK, self.hint.changed()).await {
            // Nobody hints any more: the slow look is all there is.
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Api {
    /// The coordinator of a queue of the caller's tenant.
    pub(super) fn queue(
        &self,
        who: &Principal,
        action: Action,
        queue: &str,
    ) -> Result<CoordinatorName, ApiError> {
        let resource = Resource::of_tenant(&who.tenant, What::Queue(queue.to_owned()));
        authorise(who, action, &resource)
            .map_err(|denied| ApiError::denied(denied, Thing::Queue))?;
        match is_queue_name(queue) {
            true => Ok(authority::named(&who.tenant, queue)),
            false => Err(ApiError::NotFound(Thing::Queue)),
        }
    }

    /// Watches a queue.
    ///
    /// # Errors
    /// A missing scope, or no queue's name.
    pub fn watch_queue(
        &self,
        who: &Principal,
        action: Action,
        queue: &str,
    ) -> Result<QueueWatch, ApiError> {
        let named = self.queue(who, action, queue)?;
        let hint = self.door().hints().watch(&named.stream());
        Ok(QueueWatch { hint })
    }

    /// How a queue stands.
    ///
    /// # Errors
    /// A missing scope, no queue's name, or the store's.
    pub async fn queue_standing(
        &self,
        who: &Principal,
        action: Action,
        queue: &str,
    ) -> Result<Standing, ApiError> {
        let named = self.queue(who, action, queue)?;
        let now = self.door().store().now();
        let look = |coordinator: &Coordinator| coordinator.standing(now, LeaseRule::Contract);
        Ok(self.door().look_at_coordinator(&named, look).await?)
    }

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

    async fn handed(
        &self,
        named: &CoordinatorName,
        assignment: Seq,
    ) -> Result<Option<HandedOut>, StoreError> {
        let door = self.door();
        door.look_at_coordinator(named, |coordinator| coordinator.assignment(assignment))
            .await
    }

    /// What there is to do, as the log has it, and on what terms.
    pub(super) async fn task(
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
    pub(super) async fn current(
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
    async fn over(
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

    /// Takes the end of a task.
    ///
    /// # Errors
    /// As [`Api::heartbeat`], or what is larger than a result may be.
    pub async fn report_task(
        &self,
        who: &Principal,
        queue: &str,
        (assignment, fence): (Seq, u32),
        outcome: Result<Map<String, Value>, TaskError>,
    ) -> Result<Reported, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let expected = match &outcome {
            Ok(_) => AssignmentEnd::Delivered,
            Err(_) => AssignmentEnd::Failed,
        };
        let Some(handed) = self.handed(&named, assignment).await? else {
            return self.repeated(&named, (assignment, fence), expected).await;
        };
        let (task, terms) = self.task(&named, &handed).await?;
        let redactor = self.kept_out(&named, task.clone())?.redactor();
        let end = match outcome {
            Ok(mut outputs) => {
                redactor.object(&mut outputs);
                let outputs = Value::Object(outputs);
                // As deep as a request may be that has them within it: events wrap them as well.
                if json::depth(&outputs) >= MAX_JSON_DEPTH {
                    return Err(too_deep());
                }
                let text = outputs.to_string();
                if text.len() > MAX_TASK_RESULT_BYTES {
                    return Err(ApiError::Coordinator(Rejection::TooLarge));
                }
                TaskEnd::Outputs(text)
            }
            Err(error) => TaskEnd::Error(TaskError {
                message: redactor.text(&error.message).into_owned(),
                ..error
            }),
        };
        if handed.fence == fence {
            self.keep_the_rest(&named, &handed, (&task, terms.as_ref()))
                .await?;
        }
        let report = TaskCommand::Report {
            assignment,
            fence,
            end,
        };
        match self.door().tell_tasks(&named, &report).await {
            Ok(_) => {
                self.forget_outputs(&named, assignment);
                Ok(Reported {
                    request: handed.request,
                    is_repeated: false,
                })
            }
            // It was over before this came to the log.
            Err(crate::door::CoordinatorError::Rejected(Rejection::NoAssignment(Some(_)))) => {
                self.repeated(&named, (assignment, fence), expected).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What a report of an assignment that is over comes to.
    async fn repeated(
        &self,
        named: &CoordinatorName,
        (assignment, fence): (Seq, u32),
        expected: AssignmentEnd,
    ) -> Result<Reported, ApiError> {
        let found = self.door().look_at_coordinator(named, Clone::clone).await?;
        let past = self.door().past_assignment(&found, assignment).await?;
        if let Some(past) = past.filter(|past| past.fence == fence && past.end == expected) {
            return Ok(Reported {
                request: past.request,
                is_repeated: true,
            });
        }
        Err(self.over(named, assignment, fence, "late_report").await?)
    }

    /// Gives a task back.
    ///
    /// # Errors
    /// As [`Api::heartbeat`].
    pub async fn release_task(
        &self,
        who: &Principal,
        queue: &str,
        (assignment, fence): (Seq, u32),
    ) -> Result<Reported, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let Some(handed) = self.handed(&named, assignment).await? else {
            let expected = AssignmentEnd::Released;
            return self.repeated(&named, (assignment, fence), expected).await;
        };
        if handed.fence == fence {
            let (task, terms) = self.task(&named, &handed).await?;
            self.keep_the_rest(&named, &handed, (&task, terms.as_ref()))
                .await?;
        }
        let release = TaskCommand::Release { assignment, fence };
        match self.door().tell_tasks(&named, &release).await {
            Ok(_) => {
                self.forget_outputs(&named, assignment);
                Ok(Reported {
                    request: handed.request,
                    is_repeated: false,
                })
            }
            // It was over before this came to the log.
            Err(crate::door::CoordinatorError::Rejected(Rejection::NoAssignment(Some(_)))) => {
                let expected = AssignmentEnd::Released;
                self.repeated(&named, (assignment, fence), expected).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the coordinator of a queue a command of the runtime contract.
    ///
    /// # Errors
    /// As [`Api::queue_standing`], or the rejection.
    pub async fn command_queue(
        &self,
        who: &Principal,
        queue: &str,
        command: &CoordinatorCommand,
    ) -> Result<CoordinatorEvent, ApiError> {
        let named = self.queue(who, Action::CommandQueue, queue)?;
        if let CoordinatorCommand::QueueDispatch { .. } = command {
            authority::stand_in(&self.engine, &named).await?;
        }
        // Why a request failed goes into the log of the run that waits for it.
        if let CoordinatorCommand::MarkFailed { request_id, reason } = command {
            let reason = Redactor::default().text(reason).into_owned();
            let request_id = request_id.clone();
            let failed = CoordinatorCommand::MarkFailed { request_id, reason };
            return Ok(self.door().command_queue(&named, &failed).await?);
        }
        Ok(self.door().command_queue(&named, command).await?)
    }

    /// The workers of a queue, and what they have.
    ///
    /// # Errors
    /// As [`Api::queue_standing`].
    pub async fn queue_workers(&self, who: &Principal, queue: &str) -> Result<Workers, ApiError> {
        let named = self.queue(who, Action::ReadQueue, queue)?;
        let (known, handed) = self
            .door()
            .look_at_coordinator(&named, |coordinator| {
                let handed: Vec<HandedOut> = coordinator.handed_out().collect();
                (coordinator.known_workers(), handed)
            })
            .await?;
        let store = &**self.door().store();
        let mut workers = Vec::with_capacity(known.len());
        for worker in known {
            workers.push(SeenWorker {
                last_seen: beats::last_seen(store, &named, &worker.worker).await?,
                worker: worker.worker,
                is_stalled: worker.is_stalled,
                assignments: worker.assignments,
            });
        }
        let mut assignments = Vec::with_capacity(handed.len());
        for out in handed {
            let beat = beats::last(store, &named, out.assignment).await?;
            assignments.push((out, beat.map(|beat| beat.at)));
        }
        Ok(Workers {
            workers,
            assignments,
        })
    }

    /// Events of a queue behind a cursor, at most so many.
    ///
    /// # Errors
    /// As [`Api::queue_standing`]; `UnknownEvent` for a cursor that names no event.
    pub async fn queue_events(
        &self,
        who: &Principal,
        queue: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<QueueEvents, ApiError> {
        let named = self.queue(who, Action::ReadQueue, queue)?;
        let unknown = || ApiError::Coordinator(Rejection::UnknownEvent);
        let after = match after {
            None => 0,
            Some(name) => event_number(name).ok_or_else(unknown)?,
        };
        // An event's number is at most one more than its place.
        let mut place: Seq = after.saturating_sub(1);
        let mut events: Vec<Event> = Vec::new();
        let mut last = 0;
        loop {
            let page = self
                .door()
                .coordinator_events(&named, place, STRIDE)
                .await?;
            let is_end = page.len() < STRIDE;
            place += page.len() as Seq;
            for event in page {
                last = last.max(event.n);
                let is_wanted = event.n > after && event.body.is_replayable();
                if is_wanted && events.len() <= limit {
                    events.push(event);
                }
            }
            if is_end || events.len() > limit {
                if after > last {
                    return Err(unknown());
                }
                let is_complete = events.len() <= limit;
                events.truncate(limit);
                let next = events.last().map_or(after, |event| event.n);
                return Ok(QueueEvents {
                    events,
                    is_complete,
                    next,
                });
            }
        }
    }
}

fn too_deep() -> ApiError {
    let most = MAX_JSON_DEPTH - 1;
    let message = format!("nested more than {most} deep; flatten the outputs");
    ApiError::Invalid {
        what: "request",
        problems: Problem::new("/outputs", ProblemCode::TooDeep, message).into(),
    }
}

//! Queues of tasks: taking, heartbeats, output and ends, and how a queue stands.

mod settle;
mod work;

use std::time::Duration;

use kernel::coordinator::{
    Coordinator, CoordinatorCommand, CoordinatorEvent, Event, HandedOut, LeaseRule, Rejection,
    Standing, event_number, is_queue_name,
};
use kernel::ids::{Seq, WorkerId};
use kernel::time::Timestamp;

use super::error::Thing;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::authority::{self, beats};
use crate::door::CoordinatorName;
use crate::hints::Watch;
use crate::redact::Redactor;

pub use settle::Reported;
pub use work::{Assignment, Heartbeat, Taking};

/// How often a queue is looked at without a hint: other processes' hints do not reach us.
const LOOK: Duration = Duration::from_millis(500);
/// Events of a page that are read to find the place of a cursor.
const STRIDE: usize = 1_000;

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
        if is_queue_name(queue) {
            Ok(authority::named(&who.tenant, queue))
        } else {
            Err(ApiError::NotFound(Thing::Queue))
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
            let reason = Redactor::masking().text(reason).into_owned();
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

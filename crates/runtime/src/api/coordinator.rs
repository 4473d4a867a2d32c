//! Queues of tasks: taking, heartbeats, output, results, and the state of a queue.

mod settle;
mod work;

use std::time::Duration;

use kernel::coordinator::{
    Coordinator, CoordinatorCommand, CoordinatorEvent, CoordinatorStatus, Event, HandedOut,
    LeaseRule, Rejection, event_number, is_queue_name,
};
use kernel::ids::{Seq, WorkerId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::{ListQuery, Listed};

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::authority::{self, heartbeats};
use crate::door::CoordinatorName;
use crate::hints::Watch;
use crate::redact::Redactor;

pub use settle::Reported;
pub use work::{Assignment, Heartbeat, Taking};

/// How often a queue is polled: hints do not cross processes.
const LOOK: Duration = Duration::from_millis(500);
/// The most queues of a list.
const MAX_QUEUES: usize = 1_000;
/// Events read per page to find the place of a cursor.
const STRIDE: usize = 1_000;

/// A worker as shown to others.
#[derive(Clone, Debug)]
pub struct SeenWorker {
    /// The worker.
    pub worker: WorkerId,
    /// The time of its last heartbeat or take.
    pub last_seen: Option<Timestamp>,
    /// A task was taken from it, and no heartbeat arrived since.
    pub is_stalled: bool,
    /// The number of its assignments.
    pub assignments: usize,
}

/// The workers of a queue and their assignments.
#[derive(Clone, Debug)]
pub struct Workers {
    /// Workers that have received a task.
    pub workers: Vec<SeenWorker>,
    /// Open assignments, each with its last heartbeat.
    pub assignments: Vec<(HandedOut, Option<Timestamp>)>,
}

/// A page of the events of a queue.
#[derive(Clone, Debug)]
pub struct QueueEvents {
    /// Named events.
    pub events: Vec<Event>,
    /// Whether the page reaches the end.
    pub is_complete: bool,
    /// The number of the last event, or of the cursor.
    pub next: u64,
}

/// Waits for changes of a queue.
pub struct QueueWatch {
    hint: Watch,
}

impl QueueWatch {
    /// Waits until something may have changed. May return early.
    pub async fn changed(&mut self) {
        if let Ok(false) = tokio::time::timeout(LOOK, self.hint.changed()).await {
            // The sender of hints is gone: only polling remains.
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
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Queue))?;
        if is_queue_name(queue) {
            Ok(authority::named(&who.tenant, queue))
        } else {
            Err(ApiError::NotFound(ResourceKind::Queue))
        }
    }

    /// Watches a queue.
    ///
    /// # Errors
    /// A missing scope, or an invalid queue name.
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

    /// The queues of the caller's tenant that have had work, by name.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn queues(&self, who: &Principal) -> Result<Vec<Listed>, ApiError> {
        let resource = Resource::of_tenant(&who.tenant, What::Queue(String::new()));
        authorise(who, Action::ReadQueue, &resource)
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Queue))?;
        let query = ListQuery {
            tenant: Some(who.tenant.clone()),
            kind: Some(StreamKind::Coordinator),
            limit: MAX_QUEUES,
            ..ListQuery::default()
        };
        let mut queues = self.door().store().list(query).await?;
        queues.sort_by(|a, b| a.index.queue.cmp(&b.index.queue));
        Ok(queues)
    }

    /// The state of a queue.
    ///
    /// # Errors
    /// A missing scope, an invalid queue name, or the store's.
    pub async fn queue_standing(
        &self,
        who: &Principal,
        action: Action,
        queue: &str,
    ) -> Result<CoordinatorStatus, ApiError> {
        let named = self.queue(who, action, queue)?;
        let now = self.door().store().now();
        let look = |coordinator: &Coordinator| coordinator.standing(now, LeaseRule::Contract);
        Ok(self.door().look_at_coordinator(&named, look).await?)
    }

    /// Sends a command of the runtime contract to the coordinator of a queue.
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
        // The reason of a failed request goes into the log of the waiting run.
        if let CoordinatorCommand::MarkFailed { request_id, reason } = command {
            let reason = Redactor::masking().text(reason).into_owned();
            let request_id = request_id.clone();
            let failed = CoordinatorCommand::MarkFailed { request_id, reason };
            return Ok(self.door().command_queue(&named, &failed).await?);
        }
        Ok(self.door().command_queue(&named, command).await?)
    }

    /// The workers of a queue and their assignments.
    ///
    /// # Errors
    /// As [`Api::queue_standing`].
    pub async fn queue_workers(&self, who: &Principal, queue: &str) -> Result<Workers, ApiError> {
        let named = self.queue(who, Action::ReadQueue, queue)?;
        let (known, handed) = self
            .door()
            .look_at_coordinator(&named, |coordinator| {
                let handed: Vec<HandedOut> = coordinator.assigned().collect();
                (coordinator.known_workers(), handed)
            })
            .await?;
        let store = &**self.door().store();
        let mut workers = Vec::with_capacity(known.len());
        for worker in known {
            workers.push(SeenWorker {
                last_seen: heartbeats::last_seen(store, &named, &worker.worker).await?,
                worker: worker.worker,
                is_stalled: worker.is_stalled,
                assignments: worker.assignments,
            });
        }
        let mut assignments = Vec::with_capacity(handed.len());
        for out in handed {
            let heartbeat = heartbeats::last(store, &named, out.assignment).await?;
            assignments.push((out, heartbeat.map(|heartbeat| heartbeat.at)));
        }
        Ok(Workers {
            workers,
            assignments,
        })
    }

    /// Events of a queue after a cursor, at most `limit`.
    ///
    /// # Errors
    /// As [`Api::queue_standing`]; `UnknownEvent` if the cursor names no event.
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
        // An event's number exceeds its sequence by at most one.
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

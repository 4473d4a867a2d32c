//! Determines the awaited party of a worker node: the worker with its task, any worker of its
//! queue, or a condition of the queue before it assigns tasks.

use std::collections::BTreeMap;

use kernel::coordinator::{
    Blocker, Contract, Coordinator, LeaseRule, awaited_queue, awaited_request,
};
use kernel::ids::{InterruptId, WorkerId};
use kernel::run::Run;
use runtime::door::{CoordinatorName, Door};
use store::StoreError;

use super::worker_of;
use crate::text;

/// The awaited party of each waiting worker node.
pub(crate) type AllAwaited = BTreeMap<InterruptId, Awaited>;

/// The awaited party of a node.
#[derive(Debug)]
pub(crate) struct Awaited {
    queue: String,
    whom: Whom,
}

#[derive(Debug)]
enum Whom {
    /// It has the task.
    Worker(WorkerId),
    /// Whichever takes it.
    AnyWorker,
    /// Assignments are blocked, for these reasons.
    Queue(Vec<String>),
}

/// Reads the states of a run's queues.
pub(crate) async fn all(door: &Door, run: &Run) -> Result<AllAwaited, StoreError> {
    let mut all = AllAwaited::new();
    for open in run.facts().into_iter().flat_map(|facts| &facts.interrupts) {
        let Some(queue) = awaited_queue(&open.data) else {
            continue;
        };
        let named = CoordinatorName {
            tenant: run.header.tenant().clone(),
            name: queue.to_owned(),
            contract: Contract::Native,
        };
        let coordinator = door.coordinator(&named).await?;
        let request = awaited_request(&open.data);
        let mut handed = coordinator.assigned();
        let has_it = handed.find(|handed| Some(&handed.request) == request.as_ref());
        let whom = match has_it {
            Some(handed) => Whom::Worker(handed.worker),
            None => whom(&coordinator, door),
        };
        let queue = queue.to_owned();
        all.insert(open.id.clone(), Awaited { queue, whom });
    }
    Ok(all)
}

fn whom(coordinator: &Coordinator, door: &Door) -> Whom {
    let standing = coordinator.standing(door.store().now(), LeaseRule::Contract);
    // A pending replay does not block assignments.
    let hands_out =
        |blocker: &Blocker| matches!(blocker, Blocker::ReplayPending(_) | Blocker::UnknownCursor);
    if standing.blockers.iter().all(hands_out) {
        Whom::AnyWorker
    } else {
        Whom::Queue(standing.blockers.iter().map(ToString::to_string).collect())
    }
}

impl Awaited {
    /// With possible remedies.
    pub(crate) fn at_length(&self) -> String {
        match &self.whom {
            Whom::AnyWorker => worker_of(&self.queue),
            _ => self.in_short(),
        }
    }

    /// A short description.
    pub(crate) fn in_short(&self) -> String {
        let queue = &self.queue;
        match &self.whom {
            Whom::Worker(worker) => {
                let worker = text::one_line(worker.as_str(), 60);
                format!("the worker {worker} of the queue {queue}")
            }
            Whom::AnyWorker => format!("a worker of {queue}"),
            Whom::Queue(reasons) => {
                format!(
                    "the queue {queue}, which is not ready: {}",
                    reasons.join("; ")
                )
            }
        }
    }
}

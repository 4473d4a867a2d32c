//! The bounded queue from the router to the worker of a webhook.

use std::collections::VecDeque;
use std::sync::Arc;

use kernel::delivery::Item;
use kernel::ids::TenantId;
use kernel::registry::Webhook;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Events that wait in memory for a worker.
pub(super) const QUEUE: usize = 256;

/// An event at its position of the feed.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) position: u64,
    pub(super) item: Item,
}

/// The state shared by the router and the worker of a webhook.
pub(super) struct Lane {
    pub(super) tenant: TenantId,
    webhook: Mutex<Option<Arc<Webhook>>>,
    queue: Mutex<Queue>,
    pub(super) wake: Notify,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Everything up to here was taken by the worker or is in `jobs`.
    taken: u64,
    /// The router has offered everything up to here.
    offered: u64,
    /// Whether offers are ignored because the worker reads the feed itself.
    is_behind: bool,
}

impl Lane {
    /// A lane whose worker must read the feed first.
    pub(super) fn new(tenant: TenantId, webhook: Webhook) -> Self {
        let queue = Queue {
            is_behind: true,
            ..Queue::default()
        };
        Self {
            tenant,
            webhook: Mutex::new(Some(Arc::new(webhook))),
            queue: Mutex::new(queue),
            wake: Notify::new(),
        }
    }

    /// The current webhook; `None` if it was removed.
    pub(super) fn webhook(&self) -> Option<Arc<Webhook>> {
        self.webhook.lock().clone()
    }

    /// Updates the webhook after a change or removal.
    pub(super) fn set(&self, webhook: Option<&Webhook>) {
        *self.webhook.lock() = webhook.cloned().map(Arc::new);
        self.wake.notify_one();
    }

    /// Starts anew after a position.
    pub(super) fn begin(&self, cursor: u64) {
        let mut queue = self.queue.lock();
        queue.jobs.clear();
        queue.taken = cursor;
        queue.is_behind = true;
    }

    /// Offers an event of the router.
    pub(super) fn offer(&self, job: Job) {
        let mut queue = self.queue.lock();
        if queue.is_behind || job.position <= queue.taken {
            return;
        }
        if queue.jobs.len() >= QUEUE {
            queue.is_behind = true;
            return;
        }
        queue.taken = job.position;
        queue.jobs.push_back(job);
        drop(queue);
        self.wake.notify_one();
    }

    /// The router has processed everything up to a position.
    pub(super) fn passed(&self, position: u64) {
        let mut queue = self.queue.lock();
        queue.offered = queue.offered.max(position);
        if !queue.is_behind {
            queue.taken = queue.taken.max(position);
        } else if queue.jobs.is_empty() {
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// The position from which the worker must read the feed itself, if it must.
    pub(super) fn behind(&self) -> Option<u64> {
        let queue = self.queue.lock();
        (queue.is_behind && queue.jobs.is_empty()).then_some(queue.taken)
    }

    /// The worker has read the feed up to a position and found these events.
    pub(super) fn caught(&self, through: u64, jobs: Vec<Job>) {
        let mut queue = self.queue.lock();
        queue.jobs.extend(jobs);
        queue.taken = queue.taken.max(through);
        queue.is_behind = queue.taken < queue.offered;
    }

    /// At most `limit` events, and the position reached once they are settled.
    pub(super) fn take(&self, limit: usize) -> (Vec<Job>, u64) {
        let mut queue = self.queue.lock();
        let count = limit.min(queue.jobs.len());
        let jobs: Vec<Job> = queue.jobs.drain(..count).collect();
        let through = match (queue.jobs.is_empty(), jobs.last()) {
            (false, Some(last)) => last.position,
            _ => queue.taken,
        };
        (jobs, through)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kernel::registry::{WebhookSecret, WebhookSpec};
    use kernel::sealed::Sealed;
    use kernel::time::Timestamp;

    use super::*;

    fn lane() -> Lane {
        let sealed = Sealed {
            key: String::new(),
            nonce: String::new(),
            body: String::new(),
        };
        let webhook = Webhook {
            id: "wh".into(),
            spec: WebhookSpec {
                url: String::new(),
                events: BTreeSet::new(),
                tags: BTreeSet::new(),
                workspace: None,
                standard: false,
                contract: Default::default(),
            },
            secret: WebhookSecret {
                sealed,
                fingerprint: String::new(),
            },
            previous: None,
            created_at: Timestamp(0),
            rotated_at: None,
        };
        Lane::new("t".into(), webhook)
    }

    fn job(position: u64) -> Job {
        Job {
            position,
            item: Item {
                run_id: "run-1".into(),
                sequence: position,
                event_type: "x".into(),
            },
        }
    }

    fn taken(lane: &Lane, limit: usize) -> (Vec<u64>, u64) {
        let (jobs, through) = lane.take(limit);
        (jobs.iter().map(|job| job.position).collect(), through)
    }

    #[test]
    fn a_job_offered_while_the_worker_reads_comes_once() {
        let lane = lane();
        lane.begin(10);
        lane.offer(job(11));
        lane.offer(job(12));
        lane.passed(12);
        assert_eq!(lane.behind(), Some(10));
        // The worker read up to 11, then as far as the router.
        lane.caught(11, vec![job(11)]);
        assert_eq!(taken(&lane, 9), (vec![11], 11));
        assert_eq!(lane.behind(), Some(11));
        lane.caught(13, vec![job(12), job(13)]);
        assert_eq!(lane.behind(), None);
        // The router offers an event that the worker has read already, and a new one.
        lane.offer(job(13));
        lane.offer(job(14));
        lane.passed(20);
        assert_eq!(taken(&lane, 2), (vec![12, 13], 13));
        assert_eq!(taken(&lane, 2), (vec![14], 20));
        assert_eq!(taken(&lane, 2), (vec![], 20));
    }

    #[test]
    fn a_full_lane_lags_from_the_position_where_it_filled() {
        let lane = lane();
        lane.begin(0);
        lane.caught(0, Vec::new());
        let end = u64::try_from(QUEUE).unwrap() + 5;
        (1..=end).for_each(|position| lane.offer(job(position)));
        lane.passed(end);
        assert_eq!(lane.behind(), None, "there is something to do first");
        let (jobs, through) = taken(&lane, usize::MAX);
        assert_eq!((jobs.len(), through), (QUEUE, end - 5));
        assert_eq!(lane.behind(), Some(end - 5));
    }
}

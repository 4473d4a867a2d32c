//! Deliveries in progress. That of a notice may outlast the chunk that it began with: its events wait
//! in the log meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::delivery::{Facts, Item, Outcome, Sent};
use kernel::ids::StreamId;
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::StoreError;
use tokio::task::{Id, JoinSet};

/// The deliveries in progress of a webhook, one task per run.
#[derive(Default)]
pub(super) struct Flight {
    tasks: JoinSet<Result<(), StoreError>>,
    runs: HashMap<Id, Delivery>,
    /// Those that have ended since the results were last collected.
    landed: Vec<Delivery>,
    outcomes: Outcomes,
    failed: Option<StoreError>,
}

/// Results in their order.
pub(super) type Outcomes = Arc<Mutex<Vec<Outcome>>>;

/// The delivery of events of a run.
pub(super) struct Delivery {
    pub(super) run: StreamId,
    pub(super) items: Vec<Item>,
    /// Whether the events wait in the log.
    pub(super) are_waiting: bool,
}

impl Flight {
    /// Starts a delivery. Its results go to the given place.
    pub(super) fn start<F>(&mut self, delivery: Delivery, task: impl FnOnce(Outcomes) -> F)
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let task = self.tasks.spawn(task(self.outcomes.clone()));
        self.runs.insert(task.id(), delivery);
    }

    /// The number of deliveries in progress.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether events of a run are in progress.
    pub(super) fn has(&self, run: &StreamId) -> bool {
        let all = self.runs.values().chain(&self.landed);
        all.into_iter().any(|delivery| delivery.run == *run)
    }

    /// Whether events are in progress that do not wait in the log.
    pub(super) fn has_new(&self) -> bool {
        self.runs.values().any(|delivery| !delivery.are_waiting)
    }

    /// Whether a delivery has ended whose results are to be collected.
    pub(super) fn has_landed(&self) -> bool {
        !self.landed.is_empty()
    }

    /// Waits until a delivery ends. Returns at once if there is none.
    pub(super) async fn land(&mut self) {
        let (id, result) = match self.tasks.join_next_with_id().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => (error.id(), Err(StoreError::unavailable(error))),
            None => return,
        };
        self.landed.extend(self.runs.remove(&id));
        self.failed = result.err().or(self.failed.take());
    }

    /// The results since the last call. Events still in progress are to wait in the log.
    ///
    /// # Errors
    /// The store's.
    pub(super) fn collect(&mut self) -> Result<Vec<Outcome>, StoreError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut outcomes = std::mem::take(&mut *self.outcomes.lock());
        let all = self.runs.values().chain(&self.landed);
        let waiting: Vec<_> = all.filter(|delivery| delivery.are_waiting).collect();
        let waits = |item: &Item| waiting.iter().any(|delivery| delivery.run == item.run_id);
        outcomes.retain(|outcome| outcome.sent != Sent::Deferred || !waits(&outcome.item));
        for delivery in self
            .runs
            .values_mut()
            .filter(|delivery| !delivery.are_waiting)
        {
            delivery.are_waiting = true;
            for item in &delivery.items {
                if !outcomes.iter().any(|known| known.item == *item) {
                    outcomes.push(deferred(item.clone()));
                }
            }
        }
        self.landed.clear();
        Ok(outcomes)
    }

    /// When the next waiting event is due that is not in progress.
    pub(super) fn next_retry(&self, facts: &Facts) -> Option<Timestamp> {
        facts.next_retry(|run| !self.has(run))
    }
}

/// The result for an event that has to wait.
pub(super) fn deferred(item: Item) -> Outcome {
    let sent = Sent::Deferred;
    Outcome { item, sent }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(run: &str, sequence: u64) -> Item {
        Item {
            run_id: run.into(),
            sequence,
            event_type: "interrupt.requested".into(),
        }
    }

    #[tokio::test]
    async fn events_that_outlast_their_chunk_are_deferred_once() {
        let mut flight = Flight::default();
        let items = [1, 2, 3].map(|sequence| item("run-a", sequence));
        let delivery = Delivery {
            run: "run-a".into(),
            items: items.to_vec(),
            are_waiting: false,
        };
        let [first, second, third] = items.clone();
        let failed = || Sent::Failed { why: "no".into() };
        let result = |item: &Item, sent| Outcome {
            item: item.clone(),
            sent,
        };
        let (go, gone) = tokio::sync::oneshot::channel();
        let known = result(&first, Sent::Delivered);
        let rest = [result(&second, failed()), deferred(third.clone())];
        let begins = known.clone();
        flight.start(delivery, |outcomes| async move {
            outcomes.lock().push(begins);
            let _: Result<(), _> = gone.await;
            outcomes.lock().extend(rest);
            Ok(())
        });
        tokio::task::yield_now().await;
        let outcomes = flight.collect().expect("results");
        assert_eq!(outcomes, [known, deferred(second.clone()), deferred(third)]);
        assert!(flight.has(&"run-a".into()) && !flight.has_new());
        go.send(()).expect("the delivery waits");
        flight.land().await;
        assert!(flight.has_landed() && flight.has(&"run-a".into()));
        let outcomes = flight.collect().expect("results");
        assert_eq!(outcomes, [result(&second, failed())]);
        assert!(!flight.has(&"run-a".into()));
    }
}

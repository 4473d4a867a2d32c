//! One of the two stores, and the calls whose answers are not compared literally.

use std::sync::Arc;

use kernel::batch::Batch;
use kernel::time::Timestamp;

use super::answer::{self, answer, debug, same};
use crate::conformance::Bed;
use crate::memory::MemoryStore;
use crate::*;

/// One of the two stores.
pub(super) struct Side<'a> {
    bed: &'a dyn Bed,
    pub(super) store: Arc<dyn Store>,
    /// Where acknowledged appends ended, in order; the same appends on both sides.
    positions: Vec<Position>,
    delivered: Vec<u64>,
}

impl<'a> Side<'a> {
    pub(super) async fn open(bed: &'a dyn Bed, clock: Arc<ManualClock>) -> Self {
        let store = bed.open(clock).await;
        Self {
            bed,
            store,
            positions: Vec::new(),
            delivered: Vec::new(),
        }
    }

    pub(super) async fn reopen(&mut self, clock: Arc<ManualClock>) {
        // The old handle must be gone before the data is opened again, so this is a placeholder.
        self.store = Arc::new(MemoryStore::new(clock.clone()));
        self.store = self.bed.open(clock).await;
    }

    /// An append, answered by the feed's event at its position.
    pub(super) async fn append(
        &mut self,
        batch: Batch,
        guard: Guard,
        lease: LeaseChange,
    ) -> (String, Option<Lease>) {
        match self.store.append(batch, guard, lease).await {
            Err(error) => (format!("refused: {}", answer::refusal(&error)), None),
            Ok(done) => {
                self.positions.push(done.position);
                let just_before = Position(done.position.0 - 1);
                let event = self.store.feed(just_before, 2).await;
                (
                    format!("{:?}\n{}", done.lease, answer(event, answer::feed)),
                    done.lease,
                )
            }
        }
    }

    pub(super) async fn feed(&self, after: usize, limit: usize) -> String {
        let nth = self.positions.len().checked_sub(after);
        let after = nth
            .and_then(|nth| self.positions.get(nth))
            .copied()
            .unwrap_or_default();
        answer(self.store.feed(after, limit).await, answer::feed)
    }

    pub(super) async fn deliver(&mut self, now: &[usize], again: usize) -> String {
        let waiting = match self.store.outbox(8).await {
            Ok(waiting) => waiting,
            Err(error) => return answer::refusal(&error),
        };
        let mut places: Vec<_> = self.delivered.iter().rev().take(again).copied().collect();
        places.extend(
            now.iter()
                .filter_map(|nth| waiting.get(*nth))
                .map(|one| one.place),
        );
        let result = answer(self.store.delivered(&places).await, |()| "delivered".into());
        self.delivered.extend(&places);
        result
    }

    pub(super) async fn maintain(&self) -> String {
        for _ in 0..10_000 {
            match self.store.maintain().await {
                Ok(true) => {}
                Ok(false) => return "done".into(),
                Err(error) => return answer::refusal(&error),
            }
        }
        "maintain never ends".into()
    }
}

/// Compares the due streams and their order exactly, and `next_at` by its bounds.
pub(super) async fn same_due(
    clock: &ManualClock,
    queue: u64,
    limit: usize,
    a: &Side<'_>,
    b: &Side<'_>,
) -> Result<(), String> {
    let query = DueQuery {
        queue: format!("queue-{queue}"),
        limit,
    };
    let (left, right) = (a.store.due(query.clone()).await, b.store.due(query).await);
    if let (Ok(left), Ok(right)) = (&left, &right) {
        let ahead = |at: Timestamp| at > clock.now();
        let fits = match (left.next_at, right.next_at) {
            (Some(first), Some(at)) => ahead(at) && at <= first,
            (Some(_), None) => false,
            (None, at) => at.is_none_or(ahead),
        };
        if !fits {
            return same(debug(left), debug(right));
        }
    }
    let show = |answer: DueAnswer| debug(answer.ready);
    same(answer(left, show), answer(right, show))
}

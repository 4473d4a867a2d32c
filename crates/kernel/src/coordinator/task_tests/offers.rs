//! Takes with a key, and tasks that are only offered until their worker begins them.

use super::*;

impl World {
    /// Takes with a key, with the facts from the unique keys.
    fn take_under(&mut self, now: i64, worker: &str, key: &str) -> Vec<CoordinatorEvent> {
        let worker: WorkerId = worker.into();
        let namespace = memory_of_takes(&self.queue.header().stream);
        let name = take_name(&worker, key);
        let mut keys = self.batches.iter().flat_map(Batch::keys);
        let row = keys.find(|row| row.namespace == namespace && row.key == name);
        let recall = Recall {
            taken: row.and_then(|row| taken_before(row.answer.as_ref()?)),
            ..Recall::default()
        };
        let take = TaskCommand::Take {
            worker,
            max: 2,
            key: Some(key.into()),
        };
        let mut group = Group::new(self.queue.clone(), Timestamp(now));
        let said = group.tell_task(&take, recall.clone(), None).unwrap();
        // The same take may be sent twice at one moment.
        assert_eq!(group.tell_task(&take, recall, None), Ok(Vec::new()));
        if let (Some(batch), _) = group.seal().unwrap() {
            self.append(batch);
        }
        said.into_iter().map(|(_, event)| event).collect()
    }

    fn begin(&mut self, now: i64, out: &HandedOut) -> Result<Vec<CoordinatorEvent>, Rejection> {
        let (assignment, fence) = (out.assignment, out.fence);
        self.tell(now, TaskCommand::Begin { assignment, fence })
    }

    fn only(&self) -> HandedOut {
        let handed: Vec<HandedOut> = self.queue.assigned().collect();
        assert_eq!(handed.len(), 1);
        handed[0].clone()
    }
}

fn assigned(events: &[CoordinatorEvent]) -> usize {
    let is_it =
        |event: &&CoordinatorEvent| matches!(event, CoordinatorEvent::WorkerAssigned { .. });
    events.iter().filter(is_it).count()
}

#[test]
fn a_take_with_a_key_hands_out_once() {
    let mut world = World::new();
    for task in ["r-1", "r-2", "r-3"] {
        world.queue(0, task, TaskRepeat::Repeatable);
    }
    assert_eq!(assigned(&world.take_under(1, "w", "k-1")), 2);
    assert_eq!(assigned(&world.take_under(2, "w", "k-1")), 0);
    assert_eq!(assigned(&world.take_under(3, "other", "k-1")), 1);
    assert!(world.queue.assigned().all(|out| !out.offered));
}

#[test]
fn a_once_task_that_no_worker_began_is_reassigned() {
    let mut world = World::new();
    world.queue(0, "r-1", TaskRepeat::Once);
    world.take_under(1, "w", "k-1");
    let offered = world.only();
    assert!(offered.offered && offered.patience_ms() <= limits::MAX_TASK_OFFER_MS);
    let events = world.miss(20 * SECOND, &offered).unwrap();
    assert!(
        matches!(events.as_slice(), [CoordinatorEvent::WorkerReleased { .. }]),
        "{events:?}"
    );
    assert!(world.begin(21 * SECOND, &offered).is_err());
    assert_eq!(assigned(&world.take_under(22 * SECOND, "w", "k-2")), 1);
    assert_eq!(world.only().fence, 2);
}

#[test]
fn a_once_task_that_was_begun_and_lost_fails() {
    let mut world = World::new();
    world.queue(0, "r-1", TaskRepeat::Once);
    world.take_under(1, "w", "k-1");
    let offered = world.only();
    let events = world.begin(2, &offered).unwrap();
    assert!(matches!(
        events.as_slice(),
        [CoordinatorEvent::WorkerBegan { .. }]
    ));
    assert_eq!(world.begin(3, &offered).unwrap(), [], "said again");
    let begun = world.only();
    assert!(!begun.offered && begun.at == Timestamp(2));
    let events = world.miss(99 * SECOND, &begun).unwrap();
    assert!(
        matches!(events.last(), Some(CoordinatorEvent::DispatchFailed { reason, .. })
            if reason == "outcome_unknown"),
        "{events:?}"
    );
}

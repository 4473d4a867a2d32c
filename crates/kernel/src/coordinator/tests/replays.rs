//! Replays and folds.

use super::*;

#[test]
fn a_replay_counts_down_from_its_cursor() {
    let mut world = World::native();
    world.ok(acquire("a", 9));
    for id in ["a", "b", "c"] {
        world.ok(queue(id));
    }
    assert_eq!(world.code(mark("e1")), "no_replay");
    world.ok(replay(Some("e1")));
    assert_eq!(world.standing(0).pending_events, 3);
    assert_eq!(world.blockers(0), ["replay has 3 pending events"]);
    world.ok(mark("e2"));
    assert_eq!(world.standing(0).pending_events, 2);
    assert_eq!(world.standing(0).last_replayed.as_deref(), Some("e2"));

    let again = world.tell(0, mark("e2")).unwrap();
    assert!(again.batch.is_none(), "acknowledged once");
    assert_eq!(world.code(mark("e5")), "event_not_found");
    assert_eq!(world.code(mark("later")), "event_not_found");
    world.ok(mark("e4"));
    assert_eq!(world.blockers(0), [""; 0]);
    world.ok(queue("d"));
    assert_eq!(world.standing(0).pending_events, 1);
    world.ok(replay(None));
    assert_eq!(world.standing(0).cursor, None);
    assert_eq!(world.blockers(0), [""; 0]);
}

#[test]
fn a_cursor_that_names_nothing_keeps_it_from_being_ready() {
    for cursor in ["cursor-1", "e7", "e01", ""] {
        let mut world = World::native();
        world.ok(acquire("a", 9));
        world.ok(replay(Some(cursor)));
        assert_eq!(
            world.blockers(0),
            ["replay cursor names no known event"],
            "{cursor}"
        );
        assert_eq!(world.standing(0).cursor.as_deref(), Some(cursor));
    }
    let mut world = World::published();
    world.ok(acquire("a", 9));
    world.ok(replay(Some("cursor-1")));
    assert_eq!(world.blockers(0), [""; 0]);
}

#[test]
fn a_log_with_a_gap_or_another_count_does_not_fold() {
    let mut world = World::native();
    world.ok(queue("a"));
    world.ok(queue("b"));
    let records: Vec<Vec<u8>> = (world.batches.iter())
        .flat_map(|batch| batch.records())
        .map(|record| record.content.clone())
        .collect();
    let header = world.coordinator.header().clone();
    let mut gap = Coordinator::at_start(header.clone());
    assert!(gap.fold_content(&records[1]).is_none());
    let miscounted = String::from_utf8(records[0].clone())
        .unwrap()
        .replace("\"n\":1", "\"n\":2");
    let mut other = Coordinator::at_start(header);
    assert!(other.fold_content(miscounted.as_bytes()).is_none());
}

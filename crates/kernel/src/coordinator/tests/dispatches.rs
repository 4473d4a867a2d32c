//! Requests, messages and workers.

use super::*;

#[test]
fn a_request_moves_from_pending_by_notified_to_one_end() {
    for (end, counts) in [(deliver("r"), (1, 0)), (fail("r"), (0, 1))] {
        let mut world = World::native();
        world.ok(acquire("a", 9));
        world.ok(queue("r"));
        assert_eq!(world.standing(0).backlog.pending, 1);
        assert_eq!(world.code(end.clone()), "invalid_transition");
        world.ok(notify("r"));
        assert_eq!(world.standing(0).backlog.notified, 1);
        assert_eq!(world.code(notify("r")), "invalid_transition");
        world.ok(end);
        let backlog = world.standing(0).backlog;
        assert_eq!((backlog.delivered, backlog.failed), counts);
        assert_eq!((backlog.pending, backlog.notified), (0, 0));
        for late in [notify("r"), deliver("r"), fail("r")] {
            assert_eq!(world.code(late), "invalid_transition");
        }
    }
}

#[test]
fn without_a_live_authority_requests_stay_pending() {
    let mut world = World::native();
    world.ok(queue("r"));
    assert_eq!(world.code(notify("r")), "no_authority");
    world.ok(acquire("a", 1));
    let refused = world.tell(2 * MINUTE, notify("r")).unwrap_err();
    assert_eq!(refused.code(), "lease_expired");
    let assign = CoordinatorCommand::AssignWorker {
        worker: "w".into(),
        task_id: "r".into(),
    };
    let refused = world.tell(2 * MINUTE, assign).unwrap_err();
    assert_eq!(refused.code(), "lease_expired");
    assert_eq!(world.standing(2 * MINUTE).backlog.pending, 1);
}

#[test]
fn a_published_request_may_fail_before_delivery() {
    let mut world = World::published();
    world.ok(queue("r"));
    world.ok(fail("r"));
    world.ok(queue("s"));
    let refused = world.tell(0, deliver("s")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a request cannot change from pending to delivered"
    );
}

#[test]
fn an_id_is_never_used_again() {
    let mut world = World::published();
    for id in ["open", "ended", "removed", "compacted"] {
        world.ok(queue(id));
    }
    world.ok(fail("compacted"));
    world.ok(CoordinatorCommand::CompactDispatches);
    world.ok(fail("ended"));
    world.ok(remove(&["removed"]));
    for id in ["open", "ended", "removed", "compacted"] {
        assert_eq!(world.code(queue(id)), "duplicate_request");
    }
    assert_eq!(world.code(queue("")), "invalid_request_id");
    assert_eq!(world.code(queue("a\0b")), "invalid_request_id");
    assert_eq!(world.code(deliver("never")), "request_not_found");
}

#[test]
fn records_are_removed_all_or_none() {
    let mut world = World::published();
    for id in ["a", "b", "c", "d"] {
        world.ok(queue(id));
    }
    world.ok(fail("b"));
    world.ok(notify("c"));
    world.ok(deliver("c"));
    assert_eq!(world.code(remove(&["a", "x"])), "request_not_found");
    assert_eq!(world.code(remove(&["a", "a"])), "duplicate_request");
    assert_eq!(world.code(remove(&[])), "invalid_request_id");
    let removed = world.ok(remove(&["c", "b", "a"]));
    assert_eq!(
        removed,
        CoordinatorEvent::DispatchRemoved {
            request_ids: vec!["a".into(), "b".into(), "c".into()],
            delivered: 1,
            failed: 1,
        }
    );
    let left = Backlog {
        pending: 1,
        ..Backlog::default()
    };
    assert_eq!(world.standing(0).backlog, left);
    for late in [remove(&["a"]), deliver("b"), notify("c")] {
        assert_eq!(world.code(late), "request_not_found");
    }
}

#[test]
fn compaction_removes_settled_requests() {
    let mut world = World::published();
    world.ok(queue("a"));
    world.ok(queue("b"));
    world.ok(fail("a"));
    world.ok(CoordinatorCommand::CompactDispatches);
    assert_eq!(world.code(deliver("a")), "request_not_found");
    assert_eq!(world.standing(0).backlog.failed, 0);
    world.ok(fail("b"));
    assert_eq!(world.code(deliver("b")), "invalid_transition");
    let nothing = World::published().tell(0, CoordinatorCommand::CompactDispatches);
    assert!(nothing.unwrap().batch.is_none());
}

#[test]
fn a_message_is_read_once_and_may_be_notified_until_then() {
    let told = |id: &str| CoordinatorCommand::MarkMailNotified {
        message_id: id.into(),
    };
    let mut world = World::published();
    assert_eq!(world.code(read("m")), "message_not_found");
    world.ok(mail("m"));
    world.ok(told("m"));
    world.ok(told("m"));
    world.ok(read("m"));
    assert_eq!(world.code(told("m")), "message_delivered");
    assert_eq!(world.code(read("m")), "message_delivered");
    // A second message of the id can never be read: the id refers to the first.
    world.ok(mail("m"));
    assert_eq!(world.code(read("m")), "message_delivered");

    let mut world = World::native();
    world.ok(mail("m"));
    assert_eq!(world.code(mail("m")), "duplicate_message");
    assert_eq!(world.code(mail("")), "invalid_field");
}

#[test]
fn only_a_worker_that_was_given_a_task_stalls_and_recovers() {
    let stall = CoordinatorCommand::StallWorker {
        worker: "w".into(),
        reason: "silent".into(),
    };
    let recover = CoordinatorCommand::RecoverWorker {
        worker: "w".into(),
        recovery: "relaunch".into(),
    };
    let mut world = World::native();
    world.ok(acquire("a", 9));
    assert_eq!(world.code(stall.clone()), "worker_not_found");
    assert_eq!(world.code(recover.clone()), "worker_not_found");
    world.ok(CoordinatorCommand::AssignWorker {
        worker: "w".into(),
        task_id: "3".into(),
    });
    world.ok(stall);
    world.ok(recover);
}

use super::*;
use crate::batch::Batch;

const MINUTE: i64 = 60_000;

/// A coordinator, the log it is the fold of, and the unique keys its batches claimed.
struct World {
    coordinator: Coordinator,
    batches: Vec<Batch>,
    rule: LeaseRule,
}

impl World {
    fn new(contract: Contract) -> Self {
        Self {
            coordinator: Coordinator::unborn(&"t".into(), "c", contract, Timestamp(0)),
            batches: Vec::new(),
            rule: LeaseRule::Contract,
        }
    }

    fn native() -> Self {
        Self::new(Contract::Native)
    }

    fn published() -> Self {
        Self::new(Contract::Published)
    }

    /// What the store's keys say, as whoever decides brings it.
    fn recall(&self, command: &CoordinatorCommand) -> Recall {
        let stream = &self.coordinator.header().stream;
        let key = |namespace: &str, key: &str| {
            (self.batches.iter().flat_map(|batch| batch.keys()))
                .find(|claim| claim.namespace == namespace && claim.key == key)
        };
        let mut recall = Recall::default();
        for request in command.requests() {
            let known = |what| key(&memory_of_request(stream, what), request.as_str());
            if self.coordinator.is_open(request) || known(Remembered::Used).is_none() {
                continue;
            }
            let past = match known(Remembered::Removed) {
                Some(_) => PastDispatch::Removed,
                None => {
                    let ended = known(Remembered::Ended).expect("neither open nor ended");
                    PastDispatch::from_answer(ended.answer.as_ref().unwrap()).unwrap()
                }
            };
            recall.requests.insert(request.clone(), past);
        }
        if let Some(message) = command.mail() {
            let known = |what| key(&memory_of_mail(stream, what), message).is_some();
            recall.mail = match (known(Remembered::Ended), known(Remembered::Used)) {
                (true, _) => Some(PastMail::Delivered),
                (false, true) => Some(PastMail::Created),
                (false, false) => None,
            };
        }
        recall
    }

    fn tell(&mut self, at: i64, command: CoordinatorCommand) -> Result<Decision, Rejection> {
        let recall = self.recall(&command);
        let decision =
            (self.coordinator.clone()).decide(&command, &recall, self.rule, Timestamp(at))?;
        if let Some(batch) = &decision.batch {
            self.append(batch.clone());
        }
        Ok(decision)
    }

    /// Folds a batch, and holds what every batch keeps: the index row is that of the fold, and a
    /// checkpoint stands for the log before it.
    fn append(&mut self, batch: Batch) {
        if let Some(header) = batch.header() {
            self.coordinator = Coordinator::at_start(header.clone());
        }
        for record in batch.records() {
            let fresh = self.coordinator.fold_content(&record.content);
            assert!(fresh.is_some(), "a coordinator's event");
            assert_eq!(self.coordinator.chain(), record.chain);
        }
        assert_eq!(self.coordinator.index(), *batch.index());
        let saved = Coordinator::from_checkpoint(
            self.coordinator.header().clone(),
            self.coordinator.next_seq(),
            self.coordinator.chain(),
            &self.coordinator.checkpoint(),
        )
        .expect("a checkpoint of this build");
        assert_eq!(saved.state, self.coordinator.state);
        self.batches.push(batch);
    }

    fn ok(&mut self, command: CoordinatorCommand) -> CoordinatorEvent {
        self.tell(0, command).expect("accepted").event
    }

    fn code(&mut self, command: CoordinatorCommand) -> &'static str {
        self.tell(0, command).expect_err("refused").code()
    }

    fn standing(&self, at: i64) -> Standing {
        self.coordinator.standing(Timestamp(at), self.rule)
    }

    fn blockers(&self, at: i64) -> Vec<String> {
        let blockers = self.standing(at).blockers;
        blockers.iter().map(ToString::to_string).collect()
    }
}

fn lease(owner: &str, id: &str, minutes: i64) -> Lease {
    Lease {
        owner: owner.into(),
        lease_id: id.into(),
        leased_until: Timestamp(minutes * MINUTE).to_string(),
    }
}

fn acquire(owner: &str, minutes: i64) -> CoordinatorCommand {
    CoordinatorCommand::AcquireAuthority(lease(owner, "l", minutes))
}

fn renew(owner: &str, minutes: i64) -> CoordinatorCommand {
    CoordinatorCommand::RenewAuthority(lease(owner, "l2", minutes))
}

fn queue(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::QueueDispatch {
        request_id: id.into(),
        target: "w".into(),
        metadata: None,
    }
}

fn notify(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkNotified {
        request_id: id.into(),
        channel: "pane".into(),
    }
}

fn deliver(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkDelivered {
        request_id: id.into(),
    }
}

fn fail(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkFailed {
        request_id: id.into(),
        reason: "late".into(),
    }
}

fn remove(ids: &[&str]) -> CoordinatorCommand {
    CoordinatorCommand::RemoveDispatchRecords {
        request_ids: ids.iter().map(RequestId::new).collect(),
    }
}

fn mail(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::CreateMail {
        message_id: id.into(),
        from_worker: "a".into(),
        to_worker: "b".into(),
        body: "hello".into(),
    }
}

fn read(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkMailDelivered {
        message_id: id.into(),
    }
}

fn replay(cursor: Option<&str>) -> CoordinatorCommand {
    CoordinatorCommand::RequestReplay {
        cursor: cursor.map(Into::into),
    }
}

fn mark(event: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkReplayed {
        event_id: event.into(),
    }
}

fn beat(owner: &str, phase: &str) -> CoordinatorCommand {
    CoordinatorCommand::Heartbeat {
        owner: owner.into(),
        phase: phase.into(),
    }
}

#[test]
fn one_owner_at_a_time_until_its_lease_expires() {
    let mut world = World::native();
    assert_eq!(world.code(renew("a", 1)), "no_authority");
    world.ok(acquire("a", 1));
    assert_eq!(world.code(acquire("b", 9)), "lease_held");
    assert_eq!(world.code(renew("b", 9)), "owner_mismatch");
    world.ok(renew("a", 2));
    let last = 2 * MINUTE - 1;
    assert!(world.tell(last, acquire("b", 9)).is_err());
    assert!(!world.standing(last).is_stale);

    assert_eq!(
        world.blockers(last + 1),
        ["authority lease is stale: lease expired"]
    );
    world.tell(last + 1, acquire("b", 9)).expect("taken over");
    assert_eq!(world.blockers(last + 1), [""; 0]);
    let refused = world.tell(last + 1, renew("a", 99)).unwrap_err();
    assert_eq!(refused.code(), "owner_mismatch");
}

#[test]
fn a_lease_that_nobody_took_over_is_revived_by_its_owner() {
    let mut world = World::native();
    world.ok(acquire("a", 1));
    world.tell(5 * MINUTE, renew("a", 6)).expect("revived");
    assert!(!world.standing(5 * MINUTE).is_stale);
}

#[test]
fn a_released_authority_is_free() {
    let mut world = World::native();
    world.ok(acquire("a", 9));
    let release = |owner: &str| CoordinatorCommand::ReleaseAuthority {
        owner: owner.into(),
    };
    assert_eq!(world.code(release("b")), "owner_mismatch");
    world.ok(release("a"));
    assert_eq!(world.blockers(0), ["authority lease not acquired"]);
    world.ok(acquire("b", 9));
}

#[test]
fn a_native_lease_says_who_what_and_until_when() {
    let mut world = World::native();
    let lease = |owner: &str, lease_id: &str, leased_until: &str| {
        CoordinatorCommand::AcquireAuthority(Lease {
            owner: owner.into(),
            lease_id: lease_id.into(),
            leased_until: leased_until.into(),
        })
    };
    let until = "2030-01-01T00:00:00Z";
    for bad in [
        lease("", "l", until),
        lease("a", "", until),
        lease("a", "l", "soon"),
    ] {
        assert_eq!(world.code(bad), "invalid_field");
    }
    let mut world = World::published();
    world.ok(lease("", "", "soon"));
    assert_eq!(world.blockers(i64::MAX), [""; 0]);
}

#[test]
fn published_leases_expire_only_where_that_is_enforced() {
    let mut world = World::published();
    world.ok(acquire("a", 1));
    assert_eq!(world.blockers(9 * MINUTE), [""; 0]);
    assert!(world.tell(9 * MINUTE, acquire("b", 10)).is_err());
    world.rule = LeaseRule::Enforced;
    assert_eq!(
        world.blockers(9 * MINUTE),
        ["authority lease is stale: lease expired"]
    );
    world
        .tell(9 * MINUTE, acquire("b", 10))
        .expect("taken over");
}

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
fn a_published_request_may_fail_before_anybody_was_told() {
    let mut world = World::published();
    world.ok(queue("r"));
    world.ok(fail("r"));
    world.ok(queue("s"));
    let refused = world.tell(0, deliver("s")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a request that is pending does not become delivered"
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
fn compaction_takes_out_what_is_settled() {
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
    // A second message of the id never comes to be read: the id means the first.
    world.ok(mail("m"));
    assert_eq!(world.code(read("m")), "message_delivered");

    let mut world = World::native();
    world.ok(mail("m"));
    assert_eq!(world.code(mail("m")), "duplicate_message");
    assert_eq!(world.code(mail("")), "invalid_field");
}

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
fn a_heartbeat_is_logged_when_it_says_something_new() {
    let mut world = World::native();
    assert_eq!(world.code(beat("a", "plan")), "no_authority");
    world.ok(acquire("a", 60));
    let mut logged = |at: i64, phase: &str| {
        let decision = world.tell(at, beat("a", phase)).unwrap();
        decision.batch.is_some()
    };
    assert!(logged(0, "plan"));
    assert!(!logged(MINUTE - 1, "plan"));
    assert!(logged(MINUTE - 1, "execute"));
    assert!(!logged(2 * MINUTE - 2, "execute"));
    assert!(logged(2 * MINUTE - 1, "execute"));
    assert_eq!(world.code(beat("b", "plan")), "owner_mismatch");
    let late = world.tell(60 * MINUTE, beat("a", "plan")).unwrap_err();
    assert_eq!(late.code(), "lease_expired");
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

#[test]
fn a_deferred_leader_is_shown_until_it_is_told() {
    let mut world = World::native();
    world.ok(CoordinatorCommand::DeferLeaderNotification);
    assert!(world.standing(0).leader_deferred);
    let again = world.tell(0, CoordinatorCommand::DeferLeaderNotification);
    assert!(again.unwrap().batch.is_none());
    world.ok(CoordinatorCommand::ClearDeferredLeaderNotification);
    assert!(!world.standing(0).leader_deferred);
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

#[test]
fn an_import_goes_on_where_the_files_of_another_program_end() {
    let import = Import {
        commands: vec![
            acquire("a", 9),
            queue("open"),
            queue("done"),
            notify("done"),
            deliver("done"),
        ],
        mail: vec![
            ImportedMail {
                message_id: "m".into(),
                from_worker: "a".into(),
                to_worker: "b".into(),
                body: "hello".into(),
                created: Some("on Monday".into()),
                notified: Reached::Sometime,
                delivered: Reached::at(Some("on Tuesday".into())),
            },
            ImportedMail {
                message_id: "n".into(),
                from_worker: "a".into(),
                to_worker: "b".into(),
                body: "hello".into(),
                created: None,
                notified: Reached::No,
                delivered: Reached::at(None),
            },
        ],
        used: ["open", "done", "gone"].map(RequestId::new).into(),
    };
    let mut world = World::published();
    let batches = world
        .coordinator
        .clone()
        .import(import, Timestamp(5))
        .unwrap();
    for batch in batches {
        world.append(batch);
    }
    let log = world.batches.iter().flat_map(|batch| batch.records());
    let said: Vec<String> = log
        .filter_map(|record| {
            let event: serde_json::Value = serde_json::from_slice(&record.content).unwrap();
            let at = event["data"]["saidAt"].as_str()?;
            Some(format!("{} {at}", event["type"].as_str().unwrap()))
        })
        .collect();
    assert_eq!(
        said,
        ["mailbox.created on Monday", "mailbox.delivered on Tuesday"]
    );
    let backlog = world.standing(5).backlog;
    assert_eq!((backlog.pending, backlog.delivered), (1, 1));
    for id in ["open", "done", "gone"] {
        assert_eq!(world.code(queue(id)), "duplicate_request");
    }
    assert_eq!(world.code(deliver("gone")), "request_not_found");
    assert_eq!(world.code(deliver("done")), "invalid_transition");
    assert_eq!(world.code(read("m")), "message_delivered");
    world.ok(read("n"));
    world.ok(notify("open"));
}

#[test]
fn an_import_of_many_events_comes_in_several_batches() {
    let ids: Vec<String> = (0..6_000).map(|n| format!("r{n}")).collect();
    let import = Import {
        commands: (ids.iter()).flat_map(|id| [queue(id), fail(id)]).collect(),
        ..Import::default()
    };
    let mut world = World::published();
    let batches = world
        .coordinator
        .clone()
        .import(import, Timestamp(5))
        .unwrap();
    assert_eq!(batches.len(), 3);
    for batch in batches {
        world.append(batch);
    }
    assert_eq!(world.standing(5).backlog.failed, 6_000);
    assert_eq!(world.code(fail("r0")), "invalid_transition");
}

#[test]
fn an_import_of_what_cannot_have_happened_is_refused() {
    let import = Import {
        commands: vec![queue("r"), deliver("r")],
        ..Import::default()
    };
    let coordinator = World::published().coordinator;
    let refused = coordinator.import(import, Timestamp(0)).unwrap_err();
    assert_eq!(refused.code(), "invalid_transition");
}

mod offers;

use super::task::*;
use super::*;
use crate::batch::Batch;
use crate::ids::AttemptId;

const SECOND: i64 = 1_000;

#[test]
fn no_queue_has_a_name_of_dots_alone_but_logs_may_say_so() {
    let config = |queue: &str| serde_json::json!({ "queue": queue, "repeat": "once" });
    for name in [".", "..", "...."] {
        assert!(!is_queue_name(name), "{name}");
        assert!(WorkerConfig::from_config(&config(name)).is_some(), "{name}");
    }
    for name in [".a", "a.", "-", "..._..."] {
        assert!(is_queue_name(name), "{name}");
    }
    for name in ["", "a/b", "\u{e4}", &"a".repeat(65)] {
        assert!(!is_queue_name(name) && WorkerConfig::from_config(&config(name)).is_none());
    }
}

/// A queue with a live authority, and the batches decided on it.
struct World {
    queue: Coordinator,
    batches: Vec<Batch>,
}

impl World {
    fn without_authority() -> Self {
        Self {
            queue: Coordinator::unborn(&"t".into(), "q", Contract::Native, Timestamp(0)),
            batches: Vec::new(),
        }
    }

    fn new() -> Self {
        let mut world = Self::without_authority();
        world.authority("a", 0, 3_600 * SECOND).unwrap();
        world
    }

    fn authority(&mut self, owner: &str, now: i64, until: i64) -> Result<(), Rejection> {
        let lease = Lease {
            owner: owner.into(),
            lease_id: "l".into(),
            leased_until: Timestamp(until).to_string(),
        };
        let command = CoordinatorCommand::AcquireAuthority(lease);
        let recall = Recall::default();
        let queue = self.queue.clone();
        let decision = queue.decide(&command, &recall, LeaseRule::Contract, Timestamp(now))?;
        self.append(decision.batch.expect("an acquisition is news"));
        Ok(())
    }

    /// The fold of the written events equals the decided state, also from a checkpoint.
    fn append(&mut self, batch: Batch) {
        if let Some(header) = batch.header() {
            self.queue = Coordinator::at_start(header.clone());
        }
        for record in batch.records() {
            self.queue
                .fold_content(&record.content)
                .expect("what was decided folds");
        }
        let (next, chain) = (self.queue.next_seq(), self.queue.chain());
        let header = self.queue.header().clone();
        let bytes = self.queue.checkpoint();
        let kept = Coordinator::from_checkpoint(header, next, chain, &bytes).expect("a checkpoint");
        assert_eq!(kept.state, self.queue.state);
        self.queue = kept;
        self.batches.push(batch);
    }

    fn past(&self, command: &TaskCommand) -> Option<PastAssignment> {
        let namespace = memory_of_assignments(&self.queue.header().stream);
        let name = assignment_name(command.assignment()?);
        let mut keys = self.batches.iter().flat_map(Batch::keys);
        let key = keys.find(|key| key.namespace == namespace && key.key == name)?;
        serde_json::from_slice(key.answer.as_ref()?).ok()
    }

    fn has_used(&self, request: &RequestId) -> bool {
        let used = memory_of_request(&self.queue.header().stream, Remembered::Used);
        let mut keys = self.batches.iter().flat_map(Batch::keys);
        keys.any(|key| key.namespace == used && key.key == request.as_str())
    }

    fn tell(&mut self, now: i64, command: TaskCommand) -> Result<Vec<CoordinatorEvent>, Rejection> {
        let past = self.past(&command);
        let mut group = Group::new(self.queue.clone(), Timestamp(now));
        let said = group.tell_task(&command, Recall::default(), past)?;
        if let (Some(batch), _) = group.seal()? {
            self.append(batch);
        }
        Ok(said.into_iter().map(|(_, event)| event).collect())
    }

    fn queue(&mut self, now: i64, task: &str, repeat: TaskRepeat) -> Vec<CoordinatorEvent> {
        let command = TaskCommand::Queue {
            request_id: task.into(),
            payload: "{}".into(),
            terms: Box::new(terms(task, repeat)),
        };
        self.tell(now, command).unwrap()
    }

    fn take(&mut self, now: i64, worker: &str) -> Option<HandedOut> {
        let before: Vec<_> = self.queue.assigned().map(|out| out.assignment).collect();
        let worker = worker.into();
        self.tell(
            now,
            TaskCommand::Take {
                worker,
                max: 1,
                key: None,
            },
        )
        .unwrap();
        self.queue
            .assigned()
            .find(|out| !before.contains(&out.assignment))
    }

    fn miss(&mut self, now: i64, out: &HandedOut) -> Result<Vec<CoordinatorEvent>, Rejection> {
        let (assignment, fence) = (out.assignment, out.fence);
        let standing = self.queue.standing(Timestamp(now), LeaseRule::Contract);
        let owner = standing.lease.map(|lease| lease.owner).unwrap_or_default();
        let miss = |owner: String| TaskCommand::Miss {
            owner,
            assignment,
            fence,
        };
        let stranger = self.tell(now, miss(format!("not {owner}")));
        assert!(
            stranger.is_err(),
            "only who holds the authority misses anything"
        );
        self.tell(now, miss(owner))
    }

    fn report(&mut self, out: &HandedOut, end: TaskEnd) -> Result<(), Rejection> {
        let (assignment, fence) = (out.assignment, out.fence);
        let report = TaskCommand::Report {
            assignment,
            fence,
            end,
        };
        self.tell(2 * SECOND, report).map(drop)
    }

    fn backlog(&self) -> Backlog {
        let standing = self.queue.standing(Timestamp(0), LeaseRule::Contract);
        standing.backlog
    }

    /// The messages sent to runs, oldest first.
    fn told(&self) -> Vec<serde_json::Value> {
        let messages = self.batches.iter().flat_map(Batch::outbox);
        messages
            .map(|message| {
                assert_eq!(message.target.as_str(), "run-1");
                let message: crate::run::RunMessage =
                    serde_json::from_slice(&message.command).unwrap();
                assert!(message.envelope.message.is_some());
                match message.envelope.command {
                    crate::run::Command::Signal { payload, .. } => payload,
                    other => panic!("a run is told by signals, not {other:?}"),
                }
            })
            .collect()
    }
}

fn terms(task: &str, repeat: TaskRepeat) -> TaskTerms {
    TaskTerms {
        run: "run-1".into(),
        attempt: AttemptId {
            node: "n".into(),
            visit: 0,
            attempt: 0,
        },
        signal: task.into(),
        handing: Handing {
            repeat,
            heartbeat_timeout_ms: 1_000,
            max_assignments: 3,
        },
    }
}

fn outputs() -> TaskEnd {
    TaskEnd::Outputs(r#"{"x":1}"#.into())
}

#[test]
fn tasks_go_out_in_order_one_worker_each_and_end_once() {
    let mut world = World::new();
    world.queue(0, "t1", TaskRepeat::Repeatable);
    world.queue(0, "t2", TaskRepeat::Repeatable);
    let first = world.take(1, "w1").unwrap();
    let second = world.take(1, "w2").unwrap();
    assert_eq!((first.request.as_str(), first.fence), ("t1", 1));
    assert_eq!((second.request.as_str(), second.fence), ("t2", 1));
    assert!(world.take(1, "w3").is_none());
    world.report(&first, outputs()).unwrap();
    assert_eq!(world.told(), [json!({ "outputs": { "x": 1 } })]);
    // A late report is rejected with the end of the assignment.
    let again = world.report(&first, outputs());
    let settled = Rejection::NoAssignment(Some(AssignmentEnd::Delivered));
    assert_eq!(again, Err(settled));
    let error = TaskError {
        code: "bad".into(),
        message: "no".into(),
        retryable: Some(false),
    };
    world.report(&second, TaskEnd::Error(error)).unwrap();
    assert_eq!(
        world.told()[1],
        json!({ "error": { "code": "bad", "message": "no", "retryable": false } })
    );
    let backlog = world.backlog();
    assert_eq!((backlog.delivered, backlog.failed), (1, 1));
    assert_eq!((backlog.pending, backlog.notified), (0, 0));
}

#[test]
fn a_lost_workers_task_is_reassigned_and_its_report_refused() {
    let mut world = World::new();
    world.queue(0, "t", TaskRepeat::Repeatable);
    let first = world.take(0, "w1").unwrap();
    let events = world.miss(SECOND, &first).unwrap();
    assert!(
        matches!(&events[..], [CoordinatorEvent::WorkerStalled { worker, .. }]
        if worker.as_str() == "w1")
    );
    assert!(world.queue.is_stalled(&"w1".into()));
    let second = world.take(SECOND, "w2").unwrap();
    assert_eq!((second.request.as_str(), second.fence), ("t", 2));
    let late = world.report(&first, outputs());
    let lost = Rejection::NoAssignment(Some(AssignmentEnd::Lost));
    assert_eq!(late, Err(lost));
    assert!(world.told().is_empty(), "nobody was told by a zombie");
    // A guessed number is rejected.
    let guessed = HandedOut {
        fence: 7,
        ..second.clone()
    };
    assert_eq!(
        world.report(&guessed, outputs()),
        Err(Rejection::NoAssignment(None))
    );
    world.report(&second, outputs()).unwrap();
    assert_eq!(world.told().len(), 1);
}

#[test]
fn a_worker_that_comes_back_is_recovered_once() {
    let mut world = World::new();
    for task in ["t1", "t2"] {
        world.queue(0, task, TaskRepeat::Repeatable);
    }
    let lost = world.take(0, "w").unwrap();
    world.miss(SECOND, &lost).unwrap();
    let worker: WorkerId = "w".into();
    let take = TaskCommand::Take {
        worker: worker.clone(),
        max: 2,
        key: None,
    };
    let events = world.tell(SECOND, take).unwrap();
    let recovered = |event: &&CoordinatorEvent| matches!(event, CoordinatorEvent::WorkerRecovered { recovery, .. } if recovery == "take");
    assert_eq!(events.iter().filter(recovered).count(), 1, "{events:?}");
    assert!(!world.queue.is_stalled(&worker));
    // A worker whose heartbeat arrives although its task is gone.
    let out = world.queue.assigned().next().unwrap();
    world.miss(3 * SECOND, &out).unwrap();
    let heard = TaskCommand::Hear {
        assignment: out.assignment,
        recovery: "heartbeat".into(),
        worker,
    };
    assert_eq!(world.tell(3 * SECOND, heard.clone()).unwrap().len(), 1);
    assert!(world.tell(3 * SECOND, heard).unwrap().is_empty());
}

#[test]
fn a_task_that_must_not_be_repeated_fails_with_its_worker() {
    let mut world = World::new();
    world.queue(0, "t", TaskRepeat::Once);
    let out = world.take(0, "w").unwrap();
    world.miss(SECOND, &out).unwrap();
    let told = world.told();
    assert_eq!(told[0]["error"]["code"], "outcome_unknown");
    assert_eq!(told[0]["error"]["retryable"], false);
    assert!(world.take(SECOND, "w2").is_none());
    assert_eq!(world.backlog().failed, 1);
}

#[test]
fn a_task_fails_after_losing_three_workers() {
    let mut world = World::new();
    world.queue(0, "t", TaskRepeat::Repeatable);
    for fence in 1..=3 {
        assert!(world.told().is_empty());
        let out = world.take(0, "w").unwrap();
        assert_eq!(out.fence, fence);
        world.miss(SECOND, &out).unwrap();
    }
    assert_eq!(world.told()[0]["error"]["code"], "worker_lost");
}

#[test]
fn a_released_task_is_reassigned_and_not_counted_as_lost() {
    let mut world = World::new();
    world.queue(0, "t", TaskRepeat::Repeatable);
    for fence in 1..=5 {
        let out = world.take(0, "w").unwrap();
        assert_eq!(out.fence, fence);
        let (assignment, fence) = (out.assignment, out.fence);
        world
            .tell(0, TaskCommand::Release { assignment, fence })
            .unwrap();
        let late = world.report(&out, outputs());
        let released = Rejection::NoAssignment(Some(AssignmentEnd::Released));
        assert_eq!(late, Err(released));
    }
    assert_eq!(world.backlog().notified, 1);
}

#[test]
fn without_a_live_authority_no_task_goes_out_and_it_logs_once() {
    let mut world = World::without_authority();
    let events = world.queue(0, "t", TaskRepeat::Repeatable);
    let blocked = |event: &CoordinatorEvent| {
        matches!(event, CoordinatorEvent::BlockedOnSystem { reason, .. }
            if reason == "authority lease not acquired")
    };
    assert!(events.last().is_some_and(blocked), "{events:?}");
    let take = |worker: &str| TaskCommand::Take {
        worker: worker.into(),
        max: 1,
        key: None,
    };
    assert!(world.tell(0, take("w")).unwrap().is_empty());
    assert_eq!(world.backlog().pending, 1);

    world.authority("a", 0, SECOND).unwrap();
    // An expired lease is treated like a missing one.
    let events = world.tell(SECOND, take("w")).unwrap();
    assert!(
        matches!(&events[..], [CoordinatorEvent::BlockedOnSystem { owner, reason }]
            if owner == "a" && reason.contains("stale")),
        "{events:?}"
    );
    let out_of_time = world.tell(SECOND, take("w")).unwrap();
    assert!(out_of_time.is_empty());
    world.authority("b", SECOND, 5 * SECOND).unwrap();
    let out = world.take(2 * SECOND, "w").unwrap();
    // The holder of an expired lease cannot take a task from a worker either.
    let missed = world.miss(5 * SECOND, &out);
    assert_eq!(missed, Err(Rejection::LeaseExpired));
}

#[test]
fn a_withdrawn_task_vanishes_or_fails_if_assigned() {
    let mut world = World::new();
    world.queue(0, "t1", TaskRepeat::Repeatable);
    world.queue(0, "t2", TaskRepeat::Repeatable);
    let out = world.take(0, "w").unwrap();
    for task in ["t1", "t2", "t3"] {
        let request_id = task.into();
        world.tell(0, TaskCommand::Withdraw { request_id }).unwrap();
    }
    let backlog = world.backlog();
    assert_eq!(
        (backlog.pending, backlog.notified, backlog.failed),
        (0, 0, 1)
    );
    let late = world.report(&out, outputs());
    let withdrawn = Rejection::NoAssignment(Some(AssignmentEnd::Withdrawn));
    assert_eq!(late, Err(withdrawn));
    assert!(world.told().is_empty());
}

#[test]
fn a_run_is_notified_of_an_end_by_command() {
    let mut world = World::new();
    for task in ["t1", "t2", "t3"] {
        world.queue(0, task, TaskRepeat::Repeatable);
    }
    let mut command = |command: CoordinatorCommand| {
        let queue = world.queue.clone();
        let decision = queue
            .decide(
                &command,
                &Recall::default(),
                LeaseRule::Contract,
                Timestamp(0),
            )
            .unwrap();
        world.append(decision.batch.unwrap());
    };
    for task in ["t1", "t2"] {
        command(CoordinatorCommand::MarkNotified {
            request_id: task.into(),
            channel: "c".into(),
        });
    }
    command(CoordinatorCommand::MarkDelivered {
        request_id: "t1".into(),
    });
    command(CoordinatorCommand::MarkFailed {
        request_id: "t2".into(),
        reason: "late".into(),
    });
    command(CoordinatorCommand::RemoveDispatchRecords {
        request_ids: vec!["t3".into()],
    });
    let told = world.told();
    assert_eq!(told[0], json!({ "outputs": {} }));
    assert_eq!(told[1]["error"]["code"], "dispatch_failed");
    assert_eq!(told[2]["error"]["code"], "dispatch_removed");
    assert!(world.take(0, "w").is_none());
}

#[test]
fn a_request_for_one_worker_goes_to_no_other() {
    let mut world = World::new();
    let queued = CoordinatorCommand::QueueDispatch {
        request_id: "r".into(),
        target: "w2".into(),
        metadata: None,
    };
    let queue = world.queue.clone();
    let decision = queue
        .decide(
            &queued,
            &Recall::default(),
            LeaseRule::Contract,
            Timestamp(0),
        )
        .unwrap();
    world.append(decision.batch.unwrap());
    assert!(world.take(0, "w1").is_none());
    assert!(world.take(0, "w2").is_some());
}

#[test]
fn workers_names_are_names_and_many_workers_are_no_end() {
    let mut world = World::new();
    let long = "w".repeat(257);
    for worker in ["", "a\nb", long.as_str()] {
        let worker = worker.into();
        let refused = world.tell(
            0,
            TaskCommand::Take {
                worker,
                max: 1,
                key: None,
            },
        );
        assert_eq!(refused, Err(Rejection::InvalidField("worker")));
    }
    assert!(assignment_number("a-7") == Some(7));
    for name in ["7", "a-", "a-07", "a--7", "a-x"] {
        assert_eq!(assignment_number(name), None, "{name}");
    }
}

/// All at once, or one after another: the same log.
#[test]
fn batched_commands_are_decided_in_sequence() {
    let queued = |task: &str| TaskCommand::Queue {
        request_id: task.into(),
        payload: "{}".into(),
        terms: Box::new(terms(task, TaskRepeat::Repeatable)),
    };
    let take = |worker: &str| TaskCommand::Take {
        worker: worker.into(),
        max: 1,
        key: None,
    };
    let withdraw = |task: &str| TaskCommand::Withdraw {
        request_id: task.into(),
    };
    // `a` is assigned by the event at sequence 6, after the authority, two requests and the end of
    // one of them.
    let report = |fence| TaskCommand::Report {
        assignment: 6,
        fence,
        end: outputs(),
    };
    let orders = [
        queued("a"),
        queued("a"),
        queued("b"),
        withdraw("b"),
        queued("b"),
        take(""),
        queued("c"),
        take("w1"),
        take("w2"),
        report(2),
        report(1),
        report(1),
        take("w3"),
    ];
    let mut alone = World::new();
    let mut answers = Vec::new();
    for order in &orders {
        // As recalled by the door: a used id that is not open has ended.
        let said = match order {
            TaskCommand::Queue { request_id, .. } if alone.has_used(request_id) => {
                Err(Rejection::DuplicateRequest(request_id.clone()))
            }
            order => alone.tell(0, order.clone()),
        };
        answers.push(said);
    }
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 5);

    let mut together = World::new();
    let mut group = Group::new(together.queue.clone(), Timestamp(0));
    for (order, expected) in orders.iter().zip(answers) {
        let said = group.tell_task(order, Recall::default(), None);
        let said = said.map(|said| said.into_iter().map(|(_, event)| event).collect());
        assert_eq!(said, expected, "{order:?}");
    }
    let (batch, _) = group.seal().unwrap();
    together.append(batch.expect("one batch"));
    assert_eq!(together.queue.state, alone.queue.state);
    let contents = |world: &World| -> Vec<Vec<u8>> {
        let records = world.batches.iter().flat_map(Batch::records);
        records.map(|record| record.content.clone()).collect()
    };
    assert_eq!(contents(&together), contents(&alone));
    assert_eq!(together.told(), alone.told());
}

//! Golden logs of coordinators: every build must read them and decide them in the same way.
//!
//! They are in `golden/v1/coordinators`: `NAME.jsonl` has the header on its first line and one
//! event per further line; `NAME.state.json` is the folded state at the time of the last event.

#![expect(
    clippy::disallowed_methods,
    reason = "golden logs lie in files; the kernel itself reads none"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kernel::batch::Batch;
use kernel::coordinator::{
    Contract, Coordinator, CoordinatorCommand, Event, Group, Handing, Import, ImportedEntry,
    ImportedMail, Lease, LeaseRule, PastDispatch, Reached, Recall, TaskCommand, TaskEnd, TaskError,
    TaskRepeat, TaskTerms,
};
use kernel::ids::{AttemptId, RequestId, Seq};
use kernel::json;
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000_000;

/// A coordinator that receives commands, and its log.
struct Scenario {
    name: &'static str,
    coordinator: Coordinator,
    header: StreamHeader,
    contents: Vec<Vec<u8>>,
    settled: Recall,
    now: i64,
}

impl Scenario {
    fn new(name: &'static str, contract: Contract) -> Self {
        let coordinator = Coordinator::unborn(&"acme".into(), name, contract, Timestamp(NOW));
        Self {
            name,
            header: coordinator.header().clone(),
            coordinator,
            contents: Vec::new(),
            settled: Recall::default(),
            now: NOW,
        }
    }

    fn append(&mut self, batch: &Batch) {
        let records = batch.records().iter();
        self.contents
            .extend(records.map(|record| record.content.clone()));
    }

    fn begin(&mut self, batch: &Batch) {
        self.append(batch);
        for record in batch.records() {
            let folded = self.coordinator.fold_content(&record.content);
            folded.expect("what was decided folds");
        }
    }

    fn take_over(&mut self, import: Import) {
        let born = self.coordinator.clone();
        self.begin(&born.import(import, Timestamp(NOW)).expect("it is allowed"));
    }

    fn tell(&mut self, command: CoordinatorCommand) {
        self.now += 1_000;
        let mut group = Group::new(self.coordinator.clone(), Timestamp(self.now));
        let recall = self.settled.clone();
        group
            .tell(&command, recall, LeaseRule::Contract)
            .expect("it is allowed");
        let (batch, after) = group.seal().expect("it fits");
        self.append(&batch.expect("it is news"));
        self.coordinator = after;
    }

    fn say(&mut self, command: &TaskCommand) {
        self.now += 1_000;
        let mut group = Group::new(self.coordinator.clone(), Timestamp(self.now));
        group
            .tell_task(command, Recall::default(), None)
            .expect("it is allowed");
        let (batch, after) = group.seal().expect("it fits");
        self.append(&batch.expect("it is news"));
        self.coordinator = after;
    }

    fn queue(&mut self, id: &str) {
        self.tell(CoordinatorCommand::QueueDispatch {
            request_id: id.into(),
            target: "worker-2".into(),
            metadata: Some(r#"{"kind":"inbox","n":1e2}"#.into()),
        });
    }

    fn notify(&mut self, id: &str) {
        self.tell(CoordinatorCommand::MarkNotified {
            request_id: id.into(),
            channel: "tmux".into(),
        });
    }

    fn deliver(&mut self, id: &str) {
        let seq = self.coordinator.next_seq();
        self.tell(CoordinatorCommand::MarkDelivered {
            request_id: id.into(),
        });
        let status = kernel::coordinator::DispatchStatus::Delivered;
        let past = PastDispatch::Settled { status, seq };
        self.settled.requests.insert(id.into(), past);
    }

    fn mail(&mut self, id: &str) {
        self.tell(CoordinatorCommand::CreateMail {
            message_id: id.into(),
            from_worker: "lead".into(),
            to_worker: "worker-2".into(),
            body: "how far are you?".into(),
        });
    }

    /// The sequence of the last assignment, and its fence.
    fn last_assignment(&self) -> (Seq, u32) {
        let last = self.coordinator.assigned().last().expect("a hand-out");
        (last.assignment, last.fence)
    }
}

fn lease(owner: &str, id: &str, at: i64) -> Lease {
    Lease {
        owner: owner.into(),
        lease_id: id.into(),
        leased_until: Timestamp(at + 60_000).to_string(),
    }
}

fn entry(command: CoordinatorCommand) -> ImportedEntry {
    ImportedEntry {
        command: Some(command),
        text: String::new(),
    }
}

/// The native rules after a log of the published ones, with entries that have no effect here.
fn taken_over() -> Scenario {
    use CoordinatorCommand as C;
    let mut scene = Scenario::new("taken_over", Contract::Native);
    let queue = |id: &str| C::QueueDispatch {
        request_id: id.into(),
        target: String::new(),
        metadata: None,
    };
    let failed = C::MarkFailed {
        request_id: "old".into(),
        reason: "gone".into(),
    };
    let unknown = ImportedEntry {
        command: None,
        text: r#"{"event": "SomethingNew", "field": 1e2}"#.into(),
    };
    let other = ImportedEntry {
        text: r#"{"event":"AuthorityAcquired","owner":"b"}"#.into(),
        ..entry(C::AcquireAuthority(lease("b", "l", NOW)))
    };
    scene.take_over(Import {
        entries: vec![
            entry(C::AcquireAuthority(Lease {
                leased_until: "some day".into(),
                ..lease("a", "l", NOW)
            })),
            other,
            unknown,
            entry(queue("old")),
            entry(failed),
            entry(queue("open")),
        ],
        used: ["old", "open"].map(RequestId::new).into(),
        ..Import::default()
    });
    scene.tell(C::AcquireAuthority(lease("c", "l1", NOW)));
    scene.notify("open");
    scene
}

/// A log that was begun only to record its contract.
fn opened() -> Scenario {
    let mut scene = Scenario::new("opened", Contract::Native);
    let batch = scene.coordinator.clone().open(Timestamp(NOW));
    scene.begin(&batch);
    scene.queue("r1");
    scene
}

fn scenarios() -> [Scenario; 5] {
    [published(), native(), taken_over(), opened(), offered()]
}

/// Commands of the published contract's clients, following the files of another program.
fn published() -> Scenario {
    use CoordinatorCommand as C;
    let mut scene = Scenario::new("published", Contract::Published);
    let import = Import {
        entries: vec![
            entry(C::QueueDispatch {
                request_id: "old".into(),
                target: "worker-1".into(),
                metadata: None,
            }),
            entry(C::MarkFailed {
                request_id: "old".into(),
                reason: "gone".into(),
            }),
        ],
        mail: vec![ImportedMail {
            message_id: "m-0".into(),
            from_worker: "lead".into(),
            to_worker: "worker-1".into(),
            body: "hello".into(),
            created: Some("2026-03-19T02:00:00.000Z".into()),
            notified: Reached::At("2026-03-19T02:00:01.000Z".into()),
            delivered: Reached::Sometime,
        }],
        used: ["old", "older"].map(RequestId::new).into(),
    };
    scene.take_over(import);
    scene.tell(C::AcquireAuthority(lease("w1", "l1", NOW)));
    scene.tell(C::RenewAuthority(lease("w1", "l2", NOW + 60_000)));
    for id in ["r1", "r2", "r3"] {
        scene.queue(id);
    }
    scene.notify("r1");
    scene.deliver("r1");
    scene.tell(C::MarkFailed {
        request_id: "r2".into(),
        reason: "timeout".into(),
    });
    scene.tell(C::RemoveDispatchRecords {
        request_ids: vec!["r1".into(), "r3".into()],
    });
    scene.tell(C::CompactDispatches);
    scene.mail("m-1");
    scene.tell(C::MarkMailNotified {
        message_id: "m-1".into(),
    });
    scene.tell(C::MarkMailDelivered {
        message_id: "m-1".into(),
    });
    scene.tell(C::RequestReplay {
        cursor: Some("cursor-1".into()),
    });
    scene.tell(C::CaptureSnapshot);
    scene
}

/// A queue: tasks that are assigned, returned, lost, done and failed, and a replay.
fn native() -> Scenario {
    use CoordinatorCommand as C;
    let mut scene = Scenario::new("native", Contract::Native);
    let take = |worker: &str| TaskCommand::Take {
        worker: worker.into(),
        max: 1,
        key: None,
    };
    scene.say(&task("t1", TaskRepeat::Repeatable));
    scene.tell(C::AcquireAuthority(lease("a", "l1", NOW)));
    for (id, repeat) in [("t2", TaskRepeat::Once), ("t3", TaskRepeat::Repeatable)] {
        scene.say(&task(id, repeat));
    }
    scene.say(&take("w1"));
    let (assignment, fence) = scene.last_assignment();
    scene.say(&TaskCommand::Release { assignment, fence });
    scene.say(&take("w1"));
    let (assignment, fence) = scene.last_assignment();
    let owner = "a".to_owned();
    scene.say(&TaskCommand::Miss {
        owner,
        assignment,
        fence,
    });
    // It reports again with its next take.
    scene.say(&take("w1"));
    let (assignment, fence) = scene.last_assignment();
    scene.say(&TaskCommand::Report {
        assignment,
        fence,
        end: TaskEnd::Outputs(r#"{"pages":3}"#.into()),
    });
    scene.say(&take("w2"));
    let (assignment, fence) = scene.last_assignment();
    let error = TaskError {
        code: "no_space".into(),
        message: "the disk is full".into(),
        retryable: Some(false),
    };
    scene.say(&TaskCommand::Report {
        assignment,
        fence,
        end: TaskEnd::Error(error),
    });
    scene.say(&TaskCommand::Withdraw {
        request_id: "t3".into(),
    });
    let (owner, reason) = ("a".to_owned(), "needs-user-clarification".to_owned());
    let phase = "execute".to_owned();
    scene.tell(C::Heartbeat {
        owner: owner.clone(),
        phase,
    });
    scene.tell(C::BlockOnUser {
        owner: owner.clone(),
        reason,
    });
    scene.tell(C::RequestReplay {
        cursor: Some("e3".into()),
    });
    scene.tell(C::MarkReplayed {
        event_id: "e5".into(),
    });
    scene.tell(C::DeferLeaderNotification);
    scene.tell(C::ClearDeferredLeaderNotification);
    scene.say(&task("t4", TaskRepeat::Repeatable));
    scene.say(&take("w3"));
    scene.tell(C::ReleaseAuthority { owner });
    scene.say(&task("t5", TaskRepeat::Repeatable));
    scene
}

/// A task of a run.
fn task(id: &str, repeat: TaskRepeat) -> TaskCommand {
    TaskCommand::Queue {
        request_id: id.into(),
        payload: r#"{"page":3}"#.into(),
        terms: Box::new(TaskTerms {
            run: "run-1".into(),
            attempt: AttemptId {
                node: "n".into(),
                visit: 0,
                attempt: 0,
            },
            signal: id.into(),
            handing: Handing {
                repeat,
                heartbeat_timeout_ms: 1_000,
                max_assignments: 3,
            },
        }),
    }
}

/// Tasks that must not be repeated, taken with keys: one is not begun in time, one is.
fn offered() -> Scenario {
    let mut scene = Scenario::new("offered", Contract::Native);
    let take = |key: &str| TaskCommand::Take {
        worker: "w1".into(),
        max: 1,
        key: Some(key.into()),
    };
    scene.tell(CoordinatorCommand::AcquireAuthority(lease("a", "l1", NOW)));
    scene.say(&task("t1", TaskRepeat::Once));
    scene.say(&take("k1"));
    let (assignment, fence) = scene.last_assignment();
    scene.say(&TaskCommand::Miss {
        owner: "a".to_owned(),
        assignment,
        fence,
    });
    scene.say(&take("k2"));
    let (assignment, fence) = scene.last_assignment();
    scene.say(&TaskCommand::Begin { assignment, fence });
    scene.say(&TaskCommand::Report {
        assignment,
        fence,
        end: TaskEnd::Outputs("{}".into()),
    });
    scene.say(&task("t2", TaskRepeat::Once));
    scene.say(&take("k3"));
    scene
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/coordinators")
}

fn adds() -> bool {
    std::env::var("RUNWRIGHT_GOLDEN").as_deref() == Ok("add")
}

fn events(contents: &[Vec<u8>]) -> Vec<Event> {
    let events = contents
        .iter()
        .map(|content| serde_json::from_slice(content));
    events.collect::<Result<_, _>>().expect("events")
}

/// The state of a log: the snapshot, and its tasks and workers.
fn state(coordinator: &Coordinator, now: Timestamp) -> Value {
    let standing = coordinator.standing(now, LeaseRule::Contract);
    let workers = coordinator.known_workers();
    let handed: Vec<Value> = coordinator
        .assigned()
        .map(|out| {
            json!({ "assignment": out.assignment, "request": out.request, "worker": out.worker,
                "fence": out.fence, "at": out.at, "handing": out.handing, "run": out.run })
        })
        .collect();
    let (waiting, oldest) = coordinator.waiting();
    json!({
        "authority": standing.lease, "stale": standing.is_stale, "backlog": standing.backlog,
        "cursor": standing.cursor, "pendingEvents": standing.pending_events,
        "lastReplayed": standing.last_replayed, "leaderDeferred": standing.leader_deferred,
        "reasons": standing.blockers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "workers": workers.iter().map(|worker| json!({
            "worker": worker.worker, "stalled": worker.is_stalled,
            "assignments": worker.assignments,
        })).collect::<Vec<_>>(),
        "handedOut": handed, "waiting": waiting, "oldest": oldest,
        "open": coordinator.open_requests(), "compacted": coordinator.compacted(),
        "chain": coordinator.chain(), "index": coordinator.index(),
    })
}

fn path(scene: &Scenario, ending: &str) -> PathBuf {
    folder().join(format!("{}.{ending}", scene.name))
}

fn read(scene: &Scenario) -> (StreamHeader, Vec<Vec<u8>>) {
    let text = fs::read_to_string(path(scene, "jsonl")).expect("a golden log");
    let mut lines = text.lines();
    let header = serde_json::from_str(lines.next().expect("a line")).expect("a header");
    let contents = lines.map(|line| line.as_bytes().to_vec());
    (header, contents.collect())
}

fn write(scene: &Scenario) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("JSON");
    let mut log = serde_json::to_string(&scene.header).expect("JSON") + "\n";
    for content in &scene.contents {
        log += &text(content);
        log.push('\n');
    }
    fs::create_dir_all(folder()).expect("a folder");
    fs::write(path(scene, "jsonl"), log).expect("a log");
}

#[test]
fn golden_coordinators_are_read_and_decided_unchanged() {
    for scene in scenarios() {
        if adds() && !path(&scene, "jsonl").exists() {
            write(&scene);
        }
        let (header, contents) = read(&scene);
        let mut folded = Coordinator::at_start(header.clone());
        for content in &contents {
            // Also from a checkpoint at every place.
            let (next, chain, bytes) = (folded.next_seq(), folded.chain(), folded.checkpoint());
            folded = Coordinator::from_checkpoint(header.clone(), next, chain, &bytes)
                .expect("a checkpoint");
            folded.fold_content(content).expect("an event that folds");
        }
        let last = events(&contents).last().expect("an event").at;
        let state = state(&folded, last);
        if adds() && !path(&scene, "state.json").exists() {
            let text = serde_json::to_string_pretty(&state).expect("JSON") + "\n";
            fs::write(path(&scene, "state.json"), text).expect("a state");
        }
        let expected = fs::read_to_string(path(&scene, "state.json")).expect("a golden state");
        let expected: Value = serde_json::from_str(&expected).expect("JSON");
        assert_eq!(json::canonical(&state), json::canonical(&expected));
        // The same commands still give the same events.
        let text = |contents: &[Vec<u8>]| -> Vec<String> {
            let texts = contents
                .iter()
                .map(|content| String::from_utf8(content.clone()));
            texts.collect::<Result<_, _>>().expect("text")
        };
        assert_eq!(text(&scene.contents), text(&contents));
        assert_eq!(scene.coordinator.chain(), folded.chain());
    }
}

#[test]
fn every_event_of_a_coordinator_is_in_a_golden_log() {
    let mut seen = BTreeSet::new();
    for scene in scenarios() {
        let (_, contents) = read(&scene);
        for content in &contents {
            let event: Value = serde_json::from_slice(content).expect("JSON");
            seen.insert(event["type"].as_str().expect("a type").to_owned());
        }
    }
    let source = include_str!("../../src/coordinator/event.rs");
    let names = source.split("#[serde(rename = \"").skip(1);
    let every: BTreeSet<String> = names
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect();
    assert!(every.len() > 20, "{every:?}");
    assert_eq!(every, seen);
}

#[test]
fn a_golden_log_of_a_coordinator_that_was_changed_is_found_out() {
    for scene in scenarios() {
        let (header, contents) = read(&scene);
        let whole = Coordinator::at_start(header.clone());
        let fold = |contents: &[Vec<u8>]| {
            let mut folded = whole.clone();
            let folds = |content: &Vec<u8>| folded.fold_content(content).is_some();
            contents.iter().all(folds).then(|| folded.chain())
        };
        let chain = fold(&contents).expect("it folds");
        for at in 0..contents.len() {
            let mut cut = contents.clone();
            cut.remove(at);
            assert!(
                at + 1 == contents.len() || fold(&cut) != Some(chain),
                "without {at}"
            );
            let mut other = contents.clone();
            other[at].push(b' ');
            assert_ne!(fold(&other), Some(chain), "another {at}");
        }
    }
}

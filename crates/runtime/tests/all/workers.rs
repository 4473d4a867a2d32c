//! Nodes executed by workers: through the outbox to a queue, to a worker, and back into the run.

mod crashes;
mod led;
mod output;

use std::sync::Arc;
use std::time::Duration;

use kernel::coordinator::{CoordinatorEvent, Event, TaskError};
use kernel::ids::{Seq, StreamId, WorkerId};
use kernel::run::event::{DrainPolicy, OutputChannel};
use kernel::run::{Command, End, Envelope, Run, Start};
use kernel::stream::ForkMode;
use kernel::time::Timestamp;
use runtime::Engine;
use runtime::EngineOptions;
use runtime::access::{Principal, Scopes};
use runtime::api::{Api, ApiError, Assignment, Heartbeat, Taking, TaskOutput};
use runtime::authority::Authority;
use runtime::door::CoordinatorName;
use serde_json::{Map, Value, json};
use store::memory::MemoryStore;
use store::{ManualClock, Store};

use crate::engine::{create, definition, engine_with, kinds};
use crate::support::{DEADLINE, Lab};

const QUEUE: &str = "q";

/// An engine on a store with a manual clock, and an API caller.
struct Bed {
    lab: Lab,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    engine: Engine,
    api: Api,
    who: Principal,
}

fn principal(tenant: &str) -> Principal {
    Principal {
        groups: Default::default(),
        roles: Default::default(),
        tenant: tenant.into(),
        workspace: None,
        run: None,
        id: "w".into(),
        issuer: None,
        scopes: Scopes::Everything,
    }
}

/// A take of one task.
fn asks(worker: &WorkerId) -> Taking {
    Taking {
        worker: worker.clone(),
        max: 1,
        key: None,
    }
}

impl Bed {
    fn new() -> Self {
        Self::with(Some(Authority::default()))
    }

    fn with(authority: Option<Authority>) -> Self {
        let lab = Lab::new();
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        let options = options("one", authority);
        let engine = engine_with(store.clone(), options, &lab);
        engine.start();
        Self {
            api: Api::new(engine.clone()),
            who: principal("local"),
            lab,
            clock,
            store,
            engine,
        }
    }

    async fn run(&self, config: Value, node: Value) -> Run {
        let mut worker = json!({ "id": "w", "typeId": "runwright.worker", "config": config });
        for (key, value) in node.as_object().expect("an object") {
            worker[key] = value.clone();
        }
        let document = definition(json!([worker]), json!([]));
        create(&self.engine, &document, Start::Now).await
    }

    async fn take(&self, worker: &str) -> Assignment {
        let worker = worker.into();
        let taking = async {
            let mut watch = self
                .api
                .watch_queue(&self.who, runtime::access::Action::WorkTasks, QUEUE)
                .expect("a queue");
            loop {
                let taken = self.api.take_tasks(&self.who, QUEUE, &asks(&worker)).await;
                if let Some(taken) = taken.expect("an answer").pop() {
                    return taken;
                }
                watch.changed().await;
            }
        };
        tokio::time::timeout(DEADLINE, taking)
            .await
            .expect("a task comes")
    }

    async fn report(&self, taken: &Assignment, outputs: Value) -> Result<bool, ApiError> {
        let outputs = outputs.as_object().expect("an object").clone();
        let reported = self
            .api
            .report_task(&self.who, QUEUE, named(taken), Ok(outputs))
            .await?;
        Ok(reported.is_repeated)
    }

    async fn heartbeat(&self, taken: &Assignment) -> Result<Duration, ApiError> {
        let heartbeat = Heartbeat::default();
        self.api
            .heartbeat(&self.who, QUEUE, named(taken), heartbeat)
            .await
    }

    async fn settled(&self, run: &Run) -> Run {
        let settled = self.engine.settled(&run.header.stream);
        tokio::time::timeout(DEADLINE, settled)
            .await
            .expect("it ends in time")
            .expect("a run")
    }

    /// The events of the queue so far.
    async fn log(&self) -> Vec<CoordinatorEvent> {
        let named = queue("local");
        let events = self.engine.door().coordinator_events(&named, 0, usize::MAX);
        let events: Vec<Event> = events.await.expect("a log");
        events.into_iter().map(|event| event.body).collect()
    }

    /// Waits for an event of the queue.
    async fn until(&self, what: impl Fn(&CoordinatorEvent) -> bool) {
        let waiting = async {
            while !self.log().await.iter().any(&what) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting)
            .await
            .expect("it happens in time");
    }

    async fn parked(&self, run: &StreamId) {
        let waiting = async {
            loop {
                let loaded = self
                    .store
                    .load(run, store::ReadFrom::Seq(u64::MAX), 0)
                    .await;
                let loaded = loaded.expect("a log");
                if loaded.lease.is_none() && loaded.index.status == "waiting-external" {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting)
            .await
            .expect("it parks in time");
    }
}

fn options(holder: &str, authority: Option<Authority>) -> EngineOptions {
    EngineOptions {
        holder: holder.into(),
        poll: Duration::from_millis(20),
        authority,
        watches_queues: true,
        ..EngineOptions::default()
    }
}

/// The engine's name as an owner.
fn owner_suffix(holder: &str) -> String {
    kernel::digest::Digest::compute(holder.as_bytes()).to_string()[..16].to_owned()
}

fn queue(tenant: &str) -> CoordinatorName {
    CoordinatorName {
        tenant: tenant.into(),
        name: QUEUE.into(),
        contract: kernel::coordinator::Contract::Native,
    }
}

fn named(taken: &Assignment) -> (Seq, u32) {
    (taken.handed.assignment, taken.handed.fence)
}

fn repeatable() -> Value {
    json!({ "queue": QUEUE, "repeat": "repeatable", "heartbeatTimeoutMs": 5_000 })
}

fn code(error: ApiError) -> &'static str {
    match error {
        ApiError::Coordinator(rejection) => rejection.code(),
        other => panic!("not a coordinator's refusal: {other:?}"),
    }
}

fn failed_with(run: &Run) -> &str {
    match run.end() {
        Some(End::Failed { error, .. }) => &error.code,
        other => panic!("the run should have failed: {other:?}"),
    }
}

fn is_stalled(event: &CoordinatorEvent) -> bool {
    matches!(event, CoordinatorEvent::WorkerStalled { .. })
}

#[tokio::test]
async fn a_task_goes_out_and_its_result_comes_back() {
    let bed = Bed::new();
    let inputs = json!({ "inputs": { "page": { "type": "expression", "expression": "1 + 2" } } });
    let run = bed.run(repeatable(), inputs).await;
    bed.parked(&run.header.stream).await;
    let taken = bed.take("w1").await;
    assert_eq!(taken.task, json!({ "page": 3 }));
    let terms = taken.terms.as_ref().expect("a run waits");
    assert_eq!(terms.run, run.header.stream);
    assert_eq!(bed.heartbeat(&taken).await.unwrap(), Duration::from_secs(5));
    let output = TaskOutput {
        channel: OutputChannel::Stdout,
        seq: Some(0),
        chunk: "page 3\n".into(),
    };
    let kept = bed
        .api
        .task_output(&bed.who, QUEUE, named(&taken), output)
        .await;
    assert!(kept.unwrap());
    assert!(!bed.report(&taken, json!({ "pages": 3 })).await.unwrap());
    assert!(bed.report(&taken, json!({ "pages": 3 })).await.unwrap());
    let end = bed.settled(&run).await;
    let Some(End::Completed { outputs }) = end.end() else {
        panic!("{:?}", end.end());
    };
    assert_eq!(outputs["w"], json!({ "pages": 3 }));
    let kinds = kinds(&bed.store, &run).await;
    let seen = kinds.iter().filter(|kind| kind.starts_with("output.chunk"));
    assert_eq!(seen.count(), 1, "{kinds:?}");
    // A failure of the same assignment is another result: it is rejected.
    let error = TaskError {
        code: "late".into(),
        message: String::new(),
        retryable: None,
    };
    let late = bed
        .api
        .report_task(&bed.who, QUEUE, named(&taken), Err(error))
        .await;
    assert_eq!(code(late.unwrap_err()), "assignment_settled");
    bed.engine.drain(Duration::from_secs(5)).await;
    let log = bed.log().await;
    assert!(
        matches!(log.last(), Some(CoordinatorEvent::AuthorityReleased { .. })),
        "{log:?}"
    );
}

/// Settled before the authority has seen the queue: its lease is renewed nevertheless, and released
/// after twenty lease periods without use.
#[tokio::test]
async fn the_lease_of_a_queue_that_was_quick_is_renewed_and_given_up() {
    let lease = Duration::from_millis(800);
    let bed = Bed::with(Some(Authority { lease }));
    let run = bed.run(repeatable(), json!({})).await;
    let taken = bed.take("w1").await;
    bed.report(&taken, json!({})).await.unwrap();
    bed.settled(&run).await;
    let is_renewed =
        |event: &&CoordinatorEvent| matches!(event, CoordinatorEvent::AuthorityRenewed(_));
    let is_released =
        |event: &CoordinatorEvent| matches!(event, CoordinatorEvent::AuthorityReleased { .. });
    let mut renewals = 0;
    while !bed.log().await.iter().any(is_released) {
        bed.clock.advance(lease * 5 / 8);
        let step = async {
            loop {
                let log = bed.log().await;
                let now = log.iter().filter(is_renewed).count();
                if now > renewals || log.iter().any(is_released) {
                    return now;
                }
                tokio::task::yield_now().await;
            }
        };
        let step = tokio::time::timeout(DEADLINE, step).await;
        renewals = step.expect("it is looked after in time");
    }
    assert!(renewals >= 20, "{renewals}");
    bed.until(
        |event| matches!(event, CoordinatorEvent::Heartbeat { phase, .. } if phase == "idle"),
    )
    .await;
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_silent_workers_task_is_reassigned_unless_it_heartbeats() {
    let lease = Duration::from_secs(30);
    let bed = Bed::with(Some(Authority { lease }));
    let run = bed.run(repeatable(), json!({})).await;
    let first = bed.take("w1").await;
    bed.clock.advance(Duration::from_secs(4));
    bed.heartbeat(&first).await.unwrap();
    // Past the first timeout, within that of the heartbeat.
    bed.clock.advance(Duration::from_secs(4));
    bed.heartbeat(&first).await.unwrap();
    assert!(!bed.log().await.iter().any(is_stalled));
    bed.clock.advance(Duration::from_secs(6));
    bed.until(is_stalled).await;
    let second = bed.take("w2").await;
    assert_eq!(second.handed.fence, 2);
    let late = bed.report(&first, json!({ "by": "a zombie" })).await;
    assert_eq!(code(late.unwrap_err()), "assignment_lost");
    let recovered = |event: &CoordinatorEvent| {
        matches!(event, CoordinatorEvent::WorkerRecovered { worker, recovery }
            if worker.as_str() == "w1" && recovery == "late_report")
    };
    assert!(bed.log().await.iter().any(recovered));
    assert_eq!(
        code(bed.heartbeat(&first).await.unwrap_err()),
        "assignment_lost"
    );
    bed.report(&second, json!({ "by": "w2" })).await.unwrap();
    let end = bed.settled(&run).await;
    let Some(End::Completed { outputs }) = end.end() else {
        panic!("{:?}", end.end());
    };
    assert_eq!(outputs["w"]["by"], "w2");
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_once_task_fails_with_its_worker_and_is_not_retried() {
    let bed = Bed::new();
    let config = json!({ "queue": QUEUE, "repeat": "once", "heartbeatTimeoutMs": 5_000 });
    let retry = json!({ "settings": { "maxRetries": 3 } });
    let run = bed.run(config, retry).await;
    bed.take("w1").await;
    bed.clock.advance(Duration::from_secs(6));
    let end = bed.settled(&run).await;
    assert_eq!(failed_with(&end), "outcome_unknown");
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_failure_is_retried_as_another_task() {
    let bed = Bed::new();
    let retry = json!({ "settings": { "retry": { "maxAttempts": 2, "initialDelayMs": 0 } } });
    let run = bed.run(repeatable(), retry).await;
    let mut requests = Vec::new();
    for _ in 0..2 {
        let taken = bed.take("w1").await;
        requests.push(taken.handed.request.clone());
        let error = TaskError {
            code: "no_space".into(),
            message: "the disk is full".into(),
            retryable: None,
        };
        bed.api
            .report_task(&bed.who, QUEUE, named(&taken), Err(error))
            .await
            .unwrap();
    }
    assert_ne!(requests[0], requests[1]);
    assert_eq!(failed_with(&bed.settled(&run).await), "no_space");
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_cancelled_run_and_a_timed_out_node_withdraw_their_tasks() {
    let bed = Bed::new();
    let run = bed.run(repeatable(), json!({})).await;
    let taken = bed.take("w1").await;
    let cancel = Command::Cancel {
        reason: None,
        by: None,
        parent: None,
    };
    let id = &run.header.stream;
    bed.engine
        .command(id, Envelope::from(cancel))
        .await
        .unwrap();
    assert_eq!(bed.settled(&run).await.status().as_str(), "cancelled");
    let is_failed = |event: &CoordinatorEvent| matches!(event, CoordinatorEvent::DispatchFailed { reason, .. } if reason == "withdrawn");
    bed.until(is_failed).await;
    let gone = code(bed.heartbeat(&taken).await.unwrap_err());
    assert_eq!(gone, "assignment_withdrawn");

    let run = bed
        .run(repeatable(), json!({ "settings": { "timeout": 60_000 } }))
        .await;
    bed.parked(&run.header.stream).await;
    bed.clock.advance(Duration::from_secs(61));
    bed.engine.door().hints().queue();
    assert_eq!(failed_with(&bed.settled(&run).await), "node_timeout");
    // It was not assigned, so it is removed without a trace.
    bed.until(|event| matches!(event, CoordinatorEvent::DispatchRemoved { .. }))
        .await;
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_paused_run_keeps_its_task_and_continues_afterwards() {
    let bed = Bed::new();
    let run = bed.run(repeatable(), json!({})).await;
    let id = run.header.stream.clone();
    let taken = bed.take("w1").await;
    let pause = Command::Pause {
        reason: None,
        policy: DrainPolicy::Immediate,
    };
    bed.engine
        .command(&id, Envelope::from(pause))
        .await
        .unwrap();
    bed.report(&taken, json!({ "x": 1 })).await.unwrap();
    let resume = Command::Resume { reason: None };
    bed.engine
        .command(&id, Envelope::from(resume))
        .await
        .unwrap();
    let end = bed.settled(&run).await;
    assert!(matches!(end.end(), Some(End::Completed { .. })), "{end:?}");
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn without_an_authority_tasks_stay_and_the_log_says_why() {
    let bed = Bed::with(None);
    bed.run(repeatable(), json!({})).await;
    bed.until(|event| matches!(event, CoordinatorEvent::BlockedOnSystem { .. }))
        .await;
    let none = bed
        .api
        .take_tasks(&bed.who, QUEUE, &asks(&"w".into()))
        .await
        .unwrap();
    assert!(none.is_empty());
    let standing = bed
        .api
        .queue_standing(&bed.who, runtime::access::Action::ReadQueue, QUEUE)
        .await
        .unwrap();
    assert_eq!(standing.backlog.pending, 1);
    assert_eq!(
        standing.blockers[0].to_string(),
        "authority lease not acquired"
    );
    // Another engine on the store is a candidate for it.
    let other = options("two", Some(Authority::default()));
    let other = engine_with(bed.store.clone(), other, &bed.lab);
    other.start();
    bed.take("w").await;
    other.drain(Duration::from_secs(5)).await;
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn when_an_authority_is_gone_another_takes_over_within_a_lease() {
    let bed = Bed::new();
    bed.run(repeatable(), json!({})).await;
    bed.until(|event| matches!(event, CoordinatorEvent::AuthorityAcquired(_)))
        .await;
    let other = options("two", Some(Authority::default()));
    let other = engine_with(bed.store.clone(), other, &bed.lab);
    // The first is cut off abruptly, as by a kill.
    let named = queue("local");
    let lease = kernel::coordinator::Lease {
        owner: "gone".into(),
        lease_id: "l".into(),
        leased_until: bed.store.now().plus(Duration::from_secs(15)).to_string(),
    };
    bed.engine.drain(Duration::from_secs(5)).await;
    let acquire = kernel::coordinator::CoordinatorCommand::AcquireAuthority(lease);
    let rule = kernel::coordinator::LeaseRule::Contract;
    let door = bed.engine.door();
    door.tell_coordinator(&named, &acquire, rule).await.unwrap();
    other.start();
    let owners = |log: &[CoordinatorEvent]| -> Vec<String> {
        let owner = |event: &CoordinatorEvent| match event {
            CoordinatorEvent::AuthorityAcquired(lease) => Some(lease.owner.clone()),
            _ => None,
        };
        log.iter().filter_map(owner).collect()
    };
    bed.clock.advance(Duration::from_secs(14));
    assert_eq!(owners(&bed.log().await).last().unwrap(), "gone");
    bed.clock.advance(Duration::from_secs(1));
    let next = format!("engine-{}", owner_suffix("two"));
    bed.until(
        |event| matches!(event, CoordinatorEvent::AuthorityAcquired(lease) if lease.owner == next),
    )
    .await;
    other.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_branch_asks_for_a_task_of_its_own_and_a_replay_for_none() {
    let bed = Bed::new();
    let run = bed.run(repeatable(), json!({})).await;
    let id = run.header.stream.clone();
    bed.parked(&id).await;
    let waiting = bed.engine.door().load(&id).await.unwrap().head.next_seq;
    let order = runtime::ForkSpec::new(ForkMode::Branch, Some(waiting));
    bed.engine.fork(&id, order).await.expect("a branch");
    let mut runs = Vec::new();
    for worker in ["w1", "w2"] {
        let taken = bed.take(worker).await;
        runs.push(taken.terms.clone().expect("terms").run);
        bed.report(&taken, json!({ "by": worker })).await.unwrap();
    }
    assert_ne!(runs[0], runs[1]);
    let end = bed.settled(&run).await;
    assert!(matches!(end.end(), Some(End::Completed { .. })));
    let replay = runtime::ForkSpec::new(ForkMode::Replay, None);
    bed.engine.fork(&id, replay).await.expect("a replay");
    let queued = bed.log().await;
    let queued = queued
        .iter()
        .filter(|event| matches!(event, CoordinatorEvent::DispatchQueued { .. }));
    assert_eq!(queued.count(), 2, "a replay asks nobody");
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn another_tenants_assignment_is_not_there() {
    let bed = Bed::new();
    bed.run(repeatable(), json!({})).await;
    let taken = bed.take("w1").await;
    let stranger = principal("other");
    let heartbeat = Heartbeat::default();
    let gone = bed
        .api
        .heartbeat(&stranger, QUEUE, named(&taken), heartbeat)
        .await;
    assert_eq!(code(gone.unwrap_err()), "assignment_not_found");
    let stolen = bed
        .api
        .report_task(&stranger, QUEUE, named(&taken), Ok(Map::new()))
        .await;
    assert_eq!(code(stolen.unwrap_err()), "assignment_not_found");
    let mut bound = principal("local");
    bound.workspace = Some("red".into());
    let heartbeat = Heartbeat::default();
    let walled = bed
        .api
        .heartbeat(&bound, QUEUE, named(&taken), heartbeat)
        .await;
    assert!(matches!(walled, Err(ApiError::NotFound(_))));
    bed.engine.drain(Duration::from_secs(5)).await;
}

//! Each call of the store fails once during a worker's request: no task is lost, and none is
//! settled twice.

use std::collections::BTreeMap;

use kernel::coordinator::{HandedOut, LeaseRule, TaskCommand};
use store::StoreError;
use store::faults::{FaultyStore, Plan, Strike};

use super::*;

/// The worker's request while a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Take,
    Heartbeat,
    Result,
    Failure,
    Release,
    Miss,
}

/// A server whose store fails on command, and one whose store does not.
struct Crash {
    bed: Bed,
    faulty: Arc<FaultyStore>,
    api: Api,
}

impl Crash {
    fn new() -> Self {
        let bed = Bed::new();
        let faulty = Arc::new(FaultyStore::new(bed.store.clone()));
        let engine = engine_with(faulty.clone(), options("two", None), &bed.lab);
        Self {
            api: Api::new(engine),
            bed,
            faulty,
        }
    }

    /// Makes a request while the `nth` call fails, and repeats it like a worker without a response.
    /// Returns whether there were that many calls.
    async fn case(&self, asked: Asked, nth: u64, strike: Strike) -> bool {
        let run = self.bed.run(repeatable(), json!({})).await;
        let struck = self.strikes();
        let plan = Plan::Nth { nth, strike };
        let mut taken = match asked {
            Asked::Take => {
                self.bed.parked(&run.header.stream).await;
                self.queued(&run).await;
                self.faulty.set_plan(plan);
                self.take().await
            }
            _ => {
                let taken = self.bed.take("w1").await;
                self.faulty.set_plan(plan);
                taken
            }
        };
        let at = named(&taken);
        let (api, who) = (&self.api, &self.bed.who);
        match asked {
            Asked::Take | Asked::Result => {}
            Asked::Heartbeat => {
                let heartbeat = || api.heartbeat(who, QUEUE, at, Heartbeat::default());
                again(heartbeat).await.expect("the task is this worker's");
            }
            Asked::Failure => {
                let error = TaskError {
                    code: "no_space".into(),
                    message: "the disk is full".into(),
                    retryable: None,
                };
                let report = || api.report_task(who, QUEUE, at, Err(error.clone()));
                again(report).await.expect("it is taken in");
            }
            Asked::Release => {
                let release = || api.release_task(who, QUEUE, at);
                again(release).await.expect("it is given back");
                taken = self.bed.take("w2").await;
            }
            Asked::Miss => {
                self.miss(&taken.handed).await;
                taken = self.bed.take("w2").await;
            }
        }
        if asked != Asked::Failure {
            let at = named(&taken);
            let report = || api.report_task(who, QUEUE, at, Ok(Map::new()));
            again(report).await.expect("it is taken in");
        }
        let is_struck = self.strikes() > struck;
        self.faulty.set_plan(Plan::Never);
        let end = self.bed.settled(&run).await;
        match asked {
            Asked::Failure => assert_eq!(failed_with(&end), "no_space"),
            _ => assert!(matches!(end.end(), Some(End::Completed { .. })), "{end:?}"),
        }
        is_struck
    }

    fn strikes(&self) -> usize {
        let calls = self.faulty.calls();
        calls.iter().filter(|call| call.strike.is_some()).count()
    }

    /// Waits until the task of a run can be taken.
    async fn queued(&self, run: &Run) {
        let of_it = |event: &CoordinatorEvent| {
            matches!(event, CoordinatorEvent::DispatchQueued { task: Some(task), .. }
                if task.run == run.header.stream)
        };
        self.bed.until(of_it).await;
    }

    /// Takes a task repeatedly. One whose response was lost is assigned again once it is missed.
    async fn take(&self) -> Assignment {
        loop {
            // The store responds at once: yield to other tasks.
            tokio::task::yield_now().await;
            let taken = self
                .api
                .take_tasks(&self.bed.who, QUEUE, &asks(&"w1".into()))
                .await;
            if let Some(taken) = taken.unwrap_or_default().pop() {
                return taken;
            }
            let look = |queue: &kernel::coordinator::Coordinator| queue.assigned().count();
            let named = queue("local");
            let door = self.bed.engine.door();
            if door.look_at_coordinator(&named, look).await.unwrap() > 0 {
                let before = self.stalls().await;
                self.bed.clock.advance(Duration::from_secs(6));
                while self.stalls().await == before {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    async fn stalls(&self) -> usize {
        let log = self.bed.log().await;
        log.iter().filter(|event| is_stalled(event)).count()
    }

    /// The authority withdraws an assignment as missed.
    async fn miss(&self, handed: &HandedOut) {
        let (named, now) = (queue("local"), self.bed.store.now());
        let lease = self.bed.engine.door().look_at_coordinator(&named, |queue| {
            queue.standing(now, LeaseRule::Contract).lease
        });
        let missed = TaskCommand::Miss {
            owner: lease.await.unwrap().expect("an authority").owner,
            assignment: handed.assignment,
            fence: handed.fence,
        };
        let door = self.api.engine().door();
        loop {
            use runtime::door::CoordinatorError;
            match door.tell_tasks(&named, &missed).await {
                // The second time it is over.
                Ok(_) | Err(CoordinatorError::Rejected(_)) => return,
                Err(CoordinatorError::Store(StoreError::Unavailable(_))) => {}
                Err(CoordinatorError::Store(error)) => panic!("{error}"),
            }
        }
    }
}

/// Repeats a request until there is a response, as a worker must.
async fn again<T, F: Future<Output = Result<T, ApiError>>>(
    say: impl Fn() -> F,
) -> Result<T, ApiError> {
    loop {
        match say().await {
            Err(ApiError::Store(StoreError::Unavailable(_))) => {}
            answer => return answer,
        }
    }
}

/// Every task was queued once, had one worker at a time with growing fences, and ended once.
fn judge(log: &[CoordinatorEvent]) {
    let mut fences: BTreeMap<String, (u32, bool)> = BTreeMap::new();
    for event in log {
        match event {
            CoordinatorEvent::DispatchQueued { request_id, .. } => {
                let again = fences.insert(request_id.to_string(), (0, false));
                assert_eq!(again, None, "{request_id} is queued twice");
            }
            CoordinatorEvent::WorkerAssigned {
                task_id,
                handed: Some(handed),
                ..
            } => {
                let of = fences.get_mut(task_id).expect("it was queued");
                assert!(!of.1, "{task_id} goes out after its end");
                assert_eq!(handed.fence, of.0 + 1);
                of.0 = handed.fence;
            }
            CoordinatorEvent::DispatchDelivered { request_id, .. }
            | CoordinatorEvent::DispatchFailed { request_id, .. } => {
                let of = fences.get_mut(request_id.as_str()).expect("it was queued");
                assert!(
                    !std::mem::replace(&mut of.1, true),
                    "{request_id} ends twice"
                );
            }
            _ => {}
        }
    }
    assert!(
        fences.values().all(|(_, is_over)| *is_over),
        "tasks are left"
    );
}

#[tokio::test]
async fn no_failing_store_call_loses_a_task_or_settles_it_twice() {
    let crash = Crash::new();
    let every = [
        Asked::Take,
        Asked::Heartbeat,
        Asked::Result,
        Asked::Failure,
        Asked::Release,
        Asked::Miss,
    ];
    let mut failed = 0;
    for asked in every {
        for strike in [Strike::Before, Strike::After] {
            let mut nth = 0;
            while crash.case(asked, nth, strike).await {
                nth += 1;
            }
            assert!(nth > 2, "{asked:?} makes more than {nth} calls");
            failed += nth;
        }
    }
    judge(&crash.bed.log().await);
    testkit::figures(
        "no_failing_store_call_loses_a_task_or_settles_it_twice",
        &format!("{failed} calls failed"),
    );
    crash.bed.engine.drain(Duration::from_secs(5)).await;
}

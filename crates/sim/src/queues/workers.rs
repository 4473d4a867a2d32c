//! Workers of a world: tasks in one process that take work from a queue, as over its API.

use std::time::Duration;

use kernel::coordinator::{Contract, CoordinatorCommand, LeaseRule, TaskError};
use kernel::ids::{Seq, WorkerId};
use runtime::Engine;
use runtime::access::{Principal, Scopes};
use runtime::api::{Api, ApiError, Assignment, Heartbeat, Taking};
use runtime::door::CoordinatorName;
use serde_json::Map;
use store::seed::Draws;

use super::{QUEUES, stream};
use crate::record::Record;
use crate::world::TENANT;

/// How a worker behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    /// It may forget a task, fall silent for long, return the task, or fail.
    Any,
    /// It does its tasks.
    Dutiful,
}

struct Worker {
    api: Api,
    who: Principal,
    queue: &'static str,
    name: WorkerId,
    draws: Draws,
    record: Record,
}

/// Takes tasks a few times, and treats them according to its temper and the draws.
pub(super) async fn work(
    engine: Engine,
    queue: &'static str,
    name: String,
    temper: Temper,
    seed: u64,
    record: Record,
) {
    let mut worker = Worker {
        api: Api::new(engine),
        who: Principal {
            groups: Default::default(),
            roles: Default::default(),
            tenant: TENANT.into(),
            workspace: None,
            run: None,
            id: name.clone(),
            issuer: None,
            scopes: Scopes::Everything,
        },
        queue,
        name: name.as_str().into(),
        draws: Draws::new(seed),
        record,
    };
    for _ in 0..1 + worker.draws.below(3) {
        let max = 1 + worker.draws.below(3) as usize;
        let taken = worker
            .api
            .take_tasks(
                &worker.who,
                queue,
                &Taking {
                    worker: worker.name.clone(),
                    max,
                    key: None,
                },
            )
            .await;
        for assignment in taken.unwrap_or_default() {
            worker.attend(&assignment, temper).await;
        }
        worker.pause(100).await;
    }
}

/// Sends heartbeats as the owner of the leases, which no engine does.
pub(super) async fn borrow_the_lease(engine: Engine) {
    for queue in QUEUES {
        let named = CoordinatorName {
            tenant: TENANT.into(),
            name: queue.to_owned(),
            contract: Contract::Native,
        };
        let door = engine.door();
        let now = door.store().now();
        let owner = door.look_at_coordinator(&named, |queue| {
            let standing = queue.standing(now, LeaseRule::Contract);
            standing.lease.filter(|_| !standing.is_stale)
        });
        if let Ok(Some(lease)) = owner.await {
            let phase = "borrowed".to_owned();
            let owner = lease.owner;
            let heartbeat = CoordinatorCommand::Heartbeat { owner, phase };
            // Refused or not: the judge reads the log.
            let _ = door.command_queue(&named, &heartbeat).await;
        }
    }
}

impl Worker {
    async fn pause(&mut self, most: u64) {
        tokio::time::sleep(Duration::from_millis(self.draws.below(most))).await;
    }

    async fn attend(&mut self, taken: &Assignment, temper: Temper) {
        let at = (taken.handed.assignment, taken.handed.fence);
        let mood = match temper {
            Temper::Any => self.draws.below(10),
            Temper::Dutiful => 9,
        };
        match mood {
            0 => {}
            1 => {
                let released = self.api.release_task(&self.who, self.queue, at).await;
                self.heard(released.map(drop), at, false);
            }
            2 => {
                let error = TaskError {
                    code: "sim_failed".into(),
                    message: "as it was told".into(),
                    retryable: None,
                };
                self.report(at, Err(error)).await;
            }
            3 | 4 => {
                // Silent beyond every timeout, then continues.
                self.pause(4_000).await;
                self.report(at, Ok(Map::new())).await;
            }
            _ => {
                for _ in 0..self.draws.below(4) {
                    self.pause(400).await;
                    let heartbeat = Heartbeat::default();
                    let heartbeat = self
                        .api
                        .heartbeat(&self.who, self.queue, at, heartbeat)
                        .await;
                    if matches!(heartbeat, Err(ApiError::Coordinator(_))) {
                        return self.heard(heartbeat.map(drop), at, false);
                    }
                }
                self.report(at, Ok(Map::new())).await;
            }
        }
    }

    /// Reports until there is an answer, as the contract requires.
    async fn report(
        &mut self,
        at: (Seq, u32),
        end: Result<Map<String, serde_json::Value>, TaskError>,
    ) {
        let is_result = end.is_ok();
        for _ in 0..20 {
            let end = end.clone();
            let told = self.api.report_task(&self.who, self.queue, at, end).await;
            match told {
                Err(ApiError::Store(_)) => self.pause(100).await,
                told => return self.heard(told.map(drop), at, is_result),
            }
        }
    }

    fn heard(
        &self,
        answer: Result<(), ApiError>,
        (assignment, fence): (Seq, u32),
        is_result: bool,
    ) {
        self.record.with(|seen| match answer {
            Ok(()) if is_result => {
                seen.results.insert((stream(self.queue), assignment, fence));
            }
            Err(ApiError::Coordinator(_)) => seen.zombies += 1,
            _ => {}
        });
    }
}

//! Assigning tasks: commands of runs, workers and the authority about them.

use serde::{Deserialize, Serialize};

use crate::batch::{KeyClaim, Message};
use crate::coordinator::Coordinator;
use crate::coordinator::command::Rejection;
use crate::coordinator::contract::Contract;
use crate::coordinator::dispatch::DispatchStatus;
use crate::coordinator::draft::{Draft, Remembered};
use crate::coordinator::event::CoordinatorEvent;
use crate::coordinator::takes::claim_of_take;
use crate::coordinator::task::{
    AssignmentEnd, Handed, PastAssignment, Report, Task, TaskEnd, TaskError, TaskRepeat, TaskTerms,
};
use crate::ids::{MessageId, RequestId, Seq, StreamId, TenantId, WorkerId};
use crate::limits;
use crate::run::cause::Driving;
use crate::run::{Command, Envelope, RunMessage};

/// How long the end of an assignment is remembered for late reports.
const MEMORY_MS: u64 = 7 * 24 * 3_600_000;
/// The channel by which a request reaches a worker.
const CHANNEL: &str = "worker";
/// The owner of a blocked queue whose authority has no holder.
const NOBODY: &str = "none";

/// A command about tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum TaskCommand {
    /// A run queues a task.
    Queue {
        /// The task; the same for the same attempt.
        request_id: RequestId,
        /// The work, as JSON text.
        payload: String,
        terms: Box<TaskTerms>,
    },
    /// A run withdraws a task.
    Withdraw {
        /// The task.
        request_id: RequestId,
    },
    /// A worker takes waiting tasks.
    Take {
        worker: WorkerId,
        /// Maximum number of tasks.
        max: usize,
        /// Names this take among those of its worker: a repetition with the same key assigns no
        /// further tasks. With a key, tasks that must not be repeated are only offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A worker begins a task that was offered to it.
    Begin { assignment: Seq, fence: u32 },
    /// A worker reports the end of a task.
    Report {
        assignment: Seq,
        fence: u32,
        end: TaskEnd,
    },
    /// A worker returns a task.
    Release { assignment: Seq, fence: u32 },
    /// The authority missed the heartbeats of an assignment, or its beginning.
    Miss {
        /// The holder of the authority: a former holder cannot miss anything.
        owner: String,
        assignment: Seq,
        fence: u32,
    },
    /// A worker reported whose assignment has ended.
    Hear {
        assignment: Seq,
        /// How it reported.
        recovery: String,
        worker: WorkerId,
    },
    /// The authority finds that tasks are not assigned.
    Block {
        /// The holder of the authority.
        owner: String,
        reason: String,
    },
    /// Tasks wait and the authority has no live holder.
    BlockWithoutAuthority,
}

/// A message to the coordinator of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskMessage {
    /// The queue.
    pub queue: String,
    /// The command.
    pub order: TaskCommand,
}

/// The message that carries a command to the queue of a tenant.
pub fn message(tenant: &TenantId, id: MessageId, order: TaskMessage) -> Message {
    Message {
        id,
        target: Coordinator::stream(tenant, &order.queue),
        command: serde_json::to_vec(&order).expect("a message is always JSON"),
    }
}

/// The name of an assignment.
pub fn assignment_name(seq: Seq) -> String {
    format!("a-{seq}")
}

/// Parses the name of an assignment.
pub fn assignment_number(name: &str) -> Option<Seq> {
    let seq = name.strip_prefix("a-")?.parse().ok()?;
    (assignment_name(seq) == name).then_some(seq)
}

/// Whether a text is the name of a worker: 1 to 256 bytes without control characters.
pub fn is_worker_name(text: &str) -> bool {
    (1..=limits::MAX_NAME_BYTES).contains(&text.len()) && !text.contains(char::is_control)
}

/// The namespace of unique keys in which a coordinator remembers the ends of assignments.
pub fn memory_of_assignments(stream: &StreamId) -> String {
    format!("{stream}/assignment/ended")
}

impl TaskCommand {
    /// The assignment in the command. If it has ended, its end must be recalled.
    pub fn assignment(&self) -> Option<Seq> {
        match self {
            Self::Begin { assignment, .. }
            | Self::Report { assignment, .. }
            | Self::Release { assignment, .. }
            | Self::Miss { assignment, .. } => Some(*assignment),
            _ => None,
        }
    }
}

impl Draft {
    /// Decides a command about tasks. A rejected one adds nothing.
    pub(super) fn tell_task(
        &mut self,
        command: &TaskCommand,
        past: Option<&PastAssignment>,
    ) -> Result<Vec<(Seq, CoordinatorEvent)>, Rejection> {
        if self.log.contract() != Contract::Native {
            return Err(Rejection::InvalidField("contract"));
        }
        let mut emitted = Emitted::default();
        match command {
            TaskCommand::Queue {
                request_id,
                payload,
                terms,
            } => emitted.queue(self, request_id, payload, terms)?,
            TaskCommand::Withdraw { request_id } => emitted.withdraw(self, request_id),
            TaskCommand::Take { worker, max, key } => {
                emitted.take(self, worker, *max, key.as_deref())?;
            }
            TaskCommand::Begin { assignment, fence } => {
                let (request, task) = current(self, *assignment, *fence, past)?;
                emitted.begin(self, &request, &task);
            }
            TaskCommand::Report {
                assignment,
                fence,
                end,
            } => {
                let (request, task) = current(self, *assignment, *fence, past)?;
                emitted.hear(self, &task, "report");
                emitted.end(self, &request, &task, end.clone());
            }
            TaskCommand::Release { assignment, fence } => {
                let (request, task) = current(self, *assignment, *fence, past)?;
                emitted.hear(self, &task, "release");
                emitted.release(self, &request, &task);
            }
            TaskCommand::Miss {
                owner,
                assignment,
                fence,
            } => {
                let (request, task) = current(self, *assignment, *fence, past)?;
                self.speaks(owner)?;
                emitted.miss(self, &request, &task);
            }
            TaskCommand::Hear {
                assignment,
                recovery,
                worker,
            } => {
                let tasks = &self.log.state.tasks;
                let is_over = !tasks.handed.contains_key(assignment);
                if is_over && tasks.stalled.contains(worker) {
                    emitted.recovered(self, worker, recovery);
                }
            }
            TaskCommand::Block { owner, reason } => {
                self.speaks(owner)?;
                emitted.block(self, reason);
            }
            TaskCommand::BlockWithoutAuthority => {
                if let Err(why) = self.has_authority() {
                    emitted.block(self, no_authority(&why));
                }
            }
        }
        Ok(emitted.events)
    }
}

/// The task of an assignment, unless it has ended.
fn current(
    draft: &Draft,
    assignment: Seq,
    fence: u32,
    past: Option<&PastAssignment>,
) -> Result<(RequestId, Task), Rejection> {
    let tasks = &draft.log.state.tasks;
    let Some(request) = tasks.handed.get(&assignment) else {
        let end = past.filter(|past| past.fence == fence).map(|past| past.end);
        return Err(Rejection::NoAssignment(end));
    };
    match tasks.open.get(request) {
        Some(task) if task.fence == fence => Ok((request.clone(), task.clone())),
        _ => Err(Rejection::NoAssignment(None)),
    }
}

/// The decided events.
#[derive(Default)]
struct Emitted {
    events: Vec<(Seq, CoordinatorEvent)>,
}

impl Emitted {
    fn emit(&mut self, draft: &mut Draft, event: CoordinatorEvent) {
        self.events.push((draft.log.next_seq, event.clone()));
        draft.emit(event);
    }

    fn queue(
        &mut self,
        draft: &mut Draft,
        request: &RequestId,
        payload: &str,
        terms: &TaskTerms,
    ) -> Result<(), Rejection> {
        draft.may_queue(request)?;
        draft.remember_request(request, Remembered::Used, None);
        let target = draft.log.header.policy.queue.clone();
        let event = CoordinatorEvent::DispatchQueued {
            request_id: request.clone(),
            target,
            metadata: Some(payload.to_owned()),
            task: Some(Box::new(terms.clone())),
        };
        self.emit(draft, event);
        if let Err(why) = draft.has_authority() {
            self.block(draft, no_authority(&why));
        }
        Ok(())
    }

    /// Records why no task is assigned, unless the same reason was recorded since the last
    /// assignment.
    fn block(&mut self, draft: &mut Draft, reason: &str) {
        let state = &draft.log.state;
        if state.tasks.waiting().0 == 0 || state.tasks.blocked.as_deref() == Some(reason) {
            return;
        }
        let owner = state.lease.as_ref().map(|lease| lease.owner.clone());
        let event = CoordinatorEvent::BlockedOnSystem {
            owner: owner.unwrap_or_else(|| NOBODY.to_owned()),
            reason: reason.to_owned(),
        };
        self.emit(draft, event);
    }

    /// Removes a task that was never assigned; fails one that was.
    fn withdraw(&mut self, draft: &mut Draft, request: &RequestId) {
        let state = &draft.log.state;
        let (Some(status), Some(task)) = (
            state.open.get(request).copied(),
            state.tasks.open.get(request).cloned(),
        ) else {
            return;
        };
        match status {
            DispatchStatus::Pending => {
                draft.remember_request(request, Remembered::Removed, None);
                let event = CoordinatorEvent::DispatchRemoved {
                    request_ids: vec![request.clone()],
                    delivered: 0,
                    failed: 0,
                };
                self.emit(draft, event);
            }
            _ => self.end(draft, request, &task, TaskEnd::Withdrawn),
        }
    }

    fn take(
        &mut self,
        draft: &mut Draft,
        worker: &WorkerId,
        max: usize,
        key: Option<&str>,
    ) -> Result<(), Rejection> {
        if !is_worker_name(worker.as_str()) {
            return Err(Rejection::InvalidField("worker"));
        }
        if let Err(why) = draft.has_authority() {
            self.block(draft, no_authority(&why));
            return Ok(());
        }
        // A repeated take gets no further tasks.
        if draft.recall.taken.is_some() {
            return Ok(());
        }
        let mut taken = Vec::new();
        let queue = draft.log.header.policy.queue.clone();
        for _ in 0..max.min(limits::MAX_TAKEN_AT_ONCE) {
            let state = &draft.log.state;
            let Some(request) = state.tasks.next(&queue, worker).cloned() else {
                break;
            };
            let task = state.tasks.open.get(&request);
            let fence = task.map_or(0, |task| task.fence) + 1;
            let is_once = task.is_some_and(|task| task.handing.repeat == TaskRepeat::Once);
            let is_pending = state.open.get(&request) == Some(&DispatchStatus::Pending);
            let owner = state.lease.as_ref().map(|lease| lease.owner.clone());
            if state.tasks.stalled.contains(worker) {
                self.recovered(draft, worker, "take");
            }
            if is_pending {
                let event = CoordinatorEvent::DispatchNotified {
                    request_id: request.clone(),
                    channel: CHANNEL.to_owned(),
                };
                self.emit(draft, event);
            }
            taken.push(draft.log.next_seq);
            let event = CoordinatorEvent::WorkerAssigned {
                worker: worker.clone(),
                task_id: request.to_string(),
                handed: Some(Handed {
                    fence,
                    owner: owner.unwrap_or_default(),
                    offered: is_once && key.is_some(),
                }),
            };
            self.emit(draft, event);
        }
        if let Some(key) = key.filter(|_| !taken.is_empty()) {
            let stream = &draft.log.header.stream;
            let claim = claim_of_take(stream, (worker, key), &taken, draft.now);
            draft.keys.push(claim);
        }
        Ok(())
    }

    /// A repetition changes nothing.
    fn begin(&mut self, draft: &mut Draft, request: &RequestId, task: &Task) {
        self.hear(draft, task, "begin");
        if let Some(assigned) = task.assigned.as_ref().filter(|assigned| assigned.offered) {
            let event = CoordinatorEvent::WorkerBegan {
                worker: assigned.worker.clone(),
                task_id: request.to_string(),
                fence: task.fence,
            };
            self.emit(draft, event);
        }
    }

    /// A worker that had lost another task reports again.
    fn hear(&mut self, draft: &mut Draft, task: &Task, recovery: &str) {
        let Some(assigned) = &task.assigned else {
            return;
        };
        if draft.log.state.tasks.stalled.contains(&assigned.worker) {
            self.recovered(draft, &assigned.worker, recovery);
        }
    }

    fn recovered(&mut self, draft: &mut Draft, worker: &WorkerId, recovery: &str) {
        let event = CoordinatorEvent::WorkerRecovered {
            worker: worker.clone(),
            recovery: recovery.to_owned(),
        };
        self.emit(draft, event);
    }

    fn release(&mut self, draft: &mut Draft, request: &RequestId, task: &Task) {
        if let Some(assigned) = &task.assigned {
            remember(draft, request, task, AssignmentEnd::Released);
            let event = CoordinatorEvent::WorkerReleased {
                worker: assigned.worker.clone(),
                task_id: request.to_string(),
                fence: task.fence,
            };
            self.emit(draft, event);
        }
    }

    /// The worker is lost: the task is assigned again, or fails.
    fn miss(&mut self, draft: &mut Draft, request: &RequestId, task: &Task) {
        let Some(assigned) = &task.assigned else {
            return;
        };
        remember(draft, request, task, AssignmentEnd::Lost);
        if assigned.offered {
            // The work was not begun: the task is returned to the queue.
            let event = CoordinatorEvent::WorkerReleased {
                worker: assigned.worker.clone(),
                task_id: request.to_string(),
                fence: task.fence,
            };
            self.emit(draft, event);
            return;
        }
        let reason = format!("no heartbeat for {} ms", task.handing.heartbeat_timeout_ms);
        let event = CoordinatorEvent::WorkerStalled {
            worker: assigned.worker.clone(),
            reason,
            task_id: Some(request.to_string()),
        };
        self.emit(draft, event);
        if task.may_go_out_again() {
            return;
        }
        let error = match task.handing.repeat {
            TaskRepeat::Once => TaskError {
                code: "outcome_unknown".into(),
                message: "the worker was lost and the task must not be repeated; check whether \
                          it took effect"
                    .into(),
                retryable: Some(false),
            },
            TaskRepeat::Repeatable => TaskError {
                code: "worker_lost".into(),
                message: format!(
                    "{} workers were lost with this task; look why they end",
                    task.lost + 1
                ),
                retryable: Some(false),
            },
        };
        let task = Task {
            assigned: None,
            ..task.clone()
        };
        self.end(draft, request, &task, TaskEnd::Error(error));
    }

    /// Ends a task and notifies the waiting run.
    fn end(&mut self, draft: &mut Draft, request: &RequestId, task: &Task, end: TaskEnd) {
        let status = match &end {
            TaskEnd::Outputs(_) => DispatchStatus::Delivered,
            TaskEnd::Error(_) | TaskEnd::Withdrawn => DispatchStatus::Failed,
        };
        if task.assigned.is_some() {
            remember(draft, request, task, AssignmentEnd::new(&end, status));
        }
        draft.remember_end(request, status);
        draft.tell_run(request, task, &end);
        let reason = match &end {
            TaskEnd::Error(error) => error.code.clone(),
            TaskEnd::Outputs(_) | TaskEnd::Withdrawn => "withdrawn".to_owned(),
        };
        let report = Some(Box::new(Report {
            assignment: task.assigned.as_ref().map(|assigned| assigned.seq),
            fence: task.fence,
            end,
        }));
        let request_id = request.clone();
        let event = match status {
            DispatchStatus::Delivered => CoordinatorEvent::DispatchDelivered { request_id, report },
            _ => CoordinatorEvent::DispatchFailed {
                request_id,
                reason,
                report,
            },
        };
        self.emit(draft, event);
    }
}

impl Draft {
    /// Ends a request that a run may wait for, by a command without an assignment.
    pub(super) fn end_by_command(&mut self, request: &RequestId, end: &TaskEnd) {
        let Some(task) = self.log.state.tasks.open.get(request).cloned() else {
            return;
        };
        remember(self, request, &task, AssignmentEnd::Withdrawn);
        self.tell_run(request, &task, end);
    }

    fn tell_run(&mut self, request: &RequestId, task: &Task, end: &TaskEnd) {
        let (Some((run, signal)), Some(payload)) = (&task.waits, end.answer()) else {
            return;
        };
        let command = Command::Signal {
            name: signal.clone(),
            id: request.to_string(),
            payload,
        };
        self.send(run.clone(), |id| {
            let envelope = Envelope {
                command,
                message: Some(id),
                driving: Driving::Here,
            };
            let message = RunMessage {
                header: None,
                envelope,
            };
            serde_json::to_vec(&message).expect("a message is always JSON")
        });
    }
}

/// Why no task may be assigned, in the terms of the readiness.
fn no_authority(why: &Rejection) -> &'static str {
    match why {
        Rejection::LeaseExpired => "authority lease is stale: lease expired",
        _ => "authority lease not acquired",
    }
}

fn remember(draft: &mut Draft, request: &RequestId, task: &Task, end: AssignmentEnd) {
    let Some(assigned) = &task.assigned else {
        return;
    };
    let past = PastAssignment {
        request: request.clone(),
        fence: task.fence,
        end,
    };
    let stream = &draft.log.header.stream;
    let claim = KeyClaim {
        namespace: memory_of_assignments(stream),
        key: assignment_name(assigned.seq),
        digest: None,
        answer: Some(serde_json::to_vec(&past).expect("a memory is always JSON")),
        expires_at: Some(draft.now.plus_ms(MEMORY_MS)),
    };
    draft.keys.push(claim);
}

//! Driving one run: executing what its state requires, and writing the results through the door.
//!
//! The driver owns the folded state of a run it holds. It looks at the state, does the next
//! required thing, and looks again. Apart from its running tasks it keeps nothing that is not in
//! the log.

mod append;
mod attempts;
mod look_up;
mod past;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kernel::definition::NodeIx;
use kernel::ids::AttemptId;
use kernel::run::event::OutputChannel;
use kernel::run::state::{LiveAttempt, Phase};
use kernel::run::{Command, Envelope, Event, Outcome, Rejection, Run, RunEvent, schedule};
use serde_json::Value;
use store::{Checkpoint, Guard, Lease, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::door::DoorError;
use crate::engine::Engine;
use crate::ports::{AttemptHistory, Ports};
use crate::run_redactor::RunRedactor;
use append::NotAppended;

/// Events between two checkpoints.
const CHECKPOINT_EVERY: u64 = 1_000;
/// The shortest log that is checkpointed: a shorter one folds faster than a checkpoint is read.
const CHECKPOINT_FROM: u64 = 200;
/// A wait shorter than this keeps the lease: releasing and claiming it costs two writes.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// The delay before a registry that could not be read is read again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A request to a running driver.
pub(crate) enum DriverMessage {
    /// A command of this process from outside the driver.
    Command {
        envelope: Box<Envelope>,
        reply: oneshot::Sender<Result<(), DoorError>>,
    },
    /// Output of a running attempt, or its request for budget.
    Output {
        command: Box<Command>,
        reply: oneshot::Sender<Result<(), OutputError>>,
    },
}

/// Why an attempt's output is not in the log.
pub(crate) enum OutputError {
    /// This process no longer holds the run.
    LeaseLost,
    /// The run rejected it.
    Refused(Rejection),
}

/// The driver of one run that this process holds.
pub(crate) struct Driver {
    engine: Engine,
    /// `None` if the log must be read again.
    run: Option<Run>,
    lease: Lease,
    lost: CancellationToken,
    mailbox: mpsc::Sender<DriverMessage>,
    messages: mpsc::Receiver<DriverMessage>,
    tasks: JoinSet<Outcome>,
    /// Ordered by id, so that tasks are stopped in the same order in every replay.
    running: BTreeMap<AttemptId, Task>,
    by_task: HashMap<tokio::task::Id, AttemptId>,
    /// Attempts that ended before their first wait and so never became a task.
    ended_at_once: VecDeque<(AttemptId, Outcome)>,
    /// Whether a node of this run may leave results with the supervisor.
    leaves_results: bool,
    /// Attempts whose start or restart this driver wrote; the others lost their holder.
    ours: HashSet<AttemptId>,
    /// The tool calls of attempts whose holder was lost.
    past: HashMap<AttemptId, Arc<AttemptHistory>>,
    /// The engine's ports. Secrets they return are taught to this run's redactor.
    ports: Arc<Ports>,
    run_redactor: RunRedactor,
    checkpointed: u64,
    released: bool,
    /// Requests of attempts that wait for budget reserved by others.
    held: Vec<DriverMessage>,
    /// The length of the log when they were last considered.
    held_at: u64,
    /// The log was read again: another writer's batch may have made nodes ready.
    was_read: bool,
}

struct Task {
    stop: CancellationToken,
    /// A timer to fire once the task has ended.
    then_fire: Option<String>,
}

/// The next step that the state requires.
enum Next {
    /// Decide this command.
    Decide(Command),
    /// Take over attempts whose holder was lost.
    TakeOver,
    /// Look up the definition of a child.
    LookUp(NodeIx, AttemptId, Option<String>),
    /// Wait until something happens, at most until the first timer.
    Wait(Option<Duration>),
    /// Release the run until an external command or a timer.
    Park,
}

/// Why driving ends.
enum Stop {
    /// Settled, parked or drained.
    Done,
    /// Another process has the run, or may have it soon.
    Lost,
}

impl Driver {
    pub(crate) fn new(
        engine: Engine,
        run: Run,
        lease: Lease,
        lost: CancellationToken,
        mailbox: mpsc::Sender<DriverMessage>,
        messages: mpsc::Receiver<DriverMessage>,
    ) -> Self {
        let run_redactor = RunRedactor::default();
        let mut ports = Ports::clone(&engine.inner.ports);
        ports.secrets = run_redactor.watching(ports.secrets);
        let registry = &engine.inner.registry;
        let leaves_results = run.plan.nodes.iter().any(|node| {
            let node = registry.get(&node.type_id);
            node.is_some_and(|node| node.leaves_results())
        });
        Self {
            leaves_results,
            ports: Arc::new(ports),
            run_redactor,
            engine,
            run: Some(run),
            lease,
            lost,
            mailbox,
            messages,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            by_task: HashMap::new(),
            ended_at_once: VecDeque::new(),
            ours: HashSet::new(),
            past: HashMap::new(),
            checkpointed: 0,
            released: false,
            held: Vec::new(),
            held_at: 0,
            was_read: true,
        }
    }

    /// Records starts that this process has written.
    pub(crate) fn remember(&mut self, events: &[Event]) {
        for event in events {
            match &event.body {
                RunEvent::NodeStarted {
                    node_id,
                    visit,
                    attempt,
                    ..
                }
                | RunEvent::AttemptRestarted {
                    node_id,
                    visit,
                    attempt,
                    ..
                } => {
                    self.ours.insert(AttemptId {
                        node: node_id.clone(),
                        visit: *visit,
                        attempt: *attempt,
                    });
                }
                RunEvent::NodeDispatched { child_run_id, .. } => self.engine.adopt(child_run_id),
                _ => {}
            }
        }
    }

    /// Drives until the run settles, parks or is lost; returns whether it settled. Every task has
    /// ended when it returns.
    pub(crate) async fn drive(mut self) -> bool {
        let stop = loop {
            if let Err(stop) = self.step().await {
                break stop;
            }
        };
        self.stop_tasks().await;
        if matches!(stop, Stop::Done) {
            if !self.released
                && let Err(error) = self.engine.door().store().release(&self.lease).await
            {
                tracing::warn!(%error, "a lease was not released; it will expire");
            }
            self.checkpoint(CHECKPOINT_FROM).await;
        }
        self.messages.close();
        while let Some(ask) = self.messages.recv().await {
            // Dropping the reply sends the caller to the door.
            if let DriverMessage::Output { reply, .. } = ask {
                let _ = reply.send(Err(OutputError::LeaseLost));
            }
        }
        self.run.as_ref().is_some_and(Run::is_settled)
    }

    async fn step(&mut self) -> Result<(), Stop> {
        if self.lost.is_cancelled() {
            return Err(Stop::Lost);
        }
        self.reload_if_needed().await?;
        if self.answer_held().await? {
            return Ok(());
        }
        self.stop_unwanted();
        self.spawn_wanted();
        match self.next() {
            Next::Decide(command) => {
                if command == Command::Advance {
                    self.was_read = false;
                }
                self.decide(command).await
            }
            Next::TakeOver => {
                let unrepeatable = self.look_back().await?;
                self.end_left().await;
                self.decide(Command::TakeOver { unrepeatable }).await
            }
            Next::LookUp(node, attempt, workflow) => match self.look_up(node, workflow).await {
                Ok(found) => self.decide(Command::Dispatch { attempt, found }).await,
                Err(error) => {
                    tracing::warn!(run = %self.lease.stream, %error, "the registry cannot be read");
                    // Requests are still answered meanwhile.
                    self.was_read = false;
                    self.wait(Some(LOOK_AGAIN)).await
                }
            },
            Next::Wait(at_most) => {
                self.was_read = false;
                self.wait(at_most).await
            }
            Next::Park => Err(Stop::Done),
        }
    }

    fn run(&self) -> &Run {
        self.run.as_ref().expect("loaded at the start of the step")
    }

    fn is_draining(&self) -> bool {
        self.engine.inner.shutdown.drain.is_cancelled()
    }

    /// The next step, most urgent first.
    fn next(&self) -> Next {
        let run = self.run();
        if run.is_settled() {
            return if self.running.is_empty() {
                Next::Park
            } else {
                Next::Wait(None)
            };
        }
        if self.is_draining() {
            return if self.running.is_empty() {
                Next::Park
            } else {
                Next::Wait(None)
            };
        }
        let is_lost = |live: &LiveAttempt<'_>| !self.ours.contains(&live.id);
        if run.live_attempts().any(|live| is_lost(&live)) {
            return Next::TakeOver;
        }
        let stopping = matches!(run.phase(), Some(Phase::Stopping { .. }));
        // Its task is not running: it stopped for another reason, or never began.
        let is_over = |live: &LiveAttempt<'_>| !self.running.contains_key(&live.id);
        if let (true, Some(live)) = (stopping, run.live_attempts().find(is_over)) {
            return Next::Decide(Command::Finish {
                attempt: live.id,
                outcome: Outcome::Stopped,
            });
        }
        let mut undispatched = run.undispatched();
        let ready = undispatched.find(|live| !run.waits_for_budget(live.node));
        if let (false, Some(live)) = (stopping, ready) {
            let workflow = run.wanted_child(live.node);
            return Next::LookUp(live.node, live.id, workflow);
        }
        let now = self.engine.door().store().now();
        if let Some((name, due)) = run.next_timer() {
            if due > now {
                return self.wait_or_park(Some(Duration::from_millis(due.ms_since(now))));
            }
            // A timeout waits until its task has ended: see `stop_unwanted`.
            if !self
                .running
                .values()
                .any(|task| task.then_fire.as_deref() == Some(name))
            {
                return Next::Decide(Command::Fire {
                    timer: name.to_owned(),
                });
            }
        }
        self.wait_or_park(None)
    }

    fn wait_or_park(&self, timer: Option<Duration>) -> Next {
        let run = self.run();
        let is_busy = !self.running.is_empty() || run.has_live_work();
        let may_start = match run.phase() {
            Some(Phase::Pending) => !is_busy,
            // Checking every node at each step would cost as much as the run is large.
            Some(Phase::Running) if self.was_read || !is_busy => schedule::has_startable(run),
            _ => false,
        };
        if may_start {
            return Next::Decide(Command::Advance);
        }
        if is_busy {
            return Next::Wait(timer);
        }
        match timer {
            Some(wait) if wait <= SHORT_WAIT => Next::Wait(timer),
            _ => Next::Park,
        }
    }

    async fn wait(&mut self, at_most: Option<Duration>) -> Result<(), Stop> {
        if let Some((attempt, outcome)) = self.ended_at_once.pop_front() {
            return self.over(attempt, outcome).await;
        }
        let shutdown = self.engine.inner.shutdown.clone();
        let timer = async {
            match at_most {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(Stop::Lost),
            Some(ended) = self.tasks.join_next_with_id() => self.ended(ended).await,
            Some(ask) = self.messages.recv() => self.answer(ask).await,
            () = timer => Ok(()),
            () = tokio::time::sleep(self.engine.inner.options.poll) => self.look_outside().await,
            () = shutdown.drain.cancelled(), if !shutdown.drain.is_cancelled() => Ok(()),
            () = shutdown.stop.cancelled(), if self.has_unstopped() => Ok(()),
        }
    }

    /// Checks for events that another process appended, such as a cancellation: no hint reports
    /// them.
    async fn look_outside(&mut self) -> Result<(), Stop> {
        let next_seq = self.run().head.next_seq;
        match self
            .engine
            .door()
            .store()
            .load_head(&self.lease.stream)
            .await
        {
            Ok(log) if log.next_seq == next_seq => Ok(()),
            Ok(_) => {
                self.run = None;
                Ok(())
            }
            Err(StoreError::Missing) => Err(Stop::Lost),
            Err(error) => {
                tracing::debug!(run = %self.lease.stream, %error, "a run could not be read");
                Ok(())
            }
        }
    }

    async fn answer(&mut self, ask: DriverMessage) -> Result<(), Stop> {
        match ask {
            DriverMessage::Command { envelope, reply } => {
                let answer = match self.append(&envelope, Guard::Outside).await {
                    Ok(()) => Ok(()),
                    Err(NotAppended::Rejected(rejection)) => Err(DoorError::Rejected(rejection)),
                    // This drops the reply, and the caller goes to the door.
                    Err(NotAppended::Stopped(stop)) => return Err(stop),
                };
                let _ = reply.send(answer);
                Ok(())
            }
            DriverMessage::Output { command, reply } => {
                let envelope = Envelope::from(*command);
                let guard = Guard::Holder(self.lease.epoch);
                let answer = match self.append(&envelope, guard).await {
                    Ok(()) => Ok(()),
                    Err(NotAppended::Rejected(Rejection::BudgetHeld)) => {
                        let command = Box::new(envelope.command);
                        self.held.push(DriverMessage::Output { command, reply });
                        return Ok(());
                    }
                    Err(NotAppended::Rejected(rejection)) => Err(OutputError::Refused(rejection)),
                    Err(NotAppended::Stopped(stop)) => {
                        let _ = reply.send(Err(OutputError::LeaseLost));
                        return Err(stop);
                    }
                };
                let _ = reply.send(answer);
                Ok(())
            }
        }
    }

    /// Retries the requests that wait for budget, if the log has grown since. Returns whether there
    /// were any.
    async fn answer_held(&mut self) -> Result<bool, Stop> {
        let next_seq = self.run().head.next_seq;
        if self.held.is_empty() || self.held_at == next_seq {
            return Ok(false);
        }
        self.held_at = next_seq;
        for ask in std::mem::take(&mut self.held) {
            // Stopped attempts no longer wait.
            if matches!(&ask, DriverMessage::Output { reply, .. } if !reply.is_closed()) {
                self.answer(ask).await?;
            }
        }
        Ok(true)
    }

    /// Decides the driver's own command. A rejection means that the state has changed.
    async fn decide(&mut self, command: Command) -> Result<(), Stop> {
        let guard = Guard::Holder(self.lease.epoch);
        match self.append(&Envelope::from(command), guard).await {
            Ok(()) => Ok(()),
            Err(NotAppended::Rejected(rejection)) => {
                tracing::debug!(run = %self.lease.stream, %rejection, "nothing left to decide");
                Ok(())
            }
            Err(NotAppended::Stopped(stop)) => Err(stop),
        }
    }

    async fn checkpoint(&mut self, every: u64) {
        let Some(run) = &self.run else { return };
        let next_seq = run.head.next_seq;
        if next_seq < self.checkpointed + every {
            return;
        }
        self.checkpointed = next_seq;
        let checkpoint = Checkpoint {
            next_seq,
            chain: run.head.chain,
            state: run.checkpoint(),
        };
        let store = self.engine.door().store();
        if let Err(error) = store.put_checkpoint(&self.lease.stream, checkpoint).await {
            tracing::debug!(%error, "a checkpoint was not saved");
        }
    }
}

/// The command for a chunk of output.
pub(crate) fn output(
    attempt: AttemptId,
    channel: OutputChannel,
    chunk: String,
    is_last: bool,
    meta: Option<Value>,
) -> Command {
    Command::Output {
        attempt,
        channel,
        chunk,
        is_last,
        meta,
    }
}

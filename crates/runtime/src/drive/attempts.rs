//! The attempts of a run in this process: started, stopped, and ended.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kernel::ids::AttemptId;
use kernel::limits::MAX_COUNT;
use kernel::run::budget::{Exhausted, shown};
use kernel::run::state::{Phase, timer};
use kernel::run::{Command, NodeError, Outcome};
use kernel::trace::attempt_span;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;

use super::{Driver, DriverMessage, OutputError, Stop, Task};
use crate::ports::{NodeContext, Ports, Repeat, STOP_GRACE, Started};
use crate::seal::Seal;
use crate::sinks::{Artifacts, Output};
use crate::supervisor::Left;

impl Driver {
    /// Stops tasks whose attempt the state no longer wants, or whose time is up.
    pub(super) fn stop_unwanted(&mut self) {
        let Some(run) = &self.run else { return };
        let stop_all = matches!(run.phase(), Some(Phase::Stopping { .. }))
            || self.engine.inner.shutdown.stop.is_cancelled();
        let now = self.engine.inner.door.store().now();
        let wanted: HashMap<AttemptId, Option<kernel::time::Timestamp>> = run
            .live_attempts()
            .map(|live| (live.id, live.timeout_at))
            .collect();
        for (id, task) in &mut self.running {
            match wanted.get(id) {
                None => task.stop.cancel(),
                Some(_) if stop_all => task.stop.cancel(),
                Some(Some(timeout)) if *timeout <= now => {
                    task.then_fire = Some(timer::timeout(&id.node));
                    task.stop.cancel();
                }
                Some(_) => {}
            }
        }
    }

    /// Starts tasks for attempts that this driver has started, one per node at a time: an attempt
    /// never overlaps an earlier one of its node that is still being stopped.
    ///
    /// While the engine drains, repeatable attempts are left to the next holder. Others begin:
    /// their start is in the log already, and after a crash they could not be told from ones that
    /// had run.
    pub(super) fn spawn_wanted(&mut self) {
        let Some(run) = &self.run else { return };
        let is_stopping = matches!(run.phase(), Some(Phase::Stopping { .. }));
        if is_stopping || self.engine.inner.shutdown.stop.is_cancelled() {
            return;
        }
        let is_draining = self.is_draining();
        let seal = self.seal();
        let facts = run.facts();
        let settings = facts.map(|facts| facts.configurable.clone());
        let settings = Arc::new(settings.unwrap_or_default());
        let limits = facts.map(|facts| facts.budget.limits.clone());
        let limits = Arc::new(limits.unwrap_or_default());
        let trace = run.header.span_context();
        let definition = run.header.definition.as_ref();
        let put_by = definition.map(|definition| definition.put_by);
        let put_by = put_by.unwrap_or_default();
        let mut starts = Vec::new();
        for live in run.live_attempts() {
            let waits_for_older = self.running.keys().any(|id| id.node == live.id.node);
            if !self.ours.contains(&live.id) || waits_for_older {
                continue;
            }
            let node = run.plan.node(live.node);
            let repeat = self
                .engine
                .inner
                .registry
                .repeat(&node.type_id, &node.config);
            if is_draining && repeat != Repeat::Once {
                continue;
            }
            let started = Started {
                owner: run.header.owner.clone(),
                put_by,
                run: run.header.stream.clone(),
                key: live.id.key(&run.header.key_origin()),
                effect: live.id.effect_key(&run.header.key_origin()),
                trace: trace.within(attempt_span(&run.header.stream, &live.id)),
                attempt: live.id.clone(),
                restarts: live.restarts,
                config: Arc::new(node.config.clone()),
                inputs: live.inputs.clone(),
                settings: settings.clone(),
                limits: limits.clone(),
                has_part_of_budget: run.header.policy.part_of_budget,
                past: self.past.get(&live.id).cloned().unwrap_or_default(),
            };
            starts.push((node.type_id.clone(), started));
        }
        for (type_id, mut started) in starts {
            let mut learn = |clear: &Value| self.run_redactor.learn(clear);
            let opened = (started.inputs.values_mut())
                .try_for_each(|value| seal.open_all(value, &mut learn));
            match opened
                .map_err(NodeError::from)
                .and_then(|()| self.within_budget(&type_id))
            {
                Ok(()) => self.spawn(&type_id, started),
                Err(error) => self.refuse(started, error),
            }
        }
    }

    /// Whether the budget has anything left that a node of this type spends.
    fn within_budget(&self, type_id: &str) -> Result<(), NodeError> {
        let node = self.engine.inner.registry.get(type_id);
        let Some(budget) = self.run().facts().map(|facts| &facts.budget) else {
            return Ok(());
        };
        for dimension in node.iter().flat_map(|node| node.spends()) {
            let (used, limit) = (budget.committed(dimension), budget.limits.get(*dimension));
            if let Some(limit) = limit.filter(|limit| used >= **limit) {
                let exhausted = Exhausted {
                    dimension: (*dimension).to_owned(),
                    observed: used.saturating_add(1).min(MAX_COUNT),
                    limit: *limit,
                };
                let message = format!(
                    "the budget of the run is used up: {} of {}; skip the node, abort, or start \
                     again with a larger budget",
                    shown(dimension, used),
                    shown(dimension, *limit)
                );
                return Err(NodeError {
                    message,
                    ..exhausted.error()
                });
            }
        }
        Ok(())
    }

    pub(super) fn seal(&self) -> Seal {
        Seal::new(
            self.ports.keyring.clone(),
            self.run().header.tenant().clone(),
        )
    }

    /// Ends an attempt that cannot receive its inputs.
    pub(super) fn refuse(&mut self, started: Started, error: NodeError) {
        let stop = self.lost.child_token();
        let ended = (started.attempt.clone(), Outcome::failed(error));
        self.ended_at_once.push_back(ended);
        let task = Task {
            stop,
            then_fire: None,
        };
        self.running.insert(started.attempt, task);
    }

    pub(super) fn spawn(&mut self, type_id: &str, started: Started) {
        let id = started.attempt.clone();
        // Losing the lease cancels the attempt, even while the driver waits.
        let stop = self.lost.child_token();
        let inner = &self.engine.inner;
        let node = inner.registry.get(type_id);
        let cx = NodeContext {
            stop: stop.clone(),
            output: Arc::new(Output::new(
                self.mailbox.clone(),
                (id.clone(), started.key.clone()),
                self.run_redactor.clone(),
                inner.stalls.clone(),
            )),
            artifacts: Arc::new(Artifacts::new(
                inner.door.store().clone(),
                started.owner.tenant.clone(),
                started.key.clone(),
                self.run_redactor.clone(),
            )),
            ports: Arc::new(Ports {
                outbound: self.ports.outbound.within(started.trace.clone()),
                ..Ports::clone(&self.ports)
            }),
        };
        let slots = inner.attempts.clone();
        let stopped = stop.clone();
        let missing = format!("this engine has no node type {type_id}");
        let mut attempt: Attempt = Box::pin(async move {
            let Some(node) = node else {
                let error = NodeError::new("capability_not_provided", missing);
                return Outcome::failed(error.fatal());
            };
            let _slot: OwnedSemaphorePermit = tokio::select! {
                biased;
                () = stopped.cancelled() => return Outcome::Stopped,
                slot = slots.acquire_owned() => match slot {
                    Ok(slot) => slot,
                    Err(_) => return Outcome::Stopped,
                },
            };
            node.run(started, cx).await
        });
        match poll_once(&mut attempt) {
            Some(outcome) => self.ended_at_once.push_back((id.clone(), outcome)),
            None => {
                let task = self.tasks.spawn(attempt.in_current_span());
                self.by_task.insert(task.id(), id.clone());
            }
        }
        self.running.insert(
            id,
            Task {
                stop,
                then_fire: None,
            },
        );
    }

    pub(super) fn has_unstopped(&self) -> bool {
        self.running.values().any(|task| !task.stop.is_cancelled())
    }

    pub(super) async fn ended(
        &mut self,
        ended: Result<(tokio::task::Id, Outcome), tokio::task::JoinError>,
    ) -> Result<(), Stop> {
        let (task, outcome) = match ended {
            Ok((task, outcome)) => (task, outcome),
            Err(error) => (error.id(), panicked()),
        };
        match self.by_task.remove(&task) {
            Some(attempt) => self.over(attempt, outcome).await,
            None => Ok(()),
        }
    }

    /// Writes the outcome of an attempt through the door.
    pub(super) async fn over(&mut self, attempt: AttemptId, outcome: Outcome) -> Result<(), Stop> {
        let Some(task) = self.running.remove(&attempt) else {
            return Ok(());
        };
        if let (Outcome::Stopped, Some(timer)) = (&outcome, task.then_fire) {
            return self.decide(Command::Fire { timer }).await;
        }
        let stopping = matches!(self.run().phase(), Some(Phase::Stopping { .. }));
        let (id, mut outcome) = (attempt.clone(), outcome);
        if outcome == Outcome::Stopped && !stopping {
            if task.stop.is_cancelled() {
                // Abandoned by a pause, or drained: nothing to record.
                return Ok(());
            }
            // Not a requested stop: the log rejected the attempt's output. Left in flight it would
            // be restarted, emit the same output, and be rejected again, for ever.
            outcome = unheard();
        }
        self.seal_outcome(&attempt, &mut outcome);
        self.run_redactor.outcome(&mut outcome);
        self.decide(Command::Finish { attempt, outcome }).await?;
        self.settle(&id);
        Ok(())
    }

    /// Sealing precedes redaction: sealed values stay whole.
    fn seal_outcome(&self, attempt: &AttemptId, outcome: &mut Outcome) {
        let plan = self.run().plan.clone();
        if let Err(error) = self.seal().outcome(&plan, &attempt.node, outcome) {
            *outcome = Outcome::failed(error.into());
        }
    }

    /// Drops an attempt's result at the supervisor once its outcome is in the log.
    pub(super) fn settle(&self, attempt: &AttemptId) {
        let Some(run) = self.run.as_ref().filter(|_| self.leaves_results) else {
            return;
        };
        if run.live_attempts().any(|live| live.id == *attempt) {
            return;
        }
        let key = attempt.key(&run.header.key_origin());
        let is_last = run.is_settled() && self.running.is_empty();
        let (ports, stream) = (self.ports.clone(), run.header.stream.clone());
        self.engine.inner.tasks.spawn_blocking(move || {
            let dropped = if is_last {
                ports.supervisor.forget(&stream)
            } else {
                ports.supervisor.settle(&stream, &key)
            };
            if let Err(error) = dropped {
                tracing::debug!(run = %stream, %error, "outputs of an attempt were not removed");
            }
        });
    }

    /// Ends processes that the lost holder of a stopping run has left: its attempts are written off
    /// next, and no restart would find the processes.
    pub(super) async fn end_left(&self) {
        let run = self.run();
        let is_stopping = matches!(run.phase(), Some(Phase::Stopping { .. }));
        if !(is_stopping && self.leaves_results) {
            return;
        }
        let lost = run.live_attempts();
        let lost = lost.filter(|live| !self.ours.contains(&live.id));
        let lost: Vec<_> = lost
            .map(|live| (live.id.key(&run.header.key_origin()), live.restarts))
            .collect();
        let (ports, stream) = (self.ports.clone(), run.header.stream.clone());
        let ended = tokio::task::spawn_blocking(move || {
            lost.iter().try_for_each(|(key, restarts)| {
                ports.supervisor.end_left(&Left {
                    run: &stream,
                    key,
                    restarts: *restarts,
                    grace: STOP_GRACE,
                })
            })
        });
        if let Ok(Err(error)) = ended.await {
            let run = &self.lease.stream;
            tracing::warn!(%run, %error, "processes of a lost attempt are still running");
        }
    }

    /// Stops every task and waits for its end. Their outcomes are dropped: the attempts stay in
    /// flight in the log, for the next holder.
    pub(super) async fn stop_tasks(&mut self) {
        self.held.clear();
        for task in self.running.values() {
            task.stop.cancel();
        }
        while !self.tasks.is_empty() {
            tokio::select! {
                biased;
                _ = self.tasks.join_next() => {}
                Some(ask) = self.messages.recv() => {
                    if let DriverMessage::Output { reply, .. } = ask {
                        let _ = reply.send(Err(OutputError::LeaseLost));
                    }
                }
            }
        }
        self.ended_at_once.clear();
        self.running.clear();
    }
}

type Attempt = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Runs an attempt up to its first wait. Most attempts end before one, and a task would cost more
/// than the attempt. A waiting attempt is polled again by its task, with that task's waker.
fn poll_once(attempt: &mut Attempt) -> Option<Outcome> {
    let mut cx = Context::from_waker(Waker::noop());
    // As in a task: a panic ends the attempt, not its driver.
    match std::panic::catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(&mut cx))) {
        Ok(Poll::Ready(outcome)) => Some(outcome),
        Ok(Poll::Pending) => None,
        Err(_) => Some(panicked()),
    }
}

fn unheard() -> Outcome {
    Outcome::failed(NodeError::new(
        "output_refused",
        "the log rejected the report of the node, so it was stopped; this is a fault of the node \
         or of the engine, see the engine's log",
    ))
}

fn panicked() -> Outcome {
    Outcome::failed(NodeError::new(
        "node_panicked",
        "the node stopped unexpectedly; this is a fault of the engine, see its log",
    ))
}

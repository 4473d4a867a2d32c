//! Timers, pause, resume, cancel.

use super::Decision;
use crate::audit::Actor;
use crate::definition::NodeIx;
use crate::ids::StreamId;
use crate::run::event::{CapKind, DrainPolicy, Ending, NodeError, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::state::{NodeStatus, Phase, timer};

impl Decision {
    pub(super) fn fire(&mut self, name: &str) -> Result<(), Rejection> {
        // Only timers of this phase count: the row of another may be about to go.
        let due = self
            .run
            .timers()
            .find_map(|(set, due)| (set == name).then_some(due))
            .ok_or(Rejection::NotDue)?;
        // A replay does not wait: a delay ends when its source has nothing more to observe.
        if due > self.now && !self.run.is_replay() {
            return Err(Rejection::NotDue);
        }
        if name == timer::RUN {
            let started = self.facts().started_at;
            let limit = due.ms_since(started);
            let observed = self.now.ms_since(started).max(limit + 1);
            self.breach_observed(CapKind::RunDuration, limit, observed, None);
            return Ok(());
        }
        if name == timer::WORK {
            self.work_is_over();
            return Ok(());
        }
        let (purpose, of) = name.split_once('/').ok_or(Rejection::NotDue)?;
        if purpose == "interrupt" {
            return self.expire(of);
        }
        let ix = self.run.plan.node_ix(of).ok_or(Rejection::NotDue)?;
        match purpose {
            "delay" => self.complete(ix, serde_json::Map::new(), None),
            "retry" => self.retry_now(ix),
            "timeout" => self.time_out(ix),
            _ => return Err(Rejection::NotDue),
        }
        self.conclude();
        Ok(())
    }

    /// The run has used up its working time.
    fn work_is_over(&mut self) {
        let limit = self.run.plan.settings.work_timeout_ms.unwrap_or(0);
        let work = self.facts().work.unwrap_or_default();
        let now = work.since.map_or(0, |since| self.now.ms_since(since));
        let observed = work.done_ms.saturating_add(now).max(limit + 1);
        self.emit(RunEvent::CapBreached {
            kind: CapKind::RunDuration,
            limit,
            observed,
            node_id: None,
        });
        let text = format!("the run may work for {limit} ms; raise workTimeout of its settings");
        let error = NodeError::new("run_timeout", text).fatal();
        self.stop(Ending::Failed {
            error,
            node_id: None,
        });
    }

    fn retry_now(&mut self, ix: NodeIx) {
        let attempt = self.current_attempt(ix);
        if self.is_running() {
            self.begin_attempt(ix, attempt, None);
        }
    }

    fn time_out(&mut self, ix: NodeIx) {
        let limit = self.run.plan.node(ix).timeout_ms.unwrap_or(0);
        let error = NodeError::new(
            "node_timeout",
            format!("the attempt took longer than {limit} ms; raise the node's timeout"),
        );
        let children: Vec<StreamId> = match &self.facts().nodes[ix.index()].status {
            NodeStatus::Dispatched { child, .. } => vec![child.clone()],
            NodeStatus::FannedOut { fan, .. } => fan.running.keys().cloned().collect(),
            _ => Vec::new(),
        };
        for child in children {
            self.cancel_child(&child, "parent-failed");
        }
        self.withdraw_from_workers(ix);
        self.tell_of_abandoned(ix);
        self.write_off(ix);
        self.fail_attempt(ix, error);
    }

    pub(super) fn cancel(
        &mut self,
        reason: Option<String>,
        by: Option<Actor>,
        parent: Option<StreamId>,
    ) -> Result<(), Rejection> {
        if matches!(self.run.phase(), Some(Phase::Stopping { .. })) {
            return Err(Rejection::Stopping);
        }
        // The parent records its own cancellation.
        if parent.is_none() {
            self.tell_of_cancellation(by.clone());
        }
        let by = by.map(|by| by.principal);
        self.stop(Ending::Cancelled { reason, by, parent });
        Ok(())
    }

    pub(super) fn pause(
        &mut self,
        reason: Option<String>,
        policy: DrainPolicy,
    ) -> Result<(), Rejection> {
        match self.run.phase() {
            Some(Phase::Stopping { .. }) => return Err(Rejection::Stopping),
            Some(Phase::Paused { .. }) => return Err(Rejection::AlreadyPaused),
            Some(Phase::Draining { .. }) if policy == DrainPolicy::DrainCurrentNode => {
                return Err(Rejection::AlreadyDraining);
            }
            _ => {}
        }
        if policy == DrainPolicy::DrainCurrentNode && self.drains() {
            self.emit(RunEvent::RunDraining { reason });
        } else {
            if policy == DrainPolicy::Immediate {
                let live: Vec<NodeIx> = self.run.live_attempts().map(|live| live.node).collect();
                for ix in live {
                    self.write_off(ix);
                }
            }
            self.emit(RunEvent::RunPaused {
                reason,
                drain_policy: policy,
            });
        }
        Ok(())
    }

    /// Whether something is running that a drained pause lets finish.
    pub(super) fn drains(&self) -> bool {
        self.run.has_unfinished_nodes()
    }

    pub(super) fn resume(&mut self, reason: Option<String>) -> Result<(), Rejection> {
        let is_held = match self.run.phase() {
            Some(Phase::Paused { .. }) => true,
            // A pause that is still pending is withdrawn.
            Some(Phase::Draining { .. }) => true,
            _ => false,
        };
        if !is_held {
            return Err(Rejection::NotPaused);
        }
        self.emit(RunEvent::RunResumed { reason });
        // Waits that ended during the pause; a delay's timer fires by itself.
        let due: Vec<NodeIx> = self
            .facts()
            .active
            .iter()
            .map(|ix| NodeIx(*ix))
            .filter(|ix| {
                let node = &self.facts().nodes[ix.index()];
                let timer = timer::retry(&self.node_id(*ix));
                matches!(node.status, NodeStatus::Backoff { .. })
                    && self
                        .facts()
                        .timers
                        .get(&timer)
                        .is_some_and(|due| *due <= self.now)
            })
            .collect();
        for ix in due {
            self.retry_now(ix);
        }
        self.schedule_everything();
        self.conclude();
        Ok(())
    }
}

//! Ends of runs: breached limits, stopping what is in flight, and the run's outputs.

use serde_json::{Map, Value};

use super::Decision;
use crate::definition::NodeIx;
use crate::ids::NodeId;
use crate::run::cause::SOURCE_MISSING;
use crate::run::command::Command;
use crate::run::event::{CapKind, ChildStatus, Ending, NodeError, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::schedule;
use crate::run::state::{End, NodeStatus, Phase};

impl Decision {
    /// A limit was reached: records it and ends the run.
    pub(super) fn breach(&mut self, kind: CapKind, limit: u64, node_id: Option<NodeId>) {
        let observed = limit.saturating_add(1);
        self.breach_observed(kind, limit, observed, node_id);
    }

    pub(super) fn breach_observed(
        &mut self,
        kind: CapKind,
        limit: u64,
        observed: u64,
        node_id: Option<NodeId>,
    ) {
        self.emit(RunEvent::CapBreached {
            kind,
            limit,
            observed,
            node_id: node_id.clone(),
        });
        let (code, message) = match kind {
            CapKind::NodeExecutions => (
                "recursion_limit_exceeded",
                format!("the run may start {limit} nodes; raise recursionLimit or look for a loop"),
            ),
            CapKind::RunDuration => (
                "run_timeout",
                format!("the run may take {limit} ms; raise its timeout"),
            ),
            CapKind::LoopIterations => (
                "loop_limit_exceeded",
                format!("the loop may run {limit} rounds; raise maxIterations or end it earlier"),
            ),
            CapKind::Schema
            | CapKind::BudgetTokens
            | CapKind::BudgetCost
            | CapKind::BudgetToolCalls
            | CapKind::BudgetRetries => unreachable!("this bound ends a node"),
        };
        let error = NodeError::new(code, message).fatal();
        self.stop(Ending::Failed { error, node_id });
    }

    /// Ends a replay at a wait before an effect that its source never had.
    pub(super) fn fail_replay(&mut self) -> Result<(), Rejection> {
        if self.is_stopping() {
            return Err(Rejection::Stopping);
        }
        let text =
            "the source of this replay was cancelled before an effect and has no outcome of it";
        self.stop(Ending::Failed {
            error: NodeError::new(SOURCE_MISSING, text).fatal(),
            node_id: None,
        });
        Ok(())
    }

    /// Ends the run as soon as no attempt is in flight. Waiting nodes are cancelled now; the holder
    /// stops the running attempts.
    pub(super) fn stop(&mut self, ending: Ending) {
        self.frontier.clear();
        if self.is_stopping() {
            return;
        }
        let reason = match &ending {
            Ending::Failed { .. } => "run_failed",
            Ending::Cancelled {
                parent: Some(_), ..
            } => "parent-cancelled",
            Ending::Cancelled {
                by: None,
                reason: Some(reason),
                ..
            } if reason == SOURCE_MISSING => SOURCE_MISSING,
            Ending::Cancelled { .. } => "run_cancelled",
        };
        self.cancel_children(reason);
        let live: Vec<NodeIx> = self.run.live_attempts().map(|live| live.node).collect();
        let waiting: Vec<NodeIx> = self
            .facts()
            .active
            .iter()
            .map(|ix| NodeIx(*ix))
            .filter(|ix| !live.contains(ix))
            .collect();
        for ix in waiting {
            self.cancel_node(ix, reason);
        }
        if live.is_empty() && !self.awaits_children(&ending) {
            self.settle(ending);
        } else {
            self.emit(RunEvent::RunStopping { ending });
        }
    }

    pub(super) fn cancel_node(&mut self, ix: NodeIx, reason: &str) {
        self.withdraw_from_workers(ix);
        // Children without propagated cancellation continue.
        if self.run.plan.node(ix).propagates_cancellation() {
            self.tell_of_abandoned(ix);
        }
        let node_id = self.node_id(ix);
        let visit = self.facts().nodes[ix.index()].visit;
        self.emit(RunEvent::NodeCancelled {
            node_id,
            visit,
            reason: reason.to_owned(),
        });
    }

    /// The next step when all nodes have been judged: the run completes, pauses or ends.
    pub(super) fn conclude(&mut self) {
        let live = self.run.has_live_work();
        match self.run.phase().cloned() {
            Some(Phase::Stopping { ending }) if !live && !self.awaits_children(&ending) => {
                self.settle(ending);
            }
            Some(Phase::Draining { reason }) if !self.drains() => {
                let drain_policy = crate::run::event::DrainPolicy::DrainCurrentNode;
                self.emit(RunEvent::RunPaused {
                    reason,
                    drain_policy,
                });
            }
            Some(Phase::Running | Phase::Pending)
                if self.facts().active.is_empty() && !schedule::has_startable(&self.run) =>
            {
                let duration_ms = self.now.ms_since(self.facts().started_at);
                let outputs = self.run_outputs();
                self.emit(RunEvent::RunCompleted {
                    outputs,
                    duration_ms,
                });
                self.tell_parent();
            }
            _ => {}
        }
    }

    fn settle(&mut self, ending: Ending) {
        let duration_ms = self.now.ms_since(self.facts().started_at);
        self.emit(match ending {
            Ending::Failed { error, node_id } => RunEvent::RunFailed {
                error,
                failed_node_id: node_id,
                duration_ms,
            },
            Ending::Cancelled { reason, by, parent } => RunEvent::RunCancelled {
                reason,
                cancelled_by: by,
                parent_run_id: parent,
                duration_ms,
            },
        });
        self.tell_parent();
    }

    /// The outputs of nodes without successors, by node id.
    fn run_outputs(&self) -> Map<String, Value> {
        let plan = &self.run.plan;
        let mut outputs = Map::new();
        for ix in plan.node_ixs() {
            let node = plan.node(ix);
            let is_last = node.outgoing.iter().all(|edge| plan.edge(*edge).back);
            if !is_last || node.within.is_some() {
                continue;
            }
            if let NodeStatus::Completed { outputs: of, .. } =
                &self.facts().nodes[ix.index()].status
            {
                outputs.insert(node.id.to_string(), of.clone());
            }
        }
        outputs
    }

    fn tell_parent(&mut self) {
        let Some(parent) = self.run.header.parent.clone() else {
            return;
        };
        let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let variables = object(&self.facts().variables);
        let spent = self.facts().budget.spent.clone();
        let (status, outputs, error) = match self.run.end() {
            Some(End::Completed { outputs }) => (ChildStatus::Completed, outputs.clone(), None),
            Some(End::Failed { error, .. }) => {
                (ChildStatus::Failed, Map::new(), Some(error.clone()))
            }
            Some(End::Cancelled { .. }) => (ChildStatus::Cancelled, Map::new(), None),
            None => return,
        };
        let command = Command::ChildSettled {
            child: self.run.header.stream.clone(),
            status,
            variables,
            outputs,
            error,
            spent,
        };
        self.send(&parent.run, None, command);
    }
}

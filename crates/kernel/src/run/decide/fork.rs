//! The first decision of a fork.

use super::Decision;
use super::create::check_bounds;
use crate::definition::{NodeIx, OnFailure};
use crate::ids::{Seq, StreamId};
use crate::run::command::Overlay;
use crate::run::event::{Ending, RunEvent, SkipReason};
use crate::run::rejection::Rejection;
use crate::run::schedule;
use crate::run::scope::Just;
use crate::run::state::NodeStatus;
use crate::stream::ForkMode;
use crate::time::Timestamp;

impl Decision {
    /// Marks the end of the copied prefix. Nothing starts here: the branch has no holder yet. The
    /// remaining consequences of the cut batch follow here. Nodes start with the first `Advance`.
    pub(super) fn fork(
        &mut self,
        source: &StreamId,
        at: Seq,
        overlay: &Overlay,
    ) -> Result<(), Rejection> {
        let origin = self.run.header.origin.as_ref();
        let is_new = origin.is_some_and(|origin| {
            // A replay of a branch repeats the branch's own fork.
            (origin.mode == ForkMode::Replay || origin.source == *source)
                && self.facts().forked_from.as_ref() != Some(source)
        });
        if !is_new {
            return Err(Rejection::Existing);
        }
        check_bounds(
            overlay.tags.as_deref().unwrap_or_default(),
            overlay.metadata.as_ref(),
            overlay.configurable.as_ref(),
        )?;
        let cut_at = self.run.head.at;
        self.emit(RunEvent::RunForked {
            source_run_id: source.clone(),
            from_sequence: at,
            tags: overlay.tags.clone(),
            metadata: overlay.metadata.clone(),
            configurable: overlay.configurable.clone(),
        });
        if self.is_stopping() {
            let active = self.facts().active.clone();
            for ix in active {
                self.cancel_node(NodeIx(ix), "stopped");
            }
        } else {
            self.suspend_who_asked();
            self.settle_failures();
            self.settle_conditions(cut_at);
            self.take_early_answers();
        }
        self.conclude();
        Ok(())
    }

    /// Suspends the nodes whose question was asked just before the cut.
    fn suspend_who_asked(&mut self) {
        for open in self.facts().interrupts.clone() {
            let node = &self.facts().nodes[NodeIx(open.node).index()];
            if !matches!(node.status, NodeStatus::Suspended { .. }) {
                self.suspend(&open.id);
            }
        }
    }

    /// Takes answers that had arrived before their question.
    fn take_early_answers(&mut self) {
        if self.run.phase().is_none() || self.is_stopping() {
            return;
        }
        for open in self.facts().interrupts.clone() {
            // An answer that was too late for the source is too late for its branch.
            if !self.run.is_past_deadline(&open, self.now) {
                self.take_early_answer(&open.id);
            }
        }
    }

    /// Repeats failures of conditions at the node that settled last: they ended the run.
    fn settle_conditions(&mut self, cut_at: Timestamp) {
        let plan = self.run.plan.clone();
        for ix in plan.node_ixs() {
            let node = &self.facts().nodes[ix.index()];
            if node.settled_at != Some(cut_at) || self.run.phase().is_none() {
                continue;
            }
            let broken = match node.status.clone() {
                NodeStatus::Completed { outputs, port, .. } => {
                    self.decline(ix, port.as_deref(), Just::Gave(&outputs)).1
                }
                NodeStatus::Failed { error, .. } => self.decline(ix, None, Just::Failed(&error)).1,
                _ => None,
            };
            if let Some(error) = broken {
                let node_id = Some(self.node_id(ix));
                return self.stop(Ending::Failed { error, node_id });
            }
        }
    }

    /// Decides the consequences of failures that were cut off.
    fn settle_failures(&mut self) {
        let plan = self.run.plan.clone();
        for ix in plan.node_ixs() {
            let NodeStatus::Failed { error, declined } = &self.facts().nodes[ix.index()].status
            else {
                continue;
            };
            let declined: Vec<_> = declined
                .iter()
                .map(|edge| crate::definition::EdgeIx(*edge))
                .collect();
            let error = error.clone();
            if plan.node(ix).on_failure == OnFailure::Skip {
                self.skip(ix, SkipReason::OnFailure);
                self.frontier.clear();
            } else if !schedule::is_handled(&plan, ix, &declined) {
                self.give_up(ix, error);
                return;
            }
        }
    }

    /// Ends the run for an unhandled failure.
    pub(super) fn give_up(&mut self, ix: NodeIx, error: crate::run::NodeError) {
        let node = &self.facts().nodes[ix.index()];
        let (retries, attempts) = (node.retries, node.attempts);
        let node_id = self.node_id(ix);
        if retries > 0 {
            self.emit(RunEvent::RunDeadLettered {
                node_id: node_id.clone(),
                reason: error.code.clone(),
                attempts,
            });
        }
        self.stop(Ending::Failed {
            error,
            node_id: Some(node_id),
        });
    }
}

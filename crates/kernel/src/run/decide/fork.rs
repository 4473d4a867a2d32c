//! Where a branch leaves its source.

use super::Decision;
use crate::definition::{NodeIx, OnFailure};
use crate::ids::{Seq, StreamId};
use crate::run::command::Overlay;
use crate::run::event::{Ending, RunEvent, SkipReason};
use crate::run::rejection::Rejection;
use crate::run::schedule;
use crate::run::state::NodeStatus;
use crate::stream::ForkMode;

impl Decision {
    /// Marks the end of the copied prefix. Nothing starts here: the branch has no holder yet.
    /// What the source had decided in the rest of the batch that was cut follows here or, as far
    /// as it starts nodes, with the first `Advance`.
    pub(super) fn fork(
        &mut self,
        source: &StreamId,
        at: Seq,
        overlay: &Overlay,
    ) -> Result<(), Rejection> {
        let origin = self.run.header.origin.as_ref();
        let is_new = origin.is_some_and(|origin| {
            origin.mode == ForkMode::Branch
                && origin.source == *source
                && self.facts().forked_from.as_ref() != Some(source)
        });
        if !is_new {
            return Err(Rejection::Existing);
        }
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
            self.settle_failures();
        }
        self.conclude();
        Ok(())
    }

    /// Failures whose consequences were cut off.
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

    /// Ends the run for a failure that nothing takes.
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

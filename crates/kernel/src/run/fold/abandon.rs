//! Restarting what was in flight.

use std::collections::BTreeSet;

use crate::coordinator::WORKER_NODE;
use crate::ids::InterruptId;
use crate::run::state::{Closed, NodeStatus, Run, RunState, timer};
use crate::time::Timestamp;

impl Run {
    /// An immediate pause: attempts in flight and delays start over as new attempts.
    pub(super) fn abandon_in_flight(&mut self) {
        self.abandon(|_, status| match status {
            NodeStatus::InFlight { attempt, .. } | NodeStatus::Delayed { attempt } => {
                Some(*attempt)
            }
            _ => None,
        });
    }

    /// A branch: attempts in flight belong to the source and start over here as new attempts,
    /// children as other runs, and tasks of workers as other tasks. Every other wait continues as
    /// if no time had passed. Where the cut went through an interrupt, an open question stays open
    /// and an answered one is asked anew.
    pub(super) fn leave_the_source_behind(&mut self, at: Timestamp) {
        let open: BTreeSet<InterruptId> = match self.facts() {
            Some(facts) => facts
                .interrupts
                .iter()
                .map(|open| open.id.clone())
                .collect(),
            None => BTreeSet::new(),
        };
        let asking: BTreeSet<u32> = match self.facts() {
            Some(facts) => facts.interrupts.iter().map(|open| open.node).collect(),
            None => BTreeSet::new(),
        };
        let plan = self.plan.clone();
        let is_worker = |ix: u32| plan.nodes[ix as usize].type_id == WORKER_NODE;
        self.withdraw_from_workers();
        self.abandon(|ix, status| match status {
            NodeStatus::InFlight { .. } if asking.contains(&ix) && !is_worker(ix) => None,
            NodeStatus::Suspended { interrupt, .. }
                if open.contains(interrupt) && !is_worker(ix) =>
            {
                None
            }
            NodeStatus::InFlight { attempt, .. }
            | NodeStatus::Delayed { attempt }
            | NodeStatus::Suspended { attempt, .. }
            | NodeStatus::Dispatched { attempt, .. }
            | NodeStatus::FannedOut { attempt, .. } => Some(*attempt),
            _ => None,
        });
        let passed = at.ms_since(self.head.at);
        let RunState::Active { facts, .. } = &mut self.state else {
            return;
        };
        facts.children.retain(|_, child| child.status.is_some());
        facts.budget.reserved.clear();
        for due in facts.timers.values_mut() {
            *due = due.plus_ms(passed);
        }
        if let Some(work) = &mut facts.work {
            work.since = work.since.map(|since| since.plus_ms(passed));
        }
        for open in &mut facts.interrupts {
            open.timeout_at = open.timeout_at.map(|due| due.plus_ms(passed));
        }
    }

    /// Withdraws questions to workers: they will answer the source.
    fn withdraw_from_workers(&mut self) {
        let plan = self.plan.clone();
        let RunState::Active { facts, .. } = &mut self.state else {
            return;
        };
        let is_worker = |ix: u32| plan.nodes[ix as usize].type_id == WORKER_NODE;
        for open in facts.interrupts.extract_if(.., |open| is_worker(open.node)) {
            facts.timers.remove(&timer::interrupt(&open.id));
            let closed = &mut facts.closed_interrupts;
            closed.entry(open.id).or_insert(Closed::Withdrawn);
        }
    }

    /// Prepares the next attempt of every node whose current one is chosen.
    pub(super) fn abandon(&mut self, chosen: impl Fn(u32, &NodeStatus) -> Option<u32>) {
        let plan = self.plan.clone();
        let RunState::Active { facts, .. } = &mut self.state else {
            return;
        };
        for &ix in &facts.active {
            let node = &mut facts.nodes[ix as usize];
            let Some(attempt) = chosen(ix, &node.status) else {
                continue;
            };
            let id = &plan.nodes[ix as usize].id;
            facts.timers.remove(&timer::delay(id));
            facts.timers.remove(&timer::timeout(id));
            node.status = NodeStatus::Ready {
                attempt: attempt.saturating_add(1),
            };
        }
    }
}

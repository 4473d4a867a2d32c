//! What was in flight and starts over.

use std::collections::BTreeSet;

use crate::ids::InterruptId;
use crate::run::state::{NodeStatus, Run, RunState, timer};
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

    /// A branch: what is in flight belongs to the source and starts over here as new attempts,
    /// children as other runs. Every other wait goes on as if no time had passed. Where the cut
    /// went through an interrupt, an open question stays open and an answered one is asked anew.
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
        self.abandon(|ix, status| match status {
            NodeStatus::InFlight { .. } if asking.contains(&ix) => None,
            NodeStatus::Suspended { interrupt, .. } if open.contains(interrupt) => None,
            NodeStatus::InFlight { attempt, .. }
            | NodeStatus::Delayed { attempt }
            | NodeStatus::Suspended { attempt, .. }
            | NodeStatus::Dispatched { attempt, .. } => Some(*attempt),
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
        for open in &mut facts.interrupts {
            open.timeout_at = open.timeout_at.map(|due| due.plus_ms(passed));
        }
    }

    /// Makes the next attempt ready of every node whose current one is chosen.
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

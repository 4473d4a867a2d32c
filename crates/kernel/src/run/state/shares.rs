//! Sharing the rest of a budget between child runs and what runs next to them.

use std::collections::BTreeSet;

use super::{Facts, NodeStatus, Run};
use crate::definition::{NodeIx, NodeKind, Plan, PlanNode};

/// The beginning of the types of work nodes that call models.
const MODEL_NODES: &str = "core.ai.";

impl Run {
    /// Whether a node that starts a child waits for budget. Calls in progress and children at work
    /// may return the missing amount. A child that waits for something outside is not waited for:
    /// this run might have to provide it.
    pub fn waits_for_budget(&self, ix: NodeIx) -> bool {
        let Some(facts) = self.facts() else {
            return false;
        };
        let budget = &facts.budget;
        let own = self.plan.node(ix).child().map(|child| &child.budget);
        budget.limits.iter().any(|(dimension, limit)| {
            let own = own.and_then(|own| own.get(dimension));
            let wanted = own.copied().unwrap_or(1);
            let returns = budget.reserved.iter();
            let returns = returns.filter(|(holder, _)| !is_waiting_child(facts, holder));
            let returns = returns.filter_map(|(_, amounts)| amounts.get(dimension));
            let returns: u64 = returns.fold(0, |sum, amount| sum.saturating_add(*amount));
            let committed = budget.committed(dimension);
            committed.saturating_add(wanted) > *limit
                && (committed - returns.min(committed)).saturating_add(wanted) <= *limit
        })
    }

    /// Whether a child that a node starts now has a limit in a dimension, besides those of its
    /// definition.
    pub fn limits_child(&self, ix: NodeIx, dimension: &str) -> bool {
        let node = self.plan.node(ix);
        let own = match self.wanted_child(ix) {
            Some(worker) if node.dispatch().is_some() => node.worker(&worker),
            _ => node.child().cloned(),
        };
        let of_run = self.facts().map(|facts| &facts.budget.limits);
        of_run.is_some_and(|limits| limits.contains_key(dimension))
            || own.is_some_and(|own| own.budget.contains_key(dimension))
    }

    /// The number of equal parts of the rest of the budget, of which a child that starts now gets
    /// one: one for each child that starts now, and one for each other active node that may spend
    /// before this child ends.
    pub(crate) fn shares_of_budget(&self, ix: NodeIx) -> u64 {
        let (plan, facts) = match self.facts() {
            Some(facts) => (&self.plan, facts),
            None => return 1,
        };
        let is_awaited = (plan.node(ix).child()).is_none_or(|child| child.wait_for_completion);
        let mut after = BTreeSet::from([ix]);
        if is_awaited {
            after.extend(downstream(plan, ix));
        }
        let spends_later = |other: NodeIx| {
            let mut next = downstream(plan, other).into_iter();
            next.any(|next| !after.contains(&next) && spends(plan.node(next)))
        };
        let active = facts.active.iter().map(|other| NodeIx(*other));
        let others = active.filter(|other| *other != ix).map(|other| {
            let node = plan.node(other);
            match &facts.nodes[other.index()].status {
                NodeStatus::InFlight { .. } if node.kind != NodeKind::Work => 1,
                NodeStatus::FannedOut { .. } if starting(facts, other) > 0 => {
                    starting(facts, other)
                }
                NodeStatus::FannedOut { .. } | NodeStatus::Dispatched { .. } => {
                    u64::from(spends_later(other))
                }
                _ => u64::from(spends(node) || spends_later(other)),
            }
        });
        let unawaited = u64::from(!is_awaited && spends_later(ix));
        (others.sum::<u64>() + starting(facts, ix).max(1) + unawaited).max(1)
    }
}

/// Whether a holder of a reservation is a child that waits for something outside.
fn is_waiting_child(facts: &Facts, holder: &str) -> bool {
    let mut children = facts.children.iter();
    children.any(|(id, child)| id.as_str() == holder && child.waits().is_some())
}

/// Workers of a node that have not started.
fn starting(facts: &Facts, ix: NodeIx) -> u64 {
    match &facts.nodes[ix.index()].status {
        NodeStatus::FannedOut { fan, .. } => {
            let begun = fan.pending.unwrap_or(fan.next);
            u64::from(fan.total.saturating_sub(begun))
        }
        _ => 0,
    }
}

/// Whether a node spends from the budget: it calls a model or starts child runs.
fn spends(node: &PlanNode) -> bool {
    let calls_models = node.kind == NodeKind::Work && node.type_id.starts_with(MODEL_NODES);
    !node.disabled && (calls_models || node.child().is_some() || node.dispatch().is_some())
}

/// The nodes that edges lead to from a node.
fn downstream(plan: &Plan, from: NodeIx) -> BTreeSet<NodeIx> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(ix) = open.pop() {
        let edges = plan.node(ix).outgoing.iter();
        let targets = edges.map(|edge| plan.edge(*edge).target);
        open.extend(targets.filter(|target| found.insert(*target)));
    }
    found
}

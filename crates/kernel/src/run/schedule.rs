//! Which nodes may start: trigger rules, edges and rounds of loops, as queries on a state.
//!
//! Nothing here changes the state; `decide` queries and emits.

use crate::definition::{EdgeIx, NodeIx, NodeKind, Plan, TriggerRule};
use crate::run::state::{Facts, NodeStatus, Run, RunState};

/// The result of a node's trigger rules for its current visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start it.
    Fire,
    /// Some source has to settle first.
    Wait,
    /// It can never start: skip it.
    Never,
}

/// The state of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeState {
    /// Its source has not settled.
    Pending,
    /// Its source completed and the edge is followed.
    Taken,
    /// Its source failed.
    Failed,
    /// Its source was skipped (also after failing, under `onFailure: skip`) or cancelled, or the
    /// edge was declined.
    Skipped,
}

/// Judges an idle node.
///
/// Edges with the same trigger rule form a group. The node fires when every group is satisfied and
/// is skipped as soon as one group can no longer be satisfied. A node without relevant edges is an
/// entry and fires.
pub fn judge(plan: &Plan, facts: &Facts, node: NodeIx) -> Verdict {
    let mut groups: [Option<Group>; RULES.len()] = Default::default();
    for &edge in &plan.node(node).incoming {
        let plan_edge = plan.edge(edge);
        if plan_edge.back {
            continue;
        }
        let slot = RULES
            .iter()
            .position(|rule| *rule == plan_edge.rule)
            .unwrap_or(0);
        groups[slot]
            .get_or_insert_default()
            .add(edge_state(plan, facts, edge));
    }
    let mut verdict = Verdict::Fire;
    for (rule, group) in RULES.iter().zip(groups) {
        let Some(group) = group else { continue };
        match group.verdict(*rule) {
            Verdict::Never => return Verdict::Never,
            Verdict::Wait => verdict = Verdict::Wait,
            Verdict::Fire => {}
        }
    }
    verdict
}

const RULES: [TriggerRule; 5] = [
    TriggerRule::AllSuccess,
    TriggerRule::AnySuccess,
    TriggerRule::AllComplete,
    TriggerRule::NoneFailed,
    TriggerRule::AnyFailed,
];

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    pending: u32,
    taken: u32,
    failed: u32,
    skipped: u32,
}

impl Group {
    fn add(&mut self, state: EdgeState) {
        match state {
            EdgeState::Pending => self.pending += 1,
            EdgeState::Taken => self.taken += 1,
            EdgeState::Failed => self.failed += 1,
            EdgeState::Skipped => self.skipped += 1,
        }
    }

    fn verdict(self, rule: TriggerRule) -> Verdict {
        let settled = self.pending == 0;
        match rule {
            TriggerRule::AllSuccess if self.failed + self.skipped > 0 => Verdict::Never,
            TriggerRule::AnySuccess if self.taken > 0 => Verdict::Fire,
            TriggerRule::AnySuccess if settled => Verdict::Never,
            TriggerRule::NoneFailed if self.failed > 0 => Verdict::Never,
            TriggerRule::AnyFailed if self.failed > 0 => Verdict::Fire,
            TriggerRule::AnyFailed if settled => Verdict::Never,
            _ if settled => Verdict::Fire,
            _ => Verdict::Wait,
        }
    }
}

fn edge_state(plan: &Plan, facts: &Facts, edge: EdgeIx) -> EdgeState {
    let source = plan.edge(edge).source;
    match &facts.nodes[source.index()].status {
        NodeStatus::Completed { port, declined, .. } => {
            let mid_loop = plan.node(source).begins_round(port.as_deref());
            let is_exit = plan
                .node(source)
                .body
                .as_ref()
                .is_some_and(|b| b.exits.contains(&edge));
            if mid_loop && is_exit {
                EdgeState::Pending
            } else if declined.contains(&edge.0) {
                EdgeState::Skipped
            } else {
                EdgeState::Taken
            }
        }
        NodeStatus::Failed { declined, .. } => {
            if declined.contains(&edge.0) {
                EdgeState::Skipped
            } else {
                EdgeState::Failed
            }
        }
        NodeStatus::Skipped { .. } | NodeStatus::Cancelled => EdgeState::Skipped,
        NodeStatus::Idle
        | NodeStatus::InFlight { .. }
        | NodeStatus::Delayed { .. }
        | NodeStatus::Dispatched { .. }
        | NodeStatus::FannedOut { .. }
        | NodeStatus::Suspended { .. }
        | NodeStatus::Backoff { .. }
        | NodeStatus::Ready { .. } => EdgeState::Pending,
    }
}

/// Whether a failure of `node` is handled: an edge that accepts failures is followed.
pub fn is_handled(plan: &Plan, node: NodeIx, declined: &[EdgeIx]) -> bool {
    let follows = |edge: &EdgeIx| takes_failures(plan.edge(*edge).rule) && !declined.contains(edge);
    plan.node(node).outgoing.iter().any(follows)
}

/// Whether an edge with this rule accepts failures.
pub fn takes_failures(rule: TriggerRule) -> bool {
    matches!(rule, TriggerRule::AnyFailed | TriggerRule::AllComplete)
}

/// The state of a loop's round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// No round is open, or its body is still at work.
    Open,
    /// The body has settled and leads back to the head.
    Again,
    /// The body has settled and no edge leads back: the loop is left.
    Broken,
}

/// Judges the round of a loop head.
pub fn judge_round(plan: &Plan, facts: &Facts, head: NodeIx) -> Round {
    let Some(body) = &plan.node(head).body else {
        return Round::Open;
    };
    let NodeStatus::Completed { port, .. } = &facts.nodes[head.index()].status else {
        return Round::Open;
    };
    if !plan.node(head).begins_round(port.as_deref()) {
        return Round::Open;
    }
    // Nested bodies that were never entered stay idle only while their head is unsettled.
    let over = body
        .nodes
        .iter()
        .all(|node| facts.nodes[node.index()].status.is_settled())
        && !body
            .nodes
            .iter()
            .any(|node| is_mid_loop(plan, facts, *node));
    if !over {
        return Round::Open;
    }
    if leads_back(plan, facts, head) {
        Round::Again
    } else {
        Round::Broken
    }
}

/// Whether a settled body leads back to its head.
pub fn leads_back(plan: &Plan, facts: &Facts, head: NodeIx) -> bool {
    let body = plan.node(head).body.as_ref();
    let mut back_edges = body.into_iter().flat_map(|body| &body.back_edges);
    back_edges.any(|edge| {
        let state = edge_state(plan, facts, *edge);
        let rule = plan.edge(*edge).rule;
        match state {
            EdgeState::Taken => rule != TriggerRule::AnyFailed,
            EdgeState::Failed => takes_failures(rule),
            EdgeState::Skipped => rule == TriggerRule::AllComplete,
            EdgeState::Pending => false,
        }
    })
}

fn is_mid_loop(plan: &Plan, facts: &Facts, node: NodeIx) -> bool {
    match &facts.nodes[node.index()].status {
        NodeStatus::Completed { port, .. } => plan.node(node).begins_round(port.as_deref()),
        _ => false,
    }
}

/// Whether a running run has something that a worker should start or settle now. Visits every node.
pub fn has_startable(run: &Run) -> bool {
    let RunState::Active { facts, .. } = &run.state else {
        return false;
    };
    let plan = &run.plan;
    let has_slot = has_free_slot(run);
    run.plan
        .node_ixs()
        .any(|ix| match &facts.nodes[ix.index()].status {
            NodeStatus::Idle => match judge(plan, facts, ix) {
                Verdict::Wait => false,
                Verdict::Never => true,
                Verdict::Fire => {
                    let node = plan.node(ix);
                    node.disabled || !takes_slot(node.kind) || has_slot
                }
            },
            NodeStatus::Ready { .. } => true,
            NodeStatus::Completed { .. } => judge_round(plan, facts, ix) != Round::Open,
            _ => false,
        })
}

/// Whether a node counts against `maxParallel` from its start to its end.
pub fn takes_slot(kind: NodeKind) -> bool {
    kind.control()
        .is_none_or(|control| control.spec().runs_children)
}

/// Whether `maxParallel` lets another node start. A node keeps its slot while it waits for its
/// next attempt, so that a retry never has to queue.
pub fn has_free_slot(run: &Run) -> bool {
    let (RunState::Active { facts, .. }, Some(slots)) =
        (&run.state, run.header.policy.max_parallel)
    else {
        return true;
    };
    let occupied = facts
        .active
        .iter()
        .filter(|ix| takes_slot(run.plan.nodes[**ix as usize].kind))
        .count();
    occupied < slots.max(1) as usize
}

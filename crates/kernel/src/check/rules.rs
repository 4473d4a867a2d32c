//! Trigger rules, as the documentation of workflows states them.

use super::Log;
use super::nodes::{Ended, Place};
use crate::definition::{EdgeIx, NodeIx, TriggerRule};

/// The effect of an edge on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Not known yet.
    Unknown,
    /// Its source completed and the edge is followed.
    Followed,
    /// Its source failed.
    Failed,
    /// It is not followed.
    Dropped,
}

/// The result of the trigger rules of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It must start.
    Starts,
    /// It can no longer start.
    Never,
    /// It depends on later events.
    Open,
}

impl Log<'_> {
    /// Judges a node that was not entered in this visit.
    pub(super) fn judge(&self, node: NodeIx) -> Judgement {
        let edges = &self.plan.node(node).incoming;
        let forward = || edges.iter().filter(|edge| !self.plan.edge(**edge).back);
        let mut rules: Vec<TriggerRule> =
            forward().map(|edge| self.plan.edge(*edge).rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let met: Vec<Option<bool>> = rules
            .into_iter()
            .map(|rule| {
                let of_rule = forward().filter(|edge| self.plan.edge(**edge).rule == rule);
                let fates: Vec<Fate> = of_rule.map(|edge| self.fate(*edge)).collect();
                is_met(rule, &fates)
            })
            .collect();
        if met.contains(&Some(false)) {
            Judgement::Never
        } else if met.contains(&None) {
            Judgement::Open
        } else {
            Judgement::Starts
        }
    }

    /// Whether every node of a loop's body has ended, so that its round is over.
    pub(super) fn is_round_over(&self, head: NodeIx) -> bool {
        let Some(body) = &self.plan.node(head).body else {
            return false;
        };
        body.nodes
            .iter()
            .all(|inner| match &self.nodes[inner.index()].place {
                Place::Ended(ended) => !ended.is_in_body(),
                _ => false,
            })
    }

    /// Whether an edge takes a failure.
    pub(super) fn is_taken(&self, node: NodeIx, declined: &[EdgeIx]) -> bool {
        self.plan.node(node).outgoing.iter().any(|edge| {
            !declined.contains(edge)
                && match self.plan.edge(*edge).rule {
                    TriggerRule::AnyFailed | TriggerRule::AllComplete => true,
                    TriggerRule::AllSuccess | TriggerRule::AnySuccess | TriggerRule::NoneFailed => {
                        false
                    }
                }
        })
    }

    fn fate(&self, edge: EdgeIx) -> Fate {
        let source = self.plan.edge(edge).source;
        let Place::Ended(ended) = &self.nodes[source.index()].place else {
            return Fate::Unknown;
        };
        match ended {
            Ended::Completed { declined, .. } => {
                let body = self.plan.node(source).body.as_ref();
                let leaves = body.is_some_and(|body| body.exits.contains(&edge));
                if ended.is_in_body() && leaves {
                    Fate::Unknown
                } else if declined.contains(&edge) {
                    Fate::Dropped
                } else {
                    Fate::Followed
                }
            }
            Ended::Failed { declined } if declined.contains(&edge) => Fate::Dropped,
            Ended::Failed { .. } => Fate::Failed,
            Ended::Skipped | Ended::Cancelled => Fate::Dropped,
        }
    }
}

/// `None` while both results are possible.
fn is_met(rule: TriggerRule, fates: &[Fate]) -> Option<bool> {
    let all_known = !fates.contains(&Fate::Unknown);
    let known = |met: bool| all_known.then_some(met);
    match rule {
        // Every source completed.
        TriggerRule::AllSuccess => {
            if fates
                .iter()
                .any(|fate| matches!(fate, Fate::Failed | Fate::Dropped))
            {
                Some(false)
            } else {
                known(true)
            }
        }
        // At least one source completed.
        TriggerRule::AnySuccess if fates.contains(&Fate::Followed) => Some(true),
        TriggerRule::AnySuccess => known(false),
        // Every source finished in any way.
        TriggerRule::AllComplete => known(true),
        // Every source finished and none failed.
        TriggerRule::NoneFailed if fates.contains(&Fate::Failed) => Some(false),
        TriggerRule::NoneFailed => known(true),
        // At least one source failed.
        TriggerRule::AnyFailed if fates.contains(&Fate::Failed) => Some(true),
        TriggerRule::AnyFailed => known(false),
    }
}

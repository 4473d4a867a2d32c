//! The events of a run's budget.

use super::Decision;
use crate::run::budget::{Amounts, RETRIES};
use crate::run::event::{BudgetScope, RunEvent};

impl Decision {
    /// Records the limits of a run that has some.
    pub(super) fn announce_budget(&mut self) {
        let limits = self.facts().budget.limits.clone();
        if limits.is_empty() {
            return;
        }
        let scope = if self.run.header.policy.budget.is_empty() {
            BudgetScope::Workflow
        } else {
            BudgetScope::Run
        };
        self.emit(RunEvent::BudgetAnnounced { limits, scope });
    }

    /// The thresholds that the spending of an event crosses.
    pub(super) fn crossed_by(&self, event: &RunEvent) -> Vec<RunEvent> {
        match event {
            RunEvent::BudgetSettled { spent, .. } | RunEvent::ChildSettled { spent, .. } => {
                self.crossed(spent)
            }
            RunEvent::NodeRetried { .. } => self.crossed(&[(RETRIES.to_owned(), 1)].into()),
            _ => Vec::new(),
        }
    }

    fn crossed(&self, spent: &Amounts) -> Vec<RunEvent> {
        let facts = self.run.facts().filter(|facts| facts.budget.is_announced);
        let Some(facts) = facts else {
            return Vec::new();
        };
        let percent = facts.configurable.get("budget");
        let Some(percent) = percent.and_then(|budget| budget.get("thresholdPercent")) else {
            return Vec::new();
        };
        let budget = &facts.budget;
        let share = percent.as_f64().unwrap_or(100.0) / 100.0;
        let crossing = |(dimension, amount): (&String, &u64)| {
            let limit = *budget.limits.get(dimension)?;
            let before = budget.spent.get(dimension).copied().unwrap_or_default();
            let consumed = before.saturating_add(*amount);
            let threshold = limit as f64 * share;
            let is_crossed = (before as f64) < threshold || before == 0;
            (is_crossed && *amount > 0 && consumed as f64 >= threshold).then(|| {
                RunEvent::BudgetThresholdCrossed {
                    dimension: dimension.clone(),
                    consumed,
                    limit,
                    percent: percent.clone(),
                }
            })
        };
        spent.iter().filter_map(crossing).collect()
    }

    /// Records that a dimension of the budget is used up.
    pub(super) fn exhaust(&mut self, dimension: &str, limit: u64) {
        let budget = &self.facts().budget;
        if budget.is_announced {
            let consumed = budget.spent.get(dimension).copied().unwrap_or_default();
            let dimension = dimension.to_owned();
            self.emit(RunEvent::BudgetExhausted {
                dimension,
                consumed,
                limit,
            });
        }
    }
}

//! Budget counters: reserve before spending, settle what was spent, refund the rest.

mod policy;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::definition::Plan;
use crate::limits::MAX_COUNT;
use crate::run::event::{CapKind, NodeError};

pub use policy::{BudgetPlace, BudgetPolicy, Misread};

/// Tokens that models read and write.
pub const TOKENS: &str = "tokens";
/// Millionths of a US dollar.
pub const COST: &str = "costMicroUsd";
/// Calls of tools.
pub const TOOL_CALLS: &str = "toolCalls";
/// Attempts after one that failed.
pub const RETRIES: &str = "retries";
/// The code of a node that the budget has nothing left for.
const EXHAUSTED: &str = "budget_exhausted";

/// Amounts by dimension (`tokens`, `costMicroUsd`, `toolCalls`, …).
pub type Amounts = BTreeMap<String, u64>;

/// What a run may spend, has spent and has set aside. A child takes its part with the message
/// that creates it and hands back what it did not use with the message that it settled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The most that may be spent; a dimension not named is unbounded.
    pub limits: Amounts,
    /// What was spent for good.
    pub spent: Amounts,
    /// What is set aside, by who may spend it.
    pub reserved: BTreeMap<String, Amounts>,
}

/// A reservation does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run's budget is used up: {field} allows {}, and with the next step {} would be spent; \
     raise {field}, or let the run do less",
    shown(dimension, *limit), shown(dimension, *observed), field = policy::field_of(dimension)
)]
pub struct Exhausted {
    /// The dimension.
    pub dimension: String,
    /// What is spent and set aside with the refused part.
    pub observed: u64,
    /// The limit.
    pub limit: u64,
}

impl Exhausted {
    /// The error of a node that is refused. Trying again cannot help.
    pub fn error(&self) -> NodeError {
        let details = json!({
            "dimension": self.dimension, "limit": self.limit, "observed": self.observed,
        });
        let error = NodeError::new(EXHAUSTED, self.to_string());
        error.with_details(details).fatal()
    }

    /// Reads such an error back. `None` for any other.
    pub(super) fn of(error: &NodeError) -> Option<Self> {
        let details = error.details.as_ref().filter(|_| error.code == EXHAUSTED)?;
        let number = |key: &str| details.get(key)?.as_u64();
        Some(Self {
            dimension: details.get("dimension")?.as_str()?.to_owned(),
            observed: number("observed")?,
            limit: number("limit")?,
        })
    }

    /// The bound that was reached. `None` for a dimension that is no bound of the protocol.
    pub(super) fn cap(&self) -> Option<CapKind> {
        Some(match self.dimension.as_str() {
            TOKENS => CapKind::BudgetTokens,
            COST => CapKind::BudgetCost,
            TOOL_CALLS => CapKind::BudgetToolCalls,
            RETRIES => CapKind::BudgetRetries,
            _ => return None,
        })
    }
}

/// An amount as people read it.
pub fn shown(dimension: &str, amount: u64) -> String {
    match dimension {
        COST => {
            let text = format!("{}.{:06}", amount / 1_000_000, amount % 1_000_000);
            let cents = text.len() - 4;
            let rest = text[cents..].trim_end_matches('0').len();
            format!("${}", &text[..cents + rest])
        }
        TOOL_CALLS => format!("{amount} tool calls"),
        dimension => format!("{amount} {dimension}"),
    }
}

/// Why an estimated amount cannot be set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// It never can be.
    Exhausted(Exhausted),
    /// What others have set aside may be free again soon.
    Held,
}

impl Budget {
    /// Whether `amounts` could be set aside now.
    ///
    /// # Errors
    /// The first dimension, by name, that does not fit.
    pub fn fits(&self, amounts: &Amounts) -> Result<(), Exhausted> {
        for (dimension, amount) in amounts {
            let Some(&limit) = self.limits.get(dimension) else {
                continue;
            };
            let observed = self.committed(dimension).saturating_add(*amount);
            if observed > limit {
                return Err(Exhausted {
                    dimension: dimension.clone(),
                    observed: observed.min(MAX_COUNT),
                    limit,
                });
            }
        }
        Ok(())
    }

    /// What is set aside for a call of which only an estimate is known: `likely`, or, where less is
    /// left and no other attempt has set anything aside, all that is left, as long as that is
    /// `least`. So of calls at the same time at most one can go over a limit.
    ///
    /// # Errors
    /// `Held` where other attempts may give back what is missing, else what is exhausted. Children
    /// are not waited for: they may take any time.
    pub fn estimate(
        &self,
        holder: &str,
        (likely, least): (&Amounts, &Amounts),
        is_child: impl Fn(&str) -> bool,
    ) -> Result<Amounts, NotNow> {
        let mut granted = likely.clone();
        let mut is_held = false;
        for (dimension, amount) in &mut granted {
            let Some(&limit) = self.limits.get(dimension) else {
                *amount = (*amount).min(MAX_COUNT);
                continue;
            };
            let committed = self.committed(dimension);
            if committed.saturating_add(*amount) <= limit {
                continue;
            }
            let least = least.get(dimension).copied().unwrap_or(*amount);
            let others = self.reserved.iter();
            let others = others.filter(|(of, _)| *of != holder && !is_child(of));
            let others = others.filter_map(|(_, amounts)| amounts.get(dimension));
            let others = others.fold(0, |sum: u64, n| sum.saturating_add(*n));
            let observed = (committed - others.min(committed)).saturating_add(least);
            if observed > limit {
                return Err(NotNow::Exhausted(Exhausted {
                    dimension: dimension.clone(),
                    observed: observed.min(MAX_COUNT),
                    limit,
                }));
            }
            is_held |= others > 0;
            *amount = limit.saturating_sub(committed);
        }
        if is_held {
            return Err(NotNow::Held);
        }
        Ok(granted)
    }

    /// What is spent and set aside in a dimension.
    pub fn committed(&self, dimension: &str) -> u64 {
        let of = |amounts: &Amounts| amounts.get(dimension).copied().unwrap_or(0);
        self.reserved
            .values()
            .map(of)
            .fold(of(&self.spent), u64::saturating_add)
    }

    /// Sets amounts aside, on top of what the holder has already.
    pub fn reserve(&mut self, holder: &str, amounts: &Amounts) {
        let held = self.reserved.entry(holder.to_owned()).or_default();
        add(held, amounts);
    }

    /// Another attempt follows one that failed.
    pub(super) fn count_retry(&mut self) {
        if self.limits.contains_key(RETRIES) {
            add(&mut self.spent, &Amounts::from([(RETRIES.to_owned(), 1)]));
        }
    }

    /// Ends a reservation: `spent` is gone, the rest is free again.
    pub fn settle(&mut self, holder: &str, spent: &Amounts) {
        self.reserved.remove(holder);
        add(&mut self.spent, spent);
    }
}

impl Plan {
    /// The limits of a run that says these: of two limits the lower one counts.
    pub(crate) fn limits_of_runs(&self, run: &Amounts) -> Amounts {
        let mut limits = run.clone();
        for (dimension, limit) in &self.budget.limits {
            let of_run = limits.entry(dimension.clone()).or_insert(*limit);
            *of_run = (*of_run).min(*limit);
        }
        limits
    }
}

/// The same amounts, each small enough for JSON to hold exactly.
pub(super) fn countable(amounts: &Amounts) -> Amounts {
    let bounded = |(dimension, n): (&String, &u64)| (dimension.clone(), (*n).min(MAX_COUNT));
    amounts.iter().map(bounded).collect()
}

fn add(to: &mut Amounts, amounts: &Amounts) {
    for (dimension, amount) in amounts {
        let sum = to.entry(dimension.clone()).or_default();
        *sum = sum.saturating_add(*amount).min(MAX_COUNT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(n: u64) -> Amounts {
        Amounts::from([("tokens".to_owned(), n)])
    }

    #[test]
    fn a_reservation_counts_until_it_is_settled_and_the_rest_is_refunded() {
        let mut budget = Budget {
            limits: tokens(100),
            ..Budget::default()
        };
        assert_eq!(budget.fits(&tokens(100)), Ok(()));
        budget.reserve("a", &tokens(80));
        assert_eq!(
            budget.fits(&tokens(21)),
            Err(Exhausted {
                dimension: "tokens".into(),
                observed: 101,
                limit: 100
            })
        );
        budget.settle("a", &tokens(30));
        assert_eq!(budget.fits(&tokens(70)), Ok(()));
        assert!(budget.fits(&tokens(71)).is_err());
    }

    #[test]
    fn an_estimate_takes_what_is_left_and_the_next_one_waits() {
        let mut budget = Budget {
            limits: tokens(100),
            ..Budget::default()
        };
        let estimate = |budget: &Budget, likely, least| {
            let amounts = (&tokens(likely), &tokens(least));
            budget.estimate("a", amounts, |holder| holder == "child")
        };
        budget.reserve("b", &tokens(30));
        assert_eq!(estimate(&budget, 70, 1), Ok(tokens(70)));
        assert_eq!(estimate(&budget, 71, 1), Err(NotNow::Held));
        budget.settle("b", &tokens(30));
        assert_eq!(estimate(&budget, 71, 1), Ok(tokens(70)));
        assert_eq!(estimate(&budget, u64::MAX, 70), Ok(tokens(70)));
        let refused = NotNow::Exhausted(Exhausted {
            dimension: "tokens".into(),
            observed: 101,
            limit: 100,
        });
        assert_eq!(estimate(&budget, 500, 71), Err(refused));
        budget.reserve("child", &tokens(60));
        assert_eq!(estimate(&budget, 70, 1), Ok(tokens(10)));
        assert!(matches!(
            estimate(&budget, 70, 11),
            Err(NotNow::Exhausted(_))
        ));
    }

    #[test]
    fn money_is_shown_in_dollars() {
        assert_eq!(shown(COST, 500), "$0.0005");
        assert_eq!(shown(COST, 1_500_000), "$1.50");
        assert_eq!(shown(COST, 0), "$0.00");
        assert_eq!(shown(TOKENS, 7), "7 tokens");
    }

    #[test]
    fn an_unnamed_dimension_is_unbounded() {
        let budget = Budget {
            limits: tokens(1),
            ..Budget::default()
        };
        assert_eq!(
            budget.fits(&Amounts::from([("toolCalls".into(), u64::MAX)])),
            Ok(())
        );
    }
}

//! Budget counters: reserve before spending, settle the spent amount, refund the rest.

mod policy;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::definition::Plan;
use crate::json::is_default;
use crate::limits::MAX_COUNT;
use crate::run::event::{CapKind, NodeError};

pub use policy::{BudgetPlace, BudgetPolicy, FIELDS, Misread};

/// Tokens that models read and write.
pub const TOKENS: &str = "tokens";
/// Millionths of a US dollar.
pub const COST: &str = "costMicroUsd";
/// Calls of tools.
pub const TOOL_CALLS: &str = "toolCalls";
/// Attempts after a failed one.
pub const RETRIES: &str = "retries";
/// The error code of a node when the budget is used up.
const EXHAUSTED: &str = "budget_exhausted";

/// Amounts by dimension (`tokens`, `costMicroUsd`, `toolCalls`, …).
pub type Amounts = BTreeMap<String, u64>;

/// The limits, spent and reserved amounts of a run. A child receives its part with the message that
/// creates it and returns the unused part with the message that it settled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The limits; a dimension not named is unlimited.
    pub limits: Amounts,
    /// The final spending.
    pub spent: Amounts,
    /// The reserved amounts, by holder.
    pub reserved: BTreeMap<String, Amounts>,
    /// Whether the log names the limits, and so what is spent of them. Logs of older builds do not;
    /// their child runs got other shares.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_announced: bool,
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
    /// The spent and reserved amounts including the rejected one.
    pub observed: u64,
    /// The limit.
    pub limit: u64,
}

impl Exhausted {
    /// The error of a rejected node. A retry cannot help.
    pub fn error(&self) -> NodeError {
        let details = json!({
            "dimension": self.dimension, "limit": self.limit, "observed": self.observed,
        });
        let error = NodeError::new(EXHAUSTED, self.to_string());
        error.with_details(details).fatal()
    }

    /// Parses such an error. `None` for any other.
    pub(super) fn from_error(error: &NodeError) -> Option<Self> {
        let details = error.details.as_ref().filter(|_| error.code == EXHAUSTED)?;
        let number = |key: &str| details.get(key)?.as_u64();
        Some(Self {
            dimension: details.get("dimension")?.as_str()?.to_owned(),
            observed: number("observed")?,
            limit: number("limit")?,
        })
    }

    /// The limit that was reached. `None` for a dimension without a limit in the protocol.
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

/// An amount in readable form.
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

/// Why an estimated amount cannot be reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// It never can be.
    Exhausted(Exhausted),
    /// Reservations of other attempts may be returned soon.
    Held,
}

impl Budget {
    /// Whether `amounts` can be reserved now.
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

    /// The reservation for a call with an estimated cost. It is `likely`. If less is left and no
    /// other attempt has a reservation, it is all that is left, if that is at least `least`. So at
    /// most one of several concurrent calls can exceed a limit.
    ///
    /// # Errors
    /// `Held` if other attempts may return the missing amount, else the exhausted dimension.
    /// Reservations of children are not waited for: they may last any time.
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

    /// The part for a child: `wanted`, and in other dimensions one of `shares` equal shares of the
    /// rest. If others have reserved an amount that is wanted, it is the rest.
    ///
    /// # Errors
    /// The first dimension, by name, of which too much is spent, or nothing is left.
    pub fn part(&self, wanted: &Amounts, shares: u64) -> Result<Amounts, Exhausted> {
        let mut part = wanted.clone();
        for (dimension, limit) in &self.limits {
            let left = limit.saturating_sub(self.committed(dimension));
            let Some(wanted) = part.get_mut(dimension) else {
                let share = left / shares.max(1);
                let share = if self.is_announced {
                    share.max(1)
                } else {
                    share
                };
                part.insert(dimension.clone(), share.min(left));
                continue;
            };
            if *wanted <= left {
                continue;
            }
            let spent = self.spent.get(dimension).copied().unwrap_or(0);
            if left == 0 || spent.saturating_add(*wanted) > *limit {
                let wanted = Amounts::from([(dimension.clone(), *wanted)]);
                self.fits(&wanted)?;
            }
            *wanted = left;
        }
        Ok(part)
    }

    /// The spent and reserved amount in a dimension.
    pub fn committed(&self, dimension: &str) -> u64 {
        let of = |amounts: &Amounts| amounts.get(dimension).copied().unwrap_or(0);
        self.reserved
            .values()
            .map(of)
            .fold(of(&self.spent), u64::saturating_add)
    }

    /// Reserves amounts, in addition to the holder's existing ones.
    pub fn reserve(&mut self, holder: &str, amounts: &Amounts) {
        let held = self.reserved.entry(holder.to_owned()).or_default();
        add(held, amounts);
    }

    /// Counts an attempt after a failed one.
    pub(super) fn count_retry(&mut self) {
        if self.limits.contains_key(RETRIES) {
            add(&mut self.spent, &Amounts::from([(RETRIES.to_owned(), 1)]));
        }
    }

    /// Ends a reservation: `spent` is final, the rest is free again.
    pub fn settle(&mut self, holder: &str, spent: &Amounts) {
        self.reserved.remove(holder);
        add(&mut self.spent, spent);
    }
}

impl Plan {
    /// The limits of a run with its own limits `run`: the lower one of two counts.
    pub(crate) fn limits_of_runs(&self, run: &Amounts) -> Amounts {
        let mut limits = run.clone();
        for (dimension, limit) in &self.budget.limits {
            let of_run = limits.entry(dimension.clone()).or_insert(*limit);
            *of_run = (*of_run).min(*limit);
        }
        limits
    }
}

/// The same amounts, each capped to the range that JSON represents exactly.
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
    fn a_reservation_counts_until_settled_and_the_rest_is_refunded() {
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
    fn an_estimate_reserves_the_rest_and_the_next_one_waits() {
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

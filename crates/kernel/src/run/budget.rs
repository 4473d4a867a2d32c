//! Budget counters: reserve before spending, settle what was spent, refund the rest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_COUNT;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The dimension.
    pub dimension: String,
    /// What is spent and set aside with the refused part.
    pub observed: u64,
    /// The limit.
    pub limit: u64,
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
                    observed,
                    limit,
                });
            }
        }
        Ok(())
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

    /// Ends a reservation: `spent` is gone, the rest is free again.
    pub fn settle(&mut self, holder: &str, spent: &Amounts) {
        self.reserved.remove(holder);
        add(&mut self.spent, spent);
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

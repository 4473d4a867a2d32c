//! Budgets on the command line, and their usage for display.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use kernel::ids::StreamId;
use kernel::run::budget::{Amounts, Budget, COST, shown};
use kernel::run::{Facts, Run};
use runtime::door::Door;
use serde_json::{Map, Value, json};
use store::StoreError;

use crate::text;

/// Maximum child runs in the sum.
const MAX_CHILDREN: usize = 1_000;

/// The budget of a run.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct BudgetArgs {
    /// US dollars the run may spend on models, including its child runs
    #[arg(long, value_name = "AMOUNT", value_parser = usd, allow_negative_numbers = true)]
    budget_usd: Option<f64>,

    /// Tokens the run may spend, as --budget-usd
    #[arg(long, value_name = "N", value_parser = tokens, allow_negative_numbers = true)]
    budget_tokens: Option<u64>,
}

impl BudgetArgs {
    /// The settings of a run with this budget.
    pub(crate) fn configurable(self) -> Map<String, Value> {
        let limits = [
            ("maxCostUsd", self.budget_usd.map(Value::from)),
            ("maxTokens", self.budget_tokens.map(Value::from)),
        ];
        let limits = limits.into_iter();
        let limits: Map<String, Value> = limits
            .filter_map(|(name, limit)| Some((name.to_owned(), limit?)))
            .collect();
        let budget = (!limits.is_empty()).then(|| ("budget".to_owned(), json!(limits)));
        budget.into_iter().collect()
    }
}

/// An amount of dollars.
pub(crate) fn usd(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|usd| usd.is_finite());
    amount
        .filter(|usd| *usd >= 0.0)
        .ok_or_else(|| "write US dollars as a number of at least 0, such as 0.50".to_owned())
}

/// A number of tokens.
pub(crate) fn tokens(text: &str) -> Result<u64, String> {
    let what = "write tokens as a whole number of at least 0, such as 20000";
    text.parse().map_err(|_| what.to_owned())
}

/// The usage of models by a run and its child runs.
#[derive(Debug, Default)]
pub(crate) struct Used {
    input: u64,
    output: u64,
    usd: Option<f64>,
    children: usize,
    is_cut: bool,
}

/// The usage of one run, and its children.
struct Part {
    input: u64,
    output: u64,
    usd: Option<f64>,
    children: Vec<String>,
}

impl Part {
    fn from_facts(facts: Option<&Facts>) -> Self {
        let usage = facts.and_then(|facts| facts.usage.as_ref());
        let children = facts.into_iter().flat_map(|facts| facts.children.keys());
        Self {
            input: usage.map_or(0, |usage| usage.input_tokens),
            output: usage.map_or(0, |usage| usage.output_tokens),
            usd: usage.and_then(|usage| usage.usd),
            children: children.map(ToString::to_string).collect(),
        }
    }

    fn of_snapshot(snapshot: &Value) -> Self {
        let cost = &snapshot["metrics"]["openwopCost"];
        let count = |name: &str| cost["tokens"][name].as_u64().unwrap_or(0);
        let children = snapshot["childRuns"].as_array().into_iter().flatten();
        let ids = children.filter_map(|child| child["runId"].as_str());
        Self {
            input: count("input"),
            output: count("output"),
            usd: cost["usd"].as_f64(),
            children: ids.map(str::to_owned).collect(),
        }
    }
}

impl Used {
    /// Sums a run and all its children.
    pub(crate) async fn load(door: &Door, run: &Run) -> Result<Self, StoreError> {
        let load = async |child: &str| match door.load(&StreamId::new(child)).await {
            Ok(child) => Ok(Some(Part::from_facts(child.facts()))),
            // It is not created yet, or was erased.
            Err(StoreError::Missing) => Ok(None),
            Err(error) => Err(error),
        };
        Self::add_up(Part::from_facts(run.facts()), load).await
    }

    /// The same for a run by its snapshot, and those of its children.
    pub(crate) async fn of_snapshots(
        snapshot: &Value,
        child: impl AsyncFn(&str) -> Option<Value>,
    ) -> Self {
        let load = async |id: &str| {
            let found = child(id).await;
            Ok::<_, Infallible>(found.map(|child| Part::of_snapshot(&child)))
        };
        let Ok(used) = Self::add_up(Part::of_snapshot(snapshot), load).await;
        used
    }

    async fn add_up<E>(
        first: Part,
        load: impl AsyncFn(&str) -> Result<Option<Part>, E>,
    ) -> Result<Self, E> {
        let mut used = Self::default();
        let mut seen = BTreeSet::new();
        let mut next = used.take(first);
        while let Some(child) = next.pop() {
            if seen.contains(&child) {
                continue;
            }
            if used.children == MAX_CHILDREN {
                used.is_cut = true;
                break;
            }
            if let Some(part) = load(&child).await? {
                used.children += 1;
                next.extend(used.take(part));
            }
            seen.insert(child);
        }
        Ok(used)
    }

    /// Adds the usage of one run; returns its children.
    fn take(&mut self, part: Part) -> Vec<String> {
        self.input = self.input.saturating_add(part.input);
        self.output = self.output.saturating_add(part.output);
        self.usd = match (self.usd, part.usd) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        part.children
    }

    /// In words; empty without usage.
    pub(crate) fn words(&self) -> String {
        let tokens = self.input.saturating_add(self.output);
        if tokens == 0 && self.usd.is_none() {
            return String::new();
        }
        let mut words = format!("{tokens} tokens ({} in, {} out)", self.input, self.output);
        if let Some(usd) = self.usd {
            let micro_usd = (usd * 1e6).round() as u64;
            words = format!("{words}, {}", shown(COST, micro_usd));
        }
        match (self.children, self.is_cut) {
            (0, _) => words,
            (n, false) => format!("{words}; sum of {}", text::count(n, "child run")),
            (n, true) => format!("{words}; sum of the first {n} child runs, there are more"),
        }
    }
}

/// The budget of a run on a server, from its snapshot.
pub(crate) fn of_snapshot(snapshot: &Value) -> Budget {
    let told = &snapshot["metrics"]["runwrightBudget"];
    let amounts = |name: &str| -> Amounts {
        let amounts = told[name].as_object().into_iter().flatten();
        let read =
            amounts.filter_map(|(dimension, amount)| Some((dimension.clone(), amount.as_u64()?)));
        read.collect()
    };
    Budget {
        limits: amounts("limits"),
        spent: amounts("spent"),
        reserved: BTreeMap::from([(String::new(), amounts("reserved"))]),
        ..Budget::default()
    }
}

/// The rest of a budget, a line for each limit.
pub(crate) fn left(budget: &Budget) -> Vec<String> {
    let bare = |dimension: &str, amount: u64| match dimension {
        COST => shown(COST, amount),
        _ => amount.to_string(),
    };
    let limits: &BTreeMap<String, u64> = &budget.limits;
    let lines = limits.iter().map(|(dimension, limit)| {
        let spent = budget.spent.get(dimension).copied().unwrap_or(0);
        let committed = budget.committed(dimension);
        let held = match committed - spent.min(committed) {
            0 => String::new(),
            held => format!(", {} set aside", bare(dimension, held)),
        };
        let left = match limit.checked_sub(committed) {
            Some(left) => format!("{} left", bare(dimension, left)),
            None => format!("{} too much", bare(dimension, committed - limit)),
        };
        let limit = shown(dimension, *limit);
        format!("{limit}: {} spent{held}, {left}", bare(dimension, spent))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_shows_amounts_spent_reserved_and_left() {
        let amounts = |usd: u64, tokens: u64| {
            BTreeMap::from([(COST.to_owned(), usd), ("tokens".to_owned(), tokens)])
        };
        let mut budget = Budget {
            limits: amounts(500, 1_000),
            spent: amounts(620, 300),
            ..Budget::default()
        };
        budget.reserve("a", &BTreeMap::from([("tokens".to_owned(), 200)]));
        assert_eq!(
            left(&budget),
            [
                "$0.0005: $0.00062 spent, $0.00012 too much",
                "1000 tokens: 300 spent, 200 set aside, 500 left",
            ]
        );
    }

    #[test]
    fn only_amounts_of_money_are_dollars() {
        assert_eq!(usd("0.5"), Ok(0.5));
        for text in ["-1", "NaN", "inf", "five", ""] {
            assert!(usd(text).is_err(), "{text}");
        }
    }
}

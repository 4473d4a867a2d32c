//! Usage of models, as runs and documents count it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Usage of model calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUse {
    /// Number of answers of models.
    pub calls: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Total tokens as reported, else the sum of both.
    pub total_tokens: u64,
    /// Cost by currency.
    pub cost: BTreeMap<String, f64>,
}

impl ModelUse {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        for (currency, amount) in &other.cost {
            *self.cost.entry(currency.clone()).or_default() += amount;
        }
    }

    /// As JSON; amounts are rounded to 12 decimal digits, as in the client.
    pub fn to_json(&self) -> Value {
        let round = |amount: f64| (amount * 1e12).round() / 1e12;
        let cost = self.cost.iter();
        let cost: Map<String, Value> = cost
            .map(|(currency, amount)| (currency.clone(), json!(round(*amount))))
            .collect();
        json!({
            "calls": self.calls, "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens, "totalTokens": self.total_tokens, "cost": cost,
        })
    }

    /// Parses [`ModelUse::to_json`].
    pub fn from_json(value: &Value) -> Self {
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        let cost = value["cost"].as_object().into_iter().flatten();
        Self {
            calls: number("calls"),
            input_tokens: number("inputTokens"),
            output_tokens: number("outputTokens"),
            total_tokens: number("totalTokens"),
            cost: cost
                .filter_map(|(currency, amount)| Some((currency.clone(), amount.as_f64()?)))
                .collect(),
        }
    }
}

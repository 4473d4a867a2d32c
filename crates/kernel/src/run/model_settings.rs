//! The keys of `configurable` for nodes that call models.
//!
//! They are OpenWOP's reserved keys; a node's own config overrides each of them. Values of the
//! wrong type were rejected when the run was created; here they count as absent.

use serde_json::{Map, Value};

use crate::control::supervisor::THRESHOLD;
use crate::run::budget::BudgetPolicy;
use crate::run::state::Facts;

/// The keys that a child run inherits from its parent.
const INHERITED: [&str; 8] = [
    "model",
    "temperature",
    "maxTokens",
    "promptOverrides",
    "escalationThreshold",
    "ai.provider",
    "ai.model",
    "ai.credentialRef",
];

/// A typed view of a run's `configurable`.
#[derive(Clone, Copy, Debug)]
pub struct ModelSettings<'a>(&'a Map<String, Value>);

impl Facts {
    /// The creator's settings for nodes that call models.
    pub fn model_settings(&self) -> ModelSettings<'_> {
        ModelSettings(&self.configurable)
    }

    /// The settings that a child run gets.
    pub fn settings_of_children(&self) -> Map<String, Value> {
        let inherited = INHERITED
            .iter()
            .filter_map(|key| self.configurable.get_key_value(*key));
        let mut settings: Map<String, Value> = inherited
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let budget = self.configurable.get("budget");
        if let Some(models) = budget.and_then(BudgetPolicy::inherited) {
            settings.insert("budget".to_owned(), models);
        }
        settings
    }
}

impl<'a> ModelSettings<'a> {
    /// The view of a `configurable` object.
    pub fn new(configurable: &'a Map<String, Value>) -> Self {
        Self(configurable)
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    /// The model (`ai.model`, else `model`).
    pub fn model(&self) -> Option<&'a str> {
        self.text("ai.model").or_else(|| self.text("model"))
    }

    /// The provider (`ai.provider`).
    pub fn provider(&self) -> Option<&'a str> {
        self.text("ai.provider")
    }

    /// The reference of the provider's credential (`ai.credentialRef`); never the secret itself.
    pub fn credential_ref(&self) -> Option<&'a str> {
        self.text("ai.credentialRef")
    }

    /// The sampling temperature, from 0 to 2.
    pub fn temperature(&self) -> Option<f64> {
        let given = self.0.get("temperature")?.as_f64();
        given.filter(|n| (0.0..=2.0).contains(n))
    }

    /// The maximum number of tokens of an answer, at least 1.
    pub fn max_tokens(&self) -> Option<u64> {
        let given = self.0.get("maxTokens")?;
        let whole = || given.as_f64().filter(|n| n.fract() == 0.0 && *n >= 1.0);
        given
            .as_u64()
            .or_else(|| whole().map(|n| n as u64))
            .filter(|n| *n > 0)
    }

    /// The template that replaces a prompt's own (`promptOverrides`).
    pub fn prompt_override(&self, prompt: &str) -> Option<&'a str> {
        self.0.get("promptOverrides")?.get(prompt)?.as_str()
    }

    /// The minimum confidence for a decision of an agent, from 0 to 1.
    pub fn escalation_threshold(&self) -> f64 {
        let given = self.0.get("escalationThreshold").and_then(Value::as_f64);
        given
            .filter(|n| (0.0..=1.0).contains(n))
            .unwrap_or(THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_reserved_key_is_read_by_its_type() {
        let Value::Object(given) = json!({
            "model": "m", "ai.provider": "p", "ai.credentialRef": "c", "temperature": 0.5,
            "maxTokens": 7.0, "promptOverrides": { "greet": "Hi" }, "escalationThreshold": 0.2,
        }) else {
            unreachable!()
        };
        let settings = ModelSettings::new(&given);
        assert_eq!(settings.model(), Some("m"));
        assert_eq!(settings.provider(), Some("p"));
        assert_eq!(settings.credential_ref(), Some("c"));
        assert_eq!(settings.temperature(), Some(0.5));
        assert_eq!(settings.max_tokens(), Some(7));
        assert_eq!(settings.prompt_override("greet"), Some("Hi"));
        assert_eq!(settings.prompt_override("other"), None);
        assert_eq!(settings.escalation_threshold(), 0.2);
    }

    #[test]
    fn the_key_of_the_provider_is_stronger_and_nonsense_is_absent() {
        let Value::Object(given) = json!({
            "model": "m", "ai.model": "n", "temperature": 3, "maxTokens": 0, "promptOverrides": 1,
            "escalationThreshold": "high",
        }) else {
            unreachable!()
        };
        let settings = ModelSettings::new(&given);
        assert_eq!(settings.model(), Some("n"));
        assert_eq!(settings.temperature(), None);
        assert_eq!(settings.max_tokens(), None);
        assert_eq!(settings.prompt_override("greet"), None);
        assert_eq!(settings.escalation_threshold(), THRESHOLD);
    }
}

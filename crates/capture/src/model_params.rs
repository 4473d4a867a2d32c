//! Execution modes, and the model settings that they fix: which ones are required before the start,
//! and how each is applied to the requests of an unmodified program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dialect::Route;

/// The mode of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Temperature 0, a seed, a token limit.
    Strict,
    /// A seed.
    Seeded,
    /// Everything is kept, without required settings.
    Logged,
    /// Without requirements.
    #[default]
    Default,
}

/// The model settings of the command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelParams {
    /// Which model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// From 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// From 0 to 2^53 - 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Maximum tokens of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Above 0, to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
}

/// A setting that is invalid, or not allowed in a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {reason}")]
pub struct Refused {
    /// The setting, as typed.
    pub flag: &'static str,
    /// The reason, and the correct value.
    pub reason: String,
}

impl ModelParams {
    /// All errors of the settings in a mode.
    pub fn refusals(&self, mode: Mode) -> Vec<Refused> {
        let mut refused = Vec::new();
        let mut refuse = |flag, reason: &str| {
            refused.push(Refused {
                flag,
                reason: reason.to_owned(),
            });
        };
        if self.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
            refuse("--temperature", "a temperature is from 0 to 2");
        }
        if self.top_p.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
            refuse("--top-p", "top-p is above 0 and at most 1");
        }
        if self.seed.is_some_and(|seed| seed >= 1 << 53) {
            refuse("--seed", "a seed is below 2^53");
        }
        match self.max_tokens {
            Some(0) => refuse("--max-tokens", "at least 1"),
            Some(tokens) if tokens >= 1 << 53 => {
                refuse("--max-tokens", "a token limit is below 2^53");
            }
            _ => {}
        }
        if mode == Mode::Strict {
            match self.temperature {
                Some(temperature) if temperature != 0.0 => {
                    refuse("--temperature", "strict mode needs temperature 0")
                }
                None => refuse("--temperature", "strict mode needs `--temperature 0`"),
                Some(_) => {}
            }
            if self.max_tokens.is_none() {
                refuse(
                    "--max-tokens",
                    "strict mode needs a token limit, as `--max-tokens 4096`",
                );
            }
            if self.top_p.is_some_and(|top_p| top_p < 1.0) {
                refuse("--top-p", "strict mode allows only top-p 1");
            }
        }
        if matches!(mode, Mode::Strict | Mode::Seeded) && self.seed.is_none() {
            let reason = match mode {
                Mode::Strict => "strict mode needs a seed, as `--seed 42`",
                _ => "seeded mode needs a seed, as `--seed 42`",
            };
            refuse("--seed", reason);
        }
        refused
    }
}

/// The outcomes of one setting over all requests.
#[derive(Clone, Debug, Default, PartialEq)]
struct SettingOutcome {
    sent: u64,
    unsupported: u64,
    /// Requests with another value, which was replaced, and the first such value.
    replaced: u64,
    came_as: Option<Value>,
    refused_by_provider: u64,
}

/// Puts settings into requests and counts the outcomes.
#[derive(Debug)]
pub struct Enforcement {
    mode: Mode,
    model_params: ModelParams,
    require_honored: bool,
    fates: BTreeMap<&'static str, SettingOutcome>,
    fingerprints: Vec<String>,
    requests: u64,
}

impl Enforcement {
    /// The settings of a mode. With `require_honored`, a request to a provider that does not
    /// support one of them is refused.
    pub fn new(mode: Mode, model_params: ModelParams, require_honored: bool) -> Self {
        Self {
            mode,
            model_params,
            require_honored,
            fates: BTreeMap::new(),
            fingerprints: Vec::new(),
            requests: 0,
        }
    }

    /// Puts the settings into the body of a request.
    ///
    /// # Errors
    /// The first setting that the provider does not support, if that is to be refused.
    pub fn apply(&mut self, route: Route, body: &mut Value) -> Result<(), Refused> {
        let Some(fields) = body.as_object_mut() else {
            return Ok(());
        };
        if !route.samples() {
            return Ok(());
        }
        self.requests += 1;
        let model_params = &self.model_params;
        let top_p = match self.mode {
            // At temperature 0, any other sampling value would bring randomness back.
            Mode::Strict if fields.contains_key("top_p") => Some(json!(1.0)),
            _ => model_params.top_p.map(|top_p| json!(top_p)),
        };
        let wanted = [
            (
                "model",
                model_params.model.as_ref().map(|model| json!(model)),
            ),
            ("temperature", model_params.temperature.map(number)),
            ("seed", model_params.seed.map(|seed| json!(seed))),
            (
                "max_tokens",
                model_params.max_tokens.map(|tokens| json!(tokens)),
            ),
            ("top_p", top_p),
        ];
        for (param, wanted) in wanted {
            let Some(wanted) = wanted else { continue };
            let fate = self.fates.entry(param).or_default();
            let Some(field) = route.field(param, fields) else {
                fate.unsupported += 1;
                if self.require_honored {
                    return Err(Refused {
                        flag: flag(param),
                        reason: format!(
                            "{} has no such setting, and --require-honored requires it; remove one \
                             of the two",
                            route.name()
                        ),
                    });
                }
                continue;
            };
            fate.sent += 1;
            match fields.insert(field.to_owned(), wanted.clone()) {
                Some(came) if !same(&came, &wanted) => {
                    fate.replaced += 1;
                    fate.came_as.get_or_insert(came);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A request did not reach a server: the settings put into it were not sent.
    pub(crate) fn unreached(&mut self, route: Route) {
        let none = serde_json::Map::new();
        for (param, fate) in &mut self.fates {
            if route.samples() && route.field(param, &none).is_some() {
                fate.sent = fate.sent.saturating_sub(1);
            }
        }
    }

    /// Whether a setting was put into a request, on any interface.
    pub(crate) fn has_sent(&self, param: &str) -> bool {
        self.fates.get(param).is_some_and(|fate| fate.sent > 0)
    }

    /// Notes from an answer which build answered, and which setting it rejects.
    pub fn answered(&mut self, status: u16, body: &str, fingerprint: Option<&str>) {
        if let Some(fingerprint) = fingerprint
            && !self.fingerprints.iter().any(|known| known == fingerprint)
            && self.fingerprints.len() < 16
        {
            self.fingerprints.push(fingerprint.to_owned());
        }
        if status == 400 || status == 422 {
            for (param, fate) in &mut self.fates {
                let is_named = body.contains(&format!("'{param}'"))
                    || body.contains(&format!("\"{param}\""))
                    || body.contains(&format!("`{param}`"));
                if is_named && fate.sent > 0 {
                    fate.refused_by_provider += 1;
                }
            }
        }
    }

    /// The report, setting by setting; `None` where no model was called and no setting was given.
    pub fn report(&self) -> Option<Value> {
        let mut report = serde_json::Map::new();
        let declared = [
            ("model", self.model_params.model.is_some()),
            ("temperature", self.model_params.temperature.is_some()),
            ("seed", self.model_params.seed.is_some()),
            ("max_tokens", self.model_params.max_tokens.is_some()),
            ("top_p", self.model_params.top_p.is_some()),
        ];
        for (param, declared) in declared {
            let fate = self.fates.get(param);
            if !declared && fate.is_none() {
                continue;
            }
            let fate = fate.cloned().unwrap_or_default();
            let word = match &fate {
                fate if fate.unsupported > 0 || fate.refused_by_provider > 0 => "unsupported",
                fate if fate.sent > 0 => "sent",
                _ => "unknown",
            };
            report.insert(param.to_owned(), json!(word));
            if fate.replaced > 0 {
                let replaced = json!({ "requests": fate.replaced, "came_as": fate.came_as });
                let all = report.entry("replaced").or_insert_with(|| json!({}));
                all[param] = replaced;
            }
        }
        if !self.fingerprints.is_empty() {
            report.insert("fingerprints".into(), json!(self.fingerprints));
        }
        (!report.is_empty()).then_some(Value::Object(report))
    }
}

fn flag(param: &str) -> &'static str {
    match param {
        "model" => "--model",
        "temperature" => "--temperature",
        "seed" => "--seed",
        "max_tokens" => "--max-tokens",
        _ => "--top-p",
    }
}

/// A whole number is sent as an integer: some servers refuse `0.0`.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: ModelParams = ModelParams {
        model: None,
        temperature: Some(0.0),
        seed: Some(7),
        max_tokens: Some(64),
        top_p: None,
    };

    fn flags(model_params: &ModelParams, mode: Mode) -> Vec<&'static str> {
        let refused = model_params.refusals(mode);
        refused.into_iter().map(|refused| refused.flag).collect()
    }

    #[test]
    fn each_mode_names_the_setting_that_it_refuses() {
        assert_eq!(flags(&STRICT, Mode::Strict), [""; 0]);
        let none = ModelParams::default();
        assert_eq!(
            flags(&none, Mode::Strict),
            ["--temperature", "--max-tokens", "--seed"]
        );
        assert_eq!(flags(&none, Mode::Seeded), ["--seed"]);
        assert_eq!(flags(&none, Mode::Logged), [""; 0]);
        assert_eq!(flags(&none, Mode::Default), [""; 0]);
        let warm = ModelParams {
            temperature: Some(0.7),
            ..STRICT
        };
        assert_eq!(flags(&warm, Mode::Strict), ["--temperature"]);
        assert_eq!(flags(&warm, Mode::Seeded), [""; 0]);
        let nucleus = ModelParams {
            top_p: Some(0.9),
            ..STRICT
        };
        assert_eq!(flags(&nucleus, Mode::Strict), ["--top-p"]);
        let wrong = ModelParams {
            model: None,
            temperature: Some(2.1),
            seed: Some(1 << 53),
            max_tokens: Some(0),
            top_p: Some(0.0),
        };
        assert_eq!(
            flags(&wrong, Mode::Default),
            ["--temperature", "--top-p", "--seed", "--max-tokens"]
        );
    }

    #[test]
    fn settings_go_into_requests_and_the_account_is_true() {
        let mut enforcement = Enforcement::new(Mode::Strict, STRICT, false);
        let mut body = json!({ "model": "m", "temperature": 0.7, "top_p": 0.5 });
        enforcement
            .apply(Route::ChatCompletions, &mut body)
            .unwrap();
        let expected =
            json!({ "model": "m", "temperature": 0, "seed": 7, "max_tokens": 64, "top_p": 1.0 });
        assert_eq!(body, expected);
        let mut newer = json!({ "model": "m", "max_completion_tokens": 9 });
        enforcement
            .apply(Route::ChatCompletions, &mut newer)
            .unwrap();
        assert_eq!(newer["max_completion_tokens"], 64);
        assert_eq!(newer.get("max_tokens"), None);
        enforcement.answered(200, "", Some("fp_1"));
        let report = enforcement.report().unwrap();
        assert_eq!(report["seed"], "sent");
        assert_eq!(
            report["replaced"]["temperature"],
            json!({ "requests": 1, "came_as": 0.7 })
        );
        assert_eq!(report["fingerprints"], json!(["fp_1"]));
        enforcement.answered(400, "Unsupported parameter: 'seed'", None);
        assert_eq!(enforcement.report().unwrap()["seed"], "unsupported");
    }

    #[test]
    fn settings_unknown_to_a_provider_are_reported_or_rejected() {
        let mut body = json!({ "model": "m", "max_tokens": 64 });
        let mut told = Enforcement::new(Mode::Strict, STRICT, false);
        told.apply(Route::Messages, &mut body).unwrap();
        assert_eq!(told.report().unwrap()["seed"], "unsupported");
        let mut refused = Enforcement::new(Mode::Strict, STRICT, true);
        let error = refused.apply(Route::Messages, &mut body).unwrap_err();
        assert_eq!(error.flag, "--seed");
    }

    #[test]
    fn unset_parameters_change_nothing_and_give_no_report() {
        let mut enforcement = Enforcement::new(Mode::Default, ModelParams::default(), false);
        let mut body = json!({ "model": "m", "temperature": 0.7 });
        enforcement
            .apply(Route::ChatCompletions, &mut body)
            .unwrap();
        assert_eq!(body, json!({ "model": "m", "temperature": 0.7 }));
        assert_eq!(enforcement.report(), None);
    }
}

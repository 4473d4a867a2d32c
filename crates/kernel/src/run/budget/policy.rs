//! The `budget` field of a run, a definition or a child run.

use serde_json::{Map, Value};

use super::{Amounts, COST, RETRIES, TOKENS, TOOL_CALLS};
use crate::definition::type_name;
use crate::limits::MAX_COUNT;
use crate::problem::{ProblemCode, quoted};

/// The limits, each with its dimension.
const LIMITS: [(&str, &str); 4] = [
    ("maxCostUsd", COST),
    ("maxTokens", TOKENS),
    ("maxToolCalls", TOOL_CALLS),
    ("maxRetries", RETRIES),
];

/// The fields of a budget whose names have no other meaning in `configurable`.
pub const FIELDS: [&str; 7] = [
    "maxCostUsd",
    "maxToolCalls",
    "maxRetries",
    "modelAllow",
    "modelDeny",
    "onExhaustion",
    "thresholdPercent",
];

/// The field that limits a dimension.
pub(super) fn field_of(dimension: &str) -> &str {
    let found = LIMITS.iter().find(|(_, of)| *of == dimension);
    found.map_or(dimension, |(field, _)| field)
}

/// The place of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetPlace {
    /// In the `configurable` of a run, which may also restrict the models.
    Run,
    /// In a definition: limits only.
    Definition,
}

/// A budget as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetPolicy {
    /// The limits, by dimension.
    pub limits: Amounts,
    /// Patterns of allowed models; `None` allows all.
    pub model_allow: Option<Vec<String>>,
    /// Patterns of denied models. They take precedence.
    pub model_deny: Vec<String>,
}

/// A fault of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// The field; `None` for all of it.
    pub field: Option<String>,
    /// The kind of problem.
    pub code: ProblemCode,
    /// The fault and its correction.
    pub what: String,
}

impl BudgetPolicy {
    /// Parses a budget and lists all its faults.
    pub fn read(value: &Value, place: BudgetPlace) -> (Self, Vec<Misread>) {
        let mut policy = Self::default();
        let mut wrong = Vec::new();
        let Some(fields) = value.as_object() else {
            wrong.push(Misread {
                field: None,
                code: ProblemCode::WrongType,
                what: format!(
                    "must be an object, not {}; {}",
                    type_name(value),
                    known(place)
                ),
            });
            return (policy, wrong);
        };
        for (field, value) in fields {
            if let Err((code, what)) = policy.take(field, value, place) {
                wrong.push(Misread {
                    field: Some(field.clone()),
                    code,
                    what,
                });
            }
        }
        (policy, wrong)
    }

    /// Parses a stored budget; invalid fields count as absent. Definitions of earlier versions use
    /// the names of dimensions.
    pub fn of_stored(value: Option<&Value>) -> Self {
        let Some(value) = value else {
            return Self::default();
        };
        let (mut policy, _) = Self::read(value, BudgetPlace::Run);
        let fields = value.as_object().into_iter().flatten();
        for (dimension, amount) in fields {
            let is_field = LIMITS.iter().any(|(field, _)| field == dimension);
            if let Some(amount) = amount.as_u64().filter(|_| !is_field) {
                let amount = amount.min(MAX_COUNT);
                policy.limits.insert(dimension.clone(), amount);
            }
        }
        policy
    }

    /// The fields that a child run inherits: the allowed models.
    pub(crate) fn inherited(budget: &Value) -> Option<Value> {
        let lists = ["modelAllow", "modelDeny"].into_iter().filter_map(|key| {
            let list = budget.get(key)?;
            Some((key.to_owned(), list.clone()))
        });
        let lists: Map<String, Value> = lists.collect();
        (!lists.is_empty()).then_some(Value::Object(lists))
    }

    fn take(
        &mut self,
        field: &str,
        value: &Value,
        place: BudgetPlace,
    ) -> Result<(), (ProblemCode, String)> {
        if let Some((_, dimension)) = LIMITS.iter().find(|(name, _)| *name == field) {
            let amount = match *dimension {
                COST => micro_usd(value)?,
                _ => count(value)?,
            };
            self.limits.insert((*dimension).to_owned(), amount);
            return Ok(());
        }
        match (field, place) {
            ("modelAllow", BudgetPlace::Run) => self.model_allow = Some(patterns(value)?),
            ("modelDeny", BudgetPlace::Run) => self.model_deny = patterns(value)?,
            ("onExhaustion", BudgetPlace::Run) if value == "fail" => {}
            ("onExhaustion", BudgetPlace::Run) => {
                let what = "must be fail; a run that exceeds its budget fails without a question";
                return Err((ProblemCode::InvalidValue, what.to_owned()));
            }
            ("thresholdPercent", BudgetPlace::Run) => {
                let fits = |percent: f64| (0.0..=100.0).contains(&percent);
                if !value.as_f64().is_some_and(fits) {
                    let what = "must be a number from 0 to 100";
                    return Err((ProblemCode::InvalidValue, what.to_owned()));
                }
            }
            _ => {
                let what = format!("unknown field {}; {}", quoted(field), known(place));
                return Err((ProblemCode::UnknownField, what));
            }
        }
        Ok(())
    }
}

fn known(place: BudgetPlace) -> String {
    let limits = "write maxCostUsd (US dollars), maxTokens, maxToolCalls or maxRetries";
    match place {
        BudgetPlace::Run => format!(
            "{limits}; modelAllow and modelDeny list models, thresholdPercent adds an event before \
             the limit"
        ),
        BudgetPlace::Definition => limits.to_owned(),
    }
}

fn count(value: &Value) -> Result<u64, (ProblemCode, String)> {
    let Some(number) = value.as_f64() else {
        let what = format!(
            "must be a whole number, 0 or more, not {}",
            type_name(value)
        );
        return Err((ProblemCode::WrongType, what));
    };
    // 3.0 is a whole number in JSON.
    let whole = value.as_u64();
    let whole = whole.or((number >= 0.0 && number.fract() == 0.0).then_some(number as u64));
    whole.map(|n| n.min(MAX_COUNT)).ok_or_else(|| {
        let what = format!("must be a whole number, 0 or more, not {value}");
        (ProblemCode::InvalidValue, what)
    })
}

fn micro_usd(value: &Value) -> Result<u64, (ProblemCode, String)> {
    let Some(usd) = value.as_f64() else {
        let what = format!(
            "must be an amount of US dollars, 0 or more, not {}",
            type_name(value)
        );
        return Err((ProblemCode::WrongType, what));
    };
    if usd >= 0.0 {
        return Ok(((usd * 1e6).round() as u64).min(MAX_COUNT));
    }
    let what = format!("must be an amount of US dollars, 0 or more, not {value}");
    Err((ProblemCode::InvalidValue, what))
}

fn patterns(value: &Value) -> Result<Vec<String>, (ProblemCode, String)> {
    let items = value.as_array();
    let texts = items.and_then(|items| {
        let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<_>>>()
    });
    texts.ok_or_else(|| {
        let what = "must be an array of names of models, such as [\"small-*\"]".to_owned();
        (ProblemCode::WrongType, what)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(budget: Value, field: &str, why: &str) {
        for place in [BudgetPlace::Run, BudgetPlace::Definition] {
            let (policy, wrong) = BudgetPolicy::read(&budget, place);
            assert_eq!(policy, BudgetPolicy::default(), "{budget}");
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert_eq!(wrong[0].field.as_deref(), Some(field));
            assert!(wrong[0].what.contains(why), "{wrong:?}");
        }
    }

    #[test]
    fn an_unknown_field_is_refused_with_the_right_names() {
        for field in ["usd", "maxUsd", "tokens", "max_tokens", "costMicroUsd"] {
            refused(json!({ field: 1 }), field, "write maxCostUsd");
        }
    }

    #[test]
    fn a_limit_of_a_wrong_type_or_below_zero_is_refused() {
        refused(json!({ "maxTokens": "many" }), "maxTokens", "a string");
        refused(json!({ "maxTokens": -1 }), "maxTokens", "0 or more, not -1");
        refused(json!({ "maxTokens": 1.5 }), "maxTokens", "not 1.5");
        refused(json!({ "maxToolCalls": null }), "maxToolCalls", "null");
        refused(json!({ "maxCostUsd": "1" }), "maxCostUsd", "US dollars");
        refused(json!({ "maxCostUsd": -0.5 }), "maxCostUsd", "not -0.5");
        let (_, wrong) = BudgetPolicy::read(&json!(5), BudgetPlace::Definition);
        assert!(wrong[0].what.contains("write maxCostUsd"), "{wrong:?}");
    }

    #[test]
    fn models_are_listed_by_a_run_only() {
        let budget = json!({ "modelAllow": ["a-*"], "modelDeny": ["a-b"], "onExhaustion": "fail" });
        let (policy, wrong) = BudgetPolicy::read(&budget, BudgetPlace::Run);
        assert_eq!(wrong, []);
        assert_eq!(policy.model_allow, Some(vec!["a-*".to_owned()]));
        assert_eq!(policy.model_deny, ["a-b"]);
        let (_, wrong) = BudgetPolicy::read(&budget, BudgetPlace::Definition);
        assert_eq!(wrong.len(), 3);
        let asks = json!({ "onExhaustion": "interrupt", "thresholdPercent": 101 });
        let (_, wrong) = BudgetPolicy::read(&asks, BudgetPlace::Run);
        assert_eq!(wrong.len(), 2);
        let tells = json!({ "maxTokens": 5, "thresholdPercent": 82.5 });
        assert_eq!(BudgetPolicy::read(&tells, BudgetPlace::Run).1, []);
    }

    #[test]
    fn dollars_become_millionths() {
        let read = |usd: f64| {
            let (policy, _) =
                BudgetPolicy::read(&json!({ "maxCostUsd": usd }), BudgetPlace::Definition);
            policy.limits[COST]
        };
        assert_eq!(
            [read(0.0005), read(0.29), read(5.0)],
            [500, 290_000, 5_000_000]
        );
        assert_eq!(read(1e300), MAX_COUNT);
    }

    #[test]
    fn a_stored_definition_may_name_dimensions() {
        let policy = BudgetPolicy::of_stored(Some(&json!({ "tokens": 80, "maxCostUsd": 1 })));
        let expected = [(TOKENS.to_owned(), 80), (COST.to_owned(), 1_000_000)];
        assert_eq!(policy.limits, Amounts::from(expected));
    }
}

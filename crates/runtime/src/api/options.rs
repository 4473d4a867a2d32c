//! Settings chosen by a run's creator: `configurable`, tags, metadata.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::Validator;
use kernel::definition::Plan;
use kernel::digest::Digest;
use kernel::limits::{
    MAX_LOOP_ITERATIONS, MAX_NODE_EXECUTIONS, MAX_TAG_CHARS, MAX_TAGS, MAX_WAIT_MS,
};
use kernel::problem::{Problem, ProblemCode, Problems, misspelt, pointer, quoted};
use kernel::run::budget::{self, Amounts, BudgetPlace, BudgetPolicy, COST};
use kernel::stream::Policy;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::ApiError;
use crate::models::Providers;
use crate::nodes::{TEST_PROVIDERS, check_mock};
use crate::schema_words;

/// Compiled schemas cached; above this number the cache is emptied.
const KEPT: usize = 256;

/// Compiled `configurableSchema`s, by the digest of their workflow.
#[derive(Default)]
pub(super) struct Schemas {
    kept: Mutex<HashMap<Digest, Arc<Validator>>>,
}

impl Schemas {
    /// Checks `configurable` against the workflow's schema.
    pub(super) fn check(
        &self,
        plan: &Plan,
        configurable: &Map<String, Value>,
        problems: &mut Problems,
    ) {
        let Some(schema) = &plan.configurable_schema else {
            return;
        };
        let kept = self.kept.lock().get(&plan.digest).cloned();
        let validator = match kept {
            Some(validator) => validator,
            None => {
                let Ok(validator) = jsonschema::draft202012::new(schema) else {
                    let what = "the workflow's configurableSchema is not a JSON Schema";
                    problems.add("/configurable", ProblemCode::InvalidValue, what);
                    return;
                };
                let validator = Arc::new(validator);
                let mut kept = self.kept.lock();
                if kept.len() >= KEPT {
                    kept.clear();
                }
                kept.insert(plan.digest, validator.clone());
                validator
            }
        };
        let value = Value::Object(configurable.clone());
        for error in validator.iter_errors(&value) {
            problems.extend(
                schema_words::say(&error, schema)
                    .into_iter()
                    .map(|problem| Problem {
                        path: format!("/configurable{}", problem.path),
                        ..problem
                    }),
            );
        }
    }
}

/// The policy that `configurable` sets. Other keys belong to the workflow.
pub(super) fn policy(configurable: &Map<String, Value>, problems: &mut Problems) -> Policy {
    let mut reader = Reader {
        configurable,
        problems,
    };
    let recursion = reader.count("recursionLimit");
    if recursion.is_some_and(|limit| limit > MAX_NODE_EXECUTIONS) {
        reader.wrong(
            "recursionLimit",
            &format!("must not be above {MAX_NODE_EXECUTIONS}"),
        );
    }
    let loops = reader.count("maxLoopIterations");
    let policy = Policy {
        max_node_executions: recursion.map(|limit| limit.min(MAX_NODE_EXECUTIONS)),
        run_timeout_ms: reader.count("runTimeoutMs").map(|ms| ms.min(MAX_WAIT_MS)),
        max_loop_iterations: loops
            .map(|limit| u32::try_from(limit).map_or(MAX_LOOP_ITERATIONS, |limit| limit))
            .map(|limit| limit.min(MAX_LOOP_ITERATIONS)),
        budget: reader.budget(),
        ..Policy::default()
    };
    reader.count("maxTokens");
    reader.within("temperature", 0.0..=2.0);
    reader.within("escalationThreshold", 0.0..=1.0);
    reader.texts("promptOverrides");
    for name in ["model", "ai.provider", "ai.model", "ai.credentialRef"] {
        reader.text(name);
    }
    policy
}

/// The keys of `configurable` that have a meaning here.
const KEYS: [&str; 13] = [
    "recursionLimit",
    "maxLoopIterations",
    "runTimeoutMs",
    "budget",
    "maxTokens",
    "temperature",
    "escalationThreshold",
    "promptOverrides",
    "model",
    "ai.provider",
    "ai.model",
    "ai.credentialRef",
    "mockProvider",
];

/// Rejects misspelt keys of `configurable`, which would have no effect. Other unknown keys belong
/// to the workflow, and so do those that its schema declares.
pub(super) fn check_keys(plan: &Plan, configurable: &Map<String, Value>, problems: &mut Problems) {
    let declared = |key: &str| {
        let schema = plan.configurable_schema.as_ref();
        schema.is_some_and(|schema| schema["properties"].get(key).is_some())
    };
    let unknown = configurable.keys().map(String::as_str);
    let unknown = unknown.filter(|key| !KEYS.contains(key) && !declared(key));
    for key in unknown {
        let meant = if budget::FIELDS.contains(&key) {
            Some(format!("budget.{key}"))
        } else {
            misspelt(key, &KEYS).map(str::to_owned)
        };
        if let Some(meant) = meant {
            let what = format!("unknown setting {}; did you mean {meant}?", quoted(key));
            let path = pointer("/configurable", key);
            problems.add(path, ProblemCode::UnknownField, what);
        }
    }
}

/// Checks that the provider in a run's settings exists.
pub(super) fn check_provider(
    configurable: &Map<String, Value>,
    models: &Providers,
    problems: &mut Problems,
) {
    if let Some(name) = configurable.get("ai.provider").and_then(Value::as_str)
        && !models.all().any(|provider| provider.name == name)
    {
        let text = "unknown provider; discovery lists the providers (aiProviders)";
        problems.add("/configurable/ai.provider", ProblemCode::InvalidValue, text);
    }
}

/// Whether a run may use the test provider that its settings name, if any. Reports malformed names.
pub(super) fn check_test_provider(
    configurable: &Map<String, Value>,
    is_allowed: bool,
    problems: &mut Problems,
) -> Result<(), ApiError> {
    let Some(mock) = configurable
        .get("mockProvider")
        .filter(|mock| !mock.is_null())
    else {
        return Ok(());
    };
    if !is_allowed {
        return Err(ApiError::TestsOnly);
    }
    let found = check_mock(mock);
    let id = mock["id"].as_str();
    if found.is_empty() && !id.is_some_and(|id| TEST_PROVIDERS.contains(&id)) {
        return Err(ApiError::UnknownTestProvider);
    }
    for (place, what) in found {
        let path = format!("/configurable/mockProvider{place}");
        problems.add(path, ProblemCode::InvalidValue, what);
    }
    Ok(())
}

struct Reader<'a> {
    configurable: &'a Map<String, Value>,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    fn wrong(&mut self, name: &str, what: &str) {
        let path = format!("/configurable/{name}");
        self.problems.add(path, ProblemCode::InvalidValue, what);
    }

    /// A value that is present; null counts as missing.
    fn get(&self, name: &str) -> Option<&Value> {
        self.configurable.get(name).filter(|value| !value.is_null())
    }

    /// A whole number of at least 1.
    fn count(&mut self, name: &str) -> Option<u64> {
        let value = self.get(name)?;
        // 3.0 is a whole number in JSON.
        let float = value.as_f64().filter(|n| n.fract() == 0.0 && *n < 9e15);
        let count = value
            .as_u64()
            .or(float.filter(|n| *n >= 1.0).map(|n| n as u64));
        match count {
            Some(0) | None => {
                self.wrong(name, "must be a whole number from 1 on");
                None
            }
            count => count,
        }
    }

    fn within(&mut self, name: &str, range: std::ops::RangeInclusive<f64>) {
        let Some(value) = self.get(name) else {
            return;
        };
        if !value.as_f64().is_some_and(|n| range.contains(&n)) {
            let (from, to) = range.into_inner();
            self.wrong(name, &format!("must be a number from {from} to {to}"));
        }
    }

    /// An object of strings.
    fn texts(&mut self, name: &str) {
        let are_texts = |value: &Value| {
            let fields = value.as_object();
            fields.is_some_and(|fields| fields.values().all(Value::is_string))
        };
        if self.get(name).is_some_and(|value| !are_texts(value)) {
            self.wrong(name, "must be an object of texts");
        }
    }

    fn text(&mut self, name: &str) {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        if self.get(name).is_some_and(|value| !is_text(value)) {
            self.wrong(name, "must be a non-empty text");
        }
    }

    /// The budget dimensions that the kernel counts.
    fn budget(&mut self) -> Amounts {
        let Some(budget) = self.get("budget") else {
            return Amounts::new();
        };
        let (policy, wrong) = BudgetPolicy::read(budget, BudgetPlace::Run);
        for wrong in wrong {
            let path = match &wrong.field {
                Some(field) => pointer("/configurable/budget", field),
                None => "/configurable/budget".to_owned(),
            };
            self.problems.add(path, wrong.code, wrong.what);
        }
        policy.limits
    }
}

/// Rejects a cost limit for models without a price. A limit of the definition is reported at
/// `place`, the field of the request that names it.
pub(super) fn check_prices(
    (plan, place): (&Plan, &str),
    policy: &Policy,
    configurable: &Map<String, Value>,
    models: &Providers,
    problems: &mut Problems,
) {
    let path = match (&policy.budget, &plan.budget.limits) {
        (run, _) if run.contains_key(COST) => "/configurable/budget/maxCostUsd",
        (_, definition) if definition.contains_key(COST) => place,
        _ => return,
    };
    problems.extend(models.check_prices(plan, configurable, Some(path)));
}

/// Checks the protocol's bounds of tags; the kernel checks the rest.
pub(super) fn check_tags(tags: &[String], problems: &mut Problems) {
    if tags.len() > MAX_TAGS {
        let what = format!("at most {MAX_TAGS} tags are allowed");
        problems.add("/tags", ProblemCode::TooLarge, what);
    }
    if tags
        .iter()
        .any(|tag| tag.is_empty() || tag.chars().count() > MAX_TAG_CHARS)
    {
        let what = format!("a tag has 1 to {MAX_TAG_CHARS} characters");
        problems.add("/tags", ProblemCode::InvalidValue, what);
    }
}

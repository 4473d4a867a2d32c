//! `core.dispatch`: carries out a supervisor's latest decision, or the one at its input port
//! `decision`.
//!
//! Config (OpenWOP's `DispatchConfig`): `fanOutPolicy` (`sequential`, `parallel`, or `reject` for
//! more than one worker), `joinPolicy` and `maxConcurrency` of `parallel`, `askUserRouting` (`auto`
//! and `clarification` ask by a clarification), `iterationCap` (visits of all dispatch nodes of the
//! run), `inputMapping`, `outputMapping`, and `perWorkerInputMappings`, `perWorkerOutputMappings`,
//! which replace them for a worker; `onChildFailure` (`continue`, or `fail-parent`), `budget` of
//! each worker, `propagateCancellation`.
//!
//! Each worker is a run of the workflow of that id. Sequential workers share the variables of this
//! run, so that each sees the results of those before it. Parallel workers get the variables as
//! they are when each begins, and are joined. A decision with a confidence below 0.5 must be
//! confirmed by a person before any worker runs. Outputs: `childRunId`, `childStatus` and `outputs`
//! of the last worker and all `workers`; after a join `joinOutcome` and `children`; after a
//! question `answers`.

use serde_json::{Map, Value, json};

use super::sub_workflow::SubWorkflow;
use super::{Ask, join};

/// The id of the only question of `ask-user`.
const QUESTION: &str = "answer";

/// The config of a dispatch node.
pub(crate) struct Dispatch<'a>(pub(crate) &'a Value);

impl Dispatch<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    /// Whether several workers at once are rejected.
    pub(crate) fn refuses_many(&self) -> bool {
        self.text("fanOutPolicy") == Some("reject")
    }

    /// Whether workers run concurrently.
    pub(crate) fn is_parallel(&self) -> bool {
        self.text("fanOutPolicy") == Some("parallel")
    }

    /// Maximum number of concurrent workers.
    pub(crate) fn max_concurrency(&self) -> u32 {
        let max = self.0.get("maxConcurrency").and_then(Value::as_u64);
        max.map_or(u32::MAX, |max| u32::try_from(max).unwrap_or(u32::MAX))
            .max(1)
    }

    /// Maximum number of visits of dispatch nodes in a run.
    pub(crate) fn iteration_cap(&self) -> Option<u64> {
        self.0.get("iterationCap").and_then(Value::as_u64)
    }

    /// The child run of a worker, as if a sub-workflow node started it.
    pub(crate) fn worker(&self, id: &str) -> SubWorkflow {
        let mut config = self.0.as_object().cloned().unwrap_or_default();
        for (key, of_workers) in [
            ("inputMapping", "perWorkerInputMappings"),
            ("outputMapping", "perWorkerOutputMappings"),
        ] {
            if let Some(own) = self.0.get(of_workers).and_then(|all| all.get(id)) {
                config.insert(key.into(), own.clone());
            }
        }
        config.insert("workflowId".into(), json!(id));
        config.insert("waitForCompletion".into(), json!(true));
        config
            .entry("onChildFailure")
            .or_insert_with(|| json!("continue"));
        SubWorkflow::from_config(&Value::Object(config))
    }
}

/// The question of `ask-user`.
pub(crate) fn question(key: &str, prompt: &str) -> Ask {
    Ask {
        kind: "clarification".into(),
        key: key.to_owned(),
        data: json!({
            "questions": [{ "id": QUESTION, "question": prompt }],
            "contextType": "orchestrator",
        }),
        resume_schema: None,
        timeout_ms: None,
    }
}

/// The outputs of a node that ran workers: the last one, and all of them.
pub(crate) fn outputs(workers: Vec<Value>, last: Map<String, Value>) -> Map<String, Value> {
    let mut outputs = last;
    outputs.insert("workers".into(), Value::Array(workers));
    outputs
}

/// Faults in the config of a dispatch node, by its key.
pub(crate) fn check_config(config: &Value) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    let text = |key: &str| {
        config
            .get(key)
            .map(|value| value.as_str().unwrap_or_default())
    };
    let mut word = |key: &'static str, allowed: &[&str], instead: &str| {
        if text(key).is_some_and(|word| !allowed.contains(&word)) {
            problems.push((key, format!("must be {}{instead}", allowed.join(" or "))));
        }
    };
    word("fanOutPolicy", &["sequential", "parallel", "reject"], "");
    word(
        "askUserRouting",
        &["auto", "clarification"],
        "; there are no conversations here",
    );
    word("workerDispatchModel", &["child-run"], "");
    word("onChildFailure", &["continue", "fail-parent"], "");
    if config
        .get("iterationCap")
        .is_some_and(|cap| cap.as_u64().is_none_or(|cap| cap == 0))
    {
        problems.push(("iterationCap", "must be a whole number from 1 on".into()));
    }
    let is_mapping = |value: &Value| {
        let fields = value.as_object();
        fields.is_some_and(|fields| fields.values().all(Value::is_string))
    };
    for key in ["inputMapping", "outputMapping"] {
        if config.get(key).is_some_and(|value| !is_mapping(value)) {
            problems.push((key, "must be an object of names by name".into()));
        }
    }
    for key in ["perWorkerInputMappings", "perWorkerOutputMappings"] {
        let fits = |value: &Value| {
            let fields = value.as_object();
            fields.is_some_and(|fields| fields.values().all(is_mapping))
        };
        if config.get(key).is_some_and(|value| !fits(value)) {
            problems.push((key, "must be mappings by workflow".into()));
        }
    }
    problems.extend(join::check_config(config));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_own_mapping_replaces_the_one_for_all() {
        let config = json!({
            "inputMapping": { "x": "all" },
            "perWorkerInputMappings": { "b": { "y": "own" } },
        });
        let variables = json!({ "all": 1, "own": 2 });
        let inputs =
            |worker: &str| Value::Object(Dispatch(&config).worker(worker).child_inputs(&variables));
        assert_eq!(inputs("a"), json!({ "x": 1 }));
        assert_eq!(inputs("b"), json!({ "y": 2 }));
    }

    #[test]
    fn unsupported_settings_are_a_problem() {
        let config = json!({
            "fanOutPolicy": "anyhow",
            "askUserRouting": "conversation",
            "iterationCap": 0,
            "inputMapping": { "a": 1 },
            "perWorkerOutputMappings": { "w": 1 },
        });
        let keys: Vec<&str> = check_config(&config)
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(
            keys,
            [
                "fanOutPolicy",
                "askUserRouting",
                "iterationCap",
                "inputMapping",
                "perWorkerOutputMappings"
            ]
        );
    }
}

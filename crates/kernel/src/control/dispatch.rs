//! `core.dispatch`: carries out a supervisor's latest decision, or the one at its input port
//! `decision`.
//!
//! The config is OpenWOP's `DispatchConfig`.
//!
//! Each worker is a run of the workflow of that id. Sequential workers share the variables of this
//! run, so that each sees the results of those before it. Parallel workers get the variables as
//! they are when each begins, and are joined. A decision with a confidence below 0.5 must be
//! confirmed by a person before any worker runs. Outputs: `childRunId`, `childStatus` and `outputs`
//! of the last worker and all `workers`; after a join `joinOutcome` and `children`; after a
//! question `answers`.

use serde_json::{Map, Value, json};

use super::sub_workflow::{SubWorkflow, mapped_inputs};
use super::{
    Ask, Began, ConfigProblems, Context, ControlNode, Given, PortSensitivity, Reply, Spec,
    clarification, doubt, join,
};
use crate::definition::config_keys::{
    BUDGET, INPUT_MAPPING, OBJECT, OUTPUT_MAPPING, PROPAGATE, Takes,
};
use crate::definition::{Node, Plan, PlanNode};
use crate::ids::NodeId;
use crate::limits::MAX_COUNT;
use crate::run::InterruptKind;
use crate::run::event::RunEvent;
use crate::run::rejection::Rejection;
use crate::run::state::OpenInterrupt;

/// The node kind.
pub(crate) struct DispatchNode;

const SPEC: Spec = Spec {
    type_id: "core.dispatch",
    summary: "Runs the workers that a supervisor chose, each as its own run.",
    config_keys: &[
        key!("fanOutPolicy": Takes::Words(&["sequential", "parallel", "reject"]),
            "How several workers run; default: sequential."),
        key!("joinPolicy": OBJECT,
            "For parallel: mode (wait-all, quorum, first, race), quorum, onChildFailure (collect, \
             fail-fast, absorb)."),
        key!("maxConcurrency": Takes::Whole(1, MAX_COUNT),
            "For parallel: the most workers at a time."),
        key!("askUserRouting": Takes::Words(&["auto", "clarification"]),
            "How a person is asked; default: auto."),
        key!("iterationCap": Takes::Whole(1, MAX_COUNT),
            "The most visits of dispatch nodes in a run."),
        INPUT_MAPPING,
        OUTPUT_MAPPING,
        key!("perWorkerInputMappings": OBJECT, "Mappings by worker that replace inputMapping."),
        key!("perWorkerOutputMappings": OBJECT, "Mappings by worker that replace outputMapping."),
        key!("onChildFailure": Takes::Words(&["continue", "fail-parent"]),
            "The effect of a failed worker on the node; default: continue."),
        BUDGET,
        PROPAGATE,
        key!("workerDispatchModel": Takes::Words(&["child-run"]), "How workers run."),
    ],
    runs_children: true,
    ..Spec::DEFAULT
};

impl ControlNode for DispatchNode {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn reads<'c>(&self, config: &'c Value) -> Vec<(String, &'c str)> {
        mapped_inputs(config)
    }

    fn check_config(&self, node: &Node) -> ConfigProblems {
        check_config(&node.config)
    }

    fn child(&self, config: &Value, worker: &str) -> SubWorkflow {
        Dispatch(config).worker(worker)
    }

    fn children(&self, config: &Value) -> Vec<SubWorkflow> {
        let own = config.get("perWorkerOutputMappings");
        let own = own.and_then(Value::as_object).into_iter().flatten();
        let own = own.map(|(worker, _)| Dispatch(config).worker(worker));
        std::iter::once(SubWorkflow::from_config(config))
            .chain(own)
            .collect()
    }

    fn sensitivity(&self, _: &Plan, _: &PlanNode, port: &str) -> PortSensitivity {
        match port {
            "answers" => PortSensitivity::Question,
            _ => PortSensitivity::Public,
        }
    }

    fn begin(&self, _: &Context<'_>) -> Began {
        Began::Dispatches
    }

    fn announcement(&self, open: &OpenInterrupt, node: &NodeId, visit: u32) -> Option<RunEvent> {
        clarification::announcement(open, node, visit)
    }

    fn judge(&self, given: &Given<'_>) -> Result<Reply, Rejection> {
        doubt::judge(given, doubt::Replacement::Refused)
    }
}

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
        kind: InterruptKind::Clarification,
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
pub(crate) fn check_config(config: &Value) -> ConfigProblems {
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
        "; this engine has no conversations",
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

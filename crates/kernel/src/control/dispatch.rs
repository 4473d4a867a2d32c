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

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::children::Children;
use super::join::JoinPolicy;
use super::sub_workflow::{Mapping, OnChildFailure, SubWorkflow, mapped_inputs, mapping};
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

    fn children(&self, config: &Value) -> Children {
        Children::Workers(Dispatch::from_config(config))
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

/// How several workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FanOut {
    /// One after another.
    Sequential,
    /// Concurrently.
    Parallel,
    /// Not at all.
    Reject,
}

/// The config of a dispatch node.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    /// Its first fault, in a stored definition.
    pub(crate) fault: Option<(&'static str, String)>,
    pub(crate) fan_out: FanOut,
    /// Maximum number of concurrent workers.
    pub(crate) max_concurrency: u32,
    /// Maximum number of visits of dispatch nodes in a run.
    pub(crate) iteration_cap: Option<u64>,
    pub(crate) join: JoinPolicy,
    /// The child run of a worker without mappings of its own.
    pub(crate) child: SubWorkflow,
    own_inputs: BTreeMap<String, Mapping>,
    own_outputs: BTreeMap<String, Mapping>,
}

impl Dispatch {
    /// Parses a config; missing fields get their defaults.
    pub(crate) fn from_config(config: &Value) -> Self {
        let own = |key: &str| -> BTreeMap<String, Mapping> {
            let workers = config.get(key).and_then(Value::as_object);
            let workers = workers.into_iter().flatten();
            workers
                .map(|(worker, own)| (worker.clone(), mapping(Some(own))))
                .collect()
        };
        let max = config.get("maxConcurrency").and_then(Value::as_u64);
        let max = max.map_or(u32::MAX, |max| u32::try_from(max).unwrap_or(u32::MAX));
        let mut child = SubWorkflow {
            workflow_id: None,
            wait_for_completion: true,
            ..SubWorkflow::from_config(config)
        };
        if config.get("onChildFailure").is_none() {
            child.on_child_failure = OnChildFailure::Continue;
        }
        Self {
            fault: check_config(config).into_iter().next(),
            fan_out: match config.get("fanOutPolicy").and_then(Value::as_str) {
                Some("parallel") => FanOut::Parallel,
                Some("reject") => FanOut::Reject,
                _ => FanOut::Sequential,
            },
            max_concurrency: max.max(1),
            iteration_cap: config.get("iterationCap").and_then(Value::as_u64),
            join: JoinPolicy::from_config(config),
            child,
            own_inputs: own("perWorkerInputMappings"),
            own_outputs: own("perWorkerOutputMappings"),
        }
    }

    /// The child run of a worker, as if a sub-workflow node started it.
    pub(crate) fn worker(&self, id: &str) -> SubWorkflow {
        let mut child = self.child.clone();
        child.workflow_id = Some(id.to_owned());
        if let Some(own) = self.own_inputs.get(id) {
            child.input_mapping.clone_from(own);
        }
        if let Some(own) = self.own_outputs.get(id) {
            child.output_mapping.clone_from(own);
        }
        child
    }

    /// The output mappings of all workers.
    pub(crate) fn output_mappings(&self) -> impl Iterator<Item = &Mapping> {
        std::iter::once(&self.child.output_mapping).chain(self.own_outputs.values())
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
        let dispatch = Dispatch::from_config(&config);
        let inputs = |worker: &str| Value::Object(dispatch.worker(worker).child_inputs(&variables));
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

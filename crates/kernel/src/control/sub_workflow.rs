//! `core.subWorkflow`: starts a run of another workflow and, usually, waits for it.
//!
//! Mappings are evaluated once, when the child is created or has completed. An unset parent
//! variable is passed as an explicit null. In dimensions that `budget` omits, the child gets an
//! equal share of the rest of the run's.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::children::Children;
use super::{Began, ConfigProblems, Context, ControlNode, Spec, owned};
use crate::definition::Node;
use crate::definition::config_keys::{
    BUDGET, INPUT_MAPPING, OUTPUT_MAPPING, PROPAGATE, TEXT, Takes, YES_OR_NO,
};
use crate::problem::pointer;
use crate::run::budget::BudgetPolicy;

/// The node kind.
pub(crate) struct SubWorkflowNode;

const SPEC: Spec = Spec {
    type_id: "core.subWorkflow",
    summary: "Runs another workflow as its own run.",
    config_keys: &[
        key!("workflowId": TEXT, "The workflow to run."),
        INPUT_MAPPING,
        OUTPUT_MAPPING,
        key!("waitForCompletion": YES_OR_NO,
            "Whether the node waits for the end of the child; default: true."),
        key!("onChildFailure": Takes::Words(&["fail-parent", "continue"]),
            "The effect of a failed child on the node; default: fail-parent."),
        BUDGET,
        PROPAGATE,
    ],
    needs: Some((&["workflowId"], "needs `workflowId`, the workflow to run")),
    runs_children: true,
    ..Spec::DEFAULT
};

impl ControlNode for SubWorkflowNode {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn outputs(&self, _: &Value) -> Option<Vec<String>> {
        Some(owned(&["childRunId", "childStatus", "outputs"]))
    }

    fn reads<'c>(&self, config: &'c Value) -> Vec<(String, &'c str)> {
        mapped_inputs(config)
    }

    fn check_config(&self, node: &Node) -> ConfigProblems {
        check_config(&node.config)
    }

    fn children(&self, config: &Value) -> Children {
        Children::One(SubWorkflow::from_config(config))
    }

    fn begin(&self, _: &Context<'_>) -> Began {
        Began::Waits
    }
}

/// The effect on the node when its child does not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnChildFailure {
    /// The node fails.
    FailParent,
    /// The node completes and outputs the child's status.
    Continue,
}

/// The parent's or the child's names of variables, each with the name it gets its value from.
pub(crate) type Mapping = Vec<(String, String)>;

/// The config of a sub-workflow node.
#[derive(Clone, Debug)]
pub(crate) struct SubWorkflow {
    /// The workflow to run.
    pub(crate) workflow_id: Option<String>,
    pub(crate) wait_for_completion: bool,
    pub(crate) on_child_failure: OnChildFailure,
    pub(crate) input_mapping: Mapping,
    pub(crate) output_mapping: Mapping,
    pub(crate) budget: BTreeMap<String, u64>,
    pub(crate) propagates_cancellation: bool,
}

/// Faults in the config of a sub-workflow node, by its key.
fn check_config(config: &Value) -> ConfigProblems {
    let mut problems = Vec::new();
    for key in ["inputMapping", "outputMapping"] {
        let fields = config.get(key).and_then(Value::as_object);
        if fields.is_some_and(|fields| !fields.values().all(Value::is_string)) {
            problems.push((key, "must be an object of names by name".to_owned()));
        }
    }
    problems
}

/// The variables of this run that a child receives, each with its place in the config.
pub(crate) fn mapped_inputs(config: &Value) -> Vec<(String, &str)> {
    let mapping = config.get("inputMapping").and_then(Value::as_object);
    let mapping = mapping.into_iter().flatten();
    mapping
        .filter_map(|(child, parent)| Some((pointer("/inputMapping", child), parent.as_str()?)))
        .collect()
}

/// Parses a mapping; values that are not names are left out.
pub(crate) fn mapping(value: Option<&Value>) -> Mapping {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    pairs
        .filter_map(|(to, from)| Some((to.clone(), from.as_str()?.to_owned())))
        .collect()
}

/// The parent's names in an output mapping that receive a variable of the child.
pub(crate) fn parents_of<'a>(mapping: &'a Mapping, child: &str) -> impl Iterator<Item = &'a str> {
    let kept = mapping.iter().filter(move |(_, from)| from == child);
    kept.map(|(parent, _)| parent.as_str())
}

impl SubWorkflow {
    /// Parses a config; missing fields get their defaults.
    pub(crate) fn from_config(config: &Value) -> Self {
        Self {
            workflow_id: config
                .get("workflowId")
                .and_then(Value::as_str)
                .map(str::to_owned),
            wait_for_completion: config
                .get("waitForCompletion")
                .and_then(Value::as_bool)
                .unwrap_or(true),
            on_child_failure: match config.get("onChildFailure").and_then(Value::as_str) {
                None | Some("fail-parent") => OnChildFailure::FailParent,
                Some(_) => OnChildFailure::Continue,
            },
            input_mapping: mapping(config.get("inputMapping")),
            output_mapping: mapping(config.get("outputMapping")),
            budget: BudgetPolicy::of_stored(config.get("budget")).limits,
            propagates_cancellation: config
                .get("propagateCancellation")
                .and_then(Value::as_bool)
                .unwrap_or(true),
        }
    }

    pub(crate) fn child_inputs(&self, variables: &Value) -> Map<String, Value> {
        self.input_mapping
            .iter()
            .map(|(child, parent)| {
                (
                    child.clone(),
                    variables.get(parent).cloned().unwrap_or(Value::Null),
                )
            })
            .collect()
    }

    pub(crate) fn parent_variables(&self, child: &Map<String, Value>) -> Vec<(String, Value)> {
        self.output_mapping
            .iter()
            .filter_map(|(parent, from)| Some((parent.clone(), child.get(from)?.clone())))
            .collect()
    }
}

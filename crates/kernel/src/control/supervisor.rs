//! `core.orchestrator.supervisor`: decides which workers go next.
//!
//! The decision comes from the first of these that exists: the input port `decision` (one decision,
//! or a list with one for each visit; objects or JSON texts, so that a model or a program may
//! decide), the config's `mockPendingDecision`, and the config's plan `mockDispatchPlan`,
//! `mockDecisions` or `decisions` (one for each visit). An exhausted or empty plan means
//! `terminate`.
//!
//! Port `dispatch` begins a round of the loop that leads back to the supervisor, port `terminate`
//! leaves. If the confidence (input port `confidence`, config `mockConfidence`) is below the
//! threshold (`escalationThreshold` of the run, 0.7), a person confirms or replaces the decision
//! first. A `terminate` with a confidence of its own below 0.5 is held back likewise. Outputs:
//! `decision`, `index` of the round.

use serde_json::Value;

use super::decision::Decided;
use super::{
    Began, ConfigProblems, Context, ControlKind, ControlNode, Given, PortSensitivity, Reply, Spec,
    clarification, doubt, setting,
};
use crate::definition::config_keys::{LIST, Takes};
use crate::definition::{EdgeIx, Node, NodeKind, Plan, PlanNode};
use crate::ids::NodeId;
use crate::run::event::RunEvent;
use crate::run::rejection::Rejection;
use crate::run::state::OpenInterrupt;

/// The node kind.
pub(crate) struct Supervisor;

const SPEC: Spec = Spec {
    type_id: "core.orchestrator.supervisor",
    noun: "a supervisor",
    summary: "Decides which workers run next.",
    config_keys: &[
        key!("decisions" | "mockDispatchPlan" | "mockDecisions": LIST,
            "One decision per visit."),
        key!("mockPendingDecision": Takes::Anything,
            "The decision, or a list with one per visit, instead of the plan."),
        key!("mockConfidence": Takes::Types(&["number"]), "The confidence of the node, from 0 to 1."),
    ],
    ports: &PORTS,
    ..Spec::DEFAULT
};

impl ControlNode for Supervisor {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn unnamed_port(&self, plan: &Plan, node: &PlanNode, edge: EdgeIx) -> Option<&'static str> {
        match &node.body {
            Some(body) if body.starts.contains(&edge) => Some(DISPATCH),
            Some(_) => Some(TERMINATE),
            None => {
                let target = plan.node(plan.edge(edge).target).kind;
                (target == NodeKind::Control(ControlKind::Dispatch)).then_some(DISPATCH)
            }
        }
    }

    fn check_config(&self, node: &Node) -> ConfigProblems {
        check_config(&node.config)
    }

    fn sensitivity(&self, _: &Plan, _: &PlanNode, port: &str) -> PortSensitivity {
        match port {
            "decision" => PortSensitivity::Input("decision"),
            _ => PortSensitivity::Public,
        }
    }

    fn begin(&self, _: &Context<'_>) -> Began {
        Began::Supervises
    }

    fn announcement(&self, open: &OpenInterrupt, node: &NodeId, visit: u32) -> Option<RunEvent> {
        clarification::announcement(open, node, visit)
    }

    fn judge(&self, given: &Given<'_>) -> Result<Reply, Rejection> {
        doubt::judge(given, doubt::Replacement::Allowed)
    }
}

/// The default confidence below which a person must confirm.
pub(crate) const THRESHOLD: f64 = 0.7;
/// The port that begins a round.
pub(crate) const DISPATCH: &str = "dispatch";
/// The port that ends the work.
pub(crate) const TERMINATE: &str = "terminate";
/// The ports of a supervisor.
pub(crate) const PORTS: [&str; 2] = [DISPATCH, TERMINATE];

const PLANS: [&str; 3] = ["mockDispatchPlan", "mockDecisions", "decisions"];

/// The node's decision in a visit.
pub(crate) fn decide(cx: &Context<'_>, visit: u32) -> Result<Decided, String> {
    let of = |given: &Value| match given {
        Value::Array(plan) => match plan.get(visit as usize) {
            Some(decision) => Decided::parse(decision),
            None => Ok(Decided::terminate("plan-exhausted")),
        },
        decision => Decided::parse(decision),
    };
    let is_given = |value: &&Value| !value.is_null();
    if let Some(given) = cx.inputs.get("decision").filter(is_given) {
        return of(given);
    }
    let config = &cx.node.config;
    if let Some(given) = config.get("mockPendingDecision").filter(is_given) {
        return of(given);
    }
    match PLANS.iter().find_map(|key| config.get(key)) {
        Some(plan @ Value::Array(_)) => of(plan),
        Some(_) => Err("comes from a plan that is not a list".into()),
        None => Ok(Decided::terminate("plan-exhausted")),
    }
}

/// The node's own confidence, if given.
pub(crate) fn confidence(cx: &Context<'_>) -> Option<f64> {
    let given = cx
        .inputs
        .get("confidence")
        .or_else(|| setting(cx, "mockConfidence"));
    given.and_then(Value::as_f64)
}

/// Faults in the config of a supervisor, by its key.
fn check_config(config: &Value) -> ConfigProblems {
    let mut problems = Vec::new();
    for key in PLANS {
        match config.get(key) {
            None => {}
            Some(Value::Array(plan)) => {
                for (place, decision) in plan.iter().enumerate() {
                    let why = match Decided::parse(decision) {
                        Ok(decided) => decided.misfit(),
                        Err(why) => Some(why),
                    };
                    if let Some(why) = why {
                        problems.push((key, format!("the decision at {place} {why}")));
                    }
                }
            }
            Some(_) => problems.push((key, "must be a list of decisions".into())),
        }
    }
    problems
}

//! Looking up the definition of a child, and checking that a run of it can be created.

use kernel::definition::{NodeIx, Plan};
use kernel::problem::{ProblemCode, Problems, pointer};
use kernel::run::budget::COST;
use kernel::run::{Found, NodeError, Rejection};
use kernel::sealed::has_sealed;
use kernel::stream::DefinitionRef;
use serde_json::{Map, Value, json};
use store::StoreError;

use super::Driver;

/// Problems of a child's inputs quoted in its node's error.
const NAMED: usize = 3;

impl Driver {
    pub(super) async fn look_up(
        &self,
        ix: NodeIx,
        workflow: Option<String>,
    ) -> Result<Found, StoreError> {
        let Some(workflow) = workflow else {
            return Ok(not(
                "invalid_config",
                "config.workflowId is not the id of a workflow".into(),
            ));
        };
        self.try_look_up(ix, &workflow).await
    }

    async fn try_look_up(&self, ix: NodeIx, workflow: &str) -> Result<Found, StoreError> {
        let run = self.run();
        let (door, tenant) = (self.engine.door(), run.header.tenant());
        let named: Option<DefinitionRef> = door.usable_workflow(tenant, workflow).await?;
        let Some(definition) = named else {
            return Ok(not(
                "workflow_not_found",
                format!("unknown workflow {workflow}; register it first"),
            ));
        };
        let loaded = door
            .plans()
            .load(&**door.store(), tenant, &definition)
            .await;
        let plan = match loaded {
            Ok(plan) => plan,
            // A permanent failure, such as a missing node type.
            Err(StoreError::Corrupt(what)) => {
                tracing::warn!(workflow, %what, "a child cannot be read");
                let what = format!("this engine cannot run the workflow {workflow}");
                return Ok(not("capability_required", what));
            }
            Err(error) => return Err(error),
        };
        if let Some(error) = self.unpriced(ix, workflow, &plan) {
            return Ok(Found::Not(error));
        }
        let node = &run.plan.node(ix).id;
        let hidden = run.plan.hidden_of_parent(node, workflow);
        let hides = |name: &str| hidden.as_ref().is_none_or(|names| names.contains(name));
        Ok(match check(&plan, &run.child_inputs(ix), hides) {
            Ok(()) => Found::Definition(definition),
            Err(rejection) => Found::Not(refused(workflow, &rejection)),
        })
    }

    /// The error of a child with a cost limit and a model without a price: its cost would not
    /// count.
    fn unpriced(&self, ix: NodeIx, workflow: &str, plan: &Plan) -> Option<NodeError> {
        let run = self.run();
        if !run.limits_child(ix, COST) && !plan.budget.limits.contains_key(COST) {
            return None;
        }
        let settings = run.facts()?.settings_of_children();
        let problems = self.ports.models.check_prices(plan, &settings, None);
        let what = &problems.first()?.message;
        let text = format!("no run of {workflow} can be created: {what}");
        Some(NodeError::new("budget_model_unpriced", text).fatal())
    }
}

fn not(code: &str, message: String) -> Found {
    Found::Not(NodeError::new(code, message).fatal())
}

/// Checks that a run of the plan can be created with these inputs. One that cannot must not be
/// recorded as a child: it would never exist. The child must hide what the parent `hides`.
fn check(
    plan: &Plan,
    inputs: &Map<String, Value>,
    hides: impl Fn(&str) -> bool,
) -> Result<(), Rejection> {
    let mut problems = Problems::new();
    for (name, value) in inputs {
        let is_hidden = has_sealed(value) || !value.is_null() && hides(name);
        if is_hidden && !plan.hides_variable(name) {
            let what = "gets the value of a sensitive variable; declare it sensitive in the child \
                        too";
            problems.add(pointer("", name), ProblemCode::InvalidValue, what);
        }
    }
    problems.or(()).map_err(Rejection::InvalidInputs)?;
    plan.begin_with(inputs).map(drop)
}

/// The node's error for a child that cannot be created.
fn refused(workflow: &str, rejection: &Rejection) -> NodeError {
    const CODE: &str = "invalid_child_inputs";
    let Rejection::InvalidInputs(problems) = rejection else {
        let what = format!("no run of {workflow} can be created: {rejection}");
        let code = match rejection {
            Rejection::Unmet { unmet } => unmet.code,
            _ => CODE,
        };
        return NodeError::new(code, what).fatal();
    };
    let listed = problems.listed.iter();
    let named: Vec<String> = listed
        .clone()
        .take(NAMED)
        .map(|problem| format!("{} {}", problem.path, problem.message))
        .collect();
    let more = problems.listed.len() + problems.more - named.len();
    let more = match more {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let message = format!(
        "no run of {workflow} can be created with the values of the inputMapping: {}{more}",
        named.join("; ")
    );
    let problems: Vec<Value> = listed
        .map(|problem| {
            json!({
                "path": problem.path,
                "code": problem.code.as_str(),
                "message": problem.message,
            })
        })
        .collect();
    let details = json!({ "workflowId": workflow, "problems": problems });
    NodeError::new(CODE, message).fatal().with_details(details)
}

#[cfg(test)]
mod tests {
    use kernel::definition::UnknownTypes;
    use kernel::sealed::Sealed;

    use super::*;
    use crate::nodes::Registry;

    #[test]
    fn sealed_values_are_not_passed_to_children() {
        let plan = |sensitive: bool| {
            let document = json!({
                "id": "child", "name": "child", "version": "1.0.0",
                "nodes": [{ "id": "n", "typeId": "core.noop", "name": "n", "config": {},
                    "inputs": {}, "position": { "x": 0, "y": 0 } }],
                "edges": [], "triggers": [], "metadata": {}, "settings": {},
                "variables": [{ "name": "s", "type": "object", "sensitive": sensitive }],
            });
            let plan = Plan::from_json(&document, &Registry::standard(), UnknownTypes::Refuse);
            plan.expect("a child")
        };
        let sealed = Sealed {
            key: "k".into(),
            nonce: "bg==".into(),
            body: "Yg==".into(),
        };
        let sealed = sealed.into_value();
        for (value, is_hidden) in [
            (sealed.clone(), true),
            (json!({ "pin": sealed.clone() }), true),
            (json!({ "pins": [1, { "pin": sealed }] }), true),
            (json!({ "pin": 1 }), false),
        ] {
            let inputs = Map::from_iter([("s".to_owned(), value)]);
            let shown = check(&plan(false), &inputs, |_| false);
            assert_eq!(shown.is_err(), is_hidden, "{inputs:?}");
            assert_eq!(check(&plan(true), &inputs, |_| false), Ok(()), "{inputs:?}");
        }
    }
}

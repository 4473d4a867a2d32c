//! What expressions see of a run.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::definition::{NodeIx, Plan, PortValue};
use crate::expr::Scope;
use crate::run::event::NodeError;
use crate::run::state::{Facts, NodeStatus};

/// The data of a run as expressions read it: `variables`, `inputs`, `channels`, `run`,
/// `nodes.<id>`, and `output` of the node whose edges are being decided.
pub(crate) struct RunScope<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) facts: &'a Facts,
    pub(crate) run_id: &'a str,
    /// The node whose edges are being decided, with what it gave.
    pub(crate) output: Option<(NodeIx, &'a Value)>,
    /// The loop's current item, for nodes inside a loop.
    pub(crate) item: Option<Value>,
}

impl<'a> RunScope<'a> {
    /// The scope of a node that is about to start.
    pub(crate) fn of_node(plan: &'a Plan, facts: &'a Facts, run_id: &'a str, ix: NodeIx) -> Self {
        let item = plan
            .node(ix)
            .within
            .and_then(|head| match &facts.nodes[head.index()].status {
                NodeStatus::Completed { outputs, .. } => outputs.get("item").cloned(),
                _ => None,
            });
        Self {
            plan,
            facts,
            run_id,
            output: None,
            item,
        }
    }

    /// The same scope after the node gave these outputs.
    pub(crate) fn with_output(mut self, ix: NodeIx, output: &'a Value) -> Self {
        self.output = Some((ix, output));
        self
    }
}

impl Scope for RunScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        Some(match name {
            "variables" => Cow::Borrowed(&self.facts.variables),
            "inputs" => Cow::Borrowed(&self.facts.inputs),
            "channels" => Cow::Borrowed(&self.facts.channels),
            "output" => Cow::Borrowed(self.output?.1),
            "item" => Cow::Owned(self.item.clone()?),
            "run" => Cow::Owned(json!({
                "id": self.run_id,
                "workflowId": self.plan.workflow,
                "startedAt": self.facts.started_at.to_string(),
                "tags": self.facts.tags,
                "metadata": self.facts.metadata,
            })),
            _ => return None,
        })
    }

    fn node(&self, id: &str) -> Option<Cow<'_, Value>> {
        let ix = self.plan.node_ix(id)?;
        let node = &self.facts.nodes[ix.index()];
        let mut value = json!({ "status": node.status.as_str(), "visit": node.visit });
        match &node.status {
            _ if self.output.is_some_and(|(just, _)| just == ix) => {
                value["outputs"] = self.output?.1.clone();
            }
            NodeStatus::Idle => return None,
            NodeStatus::Completed { outputs, .. } => value["outputs"] = outputs.clone(),
            NodeStatus::Failed { error, .. } => value["error"] = json!(error),
            _ => {}
        }
        Some(Cow::Owned(value))
    }
}

/// What the input ports of a node resolve to now.
///
/// # Errors
/// The port that has no value, as the error the node fails with.
pub(crate) fn resolve_inputs(
    plan: &Plan,
    facts: &Facts,
    run_id: &str,
    ix: NodeIx,
) -> Result<Map<String, Value>, NodeError> {
    let scope = RunScope::of_node(plan, facts, run_id, ix);
    let mut inputs = Map::new();
    for (port, source) in &plan.node(ix).inputs {
        let unresolved = |what: String| {
            NodeError::new(
                "input_unresolved",
                format!("the input {port} has no value: {what}"),
            )
            .fatal()
        };
        let value = match source {
            PortValue::Static(value) => Some(value.clone()),
            PortValue::Expression(expression) => Some(
                expression
                    .eval(&scope)
                    .map_err(|error| unresolved(error.to_string()))?,
            ),
            PortValue::Connection {
                node,
                output,
                optional,
            } => {
                let found = match &facts.nodes[node.index()].status {
                    NodeStatus::Completed { outputs, .. } => connected(outputs, output),
                    _ => None,
                };
                match found {
                    Some(value) => Some(value),
                    None if *optional => None,
                    None => {
                        let id = &plan.node(*node).id;
                        return Err(unresolved(format!(
                            "node {id} has given no output named {output}; \
                             mark the connection optional if that may happen"
                        )));
                    }
                }
            }
            PortValue::Variable { name, optional } => match facts.variables.get(name) {
                Some(value) => Some(value.clone()),
                None if *optional => None,
                None => {
                    // A declared variable that was never set is simply absent.
                    if plan.variables.iter().any(|variable| variable.name == *name) {
                        None
                    } else {
                        return Err(unresolved(format!("there is no variable {name}")));
                    }
                }
            },
        };
        if let Some(value) = value {
            inputs.insert(port.clone(), value);
        }
    }
    Ok(inputs)
}

/// An output by port name; `output` means all outputs where no port has that name.
fn connected(outputs: &Value, port: &str) -> Option<Value> {
    match outputs.get(port) {
        Some(value) => Some(value.clone()),
        None if port == "output" => Some(outputs.clone()),
        None => None,
    }
}

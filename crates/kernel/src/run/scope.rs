//! The data of a run that expressions read.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::definition::{NodeIx, Plan, PlanNode, PortValue};
use crate::expr::{ExprError, Scope};
use crate::run::event::NodeError;
use crate::run::state::{Facts, NodeStatus};

/// The data of a run as expressions read it: `variables`, `inputs`, `channels`, `run`,
/// `nodes.<id>`, and `output` of the node whose edges are being decided.
pub(crate) struct RunScope<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) facts: &'a Facts,
    pub(crate) run_id: &'a str,
    /// The node whose edges are being decided, and its end.
    pub(crate) ended: Option<(NodeIx, Just<'a>)>,
    /// The loop's current item, for nodes inside a loop.
    pub(crate) item: Option<Value>,
    /// The channels that the node may read, if not all.
    channels: Option<Value>,
    /// The reading node.
    reader: NodeIx,
}

/// The end of a node whose edges are being decided, before its event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Just<'a> {
    /// It completed with these outputs.
    Gave(&'a Value),
    /// It failed with this error.
    Failed(&'a NodeError),
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
            ended: None,
            item,
            channels: readable_channels(plan, facts, ix),
            reader: ix,
        }
    }

    /// The same scope after the node ended.
    pub(crate) fn after(mut self, ix: NodeIx, just: Just<'a>) -> Self {
        self.ended = Some((ix, just));
        self
    }
}

impl Scope for RunScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        Some(match name {
            "variables" => Cow::Borrowed(&self.facts.variables),
            "inputs" => Cow::Borrowed(&self.facts.inputs),
            "channels" => Cow::Borrowed(self.channels.as_ref().unwrap_or(&self.facts.channels)),
            "output" => match self.ended?.1 {
                Just::Gave(outputs) => Cow::Borrowed(outputs),
                Just::Failed(_) => return None,
            },
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
        let just = self.ended.filter(|(ended, _)| *ended == ix);
        match (just, &node.status) {
            (Some((_, Just::Gave(outputs))), _) => {
                value["status"] = json!("completed");
                value["outputs"] = outputs.clone();
            }
            (Some((_, Just::Failed(error))), _) => {
                value["status"] = json!("failed");
                value["error"] = json!(error);
            }
            (None, NodeStatus::Idle) => return None,
            (None, NodeStatus::Completed { outputs, .. }) => value["outputs"] = outputs.clone(),
            (None, NodeStatus::Failed { error, .. }) => value["error"] = json!(error),
            (None, _) => {}
        }
        Some(Cow::Owned(value))
    }

    fn hides_channel(&self, name: &str) -> bool {
        hides(self.plan, self.reader, name)
    }
}

/// Whether a channel is declared and a node may not read it.
fn hides(plan: &Plan, ix: NodeIx, name: &str) -> bool {
    let (node, declared) = (plan.node(ix), plan.channels.get(name));
    declared.is_some_and(|channel| !channel.access.may_read(node.id.as_str(), &node.type_id))
}

/// The channels that a node may read, if not all.
fn readable_channels(plan: &Plan, facts: &Facts, ix: NodeIx) -> Option<Value> {
    let hides = |name: &str| hides(plan, ix, name);
    if !plan.channels.keys().any(|name| hides(name)) {
        return None;
    }
    let all = facts.channels.as_object().into_iter().flatten();
    let readable = all.filter(|(name, _)| !hides(name));
    Some(Value::Object(
        readable
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    ))
}

/// The details of a denied access to a channel, for programs.
pub(crate) fn denied(node: &PlanNode, channel: &str, list: &str) -> Value {
    json!({
        "channel": channel,
        "requestedBy": { "nodeId": node.id, "typeId": node.type_id },
        "allowed": list,
    })
}

/// The error of an expression that reads a channel its node may not read.
pub(crate) fn read_denied(plan: &Plan, ix: NodeIx, error: &ExprError) -> Option<NodeError> {
    let node = plan.node(ix);
    let path = match error {
        ExprError::Denied { channel } => return Some(not_a_reader(node, channel)),
        ExprError::Missing { path } => path,
        _ => return None,
    };
    let (name, _) = plan.channels.iter().find(|(name, channel)| {
        let rest = path.strip_prefix("channels.");
        let reads = rest.is_some_and(|rest| {
            let after = rest.strip_prefix(name.as_str());
            after.is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']))
        });
        reads && !channel.access.may_read(node.id.as_str(), &node.type_id)
    })?;
    Some(not_a_reader(node, name))
}

/// The error of a node that reads a channel it may not read.
pub(crate) fn not_a_reader(node: &PlanNode, channel: &str) -> NodeError {
    let error = NodeError::new(
        "channel_access_denied",
        format!("node {} may not read channel {channel}", node.id),
    );
    error.fatal().with_details(denied(node, channel, "readers"))
}

/// The current values of a node's input ports.
///
/// # Errors
/// The port without a value, as the error that the node fails with.
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
            PortValue::Expression(expression) => {
                Some(expression.eval(&scope).map_err(|error| {
                    read_denied(plan, ix, &error).unwrap_or_else(|| unresolved(error.to_string()))
                })?)
            }
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
                    // A declared variable without a value is absent.
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

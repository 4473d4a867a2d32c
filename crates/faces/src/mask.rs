//! Masks a workflow's sensitive values for every reader of its runs.
//!
//! The log holds sensitive values from outside sealed ([`kernel::sealed`]). Masking is the second
//! barrier, and the only one for values of other origin: every face shows events and states through
//! it.

mod event;
mod question;

use std::borrow::Cow;

use kernel::definition::{NodeIx, Plan, PlanNode};
use kernel::ids::NodeId;
use kernel::run::state::OpenInterrupt;
use kernel::run::{Event, NodeError};
use kernel::sealed::SEALED;
use serde_json::{Map, Value};

/// The placeholder for a hidden value.
pub(crate) const MASK: &str = "[REDACTED]";

/// Masks the hidden values of a run, by its workflow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mask<'a>(Option<&'a Plan>);

impl<'a> Mask<'a> {
    /// The mask of a workflow's runs.
    pub fn from_plan(plan: &'a Plan) -> Self {
        Self(plan.sensitivity.any.then_some(plan))
    }

    /// For streams without a workflow: only sealed values are masked.
    pub fn bare() -> Self {
        Self(None)
    }

    /// A masked event.
    pub fn event<'e>(self, event: &'e Event) -> Cow<'e, Event> {
        match self.0 {
            Some(plan) => {
                let mut shown = event.clone();
                event::hide(plan, &mut shown.body);
                Cow::Owned(shown)
            }
            None => Cow::Borrowed(event),
        }
    }

    /// A masked question, also for the person who is to answer it.
    pub fn question(self, open: &OpenInterrupt) -> OpenInterrupt {
        let mut shown = open.clone();
        if let Some(plan) = self.0 {
            let node = plan.nodes.get(NodeIx(open.node).index());
            question::hide(plan, node, &mut shown.data);
        }
        apply_mask(&mut shown.data);
        shown
    }

    /// A masked error of a node.
    pub fn error<'e>(self, node: Option<&NodeId>, error: &'e NodeError) -> Cow<'e, NodeError> {
        match (self.0, node) {
            (Some(plan), Some(node)) if plan.hides_answers(node) => Cow::Owned(shortened(error)),
            _ => Cow::Borrowed(error),
        }
    }

    /// Masked values of variables.
    pub fn variables(self, values: &Value) -> Value {
        self.masked(values, Plan::hides_variable)
    }

    /// The masked inputs of a node.
    pub fn inputs(self, node: &NodeId, values: &Map<String, Value>) -> Map<String, Value> {
        let mut shown = values.clone();
        if let Some(plan) = self.0 {
            hide_inputs(plan, node, &mut shown);
        }
        shown.values_mut().for_each(apply_mask);
        shown
    }

    /// The masked outputs of a node.
    pub fn outputs_of(self, node: &NodeId, values: &Map<String, Value>) -> Map<String, Value> {
        let mut shown = values.clone();
        if let Some(plan) = self.0 {
            hide_outputs(plan, node, &mut shown);
        }
        shown.values_mut().for_each(apply_mask);
        shown
    }

    /// Masked values of channels.
    pub(crate) fn channels(self, values: &Value) -> Value {
        self.masked(values, Plan::hides_channel)
    }

    /// The masked outputs of a node.
    pub(crate) fn outputs(self, node: &PlanNode, values: &Value) -> Value {
        self.masked(values, |plan, port| plan.hides_port(node, port))
    }

    /// The masked outputs of a run: those of its last nodes, by node.
    pub fn run_outputs(self, outputs: &Map<String, Value>) -> Map<String, Value> {
        let mut shown = outputs.clone();
        if let Some(plan) = self.0 {
            hide_run_outputs(plan, &mut shown);
        }
        shown.values_mut().for_each(apply_mask);
        shown
    }

    fn masked(self, values: &Value, hides: impl Fn(&Plan, &str) -> bool) -> Value {
        let mut shown = values.as_object().cloned().unwrap_or_default();
        if let Some(plan) = self.0 {
            mask(&mut shown, |name| hides(plan, name));
        }
        Value::Object(shown)
    }
}

/// Masks sealed values: ciphertext is of no use to a reader.
pub fn apply_mask(value: &mut Value) {
    match value {
        Value::Object(fields) if fields.len() == 1 && fields.contains_key(SEALED) => {
            *value = MASK.into();
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == SEALED {
                    *field = MASK.into()
                } else {
                    apply_mask(field)
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(apply_mask),
        _ => {}
    }
}

fn hide_inputs(plan: &Plan, id: &NodeId, inputs: &mut Map<String, Value>) {
    let node = node_of(plan, id);
    mask(inputs, |port| {
        node.map_or(plan.hides_all(), |node| plan.hides_input(node, port))
    });
}

fn hide_outputs(plan: &Plan, id: &NodeId, outputs: &mut Map<String, Value>) {
    let node = node_of(plan, id);
    mask(outputs, |port| {
        node.map_or(plan.hides_all(), |node| plan.hides_port(node, port))
    });
}

fn hide_run_outputs(plan: &Plan, outputs: &mut Map<String, Value>) {
    for (name, of_node) in outputs {
        let node = plan.node_ix(name).map(|ix| plan.node(ix));
        if let Value::Object(ports) = of_node {
            mask(ports, |port| {
                node.map_or(plan.hides_all(), |node| plan.hides_port(node, port))
            });
        }
    }
}

/// An error without the node's details: the code, and the first line of the message.
fn shortened(error: &NodeError) -> NodeError {
    let mut lines = error.message.lines();
    let mut message = lines.next().unwrap_or_default().to_owned();
    if lines.next().is_some() {
        message = format!("{message} {MASK}");
    }
    let mut shown = error.clone();
    shown.message = message;
    shown.details = error.details.as_ref().map(|_| MASK.into());
    shown
}

fn node_of<'p>(plan: &'p Plan, id: &NodeId) -> Option<&'p PlanNode> {
    plan.node_ix(id.as_str()).map(|ix| plan.node(ix))
}

fn mask(values: &mut Map<String, Value>, hides: impl Fn(&str) -> bool) {
    for (name, value) in values {
        if hides(name) {
            cover(value);
        }
    }
}

fn cover(value: &mut Value) {
    if !value.is_null() {
        *value = MASK.into();
    }
}

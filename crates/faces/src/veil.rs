//! What a workflow calls sensitive, kept from every reader of its runs.
//!
//! The log holds such values sealed as far as they came from outside ([`kernel::sealed`]). This is
//! the second wall, and the only one where a value came to its place otherwise: every face shows
//! events and states through it.

use std::borrow::Cow;

use kernel::definition::{Plan, PlanNode};
use kernel::ids::NodeId;
use kernel::run::event::Ending;
use kernel::run::{Event, NodeError, RunEvent};
use kernel::sealed::SEALED;
use serde_json::{Map, Value};

/// Stands where a value is hidden.
pub(crate) const MASK: &str = "[REDACTED]";

/// What of a run is hidden, by its workflow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Veil<'a>(Option<&'a Plan>);

impl<'a> Veil<'a> {
    /// What a workflow hides of its runs.
    pub fn of(plan: &'a Plan) -> Self {
        Self(plan.sensitivity.any.then_some(plan))
    }

    /// For what has no workflow: only what is sealed is hidden.
    pub fn bare() -> Self {
        Self(None)
    }

    /// An event as it may be shown.
    pub fn event<'e>(self, event: &'e Event) -> Cow<'e, Event> {
        match self.0 {
            Some(plan) if is_told(&event.body) => {
                let mut shown = event.clone();
                hide(plan, &mut shown.body);
                Cow::Owned(shown)
            }
            _ => Cow::Borrowed(event),
        }
    }

    /// An error of a node as it may be shown.
    pub(crate) fn error<'e>(
        self,
        node: Option<&NodeId>,
        error: &'e NodeError,
    ) -> Cow<'e, NodeError> {
        match (self.0, node) {
            (Some(plan), Some(node)) if plan.hides_talk(node) => Cow::Owned(shortened(error)),
            _ => Cow::Borrowed(error),
        }
    }

    /// The values of variables as they may be shown.
    pub(crate) fn variables(self, values: &Value) -> Value {
        self.masked(values, Plan::hides_variable)
    }

    /// The values of channels as they may be shown.
    pub(crate) fn channels(self, values: &Value) -> Value {
        self.masked(values, Plan::hides_channel)
    }

    /// The outputs of a node as they may be shown.
    pub(crate) fn outputs(self, node: &PlanNode, values: &Value) -> Value {
        self.masked(values, |plan, port| plan.hides_port(node, port))
    }

    /// The outputs of a run as they may be shown: those of its last nodes, by node.
    pub fn run_outputs(self, outputs: &Map<String, Value>) -> Map<String, Value> {
        let mut shown = outputs.clone();
        if let Some(plan) = self.0 {
            hide_run_outputs(plan, &mut shown);
        }
        shown.values_mut().for_each(conceal);
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

/// Puts the mask where a sealed value stands: ciphertext is of no use to a reader.
pub(crate) fn conceal(value: &mut Value) {
    match value {
        Value::Object(fields) if fields.len() == 1 && fields.contains_key(SEALED) => {
            *value = MASK.into();
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                match name == SEALED {
                    true => *field = MASK.into(),
                    false => conceal(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(conceal),
        _ => {}
    }
}

/// Whether an event may tell a value that a workflow declares.
fn is_told(body: &RunEvent) -> bool {
    use RunEvent as E;
    !matches!(
        body,
        E::RunPaused { .. }
            | E::RunResumed { .. }
            | E::RunResuming { .. }
            | E::NodeSkipped { .. }
            | E::NodeCancelled { .. }
            | E::ProviderUsage { .. }
            | E::BudgetReserved { .. }
            | E::BudgetSettled { .. }
            | E::ArtifactCreated { .. }
    )
}

fn hide(plan: &Plan, body: &mut RunEvent) {
    use RunEvent as E;
    match body {
        E::RunStarted {
            inputs, variables, ..
        } => {
            mask(inputs, |name| plan.hides_variable(name));
            mask(variables, |name| plan.hides_variable(name));
        }
        E::RunCompleted { outputs, .. } => hide_run_outputs(plan, outputs),
        E::RunFailed {
            error,
            failed_node_id: Some(node),
            ..
        } if plan.hides_talk(node) => *error = shortened(error),
        E::RunStopping {
            ending:
                Ending::Failed {
                    error,
                    node_id: Some(node),
                },
        } if plan.hides_talk(node) => *error = shortened(error),
        E::NodeStarted {
            node_id,
            inputs: Some(inputs),
            ..
        } => {
            let node = node_of(plan, node_id);
            mask(inputs, |port| {
                node.map_or(plan.hides_all(), |node| plan.hides_input(node, port))
            });
        }
        E::NodeCompleted {
            node_id, outputs, ..
        } => {
            let node = node_of(plan, node_id);
            mask(outputs, |port| {
                node.map_or(plan.hides_all(), |node| plan.hides_port(node, port))
            });
        }
        E::NodeFailed { node_id, error, .. } if plan.hides_talk(node_id) => {
            *error = shortened(error);
        }
        E::NodeRetried {
            node_id,
            last_error,
            ..
        } if plan.hides_talk(node_id) => *last_error = shortened(last_error),
        E::ChildSettled {
            variables,
            outputs,
            error,
            ..
        } => {
            mask(variables, |name| plan.hides_of_child(name));
            if plan.hides_all() {
                mask(outputs, |_| true);
                *error = error.as_ref().map(shortened);
            }
        }
        E::ChannelWritten { channel, value, .. } if plan.hides_channel(channel) => cover(value),
        E::VariableChanged { name, next, .. } if plan.hides_variable(name) => cover(next),
        E::OutputChunk {
            node_id,
            chunk,
            meta,
            ..
        } if plan.hides_talk(node_id) => {
            if !chunk.is_empty() {
                *chunk = MASK.to_owned();
            }
            if let Some(Value::Object(meta)) = meta {
                // What says how much and by whom stays.
                meta.retain(|name, _| matches!(name.as_str(), "finishReason" | "model" | "usage"));
            }
        }
        E::ToolCalled(call) if plan.hides_talk(&call.node_id) => {
            if let Some(inputs) = &mut call.inputs {
                cover(inputs);
            }
        }
        E::ToolReturned(call) if plan.hides_talk(&call.node_id) => {
            if let Some(outcome) = &mut call.outcome {
                cover(outcome);
            }
            call.error = call.error.as_ref().map(shortened);
        }
        E::InterruptResolved {
            node_id,
            resume_value,
            ..
        } if plan.hides_talk(node_id) => hide_answer(resume_value),
        E::ApprovalReceived {
            node_id,
            edited_artifact_data: Some(edited),
            ..
        } if plan.hides_talk(node_id) => cover(edited),
        E::ApprovalAsked { node_id, vote, .. } if plan.hides_talk(node_id) => {
            if let Some(answer) = &mut vote.resume_value {
                hide_answer(answer);
            }
        }
        E::ClarificationResolved {
            node_id, answers, ..
        } if plan.hides_talk(node_id) => mask(answers, |_| true),
        E::SignalReceived { payload, .. } if plan.hides_all() => cover(payload),
        _ => {}
    }
}

/// What was answered; how it was decided stays.
fn hide_answer(answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            let stays = |name: &str| matches!(name, "action" | "decision");
            mask(fields, |name| !stays(name));
        }
        other => cover(other),
    }
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

/// An error without what its node had to say: the code, and the first line of the message.
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

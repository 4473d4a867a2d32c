//! Nodes without effects, computed again.
//!
//! A replay takes from its source what came from outside. What a node only computes is computed
//! again, as this build computes it: otherwise a replay could not tell that it has changed
//! (OpenWOP, replay: nodes that are not side-effecting re-execute).

use serde_json::{Map, Value};

use crate::definition::{NodeKind, PlanNode};
use crate::ids::{AttemptId, AttemptKey};
use crate::run::state::NodeStatus;
use crate::run::{Completion, Outcome, Run};
use crate::sealed::has_sealed;

/// Stands in a log where something was taken out.
const TAKEN_OUT: &str = "[REDACTED";

/// What an attempt of a node computes from.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// The node.
    pub node: &'a PlanNode,
    /// What its ports resolved to.
    pub inputs: &'a Map<String, Value>,
    /// The key of the attempt.
    pub key: AttemptKey,
}

/// Computes attempts again. Pure: the same of the same, and nothing outside is touched.
pub trait Recompute: Send + Sync {
    /// What an attempt comes to; `None` for a node that has effects, or is not known.
    fn outcome(&self, given: &Given<'_>) -> Option<Outcome>;
}

/// Computes nothing again: every outcome is as it was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsRecorded;

impl Recompute for AsRecorded {
    fn outcome(&self, _given: &Given<'_>) -> Option<Outcome> {
        None
    }
}

/// What an attempt in flight comes to, computed again. `None` also where the log does not have
/// everything that it was computed from: sealed values, and what was taken out.
pub(crate) fn outcome(run: &Run, attempt: &AttemptId, nodes: &dyn Recompute) -> Option<Outcome> {
    let ix = run.plan.node_ix(attempt.node.as_str())?;
    let node = run.plan.node(ix);
    let state = &run.facts()?.nodes[ix.index()];
    let is_it = matches!(state.status, NodeStatus::InFlight { attempt: n, .. } if n == attempt.attempt)
        && state.visit == attempt.visit;
    let inputs = state.inputs.as_ref().filter(|_| is_it)?;
    // What is declared sensitive is sealed anew each time, and never told in the clear.
    if node.kind != NodeKind::Work
        || node.declares_sensitive()
        || inputs
            .values()
            .any(|value| has_sealed(value) || is_cut(value))
    {
        return None;
    }
    let key = attempt.key(&run.header.key_origin());
    let outcome = nodes.outcome(&Given { node, inputs, key })?;
    // What is kept in a sensitive variable is sealed anew each time.
    let seals = |name: &String| run.plan.declares_variable_sensitive(name);
    let writes = |completion: &Completion| {
        let mut writes = completion.channel_writes.iter();
        writes.any(|write| run.plan.declares_channel_sensitive(&write.channel))
    };
    match &outcome {
        Outcome::Completed(completion)
            if completion.variables.keys().any(seals) || writes(completion) =>
        {
            None
        }
        Outcome::Completed(_) | Outcome::Failed { .. } => Some(outcome),
        Outcome::Waits { .. } | Outcome::Stopped => None,
    }
}

/// The outcome to decide by, where one was recorded.
pub(crate) fn instead_of(
    run: &Run,
    attempt: &AttemptId,
    recorded: &Outcome,
    nodes: &dyn Recompute,
) -> Option<Outcome> {
    let is_whole = match recorded {
        Outcome::Completed(completion) => {
            let values = completion
                .outputs
                .values()
                .chain(completion.variables.values());
            let written = completion.channel_writes.iter().map(|write| &write.value);
            !values
                .chain(written)
                .any(|value| has_sealed(value) || is_cut(value))
        }
        Outcome::Failed { error, .. } => !error.message.contains(TAKEN_OUT),
        Outcome::Waits { .. } | Outcome::Stopped => false,
    };
    is_whole.then(|| outcome(run, attempt, nodes))?
}

fn is_cut(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(TAKEN_OUT),
        Value::Array(items) => items.iter().any(is_cut),
        Value::Object(fields) => fields.values().any(is_cut),
        _ => false,
    }
}

//! Recomputation of nodes without effects.
//!
//! A replay takes observations from outside from its source. Nodes without effects are computed
//! again by the current build: otherwise a replay could not detect that they have changed (OpenWOP,
//! replay: nodes that are not side-effecting re-execute).

use serde_json::{Map, Value};

use crate::definition::{NodeIx, NodeKind, PlanNode};
use crate::ids::{AttemptId, AttemptKey};
use crate::run::state::NodeStatus;
use crate::run::{Completion, Outcome, Run};
use crate::sealed::has_sealed;

/// Marks a removed value in a log.
const TAKEN_OUT: &str = "[REDACTED";

/// The input of an attempt's computation.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// The node.
    pub node: &'a PlanNode,
    /// The resolved values of its ports.
    pub inputs: &'a Map<String, Value>,
    /// The key of the attempt.
    pub key: AttemptKey,
}

/// Computes attempts again. Pure: equal inputs give equal outcomes, without effects.
pub trait Recompute: Send + Sync {
    /// The outcome of an attempt; `None` for a node with effects or an unknown node.
    fn outcome(&self, given: &Given<'_>) -> Option<Outcome>;
}

/// Computes nothing: every recorded outcome is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsRecorded;

impl Recompute for AsRecorded {
    fn outcome(&self, _given: &Given<'_>) -> Option<Outcome> {
        None
    }
}

/// The recomputed outcome of an attempt in flight. `None` also if the log lacks some of its input:
/// sealed or removed values.
pub(crate) fn outcome(run: &Run, attempt: &AttemptId, nodes: &dyn Recompute) -> Option<Outcome> {
    let ix = run.plan.node_ix(attempt.node.as_str())?;
    let node = run.plan.node(ix);
    let state = &run.facts()?.nodes[ix.index()];
    let is_it = matches!(state.status, NodeStatus::InFlight { attempt: n, .. } if n == attempt.attempt)
        && state.visit == attempt.visit;
    let inputs = state.inputs.as_ref().filter(|_| is_it)?;
    // Sensitive values are sealed anew each time, so they cannot be compared.
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
    // Values of sensitive variables are sealed anew each time.
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

/// Whether a node that has not begun has effects outside: it cannot be computed.
pub(crate) fn has_effect(run: &Run, ix: NodeIx, nodes: &dyn Recompute) -> bool {
    let node = run.plan.node(ix);
    if node.kind != NodeKind::Work {
        return node.child().is_some();
    }
    let (visit, attempt) = (1, 1);
    let first = AttemptId {
        node: node.id.clone(),
        visit,
        attempt,
    };
    let key = first.key(&run.header.key_origin());
    let inputs = &Map::new();
    nodes.outcome(&Given { node, inputs, key }).is_none()
}

/// The outcome that replaces the recorded one in the decision.
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

/// Whether a value, or anything in it, was redacted in part.
pub fn is_cut(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(TAKEN_OUT),
        Value::Array(items) => items.iter().any(is_cut),
        Value::Object(fields) => fields.values().any(is_cut),
        _ => false,
    }
}

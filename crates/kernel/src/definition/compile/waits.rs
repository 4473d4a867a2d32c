//! Waits for people that are longer than the run's timeout.

use crate::control::Wait;
use crate::definition::plan::{NodeKind, OnFailure, Plan, PlanNode};
use crate::problem::{ProblemCode, Problems, quoted};

/// Warns of nodes whose wait for a person outlasts the run's own timeout.
pub(super) fn check(plan: &Plan, warnings: &mut Problems) {
    let Some(limit) = plan.settings.timeout_ms else {
        return;
    };
    let waiting = plan.nodes.iter().filter(|node| !node.disabled);
    for node in waiting {
        let control = node.kind.control();
        let how_long = match control.and_then(|control| control.wait(&node.config)) {
            Some(Wait::AtMost(ms)) if ms <= limit => continue,
            Some(Wait::AtMost(ms)) => format!("which it does up to {ms} ms"),
            Some(Wait::Unlimited) => "which it does without limit".to_owned(),
            None if asks(node) => {
                "because `onFailure: ask` waits for an answer without a time limit".to_owned()
            }
            None => continue,
        };
        let message = format!(
            "the run fails after {limit} ms, also while node {} waits for an answer, {how_long}; \
             use `workTimeout` to bound only the working time of the run, or a longer `timeout`",
            quoted(node.id.as_str())
        );
        warnings.add("/settings/timeout", ProblemCode::InvalidValue, message);
    }
}

/// Whether a failure of a node is decided by a person.
fn asks(node: &PlanNode) -> bool {
    node.kind == NodeKind::Work && node.on_failure == OnFailure::Ask
}

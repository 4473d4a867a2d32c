//! The comparison of two runs: a v1 `RunDiffResponse` as v2 shows it.

use kernel::stream::Owner;
use serde_json::{Map, Value, json};

use super::configurable::nested;
use super::event::project_event;
use super::id::bind;
use super::payload::{bind_fields, codes, project_error};

/// The members of a difference with the value of each run.
const SIDES: [&str; 2] = ["a", "b"];

/// A v1 comparison of runs of two owners.
pub fn project_diff(owners: [&Owner; 2], mut diff: Value) -> Value {
    for (side, owner) in SIDES.iter().zip(owners) {
        if let Some(Value::String(id)) = diff.get_mut(side) {
            *id = bind(&owner.tenant, &id);
        }
    }
    let listed = diff.get_mut("eventDiffs").and_then(Value::as_array_mut);
    for one in listed.into_iter().flatten() {
        for (side, owner) in ["aEvent", "bEvent"].iter().zip(owners) {
            if let Some(event) = one.get_mut(side) {
                *event = project_event(owner, event.take());
            }
        }
    }
    if let Some(Value::Object(states)) = diff.get_mut("stateDiff") {
        project_states(owners, states);
    }
    diff
}

fn project_states(owners: [&Owner; 2], states: &mut Map<String, Value>) {
    for side in SIDES {
        if let Some(error) = states.get_mut("error").and_then(|it| it.get_mut(side)) {
            project_error(error);
        }
        let settings = states.get_mut("configurable");
        if let Some(settings) = settings.and_then(|it| it.get_mut(side))
            && let Some(flat) = settings.as_object()
        {
            *settings = json!(nested(flat));
        }
    }
    let nodes = states.get_mut("nodeStates").and_then(Value::as_object_mut);
    for node in nodes.into_iter().flat_map(|nodes| nodes.values_mut()) {
        for (side, owner) in SIDES.iter().zip(owners) {
            if let Some(Value::Object(state)) = node.get_mut(side) {
                bind_fields(owner, state);
                codes(state);
            }
        }
    }
}

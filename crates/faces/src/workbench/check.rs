//! The invariants of every document.

use std::collections::{BTreeMap, BTreeSet};

use kernel::document::{Body, Entries};
use serde_json::{Map, Value};

use super::{Bad, bad};

const STATE: &str = "INVALID_RUN_STATE";
const WORKFLOW: &str = "INVALID_WORKFLOW";
const EVENT: &str = "INVALID_TRACE_EVENT";

/// Checks the shapes that the API's description gives the eight members; a member may be absent.
pub(super) fn shape(value: &Value) -> Result<(), Bad> {
    let Value::Object(members) = value else {
        return bad(STATE, "the body must be a serialized run state: an object");
    };
    if !members.get("run").is_some_and(Value::is_object) {
        return bad(STATE, "the run state has no run object");
    }
    if members
        .get("revision")
        .is_some_and(|revision| revision.as_u64().is_none())
    {
        return bad(STATE, "revision must be a whole number, 0 or more");
    }
    if members.get("trace").is_some_and(|trace| !trace.is_array()) {
        return bad(STATE, "trace must be an array");
    }
    for name in [
        "artifactsByKey",
        "ruleSetsById",
        "stepStatus",
        "gateState",
        "idempotency",
    ] {
        let is_pair = |pair: &Value| {
            pair.as_array()
                .is_some_and(|pair| pair.len() == 2 && pair[0].is_string())
        };
        match members.get(name) {
            None => {}
            Some(Value::Array(pairs)) if pairs.iter().all(is_pair) => {}
            Some(_) => {
                return bad(STATE, "maps must be arrays of pairs of a key and a value");
            }
        }
    }
    Ok(())
}

/// The client's checks at save and load, and the values that the API's description names. `known`
/// passed these checks and has the first of the events.
pub(super) fn invariants(body: &Body, known: Option<&Body>) -> Result<(), Bad> {
    let run = &body.derived.run;
    if body.id().is_empty() {
        return bad(STATE, "the run state is missing run.id");
    }
    let Some(Value::Object(workflow)) = run.get("workflowSnapshot") else {
        return bad(WORKFLOW, "the run has no workflowSnapshot");
    };
    let steps = steps(workflow)?;
    edges(workflow, &steps)?;
    if run.get("workflowId").is_none() || run.get("workflowId") != workflow.get("id") {
        return bad(
            STATE,
            "run.workflowId is not the id of the workflow snapshot",
        );
    }
    if run.get("workflowVersion") != workflow.get("version") {
        return bad(
            STATE,
            "run.workflowVersion is not the version of the workflow snapshot",
        );
    }
    of_steps(&body.derived.steps, &steps)?;
    of_steps(&body.derived.gates, &steps)?;
    let statuses = ["pending", "running", "completed", "failed"];
    let is_status = |value: &Value| value.as_str().is_some_and(|text| statuses.contains(&text));
    if !body.derived.steps.iter().all(|(_, value)| is_status(value)) {
        return bad(
            STATE,
            "a step must be pending, running, completed or failed",
        );
    }
    if !body
        .derived
        .gates
        .iter()
        .all(|(_, value)| value.is_object())
    {
        return bad(STATE, "the gates of a step must be an object");
    }
    // Previously checked events are still valid if the run and its steps are unchanged.
    let known = known.filter(|known| {
        let workflow = known.derived.run.get("workflowSnapshot");
        known.id() == body.id() && workflow == run.get("workflowSnapshot")
    });
    for event in &body.trace[known.map_or(0, |known| known.trace.len())..] {
        trace_event(event, body.id(), &steps)?;
    }
    keyed(
        &body.derived.artifacts,
        "artifactKey",
        "an artifact's key is not its artifactKey",
    )?;
    keyed(&body.derived.rules, "id", "a rule set's key is not its id")?;
    let is_version = |value: &Value| {
        value["artifactKey"].is_string() && value["version"].as_u64().is_some_and(|it| it >= 1)
    };
    match body
        .derived
        .idempotency
        .iter()
        .all(|(_, value)| is_version(value))
    {
        true => Ok(()),
        false => bad(
            STATE,
            "an idempotency key must have an artifactKey and a version from 1",
        ),
    }
}

fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let text = object.get(name)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

fn steps(workflow: &Map<String, Value>) -> Result<BTreeSet<&str>, Bad> {
    let Some(Value::Array(listed)) = workflow.get("steps") else {
        return bad(WORKFLOW, "the workflow has no list of steps");
    };
    let mut steps = BTreeSet::new();
    for step in listed {
        let Some(id) = step.as_object().and_then(|step| member(step, "id")) else {
            return bad(WORKFLOW, "a step of the workflow has no id");
        };
        if !steps.insert(id) {
            return bad(WORKFLOW, "two steps of the workflow have the same id");
        }
    }
    Ok(steps)
}

fn edges<'a>(workflow: &'a Map<String, Value>, steps: &BTreeSet<&'a str>) -> Result<(), Bad> {
    let Some(Value::Array(listed)) = workflow.get("edges") else {
        return bad(WORKFLOW, "the workflow has no list of edges");
    };
    let mut ids = BTreeSet::new();
    let mut following: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut before: BTreeMap<&str, usize> = steps.iter().map(|step| (*step, 0)).collect();
    for edge in listed {
        let edge = edge.as_object();
        let part = |name| edge.and_then(|edge| member(edge, name));
        let (Some(id), Some(from), Some(to)) = (part("id"), part("from"), part("to")) else {
            return bad(WORKFLOW, "an edge of the workflow lacks id, from or to");
        };
        if !ids.insert(id) {
            return bad(WORKFLOW, "two edges of the workflow have the same id");
        }
        if from == to {
            return bad(WORKFLOW, "an edge leads from a step to itself");
        }
        if !steps.contains(from) {
            return bad(WORKFLOW, "an edge starts at a step that does not exist");
        }
        match before.get_mut(to) {
            Some(count) => *count += 1,
            None => return bad(WORKFLOW, "an edge leads to a step that does not exist"),
        }
        following.entry(from).or_default().push(to);
    }
    // Remove steps without predecessors until none is left, or a cycle remains.
    let mut free: Vec<&str> = before
        .iter()
        .filter(|(_, n)| **n == 0)
        .map(|(it, _)| *it)
        .collect();
    let mut taken = 0;
    while let Some(step) = free.pop() {
        taken += 1;
        for next in following.get(step).into_iter().flatten() {
            if let Some(count) = before.get_mut(next) {
                *count -= 1;
                if *count == 0 {
                    free.push(next);
                }
            }
        }
    }
    if taken == steps.len() {
        Ok(())
    } else {
        bad(WORKFLOW, "the edges of the workflow form a cycle")
    }
}

fn of_steps(entries: &Entries, steps: &BTreeSet<&str>) -> Result<(), Bad> {
    if !entries.iter().all(|(step, _)| steps.contains(step)) {
        return bad(
            STATE,
            "the run state has a step that the workflow does not have",
        );
    }
    if entries.len() == steps.len() {
        Ok(())
    } else {
        bad(
            STATE,
            "the run state lacks the status or the gates of a step",
        )
    }
}

fn trace_event(event: &Value, run: &str, steps: &BTreeSet<&str>) -> Result<(), Bad> {
    let Value::Object(event) = event else {
        return bad(EVENT, "an event of the trace is not an object");
    };
    let has = |name| member(event, name).is_some();
    if !(has("id") && has("type") && has("ts")) {
        return bad(EVENT, "an event of the trace lacks id, type or ts");
    }
    if member(event, "runId") != Some(run) {
        return bad(STATE, "an event of the trace belongs to another run");
    }
    match event.get("stepId") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(step)) if step.is_empty() || steps.contains(step.as_str()) => Ok(()),
        Some(_) => bad(
            STATE,
            "an event of the trace names a step that the workflow does not have",
        ),
    }
}

fn keyed(entries: &Entries, name: &str, otherwise: &'static str) -> Result<(), Bad> {
    let fits = |(key, value): (&str, &Value)| value.get(name).and_then(Value::as_str) == Some(key);
    if entries.iter().all(fits) {
        Ok(())
    } else {
        bad(STATE, otherwise)
    }
}

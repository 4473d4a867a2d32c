//! Gates of a document that wait for a person.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::body::{Body, text};
use super::view::clip;
use crate::time::Timestamp;

/// A waiting gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingGate {
    /// The step.
    pub step_id: String,
    /// `PAUSE_BEFORE`, `PAUSE_AFTER` or `CHECKPOINT`.
    pub gate: String,
    /// The checkpoint of the step, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The reason for the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the client asked, in its own format, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<String>,
}

crate::words! {
    /// A decision on a gate.
    pub enum GateDecision {
        /// Continue.
        Approved = "approved",
        /// Rejected; the gate keeps waiting.
        Rejected = "rejected",
        /// Continue with the changes.
        Edited = "edited",
    }
}

impl Body {
    /// The gates that wait for a person: those that the client asked about, and those of steps that
    /// only their gate keeps from starting.
    pub fn pending_gates(&self) -> Vec<PendingGate> {
        if text(&self.derived.run, "status") != "running" {
            return Vec::new();
        }
        let steps = self
            .derived
            .run
            .get("workflowSnapshot")
            .and_then(|it| it.get("steps"));
        let steps = steps.and_then(Value::as_array).map(Vec::as_slice);
        let mut pending = Vec::new();
        for step in steps.unwrap_or_default() {
            let Some(id) = step["id"].as_str() else {
                continue;
            };
            let Some(Value::Object(state)) = self.derived.gates.get(id) else {
                continue;
            };
            if text(state, "before") == "pending" {
                let is_checkpoint = step["gatePolicy"] == "CHECKPOINT";
                let gate = if is_checkpoint {
                    "CHECKPOINT"
                } else {
                    "PAUSE_BEFORE"
                };
                let gate = self.waiting(id, gate, None);
                if gate.requested_at.is_some() || self.is_ready(id) {
                    pending.push(gate);
                }
            }
            if text(state, "after") == "pending" {
                pending.push(self.waiting(id, "PAUSE_AFTER", None));
            }
            let checkpoints = state.get("checkpoints").and_then(Value::as_object);
            for (name, status) in checkpoints.into_iter().flatten() {
                if status == "pending" {
                    pending.push(self.waiting(id, "CHECKPOINT", Some(name)));
                }
            }
        }
        pending
    }

    /// Whether a step waits only for its gate.
    fn is_ready(&self, step: &str) -> bool {
        let edges = self
            .derived
            .run
            .get("workflowSnapshot")
            .and_then(|it| it.get("edges"));
        let edges = edges.and_then(Value::as_array).map(Vec::as_slice);
        let mut before = edges
            .unwrap_or_default()
            .iter()
            .filter(|edge| edge["to"] == step);
        self.derived.steps.get(step) == Some(&json!("pending"))
            && before.all(|edge| {
                let from = edge["from"].as_str().unwrap_or_default();
                let gate = self.derived.gates.get(from);
                self.derived.steps.get(from) == Some(&json!("completed"))
                    && gate.is_none_or(|gate| gate["after"] != "pending")
            })
    }

    fn waiting(&self, step: &str, gate: &str, checkpoint: Option<&str>) -> PendingGate {
        let is_asked = |event: &&Value| {
            event["type"] == "human_gate_requested"
                && event["stepId"] == step
                && (event["gate"] == gate
                    || (gate == "CHECKPOINT" && event["gate"] == "PAUSE_BEFORE"))
        };
        let asked = self.trace.iter().map(|event| &**event).rev().find(is_asked);
        let member = |name: &str| {
            let text = asked.and_then(|event| event[name].as_str());
            text.map(|text| clip(text).to_owned())
        };
        PendingGate {
            step_id: clip(step).to_owned(),
            gate: gate.to_owned(),
            checkpoint: checkpoint.map(|name| clip(name).to_owned()),
            reason: member("reason"),
            requested_at: member("ts"),
        }
    }

    /// Whether a gate waits, on the client's question or without one.
    pub(super) fn is_pending(&self, step: &str, gate: &str, checkpoint: Option<&str>) -> bool {
        let Some(Value::Object(state)) = self.derived.gates.get(step) else {
            return false;
        };
        match (gate, checkpoint) {
            ("PAUSE_AFTER", _) => text(state, "after") == "pending",
            ("CHECKPOINT", Some(name)) => {
                // An undecided checkpoint need not be recorded yet.
                state
                    .get("checkpoints")
                    .is_none_or(|all| all[name] != "approved")
            }
            _ => text(state, "before") == "pending",
        }
    }
}

/// The event of a decision, in the client's form.
pub(super) fn decision_event(
    id: String,
    body: &Body,
    at: Timestamp,
    step: &str,
    gate: &str,
    decision: GateDecision,
    note: Option<&str>,
) -> Value {
    let mut event = Map::new();
    let members = [
        ("id", id.as_str()),
        ("type", "human_gate_resolved"),
        ("runId", body.id()),
        ("ts", &at.to_string()),
        ("stepId", step),
        ("gate", gate),
        ("decision", decision.as_str()),
    ];
    for (name, value) in members {
        event.insert(name.to_owned(), json!(value));
    }
    if let Some(note) = note {
        event.insert("note".to_owned(), json!(note));
    }
    Value::Object(event)
}

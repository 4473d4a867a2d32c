//! A workbench document, and the values derived from its trace.
//!
//! A document is mostly redundant: the trace contains each event, and the other members contain the
//! result of all events. Here the result is computed from the trace, so that a save need only keep
//! the new events. Where the two differ, for instance because a client made a change without an
//! event, the difference is a [`Residual`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::entries::{Delta, Entries};
use crate::json;
use crate::limits::MAX_DOCUMENT_DEPTH;

/// A document with its eight members. A copy shares the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// The client's own count, one more per event.
    pub revision: u64,
    /// The events.
    pub trace: Vec<Arc<Value>>,
    /// Their result.
    pub derived: Derived,
}

/// The members that are derived from the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived {
    /// The run.
    pub run: Map<String, Value>,
    /// The latest version of each artifact, by key.
    pub artifacts: Entries,
    /// Rule sets by id.
    pub rules: Entries,
    /// Status by step.
    pub steps: Entries,
    /// Gates by step.
    pub gates: Entries,
    /// Artifact versions by idempotency key.
    pub idempotency: Entries,
}

/// The parts of a document that do not follow from its trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Residual {
    /// Members of the run.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub run: Map<String, Value>,
    /// Members the run does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_without: Vec<String>,
    /// Artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Delta>,
    /// Rule sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Delta>,
    /// Statuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Delta>,
    /// Gates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates: Option<Delta>,
    /// Idempotency keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Delta>,
}

impl Residual {
    /// Whether everything follows from the trace.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Body {
    /// The client's id of the run.
    pub fn id(&self) -> &str {
        text(&self.derived.run, "id")
    }

    /// Parses a document's text. `None` for anything else.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut value = json::from_slice(bytes).ok()?;
        json::as_doubles(&mut value);
        Self::from_value(value)
    }

    /// Whether both have the same content.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_alike = |(ours, theirs)| Arc::ptr_eq(ours, theirs) || ours == theirs;
        self.revision == other.revision
            && self.trace.len() == other.trace.len()
            && self.derived == other.derived
            && self.trace.iter().zip(&other.trace).all(is_alike)
    }

    /// A document from its members. An absent revision is 0, an absent map or trace is empty.
    /// `None` if a member has another shape.
    pub fn from_value(value: Value) -> Option<Self> {
        let Value::Object(mut members) = value else {
            return None;
        };
        let Some(Value::Object(run)) = members.remove("run") else {
            return None;
        };
        let revision = match members.remove("revision") {
            None => 0,
            Some(revision) => revision.as_u64()?,
        };
        let trace = match members.remove("trace") {
            None => Vec::new(),
            Some(Value::Array(trace)) => trace.into_iter().map(Arc::new).collect(),
            Some(_) => return None,
        };
        let mut entries = |name: &str| match members.remove(name) {
            None => Some(Entries::default()),
            Some(Value::Array(pairs)) => pairs.into_iter().map(pair).collect(),
            Some(_) => None,
        };
        Some(Self {
            revision,
            trace,
            derived: Derived {
                run,
                artifacts: entries("artifactsByKey")?,
                rules: entries("ruleSetsById")?,
                steps: entries("stepStatus")?,
                gates: entries("gateState")?,
                idempotency: entries("idempotency")?,
            },
        })
    }

    /// Number of equal events at the beginning of both traces.
    pub fn common_prefix(&self, other: &Self) -> usize {
        let pairs = self.trace.iter().zip(&other.trace);
        pairs
            .take_while(|(ours, theirs)| Arc::ptr_eq(ours, theirs) || ours == theirs)
            .count()
    }
}

fn pair(value: Value) -> Option<(String, Value)> {
    let Value::Array(pair) = value else {
        return None;
    };
    let [Value::String(key), value] = <[Value; 2]>::try_from(pair).ok()? else {
        return None;
    };
    Some((key, value))
}

/// A text member; empty for other types.
pub(super) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Derived {
    /// A run that has just been opened: its end is derived from the trace.
    pub fn opened(mut run: Map<String, Value>) -> Self {
        run.remove("endedAt");
        run.insert("status".into(), json!("running"));
        let steps = run.get("workflowSnapshot").and_then(|w| w.get("steps"));
        let steps = steps.and_then(Value::as_array).cloned().unwrap_or_default();
        let mut derived = Self {
            run,
            ..Self::default()
        };
        for step in &steps {
            let Some(id) = step.get("id").and_then(Value::as_str) else {
                continue;
            };
            let policy = step.get("gatePolicy").and_then(Value::as_str);
            let before = match policy {
                Some("PAUSE_BEFORE" | "CHECKPOINT") => "pending",
                _ => "approved",
            };
            derived.steps.set(id.to_owned(), json!("pending"));
            let gate = json!({ "before": before, "after": "approved", "checkpoints": {} });
            derived.gates.set(id.to_owned(), gate);
        }
        derived
    }

    fn policy(&self, step: &str) -> Option<&str> {
        let steps = self.run.get("workflowSnapshot")?.get("steps")?.as_array()?;
        let step = steps.iter().find(|found| found["id"] == step)?;
        step.get("gatePolicy")?.as_str()
    }

    fn set_gate(&mut self, step: &str, slot: &str, status: &str) {
        if let Some(Value::Object(gate)) = self.gates.get_mut(step) {
            gate.insert(slot.to_owned(), json!(status));
        }
    }

    /// Folds an event of the trace.
    pub fn fold(&mut self, event: &Value) {
        let Value::Object(event) = event else { return };
        let step = text(event, "stepId");
        match text(event, "type") {
            "step_started" => self.set_step(step, "running"),
            "step_completed" => match event.get("ok") {
                Some(Value::Bool(true)) => self.set_step(step, "completed"),
                _ => self.set_step(step, "failed"),
            },
            "human_gate_requested" => {
                let is_after = text(event, "gate") == "PAUSE_AFTER"
                    && self.steps.get(step) == Some(&json!("running"))
                    && matches!(self.policy(step), Some("PAUSE_AFTER" | "CHECKPOINT"));
                if is_after {
                    self.set_gate(step, "after", "pending");
                }
            }
            "human_gate_resolved" => self.fold_decision(event, step),
            "artifact_written" => {
                if let Some(artifact) = event.get("artifact").filter(|it| it.is_object()) {
                    let (key, artifact) = (artifact["artifactKey"].as_str(), artifact.clone());
                    let key = key.unwrap_or_default().to_owned();
                    self.remember(event, &key, artifact["version"].clone());
                    self.artifacts.set(key, artifact);
                }
            }
            "artifact_patch" => self.fold_patch(event),
            "rule_changed" => {
                if let Some(rules) = event.get("snapshot") {
                    let id = text(event, "ruleSetId").to_owned();
                    self.rules.set(id, rules.clone());
                }
            }
            "run_status_changed" => {
                let copied = [
                    ("status", event.get("status")),
                    ("endedAt", event.get("ts")),
                ];
                for (name, value) in copied {
                    if let Some(value) = value {
                        self.run.insert(name.to_owned(), value.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn set_step(&mut self, step: &str, status: &str) {
        if let Some(known) = self.steps.get_mut(step) {
            *known = json!(status);
        }
    }

    fn fold_decision(&mut self, event: &Map<String, Value>, step: &str) {
        let status = match text(event, "decision") {
            "rejected" => "pending",
            _ => "approved",
        };
        match (text(event, "gate"), text(event, "note")) {
            ("PAUSE_BEFORE", _) => self.set_gate(step, "before", status),
            ("PAUSE_AFTER", _) => self.set_gate(step, "after", status),
            ("CHECKPOINT", "") if status == "approved" => self.set_gate(step, "before", status),
            ("CHECKPOINT", "") => {}
            ("CHECKPOINT", note) => {
                if let Some(Value::Object(gate)) = self.gates.get_mut(step) {
                    let checkpoints = gate.entry("checkpoints").or_insert_with(|| json!({}));
                    if let Value::Object(checkpoints) = checkpoints {
                        checkpoints.insert(note.to_owned(), json!(status));
                    }
                }
            }
            _ => {}
        }
    }

    fn remember(&mut self, event: &Map<String, Value>, key: &str, version: Value) {
        if let Some(Value::String(name)) = event.get("idempotencyKey") {
            let target = json!({ "artifactKey": key, "version": version });
            self.idempotency.set(name.clone(), target);
        }
    }

    fn fold_patch(&mut self, event: &Map<String, Value>) {
        let key = text(event, "artifactKey");
        let patch = event.get("patch").cloned().unwrap_or_default();
        // Copy operations can double a value each time; the resulting value is kept instead.
        let operations = patch.as_array().map(Vec::as_slice).unwrap_or_default();
        if operations.iter().any(|operation| operation["op"] == "copy") {
            return;
        }
        let patch: Option<json_patch::Patch> = serde_json::from_value(patch).ok();
        let (Some(artifact), Some(patch)) = (self.artifacts.get(key), patch) else {
            return;
        };
        let mut data = artifact.get("data").cloned().unwrap_or_else(|| json!({}));
        // A patch that does not fit leaves the difference to the residual.
        let is_done = json_patch::patch(&mut data, &patch).is_ok();
        if !is_done || json::depth(&data) > MAX_DOCUMENT_DEPTH {
            return;
        }
        let mut artifact = artifact.clone();
        let version = event.get("toVersion").cloned().unwrap_or_default();
        artifact["data"] = data;
        artifact["version"] = version.clone();
        artifact["createdAt"] = event.get("ts").cloned().unwrap_or_default();
        let key = key.to_owned();
        self.remember(event, &key, version);
        self.artifacts.set(key, artifact);
    }

    /// The parts of `target` that differ from this.
    pub fn residual(&self, target: &Self) -> Residual {
        let changed = target.run.iter();
        let changed = changed.filter(|(name, value)| self.run.get(*name) != Some(value));
        let gone = self
            .run
            .keys()
            .filter(|name| !target.run.contains_key(*name));
        Residual {
            run: changed
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            run_without: gone.cloned().collect(),
            artifacts: self.artifacts.delta(&target.artifacts),
            rules: self.rules.delta(&target.rules),
            steps: self.steps.delta(&target.steps),
            gates: self.gates.delta(&target.gates),
            idempotency: self.idempotency.delta(&target.idempotency),
        }
    }

    /// Adds a residual.
    pub fn apply(&mut self, residual: Residual) {
        self.run.extend(residual.run);
        self.run
            .retain(|name, _| !residual.run_without.contains(name));
        let maps = [
            (&mut self.artifacts, residual.artifacts),
            (&mut self.rules, residual.rules),
            (&mut self.steps, residual.steps),
            (&mut self.gates, residual.gates),
            (&mut self.idempotency, residual.idempotency),
        ];
        for (entries, delta) in maps {
            if let Some(delta) = delta {
                entries.apply(delta);
            }
        }
    }
}

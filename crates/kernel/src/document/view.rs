//! The implied run of a document, as the events of a run.
//!
//! The browser is the executor; its saves are translated to OpenWOP's terms up to the first end of
//! the run. After it the view does not change, because an ended run accepts nothing, while the
//! document may still be saved.

use crate::run::RunStatus;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Document;
use super::body::{Body, Derived, text};
use crate::digest::Digest;
use crate::ids::{InterruptId, NodeId, Seq, StreamId, WorkflowId};
use crate::json;
use crate::limits;
use crate::run::event::{Artifact, Usage};
use crate::run::{InterruptKind, NodeError, RunEvent};
use crate::time::Timestamp;

/// The version of the rules for the events of a view. They are rules of documents, which later
/// versions of the engine did not change.
const RULES: u32 = 2;

/// The type of a node that is a step of a document.
pub const STEP_TYPE: &str = "runwright.workbench.step";

/// The progress of the view.
#[derive(Clone, Debug, Default)]
pub struct View {
    started_at: Option<Timestamp>,
    /// The status it ended with.
    ended: Option<RunStatus>,
    visits: BTreeMap<NodeId, Visits>,
    open: BTreeMap<(NodeId, String), InterruptId>,
    asked: u32,
    events: Vec<Arc<(Seq, Timestamp, RunEvent)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Visits {
    next: u32,
    running: Option<Timestamp>,
}

impl View {
    /// Its events: sequence, time, event.
    pub fn events(&self) -> &[Arc<(Seq, Timestamp, RunEvent)>] {
        &self.events
    }

    /// The artifacts of its events, each with its step.
    pub fn artifacts(&self) -> impl Iterator<Item = (NodeId, Artifact)> {
        self.events.iter().filter_map(|event| match &event.2 {
            RunEvent::ArtifactCreated { artifact, node_id } => {
                Some((node_id.clone(), artifact.clone()))
            }
            _ => None,
        })
    }

    /// The gate of an open question: its step, and the gate's name.
    pub fn asked(&self, interrupt: &InterruptId) -> Option<(&NodeId, &str)> {
        let mut open = self.open.iter();
        open.find(|(_, id)| *id == interrupt)
            .map(|((step, gate), _)| (step, gate.as_str()))
    }

    /// The ids of the open questions of a running run.
    pub fn open(&self) -> impl Iterator<Item = &InterruptId> {
        let is_open = self.ended.is_none();
        self.open.values().filter(move |_| is_open)
    }

    /// The open questions of a step: the gate's name and the question's id.
    pub fn questions<'a>(
        &'a self,
        step: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a InterruptId)> {
        let open = self.open.iter();
        open.filter(move |((asked, _), _)| asked.as_str() == step)
            .map(|((_, gate), id)| (gate.as_str(), id))
    }

    /// Whether the run has ended for clients that read it as a run.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The status in the terms of a run.
    pub fn status(&self) -> RunStatus {
        match self.ended {
            Some(ended) => ended,
            None if self.open.is_empty() => RunStatus::Running,
            None => RunStatus::WaitingApproval,
        }
    }

    /// Folds an event of the view.
    pub(super) fn fold(&mut self, folded: Arc<(Seq, Timestamp, RunEvent)>) {
        let (_, at, event) = &*folded;
        match event {
            RunEvent::RunStarted { .. } => self.started_at = Some(*at),
            RunEvent::NodeStarted { node_id, visit, .. } => {
                let visits = self.visits.entry(node_id.clone()).or_default();
                visits.next = visit + 1;
                visits.running = Some(*at);
            }
            RunEvent::NodeCompleted { node_id, .. } | RunEvent::NodeFailed { node_id, .. } => {
                if let Some(visits) = self.visits.get_mut(node_id) {
                    visits.running = None;
                }
            }
            RunEvent::InterruptRequested {
                interrupt_id,
                node_id,
                key,
                ..
            } => {
                self.asked += 1;
                let gate = (node_id.clone(), key.clone());
                self.open.insert(gate, interrupt_id.clone());
            }
            RunEvent::InterruptResolved { interrupt_id, .. } => {
                self.open.retain(|_, open| open != interrupt_id);
            }
            RunEvent::RunCompleted { .. } => self.ended = Some(RunStatus::Completed),
            RunEvent::RunFailed { .. } => self.ended = Some(RunStatus::Failed),
            RunEvent::RunCancelled { .. } => self.ended = Some(RunStatus::Cancelled),
            _ => {}
        }
        self.events.push(folded);
    }
}

/// The implied events of a save, under construction.
pub(super) struct Implying<'a> {
    pub(super) view: &'a mut View,
    pub(super) stream: &'a StreamId,
    pub(super) next: Seq,
    pub(super) at: Timestamp,
    /// The person who decided here, for a decision made here.
    pub(super) by: Option<&'a str>,
    pub(super) made: Vec<RunEvent>,
}

impl Implying<'_> {
    fn emit(&mut self, event: RunEvent) {
        if self.view.has_ended() || self.made.len() >= limits::MAX_IMPLIED {
            return;
        }
        self.view
            .fold(Arc::new((self.next, self.at, event.clone())));
        self.next += 1;
        self.made.push(event);
    }

    /// The run begins.
    pub(super) fn begin(&mut self, derived: &Derived) {
        let run = &derived.run;
        let tags = tags(run);
        let metadata = match run.get("metadata") {
            Some(Value::Object(metadata))
                if json::canonical(metadata).len() <= limits::MAX_METADATA_BYTES =>
            {
                metadata.clone()
            }
            _ => Map::new(),
        };
        self.emit(RunEvent::RunStarted {
            workflow_id: WorkflowId::new(clip(text(run, "workflowId"))),
            inputs: Map::new(),
            variables: Map::new(),
            transport: "rest".into(),
            engine_version: RULES,
            tags,
            metadata,
            configurable: Map::new(),
        });
    }

    /// Follows the trace, and the end of the run in the document.
    pub(super) fn follow(&mut self, trace: &[Arc<Value>], body: &Body) {
        for event in trace {
            if let Value::Object(event) = &**event {
                self.event(event, body);
            }
        }
        let status = text(&body.derived.run, "status");
        self.end(status, None, body);
    }

    fn event(&mut self, event: &Map<String, Value>, body: &Body) {
        let step = NodeId::new(clip(text(event, "stepId")));
        match text(event, "type") {
            "step_started" => {
                let visit = self.view.visits.get(&step).map_or(0, |visits| visits.next);
                self.emit(RunEvent::NodeStarted {
                    node_id: step,
                    type_id: STEP_TYPE.into(),
                    visit,
                    attempt: 0,
                    inputs: Some(Map::new()),
                    due_at: None,
                    timeout_at: None,
                });
            }
            "step_completed" => self.step_over(event, step),
            "human_gate_requested" => self.ask(event, step),
            "human_gate_resolved" => self.answer(event, step),
            "artifact_written" => {
                if let Some(artifact) = event.get("artifact") {
                    self.artifact(artifact, self.at_work(step));
                }
            }
            "model_io" => self.usage(event, self.at_work(step)),
            "run_status_changed" => {
                let reason = text(event, "reason");
                let reason = (!reason.is_empty()).then(|| clip(reason).to_owned());
                self.end(text(event, "status"), reason, body);
            }
            _ => {}
        }
    }

    /// The step of an event: if it names none, the only running one.
    fn at_work(&self, step: NodeId) -> NodeId {
        let running =
            |(id, visits): (&NodeId, &Visits)| visits.running.is_some().then(|| id.clone());
        let mut running = self.view.visits.iter().filter_map(running);
        match (running.next(), running.next()) {
            (Some(only), None) if step.as_str().is_empty() => only,
            _ => step,
        }
    }

    fn step_over(&mut self, event: &Map<String, Value>, step: NodeId) {
        let visits = self.view.visits.get(&step).copied().unwrap_or_default();
        let Some(began) = visits.running else {
            return;
        };
        let visit = visits.next.saturating_sub(1);
        if event.get("ok") == Some(&Value::Bool(true)) {
            return self.emit(RunEvent::NodeCompleted {
                node_id: step,
                visit,
                attempt: 0,
                outputs: Map::new(),
                port: None,
                declined_edges: Vec::new(),
                duration_ms: self.at.ms_since(began),
            });
        }
        let error = event.get("error").and_then(Value::as_object);
        self.emit(RunEvent::NodeFailed {
            node_id: step,
            visit,
            error: failure(error, "the step failed"),
            attempts: 1,
            declined_edges: Vec::new(),
        });
    }

    fn ask(&mut self, event: &Map<String, Value>, step: NodeId) {
        let gate = clip(text(event, "gate")).to_owned();
        if self.view.open.contains_key(&(step.clone(), gate.clone())) {
            return;
        }
        let reason = clip(text(event, "reason"));
        let title = match reason {
            "" => format!("Review {step}"),
            reason => reason.to_owned(),
        };
        let id = format!("{}\0{step}\0{gate}\0{}", self.stream, self.view.asked);
        let id = Digest::compute(id.as_bytes()).to_string();
        self.emit(RunEvent::InterruptRequested {
            interrupt_id: InterruptId::new(format!("interrupt-{}", &id[..32])),
            node_id: step,
            visit: 0,
            kind: InterruptKind::Approval,
            key: gate.clone(),
            asked_before: 0,
            data: json!({ "title": title, "gate": gate, "actions": ["accept", "reject"] }),
            resume_schema: None,
            timeout_at: None,
        });
    }

    fn answer(&mut self, event: &Map<String, Value>, step: NodeId) {
        let gate = clip(text(event, "gate")).to_owned();
        let Some(open) = self.view.open.get(&(step.clone(), gate)).cloned() else {
            return;
        };
        let action = match text(event, "decision") {
            "rejected" => "reject",
            "edited" => "edit-accept",
            _ => "accept",
        };
        self.emit(RunEvent::InterruptResolved {
            interrupt_id: open,
            node_id: step.clone(),
            kind: InterruptKind::Approval,
            resume_value: json!({ "action": action }),
            resolved_by: self.by.map(str::to_owned),
        });
        if action == "reject" {
            // A rejected gate keeps waiting.
            self.ask(event, step);
        }
    }

    fn artifact(&mut self, artifact: &Value, step: NodeId) {
        let Some(artifact_id) = artifact_id(artifact) else {
            return;
        };
        let bytes = json::canonical_of(&artifact["data"]);
        self.emit(RunEvent::ArtifactCreated {
            artifact: Artifact {
                artifact_id,
                artifact_type: clip(artifact["typeId"].as_str().unwrap_or("unknown")).to_owned(),
                media_type: "application/json".into(),
                size: bytes.len() as u64,
                digest: Digest::compute(&bytes),
                parts: Vec::new(),
            },
            node_id: step,
        });
    }

    fn usage(&mut self, event: &Map<String, Value>, step: NodeId) {
        if text(event, "direction") != "response" {
            return;
        }
        let usage = event.get("usage").cloned().unwrap_or_default();
        let cost = event.get("cost").cloned().unwrap_or_default();
        if usage.is_null() && cost.is_null() {
            return;
        }
        let is_usd = cost["currency"]
            .as_str()
            .is_some_and(|it| it.eq_ignore_ascii_case("usd"));
        self.emit(RunEvent::ProviderUsage {
            usage: Usage {
                provider: or_unknown(text(event, "provider")),
                model: or_unknown(text(event, "model")),
                input_tokens: usage["inputTokens"].as_u64().unwrap_or_default(),
                output_tokens: usage["outputTokens"].as_u64().unwrap_or_default(),
                cost_estimate_usd: is_usd.then(|| cost["amount"].as_f64()).flatten(),
                duration_ms: event.get("durationMs").and_then(Value::as_u64),
                cache_read_tokens: usage["cachedInputTokens"].as_u64(),
                cache_write_tokens: None,
            },
            attempt: None,
            node_id: step,
        });
    }

    fn end(&mut self, status: &str, reason: Option<String>, body: &Body) {
        let began = self.view.started_at.unwrap_or(self.at);
        let duration_ms = self.at.ms_since(began);
        match status {
            "completed" => self.emit(RunEvent::RunCompleted {
                outputs: Map::new(),
                duration_ms,
            }),
            "failed" => {
                let last = body
                    .trace
                    .iter()
                    .rev()
                    .find(|event| event["type"] == "error");
                let last = last.and_then(|event| event.as_object());
                let instead = reason.as_deref().unwrap_or("the run failed");
                self.emit(RunEvent::RunFailed {
                    error: failure(last, instead),
                    failed_node_id: None,
                    duration_ms,
                });
            }
            "cancelled" => self.emit(RunEvent::RunCancelled {
                reason,
                cancelled_by: self.by.map(str::to_owned),
                parent_run_id: None,
                duration_ms,
            }),
            _ => {}
        }
    }
}

/// The name of an artifact's version in the view. `None` for one without a name.
fn artifact_id(artifact: &Value) -> Option<String> {
    let (key, version) = (&artifact["artifactKey"], &artifact["version"]);
    Some(format!("{}@{}", clip(key.as_str()?), version.as_u64()?))
}

impl Document {
    /// A version of an artifact by its id in the view, with the canonical JSON of its data. `None`
    /// if the trace does not contain it with the recorded digest.
    pub fn artifact(&self, id: &str) -> Option<(Artifact, Vec<u8>)> {
        let trace = &self.head()?.trace;
        self.state.view.artifacts().find_map(|(_, artifact)| {
            if artifact.artifact_id != id {
                return None;
            }
            let written = trace.iter().map(|event| &event["artifact"]);
            let mut data = written
                .filter(|written| artifact_id(written).as_deref() == Some(id))
                .map(|written| json::canonical_of(&written["data"]));
            let data = data.find(|data| Digest::compute(data) == artifact.digest)?;
            Some((artifact, data))
        })
    }
}

fn failure(error: Option<&Map<String, Value>>, instead: &str) -> NodeError {
    let member = |name| error.map(|error| text(error, name)).unwrap_or_default();
    let or = |text: &str, instead: &str| match text {
        "" => instead.to_owned(),
        text => clip(text).to_owned(),
    };
    NodeError::new(
        or(member("code"), "workbench_failure"),
        or(member("message"), instead),
    )
}

fn or_unknown(text: &str) -> String {
    match text {
        "" => "unknown".into(),
        text => clip(text).to_owned(),
    }
}

/// The tags of a run that fit into an index row.
pub(super) fn tags(run: &Map<String, Value>) -> Vec<String> {
    let tags = run.get("tags").and_then(Value::as_array);
    let texts = tags.into_iter().flatten().filter_map(Value::as_str);
    let fit = texts.filter(|tag| {
        let is_plain = !tag.chars().any(char::is_control);
        !tag.is_empty() && tag.chars().count() <= limits::MAX_TAG_CHARS && is_plain
    });
    fit.take(limits::MAX_TAGS).map(str::to_owned).collect()
}

/// The part of a text that an event or an index row repeats.
pub(super) fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(limits::MAX_LISTED_TEXT_BYTES)]
}

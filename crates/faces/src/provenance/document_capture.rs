//! A snapshot of a workbench document: of a run that a browser app recorded.
//!
//! The response is the canonical JSON of its artifacts' latest contents by key, since a browser's
//! run has no other outputs; the prompt is that of its context. The id derives from the document
//! and the save, so that every capture of the same save has the same id.

use std::collections::BTreeMap;

use kernel::document::{Body, SaveRecord};
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

use super::calls::{Call, CallKind, EffectClass};
use super::capture::{Captured, id_of};
use super::document::{
    Artifact, Config, Metrics, Mode, Model, NO_MODEL, Operation, Snapshot, ToolCall,
};
use super::hash::{canonical_json, hash_json, hash_text};

/// The member of `extensions` with the browser's run and the number of the save.
pub const DOCUMENT: &str = "document";

/// The snapshot of a document after a save. Exported data is redacted again before it is hashed.
pub fn of_document(
    header: &StreamHeader,
    save: &SaveRecord,
    body: &Body,
    redact: &mut dyn FnMut(&mut Value),
) -> Captured {
    let mut reading = Reading::default();
    for event in &body.trace {
        reading.event(event, redact);
    }
    let latest = body.derived.artifacts.iter();
    let artifacts = latest
        .map(|(key, artifact)| Artifact {
            path: Some(key.to_owned()),
            hash: Some(reading.body(artifact["data"].clone(), redact)),
            operation: Some(match reading.first.get(key) {
                Some(1) => Operation::Created,
                // Its first version belongs to another run.
                _ => Operation::Modified,
            }),
            ..Artifact::default()
        })
        .collect();
    let run = &body.derived.run;
    let status = text(run, "status");
    let ended = match status {
        "completed" => Some(("succeeded", outputs(body))),
        "failed" => Some(("failed", json!({ "error": reading.error }))),
        "cancelled" => Some(("cancelled", json!({ "cancelled": true }))),
        _ => None,
    };
    let stream = header.stream.as_str();
    let id = id_of(stream, save.seq, save.at);
    let workflow = text(run, "workflowId").to_owned();
    let mut snapshot = Snapshot::new(id, workflow, save.at, reading.config());
    let context = run.get("context").cloned().unwrap_or_else(|| json!({}));
    snapshot.inputs.user_prompt = Some(canonical_json(&context));
    snapshot.inputs.environment = Some(environment(run));
    let status = ended.as_ref().map_or("running", |(status, _)| *status);
    let outputs = &mut snapshot.outputs;
    outputs.response = ended.as_ref().map(|(_, value)| canonical_json(value));
    outputs.artifacts_created = Some(artifacts);
    let started = Timestamp::parse(text(run, "startedAt"));
    snapshot.metrics = Some(Metrics {
        duration_ms: started.map(|started| reading.last.unwrap_or(started).ms_since(started)),
        tokens_input: Some(reading.tokens.0),
        tokens_output: Some(reading.tokens.1),
        tool_calls_count: Some(reading.calls.len() as u64),
        iterations: Some(reading.turns),
        ..Metrics::default()
    });
    outputs.tool_calls = Some(reading.calls);
    let extensions = snapshot.extend();
    extensions.started_at = started.map(|at| at.to_string());
    extensions.run_status = Some(status.to_owned());
    extensions.run_id = Some(stream.to_owned());
    let which = json!({ "run_id": body.id(), "revision": body.revision, "save": save.number });
    extensions.other.insert(DOCUMENT.to_owned(), which);
    if let Some(workspace) = &header.owner.workspace {
        let workspace = workspace.as_str().into();
        extensions.other.insert("workspace".to_owned(), workspace);
    }
    if reading.models.len() > 1 {
        let models = reading.models.into_iter().collect();
        extensions.other.insert("models".to_owned(), models);
    }
    Captured {
        snapshot,
        calls: reading.records,
        bodies: reading.bodies,
    }
}

fn text<'a>(of: &'a Map<String, Value>, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The latest content of each artifact.
fn outputs(body: &Body) -> Value {
    let latest = body.derived.artifacts.iter();
    let latest = latest.map(|(key, artifact)| (key.to_owned(), artifact["data"].clone()));
    Value::Object(latest.collect())
}

fn environment(run: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    if let Some(version) = run.get("workflowVersion").filter(|it| !it.is_null()) {
        environment.insert("workflow.version".to_owned(), version.to_string());
    }
    if let Some(workflow) = run.get("workflowSnapshot") {
        environment.insert("workflow.digest".to_owned(), hash_json(workflow));
    }
    environment
}

/// The state of reading a trace.
#[derive(Default)]
struct Reading {
    /// The first written version of each artifact.
    first: BTreeMap<String, u64>,
    calls: Vec<ToolCall>,
    records: Vec<Call>,
    bodies: Vec<String>,
    /// Provider and model, with the usage of each.
    models: BTreeMap<String, Value>,
    answered: Option<Model>,
    tokens: (u64, u64),
    turns: u64,
    error: Value,
    last: Option<Timestamp>,
}

impl Reading {
    fn event(&mut self, event: &Value, redact: &mut dyn FnMut(&mut Value)) {
        self.last = event["ts"]
            .as_str()
            .and_then(Timestamp::parse)
            .or(self.last);
        match event["type"].as_str() {
            Some("artifact_written") => {
                let artifact = &event["artifact"];
                if let Some(key) = artifact["artifactKey"].as_str() {
                    let version = artifact["version"].as_u64().unwrap_or(1);
                    self.first.entry(key.to_owned()).or_insert(version);
                }
            }
            Some("tool_call") => self.called(event, redact),
            Some("model_io") if event["direction"] == "response" => self.answered(event),
            Some("error") => {
                self.error = json!({ "code": event["code"], "message": event["message"] });
            }
            _ => {}
        }
    }

    fn called(&mut self, event: &Value, redact: &mut dyn FnMut(&mut Value)) {
        let name = event["name"].as_str().unwrap_or("unknown").to_owned();
        let input = self.body(event["args"].clone(), redact);
        let result = event.get("result").cloned();
        let output = result.map(|result| self.body(result, redact));
        let at = event["ts"].as_str().and_then(Timestamp::parse);
        let at = at.map(|at| at.to_string());
        self.records.push(Call {
            seq: self.records.len() as u64 + 1,
            kind: CallKind::Tool,
            name: Some(name.clone()),
            key_hash: input.clone(),
            result_hash: output.clone(),
            parent: None,
            started: at.clone(),
            ended: None,
            effect_class: Some(EffectClass::Unknown),
            is_error: false,
            other: Map::new(),
        });
        self.calls.push(ToolCall {
            tool: Some(name),
            input_hash: Some(input),
            output_hash: output,
            timestamp: at,
            ..ToolCall::default()
        });
    }

    fn answered(&mut self, event: &Value) {
        let named = |name: &str| event[name].as_str().unwrap_or("unknown").to_owned();
        let (provider, id) = (named("provider"), named("model"));
        let number = |name: &str| event["usage"][name].as_u64().unwrap_or_default();
        let (input, output) = (number("inputTokens"), number("outputTokens"));
        self.turns += 1;
        self.tokens.0 = self.tokens.0.saturating_add(input);
        self.tokens.1 = self.tokens.1.saturating_add(output);
        let sums = self.models.entry(format!("{provider}/{id}"));
        let sums = sums.or_insert_with(|| {
            json!({ "id": id, "provider": provider, "answers": 0,
                    "tokens_input": 0, "tokens_output": 0 })
        });
        for (name, more) in [
            ("answers", 1),
            ("tokens_input", input),
            ("tokens_output", output),
        ] {
            let sum = sums[name].as_u64().unwrap_or_default();
            sums[name] = json!(sum.saturating_add(more));
        }
        self.answered = Some(Model {
            id,
            provider: Some(provider),
            ..Model::default()
        });
    }

    fn config(&self) -> Config {
        let none = || Model::named(NO_MODEL);
        Config::new(self.answered.clone().unwrap_or_else(none), Mode::Default)
    }

    /// Keeps a value; returns its hash.
    fn body(&mut self, mut value: Value, redact: &mut dyn FnMut(&mut Value)) -> String {
        redact(&mut value);
        let body = canonical_json(&value);
        let hash = hash_text(&body);
        self.bodies.push(body);
        hash
    }
}

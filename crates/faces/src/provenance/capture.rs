//! A snapshot of a run: a fold of its events.
//!
//! The response is the canonical JSON of the run's outputs, the prompt that of its inputs. Without
//! a model call the model is `none`; with several models it is the one that answered last, and
//! `extensions.models` has them all. The id derives from the run and the length of its log, so that
//! every capture of the same run has the same id.

use std::collections::BTreeMap;

use kernel::digest::Digest;
use kernel::ids::NodeId;
use kernel::run::report::{ToolCalled, ToolReturned, ToolStatus};
use kernel::run::{Event, Run, RunEvent, Usage};
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

use super::calls::{Call, CallKind, EffectClass};
use super::document::{
    Artifact, Config, Metrics, Mode, Model, NO_MODEL, Operation, Snapshot, ToolCall,
};
use crate::mask::{Mask, apply_mask};

use super::hash::{canonical_json, hash_json, hash_text, written};

/// The data to write for a run.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The unsealed snapshot.
    pub snapshot: Snapshot,
    /// The calls of tools.
    pub calls: Vec<Call>,
    /// The contents that the calls name: redacted inputs and results as canonical JSON.
    pub bodies: Vec<String>,
}

/// Builds a capture from the events of the run in order.
#[derive(Default)]
pub struct RunCapture {
    started: Option<(Timestamp, Value)>,
    last: Option<Timestamp>,
    ended: Option<Ended>,
    models: BTreeMap<(String, String), (u64, u64, u64)>,
    answered: Option<(Usage, NodeId)>,
    tokens: (u64, u64),
    turns: u64,
    artifacts: BTreeMap<String, String>,
    calls: Vec<ToolCall>,
    records: Vec<Call>,
    /// Calls in flight, by node, visit, attempt and call.
    open: BTreeMap<(NodeId, u32, u32, String), usize>,
    bodies: Vec<String>,
}

/// The end of the run.
struct Ended {
    status: &'static str,
    response: Value,
    duration_ms: u64,
}

impl RunCapture {
    /// Adds the next event, without the values its workflow hides. Exported data is redacted again
    /// before it is hashed: the rules may cover more than when the log was written.
    pub fn take(&mut self, mask: Mask<'_>, event: &Event, redact: &mut dyn FnMut(&mut Value)) {
        let event = &*mask.event(event);
        let redact = &mut |value: &mut Value| {
            apply_mask(value);
            redact(value);
        };
        self.last = Some(event.at);
        match &event.body {
            RunEvent::RunStarted { inputs, .. } => {
                self.started = Some((event.at, shown(inputs)));
            }
            RunEvent::RunCompleted {
                outputs,
                duration_ms,
            } => {
                self.ended = Some(Ended {
                    status: "succeeded",
                    response: shown(outputs),
                    duration_ms: *duration_ms,
                });
            }
            RunEvent::RunFailed {
                error, duration_ms, ..
            } => {
                self.ended = Some(Ended {
                    status: "failed",
                    response: json!({ "error": { "code": error.code, "message": error.message } }),
                    duration_ms: *duration_ms,
                });
            }
            RunEvent::RunCancelled { duration_ms, .. } => {
                self.ended = Some(Ended {
                    status: "cancelled",
                    response: json!({ "cancelled": true }),
                    duration_ms: *duration_ms,
                });
            }
            RunEvent::ProviderUsage { usage, node_id, .. } => self.asked(usage, node_id),
            RunEvent::ArtifactCreated { artifact, node_id } => {
                // Its id derives from the run's; two runs must have the same name.
                let base = format!("{node_id}/{}", artifact.artifact_type);
                let mut path = base.clone();
                let mut number = 1;
                while self.artifacts.contains_key(&path) {
                    number += 1;
                    path = format!("{base}.{number}");
                }
                self.artifacts.insert(path, written(&artifact.digest));
            }
            RunEvent::ToolCalled(call) => self.called(event.at, call, redact),
            RunEvent::ToolReturned(call) => self.returned(event.at, call, redact),
            _ => {}
        }
    }

    fn asked(&mut self, usage: &Usage, node: &NodeId) {
        let key = (usage.provider.clone(), usage.model.clone());
        let sums = self.models.entry(key).or_default();
        sums.0 += 1;
        sums.1 = sums.1.saturating_add(usage.input_tokens);
        sums.2 = sums.2.saturating_add(usage.output_tokens);
        self.tokens.0 = self.tokens.0.saturating_add(usage.input_tokens);
        self.tokens.1 = self.tokens.1.saturating_add(usage.output_tokens);
        self.turns += 1;
        self.answered = Some((usage.clone(), node.clone()));
    }

    fn called(&mut self, at: Timestamp, call: &ToolCalled, redact: &mut dyn FnMut(&mut Value)) {
        let input_hash = match &call.inputs {
            Some(inputs) => self.body(inputs.clone(), redact),
            // Too large for the log: only its hash is known.
            None => format!("sha256:{}", call.args_hash),
        };
        let seq = self.records.len();
        self.calls.push(ToolCall {
            tool: Some(call.tool_name.clone()),
            input_hash: Some(input_hash.clone()),
            timestamp: Some(at.to_string()),
            ..ToolCall::default()
        });
        self.records.push(Call {
            seq: seq as u64 + 1,
            kind: CallKind::Tool,
            name: Some(call.tool_name.clone()),
            key_hash: input_hash,
            result_hash: None,
            parent: None,
            started: Some(at.to_string()),
            ended: None,
            effect_class: Some(EffectClass::Unknown),
            is_error: false,
            other: BTreeMap::from([("node", call.node_id.as_str()), ("call_id", &call.call_id)])
                .into_iter()
                .map(|(name, text)| (name.to_owned(), text.into()))
                .collect(),
        });
        let id = call.call_id.clone();
        let key = (call.node_id.clone(), call.visit, call.attempt, id);
        self.open.insert(key, seq);
    }

    fn returned(&mut self, at: Timestamp, call: &ToolReturned, redact: &mut dyn FnMut(&mut Value)) {
        let key = (
            call.node_id.clone(),
            call.visit,
            call.attempt,
            call.call_id.clone(),
        );
        let Some(seq) = self.open.remove(&key) else {
            return;
        };
        let result = match (&call.outcome, &call.error) {
            (Some(outcome), _) => outcome.clone(),
            (None, Some(error)) => json!({ "code": error.code, "message": error.message }),
            (None, None) => Value::Null,
        };
        let hash = self.body(result, redact);
        self.calls[seq].output_hash = Some(hash.clone());
        let record = &mut self.records[seq];
        record.result_hash = Some(hash);
        record.ended = Some(at.to_string());
        record.is_error = call.status != ToolStatus::Ok;
    }

    /// Keeps a value; returns its hash.
    fn body(&mut self, mut value: Value, redact: &mut dyn FnMut(&mut Value)) -> String {
        redact(&mut value);
        let body = canonical_json(&value);
        let hash = hash_text(&body);
        self.bodies.push(body);
        hash
    }

    /// The snapshot of the events so far. `None` before the first event.
    pub fn build(self, run: &Run) -> Option<Captured> {
        let config = self.config(run);
        let (started, inputs) = self.started?;
        let ended = self.last.unwrap_or(started);
        let stream = &run.header.stream;
        let id = id_of(stream.as_str(), run.head.next_seq, ended);
        let mut snapshot = Snapshot::new(id, run.plan.workflow.to_string(), ended, config);
        snapshot.inputs.user_prompt = Some(canonical_json(&inputs));
        snapshot.inputs.environment = Some(BTreeMap::from([
            ("workflow.digest".to_owned(), written(&run.plan.digest)),
            ("workflow.version".to_owned(), run.plan.version.clone()),
        ]));
        let outputs = &mut snapshot.outputs;
        outputs.response = self
            .ended
            .as_ref()
            .map(|ended| canonical_json(&ended.response));
        outputs.artifacts_created = Some(
            self.artifacts
                .into_iter()
                .map(|(path, hash)| Artifact {
                    path: Some(path),
                    hash: Some(hash),
                    operation: Some(Operation::Created),
                    ..Artifact::default()
                })
                .collect(),
        );
        snapshot.metrics = Some(Metrics {
            duration_ms: Some(match &self.ended {
                Some(ended) => ended.duration_ms,
                None => ended.ms_since(started),
            }),
            tokens_input: Some(self.tokens.0),
            tokens_output: Some(self.tokens.1),
            tool_calls_count: Some(self.calls.len() as u64),
            iterations: Some(self.turns),
            ..Metrics::default()
        });
        outputs.tool_calls = Some(self.calls);
        let status = self.ended.as_ref().map_or("running", |ended| ended.status);
        let extensions = snapshot.extend();
        extensions.started_at = Some(started.to_string());
        extensions.run_status = Some(status.to_owned());
        extensions.run_id = Some(stream.as_str().to_owned());
        if let Some(workspace) = &run.header.owner.workspace {
            let workspace = workspace.as_str().into();
            extensions.other.insert("workspace".into(), workspace);
        }
        if self.models.len() > 1 {
            let models = self.models.into_iter();
            let models = models.map(|((provider, id), (answers, input, output))| {
                json!({ "id": id, "provider": provider, "answers": answers,
                        "tokens_input": input, "tokens_output": output })
            });
            extensions.other.insert("models".into(), models.collect());
        }
        if let Some(origin) = &run.header.origin {
            let origin = serde_json::to_value(origin).unwrap_or_default();
            extensions.other.insert("origin".into(), origin);
        }
        Some(Captured {
            snapshot,
            calls: self.records,
            bodies: self.bodies,
        })
    }

    /// The settings of the model that answered last, from its node's config.
    fn config(&self, run: &Run) -> Config {
        let Some((usage, node)) = &self.answered else {
            return Config::new(Model::named(NO_MODEL), Mode::Default);
        };
        let model = Model {
            id: usage.model.clone(),
            provider: Some(usage.provider.clone()),
            ..Model::default()
        };
        let mut config = Config::new(model, Mode::Default);
        let node = run.plan.nodes.iter().find(|planned| planned.id == *node);
        let Some(said) = node.map(|node| &node.config) else {
            return config;
        };
        config.temperature = said.get("temperature").and_then(Value::as_f64);
        config.seed = said.get("seed").and_then(Value::as_i64);
        config.max_tokens = said.get("maxTokens").and_then(Value::as_i64);
        config.top_p = said.get("topP").and_then(Value::as_f64);
        config.stop_sequences = said.get("stop").and_then(Value::as_array).map(|stops| {
            let stops = stops.iter().filter_map(Value::as_str);
            stops.map(str::to_owned).collect()
        });
        // A template equals the sent text only without placeholders.
        let prompt = said.get("systemPrompt").and_then(Value::as_str);
        let prompt = prompt.filter(|prompt| !prompt.contains("${"));
        config.system_prompt_hash = prompt.map(hash_text);
        config
    }
}

/// A UUID of version 7 whose random part is the hash of the given values.
pub(super) fn id_of(stream: &str, next_seq: u64, at: Timestamp) -> String {
    let Digest(hash) = Digest::compute(hash_json(&json!([stream, next_seq])).as_bytes());
    let ms = u64::try_from(at.0).unwrap_or(0).to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&ms[2..]);
    bytes[6..].copy_from_slice(&hash[..10]);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// Values without ciphertext, which differs each time.
fn shown(values: &Map<String, Value>) -> Value {
    let mut shown = Value::Object(values.clone());
    apply_mask(&mut shown);
    shown
}

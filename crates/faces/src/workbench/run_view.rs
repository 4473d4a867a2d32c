//! A document's run, in OpenWOP's words.
//!
//! It is read-only except for its gates: the browser is the executor.

use std::collections::BTreeMap;

use kernel::batch::IndexRow;
use kernel::document::{Document, STEP_TYPE, is_mark, run_status};
use kernel::ids::{Seq, StreamId};
use kernel::run::RunEvent;
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

/// The state of the run, as a `RunSnapshot`. `None` before the first save.
pub fn snapshot(document: &Document) -> Option<Value> {
    let body = document.head()?;
    let view = Folded::new(document);
    let header = document.header();
    let run = &body.derived.run;
    let mut owner = json!({ "tenant": header.owner.tenant });
    for (name, value) in [
        ("workspace", &header.owner.workspace),
        ("principal", &header.owner.principal),
    ] {
        if let Some(value) = value {
            owner[name] = json!(value);
        }
    }
    let mut doc = json!({
        "runId": header.stream,
        "workflowId": view.workflow,
        "status": document.view().status(),
        "owner": owner,
        "eventLogSchemaVersion": 2,
        "startedAt": view.started_at.map(|at| at.to_string()),
        "engineVersion": kernel::ENGINE_VERSION.to_string(),
        "inputs": {},
        "variables": {},
        "channels": {},
        "nodeStates": view.nodes(run),
        "metadata": { "workbench": {
            "runId": body.id(), "revision": body.revision, "readOnly": true,
        } },
    });
    let mut put = |name: &str, value: Value| doc[name] = value;
    if let Some(at) = view.ended_at {
        put("completedAt", json!(at.to_string()));
        put("endedAt", json!(at.to_string()));
    }
    match view.end {
        Some(RunEvent::RunCompleted { .. }) => put("outputs", json!({})),
        Some(RunEvent::RunFailed { error, .. }) => {
            put(
                "error",
                json!({ "code": error.code, "message": error.message }),
            );
        }
        Some(RunEvent::RunCancelled {
            reason: Some(reason),
            ..
        }) => {
            put("cancelReason", json!(reason));
        }
        _ => {}
    }
    if !view.tags.is_empty() {
        put("tags", json!(view.tags));
    }
    let open: Vec<Value> = view.interrupts();
    if let Some(first) = open.first() {
        put("currentNodeId", first["nodeId"].clone());
        put("interrupt", first.clone());
        put("interrupts", json!(open));
    }
    if !view.artifacts.is_empty() {
        put("artifacts", json!(view.artifacts));
    }
    if let Some(metrics) = view.metrics() {
        put("metrics", metrics);
    }
    Some(doc)
}

/// A row of the list of runs: a document's index row in OpenWOP's words.
pub fn row(run: &StreamId, events: Seq, index: &IndexRow) -> Value {
    let summary = &index.summary;
    let tags = index.tags.iter().filter(|tag| !is_mark(tag));
    let status = run_status(index);
    let mut row = json!({
        "runId": run,
        "workflowId": index.subject,
        "status": status,
        "createdAt": index.created_at.to_string(),
        "updatedAt": index.updated_at.to_string(),
        "settled": matches!(status, "completed" | "failed" | "cancelled"),
        "events": events,
        "tags": tags.collect::<Vec<_>>(),
        "workbench": {
            "runId": summary["id"], "revision": summary["revision"], "readOnly": true,
        },
    });
    if let Some(parent) = summary.get("parents").and_then(|parents| parents.get(0)) {
        row["parentRunId"] = parent.clone();
    }
    if let Some(workspace) = &index.workspace {
        row["workspace"] = json!(workspace);
    }
    row
}

/// The workflow of a document's run.
pub fn workflow(document: &Document) -> &str {
    Folded::new(document).workflow
}

/// The open interrupts of a document's run, oldest first, as in a snapshot.
pub fn open_interrupts(document: &Document) -> Vec<Value> {
    Folded::new(document).interrupts()
}

/// The usage of model calls; model and provider are the last call's.
#[derive(Default)]
struct Used<'a> {
    input: u64,
    output: u64,
    usd: Option<f64>,
    model: &'a str,
    provider: &'a str,
    duration_ms: u64,
}

/// The view, folded.
#[derive(Default)]
struct Folded<'a> {
    workflow: &'a str,
    tags: &'a [String],
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    end: Option<&'a RunEvent>,
    nodes: BTreeMap<&'a str, Map<String, Value>>,
    open: Vec<(Timestamp, &'a RunEvent)>,
    artifacts: Vec<Value>,
    used: Option<Used<'a>>,
}

impl<'a> Folded<'a> {
    fn new(document: &'a Document) -> Self {
        let mut folded = Self::default();
        for event in document.view().events() {
            folded.fold(event.1, &event.2);
        }
        folded
    }

    fn fold(&mut self, at: Timestamp, event: &'a RunEvent) {
        match event {
            RunEvent::RunStarted { workflow_id, tags, .. } => {
                self.started_at = Some(at);
                self.workflow = workflow_id.as_str();
                self.tags = tags;
            }
            RunEvent::NodeStarted { node_id, visit, .. } => {
                let node = self.nodes.entry(node_id.as_str()).or_default();
                *node = Map::new();
                node.insert("status".into(), json!("running"));
                node.insert("visit".into(), json!(visit));
                node.insert("attempts".into(), json!(1));
                node.insert("startedAt".into(), json!(at.to_string()));
            }
            RunEvent::NodeCompleted { node_id, .. } => {
                self.settle(node_id.as_str(), at, "completed");
                self.node(node_id.as_str()).insert("outputs".into(), json!({}));
            }
            RunEvent::NodeFailed { node_id, error, .. } => {
                self.settle(node_id.as_str(), at, "failed");
                let error = json!({ "code": error.code, "message": error.message });
                self.node(node_id.as_str()).insert("error".into(), error);
            }
            RunEvent::InterruptRequested { .. } => self.open.push((at, event)),
            RunEvent::InterruptResolved { interrupt_id: id, .. } => self.open.retain(|(_, open)| {
                !matches!(open, RunEvent::InterruptRequested { interrupt_id, .. } if interrupt_id == id)
            }),
            RunEvent::ArtifactCreated { artifact, node_id } => {
                let mut shown = json!({
                    "artifactId": artifact.artifact_id, "artifactType": artifact.artifact_type,
                    "size": artifact.size, "digest": artifact.digest,
                });
                if !node_id.as_str().is_empty() {
                    shown["nodeId"] = json!(node_id);
                }
                self.artifacts.push(shown);
            }
            RunEvent::ProviderUsage { usage, .. } => {
                let used = self.used.get_or_insert_default();
                used.input = used.input.saturating_add(usage.input_tokens);
                used.output = used.output.saturating_add(usage.output_tokens);
                if let Some(usd) = usage.cost_estimate_usd {
                    used.usd = Some(used.usd.unwrap_or_default() + usd);
                }
                (used.model, used.provider) = (&usage.model, &usage.provider);
                let duration = usage.duration_ms.unwrap_or_default();
                used.duration_ms = used.duration_ms.saturating_add(duration);
            }
            RunEvent::RunCompleted { .. }
            | RunEvent::RunFailed { .. }
            | RunEvent::RunCancelled { .. } => {
                self.ended_at = Some(at);
                self.end = Some(event);
                self.open.clear();
            }
            _ => {}
        }
    }

    fn node(&mut self, id: &'a str) -> &mut Map<String, Value> {
        self.nodes.entry(id).or_default()
    }

    fn settle(&mut self, id: &'a str, at: Timestamp, status: &str) {
        let node = self.node(id);
        node.insert("status".into(), json!(status));
        node.insert("completedAt".into(), json!(at.to_string()));
    }

    /// Every step of the workflow; `pending` before its start.
    fn nodes(&self, run: &Map<String, Value>) -> Value {
        let steps = run
            .get("workflowSnapshot")
            .and_then(|it| it["steps"].as_array());
        let mut states = Map::new();
        for id in steps
            .into_iter()
            .flatten()
            .filter_map(|step| step["id"].as_str())
        {
            let idle = || Map::from_iter([("status".to_owned(), json!("pending"))]);
            let mut state = self.nodes.get(id).cloned().unwrap_or_else(idle);
            state.insert("typeId".into(), json!(STEP_TYPE));
            states.insert(id.to_owned(), Value::Object(state));
        }
        Value::Object(states)
    }

    fn interrupts(&self) -> Vec<Value> {
        let shown = |(at, event): &(Timestamp, &RunEvent)| match event {
            RunEvent::InterruptRequested {
                interrupt_id,
                node_id,
                kind,
                data,
                ..
            } => Some(json!({
                "interruptId": interrupt_id, "nodeId": node_id, "kind": kind, "payload": data,
                "requestedAt": at.to_string(),
            })),
            _ => None,
        };
        self.open.iter().filter_map(shown).collect()
    }

    fn metrics(&self) -> Option<Value> {
        let used = self.used.as_ref()?;
        let mut cost = json!({
            "tokens": { "input": used.input, "output": used.output }, "model": used.model,
            "provider": used.provider, "duration_ms": used.duration_ms,
        });
        if let Some(usd) = used.usd {
            cost["usd"] = json!(usd);
        }
        Some(json!({ "openwopCost": cost }))
    }
}

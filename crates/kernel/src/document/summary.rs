//! The data that lists show of a document without reading it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::body::{Body, text};
use super::view::{clip, tags};
use super::{Document, EVENT_KINDS, GATE_MARK, PARENT_MARK, branches};
use crate::batch::IndexRow;
use crate::limits;
use crate::time::Timestamp;
use crate::usage::ModelUse;

/// Maximum number of models listed separately; the rest is under `other`.
const MODELS: usize = 16;

/// Counters of a trace, so that a save only counts its new events.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    events: usize,
    pub(super) unknown: usize,
    by_model: BTreeMap<String, ModelUse>,
}

impl Tally {
    /// Counts the further events of a trace whose beginning is counted already.
    pub(super) fn count(&mut self, trace: &[Arc<Value>]) {
        for event in &trace[self.events..] {
            let kind = event["type"].as_str();
            if !kind.is_some_and(|kind| EVENT_KINDS.contains(&kind)) {
                self.unknown += 1;
            }
            if let (Some("model_io"), Value::Object(event)) = (kind, &**event) {
                self.model(event);
            }
        }
        self.events = trace.len();
    }

    /// Counts like the client: answers only.
    fn model(&mut self, event: &Map<String, Value>) {
        if text(event, "direction") != "response" {
            return;
        }
        let usage = event.get("usage").unwrap_or(&Value::Null);
        let number = |name: &str| usage[name].as_u64().unwrap_or_default();
        let mut used = ModelUse {
            calls: 1,
            input_tokens: number("inputTokens"),
            output_tokens: number("outputTokens"),
            ..ModelUse::default()
        };
        let sum = used.input_tokens.saturating_add(used.output_tokens);
        used.total_tokens = usage["totalTokens"].as_u64().unwrap_or(sum);
        let cost = event.get("cost").unwrap_or(&Value::Null);
        let (amount, currency) = (cost["amount"].as_f64(), cost["currency"].as_str());
        if let (Some(amount), Some(currency)) = (amount, currency) {
            let currency = clip(currency).to_uppercase();
            used.cost.insert(currency, amount);
        }
        let named = |name| match text(event, name) {
            "" => "unknown",
            text => clip(text),
        };
        let model = format!("{}/{}", named("provider"), named("model"));
        let is_room = self.by_model.len() < MODELS || self.by_model.contains_key(&model);
        let model = if is_room { model } else { "other".to_owned() };
        self.by_model.entry(model).or_default().add(&used);
    }
}

impl Body {
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        tally.count(&self.trace);
        tally
    }

    /// Usage of its model calls, by `provider/model`.
    pub fn model_use(&self) -> BTreeMap<String, ModelUse> {
        self.tally().by_model
    }

    /// Number of events of its trace of unknown kinds. They are kept.
    pub fn unknown_events(&self) -> usize {
        self.tally().unknown
    }

    /// The runs this one descends from.
    pub fn parents(&self) -> Vec<String> {
        let context = self.derived.run.get("context").and_then(Value::as_object);
        let Some(context) = context else {
            return Vec::new();
        };
        let listed = context.get("parentRunIds").and_then(Value::as_array);
        let one = context.get("parentRunId").into_iter();
        let mut parents: Vec<String> = Vec::new();
        for id in one
            .chain(listed.into_iter().flatten())
            .filter_map(Value::as_str)
        {
            let fits = id.len() <= limits::MAX_NAME_BYTES && !id.chars().any(char::is_control);
            if fits && !parents.iter().any(|known| known == id) {
                parents.push(id.to_owned());
            }
        }
        parents.truncate(limits::MAX_PARENTS);
        parents
    }
}

/// The index row of a document.
pub(super) fn index(document: &Document, body: &Body, tally: &Tally) -> IndexRow {
    let run = &body.derived.run;
    let arrived = document.header.created_at;
    let started = run.get("startedAt").and_then(Value::as_str);
    let (gates, parents) = (body.pending_gates(), body.parents());
    let mut marks = tags(run);
    marks.extend(parents.iter().map(|id| format!("{PARENT_MARK}{id}")));
    if !gates.is_empty() {
        marks.push(GATE_MARK.to_owned());
    }
    let subject = listed(text(run, "workflowId"));
    let status = match text(run, "status") {
        "" => "running".to_owned(),
        status => listed(status),
    };
    let summary = summary(document, (body, tally), &gates, &parents);
    IndexRow {
        // Lists are ordered by the beginning of the run. Without a valid one it is the arrival.
        created_at: started.and_then(Timestamp::parse).unwrap_or(arrived),
        tags: marks,
        ..IndexRow::new(&document.header, document.at, (&subject, &status), summary)
    }
}

/// The status of a document's run, from its index row.
pub fn run_status(index: &IndexRow) -> &str {
    let own = index.summary.get("runStatus").and_then(Value::as_str);
    own.unwrap_or(&index.status)
}

/// Text for an index row: limited in length, and without NUL.
fn listed(text: &str) -> String {
    clip(text).replace('\0', "\u{fffd}")
}

fn summary(
    document: &Document,
    (body, tally): (&Body, &Tally),
    gates: &[super::PendingGate],
    parents: &[String],
) -> Value {
    let run = &body.derived.run;
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("id", json!(body.id()));
    put("revision", json!(body.revision));
    put("save", json!(document.state.saves.len()));
    put("events", json!(body.trace.len()));
    // The view keeps its status after its end, and has a waiting status while a question is open.
    let (status, own) = (document.state.view.status(), text(run, "status"));
    if status.as_str() != own {
        put("runStatus", json!(status));
    }
    for name in ["startedAt", "endedAt"] {
        if let Some(Value::String(at)) = run.get(name) {
            put(name, json!(listed(at)));
        }
    }
    let title = run
        .get("workflowSnapshot")
        .and_then(|it| it["title"].as_str());
    if let Some(title) = title {
        put("title", json!(listed(title)));
    }
    if matches!(run.get("tags"), Some(Value::Array(_))) {
        put("tags", json!(tags(run)));
    }
    if !parents.is_empty() {
        put("parents", json!(parents));
    }
    if !gates.is_empty() {
        let shown = &gates[..gates.len().min(limits::MAX_LISTED_GATES)];
        put("gates", json!(shown));
        put("pendingGates", json!(gates.len()));
    }
    let models: Map<String, Value> = tally
        .by_model
        .iter()
        .map(|(model, used)| (model.clone(), used.to_json()))
        .collect();
    if !models.is_empty() {
        put("models", models.into());
    }
    match branches(&document.state.saves) {
        0 => {}
        count => drop(put("branches", json!(count))),
    }
    match tally.unknown {
        0 => {}
        count => drop(put("unknownEvents", json!(count))),
    }
    Value::Object(out)
}

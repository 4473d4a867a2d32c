//! Reads a `RunEventDoc` back into an event, for displays of a server's answers.
//!
//! The wire has less than the log, so the result is for display only, and must not be folded:
//! missing parts are empty.

use kernel::digest::Digest;
use kernel::run::budget::COST;
use kernel::run::{Event, RunEvent};
use kernel::stream::DefinitionRef;
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

use super::gate::BY_TIMEOUT;
use super::payload::{COST_NAME, LIMITS, as_said};

/// The event that [`event`](super::event) rendered. `None` for an unknown type, and for types whose
/// rendering lacks too much to display it.
///
/// The following are empty: the variables a run began with, a transport without an OpenWOP name,
/// the definition, inputs and budget of a dispatched child, the parts of an artifact, the interrupt
/// a single vote belongs to, and the command of a batch.
pub fn read(doc: &Value) -> Option<Event> {
    let at = Timestamp::parse(doc["timestamp"].as_str()?)?;
    Some(Event {
        seq: doc["sequence"].as_u64()?,
        at,
        cause: None,
        body: body(doc, at)?,
    })
}

fn body(doc: &Value, at: Timestamp) -> Option<RunEvent> {
    let kind = doc["type"].as_str()?;
    let mut data = doc["payload"].as_object()?.clone();
    if let Value::String(node) = &doc["nodeId"] {
        data.entry("nodeId").or_insert_with(|| json!(node));
    }
    match kind {
        "node.dispatched" => return dispatched(&data),
        "run.started" => {
            data.entry("variables").or_insert_with(|| json!({}));
            data.entry("transport").or_insert_with(|| json!(""));
            number(&mut data, "engineVersion");
        }
        "runwright.run.stopping" => {
            let ending = data.get_mut("ending")?.as_object_mut()?;
            rename(ending, "failedNodeId", "nodeId");
            rename(ending, "cancelledBy", "by");
            rename(ending, "parentRunId", "parent");
        }
        "runwright.run.forked" => rename(&mut data, "fromSeq", "fromSequence"),
        "node.started" => {
            instant(&mut data, "dueAt");
            instant(&mut data, "timeoutAt");
        }
        "node.failed" => {
            data.entry("attempts").or_insert_with(|| json!(0));
        }
        "interrupt.requested" => {
            data.insert("interruptId".into(), doc["interruptId"].clone());
            if let Some(asked) = data.remove("data") {
                data.insert("data".into(), as_said(asked));
            }
            if let Some(ms) = data.get("timeoutMs").and_then(Value::as_u64) {
                data.insert("timeoutAt".into(), json!(at.plus_ms(ms)));
            }
        }
        "approval.requested" => {
            for action in data.get_mut("actions")?.as_array_mut()? {
                if action == "edit" {
                    *action = json!("edit-accept");
                }
            }
        }
        "approval.granted" | "approval.rejected" => {
            data.insert("interruptId".into(), json!(""));
            if let Some(Value::Object(progress)) = data.remove("quorumProgress") {
                data.extend(progress);
            }
        }
        // At a timeout the log has no decider.
        "approval.received" => {
            data.retain(|name, value| name != "decidedBy" || value != BY_TIMEOUT);
        }
        "runwright.approval.asked" => rename(&mut data, "askedBy", "resolvedBy"),
        "channel.written" => {
            instant(&mut data, "writtenAt");
            unstamp(&mut data);
        }
        "cap.breached" if data.get("kind")? == "budget-cost" => {
            for name in ["limit", "observed"] {
                let amount = micro_usd(data.get(name)?)?;
                data.insert(name.into(), json!(amount));
            }
        }
        "budget.reserved" => {
            let named = data.remove("effectiveBudget")?;
            let limits = LIMITS.into_iter().filter_map(|(dimension, name)| {
                let limit = named.get(name)?;
                let limit = match dimension {
                    COST => json!(micro_usd(limit)?),
                    _ => limit.clone(),
                };
                Some((dimension.to_owned(), limit))
            });
            data.insert("limits".into(), Value::Object(limits.collect()));
        }
        "budget.threshold.crossed" | "budget.exhausted" if data.get("dimension")? == COST_NAME => {
            data.insert("dimension".into(), json!(COST));
            for name in ["consumed", "limit"] {
                let amount = micro_usd(data.get(name)?)?;
                data.insert(name.into(), json!(amount));
            }
        }
        "artifact.created" => {
            rename(&mut data, "sha256", "digest");
            data.insert("parts".into(), json!([]));
        }
        "log.appended" => {
            if let (Some(node), Some(Value::Object(mut attempt))) =
                (data.get("nodeId").cloned(), data.remove("fields"))
            {
                attempt.insert("node".into(), node);
                data.insert("attempt".into(), Value::Object(attempt));
            }
        }
        _ => {}
    }
    serde_json::from_value(json!({ "type": kind, "data": data })).ok()
}

fn dispatched(data: &Map<String, Value>) -> Option<RunEvent> {
    let text = |name: &str| data.get(name)?.as_str();
    let workflow = text("childWorkflowId")?;
    Some(RunEvent::NodeDispatched {
        node_id: text("nodeId")?.into(),
        visit: 0,
        child_run_id: text("childRunId")?.into(),
        child_workflow_id: workflow.into(),
        definition: DefinitionRef {
            workflow: workflow.into(),
            version: String::new(),
            digest: Digest::compute(&[]),
            put_by: Default::default(),
        },
        inputs: Map::new(),
        budget: Default::default(),
    })
}

/// An amount of dollars in the unit of the log.
fn micro_usd(dollars: &Value) -> Option<u64> {
    Some((dollars.as_f64()? * 1e6).round() as u64)
}

fn rename(data: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = data.remove(from) {
        data.insert(to.into(), value);
    }
}

/// Converts a date of the wire to the log's milliseconds.
fn instant(data: &mut Map<String, Value>, name: &str) {
    let at = data.get(name).and_then(Value::as_str);
    if let Some(at) = at.and_then(Timestamp::parse) {
        data.insert(name.into(), json!(at));
    }
}

/// A channel with expiry has each entry with the time of its write.
fn unstamp(data: &mut Map<String, Value>) {
    let Some(Value::Object(entry)) = data.get_mut("value") else {
        return;
    };
    if entry.len() == 2
        && entry.contains_key("_ts")
        && let Some(value) = entry.remove("value")
    {
        data.insert("value".into(), value);
        data.insert("stamped".into(), json!(true));
    }
}

fn number(data: &mut Map<String, Value>, name: &str) {
    let number = data.get(name).and_then(Value::as_str);
    if let Some(number) = number.and_then(|text| text.parse::<u32>().ok()) {
        data.insert(name.into(), json!(number));
    }
}

//! A run as one document: a `RunDebugBundle`.
//!
//! It is bounded. Excess is dropped from the end of the events, and from the largest parts of the
//! run's state; the bundle marks this.

use std::collections::BTreeSet;

use kernel::ids::Seq;
use kernel::notes;
use kernel::run::{Event, Run};
use kernel::time::Timestamp;
use serde_json::{Value, json};

use super::annotation::annotation;
use super::event::event_caused_by;
use super::snapshot::snapshot;
use crate::mask::Mask;

/// The approximate size limit of a bundle: the envelope of its parts is not included.
pub const MAX_BUNDLE_BYTES: usize = 8 << 20;
/// Bytes of the run's state in it.
const RUN_BYTES: usize = MAX_BUNDLE_BYTES / 2;
/// Bytes for the notes about the run.
const NOTES_BYTES: usize = MAX_BUNDLE_BYTES / 8;
/// Bytes of its spans at most.
pub const SPANS_BYTES: usize = MAX_BUNDLE_BYTES / 8;

/// Builds a bundle from the events of the run in order.
pub struct Bundle {
    run: Value,
    events: Vec<Value>,
    spans: Vec<Value>,
    /// Events at most.
    most: usize,
    /// The bytes left for events.
    left: usize,
    nodes: BTreeSet<String>,
    cut: BTreeSet<&'static str>,
}

impl Bundle {
    /// The bundle of a run, without events yet; it will have at most `most` of them.
    pub fn new(run: &Run, most: usize) -> Self {
        let mut cut = BTreeSet::new();
        let mut run = snapshot(run);
        say_status(&mut run);
        if shrink(&mut run) {
            cut.insert("run_truncated_to_size_cap");
        }
        let used = run.to_string().len() + NOTES_BYTES + SPANS_BYTES;
        Self {
            run,
            events: Vec::new(),
            spans: Vec::new(),
            most,
            left: MAX_BUNDLE_BYTES.saturating_sub(used),
            nodes: BTreeSet::new(),
            cut,
        }
    }

    /// Adds the next event. Returns whether it fit; after one that did not, every further event is
    /// left out.
    pub fn add(&mut self, of: &Run, event: &Event, cause: Option<Seq>) -> bool {
        let doc = event_caused_by(&of.header, Mask::from_plan(&of.plan), event, cause);
        let bytes = doc.to_string().len();
        if self.events.len() >= self.most || bytes > self.left {
            self.cut.insert("events_truncated_to_size_cap");
            return false;
        }
        self.left -= bytes;
        if let Some(node) = doc["nodeId"].as_str() {
            self.nodes.insert(node.to_owned());
        }
        self.events.push(doc);
        true
    }

    /// Sets the run's spans, cut to the available space.
    pub fn show_spans(&mut self, spans: Vec<Value>, is_whole: bool) {
        self.spans = spans;
        if !is_whole {
            self.cut.insert("spans_truncated_to_size_cap");
        }
    }

    /// Builds the bundle, with the notes about the run. `at` is its time.
    pub fn build(mut self, notes: &[notes::Event], at: Timestamp) -> Value {
        let mut annotations = Vec::new();
        let mut bytes = 0;
        for note in notes {
            let note = annotation(note);
            bytes += note.to_string().len();
            if bytes > NOTES_BYTES {
                self.cut.insert("annotations_truncated_to_size_cap");
                break;
            }
            annotations.push(note);
        }
        let cost = self.run["metrics"]["openwopCost"].clone();
        let mut bundle = json!({
            "bundleVersion": "1.0",
            "generatedAt": at.to_string(),
            "host": {
                "name": "runwright",
                "version": env!("CARGO_PKG_VERSION"),
                "vendor": "runwright",
            },
            "metrics": {
                "openwopCost": cost,
                "nodeCount": self.nodes.len(),
                "eventCount": self.events.len(),
            },
            "run": self.run,
            "events": self.events,
            "spans": self.spans,
            "annotations": annotations,
            "redactionApplied": true,
            "redactionMode": "mask",
        });
        if !self.cut.is_empty() {
            let why: Vec<&str> = self.cut.into_iter().collect();
            bundle["truncated"] = json!(true);
            bundle["truncatedReason"] = json!(why.join(","));
        }
        bundle
    }
}

/// Sets the status of a run to a word of the protocol's bundle, which has fewer words than its
/// snapshot, and adds the snapshot's word.
fn say_status(run: &mut Value) {
    let exact = run["status"].take();
    run["status"] = match exact.as_str() {
        // Both wait for input from outside.
        Some("waiting-input" | "waiting-external") => json!("waiting-clarification"),
        // The run has not ended, and does not wait for an answer.
        Some("paused" | "cancelling") => json!("running"),
        _ => exact.clone(),
    };
    run["runStatus"] = exact;
}

/// Removes the largest parts of an oversized state. Returns whether any was removed.
fn shrink(run: &mut Value) -> bool {
    let mut is_cut = false;
    while let Some(fields) = run.as_object_mut() {
        let sizes = fields.values().map(|value| value.to_string().len());
        if sizes.sum::<usize>() <= RUN_BYTES {
            break;
        }
        let largest = fields
            .values_mut()
            .filter(|value| value.is_object() || value.is_array())
            .max_by_key(|value| value.to_string().len());
        let Some(largest) = largest else {
            break;
        };
        let bytes = largest.to_string().len();
        *largest = match largest {
            Value::Array(_) => json!([]),
            _ => json!({ "$truncated": bytes }),
        };
        is_cut = true;
    }
    is_cut
}

//! The events of a document's run, and of the document itself.
//!
//! They have the format of run streams, and are rendered like those of any run; a save is an
//! additional kind, `runwright.document.saved`.

use std::collections::BTreeMap;

use kernel::document::{Document, SaveRecord};
use kernel::ids::Seq;
use kernel::run::{Event, RunEvent};
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;
use serde_json::{Value, json};

use super::run_view::snapshot;
use crate::Mask;
use crate::openwop::v1::{self, Frame, StreamModes};

/// The type of a save.
const SAVED: &str = "runwright.document.saved";

/// Events of the document's log as `RunEventDoc`s, in order and without a gap, from a sequence on.
pub fn events(document: &Document, from: Seq) -> Vec<Value> {
    let header = document.header();
    let mut all: BTreeMap<Seq, Value> = BTreeMap::new();
    for implied in implied(document, from) {
        all.insert(implied.0, v1::event(header, Mask::bare(), &event(implied)));
    }
    for save in saves(document, from) {
        all.insert(save.seq, saved(header, save));
    }
    all.into_values().collect()
}

/// The frames of a document's log for a subscriber, in order, from an event on. In mode `values`
/// the current state, if it has changed since.
pub fn frames(document: &Document, from: Seq, modes: &StreamModes) -> Vec<Frame> {
    if modes.are_values() {
        return state(document, from).into_iter().collect();
    }
    let header = document.header();
    let mut all: BTreeMap<Seq, Frame> = BTreeMap::new();
    for implied in implied(document, from) {
        if let Some(frame) = v1::frame(modes, (header, Mask::bare()), &event(implied), None) {
            all.insert(implied.0, frame);
        }
    }
    if modes.show_saves() {
        for save in saves(document, from) {
            let frame = Frame {
                id: save.seq,
                event: SAVED,
                data: saved(header, save),
                urgent: false,
            };
            all.insert(save.seq, frame);
        }
    }
    all.into_values().collect()
}

fn state(document: &Document, from: Seq) -> Option<Frame> {
    let at = document
        .next_seq()
        .checked_sub(1)
        .filter(|at| *at >= from)?;
    let mut payload = snapshot(document)?;
    payload["atSeq"] = json!(at);
    let stream = &document.header().stream;
    let event = v1::STATE;
    let time = document.saves().last()?.at;
    Some(Frame {
        id: at,
        event,
        data: json!({
            "eventId": format!("{}.state", stream.event(at)), "runId": stream, "type": event,
            "payload": payload, "timestamp": time.to_string(), "sequence": at, "schemaVersion": 1,
        }),
        urgent: document.view().has_ended(),
    })
}

type Implied = (Seq, Timestamp, RunEvent);

/// Events are ordered by sequence, so the first one is found by binary search.
fn implied(document: &Document, from: Seq) -> impl Iterator<Item = &Implied> {
    let events = document.view().events();
    let first = events.partition_point(|event| event.0 < from);
    events[first..].iter().map(|event| &**event)
}

fn saves(document: &Document, from: Seq) -> impl Iterator<Item = &SaveRecord> {
    let saves = document.saves();
    let first = saves.partition_point(|save| save.seq < from);
    saves[first..].iter().map(|save| &**save)
}

fn event((seq, at, body): &Implied) -> Event {
    Event {
        seq: *seq,
        at: *at,
        cause: None,
        body: body.clone(),
    }
}

fn saved(header: &StreamHeader, save: &SaveRecord) -> Value {
    json!({
        "eventId": header.stream.event(save.seq),
        "runId": header.stream,
        "type": SAVED,
        "payload": {
            "save": save.number, "revision": save.revision, "events": save.events,
            "digest": save.digest, "via": save.via.as_str(),
        },
        "timestamp": save.at.to_string(),
        "sequence": save.seq,
        "schemaVersion": 1,
        "engineVersion": kernel::ENGINE_VERSION.to_string(),
    })
}

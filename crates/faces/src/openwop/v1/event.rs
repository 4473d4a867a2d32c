//! The envelope: a stored event as a `RunEventDoc`.

use kernel::ids::Seq;
use kernel::run::event::KINDS;
use kernel::run::{Event, RunEvent};
use kernel::stream::StreamHeader;
use serde_json::Value;

use super::fields::Fields;
use super::legacy;
use super::payload::payload;
use super::report::is_untrusted;
use crate::mask::{Mask, apply_mask};

/// Every event type this engine writes, in the order of the storage format. Those without an
/// OpenWOP name begin with `runwright.`.
pub const EVENT_TYPES: &[&str] = KINDS;

/// The version of each event type's payload contract.
const SCHEMA_VERSION: u32 = 1;

/// A stored event as a `RunEventDoc`, without the event that caused it.
pub fn event(header: &StreamHeader, mask: Mask<'_>, event: &Event) -> Value {
    event_caused_by(header, mask, event, None)
}

/// A stored event as a `RunEventDoc`. `cause` is the sequence of the first event of its batch,
/// which caused it unless the event itself names its predecessor. An event is never its own cause.
pub fn event_caused_by(
    header: &StreamHeader,
    mask: Mask<'_>,
    event: &Event,
    cause: Option<Seq>,
) -> Value {
    let (run, event) = (&header.stream, &*mask.event(event));
    let mut payload = legacy::payload(event).unwrap_or_else(|| payload(header, event));
    apply_mask(&mut payload);
    let cause = follows(&event.body)
        .or(cause)
        .filter(|&seq| seq < event.seq)
        .map(|seq| run.event(seq));
    let doc = Fields::new()
        .text("eventId", run.event(event.seq))
        .text("runId", run)
        .with("type", legacy::kind(&event.body))
        .with("payload", payload)
        .text("timestamp", event.at)
        .with("sequence", event.seq)
        .maybe_text("nodeId", event.body.node())
        .with("schemaVersion", SCHEMA_VERSION)
        .text(
            "engineVersion",
            // Logs without a version in their header are of the first version.
            header.engine_version.unwrap_or(1),
        )
        .maybe_text("causationId", cause);
    match &event.body {
        // The payload's schema allows only the question itself, so its id is next to it.
        RunEvent::InterruptRequested { interrupt_id, .. } => {
            doc.text("interruptId", interrupt_id).build()
        }
        body if is_untrusted(body) => doc.with("contentTrust", "untrusted").build(),
        _ => doc.build(),
    }
}

/// The predecessor that an event names itself: for a step of a worker, the step before.
fn follows(body: &RunEvent) -> Option<Seq> {
    match body {
        RunEvent::ChainStepped { follows, .. } | RunEvent::ConfidenceEscalated { follows, .. } => {
            *follows
        }
        _ => None,
    }
}

/// A stretch of a log as `RunEventDoc`s, each with the event that caused it.
///
/// A batch begins at the event that carries a cause. Events before the first such event are
/// rendered without one: begin at the start of a batch to get all causes.
pub fn events<'a>(
    header: &StreamHeader,
    mask: Mask<'_>,
    events: impl IntoIterator<Item = &'a Event>,
) -> Vec<Value> {
    let mut first_of_batch = None;
    events
        .into_iter()
        .map(|event| {
            if event.cause.is_some() {
                first_of_batch = Some(event.seq);
            }
            event_caused_by(header, mask, event, first_of_batch)
        })
        .collect()
}

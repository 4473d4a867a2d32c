//! An annotation of a run: an `Annotation`.

use kernel::notes::{Event, Notes, NotesEvent};
use serde_json::Value;

use super::fields::Fields;

/// A noted event as an `Annotation`.
pub fn annotation(event: &Event) -> Value {
    let NotesEvent::Annotated(said) = &event.body;
    let run = &said.run_id;
    let target = Fields::new()
        .text("runId", run)
        .maybe_text("eventId", said.target.event_seq.map(|seq| run.event(seq)))
        .maybe_text("nodeId", said.target.node_id.as_ref());
    let actor = Fields::new().with("principalRef", &said.by.principal);
    Fields::new()
        .text("annotationId", Notes::stream(run).event(event.seq))
        .with("target", target.build())
        .with("signal", &said.signal)
        .with("actor", actor.build())
        .maybe("note", said.note.as_ref())
        .text("createdAt", event.at)
        .build()
}

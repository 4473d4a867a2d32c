//! Annotations in a stream of a run's events, as they are made.
//!
//! An annotation is not an event of the run: it has no sequence in its log. Its frame has no `id`,
//! so that a client with `Last-Event-ID` resumes in the log at its position, and its data is the
//! annotation itself (OpenWOP v1 RFC 0056). A stream has only annotations made while it is open;
//! the others are in the list of annotations.

use faces::openwop::v1::{self, StreamModes};
use kernel::ids::StreamId;
use runtime::api::{Api, NotesTail};
use store::StoreError;

/// The annotations for a stream.
pub(super) struct Remarks(Option<NotesTail>);

impl Remarks {
    /// None at all.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Annotations of a run, for a stream of these modes.
    pub(super) async fn on(
        api: &Api,
        run: &StreamId,
        modes: &StreamModes,
    ) -> Result<Self, StoreError> {
        Ok(Self(if modes.tell_annotations() {
            Some(api.follow_notes(run).await?)
        } else {
            None
        }))
    }

    /// Writes the annotations since the last call.
    pub(super) async fn write(&mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let Some(notes) = &mut self.0 else {
            return Ok(());
        };
        for note in &notes.said().await? {
            out.extend_from_slice(b"event: run.annotated\ndata: ");
            let _ = serde_json::to_writer(&mut *out, &v1::annotation(note));
            out.extend_from_slice(b"\n\n");
        }
        Ok(())
    }

    /// Waits until there may be something to write.
    pub(super) async fn changed(&mut self) {
        match &mut self.0 {
            Some(notes) => notes.changed().await,
            None => std::future::pending().await,
        }
    }
}

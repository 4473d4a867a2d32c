//! Notes: additions to a run that are possible even after its end.
//!
//! Each run has a notes stream of its own, begun with the first annotation, so that the run's log,
//! and every fork of it, stays unchanged. Erasing the run erases its notes.
//!
//! Notes only grow, and each is independent: the next one needs the last link of the chain and the
//! number of notes, which are in the last record.

mod event;
#[cfg(test)]
mod tests;

use serde_json::json;

use crate::audit::{Actor, AuditAction, Subject};
use crate::batch::{Batch, IndexRow, KeyClaim};
use crate::ids::{Seq, StreamId};
use crate::limits::{MAX_ANNOTATIONS, MAX_LABEL_BYTES, MAX_NOTE_BYTES};
use crate::log::{Aggregate, Draft, Log, Resumable};
use crate::stream::{Owner, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use event::{Annotation, Event, NotesEvent, Signal, Target};

/// An annotation to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotate {
    /// The part of the run. The caller checks that it exists.
    pub target: Target,
    /// Its content.
    pub signal: Signal,
    /// An explanation.
    pub note: Option<String>,
    /// Its author.
    pub by: Actor,
}

/// Why an annotation is rejected. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A rating outside its range.
    #[error("a rating is a whole number from 1 to 5")]
    Rating,
    /// A text is empty or too long.
    #[error("{what} has 1 to {most} bytes")]
    Words {
        /// The text.
        what: &'static str,
        /// Its maximum length in bytes.
        most: usize,
    },
    /// The maximum number of annotations is reached.
    #[error("a run has at most {MAX_ANNOTATIONS} annotations")]
    Full,
}

impl Rejection {
    /// Stable, snake_case, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rating | Self::Words { .. } => "validation_error",
            Self::Full => "too_many_annotations",
        }
    }
}

/// The end of a notes stream.
pub type Notes = Log<About>;

/// The state of notes: the run they are about; an empty id before the first event says it.
#[derive(Clone, Debug)]
pub struct About(StreamId);

impl Aggregate for About {
    type Event = Event;
    type Body = NotesEvent;

    fn at_start() -> Self {
        Self(StreamId::new(""))
    }

    fn event(log: &Notes, at: Timestamp, body: NotesEvent) -> Event {
        Event::next(log, at, body)
    }

    fn place(event: &Event) -> (Seq, Timestamp) {
        (event.seq, event.at)
    }

    fn accepts(log: &Notes, event: &Event) -> bool {
        let NotesEvent::Annotated(annotation) = &event.body;
        let About(run) = &log.state;
        run.as_str().is_empty() || *run == annotation.run_id
    }

    fn fold(&mut self, _: &StreamHeader, event: &Event, _: &[u8]) {
        let NotesEvent::Annotated(annotation) = &event.body;
        self.0 = annotation.run_id.clone();
    }

    fn index(log: &Notes) -> IndexRow {
        let summary = json!({ "annotations": log.next_seq });
        IndexRow::new(&log.header, log.at, (log.state.0.as_str(), "open"), summary)
    }
}

impl Resumable for About {
    fn after(event: Event, _: &[u8], _: &IndexRow) -> Self {
        let NotesEvent::Annotated(annotation) = event.body;
        Self(annotation.run_id)
    }
}

impl Notes {
    /// The stream of a run's notes. Derived, because there is one per run.
    pub fn stream(run: &StreamId) -> StreamId {
        StreamId::derived("notes", &[run.as_str()])
    }

    /// Empty notes about a run of this owner.
    pub fn unborn(run: &StreamId, owner: &Owner, now: Timestamp) -> Self {
        let stream = Self::stream(run);
        let header = StreamHeader::new(stream, StreamKind::Notes, owner.clone(), now);
        let mut notes = Self::at_start(header.seal_genesis());
        notes.state = About(run.clone());
        notes
    }

    /// Decides to record an annotation, and sends an entry to the audit trail. A claimed key lets
    /// it be found again.
    ///
    /// # Errors
    /// See [`Rejection`].
    pub fn annotate(
        self,
        said: Annotate,
        claim: Option<KeyClaim>,
        now: Timestamp,
    ) -> Result<(Batch, Event), Rejection> {
        check(&said)?;
        if self.next_seq >= MAX_ANNOTATIONS {
            return Err(Rejection::Full);
        }
        let run_id = self.state.0.clone();
        let mut subject = Subject::new("run", run_id.as_str());
        subject.workspace.clone_from(&self.header.owner.workspace);
        let body = NotesEvent::Annotated(Annotation {
            run_id,
            target: said.target,
            signal: said.signal,
            by: said.by.clone(),
            note: said.note,
        });
        let mut draft = Draft::new(self, now);
        let event = Event::next(&draft.log, draft.now, body.clone());
        draft.keys.extend(claim);
        draft.audit(AuditAction::RunAnnotated, subject, &said.by);
        draft.emit(body);
        Ok((draft.seal().0, event))
    }
}

fn check(said: &Annotate) -> Result<(), Rejection> {
    let words = |what, text: &str, most| {
        if text.trim().is_empty() || text.len() > most {
            Err(Rejection::Words { what, most })
        } else {
            Ok(())
        }
    };
    match &said.signal {
        Signal::Rating { rating } if !(1..=5).contains(rating) => return Err(Rejection::Rating),
        Signal::Correction { correction } => words("a correction", correction, MAX_NOTE_BYTES)?,
        Signal::Label { label } => words("a label", label, MAX_LABEL_BYTES)?,
        Signal::Rating { .. } | Signal::Flag => {}
    }
    match &said.note {
        Some(note) => words("a note", note, MAX_NOTE_BYTES),
        None => Ok(()),
    }
}

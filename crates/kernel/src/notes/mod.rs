//! Notes: what may still be said about a run when nothing can happen in it any more.
//!
//! A stream of its own per run, begun with the first thing that is said, so that the run's log,
//! and every fork of it, stays what it was. Who erases the run erases its notes.
//!
//! Notes only grow, and each stands for itself: the next one needs the last link of the chain and
//! how many there are, which stand with the last record.

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

/// Something somebody wants to say about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotate {
    /// The part it is about. Whether the run has it is for the caller to know.
    pub target: Target,
    /// What it says.
    pub signal: Signal,
    /// Why, in words.
    pub note: Option<String>,
    /// Who says it.
    pub by: Actor,
}

/// Why something is not noted. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A rating outside its range.
    #[error("a rating is a whole number from 1 to 5")]
    Rating,
    /// Words that are missing, or too many of them.
    #[error("{what} has 1 to {most} bytes")]
    Words {
        /// Which words.
        what: &'static str,
        /// How many bytes they may have.
        most: usize,
    },
    /// Enough was said.
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

    /// Decides to note something, and tells the audit trail. A key that is claimed with it lets it
    /// be found again.
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

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

use crate::audit::{self, Actor, AuditAction, Entry, Outcome, Subject};
use crate::batch::{Batch, IndexRow, KeyClaim, Record};
use crate::digest::Digest;
use crate::ids::{MessageId, Seq, StreamId};
use crate::json;
use crate::limits::{MAX_ANNOTATIONS, MAX_LABEL_BYTES, MAX_NOTE_BYTES};
use crate::stream::{FORMAT_VERSION, Owner, Policy, StreamHeader, StreamKind};
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
#[derive(Clone, Debug)]
pub struct Notes {
    header: StreamHeader,
    run: StreamId,
    next_seq: Seq,
    chain: Digest,
    at: Timestamp,
}

impl Notes {
    /// The stream of a run's notes. Derived, because there is one per run.
    pub fn stream(run: &StreamId) -> StreamId {
        let hex = Digest::of(format!("notes\0{run}").as_bytes()).to_string();
        StreamId::new(format!("notes-{}", &hex[..32]))
    }

    /// Notes in which nothing was said yet about a run of this owner.
    pub fn unborn(run: &StreamId, owner: &Owner, now: Timestamp) -> Self {
        let header = StreamHeader {
            stream: Self::stream(run),
            kind: StreamKind::Notes,
            owner: owner.clone(),
            format: FORMAT_VERSION,
            created_at: now,
            definition: None,
            origin: None,
            parent: None,
            trace: None,
            engine_version: None,
            policy: Policy::default(),
            genesis: Digest([0; 32]),
            predecessor: None,
            nonce: None,
        }
        .seal_genesis();
        Self {
            run: run.clone(),
            next_seq: 0,
            chain: header.genesis,
            at: now,
            header,
        }
    }

    /// The fold of a log, event by event: the first one says which run it is about. `None` for
    /// what is no event of this stream's format or place.
    pub fn at_start(header: StreamHeader, first: &[u8]) -> Option<(Self, Event)> {
        let event: Event = serde_json::from_slice(first).ok()?;
        let NotesEvent::Annotated(annotation) = &event.body;
        let mut notes = Self {
            run: annotation.run_id.clone(),
            next_seq: 0,
            chain: header.genesis,
            at: header.created_at,
            header,
        };
        let event = notes.fold_content(first)?;
        Some((notes, event))
    }

    /// The fold of a log, from its last record alone. `None` where that is no event of notes.
    pub fn at_end(header: StreamHeader, last: &Record) -> Option<Self> {
        let event: Event = serde_json::from_slice(&last.content).ok()?;
        let NotesEvent::Annotated(annotation) = event.body;
        Some(Self {
            run: annotation.run_id,
            next_seq: event.seq + 1,
            chain: last.chain,
            at: event.at,
            header,
        })
    }

    /// Folds a stored event and gives it back. `None` when it is not an event of this stream's
    /// format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<Event> {
        let event: Event = serde_json::from_slice(content).ok()?;
        let NotesEvent::Annotated(annotation) = &event.body;
        let is_next = event.seq == self.next_seq && event.at >= self.at;
        (is_next && annotation.run_id == self.run).then_some(())?;
        self.next_seq += 1;
        self.at = event.at;
        self.chain = self.chain.chain(content);
        Some(event)
    }

    /// The place of what is noted next.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// Decides to note something, and tells the audit trail. A key that is claimed with it lets it
    /// be found again.
    ///
    /// # Errors
    /// See [`Rejection`].
    pub fn annotate(
        mut self,
        said: Annotate,
        claim: Option<KeyClaim>,
        now: Timestamp,
    ) -> Result<(Batch, Event), Rejection> {
        check(&said)?;
        if self.next_seq >= MAX_ANNOTATIONS {
            return Err(Rejection::Full);
        }
        let is_first = self.next_seq == 0;
        let event = Event {
            seq: self.next_seq,
            at: now.max(self.at),
            body: NotesEvent::Annotated(Annotation {
                run_id: self.run.clone(),
                target: said.target,
                signal: said.signal,
                by: said.by.clone(),
                note: said.note,
            }),
        };
        let content = json::canonical(&event);
        let chain = self.chain.chain(&content);
        self.next_seq += 1;
        (self.at, self.chain) = (event.at, chain);
        let (stream, owner) = (&self.header.stream, &self.header.owner);
        let mut subject = Subject::new("run", self.run.as_str());
        subject.workspace.clone_from(&owner.workspace);
        let told = audit::message(
            &owner.tenant,
            Entry {
                message: MessageId::new(format!("{stream}.{}", event.seq)),
                decided_at: event.at,
                action: AuditAction::RunAnnotated,
                by: said.by,
                on: subject,
                outcome: Outcome::Done,
            },
        );
        let batch = Batch {
            stream: stream.clone(),
            tenant: owner.tenant.clone(),
            header: is_first.then(|| self.header.clone()),
            first_seq: event.seq,
            records: vec![Record { content, chain }],
            index: self.index(),
            timers: Vec::new(),
            keys: Vec::from_iter(claim),
            outbox: vec![told],
            blobs: Vec::new(),
        };
        Ok((batch, event))
    }

    /// The index row of this state.
    pub fn index(&self) -> IndexRow {
        IndexRow {
            kind: StreamKind::Notes,
            workspace: self.header.owner.workspace.clone(),
            subject: self.run.to_string(),
            status: "open".into(),
            settled: false,
            runnable: false,
            queue: self.header.policy.queue.clone(),
            priority: 0,
            concurrency_key: None,
            parent: None,
            created_at: self.header.created_at,
            updated_at: self.at,
            tags: Vec::new(),
            summary: json!({ "annotations": self.next_seq }),
        }
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

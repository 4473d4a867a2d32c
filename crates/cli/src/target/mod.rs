//! The runs that a command works on: those of a store, or those of a server.
//!
//! A command is written once, over [`Target`]. Only an operation differs between the two.

mod lines;
mod listing;
mod server;
mod store;
mod view;
pub(crate) mod watch;

use async_trait::async_trait;
use kernel::ids::{Seq, StreamId};
use kernel::notes::{Signal, Target as NoteTarget};
use kernel::run::event::DrainPolicy;
use kernel::time::Timestamp;
use serde_json::Value;

use crate::exit::Failure;
use crate::lookup::RunName;
use crate::session::{Form, Session};

pub(crate) use listing::{Filter, Listing, Row};
pub(crate) use server::{Server, exit};
pub(crate) use store::{StoreTarget, holder_name};
pub(crate) use view::{ArtifactRow, RunView, say_end};

/// The use of a run that a command looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It shows its state. Runs that a browser app saved are found too.
    Show,
    /// It reads its log, or changes it.
    Use,
    /// It ends it. A run with a similar name is not suggested.
    End,
}

/// Whether a command changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// It only reads.
    Read,
    /// It changes a run.
    Write,
}

/// A position in the log of a run.
pub(crate) struct Cursor {
    /// The run.
    pub run: StreamId,
    /// The last event that was read.
    pub after: Option<Seq>,
    /// The first event of the last batch that was read.
    pub cause: Option<Seq>,
    /// Whether the run has ended and all its events were read.
    pub is_complete: bool,
}

impl Cursor {
    /// The position after an event, or before the first one.
    pub(crate) fn new(run: StreamId, after: Option<Seq>) -> Self {
        Self {
            run,
            after,
            cause: None,
            is_complete: false,
        }
    }
}

/// An event for display.
pub(crate) struct EventLine {
    /// Its type.
    pub kind: String,
    /// Its time, if it is readable.
    pub at: Option<Timestamp>,
    /// The line for people, or the JSON document.
    pub text: String,
}

/// An annotation to make.
pub(crate) struct NewNote {
    /// The part of the run.
    pub target: NoteTarget,
    /// Its content.
    pub signal: Signal,
    /// An explanation.
    pub note: Option<String>,
}

/// Receives the bytes of an artifact, piece by piece.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Failure>;

/// The runs of a store, or of a server.
#[async_trait(?Send)]
pub(crate) trait Target {
    /// The run with this name: an id, a part of one, or `last`.
    async fn find(&self, name: &RunName, purpose: Purpose) -> Result<StreamId, Failure>;

    /// The runs that a filter matches, newest first.
    async fn list(&self, filter: Filter<'_>) -> Result<Listing, Failure>;

    /// The state of a run in the protocol's form.
    async fn snapshot(&self, run: &StreamId) -> Result<Value, Failure>;

    /// The same for a run that may have been erased.
    async fn ancestor(&self, run: &StreamId) -> Result<Option<Value>, Failure>;

    /// The state of a run for people.
    async fn view(&self, run: &StreamId) -> Result<RunView, Failure>;

    /// Every type of event, if it is known.
    fn event_types(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// The next recorded events; empty at the end of the log.
    async fn events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure>;

    /// The same, after waiting a while for an event at the end of the log.
    async fn new_events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure>;

    /// The open questions of a run, or of all runs, each with its `runId`, in the protocol's form.
    async fn questions(&self, run: Option<&StreamId>) -> Result<Vec<Value>, Failure>;

    /// Answers the question of a node. Returns the status of the run.
    async fn resolve(
        &self,
        run: &StreamId,
        node: &str,
        value: Value,
        who: Option<&str>,
    ) -> Result<String, Failure>;

    /// Cancels a run. Returns its status.
    async fn cancel(&self, run: &StreamId, reason: Option<String>) -> Result<String, Failure>;

    /// Pauses a run. Returns whether it is paused already.
    async fn pause(
        &self,
        run: &StreamId,
        policy: DrainPolicy,
        reason: Option<String>,
    ) -> Result<bool, Failure>;

    /// Ends the pause of a run.
    async fn unpause(&self, run: &StreamId, reason: Option<String>) -> Result<(), Failure>;

    /// Prints which process acts on a change of a run, if that is not plain.
    async fn say_who_acts(&self, _run: &StreamId) -> Result<(), Failure> {
        Ok(())
    }

    /// The annotations of a run, in the protocol's form.
    async fn notes(&self, run: &StreamId) -> Result<Vec<Value>, Failure>;

    /// Annotates a run. Returns the annotation in the protocol's form.
    async fn annotate(&self, run: &StreamId, note: NewNote) -> Result<Value, Failure>;

    /// The differences of two runs, in the protocol's form.
    async fn diff(&self, run: &StreamId, other: &StreamId) -> Result<Value, Failure>;

    /// A run in one document, with at most this many events.
    async fn bundle(&self, run: &StreamId, max_events: Option<usize>) -> Result<Value, Failure>;

    /// The artifacts of a run.
    async fn artifacts(&self, run: &StreamId) -> Result<Vec<ArtifactRow>, Failure>;

    /// Reads an artifact. The sink first receives an empty piece, once access is granted.
    async fn artifact(&self, run: &StreamId, id: &str, to: Sink<'_>) -> Result<(), Failure>;
}

/// The named server, else the store.
pub(crate) fn open(session: &Session, intent: Intent) -> Result<Box<dyn Target + '_>, Failure> {
    Ok(match (&session.remote, intent) {
        (Some(remote), _) => Box::new(Server(remote)),
        (None, Intent::Read) => Box::new(StoreTarget::new(session, session.read()?)),
        (None, Intent::Write) => Box::new(StoreTarget::new(session, session.write()?)),
    })
}

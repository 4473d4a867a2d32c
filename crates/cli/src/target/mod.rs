//! The runs that a command works on: those of a store, of a server, or of another host that speaks
//! OpenWOP 2.
//!
//! A command is written once, over [`Target`]. Only the operations differ.

mod lines;
mod listing;
mod openwop;
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
use crate::remote::Remote;
use crate::session::{Form, Session};
use openwop::{Host, Kind};

pub(crate) use listing::{Filter, Listing, Row};
pub(crate) use server::{Server, exit};
pub(crate) use store::{StoreTarget, holder_name, served_by};
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
    /// The name of the same type in version 1, if it is another one.
    pub native: Option<&'static str>,
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

/// The runs of a store, a server or a host. An operation that it does not have is refused.
#[async_trait(?Send)]
pub(crate) trait Target {
    /// The refusal of a command that it does not have.
    fn cannot(&self, command: &str) -> Failure {
        Failure::new(format!("`{command}` does not work here"))
    }

    /// The run with this name: an id, a part of one, or `last`.
    async fn find(&self, name: &RunName, purpose: Purpose) -> Result<StreamId, Failure>;

    /// The runs that a filter matches, newest first.
    async fn list(&self, filter: Filter<'_>) -> Result<Listing, Failure>;

    /// The state of a run in the protocol's form.
    async fn snapshot(&self, run: &StreamId) -> Result<Value, Failure>;

    /// The same for a run that may have been erased.
    async fn ancestor(&self, _run: &StreamId) -> Result<Option<Value>, Failure> {
        Err(self.cannot("runs ancestry"))
    }

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
    async fn notes(&self, _run: &StreamId) -> Result<Vec<Value>, Failure> {
        Err(self.cannot("runs note"))
    }

    /// Annotates a run. Returns the annotation in the protocol's form.
    async fn annotate(&self, _run: &StreamId, _note: NewNote) -> Result<Value, Failure> {
        Err(self.cannot("runs note"))
    }

    /// The differences of two runs, in the protocol's form.
    async fn diff(&self, _run: &StreamId, _other: &StreamId) -> Result<Value, Failure> {
        Err(self.cannot("runs diff"))
    }

    /// The drawing of the definition that a run follows, if it has one.
    async fn graph(&self, _run: &StreamId) -> Result<Option<Value>, Failure> {
        Ok(None)
    }

    /// A run in one document, with at most this many events.
    async fn bundle(&self, _run: &StreamId, _max_events: Option<usize>) -> Result<Value, Failure> {
        Err(self.cannot("runs bundle"))
    }

    /// The artifacts of a run.
    async fn artifacts(&self, _run: &StreamId) -> Result<Vec<ArtifactRow>, Failure> {
        Err(self.cannot("runs artifact"))
    }

    /// Reads an artifact. The sink first receives an empty piece, once access is granted.
    async fn artifact(&self, _run: &StreamId, _id: &str, _to: Sink<'_>) -> Result<(), Failure> {
        Err(self.cannot("runs artifact"))
    }
}

/// The named server or host, else the store.
pub(crate) async fn open(
    session: &Session,
    intent: Intent,
) -> Result<Box<dyn Target + '_>, Failure> {
    let Some(remote) = &session.remote else {
        let door = match intent {
            Intent::Read => session.read()?,
            Intent::Write => session.write()?,
        };
        return Ok(Box::new(StoreTarget::new(session, door)));
    };
    Ok(match openwop::discover(remote).await? {
        Kind::Runwright => Box::new(Server(remote)),
        Kind::Other(name) => Box::new(Host { remote, name }),
    })
}

/// The named server, for a command that other hosts do not have.
pub(crate) async fn server<'a>(
    session: &'a Session,
    command: &str,
) -> Result<Option<&'a Remote>, Failure> {
    let Some(remote) = &session.remote else {
        return Ok(None);
    };
    match openwop::discover(remote).await? {
        Kind::Runwright => Ok(Some(remote)),
        Kind::Other(name) => Err(openwop::refuse(&name, command)),
    }
}

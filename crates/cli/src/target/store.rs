//! Runs of a store.

mod reading;
mod view;

use async_trait::async_trait;
use faces::openwop::v1;
use faces::player::names::is_session_id;
use faces::workbench::run_view;
use kernel::audit::Actor;
use kernel::ids::StreamId;
use kernel::notes::{Annotate, Signal};
use kernel::run::event::DrainPolicy;
use kernel::run::{Capacity, Command, Envelope, Rejection, Run, RunStatus};
use kernel::stream::StreamKind;
use runtime::door::{Door, NotesError};
use runtime::redact::Redactor;
use runtime::{DoorError, servers};
use serde_json::Value;
use store::{ListQuery, StoreError};

use super::{
    ArtifactRow, Cursor, EventLine, Filter, Listing, NewNote, Purpose, RunView, Sink, Target,
};
use crate::budget::Used;
use crate::exit::Failure;
use crate::lookup::{self, RunName, Shown, short};
use crate::session::{Form, Session};
use crate::{faces_json, questions, style, talk, text};

pub(crate) use view::holder_name;

/// Statuses of runs with possible questions: one that is active in a branch may ask in another.
const ASKING: [RunStatus; 5] = [
    RunStatus::WaitingApproval,
    RunStatus::WaitingInput,
    RunStatus::WaitingExternal,
    RunStatus::Paused,
    RunStatus::Running,
];
/// Runs whose questions are listed.
const MAX_ASKING: usize = 500;

/// The server that drives the runs of the store, if there is one.
pub(crate) async fn served_by(session: &Session, door: &Door) -> Result<Option<String>, Failure> {
    if session.database.is_none() {
        let is_served = session.place.is_served()?;
        return Ok(is_served.then(|| "the server".to_owned()));
    }
    let alive = servers::alive(&**door.store()).await?;
    Ok(alive.first().map(|server| {
        let machine = holder_name(&server.holder);
        format!(
            "the server {} ({machine})",
            text::one_line(&server.address, 80)
        )
    }))
}

/// The runs of a store.
pub(crate) struct StoreTarget<'a> {
    session: &'a Session,
    door: Door,
}

impl<'a> StoreTarget<'a> {
    /// The runs of an open store.
    pub(crate) fn new(session: &'a Session, door: Door) -> Self {
        Self { session, door }
    }

    /// Sends a command to a run through the door; its driver finds it in the log.
    pub(crate) async fn tell(&self, run: &StreamId, command: Command) -> Result<Run, DoorError> {
        let done = self.door.transact(run, &Envelope::from(command)).await?;
        Ok(done.run)
    }

    /// Whether an id is that of a run that a browser app saved.
    async fn is_document(&self, id: &StreamId) -> Result<bool, Failure> {
        let loaded = self.door.store().load_head(id).await?;
        Ok(loaded.header.kind == StreamKind::Document)
    }

    /// A run that a browser app saved, in the protocol's form.
    async fn document(&self, id: &StreamId) -> Result<Value, Failure> {
        let document = self.door.document(id).await?.document;
        Ok(run_view::snapshot(&document).unwrap_or_default())
    }

    /// Checks that the target of a note exists.
    async fn check_note(&self, state: &Run, note: &NewNote) -> Result<(), Failure> {
        let events = state.head.next_seq;
        if note.target.event_seq.is_some_and(|seq| seq >= events) {
            let events = text::count(events as usize, "event");
            return Err(Failure::new(format!("the run has {events}")));
        }
        let node = note.target.node_id.as_ref();
        if node.is_some_and(|node| state.plan.node_ix(node.as_str()).is_none()) {
            let what = "the run's workflow has no such node";
            return Err(Failure::new(what).hint("`runwright runs show` lists its nodes"));
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Target for StoreTarget<'_> {
    async fn find(&self, name: &RunName, purpose: Purpose) -> Result<StreamId, Failure> {
        match purpose {
            Purpose::Use => lookup::find(&self.door, name).await,
            Purpose::End => lookup::find_to_end(&self.door, name).await,
            Purpose::Show => match lookup::find_to_show(&self.door, name).await? {
                Shown::Run(id) | Shown::Document(id) => Ok(id),
            },
        }
    }

    async fn list(&self, filter: Filter<'_>) -> Result<Listing, Failure> {
        reading::list(&self.door, filter).await
    }

    async fn snapshot(&self, run: &StreamId) -> Result<Value, Failure> {
        if self.is_document(run).await? {
            return self.document(run).await;
        }
        Ok(faces_json::snapshot(&self.door.load_to_show(run).await?))
    }

    async fn ancestor(&self, run: &StreamId) -> Result<Option<Value>, Failure> {
        match self.door.load(run).await {
            Ok(run) => Ok(Some(faces_json::snapshot(&run))),
            Err(StoreError::Missing) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn view(&self, run: &StreamId) -> Result<RunView, Failure> {
        if self.is_document(run).await? {
            let snapshot = self.document(run).await?;
            return Ok(RunView::from_snapshot(run, &snapshot, &Used::default()));
        }
        view::load(&self.door, run).await
    }

    fn event_types(&self) -> Option<&'static [&'static str]> {
        Some(faces_json::event_types())
    }

    async fn events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure> {
        reading::events(&self.door, cursor, form).await
    }

    async fn new_events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure> {
        reading::new_events(&self.door, cursor, form).await
    }

    async fn questions(&self, run: Option<&StreamId>) -> Result<Vec<Value>, Failure> {
        let runs = match run {
            Some(run) => vec![run.clone()],
            None => {
                let query = ListQuery {
                    statuses: ASKING.map(|status| status.to_string()).into(),
                    limit: MAX_ASKING,
                    ..ListQuery::default()
                };
                let rows = lookup::all(&self.door, query).await?;
                rows.into_iter().map(|row| row.stream).collect()
            }
        };
        let mut open = Vec::new();
        for run in runs {
            let run = self.door.load(&run).await?;
            for mut question in v1::open_interrupts(&run) {
                question["runId"] = run.header.stream.as_str().into();
                open.push(question);
            }
        }
        Ok(open)
    }

    async fn resolve(
        &self,
        run: &StreamId,
        node: &str,
        mut value: Value,
        who: Option<&str>,
    ) -> Result<String, Failure> {
        Redactor::default().value(&mut value);
        let state = self.door.load(run).await?;
        let open = v1::open_interrupts(&state);
        let Some(question) = questions::choose(run, &open, Some(node))? else {
            return Err(questions::nothing_asked(run, state.status().as_str()));
        };
        let interrupt = question["interruptId"].as_str().unwrap_or_default();
        let command = Command::Resolve {
            interrupt: interrupt.into(),
            value,
            by: Some(who.unwrap_or("cli").to_owned()),
            capacity: Capacity::default(),
        };
        Ok(self.tell(run, command).await?.status().to_string())
    }

    async fn cancel(&self, run: &StreamId, reason: Option<String>) -> Result<String, Failure> {
        let command = Command::Cancel {
            reason,
            by: Some(Actor::operator()),
            parent: None,
        };
        let state = self.tell(run, command).await?;
        crate::trail::deliver(&self.door).await;
        Ok(state.status().to_string())
    }

    async fn pause(
        &self,
        run: &StreamId,
        policy: DrainPolicy,
        reason: Option<String>,
    ) -> Result<bool, Failure> {
        match self.tell(run, Command::Pause { reason, policy }).await {
            Ok(state) => Ok(state.status() == RunStatus::Paused),
            // The pending pause is the requested one.
            Err(DoorError::Rejected(Rejection::AlreadyDraining)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn unpause(&self, run: &StreamId, reason: Option<String>) -> Result<(), Failure> {
        self.tell(run, Command::Resume { reason }).await?;
        Ok(())
    }

    async fn say_who_acts(&self, run: &StreamId) -> Result<(), Failure> {
        let store = self.door.store();
        let loaded = match store.load_head(run).await {
            Err(StoreError::Missing) => return Ok(()),
            loaded => loaded?,
        };
        let now = store.now();
        let is_driven = loaded.lease.is_some_and(|lease| {
            lease.expires_at > now && !runtime::holder::is_dead(&lease.holder)
        });
        if !loaded.index.runnable || is_driven {
            return Ok(());
        }
        let id = short(run);
        let next = style::dim("next:");
        talk::say(match served_by(self.session, &self.door).await? {
            Some(server) => format!(
                "{next} {server} of this store applies it; `runwright runs tail {id}` follows the \
                 run"
            ),
            None => {
                let resume = if is_session_id(id) {
                    "play --resume"
                } else {
                    "resume"
                };
                format!("{next} no process drives this run; `runwright {resume} {id}` drives it")
            }
        });
        Ok(())
    }

    async fn notes(&self, run: &StreamId) -> Result<Vec<Value>, Failure> {
        let notes = self.door.notes(run).await?;
        Ok(notes.iter().map(v1::annotation).collect())
    }

    async fn annotate(&self, run: &StreamId, note: NewNote) -> Result<Value, Failure> {
        let state = self.door.load(run).await?;
        self.check_note(&state, &note).await?;
        let redactor = Redactor::masking();
        let clean = |text: String| redactor.text(&text).into_owned();
        let note = Annotate {
            target: note.target,
            signal: match note.signal {
                Signal::Label { label } => Signal::Label {
                    label: clean(label),
                },
                Signal::Correction { correction } => Signal::Correction {
                    correction: clean(correction),
                },
                signal @ (Signal::Rating { .. } | Signal::Flag) => signal,
            },
            note: note.note.map(clean),
            by: Actor::operator(),
        };
        let owner = &state.header.owner;
        let noted = self.door.annotate(run, owner, note, |_| None).await;
        let noted = noted.map_err(|error| match error {
            NotesError::Rejected(rejection) => Failure::new(rejection.to_string()),
            NotesError::Store(error) => error.into(),
        })?;
        runtime::access::trail::deliver(&**self.door.store()).await?;
        Ok(v1::annotation(&noted))
    }

    async fn diff(&self, run: &StreamId, other: &StreamId) -> Result<Value, Failure> {
        reading::diff(&self.door, run, other).await
    }

    async fn graph(&self, run: &StreamId) -> Result<Option<Value>, Failure> {
        let run = self.door.load_to_show(run).await?;
        Ok(Some(faces::graph::draw(&run.plan)))
    }

    async fn bundle(&self, run: &StreamId, max_events: Option<usize>) -> Result<Value, Failure> {
        reading::bundle(&self.door, run, max_events).await
    }

    async fn artifacts(&self, run: &StreamId) -> Result<Vec<ArtifactRow>, Failure> {
        Ok(view::artifacts(&self.door.load(run).await?))
    }

    async fn artifact(&self, run: &StreamId, id: &str, to: Sink<'_>) -> Result<(), Failure> {
        reading::artifact(&self.door, run, id, to).await
    }
}

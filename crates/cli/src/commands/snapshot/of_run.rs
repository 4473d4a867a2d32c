//! The replay of a run's snapshot: a fork of the run by the engine.
//!
//! `verify` decides its log again and executes nothing. The other kinds are branches from its
//! beginning: nodes of a served kind are answered from the log, the others do their work. A branch
//! is in a separate queue, so that no other engine drives it.

use std::sync::Arc;

use capture::attempts::Attempts;
use capture::nodes::{RerunReport, again};
use capture::replayer::{Divergence, Reason, Side};
use faces::provenance::document::{MatchStatus, Snapshot};
use faces::provenance::document_capture::DOCUMENT;
use faces::provenance::ladder::Strategy;
use faces::provenance::seal::seal;
use faces::{Mask, apply_mask};
use kernel::audit::Actor;
use kernel::ids::StreamId;
use kernel::replay;
use kernel::run::{Command, Envelope, Event, Overlay, Run};
use kernel::stream::{ForkMode, Policy};
use parking_lot::Mutex;
use provenance::Redaction;
use runtime::door::Door;
use runtime::engine::{Engine, EngineOptions, Scope, new_run_id};
use runtime::{DoorError, ForkFailed, ForkSpec, Forked};
use serde_json::json;
use store::StoreError;

use super::REPLAY_QUEUE;
use super::again::{Facts, Replayed, at_most};
use super::command::said;
use super::from_run;
use super::how::{Held, Judge};
use super::kind::{Kind, NotReplayed, ReplayError};
use crate::args::PortArgs;
use crate::compose;
use crate::driving::{self, Ended, Until};
use crate::exit::Failure;
use crate::follow::Follower;
use crate::live::{Detail, Live};
use crate::prompt::Prompt;
use crate::session::Session;

/// The tag of branches for replays.
const TAG: &str = "replay";

/// A replay of a run.
pub(super) struct OfRun<'a> {
    pub recorded: &'a Snapshot,
    pub run: &'a str,
    pub kind: Kind,
    pub judge: &'a Judge,
    pub ports: &'a PortArgs,
}

impl OfRun<'_> {
    /// Does it again once.
    pub(super) async fn once(&self, session: &Session) -> Result<Replayed, ReplayError> {
        if !session.may_have_store() {
            return Err(self.no_run().into());
        }
        if let Some(save) = self.save() {
            let door = session.read()?;
            return match self.kind {
                Kind::Verify => self.read_again(&door, save).await,
                _ => Err(NotReplayed::OfBrowser.into()),
            };
        }
        let door = session.write()?;
        match self.kind {
            Kind::Verify => self.verify(&door, session).await,
            Kind::Env | Kind::Model | Kind::Rerun => self.branch(&door, session).await,
        }
    }

    fn no_run(&self) -> NotReplayed {
        NotReplayed::NoRun(crate::text::one_line(self.run, 80))
    }

    /// For a run that a browser recorded, the number of its save.
    fn save(&self) -> Option<u64> {
        let more = self.recorded.extensions.as_ref()?;
        more.other.get(DOCUMENT)?["save"].as_u64()
    }

    /// Folds the log of a document again up to the save.
    async fn read_again(&self, door: &Door, save: u64) -> Result<Replayed, ReplayError> {
        let id = StreamId::new(self.run);
        if let Err(StoreError::Missing) = door.document_history(&id).await {
            return Err(self.no_run().into());
        }
        let redaction = Redaction::of_environment(std::env::vars());
        let captured = from_run::read_document(door, &id, Some(save), &redaction).await?;
        let snapshot = seal(captured.snapshot, &mut |value| redaction.value(value));
        let snapshot = snapshot.map_err(said)?;
        self.judged(snapshot, (None, false), Facts::default()).await
    }

    /// Forks the run.
    async fn fork(&self, engine: &Engine, order: ForkSpec) -> Result<Forked, ReplayError> {
        match engine.fork(&StreamId::new(self.run), order).await {
            Ok(forked) => Ok(forked),
            Err(ForkFailed::Door(DoorError::Store(StoreError::Missing))) => {
                Err(self.no_run().into())
            }
            Err(ForkFailed::Door(error)) => Err(error.into()),
            Err(ForkFailed::Refused(refused)) => {
                Err(Failure::new(format!("the run cannot be replayed: {refused}")).into())
            }
        }
    }

    /// Decides the log again without executing anything: every outcome is that of the log.
    async fn verify(&self, door: &Door, session: &Session) -> Result<Replayed, ReplayError> {
        let engine = compose::engine(session, door, self.ports)?;
        let order = ForkSpec::new(ForkMode::Replay, None);
        let forked = self.fork(&engine, order).await?;
        let mask = Mask::from_plan(&forked.run.plan);
        let divergence = forked.divergence.as_ref();
        let divergence = divergence.map(|found| decided_otherwise(found, mask));
        let facts = Facts {
            run_status: forked.run.status().to_string(),
            ..Facts::default()
        };
        let has_left = divergence.is_some();
        let snapshot = captured_again(door, &forked.run).await?;
        self.judged(snapshot, (divergence, has_left), facts).await
    }

    /// Replays it as a branch from its beginning, partly live.
    async fn branch(&self, door: &Door, session: &Session) -> Result<Replayed, ReplayError> {
        let source = match door.load(&StreamId::new(self.run)).await {
            Ok(source) => source,
            Err(StoreError::Missing) => return Err(self.no_run().into()),
            Err(error) => return Err(error.into()),
        };
        let (logs, missing) = from_run::family(door, &source).await?;
        if let (Some(missing), false) = (missing.first(), self.kind == Kind::Rerun) {
            return Err(NotReplayed::NoStarted(missing.to_string()).into());
        }
        let fork = new_run_id();
        let mut recorded = Attempts::from_logs(&logs);
        recorded.known_in(&fork);
        let recorded = Arc::new(recorded);
        let told = Arc::new(Mutex::new(RerunReport::default()));
        let sources = self.kind.sources();
        let nodes = again(&session.nodes, recorded.clone(), sources, &told);
        let queue = format!("{REPLAY_QUEUE}{}", provenance::new_id());
        let nodes = Arc::new(nodes);
        let engine = || {
            let options = EngineOptions {
                scope: Scope::Adopted,
                queue: queue.clone(),
                ..EngineOptions::default()
            };
            compose::engine_of(session, door, self.ports, (nodes.clone(), options))
        };
        let order = ForkSpec {
            id: Some(fork.clone()),
            overlay: Overlay {
                tags: Some(vec![TAG.to_owned()]),
                ..Overlay::default()
            },
            policy: Some(Policy {
                queue: queue.clone(),
                ..source.header.policy.clone()
            }),
            ..ForkSpec::new(ForkMode::Branch, Some(0))
        };
        self.fork(&engine()?, order).await?;
        if let Err(error) = drive(&engine, &fork, &recorded).await {
            if let ReplayError::NotReplayed(_) = error {
                give_up(&engine()?, &fork).await?;
            }
            return Err(error);
        }
        let run = door.load(&fork).await?;
        let done = Attempts::from_logs(&from_run::family(door, &run).await?.0);
        let told = std::mem::take(&mut *told.lock());
        let has_left = told.divergence.is_some();
        let divergence = told.divergence.or_else(|| recorded.first_divergence(&done));
        let facts = Facts {
            live_models: told.live_models,
            live_tools: told.live_tools,
            run_status: run.status().to_string(),
            ..Facts::default()
        };
        let snapshot = captured_again(door, &run).await?;
        self.judged(snapshot, (divergence, has_left), facts).await
    }

    /// Compares the result with the snapshot.
    async fn judged(
        &self,
        snapshot: Snapshot,
        (divergence, has_left): (Option<Divergence>, bool),
        facts: Facts,
    ) -> Result<Replayed, ReplayError> {
        // The log has both contents.
        let held = |snapshot: &Snapshot| Held {
            snapshot: snapshot.clone(),
            calls: Vec::new(),
            contents: Box::new(|_| None),
        };
        let by_kind = (self.kind == Kind::Verify).then_some(Strategy::Exact);
        let (one, other) = (held(self.recorded), held(&snapshot));
        let Some(judgement) = self.judge.compare(one, other, by_kind).await? else {
            return Err(NotReplayed::Cancelled.into());
        };
        let status = match (judgement.match_status, has_left) {
            (Some(status), _) => status,
            // A replay that left its recording has no comparable result.
            (None, true) => MatchStatus::NoMatch,
            (None, false) => return Err(NotReplayed::NotComparable.into()),
        };
        Ok(Replayed {
            pass: judgement.pass && !has_left,
            status: Some(at_most(status, has_left)),
            strategy: judgement.strategy,
            snapshot,
            divergence,
            judgement,
            facts,
            has_left,
        })
    }
}

/// The result of a fork, in the form of a capture.
async fn captured_again(door: &Door, fork: &Run) -> Result<Snapshot, Failure> {
    let redaction = Redaction::of_environment(std::env::vars());
    let captured = from_run::read(door, &fork.header.stream, &redaction).await?;
    seal(captured.snapshot, &mut |value| redaction.value(value)).map_err(said)
}

/// Drives a branch to its end. Recorded answers of people are repeated. An engine without further
/// work ends; after an answer, another one continues.
async fn drive(
    engine: &dyn Fn() -> Result<Engine, Failure>,
    fork: &StreamId,
    recorded: &Attempts,
) -> Result<(), ReplayError> {
    loop {
        let engine = engine()?;
        let door = engine.door();
        let mut follower = Follower::new(door.clone());
        follower.read_from_here(fork).await?;
        engine.adopt_family(fork).await?;
        engine.start();
        let mut live = Live::for_people(Detail::Quiet);
        let mut nobody = Prompt::never();
        let until = Until::NothingToDo;
        let ended = driving::drive(&engine, &mut follower, &mut live, until, &mut nobody).await?;
        if follower.is_settled() {
            return Ok(());
        }
        if ended == Ended::Interrupted {
            return Err(NotReplayed::Cancelled.into());
        }
        let run = door.load(fork).await?;
        let done = Attempts::from_logs(&from_run::family(door, &run).await?.0);
        let mut is_answered = false;
        for (run, command) in done.answers_of(recorded) {
            match engine.command(&run, Envelope::from(command)).await {
                Ok(()) => is_answered = true,
                Err(DoorError::Rejected(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !is_answered {
            return Err(NotReplayed::Waits.into());
        }
    }
}

/// Cancels a branch that cannot finish.
async fn give_up(engine: &Engine, fork: &StreamId) -> Result<(), Failure> {
    let command = Command::Cancel {
        reason: Some("the replay was abandoned".into()),
        by: Some(Actor::operator()),
        parent: None,
    };
    match engine.command(fork, Envelope::from(command)).await {
        Ok(_) | Err(DoorError::Rejected(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The first event of a log that is now decided differently, masked for readers.
fn decided_otherwise(divergence: &replay::Divergence, mask: Mask<'_>) -> Divergence {
    let side = |event: &Option<Event>| {
        let mut input = json!(mask.event(event.as_ref()?));
        apply_mask(&mut input);
        Some(Side {
            kind: "event",
            name: input["type"].as_str().unwrap_or("event").to_owned(),
            input,
        })
    };
    let (expected, actual) = (side(&divergence.expected), side(&divergence.actual));
    let named = expected.as_ref().or(actual.as_ref());
    let name = named.map_or("event", |side| side.name.as_str());
    Divergence {
        step: divergence.seq,
        reason: match (&expected, &actual) {
            (Some(_), None) => Reason::Missing,
            (None, _) => Reason::Added,
            (Some(_), Some(_)) => Reason::Changed,
        },
        at: None,
        recorded_step: Some(divergence.seq),
        message: format!(
            "event {}: {name} is decided differently now",
            divergence.seq
        ),
        expected,
        actual,
    }
}

//! The replay of a run's snapshot: a fork of the run that decides everything again.

use capture::folder_keep::InMemory;
use capture::judge::judge;
use capture::tape::{Divergence, Reason, Side};
use faces::provenance::document::{MatchStatus, Snapshot};
use faces::provenance::ladder::Strategy;
use faces::provenance::seal::seal;
use kernel::ids::StreamId;
use kernel::replay;
use kernel::run::Event;
use kernel::stream::ForkMode;
use provenance::Redaction;
use runtime::{DoorError, ForkFailed, ForkOrder};
use serde_json::json;
use store::StoreError;

use super::again::{Facts, Replayed};
use super::command::said;
use super::from_run;
use super::kind::NotReplayed;
use crate::commands::PortArgs;
use crate::compose;
use crate::exit::Failure;
use crate::session::Session;

/// Replays a run once. Nothing of it is run: every outcome is that of the log.
pub(super) async fn once(
    recorded: &Snapshot,
    run: &str,
    strategy: Option<Strategy>,
    session: &Session,
) -> Result<Result<Replayed, NotReplayed>, Failure> {
    let no_run = || Ok(Err(NotReplayed::NoRun(crate::text::one_line(run, 80))));
    if !session.place.store().exists() {
        return no_run();
    }
    let door = session.write()?;
    let source = StreamId::new(run);
    let engine = compose::engine(session, &door, &PortArgs::default())?;
    let forked = engine
        .fork(&source, ForkOrder::new(ForkMode::Replay, None))
        .await;
    let forked = match forked {
        Ok(forked) => forked,
        Err(ForkFailed::Door(DoorError::Store(StoreError::Missing))) => return no_run(),
        Err(ForkFailed::Door(error)) => return Err(error.into()),
        Err(ForkFailed::Refused(refused)) => {
            return Err(Failure::new(format!(
                "the run cannot be replayed: {refused}"
            )));
        }
    };
    let fork = forked.run.header.stream.clone();
    let redaction = Redaction::of_environment(std::env::vars());
    let captured = from_run::read(&door, &fork, &redaction).await?;
    let snapshot = seal(captured.snapshot, &mut |value| redaction.value(value)).map_err(said)?;
    // The log has the contents of both.
    let none = InMemory::default();
    let strategy = strategy.unwrap_or(Strategy::Exact);
    let judgement = judge((recorded, &none), (&snapshot, &none), Some(strategy));
    let Some(status) = judgement.match_status else {
        return Ok(Err(NotReplayed::NotComparable));
    };
    let divergence = forked.divergence.as_ref().map(told);
    let has_left = divergence.is_some();
    Ok(Ok(Replayed {
        pass: judgement.pass && !has_left,
        status: Some(match (status, has_left) {
            (MatchStatus::ExactMatch | MatchStatus::SemanticMatch, true) => {
                MatchStatus::PartialMatch
            }
            (status, _) => status,
        }),
        snapshot,
        strategy,
        divergence,
        judgement,
        facts: Facts {
            run_status: forked.run.status().to_owned(),
            ..Facts::default()
        },
        has_left,
    }))
}

/// The event of a log that is decided otherwise now.
fn told(divergence: &replay::Divergence) -> Divergence {
    let side = |event: &Option<Event>| {
        let input = json!(event.as_ref()?);
        Some(Side {
            kind: "event",
            name: input["type"].as_str().unwrap_or("event").to_owned(),
            input,
        })
    };
    let (expected, actual) = (side(&divergence.expected), side(&divergence.actual));
    let name = expected
        .as_ref()
        .or(actual.as_ref())
        .map_or("event", |side| side.name.as_str());
    Divergence {
        step: divergence.seq,
        reason: match (&expected, &actual) {
            (Some(_), None) => Reason::Missing,
            (None, _) => Reason::Added,
            (Some(_), Some(_)) => Reason::Changed,
        },
        at: None,
        recorded_step: Some(divergence.seq),
        message: format!("event {}: {name} is decided otherwise now", divergence.seq),
        expected,
        actual,
    }
}

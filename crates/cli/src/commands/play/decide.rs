//! Ending a session.

use faces::player::state::Status;
use kernel::ids::StreamId;
use kernel::run::{Command, Envelope, InterruptKind, Run};
use runtime::door::Door;
use runtime::engine::Engine;

use super::sessions::{self, Kind, Known};
use super::{drive, files, words};
use crate::args::PortArgs;
use crate::compose;
use crate::driving::TERM_PATIENCE;
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::talk;

/// Ends a session. One in progress or at a checkpoint is aborted; one with an undecided failure
/// fails. The session has ended when this returns.
pub(super) async fn abort(name: Option<&str>, session: &Session) -> Result<Exit, Failure> {
    let door = sessions::store(session)?;
    let may = |known: &Known| known.kind == Kind::Open;
    let known = sessions::find(session, door.as_ref(), name, may, "abort").await?;
    let Some(door) = door.filter(|_| !matches!(known.kind, Kind::Foreign(_))) else {
        let what = format!("session {} belongs to another player", known.id);
        return Err(Failure::new(what).hint("resume it first, or remove its folder"));
    };
    let engine = compose::engine(session, &door, &PortArgs::default())?;
    let run = StreamId::new(&known.id);
    let was_settled = known.kind == Kind::Settled;
    if !was_settled {
        let driver = sessions::driven_by(engine.door(), &run).await?;
        let state = engine.door().load(&run).await?;
        tell(&engine, &state).await?;
        if let Some(who) = driver {
            talk::say(format!("{who} stops its running nodes"));
        }
        settle(&engine, &run).await?;
    }
    let project = &session.place.project;
    let Some(files) = files::bring_up_to_date(engine.door(), project, &run).await? else {
        return Err(Failure::new(format!("run {run} is not a session")));
    };
    let status = files.state().status;
    if was_settled && matches!(status, Status::Completed | Status::Archived) {
        let what = format!("session {run} has completed; it cannot be aborted");
        return Err(Failure::new(what));
    }
    let had = if was_settled {
        "had ended before"
    } else {
        "has ended"
    };
    talk::say(format!("session {run} {had}: {}", status.as_str()));
    words::last(session, &files)?;
    Ok(Exit::Done)
}

/// Ends a session without a player, with its own engine.
pub(super) async fn end(session: &Session, door: &Door, run: &StreamId) -> Result<(), Failure> {
    let state = door.load(run).await?;
    if !state.is_settled() {
        let engine = compose::engine(session, door, &PortArgs::default())?;
        tell(&engine, &state).await?;
        settle(&engine, run).await?;
    }
    Ok(())
}

/// Ends a run: by the answer to a failure's question, else by cancelling it.
async fn tell(engine: &Engine, state: &Run) -> Result<(), Failure> {
    let run = &state.header.stream;
    let asked = state.facts().into_iter();
    let mut asked = asked.flat_map(|facts| &facts.interrupts);
    if let Some(failed) = asked.find(|open| open.kind == InterruptKind::Custom) {
        return drive::resolve(engine, run, &failed.id, "abort").await;
    }
    let cancel = Command::Cancel {
        reason: Some("aborted".into()),
        by: Some(kernel::audit::Actor::operator()),
        parent: None,
    };
    Ok(engine.command(run, Envelope::from(cancel)).await?)
}

/// Waits until a run that was told to end has ended. Its driver stops its processes; if its player
/// was killed, this process ends the rest.
async fn settle(engine: &Engine, run: &StreamId) -> Result<(), Failure> {
    if engine.door().load(run).await?.is_settled() {
        return Ok(());
    }
    talk::listen_to_engine();
    engine.adopt_family(run).await?;
    engine.start();
    let settled = engine.settled(run).await;
    engine.drain(TERM_PATIENCE).await;
    settled?;
    Ok(())
}

//! Ending a session.

use kernel::ids::StreamId;
use kernel::run::{Command, Envelope};

use super::sessions::{self, Kind, Known};
use super::{drive, files, words};
use crate::commands::PortArgs;
use crate::compose;
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::talk;

/// Ends a session: one that waits at a checkpoint or goes on is aborted, one with a failure that
/// nobody has decided about has failed.
pub(super) async fn abort(name: Option<&str>, session: &Session) -> Result<Exit, Failure> {
    let door = sessions::store(session)?;
    let may = |known: &Known| known.kind == Kind::Open;
    let known = sessions::find(session, door.as_ref(), name, may, "abort").await?;
    let Some(door) = door.filter(|_| known.kind != Kind::Foreign) else {
        let what = format!("session {} is another player's", known.id);
        return Err(Failure::new(what).hint("resume it first, or remove its folder"));
    };
    let engine = compose::engine(session, &door, &PortArgs::default())?;
    let run = StreamId::new(&known.id);
    let state = engine.door().load(&run).await?;
    if !state.is_settled() {
        let asked = state
            .facts()
            .into_iter()
            .flat_map(|facts| &facts.interrupts);
        let failed = asked
            .filter(|open| open.kind == "custom")
            .map(|open| &open.id);
        match failed.take(1).next() {
            Some(interrupt) => drive::resolve(&engine, &run, interrupt, "abort").await?,
            None => {
                let cancel = Command::Cancel {
                    reason: Some("aborted".into()),
                    by: Some(kernel::audit::Actor::operator()),
                    parent: None,
                };
                engine.command(&run, Envelope::from(cancel)).await?;
            }
        }
    }
    let project = &session.place.project;
    let Some(files) = files::bring_up_to_date(engine.door(), project, &run).await? else {
        return Err(Failure::new(format!("run {run} is no session")));
    };
    let status = files.state().status;
    let word = match engine.door().load(&run).await?.is_settled() {
        true => status.as_str(),
        // Whoever drives it stops what runs.
        false => "ending",
    };
    talk::say(format!("session {run} is {word}"));
    words::last(session, &files)?;
    Ok(Exit::Done)
}

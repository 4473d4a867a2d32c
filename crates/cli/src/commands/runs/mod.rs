//! `runwright runs`: lists, shows and steers runs.

pub(crate) mod ancestry;
pub(crate) mod artifact;
pub(crate) mod awaited;
pub(crate) mod bundle;
pub(crate) mod cancel;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod fork;
pub(crate) mod interrupts;
pub(crate) mod list;
pub(crate) mod note;
pub(crate) mod pause;
mod purge;
mod replay;
pub(crate) mod resolve;
pub(crate) mod show;
mod signal;
pub(crate) mod tail;
pub(crate) mod unpause;

use clap::Subcommand;
use faces::player::names::is_session_id;
use kernel::ids::StreamId;
use kernel::run::Envelope;
use runtime::door::Door;
use store::{ReadFrom, StoreError};

use crate::exit::{Exit, Failure};
use crate::lookup::short;
use crate::session::Session;
use crate::{style, talk};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List runs, newest first
    List(list::Args),
    /// Show the status of a run
    Show(show::Args),
    /// Print the events of a run
    Events(events::Args),
    /// Print the events of a run as they come, from any driver
    Tail(tail::Args),
    /// Cancel a run and stop its running nodes
    Cancel(cancel::Args),
    /// Pause a run, so that it starts nothing new
    Pause(pause::Args),
    /// Resume a paused run
    Unpause(unpause::Args),
    /// List the open questions of runs
    Interrupts(interrupts::Args),
    /// Answer an open question of a run: accept, reject, or any other answer
    Resolve(Box<resolve::Args>),
    /// Send a signal to a run, or the answer it waits for
    Signal(signal::Args),
    /// Start a run with a part of this one, to continue from there or to repeat it
    Fork(Box<fork::Args>),
    /// Repeat the decisions of a run's log and compare
    Replay(replay::Args),
    /// Show the differences between two runs
    Diff(diff::Args),
    /// Show where a run comes from
    Ancestry(ancestry::Args),
    /// Annotate a run, or show its annotations
    Note(note::Args),
    /// Write all data of a run into one document
    Bundle(bundle::Args),
    /// Print or save an artifact of a run
    Artifact(artifact::Args),
    /// Erase runs and all their data
    Purge(purge::Args),
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::List(args) => list::run(args, session).await,
        Command::Show(args) => show::run(args, session).await,
        Command::Events(args) => events::run(args, session).await,
        Command::Tail(args) => tail::run(args, session).await,
        Command::Cancel(args) => cancel::run(args, session).await,
        Command::Pause(args) => pause::run(args, session).await,
        Command::Unpause(args) => unpause::run(args, session).await,
        Command::Interrupts(args) => interrupts::run(args, session).await,
        Command::Resolve(args) => resolve::run(*args, session).await,
        Command::Signal(args) => signal::run(args, session).await,
        Command::Fork(args) => fork::run(*args, session).await,
        Command::Replay(args) => replay::run(args, session).await,
        Command::Diff(args) => diff::run(args, session).await,
        Command::Ancestry(args) => ancestry::run(args, session).await,
        Command::Note(args) => note::run(args, session).await,
        Command::Bundle(args) => bundle::run(args, session).await,
        Command::Artifact(args) => artifact::run(args, session).await,
        Command::Purge(args) => purge::run(args, session).await,
    }
}

/// Sends a run a command through the door; its driver finds it in the log.
async fn tell(
    door: &Door,
    run: &StreamId,
    command: kernel::run::Command,
) -> Result<kernel::run::Run, Failure> {
    Ok(door.transact(run, &Envelope::from(command)).await?.run)
}

/// Reports which process acts on the command; without a driver, that none does.
async fn say_who_acts(session: &Session, door: &Door, run: &StreamId) -> Result<(), Failure> {
    let loaded = match door.store().load(run, ReadFrom::Seq(u64::MAX), 0).await {
        Err(StoreError::Missing) => return Ok(()),
        loaded => loaded?,
    };
    let now = door.store().now();
    let is_held = loaded
        .lease
        .is_some_and(|lease| lease.expires_at > now && !runtime::holder::is_dead(&lease.holder));
    if loaded.index.runnable && !is_held {
        let id = short(run);
        if session.place.is_served()? {
            let next = style::dim("next:");
            talk::say(format!(
                "{next} the server of this store applies it; `runwright runs tail {id}` follows \
                 the run"
            ));
            return Ok(());
        }
        let resume = if is_session_id(id) {
            "play --resume"
        } else {
            "resume"
        };
        talk::say(format!(
            "{} no process drives this run; `runwright {resume} {id}` drives it",
            style::dim("next:")
        ));
    }
    Ok(())
}

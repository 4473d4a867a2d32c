//! `runwright runs`: lists, shows and steers runs.

mod ancestry;
mod artifact;
mod bundle;
mod cancel;
mod diff;
pub(crate) mod events;
mod fork;
mod interrupts;
mod list;
mod note;
mod pause;
mod purge;
mod replay;
mod resolve;
mod show;
mod signal;
mod tail;
mod unpause;

use crate::exit::{Exit, Failure};
use crate::session::Session;
use clap::Subcommand;

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

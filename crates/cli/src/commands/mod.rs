//! The commands, one file each. A file has the arguments and the implementation.

mod audit;
mod completions;
mod console;
pub(crate) mod coordinator;
mod demo;
mod doctor;
mod drive_args;
mod keys;
mod play;
mod resume;
mod run;
pub(crate) mod runs;
mod secrets;
mod serve;
mod snapshot;
mod store;
mod telemetry;
mod verify;
mod webhooks;
mod workbench;
mod worker;
mod workflow;

use clap::{Parser, Subcommand};

use crate::env;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Typed};

pub(crate) use drive_args::DriveArgs;

/// Runs workflows of real processes that survive every crash, and shows what happened.
///
/// Every run is a log of events in a store on disk. Kill the program, pull the plug: the next
/// `runwright resume` continues where the log ends, and nothing that completed runs again.
#[derive(Debug, Parser)]
#[command(name = "runwright", version, after_help = env::HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) typed: Typed,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a server, a run, a kill -9 and the run continuing, in about 20 seconds
    Demo(demo::Args),
    /// Run a workflow to its end
    Run(run::Args),
    /// Play workflow templates of coding agents
    Play(play::Args),
    /// Resume runs that an engine left unfinished
    Resume(resume::Args),
    /// Serve the OpenWOP protocol over HTTP
    Serve(serve::Args),
    /// Open the console of a server in the browser
    Console(console::Args),
    /// List, show, steer and remove runs
    #[command(subcommand)]
    Runs(runs::Command),
    /// Print the events of a run (short for `runs events`)
    Events(runs::events::Args),
    /// Check, draw and register workflows
    #[command(subcommand)]
    Workflow(workflow::Command),
    /// Create, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// Store the secrets that workflows use
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Manage webhooks for run events
    #[command(subcommand)]
    Webhooks(webhooks::Command),
    /// Show and verify the audit trail
    #[command(subcommand)]
    Audit(audit::Command),
    /// Keep the authority lease, dispatch backlog and mailboxes of a runtime (as `omx-runtime`)
    Runtime(coordinator::Args),
    /// Take tasks from a queue and run a program for each
    Worker(worker::Args),
    /// Import, export and verify run bundles of the LLM Workbench
    #[command(subcommand)]
    Workbench(workbench::Command),
    /// Capture, compare and keep evidence of executions
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Check every log, state and index of the store
    Verify(verify::Args),
    /// Copy the store as a whole, or show its sizes and servers
    #[command(subcommand)]
    Store(store::Command),
    /// Check the environment: store, disk, leftovers
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

impl Command {
    /// Whether the command has no meaning for a server and does its first work before it opens the
    /// store, which is refused for every command.
    fn needs_store(&self) -> bool {
        use workflow::Command as Workflow;
        matches!(
            self,
            Self::Demo(_)
                | Self::Play(_)
                | Self::Serve(_)
                | Self::Workflow(Workflow::Put(_))
                | Self::Workbench(workbench::Command::Import(_))
                | Self::Keys(_)
                | Self::Secrets(_)
                | Self::Audit(_)
                | Self::Runtime(_)
                | Self::Doctor(_)
                | Self::Store(_)
        )
    }
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    if command.needs_store() {
        session.check_no_server()?;
    }
    match command {
        Command::Demo(args) => demo::run(args, session).await,
        Command::Run(args) => run::run(args, session).await,
        Command::Play(args) => play::run(args, session).await,
        Command::Resume(args) => resume::run(args, session).await,
        Command::Serve(args) => serve::run(args, session).await,
        Command::Console(args) => console::run(args, session).await,
        Command::Runs(command) => runs::dispatch(command, session).await,
        Command::Events(args) => runs::events::run(args, session).await,
        Command::Workflow(command) => workflow::dispatch(command, session).await,
        Command::Keys(command) => keys::dispatch(command, session).await,
        Command::Secrets(command) => secrets::dispatch(command, session),
        Command::Webhooks(command) => webhooks::dispatch(command, session).await,
        Command::Audit(command) => audit::dispatch(command, session).await,
        // Reached if global options are given before the word.
        Command::Runtime(_) => Err(Failure::new("`runtime` takes no options before it")
            .hint("write `runwright runtime COMMAND …`")),
        Command::Worker(args) => worker::run(args, session).await,
        Command::Workbench(command) => workbench::dispatch(command, session).await,
        Command::Snapshot(command) => snapshot::dispatch(command, session).await,
        Command::Verify(args) => verify::run(args, session).await,
        Command::Store(command) => store::dispatch(command, session).await,
        Command::Doctor(args) => doctor::run(args, session).await,
        Command::Completions(args) => completions::run(args, session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

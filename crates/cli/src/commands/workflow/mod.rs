//! `runwright workflow`: definitions, independent of runs.

mod graph;
mod list;
mod nodes;
mod put;
mod validate;

use clap::Subcommand;

use crate::exit::{Exit, Failure};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check definitions; lists everything that is wrong with them
    Validate(validate::Args),
    /// Draw a definition, or a run, as a picture
    Graph(graph::Args),
    /// Register definitions, so that other workflows can start them by id
    Put(put::Args),
    /// List the registered workflows
    List(list::Args),
    /// List the node types, or describe some
    Nodes(nodes::Args),
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::Validate(args) => validate::run(args, session),
        Command::Graph(args) => graph::run(args, session).await,
        Command::Put(args) => put::run(args, session).await,
        Command::List(args) => list::run(args, session).await,
        Command::Nodes(args) => nodes::run(args, session),
    }
}

//! `runwright snapshot capture`.

use super::command::CommandArgs;
use super::{Rooted, command, from_run};
use crate::exit::{Exit, Failure};
use crate::lookup::RunName;
use crate::session::Session;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Captures a run, or a command after `--`. The model calls of the command go through a recording
proxy, which it finds by OPENAI_BASE_URL and ANTHROPIC_BASE_URL; changes of the folder are
recorded. Tools can be replayed if they are run with `runwright snapshot tool`.

  runwright snapshot capture --run last
  runwright snapshot capture --workflow tidy --context README.md -- ./agent.py
  runwright snapshot capture --no-redact --yes -- ./agent.py
  runwright snapshot capture --mode strict --temperature 0 --seed 7 --max-tokens 512 -- ./agent.py

Exits as the run or the command ended: 0 success, 1 failure, 2 nothing was captured, 130 a signal."
)]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(long, value_name = "RUN", conflicts_with = "argv")]
    run: Option<RunName>,

    /// A name to find the snapshot by
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    rooted: Rooted,

    #[command(flatten)]
    command: CommandArgs,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

/// Captures a command or a run.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    match &args.run {
        Some(_) if args.command.no_redact => Err(Failure::new(
            "--no-redact is for commands: the log of a run was recorded without its secrets",
        )
        .hint("capture the command itself, or remove the option")),
        Some(run) => from_run::capture(run, args.name, &args.rooted, session).await,
        None if args.argv.is_empty() => Err(Failure::new("there is nothing to capture").hint(
            "write a command after `--`, as `-- ./agent.py`, or name a run, as `--run last`",
        )),
        None => command::capture(args.command, args.argv, args.name, &args.rooted, session).await,
    }
}

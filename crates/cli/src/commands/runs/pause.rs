//! `runwright runs pause`.

use kernel::run::event::DrainPolicy;

use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::Session;
use crate::talk;
use crate::target::{self, Intent, Purpose};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs pause last
  runwright runs pause 1f0c9a2b --now --reason maintenance

Running nodes may end first, unless --now stops them: they start again, as a new attempt, after
`runwright runs unpause`.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// Stop running nodes instead of waiting for their end
    #[arg(long)]
    now: bool,

    /// Why; kept in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Pauses a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let policy = if args.now {
        DrainPolicy::Immediate
    } else {
        DrainPolicy::DrainCurrentNode
    };
    let target = target::open(session, Intent::Write).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let id = short(&run);
    talk::say(if target.pause(&run, policy, args.reason).await? {
        format!("run {id} is paused")
    } else {
        format!("run {id} pauses when its running nodes have ended")
    });
    Ok(Exit::Done)
}

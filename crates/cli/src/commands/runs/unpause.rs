//! `runwright runs unpause`.

use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::Session;
use crate::talk;
use crate::target::{self, Intent, Purpose};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs unpause last

This ends a pause. To continue a run whose engine was lost, use \
`runwright resume`.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// Why; kept in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Ends the pause of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Write).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    target.unpause(&run, args.reason).await?;
    talk::say(format!("run {} is no longer paused", short(&run)));
    target.say_who_acts(&run).await?;
    Ok(Exit::Done)
}

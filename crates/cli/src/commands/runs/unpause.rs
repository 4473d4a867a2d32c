//! `runwright runs unpause`.

use kernel::run::Command;

use super::{say_who_acts, tell};
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::talk;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "This ends a pause. To continue a run whose engine was lost, use \
`runwright resume`."
)]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// Why; kept in the log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Ends the pause of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.write()?;
    let run = lookup::find(&door, &args.run).await?;
    tell(
        &door,
        &run,
        Command::Resume {
            reason: args.reason,
        },
    )
    .await?;
    talk::say(format!("run {} is no longer paused", short(&run)));
    say_who_acts(session, &door, &run).await?;
    Ok(Exit::Done)
}

//! `runwright runs pause`.

use kernel::run::RunStatus;
use kernel::run::event::DrainPolicy;
use kernel::run::{Command, Envelope, Rejection};
use runtime::DoorError;

use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::talk;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Running nodes may end first, unless --now stops them: they start again, as a new attempt, after
`runwright runs unpause`."
)]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// Stop running nodes instead of waiting for their end
    #[arg(long)]
    pub(crate) now: bool,

    /// Why; kept in the log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Pauses a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let policy = if args.now {
        DrainPolicy::Immediate
    } else {
        DrainPolicy::DrainCurrentNode
    };
    let door = session.write()?;
    let run = lookup::find(&door, &args.run).await?;
    let pause = Command::Pause {
        reason: args.reason,
        policy,
    };
    let is_paused = match door.transact(&run, &Envelope::from(pause)).await {
        Ok(state) => state.run.status() == RunStatus::Paused,
        // The pending pause is the requested one.
        Err(DoorError::Rejected(Rejection::AlreadyDraining)) => false,
        Err(error) => return Err(error.into()),
    };
    say(short(&run), is_paused);
    Ok(Exit::Done)
}

/// Reports whether a run is paused, or about to be.
pub(crate) fn say(run: &str, is_paused: bool) {
    if is_paused {
        talk::say(format!("run {run} is paused"))
    } else {
        talk::say(format!(
            "run {run} pauses when its running nodes have ended"
        ))
    }
}

//! `runwright runs cancel`.

use kernel::audit::Actor;
use kernel::run::Command;

use super::{say_who_acts, tell};
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::talk;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// Why; kept in the log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Cancels a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.write()?;
    let run = lookup::find_to_end(&door, &args.run).await?;
    let command = Command::Cancel {
        reason: args.reason,
        by: Some(Actor::operator()),
        parent: None,
    };
    let state = tell(&door, &run, command).await?;
    crate::commands::tell_trail(&door).await;
    let id = short(&run);
    if state.is_settled() {
        talk::say(format!("run {id} is cancelled"))
    } else {
        talk::say(format!(
            "run {id} is being cancelled; its running nodes are stopped"
        ))
    }
    say_who_acts(session, &door, &run).await?;
    Ok(Exit::Done)
}

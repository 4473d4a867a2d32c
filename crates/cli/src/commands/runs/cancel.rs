//! `runwright runs cancel`.

use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::Session;
use crate::target::{self, Intent, Purpose};
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs cancel last --reason 'no longer needed'
  runwright runs cancel 1f0c9a2b --server http://127.0.0.1:8080")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// Why; kept in the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Cancels a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Write).await?;
    let run = target.find(&args.run, Purpose::End).await?;
    let status = target.cancel(&run, args.reason).await?;
    let id = short(&run);
    talk::say(match status.as_str() {
        "cancelling" => format!("run {id} is being cancelled; its running nodes are stopped"),
        status => format!("run {id} is {}", text::one_line(status, 30)),
    });
    target.say_who_acts(&run).await?;
    Ok(Exit::Done)
}

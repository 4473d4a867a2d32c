//! `runwright runs show`.

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::RunName;
use crate::session::{Form, Session};
use crate::target::{self, Intent, Purpose};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs show last
  runwright runs show 1f0c9a2b --json | jq .status

--json prints the OpenWOP snapshot of the run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,
}

/// Shows the state of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Read).await?;
    let run = target.find(&args.run, Purpose::Show).await?;
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json(&target.snapshot(&run).await?)?,
        Form::Text => target.view(&run).await?.print(&mut data)?,
    }
    data.done()?;
    Ok(Exit::Done)
}

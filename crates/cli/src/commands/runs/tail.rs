//! `runwright runs tail`: events as they come.

use kernel::ids::Seq;

use super::events::Printer;
use crate::exit::{Exit, Failure, io_text};
use crate::lookup::RunName;
use crate::session::Session;
use crate::target::{self, Cursor, Intent, Purpose};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs tail last
  runwright runs tail 1f0c9a2b --after 120 --type node.completed

Ends when the run has ended, or with Ctrl-C, which does not affect the run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// Skip events up to this sequence
    #[arg(long, value_name = "SEQ")]
    after: Option<Seq>,

    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
}

/// Follows a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Read).await?;
    let mut printer = Printer::new(&*target, session.form, args.types, None)?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let mut cursor = Cursor::new(run, args.after);
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    while !cursor.is_complete {
        let events = tokio::select! {
            events = target.new_events(&mut cursor, session.form) => events?,
            interrupt = &mut interrupt => {
                interrupt.map_err(|error| Failure::new(io_text(&error)))?;
                return Ok(Exit::Done);
            }
        };
        printer.print(&events)?;
    }
    Ok(target::exit(&target.snapshot(&cursor.run).await?))
}

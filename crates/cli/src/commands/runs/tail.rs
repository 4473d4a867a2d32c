//! `runwright runs tail`: events as they come.

use std::time::Duration;

use kernel::ids::Seq;
use store::ReadFrom;

use super::events::{Reader, Wanted, print};
use crate::data::Data;
use crate::exit::{Exit, Failure, io_text};
use crate::lookup::{self, RunName};
use crate::session::Session;

/// The polling interval of the log: another process may write it without a notification.
const POLL: Duration = Duration::from_millis(200);

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Ends when the run has ended, or with Ctrl-C, which does not affect the run."
)]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// Begin after this sequence instead of at the first event
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<Seq>,

    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
}

/// Follows a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let mut wanted = Wanted::new(args.types, None)?;
    let door = session.read()?;
    let run = lookup::find(&door, &args.run).await?;
    let mut data = Data::new();
    let mut reader = Reader::new(&door, run.clone(), args.after).await?;
    loop {
        // Before reading, so that the last event is certainly read.
        let index = door
            .store()
            .load(&run, ReadFrom::Seq(u64::MAX), 0)
            .await?
            .index;
        loop {
            let page = reader.page().await?;
            if page.is_empty() {
                break;
            }
            let of = (&reader.header, &*reader.plan);
            print(&mut data, session.form, of, &page, &mut wanted)?;
            data.flush()?;
        }
        if index.settled {
            data.done()?;
            return Ok(match index.status.as_str() {
                "failed" | "cancelled" => Exit::Found,
                _ => Exit::Done,
            });
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            interrupt = tokio::signal::ctrl_c() => {
                interrupt.map_err(|error| Failure::new(io_text(&error)))?;
                return Ok(Exit::Done);
            }
        }
    }
}

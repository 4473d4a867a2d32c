//! `runwright runs purge`.

use kernel::audit::Actor;
use kernel::run::Run;
use runtime::access::trail;
use runtime::erase::{self, EraseError};

use crate::compose;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs purge 1f0c9a2b --yes --reason 'contains personal data'

A purged run is deleted for good: its events, artifacts and files, and those of the runs it started.
Only a tombstone remains, with its id, the end of its hash chain and the reason. SQLite may keep
copies in unused parts of the store file; `runwright doctor --clean` rewrites the file without them.")]
pub(crate) struct Args {
    /// The runs: their ids, the beginnings or the ends of them, or `last`
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<RunName>,

    /// Why; kept in the tombstone
    #[arg(long, value_name = "TEXT", default_value = "removed by hand")]
    reason: String,

    /// Confirm
    #[arg(long)]
    yes: bool,
}

/// Erases runs.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.write()?;
    let supervisor = compose::supervisor(session)?;
    let mut doomed = Vec::new();
    for name in &args.runs {
        let run = lookup::find_to_end(&door, name).await?;
        for run in erase::family(&door, &run).await? {
            let is_new = |known: &Run| known.header.stream != run.header.stream;
            if doomed.iter().all(is_new) {
                doomed.push(run);
            }
        }
    }
    if let Some(open) = doomed.iter().find(|run| !erase::is_over(run)) {
        let id = short(&open.header.stream);
        let what = format!("run {id} has not ended");
        return Err(Failure::new(what).hint(format!("`runwright runs cancel {id}` ends it")));
    }
    let runs = text::count(doomed.len(), "run");
    if !args.yes {
        let what = format!("this erases {runs} permanently");
        return Err(Failure::new(what).hint("confirm with --yes"));
    }
    // Children first: after an interruption the rest can still be named.
    for run in doomed.iter().rev() {
        let stream = &run.header.stream;
        trail::record_purge(&**door.store(), &run.header, Actor::operator()).await?;
        let erased = erase::erase(&door, &supervisor, stream, &args.reason).await;
        erased.map_err(|error| match error {
            EraseError::Files { error, .. } => {
                Failure::file(&lookup::folder(session, stream), &error)
            }
            EraseError::Store(error) => error.into(),
        })?;
    }
    talk::say(format!("{runs} erased"));
    Ok(Exit::Done)
}

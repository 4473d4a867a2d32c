//! `runwright runs purge`.

use kernel::ids::StreamId;
use kernel::run::Run;
use runtime::door::Door;
use store::StoreError;

use crate::compose;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::{talk, text};

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A purged run is gone for good: its events, artifacts and files, and those \
of the runs it started. Only a tombstone stays, with its id, the end of its hash chain and the \
reason."
)]
pub(crate) struct Args {
    /// The runs: their ids, the beginnings or the ends of them, or `last`
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<RunName>,

    /// Why; kept in the tombstone
    #[arg(long, value_name = "TEXT", default_value = "removed by hand")]
    reason: String,

    /// Yes, erase it
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
        family(&door, &run, &mut doomed).await?;
    }
    if let Some(open) = doomed.iter().find(|run| !is_over(run)) {
        let id = short(&open.header.stream);
        let what = format!("run {id} has not ended");
        return Err(Failure::new(what).hint(format!("`runwright runs cancel {id}` ends it")));
    }
    let runs = text::count(doomed.len(), "run");
    if !args.yes {
        let what = format!("this erases {runs} for good");
        return Err(Failure::new(what).hint("say --yes if that is what you want"));
    }
    // Children first: what is left when this is interrupted can still be named.
    for run in doomed.iter().rev() {
        let stream = &run.header.stream;
        door.store().purge(stream, &args.reason).await?;
        supervisor
            .forget(stream)
            .map_err(|error| Failure::file(&lookup::folder(session, stream), &error))?;
    }
    talk::say(format!("{runs} erased"));
    Ok(Exit::Done)
}

/// A run and the runs it started, each behind its parent. What a fork copied names children too,
/// but those are its source's.
async fn family(door: &Door, root: &StreamId, into: &mut Vec<Run>) -> Result<(), Failure> {
    let mut todo = vec![(root.clone(), None)];
    while let Some((stream, parent)) = todo.pop() {
        if into.iter().any(|run| run.header.stream == stream) {
            continue;
        }
        let run = match door.load(&stream).await {
            Ok(run) => run,
            // Purged before, or never created.
            Err(StoreError::Missing) if stream != *root => continue,
            Err(error) => return Err(error.into()),
        };
        let started_by = run.header.parent.as_ref().map(|parent| &parent.run);
        if parent.is_some() && started_by != parent.as_ref() {
            continue;
        }
        todo.extend(
            run.facts()
                .into_iter()
                .flat_map(|facts| facts.children.keys())
                .map(|child| (child.clone(), Some(stream.clone()))),
        );
        into.push(run);
    }
    Ok(())
}

/// Whether a run has ended, or is a copy that was cut off and will never go on.
fn is_over(run: &Run) -> bool {
    run.is_settled() || run.is_copying() || run.is_replay()
}

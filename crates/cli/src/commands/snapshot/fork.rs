//! `runwright snapshot fork`: continues a recorded execution live from a step.

use capture::folder_keep::{Contents, FolderKeep};
use capture::replayer::{Replayer, Sources};
use faces::provenance::document::Parent;

use super::again::Again;
use super::command::{echo, not_run, said, stop_signal, write_down};
use super::kind::{Kind, ReplayError, Typed};
use super::replay::say_not_replayed;
use super::{Rooted, find_whole};
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The first N calls are answered from the recording; later calls are made for real, in a copy of the
folder as it was before the recording. The new snapshot names the other, unchanged, as its parent.
Outside effects of the first calls are neither undone nor repeated.

  runwright snapshot fork latest --at 3 -- ./agent.py --other-prompt

Exits as `snapshot capture` does, and with 3 if the first calls differ from the recording."
)]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,

    /// The number of calls to take from the recording
    #[arg(long, value_name = "N")]
    at: u64,

    /// Work in the folder itself, not in a copy of its recorded state
    #[arg(long)]
    in_place: bool,

    /// Run the command of a snapshot that you did not capture, without asking
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    rooted: Rooted,

    /// Another command in place of the recorded one
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

/// Forks.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let kept = find_whole(&folder, &args.snapshot)?;
    let parent = kept.document.snapshot.snapshot_id.clone();
    let typed = Typed::fork(args.argv, args.in_place, args.yes);
    let (folder, root) = args.rooted.of(&kept, session);
    let again = Again::new(typed, kept, folder.clone(), &root)?;
    let prepared = match again.prepare().await {
        Ok(prepared) => prepared,
        Err(ReplayError::NotReplayed(why)) => {
            return say_not_replayed(&parent, Kind::Verify, &why, session);
        }
        Err(ReplayError::Failed(failure)) => return Err(failure),
    };
    let everything = Sources {
        models: true,
        tools: true,
    };
    let calls = text::count(prepared.calls.len(), "call");
    let keys = prepared
        .about
        .ignored
        .keys(&prepared.calls, &*prepared.source);
    let replayer = Replayer::first(prepared.calls, everything, args.at);
    let replayer = replayer.map(|replayer| replayer.matched_by(keys));
    let replayer = replayer
        .ok_or_else(|| Failure::new(format!("--at {}: the recording has {calls}", args.at)))?;
    let keep = FolderKeep::begin(&folder, Contents::Full).map_err(said)?;
    let mut plan = prepared.plan;
    plan.replayer = Some((replayer, prepared.source));
    plan.keep = keep.clone();
    plan.elsewhere = again.elsewhere();
    let outcome = capture::run::run(plan, stop_signal()?, echo(session.form)).await;
    let outcome = outcome.map_err(|error| {
        keep.close();
        not_run(error)
    })?;
    if let Some(divergence) = &outcome.recorded.divergence {
        keep.close();
        let message = text::one_line(&divergence.message, 400);
        talk::say(format!("{} {message}", style::warn("first divergence:")));
        return Ok(Exit::Incomparable);
    }
    let parent = Parent {
        snapshot_id: parent,
        fork_step: Some(args.at),
    };
    let (about, cleaner) = (&prepared.about, &prepared.cleaner);
    write_down(
        about,
        &outcome,
        cleaner,
        Contents::Full,
        &keep,
        Some(parent),
        session,
    )
}

//! `runwright snapshot rm`.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};

use serde_json::json;

use super::{Rooted, failed, find};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Removes the document, its calls, its record of replays, its signature, and the contents without
other references. A snapshot that is pinned, or that another one needs, is kept.

  runwright snapshot rm 0199 --yes"
)]
pub(crate) struct Args {
    /// The snapshots: ids, the beginnings of them, names, `latest`, or paths
    #[arg(value_name = "SNAPSHOT", required = true)]
    snapshots: Vec<String>,

    /// Remove without asking
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    rooted: Rooted,
}

/// Removes.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let mut found = Vec::new();
    for typed in &args.snapshots {
        found.push(find(&folder, typed)?);
    }
    let ids: BTreeSet<&str> = found
        .iter()
        .map(|kept| &*kept.document.snapshot.snapshot_id)
        .collect();
    let listing = folder.list().map_err(failed)?;
    for entry in &listing.entries {
        let id = text::one_line(&entry.snapshot_id, 64);
        let goes = ids.contains(&*entry.snapshot_id);
        if goes && entry.is_pinned {
            return Err(Failure::new(format!("the snapshot {id} is pinned"))
                .hint(format!("`runwright snapshot pin {id} --remove` unpins it")));
        }
        let needed = entry
            .needs
            .iter()
            .find(|needed| ids.contains(needed.as_str()));
        if let Some(needed) = needed.filter(|_| !goes) {
            let needed = text::one_line(needed, 64);
            return Err(Failure::new(format!("the snapshot {id} needs {needed}"))
                .hint("remove both, or neither"));
        }
    }
    if !args.yes {
        ask(found.len())?;
    }
    let paths: Vec<_> = found.iter().map(|kept| kept.path.clone()).collect();
    let removed = folder.remove(&paths).map_err(failed)?;
    let mut data = Data::new();
    match session.form {
        Form::Json => {
            data.json(&json!({ "removed": removed.snapshots, "contents": removed.blobs }))?
        }
        Form::Text => {
            for id in &removed.snapshots {
                data.line(format!("removed {}", text::one_line(id, 64)))?;
            }
            let blobs = usize::try_from(removed.blobs).unwrap_or(usize::MAX);
            data.line(format!(
                "removed {} without other references",
                text::count(blobs, "content")
            ))?;
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

fn ask(count: usize) -> Result<(), Failure> {
    let stdin = std::io::stdin();
    if !(stdin.is_terminal() && std::io::stderr().is_terminal()) {
        return Err(
            Failure::new("nothing was removed: no terminal is available for the question")
                .hint("--yes removes without asking"),
        );
    }
    talk::say(format!(
        "Remove {}? Type `yes`:",
        text::count(count, "snapshot")
    ));
    let mut typed = String::new();
    let read = stdin.lock().read_line(&mut typed);
    if read.is_ok() && typed.trim() == "yes" {
        Ok(())
    } else {
        Err(Failure::new("nothing was removed"))
    }
}

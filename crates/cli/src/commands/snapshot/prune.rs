//! `runwright snapshot prune`.

use kernel::time::Timestamp;
use serde_json::json;

use super::{Rooted, failed};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot prune
  runwright snapshot prune --apply

A snapshot is kept for 90 days after its capture, and for 180 days after a failed replay. A snapshot
that is pinned, or that another one needs, is kept.")]
pub(crate) struct Args {
    /// Remove them and their contents without other references; without it they are only shown
    #[arg(long)]
    apply: bool,

    /// Show what can be removed; the default
    #[arg(long, conflicts_with = "apply")]
    dry_run: bool,

    #[command(flatten)]
    rooted: Rooted,
}

/// Shows the snapshots that may be removed, or removes them.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let now = jiff::Timestamp::now();
    let now = Timestamp(now.as_millisecond());
    let plan = folder.plan(now).map_err(failed)?;
    let applies = args.apply && !args.dry_run;
    let pruned = if applies {
        Some(folder.prune(now).map_err(failed)?)
    } else {
        None
    };
    let mut data = Data::new();
    if session.form == Form::Json {
        let mut fates = serde_json::to_value(&plan.fates).unwrap_or_default();
        for (value, fate) in fates.as_array_mut().into_iter().flatten().zip(&plan.fates) {
            value["captured_at"] = fate.entry.captured_at.to_string().into();
        }
        let expired = plan.fates.iter().filter(|fate| fate.is_expired());
        let expired: Vec<_> = expired.map(|fate| &fate.entry.snapshot_id).collect();
        data.json(&json!({
            "applied": applies,
            "expired": expired,
            "snapshots": fates,
            "broken": plan.broken,
            "pruned": pruned,
        }))?;
        data.done()?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["snapshot", "workflow", "captured", "verdict"]);
    for fate in &plan.fates {
        let until = fate.until.as_deref();
        let verdict = match (fate.verdict, until) {
            ("expired", Some(until)) => format!("{} since {until}", style::warn("expired")),
            ("kept", Some(until)) => format!("kept until {until}"),
            ("clock_behind", _) => style::warn("kept: it was captured in the future"),
            ("needed", _) => "kept: another snapshot needs it".to_owned(),
            (word, _) => word.to_owned(),
        };
        table.row([
            text::one_line(&fate.entry.snapshot_id, 36),
            text::one_line(&fate.entry.workflow_id, 32),
            fate.entry.captured_at.to_string(),
            verdict,
        ]);
    }
    for line in table.lines() {
        data.line(line)?;
    }
    data.done()?;
    match &pruned {
        None => {
            let expired = plan.fates.iter().filter(|fate| fate.is_expired()).count();
            if expired > 0 {
                let expired = text::count(expired, "snapshot");
                talk::say(format!("{expired} can be removed; `--apply` removes them"));
            }
        }
        Some(pruned) => {
            let snapshots = text::count(pruned.snapshots.len(), "snapshot");
            let contents = usize::try_from(pruned.blobs).unwrap_or(usize::MAX);
            let contents = text::count(contents, "content");
            talk::say(format!("removed {snapshots} and {contents}"));
            if !pruned.has_swept {
                talk::say(
                    "contents were kept, because a file here cannot be read and may need them",
                );
            }
        }
    }
    Ok(Exit::Done)
}

//! `runwright snapshot list`.

use faces::provenance::document::MatchStatus;
use faces::provenance::seal::Seal;
use kernel::time::Timestamp;
use provenance::Entry;

use super::{Rooted, failed};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::is_part;
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot list
  runwright snapshot list --json")]
pub(crate) struct Args {
    /// Only snapshots of this workflow
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,

    /// Only snapshots of this run: its id, or the start or the end of it
    #[arg(long, value_name = "RUN")]
    run: Option<String>,

    /// Captured at this time or later, as 2026-03-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,

    /// Only snapshots whose latest replay had this result: exact_match, semantic_match,
    /// partial_match, no_match or not_replayed
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<MatchStatus>,

    #[command(flatten)]
    rooted: Rooted,
}

fn time(typed: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(typed).ok_or("write a time as 2026-03-01T00:00:00Z")
}

fn status(typed: &str) -> Result<MatchStatus, &'static str> {
    serde_json::from_value(typed.into())
        .map_err(|_| "write exact_match, semantic_match, partial_match, no_match or not_replayed")
}

impl Args {
    fn wants(&self, entry: &Entry) -> bool {
        let workflow = self.workflow.as_ref();
        let of_run = |run: &String| {
            let id = entry.run_id.as_deref().unwrap_or_default();
            !run.is_empty() && is_part(run, &id.into())
        };
        workflow.is_none_or(|workflow| *workflow == entry.workflow_id)
            && self.run.as_ref().is_none_or(of_run)
            && self.since.is_none_or(|since| entry.captured_at >= since)
            && self
                .status
                .is_none_or(|status| entry.match_status == status)
    }
}

/// Lists.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let mut listing = folder.list().map_err(failed)?;
    listing.entries.retain(|entry| args.wants(entry));
    let mut data = Data::new();
    if session.form == Form::Json {
        let entries = listing.entries.iter().map(|entry| {
            let mut value = serde_json::to_value(entry).unwrap_or_default();
            value["captured_at"] = entry.captured_at.to_string().into();
            value
        });
        let entries: Vec<_> = entries.collect();
        data.json(&serde_json::json!({ "snapshots": entries, "broken": listing.broken }))?;
    } else {
        let mut table = Table::new(["snapshot", "workflow", "captured", "mode", "model", "match"]);
        for entry in &listing.entries {
            let mark = if entry.is_pinned { "  pinned" } else { "" };
            let secrets = if entry.is_unredacted {
                style::bad("  UNREDACTED")
            } else {
                String::new()
            };
            let network = if entry.is_unverified {
                style::warn("  UNVERIFIED")
            } else {
                String::new()
            };
            let seal = match entry.seal {
                Seal::Sealed => String::new(),
                Seal::Unsealed => style::warn("  UNSEALED"),
                Seal::Tampered => style::bad("  TAMPERED"),
            };
            table.row([
                text::one_line(&entry.snapshot_id, 36),
                text::one_line(&entry.workflow_id, 32),
                entry.captured_at.to_string(),
                entry.execution_mode.as_str().to_owned(),
                text::one_line(&entry.model, 24),
                format!(
                    "{}{}{secrets}{network}{seal}",
                    matched(entry.match_status),
                    style::dim(mark)
                ),
            ]);
        }
        if listing.entries.is_empty() {
            data.line(format!("no snapshots in {}", folder.snapshots().display()))?
        } else {
            for line in table.lines() {
                data.line(line)?;
            }
        }
        for broken in &listing.broken {
            let file = text::one_line(&broken.file, 120);
            let why = text::one_line(&broken.why, 200);
            talk::say(format!("{} {file}: {why}", style::warn("passed over:")));
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

/// The outcome of a comparison, in its colour.
pub(super) fn matched(status: MatchStatus) -> String {
    let word = status.as_str();
    match status {
        MatchStatus::ExactMatch | MatchStatus::SemanticMatch => style::good(word),
        MatchStatus::PartialMatch => style::warn(word),
        MatchStatus::NoMatch => style::bad(word),
        MatchStatus::NotReplayed => style::dim(word),
    }
}

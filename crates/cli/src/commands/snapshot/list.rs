//! `runwright snapshot list`.

use faces::provenance::document::MatchStatus;
use faces::provenance::seal::State;
use kernel::time::Timestamp;
use provenance::{Broken, Entry, Folder, FolderError, Strictness};
use serde_json::{Value, json};

use super::verify::unread;
use super::{Rooted, failed};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::is_part;
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot list
  runwright snapshot list --json

Verifies each snapshot as `runwright snapshot verify` does. The column `state` has the result;
snapshots that are not `valid` are in capitals.")]
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

/// Lists verified snapshots.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let listing = folder.list().map_err(failed)?;
    let (unfinished, mut damaged): (Vec<_>, Vec<_>) =
        listing.broken.into_iter().partition(Broken::is_unfinished);
    let mut listed = Vec::new();
    for entry in listing.entries {
        // The listing comes from an index: only the files themselves are shown and verified.
        match Listed::read(&folder, &entry) {
            Ok(found) => listed.extend(found.filter(|listed| args.wants(&listed.entry))),
            Err(error) => damaged.push(Broken {
                file: entry.file,
                why: why(error),
            }),
        }
    }
    let mut data = Data::new();
    if session.form == Form::Json {
        let listed: Vec<_> = listed.iter().map(Listed::json).collect();
        damaged.extend(unfinished);
        data.json(&json!({ "snapshots": listed, "broken": damaged }))?;
    } else {
        let head = [
            "snapshot", "workflow", "captured", "mode", "model", "match", "state",
        ];
        let mut table = Table::new(head);
        listed.iter().for_each(|listed| table.row(listed.row()));
        for broken in &damaged {
            let mut row = [const { String::new() }; 7];
            row[0] = text::one_line(&broken.file, 60);
            row[5] = style::dim("-");
            let read = folder.read(&folder.snapshots().join(&broken.file));
            let state = unread(read.err()).map_or("unreadable", |(state, _)| state);
            row[6] = style::bad(state.to_uppercase());
            table.row(row);
        }
        if listed.is_empty() && damaged.is_empty() {
            data.line(format!("no snapshots in {}", folder.snapshots().display()))?
        } else {
            for line in table.lines() {
                data.line(line)?;
            }
        }
        for broken in unfinished.iter().chain(&damaged) {
            let file = text::one_line(&broken.file, 120);
            let why = text::one_line(&broken.why, 200);
            talk::say(format!("{} {file}: {why}", style::warn("passed over:")));
        }
        if listed.iter().any(|listed| listed.state == State::Tampered) {
            let warning = style::warn("warning:");
            talk::say(format!(
                "{warning} snapshots were changed after they were sealed; `runwright snapshot \
                 verify` shows why"
            ));
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

fn why(error: FolderError) -> String {
    let shown = error.to_string();
    unread(Some(error)).map_or(shown, |(_, why)| why)
}

/// A verified snapshot.
struct Listed {
    entry: Entry,
    state: State,
}

impl Listed {
    /// Reads a snapshot and the files next to it; `None` if it was removed meanwhile.
    fn read(folder: &Folder, entry: &Entry) -> Result<Option<Self>, FolderError> {
        let path = folder.snapshots().join(&entry.file);
        let kept = match folder.read(&path) {
            Err(_) if path.symlink_metadata().is_err() => return Ok(None),
            read => read?,
        };
        let is_pinned = folder.is_pinned(&path);
        Ok(Some(Self {
            entry: Entry::new(entry.file.clone(), &kept.document, is_pinned),
            state: folder.verify(&kept, Strictness::Lenient)?.state,
        }))
    }

    fn json(&self) -> Value {
        let mut value = serde_json::to_value(&self.entry).unwrap_or_default();
        value["captured_at"] = self.entry.captured_at.to_string().into();
        value["state"] = self.state.as_str().into();
        value
    }

    fn row(&self) -> [String; 7] {
        let entry = &self.entry;
        let is_trusted = self.state != State::Tampered;
        let outcome = match is_trusted {
            true => matched(entry.match_status),
            // Its record of replays may be forged.
            false => style::dim("-"),
        };
        let word = self.state.as_str();
        let mut state = match self.state {
            State::Valid => style::good(word),
            State::Unverified | State::Unsealed => style::warn(word.to_uppercase()),
            State::Tampered | State::Unsigned => style::bad(word.to_uppercase()),
        };
        if entry.is_pinned {
            state.push_str(&style::dim("  pinned"));
        }
        if entry.is_unredacted {
            state.push_str(&style::bad("  UNREDACTED"));
        }
        [
            text::one_line(&entry.snapshot_id, 36),
            text::one_line(&entry.workflow_id, 32),
            entry.captured_at.to_string(),
            entry.execution_mode.as_str().to_owned(),
            text::one_line(&entry.model, 24),
            outcome,
            state,
        ]
    }
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

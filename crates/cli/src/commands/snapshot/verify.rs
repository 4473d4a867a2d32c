//! `runwright snapshot verify`.

use provenance::{FolderError, Strictness};
use serde_json::json;

use super::{Rooted, failed, find};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, text};

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot verify
  runwright snapshot verify latest --strict

Exits with 0 if all is well, 4 if a snapshot is not what was written. What a capture left that was
killed, or that is still at it, is told of and counts for nothing.")]
pub(crate) struct Args {
    /// The snapshots: ids, the beginnings of them, names, `latest`, or paths [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,

    /// Refuse ids that are no UUIDs and placeholders in the place of hashes
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    rooted: Rooted,
}

/// Verifies.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session);
    let strictness = match args.strict {
        true => Strictness::Strict,
        false => Strictness::Lenient,
    };
    let mut named = args.snapshots.clone();
    let (mut broken, mut unfinished) = (Vec::new(), Vec::new());
    if named.is_empty() {
        let listing = folder.list().map_err(failed)?;
        let files = listing.entries.into_iter();
        let at = folder.snapshots();
        named.extend(files.map(|entry| at.join(entry.file).display().to_string()));
        let is_unfinished = provenance::Broken::is_unfinished;
        (unfinished, broken) = listing.broken.into_iter().partition(is_unfinished);
    }
    let mut found = Vec::new();
    for name in &named {
        let path = folder.resolve(name).ok();
        let unread = match path.as_ref().map(|path| folder.read(path)) {
            Some(Err(FolderError::NoSnapshot { why, .. })) => Some(why.message),
            Some(Err(FolderError::Damaged { why, .. })) => Some(why),
            _ => None,
        };
        match unread {
            Some(why) => broken.push(provenance::Broken {
                file: name.clone(),
                why,
            }),
            None => {
                let kept = find(&folder, name)?;
                found.push((
                    kept.path.clone(),
                    folder
                        .clone()
                        .holding_or_self(&kept.path)
                        .verify(&kept, strictness)
                        .map_err(failed)?,
                ));
            }
        }
    }
    let is_valid = broken.is_empty() && found.iter().all(|(_, found)| found.is_valid);
    let mut data = Data::new();
    match session.form {
        Form::Json => {
            let all = found.iter().map(|(path, found)| {
                let mut value = serde_json::to_value(found).unwrap_or_default();
                value["path"] = path.display().to_string().into();
                value
            });
            let all: Vec<_> = all.collect();
            data.json(&json!({
                "valid": is_valid, "snapshots": all, "broken": broken, "unfinished": unfinished,
            }))?;
        }
        Form::Text => {
            for (_, verified) in &found {
                let id = text::one_line(&verified.snapshot_id, 64);
                let word = match verified.is_valid {
                    true => style::good("valid"),
                    false => style::bad("not valid"),
                };
                data.line(format!("{id}  {word}"))?;
                for finding in &verified.findings {
                    let mark = match finding.is_error {
                        true => style::bad("wrong"),
                        false => style::warn("odd"),
                    };
                    let path = text::one_line(&finding.path, 120);
                    data.line(format!("  {mark} {path}: {}", finding.message))?;
                }
            }
            for broken in &broken {
                let file = text::one_line(&broken.file, 160);
                let why = text::one_line(&broken.why, 200);
                data.line(format!("{file}  {}\n  {why}", style::bad("broken")))?;
            }
            for half in &unfinished {
                let file = text::one_line(&half.file, 160);
                let why = text::one_line(&half.why, 200);
                data.line(format!("{file}  {}\n  {why}", style::warn("unfinished")))?;
            }
        }
    }
    data.done()?;
    match is_valid {
        true => Ok(Exit::Done),
        false => Ok(Exit::Damaged),
    }
}

//! `runwright snapshot import`.

use std::path::PathBuf;

use provenance::{FolderError, Imported, Strictness};
use serde_json::json;

use super::{Rooted, failed};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{talk, text};

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Its calls, replays and contents come along where they lie beside it. A \
snapshot that is not what was sealed is refused with exit code 4."
)]
pub(crate) struct Args {
    /// The file of a snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    rooted: Rooted,
}

/// Takes a snapshot in, as it stands.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session);
    let kept = match folder.read(&args.file) {
        Ok(kept) => kept,
        Err(error @ FolderError::NoSnapshot { .. }) => {
            talk::say_failure(&failed(error));
            return Ok(Exit::Damaged);
        }
        Err(error) => return Err(failed(error)),
    };
    let from = provenance::Folder::holding(&kept.path).unwrap_or_else(|| folder.clone());
    let verified = from.verify(&kept, Strictness::Lenient).map_err(failed)?;
    for finding in &verified.findings {
        let path = text::one_line(&finding.path, 120);
        talk::say(format!("{path}: {}", finding.message));
    }
    if !verified.is_valid {
        return Ok(Exit::Damaged);
    }
    let imported = folder
        .writer()
        .and_then(|writer| writer.import(&kept, &from));
    let (path, is_new) = match imported.map_err(failed)? {
        Imported::New(path) => (path, true),
        Imported::Known(path) => (path, false),
    };
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(path.display().to_string())?,
        Form::Json => data.json(&json!({
            "snapshot_id": verified.snapshot_id, "path": path, "new": is_new,
        }))?,
    }
    data.done()?;
    Ok(Exit::Done)
}

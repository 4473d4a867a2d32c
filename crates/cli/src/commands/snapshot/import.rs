//! `runwright snapshot import`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use faces::provenance::seal::State;
use provenance::{Bundle, BundleError, Folder, FolderError, Imported, MAX_BUNDLED, Strictness};
use runtime::named_file;
use serde_json::json;

use super::{Rooted, failed, unredacted};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{talk, text};

/// Maximum bytes of a bundle: all its contents, in base64 and escaped.
const MAX_BUNDLE_FILE: usize = 4 * MAX_BUNDLED;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot import evidence.json
  runwright snapshot import there/.aiwg/provenance/snapshots/tidy-2026-11-22T15-16-10-131Z.json

Also imports its calls, replays and contents if they are next to it. A snapshot that was changed
after it was sealed is refused with exit code 4.")]
pub(crate) struct Args {
    /// The file of a snapshot, or a bundle that `export --format bundle` made
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    rooted: Rooted,
}

/// Imports a snapshot unchanged.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder_to_write(session);
    if let Some(bundle) = bundle(&args.file)? {
        return take_in(&folder, &bundle, session);
    }
    let kept = match folder.read(&args.file) {
        Ok(kept) => kept,
        Err(error @ FolderError::NoSnapshot { .. }) => {
            talk::say_failure(&failed(error));
            return Ok(Exit::Damaged);
        }
        Err(error) => return Err(failed(error)),
    };
    let from = folder.clone().holding_or_self(&kept.path);
    let verified = from.verify(&kept, Strictness::Lenient).map_err(failed)?;
    for finding in &verified.findings {
        let path = text::one_line(&finding.path, 120);
        talk::say(format!("{path}: {}", finding.message));
    }
    if verified.state == State::Tampered {
        return Ok(Exit::Damaged);
    }
    unredacted::warn(&kept.document.snapshot);
    let imported = folder
        .writer()
        .and_then(|writer| writer.import(&kept, &from));
    tell(&imported.map_err(failed)?, &verified.snapshot_id, session)
}

/// The bundle in a file; `None` for other content.
fn bundle(file: &Path) -> Result<Option<Bundle>, Failure> {
    let bytes = match named_file::read(file, MAX_BUNDLE_FILE) {
        Ok(bytes) => bytes,
        // A snapshot may be larger than a bundle.
        Err(error) if error.kind() == ErrorKind::FileTooLarge => return Ok(None),
        Err(error) => return Err(Failure::file(file, &error)),
    };
    Ok(serde_json::from_slice(&bytes).ok())
}

fn take_in(folder: &Folder, bundle: &Bundle, session: &Session) -> Result<Exit, Failure> {
    let taken = folder
        .writer()
        .map_err(BundleError::from)
        .and_then(|writer| writer.take_in(bundle));
    let id = bundle.snapshot["snapshot_id"].as_str().unwrap_or_default();
    match taken {
        Ok(imported) => {
            if let Ok(document) = bundle.verified() {
                unredacted::warn(&document.snapshot);
            }
            tell(&imported, id, session)
        }
        Err(BundleError::Damaged(findings)) => {
            for finding in &findings {
                let path = text::one_line(&finding.path, 120);
                talk::say(format!("{path}: {}", finding.message));
            }
            Ok(Exit::Damaged)
        }
        Err(BundleError::Folder(error)) => Err(failed(error)),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

/// Reports the new path.
fn tell(imported: &Imported, id: &str, session: &Session) -> Result<Exit, Failure> {
    let (path, is_new) = match imported {
        Imported::New(path) => (path, true),
        Imported::Known(path) => (path, false),
    };
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(path.display().to_string())?,
        Form::Json => data.json(&json!({
            "snapshot_id": id, "path": path, "new": is_new,
        }))?,
    }
    data.done()?;
    Ok(Exit::Done)
}

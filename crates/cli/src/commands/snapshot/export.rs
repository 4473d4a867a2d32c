//! `runwright snapshot export`.

use clap::ValueEnum;
use faces::provenance::export::{openlineage, prov};

use super::{Rooted, failed, find};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::Session;

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Only paths and hashes go out, no text of a prompt or a response.")]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,

    /// In which words
    #[arg(long, value_name = "FORMAT", default_value = "prov-json")]
    format: Format,

    #[command(flatten)]
    rooted: Rooted,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// W3C PROV as JSON
    ProvJson,
    /// The two run events of OpenLineage, one on a line
    Openlineage,
}

/// Prints a snapshot in the words of others.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session);
    let kept = find(&folder, &args.snapshot)?;
    let snapshot = &kept.document.snapshot;
    let mut data = Data::new();
    match args.format {
        Format::ProvJson => {
            let attempts = folder.attempts(&kept.path).map_err(failed)?;
            data.json(&prov::document(snapshot, &attempts))?;
        }
        Format::Openlineage => {
            for event in openlineage::events(snapshot) {
                data.json_line(&event)?;
            }
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

//! `runwright snapshot export`.

use clap::ValueEnum;
use faces::provenance::export::{openlineage, prov};

use super::{Rooted, failed, find_whole, unredacted};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::Session;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "PROV-JSON and OpenLineage contain only paths and hashes, no text of a prompt or a response. A bundle
contains everything: `runwright snapshot import` reads it.

  runwright snapshot export latest
  runwright snapshot export latest --format bundle > evidence.json"
)]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,

    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "prov-json")]
    format: Format,

    /// Allow a bundle with secrets, of a snapshot captured with --no-redact
    #[arg(long)]
    unredacted: bool,

    #[command(flatten)]
    rooted: Rooted,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// W3C PROV as JSON
    ProvJson,
    /// The two run events of OpenLineage, one per line
    Openlineage,
    /// The snapshot with its calls, replays and contents, for import
    Bundle,
}

/// Prints a snapshot in another format.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let kept = find_whole(&folder, &args.snapshot)?;
    let snapshot = &kept.document.snapshot;
    unredacted::warn(snapshot);
    if snapshot.is_unredacted() && matches!(args.format, Format::Bundle) && !args.unredacted {
        return Err(
            Failure::new("a bundle of this snapshot would contain its secrets").hint(
                "capture it again without --no-redact, or export the secrets with --unredacted",
            ),
        );
    }
    let mut data = Data::new();
    match args.format {
        Format::ProvJson => {
            let attempts = folder.attempts(&kept.path).map_err(failed)?;
            data.json(&prov::document(snapshot, &attempts))?;
        }
        Format::Bundle => {
            let bundle = folder.holding_or_self(&kept.path).bundle(&kept);
            data.json(&bundle.map_err(|error| Failure::new(error.to_string()))?)?;
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

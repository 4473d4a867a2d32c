//! `runwright snapshot pin`.

use serde_json::json;

use super::{Rooted, failed, find};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot pin latest
  runwright snapshot pin latest --remove")]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,

    /// Unpin it
    #[arg(long)]
    remove: bool,

    #[command(flatten)]
    rooted: Rooted,
}

/// Pins or unpins a snapshot.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let kept = find(&folder, &args.snapshot)?;
    let (folder, _) = args.rooted.of(&kept, session);
    folder.pin(&kept.path, !args.remove).map_err(failed)?;
    let id = &kept.document.snapshot.snapshot_id;
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(crate::text::one_line(id, 64))?,
        Form::Json => data.json(&json!({ "snapshot_id": id, "pinned": !args.remove }))?,
    }
    data.done()?;
    Ok(Exit::Done)
}

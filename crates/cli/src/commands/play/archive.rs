//! Putting a session away.

use std::fs;

use kernel::ids::StreamId;

use super::files::{self, archive_folder};
use super::sessions::{self, Kind, Known};
use super::words;
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::talk;

/// Moves the folder of a session that has ended below `archive/`. The run stays in the store.
pub(super) async fn run(name: Option<&str>, session: &Session) -> Result<Exit, Failure> {
    let Some(door) = sessions::store(session)? else {
        return Err(Failure::new("there is no session to archive"));
    };
    let project = &session.place.project;
    let may =
        |known: &Known| known.kind == Kind::Settled && !archive_folder(project, &known.id).is_dir();
    let known = sessions::find(session, Some(&door), name, may, "archive").await?;
    match known.kind {
        Kind::Settled => {}
        Kind::Open => {
            return Err(Failure::new(format!("session {} has not ended", known.id))
                .hint("resume it, or end it with --abort"));
        }
        Kind::Foreign => {
            return Err(
                Failure::new(format!("session {} is another player's", known.id))
                    .hint("resume it first"),
            );
        }
    }
    let run = StreamId::new(&known.id);
    let archive = archive_folder(project, &known.id);
    let folder = sessions::folder(session, &known.id);
    let fail = |error| Failure::file(&folder, &error);
    // A folder that is not there is made from the log, so that it can be moved.
    files::bring_up_to_date(&door, project, &run).await?;
    if !archive.is_dir() {
        let parent = archive.parent().unwrap_or(&archive);
        fs::create_dir_all(parent).map_err(fail)?;
        fs::rename(&folder, &archive).map_err(fail)?;
    }
    // Written where it lies now: a crash in between leaves files that the next look brings up to
    // date, wherever they lie.
    let Some(files) = files::bring_up_to_date(&door, project, &run).await? else {
        return Err(Failure::new(format!("run {run} is no session")));
    };
    talk::say(format!(
        "session {run} lies in {}",
        files.projection().folder()
    ));
    words::last(session, &files)?;
    Ok(Exit::Done)
}

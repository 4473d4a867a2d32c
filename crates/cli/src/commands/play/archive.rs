//! Putting a session away.

use std::fs;
use std::path::{Path, PathBuf};

use faces::player::names;
use faces::player::state::Status;
use kernel::ids::StreamId;
use kernel::json::replaced;
use runtime::door::Door;
use runtime::private;
use serde_json::{Value, json};

use super::files::{self, archive_folder};
use super::session_status::SessionStatus;
use super::sessions::{self, Kind, Known, Left};
use super::words;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{talk, text};

/// Moves the folder of an ended session below `archive/`. The run stays in the store.
pub(super) async fn run(name: Option<&str>, session: &Session) -> Result<Exit, Failure> {
    let door = sessions::store(session)?;
    let project = &session.place.project;
    let may = |known: &Known| match known.kind {
        Kind::Settled => !archive_folder(project, &known.id).is_dir(),
        Kind::Foreign(left) => matches!(left, Left::Completed | Left::Aborted),
        Kind::Open => false,
    };
    let all = sessions::all(session, door.as_ref()).await?;
    if name.is_none() && !all.iter().any(may) {
        return Err(nothing(&all));
    }
    let known = sessions::find(session, door.as_ref(), name, may, "archive").await?;
    if let Kind::Foreign(left) = known.kind {
        return foreign(session, &known.id, left);
    }
    let Some(door) = door else {
        return Err(Failure::new(format!("session {} has no run", known.id)));
    };
    if known.kind == Kind::Open {
        return Err(open(&door, session, &known.id).await?);
    }
    let run = StreamId::new(&known.id);
    let archive = archive_folder(project, &known.id);
    let folder = sessions::folder(session, &known.id);
    let fail = |error| Failure::file(&folder, &error);
    // A missing folder is rebuilt from the log, so that it can be moved.
    files::bring_up_to_date(&door, project, &run).await?;
    let was_archived = archive.is_dir();
    if !was_archived {
        let parent = archive.parent().unwrap_or(&archive);
        private::folder(parent).map_err(fail)?;
        fs::rename(&folder, &archive).map_err(fail)?;
    }
    // Written at the old place: after a crash in between, the next command updates the files in
    // either place.
    let Some(files) = files::bring_up_to_date(&door, project, &run).await? else {
        return Err(Failure::new(format!("run {run} is not a session")));
    };
    update_derived(&door, project, &all, &known.id).await?;
    let word = if was_archived {
        "was archived before and is"
    } else {
        "is archived"
    };
    talk::say(format!(
        "session {run} {word} in {}",
        files.projection().folder()
    ));
    words::last(session, &files)?;
    Ok(Exit::Done)
}

/// Writes the files of other sessions again that name files of an archived one: sessions that began
/// with its state.
async fn update_derived(
    door: &Door,
    project: &Path,
    all: &[Known],
    archived: &str,
) -> Result<(), Failure> {
    let inside = format!("{}/{archived}/", names::SESSIONS);
    let is_ours = |known: &&Known| matches!(known.kind, Kind::Open | Kind::Settled);
    for other in all.iter().filter(is_ours) {
        let folder = project.join(names::SESSIONS).join(&other.id);
        let folders = [folder, archive_folder(project, &other.id)];
        let state = |folder: &PathBuf| fs::read_to_string(folder.join(names::STATE)).ok();
        let state = folders.iter().find_map(state);
        if state.is_some_and(|state| state.contains(&inside)) {
            files::bring_up_to_date(door, project, &StreamId::new(&other.id)).await?;
        }
    }
    Ok(())
}

/// Moves the folder of another player's ended session. Only its status and its paths change. The
/// state is written first, so that a crash leaves a session that can be archived again.
fn foreign(session: &Session, id: &str, left: Left) -> Result<Exit, Failure> {
    let project = &session.place.project;
    let folder = sessions::folder(session, id);
    let state = folder.join(names::STATE);
    let fail = |error| Failure::file(&state, &error);
    match left {
        Left::Completed | Left::Aborted => {}
        Left::Unreadable => return Err(sessions::unreadable(session, id)),
        Left::Open => {
            let what = format!("session {id} belongs to another player and has not ended");
            let hint = format!("`runwright play --resume {id}` continues it");
            return Err(Failure::new(what).hint(hint));
        }
    }
    let text = fs::read_to_string(&state).map_err(fail)?;
    let is_ours = |part: &str| format!("\"{part}/{id}/");
    let text = text.replace(&is_ours(names::SESSIONS), &is_ours(names::ARCHIVE));
    let status = Status::Archived.as_str();
    let text = replaced(&text, "/status", &json!(status)).unwrap_or(text);
    files::replace(&state, text.as_bytes(), files::For::Owner).map_err(fail)?;
    let archive = archive_folder(project, id);
    let parent = archive.parent().unwrap_or(&archive);
    private::folder(parent).map_err(fail)?;
    fs::rename(&folder, &archive).map_err(fail)?;
    talk::say(format!(
        "session {id} is archived in {}/{id}",
        names::ARCHIVE
    ));
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json_line(&serde_json::from_str::<Value>(&text).unwrap_or_default())?,
        Form::Text => data.line(format!("{id} {status}"))?,
    }
    data.done()?;
    Ok(Exit::Done)
}

/// The error if no session can be archived.
fn nothing(all: &[Known]) -> Failure {
    let failure = Failure::new("no session to archive");
    let is_open = |known: &&Known| matches!(known.kind, Kind::Open | Kind::Foreign(Left::Open));
    match all.iter().filter(is_open).count() {
        _ if all.is_empty() => failure
            .hint("start one with `runwright play TEMPLATE`; it can be archived once it has ended"),
        0 => failure.hint("every session that has ended is archived already"),
        open => failure.hint(format!(
            "{} not ended: resume or abort it first; `runwright play --status` shows them",
            text::count(open, "session") + if open == 1 { " has" } else { " have" }
        )),
    }
}

/// The error for archiving an unfinished session, with the command that ends it.
async fn open(door: &Door, session: &Session, id: &str) -> Result<Failure, Failure> {
    let project = &session.place.project;
    let files = files::bring_up_to_date(door, project, &StreamId::new(id)).await?;
    let files = files.ok_or_else(|| Failure::new(format!("run {id} is not a session")))?;
    let standing = SessionStatus::load(door, &files).await?;
    let what = format!(
        "session {id} has not ended; it is {}",
        files.state().status.as_str()
    );
    Ok(Failure::new(what).hint(match standing {
        SessionStatus::Driven(who) | SessionStatus::Attended(who) => {
            format!("wait for {who}, or end it with `runwright play --abort {id}`")
        }
        _ => format!(
            "`runwright play --resume {id}` continues it, `runwright play --abort {id}` ends it"
        ),
    }))
}

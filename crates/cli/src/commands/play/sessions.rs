//! Finds sessions: runs of the store, and folders of other players.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use faces::player::names;
use kernel::ids::StreamId;
use kernel::problem::{closest, quoted};
use runtime::door::Door;
use runtime::holder;
use runtime::named_file;
use serde_json::Value;
use store::ListQuery;

use super::ask;
use crate::exit::{Failure, io_text};
use crate::lookup;
use crate::session::Session;
use crate::target::holder_name;

/// Maximum bytes of a state file of another player.
pub(super) const MAX_STATE_BYTES: usize = 64 << 20;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Its id, which is also that of its run.
    pub(super) id: String,
    /// Its state here.
    pub(super) kind: Kind,
}

/// The state of a session here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A run that may continue.
    Open,
    /// A run that has ended.
    Settled,
    /// Another player's folder with a state file and without a run.
    Foreign(Left),
}

/// The state of another player's session, from its state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It may continue: running, paused, or failed.
    Open,
    /// It was aborted.
    Aborted,
    /// It completed, or was archived.
    Completed,
    /// The file cannot be read.
    Unreadable,
}

impl Left {
    fn read(state: &Path) -> Self {
        let bytes = named_file::read(state, MAX_STATE_BYTES).unwrap_or_default();
        let Ok(Value::Object(state)) = serde_json::from_slice(&bytes) else {
            return Self::Unreadable;
        };
        match state.get("status").and_then(Value::as_str) {
            Some("aborted") => Self::Aborted,
            Some("completed" | "archived") => Self::Completed,
            _ => Self::Open,
        }
    }
}

/// The store of the project, if there is one.
pub(super) fn store(session: &Session) -> Result<Option<Door>, Failure> {
    if session.may_have_store() {
        Ok(Some(session.write()?))
    } else {
        Ok(None)
    }
}

/// Every session, the newest first.
pub(super) async fn all(session: &Session, door: Option<&Door>) -> Result<Vec<Known>, Failure> {
    let mut known = Vec::new();
    if let Some(door) = door {
        for row in lookup::all(door, ListQuery::default()).await? {
            if names::is_session_id(row.stream.as_str()) {
                known.push(Known {
                    id: row.stream.to_string(),
                    kind: if row.index.settled {
                        Kind::Settled
                    } else {
                        Kind::Open
                    },
                });
            }
        }
    }
    let of_runs: BTreeSet<String> = known.iter().map(|known| known.id.clone()).collect();
    let folder = session.place.project.join(names::SESSIONS);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut foreign: Vec<Known> = entries
        .filter_map(|entry| {
            let id = entry.file_name().into_string().ok()?;
            let state = entry.path().join(names::STATE);
            let is_foreign = names::is_session_id(&id) && !of_runs.contains(&id) && state.is_file();
            is_foreign.then(|| Known {
                id,
                kind: Kind::Foreign(Left::read(&state)),
            })
        })
        .collect();
    foreign.sort_by(|a, b| b.id.cmp(&a.id));
    known.extend(foreign);
    Ok(known)
}

/// The named session. Without a name it is the only one that satisfies `may`; with several, a
/// person at the terminal chooses.
pub(super) async fn find(
    session: &Session,
    door: Option<&Door>,
    name: Option<&str>,
    may: impl Fn(&Known) -> bool,
    what: &str,
) -> Result<Known, Failure> {
    let known = all(session, door).await?;
    if let Some(name) = name {
        return named(name, known);
    }
    let candidates: Vec<Known> = known.into_iter().filter(may).collect();
    match candidates.as_slice() {
        [] => Err(Failure::new(format!("no session to {what}"))
            .hint("`runwright play --status` shows the sessions there are")),
        [one] => Ok(one.clone()),
        several => choose(several, what).await,
    }
}

/// As [`find`], for sessions of this player. `for_what` is the verb and its option.
pub(super) async fn find_own(
    session: &Session,
    name: Option<&str>,
    may: impl Fn(&Known) -> bool,
    for_what: (&str, &str),
) -> Result<Known, Failure> {
    let (verb, option) = for_what;
    let door = store(session)?;
    let known = find(session, door.as_ref(), name, may, verb).await?;
    match known.kind {
        Kind::Foreign(_) => {
            let what = format!("session {} belongs to another player", known.id);
            let hint = format!("resume it without {option} first");
            Err(Failure::new(what).hint(hint))
        }
        _ => Ok(known),
    }
}

fn named(name: &str, known: Vec<Known>) -> Result<Known, Failure> {
    let is_it = |known: &&Known| known.id == name;
    let is_part = |known: &&Known| known.id.contains(name);
    if let Some(one) = known.iter().find(is_it) {
        return Ok(one.clone());
    }
    let fitting: Vec<&Known> = known.iter().filter(is_part).collect();
    match fitting.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let failure = Failure::new(format!("no session {}", quoted(name)));
            match closest(name, known.iter().map(|known| known.id.as_str())) {
                Some(meant) => Err(failure.hint(format!("did you mean {meant}?"))),
                None => Err(failure.hint("`runwright play --status` shows the sessions there are")),
            }
        }
        several => {
            let what = format!("{} fits several sessions", quoted(name));
            Err(ambiguous(several.iter().copied(), &what))
        }
    }
}

fn ambiguous<'a>(known: impl Iterator<Item = &'a Known>, what: &str) -> Failure {
    const NAMED: usize = 10;
    let ids: Vec<&str> = known.map(|known| known.id.as_str()).take(NAMED).collect();
    let what = format!("{what}:\n  {}", ids.join("\n  "));
    Failure::new(what).hint("give one of them")
}

async fn choose(candidates: &[Known], what: &str) -> Result<Known, Failure> {
    let ids: Vec<&str> = candidates.iter().map(|known| known.id.as_str()).collect();
    match ask::which(&ids, what).await {
        Some(n) => Ok(candidates[n].clone()),
        None => {
            let what = format!("there are several sessions to {what}");
            Err(ambiguous(candidates.iter(), &what))
        }
    }
}

/// The driver of a run, if it can be determined: a lease of a dead process does not count.
pub(super) async fn driven_by(door: &Door, run: &StreamId) -> Result<Option<String>, Failure> {
    let store = door.store();
    let loaded = store.load_head(run).await?;
    let here = holder::this_process();
    Ok(loaded.lease.and_then(|lease| {
        let is_live = lease.expires_at > store.now() && !holder::is_dead(&lease.holder);
        (is_live && lease.holder != here).then(|| holder_name(&lease.holder))
    }))
}

/// An error for a session that another process drives.
pub(super) async fn check_free(door: &Door, run: &StreamId) -> Result<(), Failure> {
    match driven_by(door, run).await? {
        Some(who) => Err(held(run.as_str(), &who)),
        None => Ok(()),
    }
}

/// The error for driving a session that another process drives.
pub(super) fn held(id: &str, who: &str) -> Failure {
    Failure::new(format!("session {id} is driven by {who}")).hint(format!(
        "`runwright play --status {id} --watch` follows it; `runwright play --abort {id}` ends it"
    ))
}

/// The error for an unreadable state file of another player's session.
pub(super) fn unreadable(session: &Session, id: &str) -> Failure {
    let path = folder(session, id).join(names::STATE);
    let why = match named_file::read(&path, MAX_STATE_BYTES) {
        Err(error) => io_text(&error),
        Ok(bytes) => match serde_json::from_slice::<Value>(&bytes) {
            Err(error) => error.to_string(),
            Ok(_) => "it is not a JSON object".to_owned(),
        },
    };
    let what = format!("{} cannot be read: {why}", path.display());
    Failure::new(what)
        .hint("its player may still be writing it; otherwise restore the file or remove the folder")
}

/// The folder of an active session.
pub(super) fn folder(session: &Session, id: &str) -> PathBuf {
    session.place.project.join(names::SESSIONS).join(id)
}

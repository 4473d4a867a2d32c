//! The published files, which clients read in addition to the program's output. They are views,
//! rebuilt from the log whenever they do not match its previous state.
//!
//! Files without a lock are replaced by a rename, so that readers never see half a file.
//! `events.json` is read under the engine's lock and only appended to.

mod edit;
mod events;
mod records;
mod stamp;

use std::io::Write;
use std::path::Path;

use faces::coordinator::SnapshotJson;
use kernel::coordinator::{Coordinator, LeaseRule};
use runtime::private;
use serde::Serialize;

use super::Refused;
use super::folder::Folder;
use stamp::Stamp;

pub(super) const EVENTS: &str = "events.json";
pub(super) const SNAPSHOT: &str = "snapshot.json";
pub(super) const MAILBOX: &str = "mailbox.json";
pub(super) const LEDGER: &str = "dispatch-seen.json";
const DISPATCH: &str = "dispatch.json";
/// The form of the ledger of ids.
pub(super) const LEDGER_VERSION: u32 = 2;
/// Its epoch.
pub(super) const LEDGER_EPOCH: u32 = 1;
/// The message for events without a ledger.
pub(super) const LEDGER_MISSING: &str =
    "io error: missing dispatch seen ledger; pre-ledger dispatch history is ambiguous";

/// An addition to it where the log has every id.
const WAY_BACK: &str = "note: put dispatch-seen.json back, or remove .runwright/views.json in the \
                        state directory: the next command then makes every file again from the log";

/// The files covered by the stamp.
const STAMPED: [&str; 4] = [EVENTS, DISPATCH, MAILBOX, LEDGER];

/// A removed ledger that this program had written means that the directory was tampered with.
/// Clients rely on the error.
pub(super) fn check_ledger(dir: &Path, data: &Path) -> Result<(), Refused> {
    let was_written = Stamp::read(data).is_some_and(|stamp| stamp.events > 0);
    if was_written && !dir.join(LEDGER).exists() {
        Err(format!("{LEDGER_MISSING}\n{WAY_BACK}").into())
    } else {
        Ok(())
    }
}

/// Updates every file.
pub(super) fn refresh(
    folder: &Folder,
    coordinator: &Coordinator,
    rule: LeaseRule,
) -> Result<(), Refused> {
    refreshed(try_refresh(folder, coordinator, rule))
}

/// The same after a rejected command: an earlier one may have been killed before it wrote the
/// files. A runtime without commands has none.
///
/// # Errors
/// As [`refresh`].
pub(super) fn catch_up(folder: &Folder, rule: LeaseRule) -> Result<(), Refused> {
    let coordinator = folder.standing_now()?;
    match coordinator.next_seq() {
        0 => Ok(()),
        _ => refresh(folder, &coordinator, rule),
    }
}

/// The same, while the lock of the files is held.
///
/// # Errors
/// As [`refresh`].
pub(super) fn catch_up_locked(folder: &Folder, rule: LeaseRule) -> Result<(), Refused> {
    let coordinator = folder.standing_now()?;
    match coordinator.next_seq() {
        0 => Ok(()),
        _ => refreshed(try_refresh_locked(folder, &coordinator, rule)),
    }
}

fn refreshed(done: Result<(), Failed>) -> Result<(), Refused> {
    done.map_err(|error| Refused(format!("compatibility view failed: {error}")))
}

fn try_refresh(folder: &Folder, coordinator: &Coordinator, rule: LeaseRule) -> Result<(), Failed> {
    let _writing = folder.lock_files()?;
    try_refresh_locked(folder, coordinator, rule)
}

fn try_refresh_locked(
    folder: &Folder,
    coordinator: &Coordinator,
    rule: LeaseRule,
) -> Result<(), Failed> {
    let head = coordinator.next_seq();
    let dir = &folder.path;
    let before =
        Stamp::read(&folder.data).filter(|stamp| stamp.is_of(dir) && stamp.next_seq <= head);
    let count = match before {
        Some(before) if before.next_seq == head => before.events,
        Some(before) => {
            let news = folder.events(before.next_seq)?;
            match follow(dir, &before, &news)? {
                Some(count) => count,
                None => whole(folder)?,
            }
        }
        None => whole(folder)?,
    };
    let standing = coordinator.standing(folder.door().store().now(), rule);
    let snapshot = SnapshotJson::from(&standing);
    replace_json(dir, SNAPSHOT, &snapshot)?;
    replace_json(dir, "authority.json", &snapshot.authority)?;
    replace_json(dir, "backlog.json", &snapshot.backlog)?;
    replace_json(dir, "readiness.json", &snapshot.readiness)?;
    replace_json(dir, "replay.json", &snapshot.replay)?;
    Stamp::take(dir, head, count)?.write(&folder.data)?;
    Ok(())
}

/// Applies new events to files of the previous state. `None` if one of them cannot be updated: then
/// everything is rebuilt.
fn follow(
    dir: &Path,
    before: &Stamp,
    news: &[kernel::coordinator::Event],
) -> Result<Option<u64>, Failed> {
    let is_whole = |event: &kernel::coordinator::Event| {
        records::rewrites(&event.body) || events::voids(&event.body)
    };
    if news.iter().any(is_whole) {
        return Ok(None);
    }
    if !records::follow(dir, news)? {
        return Ok(None);
    }
    let shown: Vec<String> = news.iter().filter_map(events::shown).collect();
    if events::extend(&dir.join(EVENTS), before.events, &shown)? {
        Ok(Some(before.events + shown.len() as u64))
    } else {
        Ok(None)
    }
}

/// Rebuilds the files from the whole log.
fn whole(folder: &Folder) -> Result<u64, Failed> {
    let events = folder.events(0)?;
    let dir = &folder.path;
    records::write_all(dir, &events)?;
    let shown = events::of_log(&events);
    replace(dir, EVENTS, events::text(&shown).as_bytes())?;
    Ok(shown.len() as u64)
}

/// Why a view could not be written.
#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self(format!("io error: {error}"))
    }
}

impl From<store::StoreError> for Failed {
    fn from(error: store::StoreError) -> Self {
        Self(format!("io error: {error}"))
    }
}

fn replace_json(dir: &Path, name: &str, value: &impl Serialize) -> Result<(), Failed> {
    let bytes = serde_json::to_vec_pretty(value).expect("a view is always JSON");
    replace(dir, name, &bytes)
}

/// Replaces a file atomically. Not synced: a view that a power failure loses is rebuilt.
fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), Failed> {
    let fresh = dir.join(format!(".{name}.new"));
    let mut file = private::file()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&fresh)?;
    file.write_all(bytes)?;
    drop(file);
    std::fs::rename(&fresh, dir.join(name))?;
    Ok(())
}

//! Puts snapshots in the place of those that have secrets in them.
//!
//! What was sealed is never changed. A snapshot with secrets is written once more as the rules of now
//! would have it, under an id of its own, and says whose place it takes (`extensions.supersedes`);
//! then the other one goes, with the contents that nothing names any more. What needs it is written
//! once more, too, so that it names the new one. Cut off at any moment, it leaves whole snapshots,
//! and the next time does the rest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use faces::provenance::calls::{Attempt, Call, EFFECTS};
use faces::provenance::document::{RedactionCount, Snapshot, Superseded};
use faces::provenance::hash::{digest, written};
use faces::provenance::seal::{integrity, seal};
use kernel::digest::Digest;
use provenance::{
    Entry, Folder, FolderError, Kept, Pruned, Redaction, Strictness, Superseder, is_as_written,
    new_id,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::contents::Cleaned;
use super::{Recheck, recheck};
use crate::clean::Cleaner;
use crate::document::{PROCESS, WORKSPACE};

/// What became of the snapshots that had secrets in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mended {
    /// Which went, and what stands in their place.
    pub superseded: Vec<Replaced>,
    /// Which stay as they are, and why.
    pub refused: Vec<Refused>,
    /// What went besides.
    pub pruned: Pruned,
}

/// A snapshot that another stands in the place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// The one that went.
    pub snapshot_id: String,
    /// The other.
    pub by: String,
    /// Where that lies.
    pub path: PathBuf,
}

/// A snapshot that has secrets in it and stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Which.
    pub snapshot_id: String,
    /// `pinned`, `not_whole` or `foreign`.
    pub code: &'static str,
    /// For a person.
    pub message: String,
    /// What to do next.
    pub advice: String,
}

/// Why one stays.
#[derive(Clone, Copy)]
enum Why {
    Pinned,
    NotWhole,
    Foreign,
}

impl Why {
    fn refused(self, id: &str, by: &str, file: &str) -> Refused {
        let (code, message, advice) = match self {
            Self::Pinned => (
                "pinned",
                "it is pinned: somebody wants it kept as it is",
                format!("`runwright snapshot pin {by} --remove`, then this again"),
            ),
            Self::NotWhole => (
                "not_whole",
                "it is not what was written, so nothing is put in its place",
                format!(
                    "`runwright snapshot verify {by}` says why; remove {file} and what is named like \
                     it, then `runwright snapshot prune --apply`"
                ),
            ),
            Self::Foreign => (
                "foreign",
                "a part of it was written by others in a form that is read in a sense of ours",
                format!("remove {file}, mend where it came from, and import it anew"),
            ),
        };
        let message = match id == by {
            true => message.to_owned(),
            false => format!("{by} needs it, and of that: {message}"),
        };
        Refused {
            snapshot_id: id.to_owned(),
            code,
            message,
            advice,
        }
    }
}

/// A snapshot that is to be written once more.
struct Wanted {
    entry: Entry,
    kept: Kept,
    recheck: Recheck,
}

/// Puts clean snapshots in the place of those that are meant and have secrets in them.
///
/// # Errors
/// [`FolderError::Busy`] while anybody writes; otherwise when something cannot be read or written.
pub fn mend(
    folder: &Folder,
    redaction: &Redaction,
    is_meant: &dyn Fn(&Entry) -> bool,
) -> Result<Mended, FolderError> {
    let mut mended = Mended::default();
    if !folder.snapshots().is_dir() {
        return Ok(mended);
    }
    let superseder = folder.superseder()?;
    let entries = folder.list()?.entries;
    let mut wanted: BTreeMap<String, Wanted> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| is_meant(entry)) {
        let one = want(folder, entry, redaction)?;
        if !one.recheck.found.is_empty() || entry.is_unredacted {
            wanted.insert(entry.snapshot_id.clone(), one);
        }
    }
    // What needs one of them is to name what takes its place.
    loop {
        let is_new = |entry: &&Entry| {
            !wanted.contains_key(&entry.snapshot_id)
                && entry.needs.iter().any(|id| wanted.contains_key(id))
        };
        let Some(entry) = entries.iter().find(is_new) else {
            break;
        };
        let one = want(folder, entry, redaction)?;
        wanted.insert(entry.snapshot_id.clone(), one);
    }
    refuse(folder, &mut wanted, &mut mended)?;

    // What is needed was captured before what needs it.
    let mut order: Vec<&Wanted> = wanted.values().collect();
    order.sort_by_key(|one| one.entry.captured_at);
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for one in &order {
        ids.insert(one.entry.snapshot_id.clone(), new_id());
    }
    for one in &order {
        let kept = write(folder, &superseder, one, &mut ids, &entries, redaction)?;
        mended.superseded.push(Replaced {
            snapshot_id: one.entry.snapshot_id.clone(),
            by: kept.document.snapshot.snapshot_id.clone(),
            path: kept.path,
        });
    }
    for one in order.iter().rev() {
        superseder.remove(&one.kept.path)?;
    }
    mended.pruned = superseder.finish()?;
    Ok(mended)
}

fn want(folder: &Folder, entry: &Entry, redaction: &Redaction) -> Result<Wanted, FolderError> {
    let kept = folder.read(&folder.snapshots().join(&entry.file))?;
    let (recheck, _) = recheck(folder, &kept, redaction)?;
    Ok(Wanted {
        entry: entry.clone(),
        kept,
        recheck,
    })
}

/// Leaves those as they are that nobody may put something in the place of, and what these need.
fn refuse(
    folder: &Folder,
    wanted: &mut BTreeMap<String, Wanted>,
    mended: &mut Mended,
) -> Result<(), FolderError> {
    let mut stays: BTreeMap<String, (Why, String)> = BTreeMap::new();
    for (id, one) in &*wanted {
        let why = match folder.verify(&one.kept, Strictness::Lenient)?.is_valid {
            false => Some(Why::NotWhole),
            true if one.entry.is_pinned => Some(Why::Pinned),
            true if !is_as_written(&one.kept.document) => Some(Why::Foreign),
            true => None,
        };
        if let Some(why) = why {
            stays.insert(id.clone(), (why, id.clone()));
        }
    }
    loop {
        let held = stays.iter().find_map(|(by, (why, _))| {
            let needs = wanted.get(by)?.entry.needs.iter();
            let mut held = needs.filter(|id| wanted.contains_key(*id) && !stays.contains_key(*id));
            Some((held.next()?.clone(), *why, by.clone()))
        });
        let Some((id, why, by)) = held else {
            break;
        };
        stays.insert(id, (why, by));
    }
    for (id, (why, by)) in stays {
        let file = wanted[&by].kept.path.display().to_string();
        let one = wanted.remove(&id);
        // One that has nothing in it stays without a word: it was to name another one.
        if one.is_some_and(|one| !one.recheck.found.is_empty() || one.entry.is_unredacted) {
            mended.refused.push(why.refused(&id, &by, &file));
        }
    }
    // Whatever was to name another one and need not.
    loop {
        let is_idle = |(_, one): &(&String, &Wanted)| {
            let is_clean = one.recheck.found.is_empty() && !one.entry.is_unredacted;
            is_clean && !one.entry.needs.iter().any(|id| wanted.contains_key(id))
        };
        let idle = wanted.iter().find(is_idle).map(|(id, _)| id.clone());
        match idle {
            Some(id) => drop(wanted.remove(&id)),
            None => return Ok(()),
        }
    }
}

/// Writes what takes the place of one, or finds it where it was written before.
fn write(
    folder: &Folder,
    superseder: &Superseder,
    one: &Wanted,
    ids: &mut BTreeMap<String, String>,
    entries: &[Entry],
    redaction: &Redaction,
) -> Result<Kept, FolderError> {
    let damaged = |error: serde_json::Error| FolderError::Damaged {
        path: one.kept.path.clone(),
        why: error.to_string(),
    };
    let old = &one.entry.snapshot_id;
    let (draft, calls, replays) = successor(one, ids).map_err(damaged)?;
    let sealed = |id: &str| {
        let mut draft = draft.clone();
        draft.snapshot_id = id.to_owned();
        let cleaner = Cleaner::new(redaction.fresh(), &[]);
        seal(draft, &mut |value| cleaner.value(value)).map_err(damaged)
    };
    // One that was killed behind the writing left it.
    for entry in entries {
        if entry.supersedes.first() != Some(old) {
            continue;
        }
        let there = folder.read(&folder.snapshots().join(&entry.file))?;
        let again = sealed(&entry.snapshot_id)?;
        let seal_of = |snapshot: &Snapshot| snapshot.extensions.as_ref()?.integrity.clone();
        if seal_of(&there.document.snapshot) == seal_of(&again)
            && folder.verify(&there, Strictness::Lenient)?.is_valid
        {
            ids.insert(old.clone(), entry.snapshot_id.clone());
            return Ok(there);
        }
    }
    for content in one.recheck.changed.values() {
        superseder.put_blob(&content.bytes)?;
    }
    superseder.write(&sealed(&ids[old])?, &calls, &replays)
}

/// What takes the place of a snapshot, not sealed yet, with what lies beside it.
fn successor(
    one: &Wanted,
    ids: &BTreeMap<String, String>,
) -> serde_json::Result<(Snapshot, Vec<Call>, Vec<Attempt>)> {
    let Recheck {
        raw,
        calls,
        replays,
        changed,
        kinds,
        ..
    } = &one.recheck;
    let mut moved: BTreeMap<Digest, Digest> = BTreeMap::new();
    for cleaned in changed.values() {
        moved.extend(cleaned.parts.iter().copied());
    }
    for (old, cleaned) in changed {
        moved.insert(*old, Digest::of(&cleaned.bytes));
    }
    let lists = |values: &[Value]| {
        let mut values = values.to_vec();
        for value in &mut values {
            if let Some(effects) = value.get_mut(EFFECTS) {
                note_changes(effects, changed, &mut BTreeMap::new());
            }
            rename(value, &moved);
        }
        values
    };
    let calls = lists(calls).into_iter().map(serde_json::from_value);
    let calls = calls.collect::<Result<Vec<Call>, _>>()?;
    let replays = lists(replays).into_iter().map(serde_json::from_value);
    let replays = replays.collect::<Result<Vec<Attempt>, _>>()?;

    let mut raw = raw.clone();
    let mut files = BTreeMap::new();
    if let Some(changes) = raw.pointer_mut(&format!("/extensions/{WORKSPACE}")) {
        note_changes(changes, changed, &mut files);
    }
    if let Some(process) = raw.pointer_mut(&format!("/extensions/{PROCESS}")) {
        note_stdin(process, changed);
    }
    rename(&mut raw, &moved);
    let mut snapshot: Snapshot = serde_json::from_value(raw)?;
    snapshot.seal_calls(&calls);
    let more = snapshot.extend();
    let named = |id: &mut String| {
        if let Some(new) = ids.get(id) {
            id.clone_from(new);
        }
    };
    more.parent
        .iter_mut()
        .for_each(|of| named(&mut of.snapshot_id));
    more.baseline.iter_mut().for_each(named);
    more.follows.iter_mut().for_each(named);
    more.supersedes = Some(Superseded {
        snapshot_id: one.entry.snapshot_id.clone(),
        integrity: integrity(&one.kept.document.raw),
        earlier: more.supersedes.take().map(Box::new),
    });
    let before = more.redaction.take().unwrap_or_default();
    more.redaction = Some(counted(before, kinds, files));
    Ok((snapshot, calls, replays))
}

/// What was taken out then and now.
fn counted(
    before: RedactionCount,
    kinds: &super::Kinds,
    files: BTreeMap<String, u64>,
) -> RedactionCount {
    let mut all = Redaction::default().counted();
    all.kinds = before.kinds;
    for (kind, count) in kinds {
        *all.kinds.entry(kind.clone()).or_default() += count;
    }
    all.count = before.count + kinds.values().sum::<u64>();
    all.files = before.files;
    for (file, count) in files {
        *all.files.entry(file).or_default() += count;
    }
    all
}

/// Says of changes of files what was taken out of them now, so that no replay writes them without it.
fn note_changes(
    changes: &mut Value,
    changed: &BTreeMap<Digest, Cleaned>,
    files: &mut BTreeMap<String, u64>,
) {
    for change in changes.as_array_mut().into_iter().flatten() {
        for (hash, redacted, verbatim) in [
            ("hash", "redacted", "verbatim"),
            ("before", "redacted_before", "verbatim_before"),
        ] {
            let known = change[hash].as_str().and_then(digest);
            let Some(cleaned) = known.and_then(|digest| changed.get(&digest)) else {
                continue;
            };
            let taken: u64 = cleaned.taken.values().sum();
            let before = change[redacted].as_u64().unwrap_or(0);
            change[redacted] = json!(before + taken);
            // Values that went at two times may be told by the same name and be others.
            change[verbatim] = json!(cleaned.is_verbatim && before == 0);
            let path = change["path"].as_str().unwrap_or("?").to_owned();
            *files.entry(path).or_default() += taken;
        }
    }
}

/// The same of what a command read.
fn note_stdin(process: &mut Value, changed: &BTreeMap<Digest, Cleaned>) {
    let known = process["stdin_hash"].as_str().and_then(digest);
    if let Some(cleaned) = known.and_then(|digest| changed.get(&digest)) {
        let before = process["stdin_redacted"].as_u64().unwrap_or(0);
        let taken: u64 = cleaned.taken.values().sum();
        process["stdin_redacted"] = json!(before + taken);
        process["stdin_verbatim"] = json!(cleaned.is_verbatim && before == 0);
    }
}

/// Names what has another hash now by that, wherever it is named.
fn rename(value: &mut Value, moved: &BTreeMap<Digest, Digest>) {
    match value {
        Value::String(text) => {
            if let Some(new) = digest(text).and_then(|digest| moved.get(&digest)) {
                *text = written(new);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, moved)),
        Value::Object(members) => members.values_mut().for_each(|item| rename(item, moved)),
        _ => {}
    }
}

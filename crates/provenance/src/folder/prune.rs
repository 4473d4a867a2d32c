//! Decides which snapshots may be removed, and removes them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use faces::provenance::hash::digest;
use faces::provenance::retention::{Facts, Verdict};
use kernel::digest::Digest;
use kernel::time::Timestamp;
use serde::Serialize;

use super::files::{self, Hold};
use super::list::{Kind, kind};
use super::{Broken, CALLS, Entry, Folder, FolderError, PIN, REPLAYS, SIGNATURE, beside};
use crate::contents;

/// The fate of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fate {
    /// The snapshot.
    #[serde(flatten)]
    pub entry: Entry,
    /// `pinned`, `needed`, `clock_behind`, `kept` or `expired`.
    pub verdict: &'static str,
    /// The last moment it is kept, if its age decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl Fate {
    /// Whether it may go.
    pub fn is_expired(&self) -> bool {
        self.verdict == "expired"
    }
}

/// The snapshots that may be removed at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The fate of each snapshot.
    pub fates: Vec<Fate>,
    /// The entries that are passed over.
    pub broken: Vec<Broken>,
}

/// The retention state of a snapshot.
struct Retention {
    /// By itself.
    alone: Verdict,
    /// The verdict if another needs it.
    where_needed: Verdict,
    /// The last moment it is kept, by its age.
    until: Timestamp,
}

/// The removed files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Ids of snapshots.
    pub snapshots: Vec<String>,
    /// Blobs without a remaining reference.
    pub blobs: u64,
    /// Leftovers of interrupted writers.
    pub leftovers: u64,
    /// Whether blobs were swept; they are not while a file here is unreadable, since it may need
    /// any of them.
    pub has_swept: bool,
}

impl Folder {
    /// The snapshots that may be removed now.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn plan(&self, now: Timestamp) -> Result<Plan, FolderError> {
        self.plan_of(now, &|_| true)
    }

    /// As [`Folder::plan`], where only these snapshots may be removed: the others also keep the
    /// snapshots that they need.
    ///
    /// # Errors
    /// The same.
    pub fn plan_of(
        &self,
        now: Timestamp,
        is_of: &dyn Fn(&Entry) -> bool,
    ) -> Result<Plan, FolderError> {
        let listing = self.list()?;
        let retentions: Vec<Option<Retention>> = listing
            .entries
            .iter()
            .map(|entry| self.retention(entry, now))
            .collect();
        // Only kept snapshots keep the ones they need, so this repeats until nothing changes.
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        loop {
            let stays = |entry: &Entry, retention: &Option<Retention>| {
                let goes = retention
                    .as_ref()
                    .is_some_and(|of| matches!(of.alone, Verdict::Expired(_)))
                    && is_of(entry);
                !goes || needed.contains(entry.snapshot_id.as_str())
            };
            let entries = listing.entries.iter().zip(&retentions);
            let staying = entries.filter(|(entry, retention)| stays(entry, retention));
            let more = staying.flat_map(|(entry, _)| entry.needs.iter().map(String::as_str));
            let more: BTreeSet<&str> = more.collect();
            if more == needed {
                break;
            }
            needed = more;
        }
        let mut fates = Vec::new();
        for (entry, retention) in listing.entries.iter().zip(&retentions) {
            let Some(retention) = retention else {
                continue;
            };
            let verdict = if needed.contains(entry.snapshot_id.as_str()) {
                retention.where_needed
            } else {
                retention.alone
            };
            let (verdict, until) = match verdict {
                Verdict::Pinned => ("pinned", None),
                Verdict::Needed => ("needed", None),
                Verdict::ClockBehind => ("clock_behind", Some(retention.until)),
                Verdict::Until(until) => ("kept", Some(until)),
                Verdict::Expired(until) => ("expired", Some(until)),
            };
            fates.push(Fate {
                entry: entry.clone(),
                verdict,
                until: until.map(|until| until.to_string()),
            });
        }
        Ok(Plan {
            fates,
            broken: listing.broken,
        })
    }

    /// The retention state of a snapshot. `None` where it cannot be read.
    fn retention(&self, entry: &Entry, now: Timestamp) -> Option<Retention> {
        let path = self.snapshots().join(&entry.file);
        let kept = self.read(&path).ok()?;
        let replays = kept.document.snapshot.replays();
        // Without a readable record, the status decides.
        let attempts = self.attempts(&path).unwrap_or_default();
        let facts = |is_needed| Facts {
            captured: entry.captured_at,
            replays: &replays,
            latest: attempts.iter().rfind(|attempt| attempt.is_complete()),
            is_pinned: entry.is_pinned,
            is_needed,
        };
        Some(Retention {
            alone: facts(false).verdict(now),
            where_needed: facts(true).verdict(now),
            until: facts(false).until(),
        })
    }

    /// Removes the snapshots that may go now, then the contents that only they used. An
    /// interruption leaves every snapshot complete or removed; the next prune does the rest.
    ///
    /// # Errors
    /// [`FolderError::Busy`] while another process writes; otherwise when the disk rejects a write.
    pub fn prune(&self, now: Timestamp) -> Result<Pruned, FolderError> {
        self.prune_of(now, &|_| true)
    }

    /// As [`Folder::prune`], for these snapshots only.
    ///
    /// # Errors
    /// The same.
    pub fn prune_of(
        &self,
        now: Timestamp,
        is_of: &dyn Fn(&Entry) -> bool,
    ) -> Result<Pruned, FolderError> {
        let mut pruned = Pruned::default();
        match fs::metadata(self.snapshots()) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(pruned),
            Err(error) => return Err(FolderError::io(&self.snapshots())(error)),
        }
        let _hold = self.hold(Hold::Alone)?;
        let folder = self.snapshots();
        let mut fates = self.plan_of(now, is_of)?.fates;
        // A dependent snapshot was captured later, and is removed earlier.
        fates.sort_by_key(|fate| std::cmp::Reverse(fate.entry.captured_at));
        for fate in fates {
            if fate.is_expired() && is_of(&fate.entry) {
                self.let_go(&folder.join(&fate.entry.file))?;
                pruned.snapshots.push(fate.entry.snapshot_id);
            }
        }
        self.clear(&mut pruned)?;
        Ok(pruned)
    }

    /// Removes snapshots with everything that only they use.
    ///
    /// # Errors
    /// [`FolderError::Busy`] while another process writes; otherwise when the disk rejects a write.
    pub fn remove(&self, snapshots: &[PathBuf]) -> Result<Pruned, FolderError> {
        let _hold = self.hold(Hold::Alone)?;
        let mut pruned = Pruned::default();
        for path in snapshots {
            pruned
                .snapshots
                .push(self.read(path)?.document.snapshot.snapshot_id);
            self.let_go(path)?;
        }
        self.clear(&mut pruned)?;
        Ok(pruned)
    }

    /// Removes a snapshot and its sidecar files, but not its contents.
    fn let_go(&self, snapshot: &Path) -> Result<(), FolderError> {
        // The snapshot first: without it the rest is a leftover.
        files::remove(snapshot)?;
        for ending in [CALLS, REPLAYS, PIN, SIGNATURE] {
            files::remove(&beside(snapshot, ending))?;
        }
        Ok(())
    }

    /// Removes leftovers and unreferenced blobs, and makes that durable.
    fn clear(&self, pruned: &mut Pruned) -> Result<(), FolderError> {
        let folder = self.snapshots();
        pruned.leftovers = self.clear_leftovers(&folder)?;
        let used = self.used_blobs()?;
        pruned.has_swept = used.is_some();
        if let Some(used) = used {
            pruned.blobs = self.sweep(&used)?;
        }
        let synced = files::sync_folder(&folder);
        synced.map_err(FolderError::io(&folder))
    }

    /// Removes leftovers. The caller holds the exclusive lock, so no other writer is active.
    fn clear_leftovers(&self, folder: &Path) -> Result<u64, FolderError> {
        let mut count = 0;
        for name in names(folder)? {
            let is_leftover = match kind(&name) {
                Kind::Unfinished => true,
                Kind::Beside(stem) => !folder.join(format!("{stem}.json")).exists(),
                Kind::Snapshot | Kind::Other => false,
            };
            if is_leftover && files::remove(&folder.join(&name))? {
                count += 1;
            }
        }
        Ok(count)
    }

    /// The digests that snapshots and their calls name. `None` while one file is unreadable.
    fn used_blobs(&self) -> Result<Option<BTreeSet<Digest>>, FolderError> {
        let folder = self.snapshots();
        let mut used = BTreeSet::new();
        for name in names(&folder)? {
            if !matches!(kind(&name), Kind::Snapshot) {
                continue;
            }
            let path = folder.join(&name);
            let (Ok(kept), Ok(calls)) = (self.read(&path), self.calls(&path)) else {
                return Ok(None);
            };
            used.extend(contents::named(&kept.document, &calls));
        }
        Ok(Some(used))
    }

    fn sweep(&self, used: &BTreeSet<Digest>) -> Result<u64, FolderError> {
        let blobs = self.blobs();
        let mut count = 0;
        if !blobs.is_dir() {
            return Ok(count);
        }
        for first in names(&blobs)? {
            let folder: PathBuf = blobs.join(&first);
            if !folder.is_dir() {
                continue;
            }
            for rest in names(&folder)? {
                let is_used = digest(&format!("{first}{rest}"));
                let is_used = is_used.is_some_and(|digest| used.contains(&digest));
                if !is_used && files::remove(&folder.join(&rest))? {
                    count += 1;
                }
            }
        }
        Ok(count)
    }
}

/// The names in a folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, FolderError> {
    let mut names = Vec::new();
    for file in fs::read_dir(folder).map_err(FolderError::io(folder))? {
        let file = file.map_err(FolderError::io(folder))?;
        names.push(file.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

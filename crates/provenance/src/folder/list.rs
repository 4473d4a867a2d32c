//! Finds snapshots: the list, its index, and names for one of them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use faces::provenance::document::{MatchStatus, Mode};
use faces::provenance::read::Document;
use faces::provenance::seal::{self, Seal};
use kernel::limits::MAX_SNAPSHOT_BYTES;
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::{self, UNFINISHED};
use super::{CALLS, Folder, FolderError, PIN, REPLAYS, SIGNATURE};

/// Minimum characters of an id's prefix.
const MIN_PREFIX: usize = 4;
/// The version of the index; others are ignored.
const INDEX_VERSION: u32 = 4;

/// A list entry for a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its file within the folder.
    pub file: String,
    /// Its id.
    pub snapshot_id: String,
    /// The name it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The workflow or command that was carried out.
    pub workflow_id: String,
    /// When the execution ended.
    pub captured_at: Timestamp,
    /// Its execution mode.
    pub execution_mode: Mode,
    /// The model.
    pub model: String,
    /// The run it was captured from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The workspace of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The outcome of the latest replay.
    pub match_status: MatchStatus,
    /// The number of replays that finished.
    pub replay_count: u64,
    /// Whether the snapshot is pinned.
    pub is_pinned: bool,
    /// Whether the document matches its seal; calls and contents are not checked.
    pub seal: Seal,
    /// It was not redacted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unredacted: bool,
    /// Calls may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unverified: bool,
    /// Snapshots it needs kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// A file in the folder that should be a snapshot, or part of one, and is damaged or incomplete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Its file within the folder.
    pub file: String,
    /// The reason.
    pub why: String,
}

impl Broken {
    /// Whether this is a leftover of a writer that is still at work or was killed: half a file, or
    /// sidecar files without a snapshot. Nothing that was ever whole is damaged.
    pub fn is_unfinished(&self) -> bool {
        !matches!(kind(&self.file), Kind::Snapshot)
    }
}

/// The contents of a folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Listing {
    /// The snapshots, the latest first.
    pub entries: Vec<Entry>,
    /// The entries that were passed over.
    pub broken: Vec<Broken>,
}

/// The reason why a name resolves to no single snapshot.
#[derive(Debug, thiserror::Error)]
pub enum Unresolved {
    /// No snapshot has this name.
    #[error("no snapshot {0}")]
    Missing(String),
    /// Several ids have this prefix, or several snapshots this name.
    #[error("{name} may be any of {}", among.join(", "))]
    Ambiguous {
        /// The name to resolve.
        name: String,
        /// Their ids, with their files.
        among: Vec<String>,
    },
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// The content of the index: entries by file, with the data that shows whether the file is
/// unchanged.
#[derive(Default, Serialize, Deserialize)]
struct Index {
    version: u32,
    files: BTreeMap<String, Indexed>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Indexed {
    size: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    entry: Entry,
}

impl Entry {
    /// The list entry for a snapshot.
    pub fn new(file: String, document: &Document, is_pinned: bool) -> Self {
        let snapshot = &document.snapshot;
        let extensions = snapshot.extensions.as_ref();
        let replays = snapshot.replays();
        Self {
            file,
            snapshot_id: snapshot.snapshot_id.clone(),
            name: extensions.and_then(|more| more.name.clone()),
            workflow_id: snapshot.workflow_id.clone(),
            captured_at: snapshot.captured().unwrap_or_default(),
            execution_mode: snapshot.config.execution_mode,
            model: snapshot.config.model.id.clone(),
            run_id: extensions.and_then(|more| more.run_id.clone()),
            workspace: extensions.and_then(|more| {
                let workspace = more.other.get("workspace")?.as_str()?;
                Some(workspace.to_owned())
            }),
            match_status: replays.match_status,
            replay_count: replays.replay_count,
            seal: seal::read(document),
            is_pinned: is_pinned || extensions.and_then(|more| more.pinned) == Some(true),
            is_unredacted: snapshot.is_unredacted(),
            is_unverified: snapshot.is_unverified(),
            needs: snapshot.needs().map(str::to_owned).collect(),
        }
    }
}

impl Folder {
    /// Lists the folder. A missing folder is empty.
    ///
    /// # Errors
    /// When the folder cannot be read. The listing includes files that cannot be read.
    pub fn list(&self) -> Result<Listing, FolderError> {
        let folder = self.snapshots();
        let files = match fs::read_dir(&folder) {
            Ok(files) => files,
            // An inaccessible folder may hold some, so it is an error.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Listing::default());
            }
            Err(error) => return Err(FolderError::io(&folder)(error)),
        };
        let known = self.index();
        let mut index = Index {
            version: INDEX_VERSION,
            files: BTreeMap::new(),
        };
        let mut listing = Listing::default();
        let mut names = Vec::new();
        for file in files {
            let file = file.map_err(FolderError::io(&folder))?;
            names.push(file.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        for name in &names {
            let path = folder.join(name);
            match kind(name) {
                Kind::Snapshot => match self.entry(name, &path, &known) {
                    Ok(Some(indexed)) => {
                        listing.entries.push(indexed.entry.clone());
                        index.files.insert(name.clone(), indexed);
                    }
                    // Pruned a moment ago.
                    Ok(None) => {}
                    Err(why) => listing.broken.push(Broken {
                        file: name.clone(),
                        why,
                    }),
                },
                Kind::Beside(stem) if names.binary_search(&format!("{stem}.json")).is_err() => {
                    listing.broken.push(Broken {
                        file: name.clone(),
                        why: "its snapshot is missing".to_owned(),
                    });
                }
                Kind::Beside(_) | Kind::Other => {}
                Kind::Unfinished => listing.broken.push(Broken {
                    file: name.clone(),
                    why: "it is incomplete".to_owned(),
                }),
            }
        }
        if index.files != known.files {
            self.keep_index(&index);
        }
        let latest = |entry: &Entry| (entry.captured_at, entry.file.clone());
        listing
            .entries
            .sort_by_key(|entry| std::cmp::Reverse(latest(entry)));
        Ok(listing)
    }

    fn entry(&self, name: &str, path: &Path, known: &Index) -> Result<Option<Indexed>, String> {
        let Ok(facts) = fs::symlink_metadata(path) else {
            return Ok(None);
        };
        let is_pinned = self.is_pinned(path);
        let mut indexed = Indexed {
            size: facts.size(),
            inode: facts.ino(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
            entry: match known.files.get(name) {
                Some(known) => known.entry.clone(),
                None => Entry::new(name.to_owned(), &self.document(path)?, is_pinned),
            },
        };
        if let Some(known) = known.files.get(name) {
            let is_same = (known.size, known.inode, known.modified, known.changed)
                == (
                    indexed.size,
                    indexed.inode,
                    indexed.modified,
                    indexed.changed,
                );
            if !is_same || known.entry.is_pinned != is_pinned {
                indexed.entry = Entry::new(name.to_owned(), &self.document(path)?, is_pinned);
            }
        }
        Ok(Some(indexed))
    }

    fn document(&self, path: &Path) -> Result<Document, String> {
        match self.read(path) {
            Ok(kept) => Ok(kept.document),
            Err(FolderError::NoSnapshot { why, .. }) => Err(why.message),
            Err(FolderError::Damaged { why, .. }) => Err(why),
            Err(error) => Err(error.to_string()),
        }
    }

    fn index_path(&self) -> PathBuf {
        self.base.join("index.json")
    }

    /// The index, or an empty one: the reader rebuilds it.
    fn index(&self) -> Index {
        let bytes = files::bytes(&self.index_path(), MAX_SNAPSHOT_BYTES as u64);
        let bytes = bytes.ok().flatten().unwrap_or_default();
        let index: Index = serde_json::from_slice(&bytes).unwrap_or_default();
        match index.version {
            INDEX_VERSION => index,
            _ => Index::default(),
        }
    }

    fn keep_index(&self, index: &Index) {
        // Without it, only the next list takes longer.
        if let Ok(bytes) = serde_json::to_vec(index) {
            let _ = files::replace(&self.index_path(), &bytes);
        }
    }

    /// The file for an id, a prefix of one (at least four characters), a name, `latest`, or a path.
    ///
    /// # Errors
    /// When none matches, or several do.
    pub fn resolve(&self, name: &str) -> Result<PathBuf, Unresolved> {
        let path = Path::new(name);
        if (name.contains('/') || name.ends_with(".json")) && path.is_file() {
            return Ok(path.to_owned());
        }
        let listing = self.list()?;
        let entries = &listing.entries;
        let path = |entry: &Entry| self.snapshots().join(&entry.file);
        if name == "latest" {
            let latest = entries.first().map(path);
            return latest.ok_or_else(|| Unresolved::Missing(name.to_owned()));
        }
        let is_id = |entry: &&Entry| entry.snapshot_id == name;
        let is_file =
            |entry: &&Entry| entry.file == name || entry.file.strip_suffix(".json") == Some(name);
        let is_name = |entry: &&Entry| entry.name.as_deref() == Some(name);
        let begins = |entry: &&Entry| {
            name.chars().count() >= MIN_PREFIX && entry.snapshot_id.starts_with(name)
        };
        let tries: [&dyn Fn(&&Entry) -> bool; 4] = [&is_id, &is_file, &is_name, &begins];
        for is_meant in tries {
            let found: Vec<&Entry> = entries.iter().filter(|entry| is_meant(entry)).collect();
            match &*found {
                [] => {}
                [one] => return Ok(path(one)),
                several => {
                    let among = several
                        .iter()
                        .map(|entry| format!("{} ({})", entry.snapshot_id, entry.file));
                    return Err(Unresolved::Ambiguous {
                        name: name.to_owned(),
                        among: among.collect(),
                    });
                }
            }
        }
        Err(Unresolved::Missing(name.to_owned()))
    }
}

/// The type of a file of the folder, by its name.
pub(super) enum Kind<'a> {
    Snapshot,
    /// A sidecar file of the snapshot with this stem.
    Beside(&'a str),
    Unfinished,
    Other,
}

pub(super) fn kind(name: &str) -> Kind<'_> {
    if name.starts_with(UNFINISHED) {
        return Kind::Unfinished;
    }
    if name.starts_with('.') {
        return Kind::Other;
    }
    for ending in [CALLS, REPLAYS, PIN, SIGNATURE] {
        if let Some(stem) = name
            .strip_suffix(ending)
            .and_then(|stem| stem.strip_suffix('.'))
        {
            return Kind::Beside(stem);
        }
    }
    if name.ends_with(".json") {
        Kind::Snapshot
    } else {
        Kind::Other
    }
}

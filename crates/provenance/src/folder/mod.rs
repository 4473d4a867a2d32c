//! The folder of snapshots.
//!
//! ```text
//! .aiwg/provenance/
//!   snapshots/STEM.json            a snapshot
//!   snapshots/STEM.calls.jsonl     the calls of its execution
//!   snapshots/STEM.replays.jsonl   attempts to replay it
//!   snapshots/STEM.pin             the pin: the snapshot is kept
//!   snapshots/STEM.sig             the signature of its seal
//!   blobs/sha256/ab/REST           bytes, by their hash
//!   index.json                     what `list` knows already; may be deleted at any moment
//! ```
//!
//! A file gets its name when it is complete and on disk. Any other file is passed over and
//! reported. Writers hold the folder's lock shared; pruning holds it exclusively.

mod blobs;
mod files;
mod import;
mod list;
mod prune;
mod replays;
mod runs;
mod write;

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use faces::provenance::calls::{Attempt, Call};
use faces::provenance::read::{self, Document, NoSnapshot};
use kernel::json::{self, Limits};
use kernel::limits::{MAX_CALL_BYTES, MAX_JSON_DEPTH, MAX_SNAPSHOT_BYTES};
use serde::de::DeserializeOwned;

use crate::signature::Signature;
use crate::verify;

pub use blobs::hash_file;
pub use import::{Imported, is_as_written};
pub use list::{Broken, Entry, Listing, Unresolved};
pub use prune::{Fate, Plan, Pruned};
pub use runs::KeptRun;
pub(crate) use write::Beside;
pub use write::Writer;

/// The folder of a project for evidence about its results.
const PROJECT_FOLDER: &str = ".aiwg/provenance";
const CALLS: &str = "calls.jsonl";
const REPLAYS: &str = "replays.jsonl";
const PIN: &str = "pin";
const SIGNATURE: &str = "sig";

/// Maximum bytes of a signature.
const MAX_SIGNATURE: u64 = 64 << 10;

/// A folder of snapshots. It need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    base: PathBuf,
}

/// A snapshot and its path.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its file.
    pub path: PathBuf,
    /// Its content.
    pub document: Document,
}

/// Errors of the folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A system error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A file is not a snapshot.
    #[error("{}: {why}", path.display())]
    NoSnapshot {
        /// Which.
        path: PathBuf,
        /// The reason.
        why: NoSnapshot,
    },
    /// A sidecar file or a blob differs from the data that was written.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// Another snapshot has the id of the imported one.
    #[error("{}: another snapshot has this id already", path.display())]
    IdTaken {
        /// Which.
        path: PathBuf,
    },
    /// No blob has this hash.
    #[error("the content {hash} is not kept here")]
    NoBlob {
        /// The hash.
        hash: String,
    },
    /// A capture or a prune is in progress.
    #[error("another process is writing to {}; try again when it is done", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
}

impl FolderError {
    /// An error of the system, for `map_err`.
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

impl Folder {
    /// The folder of a project.
    pub fn of_project(root: &Path) -> Self {
        Self::at(root.join(PROJECT_FOLDER))
    }

    /// A folder by its path; it contains `snapshots` and `blobs`.
    pub fn at(base: PathBuf) -> Self {
        Self { base }
    }

    /// The folder of a snapshot, by its path.
    pub fn holding(snapshot: &Path) -> Option<Self> {
        let snapshot = std::path::absolute(snapshot).ok()?;
        let snapshots = snapshot.parent()?;
        let base = snapshots
            .file_name()
            .is_some_and(|name| name == "snapshots");
        base.then(|| Self::at(snapshots.parent().unwrap_or(Path::new("")).to_owned()))
    }

    /// The folder of a snapshot; this one for a file outside any folder.
    pub fn holding_or_self(self, snapshot: &Path) -> Self {
        Self::holding(snapshot).unwrap_or(self)
    }

    /// The project of this folder, if it belongs to one.
    pub fn project(&self) -> Option<&Path> {
        let is_of_one = self.base.ends_with(PROJECT_FOLDER);
        self.base.ancestors().nth(2).filter(|_| is_of_one)
    }

    /// The folder of snapshots.
    pub fn snapshots(&self) -> PathBuf {
        self.base.join("snapshots")
    }

    /// The folder of blobs.
    pub fn blobs(&self) -> PathBuf {
        self.base.join("blobs").join("sha256")
    }

    /// Reads a snapshot, here or anywhere.
    ///
    /// # Errors
    /// When it cannot be read, or is not a snapshot.
    pub fn read(&self, path: &Path) -> Result<Kept, FolderError> {
        let missing = || FolderError::io(path)(io::ErrorKind::NotFound.into());
        let bytes = files::bytes(path, MAX_SNAPSHOT_BYTES as u64)?.ok_or_else(missing)?;
        match read::read(&bytes) {
            Ok(document) => Ok(Kept {
                path: path.to_owned(),
                document,
            }),
            Err(why) => Err(FolderError::NoSnapshot {
                path: path.to_owned(),
                why: verify::located(&bytes, why),
            }),
        }
    }

    /// The calls that were recorded with a snapshot, in order. Empty when it has no such file.
    ///
    /// # Errors
    /// When the file cannot be read, or one of its lines is not a call.
    pub fn calls(&self, snapshot: &Path) -> Result<Vec<Call>, FolderError> {
        lines(&beside(snapshot, CALLS), Tail::MustBeWhole)
    }

    /// The name of the file with the calls of a snapshot.
    pub(crate) fn calls_file(&self, snapshot: &Path) -> String {
        let path = beside(snapshot, CALLS);
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Every attempt to replay a snapshot, in order. A truncated last line is ignored.
    ///
    /// # Errors
    /// When the file cannot be read, or a line other than the last is not an attempt.
    pub fn attempts(&self, snapshot: &Path) -> Result<Vec<Attempt>, FolderError> {
        lines(&beside(snapshot, REPLAYS), Tail::MayBeCut)
    }

    /// The signature of a snapshot's seal, if it has one.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a signature.
    pub fn signature(&self, snapshot: &Path) -> Result<Option<Signature>, FolderError> {
        let path = beside(snapshot, SIGNATURE);
        let bytes = files::bytes(&path, MAX_SIGNATURE)?;
        let read = bytes.map(|bytes| serde_json::from_slice(&bytes));
        read.transpose().map_err(|error| FolderError::Damaged {
            path,
            why: format!("this is not a signature: {error}"),
        })
    }

    /// Whether a snapshot is pinned.
    pub fn is_pinned(&self, snapshot: &Path) -> bool {
        beside(snapshot, PIN).exists()
    }
}

/// The path of a sidecar file of a snapshot.
fn beside(snapshot: &Path, ending: &str) -> PathBuf {
    snapshot.with_extension(ending)
}

/// The accepted state of the last line of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    MustBeWhole,
    MayBeCut,
}

fn lines<T: DeserializeOwned>(path: &Path, tail: Tail) -> Result<Vec<T>, FolderError> {
    let Some(file) = files::open(path, u64::MAX)? else {
        return Ok(Vec::new());
    };
    let limits = Limits {
        max_bytes: MAX_CALL_BYTES + 1,
        max_depth: MAX_JSON_DEPTH,
    };
    let mut reader = BufReader::new(file);
    let mut values = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_CALL_BYTES as u64 + 1;
        let read = (&mut reader).take(limit).read_until(b'\n', &mut line);
        if read.map_err(FolderError::io(path))? == 0 {
            return Ok(values);
        }
        let is_whole = line.ends_with(b"\n");
        if !is_whole && tail == Tail::MayBeCut {
            return Ok(values);
        }
        let read = json::parse(&line, limits)
            .map_err(|problems| problems.to_string())
            .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
        match read {
            Ok(value) => values.push(value),
            Err(error) => {
                let why = format!("line {} cannot be read: {error}", values.len() + 1);
                let path = path.to_owned();
                return Err(FolderError::Damaged { path, why });
            }
        }
    }
}

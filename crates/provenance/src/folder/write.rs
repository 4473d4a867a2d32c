//! Writes snapshots and pins.

use std::fs::File;
use std::path::{Path, PathBuf};

use faces::provenance::calls::{Attempt, Call};
use faces::provenance::chain;
use faces::provenance::document::Snapshot;
use faces::provenance::naming;
use faces::provenance::read;
use faces::provenance::seal;
use kernel::limits::MAX_CALL_BYTES;
use serde::Serialize;

use super::files::{self, Hold};
use super::{CALLS, Folder, FolderError, Kept, PIN, REPLAYS, SIGNATURE, beside};
use crate::signature::{Signature, Signed, SigningKey};

/// Maximum tries for a free name. Few snapshots of one workflow share a millisecond.
const MAX_NAMES: usize = 10_000;

/// Puts blobs and a snapshot into a folder. Nothing is pruned while it exists.
#[derive(Debug)]
pub struct Writer {
    pub(super) folder: Folder,
    /// The lock, held as long as this is open.
    pub(super) _hold: File,
}

impl Folder {
    /// Begins to write; creates the folder if it is missing.
    ///
    /// # Errors
    /// When the folder cannot be created, or a prune is in progress.
    pub fn writer(&self) -> Result<Writer, FolderError> {
        Ok(Writer {
            _hold: self.hold(Hold::Shared)?,
            folder: self.clone(),
        })
    }

    /// Pins or unpins a snapshot. Its file stays unchanged.
    ///
    /// # Errors
    /// When the folder cannot be written, or a prune is in progress.
    pub fn pin(&self, snapshot: &Path, is_wanted: bool) -> Result<(), FolderError> {
        let _hold = self.hold(Hold::Shared)?;
        let path = beside(snapshot, PIN);
        if is_wanted {
            files::create(&path, b"").map(|_| ())
        } else {
            files::remove(&path).map(|_| ())
        }
    }
}

impl Writer {
    /// The folder it writes to.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Writes a sealed snapshot and the calls of its execution under a free name. When this
    /// returns, the snapshot is complete and durable; until then, no part of it counts as a
    /// snapshot.
    ///
    /// # Errors
    /// When the disk rejects a write, or the data is not a valid snapshot.
    pub fn write(&self, snapshot: &Snapshot, calls: &[Call]) -> Result<Kept, FolderError> {
        let beside = Beside::new(calls, &[]);
        let folder = self.folder.snapshots();
        let captured = snapshot.captured().unwrap_or_default();
        let stem = naming::stem(&snapshot.workflow_id, captured);
        let damaged = |why: String| FolderError::Damaged {
            path: folder.clone(),
            why,
        };
        let text = pretty(snapshot).map_err(|error| damaged(error.to_string()))?;
        let document = match read::read(&text) {
            Ok(document) => document,
            Err(why) => return Err(FolderError::NoSnapshot { path: folder, why }),
        };
        let mut lines = beside.calls.split(|byte| *byte == b'\n');
        // Never write a line that could not be read back.
        if lines.any(|line| line.len() > MAX_CALL_BYTES) {
            return Err(damaged(format!(
                "a call has more than {MAX_CALL_BYTES} bytes"
            )));
        }
        let path = self.place(&stem, &text, &beside)?;
        Ok(Kept { path, document })
    }

    /// Signs the seal of a snapshot.
    ///
    /// # Errors
    /// When the disk rejects a write.
    pub fn sign(&self, kept: &Kept, key: &SigningKey) -> Result<(), FolderError> {
        let signature = key.sign(Signed::Seal(seal::text(&kept.document.raw)));
        self.put_signature(&kept.path, &signature)
    }

    pub(crate) fn put_signature(
        &self,
        snapshot: &Path,
        signature: &Signature,
    ) -> Result<(), FolderError> {
        let path = beside(snapshot, SIGNATURE);
        let text = pretty(signature).map_err(|error| FolderError::Damaged {
            path: path.clone(),
            why: error.to_string(),
        })?;
        files::replace(&path, &text)
    }

    /// Puts a snapshot and its sidecar files under a free name.
    pub(super) fn place(
        &self,
        stem: &str,
        text: &[u8],
        with: &Beside,
    ) -> Result<PathBuf, FolderError> {
        let folder = self.folder.snapshots();
        for number in 1..=MAX_NAMES {
            let name = match number {
                1 => format!("{stem}.json"),
                number => format!("{stem}-{number}.json"),
            };
            let path = folder.join(name);
            if path.exists() {
                continue;
            }
            // The snapshot last: a reader that sees it also sees its sidecar files.
            let mut placed = Vec::new();
            let mut is_free = true;
            for (ending, bytes) in [(CALLS, &with.calls), (REPLAYS, &with.replays)] {
                if is_free && !bytes.is_empty() {
                    let at = beside(&path, ending);
                    is_free = files::create(&at, bytes)?;
                    placed.extend(is_free.then_some(at));
                }
            }
            if is_free && files::create(&path, text)? {
                return Ok(path);
            }
            for at in placed {
                files::remove(&at)?;
            }
        }
        Err(FolderError::Damaged {
            path: folder,
            why: "all possible names of the snapshot are in use".to_owned(),
        })
    }
}

/// The sidecar files of a snapshot; empty ones are not written.
#[derive(Default)]
pub(crate) struct Beside {
    pub calls: Vec<u8>,
    pub replays: Vec<u8>,
}

impl Beside {
    /// Calls and attempts, one per line. Calls are chained here; attempts are as recorded.
    pub(crate) fn new(calls: &[Call], replays: &[Attempt]) -> Self {
        Self {
            calls: lines(&chain::linked("", calls)),
            replays: lines(replays),
        }
    }
}

fn lines(values: &[impl Serialize]) -> Vec<u8> {
    let mut lines = Vec::new();
    for value in values {
        serde_json::to_writer(&mut lines, value).expect("a call or an attempt is always JSON");
        lines.push(b'\n');
    }
    lines
}

/// The format of files: indented by two, with a line break at the end.
pub(super) fn pretty(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

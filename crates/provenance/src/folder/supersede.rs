//! Snapshots in the place of others that had secrets in them.

use std::path::Path;

use faces::provenance::calls::{Attempt, Call};
use faces::provenance::document::Snapshot;

use super::files::Hold;
use super::write::{Beside, Writer};
use super::{Folder, FolderError, Kept, Pruned};

/// Whoever puts snapshots in the place of others. Nobody else writes meanwhile. What is new is whole
/// and durable before what is old goes, so an end at any moment leaves one of them, or both.
#[derive(Debug)]
pub struct Superseder(Writer);

impl Folder {
    /// Begins to put snapshots in the place of others.
    ///
    /// # Errors
    /// [`FolderError::Busy`] while anybody writes; otherwise when the folder cannot be held.
    pub fn superseder(&self) -> Result<Superseder, FolderError> {
        Ok(Superseder(Writer {
            _hold: self.hold(Hold::Alone)?,
            folder: self.clone(),
        }))
    }
}

impl Superseder {
    /// Keeps some bytes, which must be redacted.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<(), FolderError> {
        self.0.put_blob(bytes).map(|_| ())
    }

    /// Writes a sealed snapshot with its calls and the record of its replays.
    ///
    /// # Errors
    /// When the disk does not take it, or what is written is no snapshot.
    pub fn write(
        &self,
        snapshot: &Snapshot,
        calls: &[Call],
        replays: &[Attempt],
    ) -> Result<Kept, FolderError> {
        self.0.write_with(snapshot, &Beside::of(calls, replays))
    }

    /// Removes a snapshot that has another in its place.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn remove(&self, snapshot: &Path) -> Result<(), FolderError> {
        self.0.folder.let_go(snapshot)
    }

    /// Removes what nothing names any more, and what was cut off.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn finish(self) -> Result<Pruned, FolderError> {
        let mut pruned = Pruned::default();
        self.0.folder.clear(&mut pruned)?;
        Ok(pruned)
    }
}

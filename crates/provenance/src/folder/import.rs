//! Imports snapshots of other folders unchanged.

use std::path::PathBuf;

use faces::provenance::hash::{canonical_json, written};
use faces::provenance::naming;
use faces::provenance::read::Document;
use faces::provenance::seal::integrity;

use super::write::{Beside, Writer, pretty};
use super::{Folder, FolderError, Kept};
use crate::contents;

/// The outcome of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It was imported.
    New(PathBuf),
    /// It existed already.
    Known(PathBuf),
}

impl Writer {
    /// Imports a snapshot with its sidecar files from another folder, or from a location outside
    /// any folder. Its core stays unchanged.
    ///
    /// # Errors
    /// When the disk rejects a write, or a sidecar file cannot be read.
    pub fn import(&self, kept: &Kept, from: &Folder) -> Result<Imported, FolderError> {
        if let Some(path) = self.known(&kept.document)? {
            return Ok(Imported::Known(path));
        }
        let calls = from.calls(&kept.path)?;
        for digest in contents::named(&kept.document, &calls) {
            let hash = written(&digest);
            if from.has_blob(&hash) {
                self.put_blob(&from.blob(&hash)?)?;
            }
        }
        let beside = Beside::new(&calls, &from.attempts(&kept.path)?);
        let path = self.place_document(&kept.document, &beside)?;
        if let Some(signature) = from.signature(&kept.path)? {
            self.put_signature(&path, &signature)?;
        }
        Ok(Imported::New(path))
    }

    /// The path of an existing snapshot.
    ///
    /// # Errors
    /// [`FolderError::IdTaken`] when another one has its id.
    pub(crate) fn known(&self, document: &Document) -> Result<Option<PathBuf>, FolderError> {
        for entry in self.folder.list()?.entries {
            if entry.snapshot_id == document.snapshot.snapshot_id {
                let path = self.folder.snapshots().join(&entry.file);
                let here = self.folder.read(&path)?.document.raw;
                if integrity(&here) == integrity(&document.raw) {
                    return Ok(Some(path));
                }
                return Err(FolderError::IdTaken { path });
            }
        }
        Ok(None)
    }

    /// Puts a document unchanged under a free name.
    pub(crate) fn place_document(
        &self,
        document: &Document,
        beside: &Beside,
    ) -> Result<PathBuf, FolderError> {
        let text = as_it_stands(document).map_err(|error| FolderError::Damaged {
            path: self.folder.snapshots(),
            why: error.to_string(),
        })?;
        let captured = document.snapshot.captured().unwrap_or_default();
        let stem = naming::stem(&document.snapshot.workflow_id, captured);
        self.place(&stem, &text, beside)
    }
}

/// The text of a document in the order of the schema. If reading a foreign file reinterpreted a
/// member, the text stays unchanged.
pub(super) fn as_it_stands(document: &Document) -> serde_json::Result<Vec<u8>> {
    if is_as_written(document) {
        pretty(&document.snapshot)
    } else {
        pretty(&document.raw)
    }
}

/// Whether a document round-trips: reading it lost and reinterpreted nothing.
pub fn is_as_written(document: &Document) -> bool {
    serde_json::to_value(&document.snapshot)
        .is_ok_and(|typed| canonical_json(&typed) == canonical_json(&document.raw))
}

//! Snapshots of runs. An unchanged log maps to the same snapshot; a log that grew becomes a new
//! snapshot that names the earlier one.

use faces::provenance::calls::CALLS;
use faces::provenance::capture::Captured;
use faces::provenance::hash::hash_json;
use faces::provenance::seal::seal;
use serde_json::Value;

use super::files::lock_file;
use super::write::Writer;
use super::{FolderError, Kept};
use crate::{Redaction, new_id};

/// The outcome of keeping a captured run.
#[derive(Clone, Debug)]
pub enum KeptRun {
    /// It was written.
    New(Kept),
    /// The same was captured before.
    Known(Kept),
}

impl KeptRun {
    /// Its snapshot.
    pub fn kept(&self) -> &Kept {
        match self {
            Self::New(kept) | Self::Known(kept) => kept,
        }
    }

    /// Whether it was written by this call.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }
}

impl Writer {
    /// Writes the snapshot of a captured run, unless one with the same content exists. If the run
    /// has continued since, the new snapshot names the earlier one.
    ///
    /// # Errors
    /// When the disk rejects a write, or the capture cannot be sealed.
    pub fn write_run(
        &self,
        captured: Captured,
        name: Option<String>,
        redaction: &Redaction,
    ) -> Result<KeptRun, FolderError> {
        // A concurrent capture of the same run waits here, and then finds this snapshot.
        let path = self.folder.base.join(".runs.lock");
        let lock = lock_file(&path)?;
        lock.lock().map_err(FolderError::io(&path))?;

        let mut draft = captured.snapshot;
        let run = draft.extend().run_id.clone();
        draft.extend().name = name;
        draft.seal_calls(&captured.calls);
        draft.extend().redaction = Some(redaction.counted());
        let no_snapshot = |error: serde_json::Error| FolderError::Damaged {
            path: self.folder.snapshots(),
            why: error.to_string(),
        };
        let sealed = |draft| seal(draft, &mut |value| redaction.value(value)).map_err(no_snapshot);
        let content =
            content_of(serde_json::to_value(sealed(draft.clone())?).map_err(no_snapshot)?);
        let mut earlier = None;
        for entry in self.folder.list()?.entries {
            if entry.run_id != run {
                continue;
            }
            let kept = self
                .folder
                .read(&self.folder.snapshots().join(&entry.file))?;
            if content_of(kept.document.raw.clone()) == content {
                return Ok(KeptRun::Known(kept));
            }
            // The redaction rules may have changed.
            if entry.snapshot_id == draft.snapshot_id {
                draft.snapshot_id = new_id();
            }
            earlier.get_or_insert(entry.snapshot_id);
        }
        draft.extend().follows = earlier;
        for body in &captured.bodies {
            self.put_blob(body.as_bytes())?;
        }
        Ok(KeptRun::New(self.write(&sealed(draft)?, &captured.calls)?))
    }
}

/// The hash of the snapshot's content about its run, without ids, names and seals.
fn content_of(mut raw: Value) -> String {
    if let Some(members) = raw.as_object_mut() {
        members.remove("snapshot_id");
        members.remove("replay_status");
    }
    if let Some(members) = raw["extensions"].as_object_mut() {
        for of_the_file in ["integrity", "name", "redaction", "follows", CALLS] {
            members.remove(of_the_file);
        }
    }
    hash_json(&raw)
}

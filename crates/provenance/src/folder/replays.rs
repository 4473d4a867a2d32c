//! What replays of a snapshot came to.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use faces::provenance::calls::Attempt;
use faces::provenance::document::ReplayStatus;
use serde_json::Value;

use super::files::{self, Hold, lock_file};
use super::import::as_it_stands;
use super::{Folder, FolderError, REPLAYS, beside};

impl Folder {
    /// Records an attempt, gives it its number, and brings the snapshot's `replay_status` up to
    /// date if the attempt came to its end. The record is durable first: an end between the two
    /// is made up for by the next attempt.
    ///
    /// # Errors
    /// When the files cannot be read or written.
    pub fn record_replay(
        &self,
        snapshot: &Path,
        mut attempt: Attempt,
    ) -> Result<ReplayStatus, FolderError> {
        let _hold = self.hold(Hold::Shared)?;
        let path = self.base.join(".replays.lock");
        let lock = lock_file(&path)?;
        lock.lock().map_err(FolderError::io(&path))?;

        let kept = self.read(snapshot)?;
        let status = kept.document.snapshot.replays();
        let attempts = self.attempts(snapshot)?;
        let completed = attempts.iter().filter(|attempt| attempt.is_complete());
        let completed = completed.count() as u64 + 1;
        let last = attempts.iter().map(|attempt| attempt.attempt).max();
        attempt.attempt = last.unwrap_or(0).max(attempts.len() as u64) + 1;
        append(&beside(snapshot, REPLAYS), &attempt, &attempts)?;
        if !attempt.is_complete() {
            return Ok(status);
        }
        let status = status.after(&attempt, completed);
        let no_json = |error: serde_json::Error| FolderError::Damaged {
            path: snapshot.to_owned(),
            why: error.to_string(),
        };
        let mut document = kept.document;
        document.snapshot.replay_status = Some(status.clone());
        if let Value::Object(members) = &mut document.raw {
            let value = serde_json::to_value(&status).map_err(no_json)?;
            members.insert("replay_status".to_owned(), value);
        }
        let text = as_it_stands(&document);
        files::replace(snapshot, &text.map_err(no_json)?)?;
        Ok(status)
    }
}

/// Adds a line behind the last whole one.
fn append(path: &Path, attempt: &Attempt, before: &[Attempt]) -> Result<(), FolderError> {
    let appended = || {
        let mut line = serde_json::to_vec(attempt)?;
        line.push(b'\n');
        let mut options = OpenOptions::new();
        options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600);
        let mut file = options.open(path)?;
        let whole = std::fs::read(path)?;
        let mut ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let end = match before.len() {
            0 => 0,
            lines => ends.nth(lines - 1).map_or(0, |(at, _)| at + 1),
        };
        file.set_len(end as u64)?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(&line)?;
        file.sync_all()
    };
    appended().map_err(FolderError::io(path))
}

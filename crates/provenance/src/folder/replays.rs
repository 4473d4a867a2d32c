//! Outcomes of replays of a snapshot.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use faces::provenance::calls::{Attempt, check_replays};
use faces::provenance::chain;
use faces::provenance::document::ReplayStatus;
use faces::provenance::seal::{self, Finding};
use rustix::fs::OFlags;
use serde_json::Value;

use super::files::{self, Hold, lock_file};
use super::import::as_it_stands;
use super::{Folder, FolderError, Kept, REPLAYS, beside};
use crate::signature::{PublicKey, Signature, Signed, SigningKey};

/// Maximum bytes of a snapshot's name in the lock file of the record.
const MAX_NAME: u64 = 4096;

impl Folder {
    /// Records an attempt with its number and, if there is a key, a signature; and updates the
    /// snapshot's `replay_status` if the attempt finished. The record is durable first. While both
    /// are written the lock file contains the name of the snapshot: the next attempt completes an
    /// update that was interrupted between the two.
    ///
    /// # Errors
    /// When the files cannot be read or written, or the record was changed.
    pub fn record_replay(
        &self,
        snapshot: &Path,
        mut attempt: Attempt,
        key: Option<&SigningKey>,
    ) -> Result<ReplayStatus, FolderError> {
        let _hold = self.hold(Hold::Shared)?;
        let path = self.replays_lock();
        let mut lock = lock_file(&path)?;
        lock.lock().map_err(FolderError::io(&path))?;

        let kept = self.read(snapshot)?;
        let status = kept.document.snapshot.replays();
        let attempts = self.attempts(snapshot)?;
        let wrong = self.wrong_replays(&kept, &attempts, &lock_text(&path)?);
        if let Some(wrong) = wrong.into_iter().find(|finding| finding.is_error) {
            return Err(FolderError::Damaged {
                path: snapshot.to_owned(),
                why: wrong.message,
            });
        }
        let completed = attempts.iter().filter(|attempt| attempt.is_complete());
        let completed = completed.count() as u64 + 1;
        let last = attempts.iter().map(|attempt| attempt.attempt).max();
        attempt.attempt = last.unwrap_or(0).max(attempts.len() as u64) + 1;
        set_text(&mut lock, &name_of(snapshot)).map_err(FolderError::io(&path))?;
        let record = beside(snapshot, REPLAYS);
        let seed = seal::text(&kept.document.raw);
        append(&record, (seed, key), &attempt, &attempts)?;
        let status = if attempt.is_complete() {
            status.after(&attempt, completed)
        } else {
            status
        };
        let no_json = |error: serde_json::Error| FolderError::Damaged {
            path: snapshot.to_owned(),
            why: error.to_string(),
        };
        let status = match seal::read(&kept.document) {
            seal::Seal::Sealed => ReplayStatus::from_attempts(&self.attempts(snapshot)?),
            _ => status,
        };
        let mut document = kept.document;
        document.snapshot.replay_status = Some(status.clone());
        if let Value::Object(members) = &mut document.raw {
            let value = serde_json::to_value(&status).map_err(no_json)?;
            members.insert("replay_status".to_owned(), value);
        }
        let text = as_it_stands(&document);
        files::replace(snapshot, &text.map_err(no_json)?)?;
        set_text(&mut lock, "").map_err(FolderError::io(&path))?;
        Ok(status)
    }

    /// Checks the record of replays of a snapshot.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn check_replays(&self, kept: &Kept) -> Result<Vec<Finding>, FolderError> {
        let path = self.replays_lock();
        // An attempt may be recorded at this moment: read both files between two attempts.
        let lock = files::open(&path, MAX_NAME)?;
        if let Some(lock) = &lock {
            lock.lock_shared().map_err(FolderError::io(&path))?;
        }
        let attempts = self.attempts(&kept.path)?;
        let again = self.read(&kept.path)?;
        Ok(self.wrong_replays(&again, &attempts, &lock_text(&path)?))
    }

    /// The keys that signed the record of replays of a snapshot, with findings about missing and
    /// foreign signatures. A key is foreign if `trusted`, which has the signer of the snapshot, is
    /// not empty and does not contain it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn check_replay_signers(
        &self,
        kept: &Kept,
        trusted: &[&PublicKey],
    ) -> Result<(Vec<PublicKey>, Vec<Finding>), FolderError> {
        let name = name_of(&beside(&kept.path, REPLAYS));
        let (mut signers, mut found) = (Vec::new(), Vec::new());
        let mut unsigned = Vec::new();
        for (line, attempt) in (1..).zip(self.attempts(&kept.path)?) {
            let signature = attempt.other.get(Attempt::SIGNATURE).cloned();
            let Some(signature) = signature else {
                unsigned.push(line);
                continue;
            };
            let signature = serde_json::from_value::<Signature>(signature).ok();
            let place = format!("line {line} (attempt {})", attempt.attempt);
            let Some(signature) = signature.filter(|it| it.is_of(Signed::Replay(attempt.link())))
            else {
                let message = format!("{place}: the signature does not match this record");
                found.push(Finding::error(&*name, "replay_signature_wrong", message));
                continue;
            };
            if !trusted.is_empty() && !trusted.contains(&&signature.key) {
                let message = format!(
                    "{place}: signed by {}, which is neither the signer of the snapshot nor a \
                     trusted key; trust it with --key",
                    signature.key.as_str()
                );
                let code = seal::REPLAY_SIGNER_UNKNOWN;
                found.push(Finding::warning(&*name, code, message));
            }
            if !signers.contains(&signature.key) {
                signers.push(signature.key);
            }
        }
        if let Some(first) = unsigned.first() {
            let message = format!(
                "{} of its records have no signature, the first in line {first}; a person \
                 who can write the file can change them",
                unsigned.len()
            );
            found.push(Finding::warning(&*name, seal::REPLAY_UNSIGNED, message));
        }
        Ok((signers, found))
    }

    fn wrong_replays(&self, kept: &Kept, attempts: &[Attempt], pending: &str) -> Vec<Finding> {
        let name = name_of(&beside(&kept.path, REPLAYS));
        let mut found = check_replays(&kept.document, attempts, &name);
        // The last attempt was recorded, but its recorder ended before it updated the document.
        let before = attempts.len().saturating_sub(1);
        if pending == name_of(&kept.path)
            && !found.is_empty()
            && check_replays(&kept.document, &attempts[..before], &name).is_empty()
        {
            let message =
                "the last attempt is only in the record; the next attempt updates the snapshot";
            found = vec![Finding::warning(
                "/replay_status",
                "replay_unfinished",
                message,
            )];
        }
        found
    }

    fn replays_lock(&self) -> PathBuf {
        self.base.join(".replays.lock")
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn lock_text(path: &Path) -> Result<String, FolderError> {
    let bytes = files::bytes(path, MAX_NAME)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn set_text(lock: &mut File, text: &str) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.seek(SeekFrom::Start(0))?;
    lock.write_all(text.as_bytes())?;
    lock.sync_all()
}

/// Appends a line after the last complete one.
fn append(
    path: &Path,
    (seed, key): (&str, Option<&SigningKey>),
    attempt: &Attempt,
    before: &[Attempt],
) -> Result<(), FolderError> {
    let appended = || {
        let all = before.iter().chain([attempt]).map(Attempt::unsigned);
        let all: Vec<Attempt> = all.collect();
        let mut line = chain::linked(seed, &all).pop().unwrap_or_default();
        if let Some((key, link)) = key.zip(line[chain::LINK].as_str()) {
            let signature = key.sign(Signed::Replay(link));
            line[Attempt::SIGNATURE] = serde_json::to_value(signature)?;
        }
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        let mut options = OpenOptions::new();
        options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .mode(0o600);
        let mut file = options.open(path)?;
        let mut whole = Vec::new();
        file.read_to_end(&mut whole)?;
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

//! The directory of an attempt: the data that outlives the supervisor and the engine.
//!
//! `lock` is held by everything the attempt started; `gate` by a supervisor while it checks whether
//! it may start; `note.json` names the current processes; `exit.json` records the exit; `stdout`
//! and `stderr` are complete; `settled` says that the outcome is in the log.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use kernel::digest::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::process_table::Process;
use super::wire::{ExitRecord, Stream, Written};

/// The directory of one attempt.
#[derive(Clone, Debug)]
pub(super) struct AttemptDir(PathBuf);

/// The processes of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The number of restarts of the attempt: the greatest number wins.
    pub generation: u32,
    /// Identifies the boot of the machine that the process ids belong to.
    pub boot: String,
    pub supervisor: Option<Process>,
    /// The child process; its id is also that of its group.
    pub child: Option<Process>,
}

impl AttemptDir {
    pub(super) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Creates it with access for its owner only, and makes its path absolute.
    pub(super) fn create(&mut self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        self.0 = self.0.canonicalize()?;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.0.join("lock")
    }

    pub(super) fn output_path(&self, stream: Stream) -> PathBuf {
        self.0.join(stream.as_str())
    }

    pub(super) fn open_lock(&self) -> io::Result<File> {
        private().open(self.lock_path())
    }

    pub(super) fn open_gate(&self) -> io::Result<File> {
        private().open(self.0.join("gate"))
    }

    /// Whether the lock or the gate is held.
    pub(super) fn is_held(&self) -> io::Result<bool> {
        for path in [self.lock_path(), self.0.join("gate")] {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether an opened lock file is still the one that other supervisors would open.
    pub(super) fn is_current(&self, lock: &File) -> io::Result<bool> {
        let ours = lock.metadata()?;
        match fs::metadata(self.lock_path()) {
            Ok(theirs) => Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An empty file for an output.
    pub(super) fn create_output(&self, stream: Stream) -> io::Result<File> {
        private().truncate(true).open(self.output_path(stream))
    }

    /// The note of its processes. An unreadable note counts as missing: the lock decides.
    pub(super) fn note(&self) -> Option<Note> {
        read_json(&self.0.join("note.json"))
    }

    /// Writes the note of its processes. Not synced: no process survives a power cut.
    pub(super) fn write_note(&self, note: &Note) -> io::Result<()> {
        let temporary = self.0.join("note.json.new");
        let mut file = private().truncate(true).open(&temporary)?;
        file.write_all(&serde_json::to_vec(note)?)?;
        fs::rename(temporary, self.0.join("note.json"))
    }

    /// The exit record, if there is one and the outputs are unchanged.
    pub(super) fn record(&self) -> Option<ExitRecord> {
        let record: ExitRecord = read_json(&self.0.join("exit.json"))?;
        // The outputs are not synced before the record, so a power cut may lose them; then the
        // attempt has no result to adopt.
        let whole =
            |stream| digest_of(&self.output_path(stream)).ok() == Some(record.written(stream));
        Stream::ALL.into_iter().all(whole).then_some(record)
    }

    /// Writes the exit record; durable when this returns.
    pub(super) fn write_record(&self, record: &ExitRecord) -> io::Result<()> {
        let temporary = self.0.join("exit.json.new");
        let mut file = private().truncate(true).open(&temporary)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(temporary, self.0.join("exit.json"))?;
        File::open(&self.0)?.sync_all()
    }

    /// Removes a record whose outputs were lost.
    pub(super) fn discard_record(&self) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.0.join("exit.json")))
    }

    pub(super) fn is_settled(&self) -> bool {
        self.0.join("settled").exists()
    }

    /// Removes the directory if no process holds it, else settles it.
    pub(super) fn remove(&self) -> io::Result<()> {
        if self.is_held()? {
            return self.settle();
        }
        absent_is_fine(fs::remove_dir_all(&self.0))
    }

    /// Removes the outputs and prevents any later supervisor from starting the attempt again.
    pub(super) fn settle(&self) -> io::Result<()> {
        match private().open(self.0.join("settled")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => drop(opened?),
        }
        for stream in Stream::ALL {
            absent_is_fine(fs::remove_file(self.output_path(stream)))?;
        }
        Ok(())
    }
}

fn private() -> OpenOptions {
    let mut options = crate::private::file();
    options.read(true).write(true).create(true).truncate(false);
    options
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn digest_of(path: &Path) -> io::Result<Written> {
    let mut file = File::open(path)?;
    let mut tally = Tally::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(tally.written()),
            n => tally.add(&buffer[..n]),
        }
    }
}

/// Counts and digests an output as it is written.
#[derive(Clone, Default)]
pub(super) struct Tally {
    bytes: u64,
    hasher: Sha256,
}

impl Tally {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn written(&self) -> Written {
        Written {
            bytes: self.bytes,
            digest: Digest(self.hasher.clone().finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::End;
    use super::*;
    use kernel::time::Timestamp;

    fn dir() -> (tempfile::TempDir, AttemptDir) {
        let folder = tempfile::tempdir().unwrap();
        let mut dir = AttemptDir::new(folder.path().join("run-1/attempt-1"));
        dir.create().unwrap();
        (folder, dir)
    }

    fn record(dir: &AttemptDir) -> ExitRecord {
        for stream in Stream::ALL {
            dir.create_output(stream)
                .unwrap()
                .write_all(stream.as_str().as_bytes())
                .unwrap();
        }
        ExitRecord {
            end: End::Exited { code: 3 },
            started_at: Timestamp(1),
            ended_at: Timestamp(2),
            stdout: digest_of(&dir.output_path(Stream::Stdout)).unwrap(),
            stderr: digest_of(&dir.output_path(Stream::Stderr)).unwrap(),
            left_behind: 0,
        }
    }

    #[test]
    fn a_record_is_valid_while_the_outputs_are_whole() {
        let (_folder, dir) = dir();
        let record = record(&dir);
        assert_eq!(dir.record(), None);
        dir.write_record(&record).unwrap();
        assert_eq!(dir.record(), Some(record));
        dir.create_output(Stream::Stderr).unwrap();
        assert_eq!(dir.record(), None);
    }

    #[test]
    fn a_torn_record_is_ignored() {
        let (_folder, dir) = dir();
        dir.write_record(&record(&dir)).unwrap();
        fs::write(dir.path().join("exit.json"), "{\"end\":").unwrap();
        assert_eq!(dir.record(), None);
    }

    #[test]
    fn settling_drops_outputs_and_makes_no_directory() {
        let (folder, dir) = dir();
        dir.write_record(&record(&dir)).unwrap();
        dir.settle().unwrap();
        assert!(dir.is_settled() && !dir.output_path(Stream::Stdout).exists());
        let other = AttemptDir::new(folder.path().join("run-1/attempt-2"));
        other.settle().unwrap();
        assert!(!other.path().exists());
    }

    #[test]
    fn a_lock_of_a_removed_directory_is_not_current() {
        let (_folder, mut dir) = dir();
        let lock = dir.open_lock().unwrap();
        assert!(dir.is_current(&lock).unwrap());
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(!dir.is_current(&lock).unwrap());
        dir.create().unwrap();
        dir.open_lock().unwrap();
        assert!(!dir.is_current(&lock).unwrap());
    }
}

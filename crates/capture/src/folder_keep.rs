//! Contents kept in a folder of snapshots, without making the recorded command wait for the disk.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use faces::provenance::hash;
use kernel::digest::Digest;
use parking_lot::Mutex;
use provenance::{Folder, FolderError, Writer};

use crate::call::{Call, Keep};

/// Maximum contents that wait for the disk.
const WAITING: usize = 256;

/// How much of an execution is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Every content that a replay needs.
    Full,
    /// Digests alone.
    Hashes,
}

/// A content and its digest.
type Content = (Digest, Arc<[u8]>);

/// Keeps contents in a folder. They are on the disk once [`finish`](Self::finish) has returned.
pub struct FolderKeep {
    folder: Folder,
    contents: Contents,
    /// Contents that are being written, and those on disk.
    known: Mutex<BTreeMap<Digest, Option<Arc<[u8]>>>>,
    to_disk: Mutex<Option<SyncSender<Content>>>,
    writing: Mutex<Option<JoinHandle<Result<Writer, FolderError>>>>,
    journal: Mutex<(File, PathBuf)>,
}

fn other(error: FolderError) -> io::Error {
    match error {
        FolderError::Io { path, error } => {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        }
        error => io::Error::other(error.to_string()),
    }
}

impl FolderKeep {
    /// Begins to keep an execution. If it never ends, its calls remain in a file that lists report
    /// as unfinished.
    ///
    /// # Errors
    /// When the folder cannot be written, or a prune is in progress.
    pub fn begin(folder: &Folder, contents: Contents) -> io::Result<Arc<Self>> {
        let writer = folder.writer().map_err(other)?;
        let path = folder
            .snapshots()
            .join(format!(".unfinished-{}", provenance::new_id()));
        let mut options = OpenOptions::new();
        let journal = options
            .create_new(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        let (to_disk, from) = sync_channel::<Content>(WAITING);
        let keep = Arc::new(Self {
            folder: folder.clone(),
            contents,
            known: Mutex::default(),
            to_disk: Mutex::new(Some(to_disk)),
            writing: Mutex::new(None),
            journal: Mutex::new((journal, path)),
        });
        let weak = Arc::downgrade(&keep);
        let writing = std::thread::Builder::new()
            .name("snapshot-blobs".into())
            .spawn(move || {
                for (digest, bytes) in from {
                    writer.put_blob(&bytes)?;
                    if let Some(keep) = weak.upgrade() {
                        keep.known.lock().insert(digest, None);
                    }
                }
                Ok(writer)
            })?;
        *keep.writing.lock() = Some(writing);
        Ok(keep)
    }

    /// Waits until everything is on disk; returns the writer for the snapshot.
    ///
    /// # Errors
    /// When a write failed.
    pub fn finish(&self) -> io::Result<Writer> {
        drop(self.to_disk.lock().take());
        let Some(writing) = self.writing.lock().take() else {
            return Err(io::Error::other("the recording has already ended"));
        };
        match writing.join() {
            Ok(writer) => writer.map_err(other),
            Err(panicked) => std::panic::resume_unwind(panicked),
        }
    }

    /// The snapshot is written: removes the files kept in case of a crash.
    pub fn close(&self) {
        let _ = std::fs::remove_file(&self.journal.lock().1);
    }
}

impl Drop for FolderKeep {
    /// An abandoned recording leaves no file.
    fn drop(&mut self) {
        self.close();
    }
}

impl Keep for FolderKeep {
    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::compute(bytes);
        if self.contents == Contents::Hashes {
            return Ok(digest);
        }
        let content: Arc<[u8]> = bytes.into();
        {
            let mut known = self.known.lock();
            if known.contains_key(&digest) {
                return Ok(digest);
            }
            known.insert(digest, Some(content.clone()));
        }
        let sender = self.to_disk.lock().clone();
        let gone = || io::Error::other("the folder of snapshots cannot be written to");
        let sender = sender.ok_or_else(gone)?;
        sender.send((digest, content)).map_err(|_| gone())?;
        Ok(digest)
    }

    fn get(&self, digest: Digest) -> io::Result<Option<Vec<u8>>> {
        if let Some(Some(content)) = self.known.lock().get(&digest) {
            return Ok(Some(content.to_vec()));
        }
        match self.folder.blob(&hash::written(&digest)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FolderError::NoBlob { .. }) => Ok(None),
            Err(error) => Err(other(error)),
        }
    }

    fn call(&self, call: &Call) -> io::Result<()> {
        let mut line = serde_json::to_vec(&call.to_file())?;
        line.push(b'\n');
        self.journal.lock().0.write_all(&line)
    }
}

/// The contents of a recording, for a replay to read.
pub struct Recording(pub Folder);

impl Keep for Recording {
    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        Ok(Digest::compute(bytes))
    }

    fn get(&self, digest: Digest) -> io::Result<Option<Vec<u8>>> {
        match self.0.blob(&hash::written(&digest)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FolderError::NoBlob { .. }) => Ok(None),
            Err(error) => Err(other(error)),
        }
    }

    fn call(&self, _call: &Call) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps contents in memory for the duration of a replay.
#[derive(Default)]
pub struct InMemory(Mutex<BTreeMap<Digest, Arc<[u8]>>>);

impl Keep for InMemory {
    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::compute(bytes);
        self.0.lock().entry(digest).or_insert_with(|| bytes.into());
        Ok(digest)
    }

    fn get(&self, digest: Digest) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().get(&digest).map(|bytes| bytes.to_vec()))
    }

    fn call(&self, _call: &Call) -> io::Result<()> {
        Ok(())
    }
}

//! A disk that records every write and sync below SQLite, and can be cut off at any of them.
//!
//! The model of a power cut: each file keeps its content at its last sync, and any part, sector by
//! sector, of later writes. Creating and deleting a file is made durable by a sync of the folder,
//! which SQLite requests with the first sync of a log or a journal it has created.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sqlite_vfs::{DatabaseHandle, LockKind, OpenAccess, OpenKind, OpenOptions, Vfs, WalDisabled};
use store::seed::Draws;

/// The unit that a disk writes whole.
const SECTOR: usize = 512;

/// The folder that SQLite sees.
const FOLDER: &str = "/disk/";

/// Something that happened, in order.
#[derive(Clone, Debug)]
pub(crate) enum Step<A> {
    Made {
        file: String,
    },
    Deleted {
        file: String,
    },
    Wrote {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Cut {
        file: String,
        len: usize,
    },
    Synced {
        file: String,
    },
    SyncedFolder,
    /// The test noted something.
    Noted(A),
}

/// How a power cut treats writes that were not synced.
#[derive(Debug)]
pub(crate) enum Unsynced {
    Lost,
    Kept,
    /// Each sector kept or lost at random.
    Torn(Draws),
}

impl Unsynced {
    fn survives(&mut self) -> bool {
        match self {
            Self::Lost => false,
            Self::Kept => true,
            Self::Torn(draws) => draws.per_mille(500),
        }
    }
}

struct Inner<A> {
    files: BTreeMap<String, Vec<u8>>,
    steps: Vec<Step<A>>,
    /// Logs and journals created and not synced since.
    fresh: BTreeSet<String>,
    /// How many writes succeed before the disk is full.
    room: Option<u64>,
}

/// A disk. Clones are the same disk.
pub(crate) struct Disk<A>(Arc<Mutex<Inner<A>>>);

impl<A> Clone for Disk<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Clone + Send + 'static> Disk<A> {
    /// An empty disk, and the name under which SQLite finds it.
    pub(crate) fn new() -> (Self, String) {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let disk = Self(Arc::new(Mutex::new(Inner {
            files: BTreeMap::new(),
            steps: Vec::new(),
            fresh: BTreeSet::new(),
            room: None,
        })));
        let name = format!("disk-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        sqlite_vfs::register(&name, disk.clone(), false).expect("the name is new");
        (disk, name)
    }

    /// The path of a store on this disk.
    pub(crate) fn path() -> String {
        format!("{FOLDER}runs.db")
    }

    /// Records a note between the writes.
    pub(crate) fn note(&self, note: A) {
        self.inner().steps.push(Step::Noted(note));
    }

    /// Everything that happened so far.
    pub(crate) fn steps(&self) -> Vec<Step<A>> {
        self.inner().steps.clone()
    }

    /// Lets this many more writes succeed; `None` frees space.
    pub(crate) fn leave_room(&self, writes: Option<u64>) {
        self.inner().room = writes;
    }

    fn inner(&self) -> MutexGuard<'_, Inner<A>> {
        self.0
            .lock()
            .expect("no test panics while it holds the disk")
    }
}

impl<A> Inner<A> {
    fn make_room(&mut self) -> Result<(), Error> {
        match &mut self.room {
            None => Ok(()),
            // The adapter turns this kind into "disk full".
            Some(0) => Err(ErrorKind::WriteZero.into()),
            Some(room) => {
                *room -= 1;
                Ok(())
            }
        }
    }
}

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes into `folder` the content that survives a power cut after `steps`.
pub(crate) fn restore<A>(steps: &[Step<A>], unsynced: &mut Unsynced, folder: &Path) {
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let last_sync = |file: &str| {
        let synced = |step: &Step<A>| matches!(step, Step::Synced { file: f } if f == file);
        steps.iter().rposition(synced)
    };
    let folder_synced = steps
        .iter()
        .rposition(|step| matches!(step, Step::SyncedFolder));
    for (nth, step) in steps.iter().enumerate() {
        let durable = |synced: Option<usize>| synced.is_some_and(|synced| nth < synced);
        match step {
            Step::Made { file } => {
                if durable(folder_synced) || unsynced.survives() {
                    files.entry(file).or_default();
                }
            }
            Step::Deleted { file } => {
                if durable(folder_synced) || unsynced.survives() {
                    files.remove(file.as_str());
                }
            }
            Step::Wrote { file, at, bytes } => {
                let safe = durable(last_sync(file));
                let Some(contents) = files.get_mut(file.as_str()) else {
                    continue;
                };
                let mut at = *at;
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let length = (SECTOR - at % SECTOR).min(rest.len());
                    if safe || unsynced.survives() {
                        put(contents, at, &rest[..length]);
                    }
                    at += length;
                    rest = &rest[length..];
                }
            }
            Step::Cut { file, len } => {
                let safe = durable(last_sync(file));
                if let Some(contents) = files.get_mut(file.as_str())
                    && (safe || unsynced.survives())
                {
                    contents.resize(*len, 0);
                }
            }
            Step::Synced { .. } | Step::SyncedFolder | Step::Noted(_) => {}
        }
    }
    for (file, contents) in files {
        std::fs::write(folder.join(file), contents).expect("the folder takes files");
    }
}

/// An open file.
pub(crate) struct Handle<A> {
    disk: Disk<A>,
    file: String,
    lock: LockKind,
}

impl<A: Clone + Send + 'static> Vfs for Disk<A> {
    type Handle = Handle<A>;

    fn open(&self, path: &str, options: OpenOptions) -> Result<Handle<A>, Error> {
        let file = path.trim_start_matches(FOLDER).to_owned();
        let mut inner = self.inner();
        if !inner.files.contains_key(&file) {
            if !matches!(options.access, OpenAccess::Create | OpenAccess::CreateNew) {
                return Err(ErrorKind::NotFound.into());
            }
            inner.files.insert(file.clone(), Vec::new());
            inner.steps.push(Step::Made { file: file.clone() });
            if matches!(options.kind, OpenKind::Wal | OpenKind::MainJournal) {
                inner.fresh.insert(file.clone());
            }
        }
        Ok(Handle {
            disk: self.clone(),
            file,
            lock: LockKind::None,
        })
    }

    fn delete(&self, path: &str) -> Result<(), Error> {
        let file = path.trim_start_matches(FOLDER).to_owned();
        let mut inner = self.inner();
        inner.files.remove(&file).ok_or(ErrorKind::NotFound)?;
        inner.steps.push(Step::Deleted { file });
        Ok(())
    }

    fn exists(&self, path: &str) -> Result<bool, Error> {
        let file = path.trim_start_matches(FOLDER);
        Ok(self.inner().files.contains_key(file))
    }

    fn temporary_name(&self) -> String {
        format!("{FOLDER}temporary")
    }

    fn random(&self, buffer: &mut [i8]) {
        buffer.fill(7);
    }

    fn sleep(&self, duration: Duration) -> Duration {
        duration
    }

    fn full_pathname<'a>(&self, path: &'a str) -> Result<Cow<'a, str>, Error> {
        Ok(path.into())
    }
}

impl<A: Clone + Send + 'static> DatabaseHandle for Handle<A> {
    type WalIndex = WalDisabled;

    fn size(&self) -> Result<u64, Error> {
        let inner = self.disk.inner();
        Ok(inner.files.get(&self.file).map_or(0, Vec::len) as u64)
    }

    fn read_exact_at(&mut self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let inner = self.disk.inner();
        let contents = inner.files.get(&self.file).ok_or(ErrorKind::NotFound)?;
        let from = contents.len().min(offset as usize);
        let length = buffer.len().min(contents.len() - from);
        buffer[..length].copy_from_slice(&contents[from..from + length]);
        // SQLite relies on zeros past the end.
        buffer[length..].fill(0);
        if length < buffer.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let mut inner = self.disk.inner();
        inner.make_room()?;
        let (file, at) = (self.file.clone(), offset as usize);
        put(inner.files.entry(file.clone()).or_default(), at, bytes);
        let bytes = bytes.to_vec();
        inner.steps.push(Step::Wrote { file, at, bytes });
        Ok(())
    }

    fn sync(&mut self, _data_only: bool) -> Result<(), Error> {
        let mut inner = self.disk.inner();
        let file = self.file.clone();
        if inner.fresh.remove(&file) {
            inner.steps.push(Step::SyncedFolder);
        }
        inner.steps.push(Step::Synced { file });
        Ok(())
    }

    fn set_len(&mut self, size: u64) -> Result<(), Error> {
        let mut inner = self.disk.inner();
        let (file, len) = (self.file.clone(), size as usize);
        inner.files.entry(file.clone()).or_default().resize(len, 0);
        inner.steps.push(Step::Cut { file, len });
        Ok(())
    }

    fn lock(&mut self, lock: LockKind) -> Result<bool, Error> {
        self.lock = lock;
        Ok(true)
    }

    fn reserved(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    fn current_lock(&self) -> Result<LockKind, Error> {
        Ok(self.lock)
    }

    fn wal_index(&self, _readonly: bool) -> Result<WalDisabled, Error> {
        Ok(WalDisabled)
    }
}

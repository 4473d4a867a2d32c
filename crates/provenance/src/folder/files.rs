//! Atomic files: complete or absent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{Folder, FolderError};

/// Opens a regular file for reading; `None` where none exists. Links, devices and pipes are
/// rejected, since their content may be endless.
///
/// # Errors
/// [`FolderError::Damaged`] when the path is not a regular file.
pub(super) fn open(path: &Path, max_bytes: u64) -> Result<Option<File>, FolderError> {
    let damaged = |why: String| FolderError::Damaged {
        path: path.to_owned(),
        why,
    };
    let link = || damaged("this is a symbolic link, not a regular file".to_owned());
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if path.is_symlink() => return Err(link()),
        Err(error) => return Err(FolderError::io(path)(error)),
    };
    let facts = file.metadata().map_err(FolderError::io(path))?;
    if !facts.is_file() {
        let kind = if facts.is_dir() {
            "a folder"
        } else {
            "a device, a pipe or a socket"
        };
        return Err(damaged(format!("this is {kind}, not a regular file")));
    }
    if facts.len() > max_bytes {
        Err(damaged(format!(
            "it has {} bytes; at most {max_bytes} are read",
            facts.len()
        )))
    } else {
        Ok(Some(file))
    }
}

/// The bytes of a regular file; `None` where none exists.
///
/// # Errors
/// As for [`open`], and when the file exceeds the limit.
pub(super) fn bytes(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FolderError> {
    let Some(file) = open(path, max_bytes)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let read = file.take(max_bytes + 1).read_to_end(&mut bytes);
    read.map_err(FolderError::io(path))?;
    if bytes.len() as u64 > max_bytes {
        Err(FolderError::Damaged {
            path: path.to_owned(),
            why: format!("it has more than {max_bytes} bytes"),
        })
    } else {
        Ok(Some(bytes))
    }
}

/// The prefix of files that do not have their final name yet.
pub(super) const UNFINISHED: &str = ".unfinished-";

/// Creates a folder that only its owner may access, with its parents.
pub(super) fn make_folder(path: &Path) -> Result<(), FolderError> {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.map_err(FolderError::io(path))
}

/// Bytes that are on disk under a temporary name.
fn unfinished(folder: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = folder.join(format!("{UNFINISHED}{}", uuid::Uuid::new_v4()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let written = file.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    match written {
        Ok(()) => Ok(path),
        Err(error) => {
            let _ = fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Makes names durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The folder of a file; for a bare name the current folder.
fn folder_of(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Creates a file; `false` when it exists.
pub(super) fn create(path: &Path, bytes: &[u8]) -> Result<bool, FolderError> {
    let folder = folder_of(path);
    let created = || {
        let whole = unfinished(folder, bytes)?;
        // A link, unlike a rename, never replaces an existing file.
        let linked = fs::hard_link(&whole, path);
        fs::remove_file(&whole)?;
        match linked {
            Ok(()) => sync_folder(folder).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    };
    created().map_err(FolderError::io(path))
}

/// Replaces an existing file.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let folder = folder_of(path);
    let replaced = || {
        let whole = unfinished(folder, bytes)?;
        fs::rename(&whole, path)?;
        sync_folder(folder)
    };
    replaced().map_err(FolderError::io(path))
}

/// Removes a file if it exists; `true` when it did.
pub(super) fn remove(path: &Path) -> Result<bool, FolderError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FolderError::io(path)(error)),
    }
}

/// The mode of the folder's lock. It is released when the file is closed, or the process ends.
#[derive(Clone, Copy)]
pub(super) enum Hold {
    /// With other writers.
    Shared,
    /// Alone; refused while anybody writes.
    Alone,
}

impl Folder {
    /// Locks the folder, creating it if it is missing.
    pub(super) fn hold(&self, hold: Hold) -> Result<File, FolderError> {
        make_folder(&self.snapshots())?;
        let path = self.base.join(".lock");
        let file = lock_file(&path)?;
        let busy = || FolderError::Busy {
            path: self.base.clone(),
        };
        let held = match hold {
            Hold::Shared => file.try_lock_shared(),
            Hold::Alone => file.try_lock(),
        };
        match held {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(busy()),
            Err(fs::TryLockError::Error(error)) => Err(FolderError::io(&path)(error)),
        }
    }
}

impl Folder {
    /// Takes the lock of a capture: concurrent changes of two captures in one folder could not be
    /// distinguished. `None` while another capture holds it. Closing the file releases it.
    ///
    /// # Errors
    /// When the folder cannot be created or the lock cannot be taken.
    pub fn capture_turn(&self) -> Result<Option<File>, FolderError> {
        make_folder(&self.snapshots())?;
        let path = self.base.join(".capture.lock");
        let file = lock_file(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(FolderError::io(&path)(error)),
        }
    }
}

/// A file to be locked.
pub(super) fn lock_file(path: &Path) -> Result<File, FolderError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path).map_err(FolderError::io(path))
}

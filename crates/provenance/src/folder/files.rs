//! Files that are whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Folder, FolderError};

/// How the name of a file begins that has not taken its own yet.
pub(super) const UNFINISHED: &str = ".unfinished-";

/// A folder for nobody else, with all above it.
pub(super) fn make_folder(path: &Path) -> Result<(), FolderError> {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.map_err(FolderError::io(path))
}

/// Bytes that are on disk under no name of their own yet.
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

/// The folder of a file; that of a bare name is the one that a process works in.
fn folder_of(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file that must not be there yet; `false` when it is.
pub(super) fn create(path: &Path, bytes: &[u8]) -> Result<bool, FolderError> {
    let folder = folder_of(path);
    let created = || {
        let whole = unfinished(folder, bytes)?;
        // A link, unlike a new name, never takes the place of a file that is there.
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

/// Writes a file in the place of the one that is there.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let folder = folder_of(path);
    let replaced = || {
        let whole = unfinished(folder, bytes)?;
        fs::rename(&whole, path)?;
        sync_folder(folder)
    };
    replaced().map_err(FolderError::io(path))
}

/// Removes a file that may be gone already; `true` when it was there.
pub(super) fn remove(path: &Path) -> Result<bool, FolderError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FolderError::io(path)(error)),
    }
}

/// How a process holds the folder. Closing the file lets go, as the end of a process does.
#[derive(Clone, Copy)]
pub(super) enum Hold {
    /// With other writers.
    Shared,
    /// Alone; refused while anybody writes.
    Alone,
}

impl Folder {
    /// Holds the folder, making it where there is none.
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

/// A file to be locked.
pub(super) fn lock_file(path: &Path) -> Result<File, FolderError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path).map_err(FolderError::io(path))
}

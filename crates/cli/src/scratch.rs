//! Folders for the time that something is done, below the system's folder for such.
//!
//! The process that made one holds a lock on it for as long as it lives. What a killed one left is
//! cleared by the next that needs such a folder: the system lets go of a lock with its holder,
//! whatever ended it.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::TempDir;

/// For its owner alone.
const MODE: u32 = 0o700;

/// A folder that goes with its value, for its owner alone.
pub(crate) struct Scratch {
    folder: TempDir,
    /// That somebody works in it. Let go of after the folder is gone.
    _lock: File,
}

impl Scratch {
    /// A new folder whose name begins like this; what others of that beginning left, whose owners
    /// are no more, is cleared. Blocks.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
        let base = std::env::temp_dir();
        clear(&base, prefix);
        Self::within(&base, prefix)
    }

    fn within(base: &Path, prefix: &str) -> io::Result<Self> {
        loop {
            let folder = tempfile::Builder::new()
                .prefix(prefix)
                .permissions(Permissions::from_mode(MODE))
                .tempdir_in(base)?;
            if let Some(lock) = locked(folder.path())? {
                return Ok(Self {
                    folder,
                    _lock: lock,
                });
            }
            // Somebody who clears came between its making and its lock.
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The lock of a folder; `None` where another has it, or the folder is not there any more.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let folder = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Whoever clears does so under the lock: what is there now, stays.
    let locked = folder.metadata()?;
    let is_same = std::fs::symlink_metadata(path)
        .is_ok_and(|found| (found.dev(), found.ino()) == (locked.dev(), locked.ino()));
    Ok(is_same.then_some(folder))
}

/// Removes the folders of a beginning that are ours and whose owners are no more. What cannot be
/// removed stays: it is in nobody's way.
fn clear(base: &Path, prefix: &str) {
    let me = rustix::process::geteuid().as_raw();
    for found in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let is_named = found
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(prefix));
        let is_ours = || {
            let meta = found.metadata();
            meta.is_ok_and(|meta| meta.is_dir() && meta.uid() == me)
        };
        if !is_named || !is_ours() {
            continue;
        }
        let path = found.path();
        if let Ok(Some(_lock)) = locked(&path)
            && std::fs::remove_dir_all(&path).is_err()
        {
            open_up(&path);
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Gives the owner of folders the right to empty them, which who worked there may have taken away.
fn open_up(folder: &Path) {
    let _ = std::fs::set_permissions(folder, Permissions::from_mode(MODE));
    for found in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if found.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&found.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_any_more_is_cleared_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for left in ["mine-left/inner/more", "other-left"] {
            std::fs::create_dir_all(at(left)).unwrap();
        }
        std::fs::write(at("mine-left/inner/more/file"), "x").unwrap();
        std::fs::set_permissions(at("mine-left/inner"), Permissions::from_mode(0o500)).unwrap();
        std::fs::write(at("mine-file"), "x").unwrap();
        std::os::unix::fs::symlink(at("other-left"), at("mine-link")).unwrap();
        let held = Scratch::within(base.path(), "mine-").unwrap();
        std::fs::write(held.path().join("kept"), "x").unwrap();

        clear(base.path(), "mine-");
        assert!(!at("mine-left").exists());
        for stays in ["other-left", "mine-file", "mine-link"] {
            assert!(at(stays).exists(), "{stays}");
        }
        assert!(held.path().join("kept").exists());
        let mode = std::fs::metadata(held.path()).unwrap().mode();
        assert_eq!(mode & 0o777, MODE);

        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_was_cleared_before_it_was_locked_is_not_taken() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("mine-1");
        assert!(locked(&path).unwrap().is_none());
        std::fs::create_dir(&path).unwrap();
        let lock = locked(&path).unwrap();
        assert!(lock.is_some());
        assert!(locked(&path).unwrap().is_none(), "another has it");
    }
}

//! Temporary folders, below the system's temporary folder.
//!
//! The process that created one holds a lock on it as long as it lives. A killed process's folder
//! is cleared by the next process that needs one: the system releases a lock with its holder,
//! however it ended. The lock is on the folder itself, so it needs no file, and system cleaners
//! that respect locks leave it alone.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// For its owner alone.
const MODE: u32 = 0o700;
/// Hexadecimal digits after the prefix of a name. Names that were chosen by hand differ, and are
/// not cleared.
const DIGITS: usize = 16;

/// A folder that is removed with its value, for its owner alone.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Marks the folder as used. Released after the folder is removed.
    _lock: File,
}

impl Scratch {
    /// A new folder in `base` whose name begins with `prefix`. Others with this prefix whose owners
    /// have ended are cleared, unless `is_used` reports one as still used, or fails. Blocks.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn new(
        base: &Path,
        prefix: &str,
        is_used: impl Fn(&Path) -> io::Result<bool>,
    ) -> io::Result<Self> {
        clear(base, prefix, is_used);
        loop {
            let id = uuid::Uuid::new_v4().simple().to_string();
            let path = base.join(format!("{prefix}{}", &id[..DIGITS]));
            DirBuilder::new().mode(MODE).create(&path)?;
            let lock = locked(&path);
            if let Ok(Some(lock)) = lock {
                return Ok(Self { path, _lock: lock });
            }
            // A concurrent clearing came between its creation and its lock, or it cannot be locked.
            let _ = std::fs::remove_dir(&path);
            lock?;
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The lock of a folder; `None` if another process holds it, or the folder no longer exists.
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
    // Clearing happens under the lock, so a folder that still exists stays.
    let locked = folder.metadata()?;
    let is_same = std::fs::symlink_metadata(path)
        .is_ok_and(|found| (found.dev(), found.ino()) == (locked.dev(), locked.ino()));
    Ok(is_same.then_some(folder))
}

/// Removes the folders with this prefix that belong to this user and whose owners have ended.
fn clear(base: &Path, prefix: &str, is_used: impl Fn(&Path) -> io::Result<bool>) {
    let me = rustix::process::geteuid().as_raw();
    for found in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let is_ours = || {
            let meta = found.metadata();
            meta.is_ok_and(|meta| meta.is_dir() && meta.uid() == me)
        };
        let name = found.file_name();
        if !name.to_str().is_some_and(|name| is_name(name, prefix)) || !is_ours() {
            continue;
        }
        let path = found.path();
        if let Ok(Some(_lock)) = locked(&path)
            && let Ok(false) = is_used(&path)
        {
            remove(&path);
        }
    }
}

/// Whether a folder's name has this prefix and our digits.
fn is_name(name: &str, prefix: &str) -> bool {
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    name.strip_prefix(prefix)
        .is_some_and(|digits| digits.len() == DIGITS && digits.chars().all(is_digit))
}

/// Removes a folder and its content. Remains are harmless, and the next clearing tries again.
fn remove(path: &Path) {
    if std::fs::remove_dir_all(path).is_err() {
        open_up(path);
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Restores the owner's right to empty folders, which a process there may have removed.
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

    /// The names of a killed process's folders.
    fn left(prefix: &str, number: u8) -> String {
        format!("{prefix}{number:016x}")
    }

    #[test]
    fn only_unused_scratch_folders_are_cleared() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        let (mine, other) = (left("mine-", 1), left("other-", 1));
        for name in [&mine, &other] {
            std::fs::create_dir_all(at(name).join("inner/more")).unwrap();
        }
        std::fs::write(at(&mine).join("inner/more/file"), "x").unwrap();
        let shut = Permissions::from_mode(0o500);
        std::fs::set_permissions(at(&mine).join("inner"), shut).unwrap();
        let (file, link) = (left("mine-", 2), left("mine-", 3));
        std::fs::write(at(&file), "x").unwrap();
        std::os::unix::fs::symlink(at(&other), at(&link)).unwrap();
        let by_hand = ["mine-", "mine-notes", "mine-00000000000000000"];
        for name in by_hand {
            std::fs::create_dir(at(name)).unwrap();
        }
        let held = Scratch::new(base.path(), "mine-", |_| Ok(false)).unwrap();
        assert!(!at(&mine).exists(), "a new one clears");
        std::fs::write(held.path().join("kept"), "x").unwrap();

        let (used, unsure) = (left("mine-", 4), left("mine-", 5));
        for name in [&mine, &used, &unsure] {
            std::fs::create_dir(at(name)).unwrap();
        }
        clear(base.path(), "mine-", |path| {
            assert_ne!(path, held.path(), "who holds one is not asked for it");
            if path == at(&unsure) {
                Err(io::Error::other("unsure"))
            } else {
                Ok(path == at(&used))
            }
        });
        assert!(!at(&mine).exists());
        let stay = [&other, &file, &link, &used, &unsure];
        for stays in stay.into_iter().map(String::as_str).chain(by_hand) {
            assert!(at(stays).exists(), "{stays}");
        }
        assert!(at(&other).join("inner/more").exists(), "through no link");
        assert!(held.path().join("kept").exists());
        let mode = std::fs::metadata(held.path()).unwrap().mode();
        assert_eq!(mode & 0o777, MODE);
        let name = held.path().file_name().unwrap().to_str().unwrap();
        assert!(is_name(name, "mine-"), "{name}");
    }

    #[test]
    fn a_folder_of_another_user_is_not_cleared() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(left("mine-", 1));
        std::fs::create_dir(&path).unwrap();
        // Only a privileged user can change the owner: for others it stays their own.
        let is_given = std::os::unix::fs::chown(&path, Some(65_534), None).is_ok();
        clear(base.path(), "mine-", |_| Ok(false));
        assert_eq!(path.exists(), is_given);
    }

    #[test]
    fn a_folder_goes_with_its_value_even_if_it_was_shut() {
        let base = tempfile::tempdir().unwrap();
        let held = Scratch::new(base.path(), "mine-", |_| Ok(false)).unwrap();
        let inner = held.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), "x").unwrap();
        std::fs::set_permissions(&inner, Permissions::from_mode(0o500)).unwrap();
        drop(held);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
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

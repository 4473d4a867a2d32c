//! Folders that were created or deleted and files whose permission bits changed: redone for a
//! recorded tool, and undone at the start of a replay.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::call::{Change, FolderChange, FolderMetadata, ModeChange, Operation};
use crate::scan::meant;
use crate::scratch::{ScratchError, TAKEN_OUT, failed, inside};

/// Creates the folders of a tool before its files. Blocks.
///
/// # Errors
/// When a path leads out of the folder, or something cannot be written.
pub fn before(root: &Path, changes: &FolderMetadata) -> Result<(), ScratchError> {
    let created = |change: &&FolderChange| change.operation == Operation::Created;
    for change in folders(changes).filter(created) {
        make(&inside(root, &change.path)?, change.mode)?;
    }
    Ok(())
}

/// Removes the folders that the tool removed and sets its permission bits, after its files. Blocks.
///
/// # Errors
/// As [`before`].
pub fn after(root: &Path, changes: &FolderMetadata) -> Result<(), ScratchError> {
    for change in folders(changes).rev() {
        if change.operation == Operation::Deleted {
            // The folder may hold unwatched files, and then stays.
            let _ = std::fs::remove_dir(inside(root, &change.path)?);
        }
    }
    for change in modes(changes) {
        set_mode(&inside(root, &change.path)?, change.mode)?;
    }
    Ok(())
}

/// Undoes changes in a copy of a folder, after the contents of its files were restored. A created
/// folder is removed with everything in it, since none of it existed before. Blocks.
///
/// # Errors
/// As [`before`].
pub fn undo(
    original: &Path,
    copy: &Path,
    files: &[Change],
    changes: &FolderMetadata,
) -> Result<(), ScratchError> {
    let created = folders(changes).rev();
    let created: Vec<&FolderChange> = created
        .filter(|change| change.operation == Operation::Created)
        .collect();
    for change in &created {
        let path = inside(copy, &change.path)?;
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&path)(error));
            }
            _ => {}
        }
    }
    // A folder that is empty without its created files existed all the same.
    let created: BTreeSet<PathBuf> = created.iter().map(|change| meant(&change.path)).collect();
    for change in files {
        let path = meant(&change.path);
        let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        else {
            continue;
        };
        let came = parent.ancestors().any(|folder| created.contains(folder));
        if !came && original.join(parent).is_dir() {
            let path = copy.join(parent);
            std::fs::create_dir_all(&path).map_err(failed(&path))?;
        }
    }
    for change in folders(changes) {
        if change.operation == Operation::Deleted {
            make(&inside(copy, &change.path)?, change.mode)?;
        }
    }
    for change in modes(changes) {
        set_mode(&inside(copy, &change.path)?, change.before)?;
    }
    Ok(())
}

/// A folder with a secret in its name is skipped.
fn folders(changes: &FolderMetadata) -> impl DoubleEndedIterator<Item = &FolderChange> {
    let is_known = |change: &&FolderChange| !change.path.contains(TAKEN_OUT);
    changes.folders.iter().filter(is_known)
}

fn modes(changes: &FolderMetadata) -> impl Iterator<Item = &ModeChange> {
    let is_known = |change: &&ModeChange| !change.path.contains(TAKEN_OUT);
    changes.modes.iter().filter(is_known)
}

/// The owner can write every folder, as in the copy of a replay.
fn make(path: &Path, mode: u32) -> Result<(), ScratchError> {
    std::fs::create_dir_all(path).map_err(failed(path))?;
    set_mode(path, mode | 0o700)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), ScratchError> {
    let mode = std::fs::Permissions::from_mode(mode & 0o777);
    match std::fs::set_permissions(path, mode) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

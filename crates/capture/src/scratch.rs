//! Copies the working folder in its state before a recording, for a replay to work in; and redoes
//! the changes of a recorded tool from kept contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::call::{Change, Keep, Operation};
use crate::clean::Cleaner;
use crate::scan::{self, MAX_WHOLE, is_gone, meant, shown};

/// Maximum files to copy.
const MAX_FILES: usize = 500_000;
/// Maximum bytes to copy.
const MAX_BYTES: u64 = 8 << 30;
/// Folders that a replay does not need.
const LEFT_OUT: [&str; 2] = [".aiwg/provenance", ".runwright"];

/// Why the folder of a replay could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// The content of a file is not kept.
    #[error("the content of {path} is not kept, so the file cannot be restored")]
    ContentUnavailable {
        /// The file.
        path: String,
    },
    /// Values were redacted from the content of a file.
    #[error(
        "the content of {path} was kept without values that look like secrets, so the file cannot \
         be restored exactly"
    )]
    ContentRedacted {
        /// The file.
        path: String,
    },
    /// A file changed only in redacted values.
    #[error(
        "the content of {path} was kept without values that look like secrets, and only those may \
         have changed: whether the file is the same as then is unknown"
    )]
    ValueChanged {
        /// The file.
        path: String,
    },
    /// The name of a file contains a secret that is unknown here.
    #[error(
        "the name of {path} contains a secret, so the file cannot be restored; set the variable \
         that had it"
    )]
    NameUnavailable {
        /// The file.
        path: String,
    },
    /// A recorded path leads out of the folder.
    #[error("the recorded path {path} leads out of the working folder")]
    Outside {
        /// The path.
        path: String,
    },
    /// The folder is too large to be copied.
    #[error("the working folder is too large to be copied; replay it with --in-place")]
    TooLarge,
    /// The system's.
    #[error("{path}: {error}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> ScratchError + '_ {
    |error| ScratchError::Io {
        path: path.to_owned(),
        error,
    }
}

/// Copies a folder, links as links, with the modes of its files; but the owner can write every
/// folder of the copy. An unreadable folder is copied empty, and an unreadable file as an
/// unreadable empty file; these paths are returned. Blocks.
///
/// # Errors
/// When it is too large, or the copy cannot be written.
pub fn copy(from: &Path, to: &Path) -> Result<Vec<String>, ScratchError> {
    let mut todo = vec![PathBuf::new()];
    let (mut files, mut bytes) = (0, 0);
    let mut unread = Vec::new();
    while let Some(relative) = todo.pop() {
        let (source, target) = (from.join(&relative), to.join(&relative));
        std::fs::create_dir_all(&target).map_err(failed(&target))?;
        let is_root = relative.as_os_str().is_empty();
        let listed = std::fs::metadata(&source).and_then(|meta| {
            let mode = std::fs::Permissions::from_mode(meta.permissions().mode() & 0o777 | 0o700);
            std::fs::set_permissions(&target, mode)?;
            std::fs::read_dir(&source)?.collect::<io::Result<Vec<_>>>()
        });
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) if is_root => return Err(failed(&source)(error)),
            // It vanished during the copy.
            Err(error) if is_gone(&error) => {
                let _ = std::fs::remove_dir(&target);
                continue;
            }
            Err(_) => {
                unread.push(shown(&relative));
                continue;
            }
        };
        for found in listed {
            let inner = relative.join(found.file_name());
            if LEFT_OUT.iter().any(|left| inner.starts_with(left)) {
                continue;
            }
            let (path, target) = (found.path(), to.join(&inner));
            let meta = match found.metadata() {
                Ok(meta) => meta,
                Err(error) if is_gone(&error) => continue,
                Err(_) => {
                    unread.push(shown(&inner));
                    continue;
                }
            };
            if meta.is_dir() {
                todo.push(inner);
            } else if meta.is_symlink() {
                match std::fs::read_link(&path) {
                    Ok(aim) => symlink(aim, &target).map_err(failed(&target))?,
                    Err(error) if is_gone(&error) => {}
                    Err(_) => unread.push(shown(&inner)),
                }
            } else if meta.is_file() {
                files += 1;
                bytes += meta.len();
                if files > MAX_FILES || bytes > MAX_BYTES {
                    return Err(ScratchError::TooLarge);
                }
                // Opened separately, so that a later failure belongs to the copy.
                match std::fs::File::open(&path) {
                    Ok(_) => match std::fs::copy(&path, &target) {
                        Err(error) if !is_gone(&error) || path.exists() => {
                            return Err(failed(&target)(error));
                        }
                        _ => {}
                    },
                    Err(error) if is_gone(&error) => {}
                    Err(_) => {
                        std::fs::write(&target, b"").map_err(failed(&target))?;
                        let shut = std::fs::Permissions::from_mode(0o0);
                        std::fs::set_permissions(&target, shut).map_err(failed(&target))?;
                        unread.push(shown(&inner));
                    }
                }
            }
        }
    }
    unread.sort();
    Ok(unread)
}

/// Undoes changes: created files are removed, changed and deleted ones are restored. Blocks.
///
/// # Errors
/// When a content is not kept, or a write fails.
pub fn undo(
    root: &Path,
    changes: &[Change],
    cleaner: &Cleaner,
    keep: &dyn Keep,
) -> Result<(), ScratchError> {
    let names = Names::from_changes(root, changes, cleaner);
    for change in changes {
        let path = inside(root, &names.own(&change.path))?;
        match (change.operation, change.before) {
            // A file whose name is unknown does not exist here and needs no removal.
            (Operation::Created, _) => remove(&path)?,
            _ if !names.has(&change.path) => {
                return Err(ScratchError::NameUnavailable {
                    path: change.path.clone(),
                });
            }
            (Operation::Deleted, _) => {
                put_back(&path, change, Held::now(change), cleaner, keep)?;
            }
            (Operation::Modified, Some(before)) => {
                let content = Held {
                    digest: before,
                    redacted: change.redacted_before,
                    is_verbatim: change.verbatim_before,
                };
                put_back(&path, change, content, cleaner, keep)?;
            }
            (Operation::Modified, None) => {
                return Err(ScratchError::ContentUnavailable {
                    path: change.path.clone(),
                });
            }
        }
    }
    // Folders that are empty now were created with their files.
    let parents: BTreeSet<PathBuf> = changes
        .iter()
        .filter(|change| change.operation == Operation::Created)
        .filter_map(|change| meant(&names.own(&change.path)).parent().map(Path::to_owned))
        .collect();
    for parent in parents.iter().rev() {
        for folder in parent
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
        {
            if std::fs::remove_dir(root.join(folder)).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Checks that every content of changes can be written. Blocks.
///
/// # Errors
/// As [`undo`], before any change.
pub fn ready<'a>(
    changes: impl IntoIterator<Item = &'a Change>,
    cleaner: &Cleaner,
    keep: &dyn Keep,
) -> Result<(), ScratchError> {
    for change in changes {
        if change.operation != Operation::Deleted {
            whole(change, Held::now(change), cleaner, keep)?;
        }
    }
    Ok(())
}

/// Redoes changes: all of them, or none if a content is missing. A renamed file counts as a deleted
/// and a created one, and both are redone together. Blocks.
///
/// # Errors
/// As [`undo`].
pub fn apply(
    root: &Path,
    changes: &[Change],
    cleaner: &Cleaner,
    keep: &dyn Keep,
) -> Result<(), ScratchError> {
    ready(changes, cleaner, keep)?;
    let names = Names::from_changes(root, changes, cleaner);
    for change in changes {
        let path = inside(root, &names.own(&change.path))?;
        match change.operation {
            Operation::Deleted => remove(&path)?,
            Operation::Created | Operation::Modified => {
                put(&path, change, Held::now(change), cleaner, keep)?;
            }
        }
    }
    Ok(())
}

/// Own names of files whose recorded names are redacted.
struct Names<'a> {
    /// Names in the folder.
    found: BTreeMap<String, String>,
    /// Knows names of missing files.
    cleaner: &'a Cleaner,
}

/// The beginning of a redaction mark.
pub(crate) const TAKEN_OUT: &str = "[REDACTED";

impl<'a> Names<'a> {
    /// Searches the folder if a change has such a name.
    fn from_changes(root: &Path, changes: &[Change], cleaner: &'a Cleaner) -> Self {
        let mut found_names = BTreeMap::new();
        let mut todo = if changes.iter().any(|change| change.path.contains(TAKEN_OUT)) {
            vec![PathBuf::new()]
        } else {
            Vec::new()
        };
        while let Some(relative) = todo.pop() {
            let folder = root.join(&relative);
            // An inaccessible or vanished folder has no names.
            for found in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let inner = relative.join(found.file_name());
                let own = shown(&inner);
                let clean = cleaner.text(&own);
                // A real name may look like a redaction mark.
                if clean.contains(TAKEN_OUT) {
                    found_names.insert(clean, own);
                }
                if found.file_type().is_ok_and(|kind| kind.is_dir()) {
                    todo.push(inner);
                }
            }
        }
        Self {
            found: found_names,
            cleaner,
        }
    }

    /// The own name, if it is known.
    fn known(&self, path: &str) -> Option<String> {
        if !path.contains(TAKEN_OUT) {
            return Some(path.to_owned());
        }
        let found = self.found.get(path).cloned();
        found.or_else(|| self.cleaner.restore_name(path))
    }

    fn has(&self, path: &str) -> bool {
        self.known(path).is_some()
    }

    /// The own name, or the recorded one if it is unknown.
    fn own(&self, path: &str) -> String {
        self.known(path).unwrap_or_else(|| path.to_owned())
    }
}

/// The path of a recorded name: inside the folder, and not through a link to the outside.
pub(crate) fn inside(root: &Path, path: &str) -> Result<PathBuf, ScratchError> {
    let outside = || ScratchError::Outside {
        path: path.to_owned(),
    };
    let relative = meant(path);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !relative.components().all(is_plain) || relative.as_os_str().is_empty() {
        return Err(outside());
    }
    let mut folder = root.to_owned();
    for part in relative.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if folder.is_symlink() {
            return Err(outside());
        }
    }
    Ok(root.join(relative))
}

fn remove(path: &Path) -> Result<(), ScratchError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

/// A content of a file.
#[derive(Clone, Copy)]
struct Held {
    digest: kernel::digest::Digest,
    /// The number of values redacted from it.
    redacted: u64,
    /// Whether these are literal values of variables.
    is_verbatim: bool,
}

impl Held {
    /// The current content, or the last one.
    fn now(change: &Change) -> Self {
        Self {
            digest: change.hash,
            redacted: change.redacted,
            is_verbatim: change.verbatim,
        }
    }
}

/// Restores the previous content of a file. If the file already equals it except for the redacted
/// values, the program restored it itself and it stays: only this file has those values and the
/// contents too large to keep. If the change consisted of redacted values only, the two states
/// cannot be distinguished.
fn put_back(
    path: &Path,
    change: &Change,
    content: Held,
    cleaner: &Cleaner,
    keep: &dyn Keep,
) -> Result<(), ScratchError> {
    // An unreadable file is written anew.
    let is_there = || is_there(path, change, content, cleaner).unwrap_or(false);
    if content.redacted == 0 {
        return match put(path, change, content, cleaner, keep) {
            Err(ScratchError::ContentUnavailable { .. }) if is_there() => {
                if change.link {
                    Ok(())
                } else {
                    set_mode(path, change)
                }
            }
            done => done,
        };
    }
    let is_of_values_alone = change.before == Some(change.hash);
    if is_of_values_alone {
        return Err(ScratchError::ValueChanged {
            path: change.path.clone(),
        });
    }
    if is_there() {
        Ok(())
    } else {
        put(path, change, content, cleaner, keep)
    }
}

/// Whether a file has this content now, except for redacted values.
fn is_there(path: &Path, change: &Change, content: Held, cleaner: &Cleaner) -> io::Result<bool> {
    if path.is_symlink() != change.link {
        return Ok(false);
    }
    let now = match change.link {
        true => std::fs::read_link(path)?.into_os_string().into_vec(),
        false if std::fs::metadata(path)?.len() > MAX_WHOLE => {
            return Ok(scan::digest(path)?.0 == content.digest);
        }
        false => std::fs::read(path)?,
    };
    Ok(kernel::digest::Digest::compute(&cleaner.content(now).bytes) == content.digest)
}

fn set_mode(path: &Path, change: &Change) -> Result<(), ScratchError> {
    let mode = std::fs::Permissions::from_mode(change.mode & 0o777);
    std::fs::set_permissions(path, mode).map_err(failed(path))
}

/// The bytes of a content, in the form to write.
fn whole(
    change: &Change,
    content: Held,
    cleaner: &Cleaner,
    keep: &dyn Keep,
) -> Result<Vec<u8>, ScratchError> {
    let kept = keep.get(content.digest);
    let kept = kept.map_err(failed(Path::new(&change.path)))?;
    let Some(kept) = kept else {
        return Err(ScratchError::ContentUnavailable {
            path: change.path.clone(),
        });
    };
    let bytes = match content.redacted {
        0 => Some(cleaner.restore_bytes(kept)),
        _ if content.is_verbatim => cleaner.restore_whole(&kept),
        // The plain value may differ from the original spelling.
        _ => None,
    };
    bytes.ok_or_else(|| ScratchError::ContentRedacted {
        path: change.path.clone(),
    })
}

fn put(
    path: &Path,
    change: &Change,
    content: Held,
    cleaner: &Cleaner,
    keep: &dyn Keep,
) -> Result<(), ScratchError> {
    let bytes = whole(change, content, cleaner, keep)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed(parent))?;
    }
    remove(path)?;
    if change.link {
        let aim = PathBuf::from(std::ffi::OsString::from_vec(bytes));
        return symlink(aim, path).map_err(failed(path));
    }
    std::fs::write(path, bytes).map_err(failed(path))?;
    set_mode(path, change)
}

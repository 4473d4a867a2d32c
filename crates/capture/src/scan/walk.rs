//! Walks through a working folder, and their errors.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ignore::{DirEntry, Error, Walk, WalkBuilder};

use super::{Filter, ScanError};

/// Never scanned.
const NEVER: [&str; 4] = [".git", ".aiwg/provenance", ".runwright", ".aiwg/working"];

/// A walk through all paths that neither a pattern nor git excludes. Excluded folders are not
/// entered.
pub(super) fn usual(root: &Path, filter: &Filter) -> Walk {
    let filter = filter.clone();
    walk(root, true, move |entry, relative| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        !is_folder || relative.as_os_str().is_empty() || filter.wants(relative)
    })
}

/// A walk through everything except the fixed exclusions.
pub(super) fn everything(root: &Path) -> Walk {
    walk(root, false, |_, _| true)
}

fn walk(
    root: &Path,
    honours_ignores: bool,
    is_wanted: impl Fn(&DirEntry, &Path) -> bool + Send + Sync + 'static,
) -> Walk {
    let base = root.to_owned();
    WalkBuilder::new(root)
        .hidden(false)
        .ignore(false)
        .git_global(false)
        .git_ignore(honours_ignores)
        .git_exclude(honours_ignores)
        .parents(honours_ignores)
        .require_git(false)
        .follow_links(false)
        .filter_entry(move |entry| {
            let relative = entry.path().strip_prefix(&base).unwrap_or(entry.path());
            !is_never(relative) && entry.file_name() != ".git" && is_wanted(entry, relative)
        })
        .build()
}

pub(super) fn is_never(relative: &Path) -> bool {
    NEVER.iter().any(|never| relative.starts_with(never))
}

/// Whether an error means that a path no longer exists, or has another type by now.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound | Kind::NotADirectory | Kind::IsADirectory
    )
}

/// A path below the root that could not be entered; `None` where it no longer exists.
///
/// # Errors
/// When it is the root itself, which must be readable.
pub(super) fn unread(root: &Path, error: Error) -> Result<Option<PathBuf>, ScanError> {
    let is_below = error.depth().is_some_and(|depth| depth > 0);
    let place = place(&error).and_then(|path| path.strip_prefix(root).ok());
    let place = place.filter(|path| !path.as_os_str().is_empty());
    let place = place.map(Path::to_owned);
    let error = error.into_io_error();
    let error = error.unwrap_or_else(|| io::Error::other("the folder cannot be read"));
    match place {
        _ if is_gone(&error) && (is_below || place.is_some()) => Ok(None),
        Some(path) => Ok(Some(path)),
        None => Err(ScanError::Io {
            path: root.to_owned(),
            error,
        }),
    }
}

/// The path of an error of a walk.
fn place(error: &Error) -> Option<&Path> {
    match error {
        Error::WithPath { path, .. } => Some(path),
        Error::WithDepth { err, .. } | Error::WithLineNumber { err, .. } => place(err),
        _ => None,
    }
}

/// Files that git tracks although a pattern would ignore them.
pub(super) fn tracked_and_ignored(root: &Path) -> Vec<PathBuf> {
    if !root.ancestors().any(|folder| folder.join(".git").exists()) {
        return Vec::new();
    }
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--ignored",
            "--exclude-standard",
        ])
        .current_dir(root)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(listed) = listed else {
        return Vec::new();
    };
    let names = listed.stdout.split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| root.join(std::ffi::OsStr::from_bytes(name)))
        .collect()
}

//! The project folder and the data folder.

use std::ffi::OsStr;
use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use runtime::private;

use crate::exit::Failure;

/// The name of the data folder inside a project folder.
const DATA_FOLDER: &str = ".runwright";
/// The settings of a project, which may exist before a store.
const SETTINGS_FILE: &str = runtime::executors::FILE;
/// Our files in a data folder of another name, in addition to those of SQLite.
const OWN_NAMES: [&str; 8] = [
    ".gitignore",
    "attempts",
    "keyring.json",
    "secrets",
    "served.lock",
    "server.lock",
    "snapshots",
    "store.db",
];
/// The permissions of other users.
const OTHERS: u32 = 0o077;
/// The name of the folder of templates and sessions inside a project folder.
const WORKFLOW_FOLDER: &str = faces::player::names::FOLDER;

/// The working folder of processes and the folder of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The base of process nodes' relative paths. Absolute.
    pub project: PathBuf,
    /// The folder of the store and of attempts. Absolute; may not exist yet.
    pub data: PathBuf,
}

impl Place {
    /// Finds both from the command line.
    ///
    /// The project is the given folder; else the one that contains a data folder named
    /// `.runwright`; else the nearest folder, from the current one up, with a `.runwright` or a
    /// `runwright.toml`; else the nearest one with a `.workflow`; else the current folder.
    pub(crate) fn find(project: Option<&Path>, data: Option<&Path>) -> Result<Self, Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::new(format!(
                "the current folder cannot be used: {}",
                crate::exit::io_text(&error)
            ))
        })?;
        Self::from(&here, project, data)
    }

    fn from(here: &Path, project: Option<&Path>, data: Option<&Path>) -> Result<Self, Failure> {
        let data = data.map(|data| here.join(data));
        let project = match (project, &data) {
            (Some(project), _) => {
                let project = here.join(project);
                project
                    .canonicalize()
                    .map_err(|error| Failure::file(&project, &error))?
            }
            (None, Some(data)) if data.file_name().is_some_and(|name| name == DATA_FOLDER) => {
                data.parent().unwrap_or(here).to_owned()
            }
            (None, Some(_)) => here.to_owned(),
            (None, None) => {
                let mut above = here.ancestors();
                above
                    .find(|folder| {
                        folder.join(DATA_FOLDER).is_dir() || folder.join(SETTINGS_FILE).is_file()
                    })
                    .or_else(|| {
                        here.ancestors()
                            .find(|folder| folder.join(WORKFLOW_FOLDER).is_dir())
                    })
                    .unwrap_or(here)
                    .to_owned()
            }
        };
        let data = data.unwrap_or_else(|| project.join(DATA_FOLDER));
        Ok(Self { project, data })
    }

    /// The file of the store.
    pub(crate) fn store(&self) -> PathBuf {
        self.data.join("store.db")
    }

    /// The keys that seal sensitive values of its runs.
    pub(crate) fn keyring(&self) -> PathBuf {
        self.data.join("keyring.json")
    }

    /// The default folder of secrets.
    pub(crate) fn secrets(&self) -> PathBuf {
        self.data.join("secrets")
    }

    /// The folder with a folder per run, with a folder per attempt.
    pub(crate) fn attempts(&self) -> PathBuf {
        self.data.join("attempts")
    }

    /// The file on which every server of the store holds a shared lock.
    pub(crate) fn served(&self) -> PathBuf {
        self.data.join("served.lock")
    }

    /// Whether a server currently drives the runs of the store.
    ///
    /// # Errors
    /// The lock file exists and cannot be opened or locked.
    pub(crate) fn is_served(&self) -> Result<bool, Failure> {
        let path = self.served();
        let failed = |error| Failure::file(&path, &error);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        match file.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Creates the data folder, and keeps it out of version control.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        let fail = |error: std::io::Error| Failure::file(&self.data, &error);
        if self.data.is_dir() {
            return Ok(());
        }
        private::folder(&self.data).map_err(fail)?;
        let ignored = self.data.join(".gitignore");
        let file = private::file()
            .write(true)
            .create(true)
            .truncate(true)
            .open(ignored);
        file.and_then(|mut file| file.write_all(b"*\n"))
            .map_err(fail)
    }

    /// Creates an empty file for a new store, for its owner alone. SQLite creates its other files
    /// with the same permissions.
    pub(crate) fn begin_store(&self) {
        // The later opening of the store reports errors. An existing file is not opened here:
        // closing it would release this process's locks on it.
        let file = private::file()
            .write(true)
            .create_new(true)
            .open(self.store());
        drop(file);
    }

    /// Removes other users' permissions on our files in the data folder. Other entries stay
    /// unchanged; if there are any, so does the folder itself.
    pub(crate) fn tighten(&self) {
        let Ok(entries) = std::fs::read_dir(&self.data) else {
            return;
        };
        let mut is_ours = true;
        for entry in entries.flatten() {
            if self.is_own_name(&entry.file_name()) {
                tighten(&entry.path())
            } else {
                is_ours = false
            }
        }
        if is_ours {
            tighten(&self.data);
        }
    }

    /// Whether this program creates an entry of the data folder.
    fn is_own_name(&self, name: &OsStr) -> bool {
        let is_named = |folder: &Path| folder.file_name().is_some_and(|it| it == DATA_FOLDER);
        let Some(name) = name.to_str().filter(|_| !is_named(&self.data)) else {
            return true;
        };
        OWN_NAMES.contains(&name) || name.starts_with("store.db-")
    }

    /// Paths in and below the data folder that other users can access.
    pub(crate) fn loose(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let Ok(entries) = std::fs::read_dir(&self.data) else {
            return found;
        };
        let own = entries.flatten();
        let own = own.filter(|entry| self.is_own_name(&entry.file_name()));
        let mut left: Vec<PathBuf> = own.map(|entry| entry.path()).collect();
        left.push(self.data.clone());
        while let Some(path) = left.pop() {
            let Some(meta) = unlinked(&path) else {
                continue;
            };
            if meta.is_dir() && path != self.data {
                let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(entries.map(|entry| entry.path()));
            }
            if meta.permissions().mode() & OTHERS != 0 {
                found.push(path);
            }
        }
        found.sort();
        found
    }
}

/// Removes other users' permissions on a file or a folder. A path of another owner is skipped.
fn tighten(path: &Path) {
    if let Some(meta) = unlinked(path).filter(|meta| meta.permissions().mode() & OTHERS != 0) {
        let mode = meta.permissions().mode() & !OTHERS & 0o7777;
        // `doctor` reports a missing permission to change it.
        let _ = std::fs::set_permissions(path, Permissions::from_mode(mode));
    }
}

/// The metadata of a path. `None` for a link, which has no permissions of its own.
fn unlinked(path: &Path) -> Option<Metadata> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    (!meta.is_symlink()).then_some(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_data_folder_makes_its_folder_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let inner = top.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let find = |project, data| Place::from(&inner, project, data).unwrap();

        assert_eq!(find(None, None).project, inner);
        std::fs::create_dir(top.join(DATA_FOLDER)).unwrap();
        let found = find(None, None);
        assert_eq!(
            (found.project, found.data),
            (top.clone(), top.join(DATA_FOLDER))
        );

        std::fs::write(top.join("a").join(SETTINGS_FILE), "").unwrap();
        assert_eq!(find(None, None).project, top.join("a"));

        let asked = find(Some(Path::new("..")), None);
        assert_eq!(
            (asked.project, asked.data),
            (top.join("a"), top.join("a/.runwright"))
        );

        let store = top.join("x/.runwright");
        assert_eq!(find(None, Some(&store)).project, top.join("x"));
        assert_eq!(find(None, Some(Path::new("d"))).project, inner);
        assert_eq!(find(None, Some(Path::new("d"))).data, inner.join("d"));
    }

    #[test]
    fn a_project_that_is_not_there_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Place::from(folder.path(), Some(Path::new("nope")), None).is_err());
    }
}

//! The folder of a worker: locked for as long as the worker lives, swept by the next one after.
//!
//! A worker that is killed cannot remove its own. Whatever its programs still have open keeps the
//! folder, too.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use runtime::supervisor::Supervisor;

/// How the name of a worker's folder begins.
const PREFIX: &str = "runwright-worker-";
/// The same, while its lock is not held yet.
const UNBORN: &str = ".runwright-worker-";
/// The file that is locked.
const LOCK: &str = "worker.lock";
/// How old a folder is at least of which it is certain that nobody is about to lock it.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder of this process alone, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    /// Let go after the folder is removed.
    _lock: File,
}

impl Scratch {
    /// Makes one among the others, after a look at which of them are nobody's any more.
    pub(super) fn new_in(parent: &Path, supervisor: &Supervisor) -> io::Result<Self> {
        sweep(parent, supervisor);
        let id = uuid::Uuid::new_v4().simple().to_string();
        let unborn = parent.join(format!("{UNBORN}{id}"));
        DirBuilder::new().mode(0o700).create(&unborn)?;
        let lock = File::create_new(unborn.join(LOCK))?;
        lock.lock()?;
        // Others look at it from here on, and find it locked.
        let path = parent.join(format!("{PREFIX}{id}"));
        std::fs::rename(&unborn, &path)?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is swept by the next worker.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of this user's workers that live no more. One that cannot be looked at or
/// removed stays.
fn sweep(parent: &Path, supervisor: &Supervisor) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let _ = sweep_one(&entry.path(), supervisor);
    }
}

fn sweep_one(path: &Path, supervisor: &Supervisor) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let is_unborn = name.starts_with(UNBORN);
    if !is_unborn && !name.starts_with(PREFIX) {
        return Ok(());
    }
    let folder = std::fs::symlink_metadata(path)?;
    let is_own = folder.uid() == rustix::process::geteuid().as_raw();
    if !folder.is_dir() || !is_own {
        return Ok(());
    }
    let age = folder.modified()?.elapsed().unwrap_or_default();
    if is_unborn {
        return match age >= ABANDONED {
            true => std::fs::remove_dir_all(path),
            false => Ok(()),
        };
    }
    let lock = File::open(path.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let left = Supervisor {
        dir: path.to_owned(),
        ..supervisor.clone()
    };
    match left.is_at_work()? {
        true => Ok(()),
        false => std::fs::remove_dir_all(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supervisor(dir: &Path) -> Supervisor {
        Supervisor {
            program: PathBuf::new(),
            dir: dir.to_owned(),
        }
    }

    fn names(parent: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(parent).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_folders_of_workers_that_live_no_more_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let supervisor = supervisor(parent);
        let living = Scratch::new_in(parent, &supervisor).unwrap();
        let folder = |name: &str| {
            let path = parent.join(name);
            std::fs::create_dir_all(path.join("tasks/a-1")).unwrap();
            path
        };
        let dead = folder("runwright-worker-dead");
        let at_work = folder("runwright-worker-left-a-program");
        for path in [&dead, &at_work] {
            File::create(path.join(LOCK)).unwrap();
            File::create(path.join("tasks/a-1/lock")).unwrap();
        }
        let program = File::open(at_work.join("tasks/a-1/lock")).unwrap();
        program.lock().unwrap();
        folder("runwright-worker-without-a-lock");
        folder(".runwright-worker-being-made");
        folder("somebody-elses");
        let outside = tempfile::tempdir().unwrap();
        File::create(outside.path().join(LOCK)).unwrap();
        std::os::unix::fs::symlink(outside.path(), parent.join("runwright-worker-link")).unwrap();
        let old = folder(".runwright-worker-never-made");
        let long_ago = std::time::SystemTime::now() - 2 * ABANDONED;
        File::open(&old).unwrap().set_modified(long_ago).unwrap();

        sweep(parent, &supervisor);
        let own = living.path().file_name().unwrap().to_owned();
        let mut kept = vec![
            ".runwright-worker-being-made",
            own.to_str().unwrap(),
            "runwright-worker-left-a-program",
            "runwright-worker-link",
            "runwright-worker-without-a-lock",
            "somebody-elses",
        ];
        kept.sort_unstable();
        assert_eq!(names(parent), kept);
        assert!(outside.path().join(LOCK).exists());

        drop(program);
        sweep(parent, &supervisor);
        drop(living);
        assert_eq!(names(parent).len(), kept.len() - 2);
    }
}

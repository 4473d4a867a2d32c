//! Starts processes so that none outlives the engine unnoticed, and so that no result is lost with
//! the engine.
//!
//! Each process is the child of a supervisor, `runwright __exec` ([`exec_main`]). It holds one end
//! of a pipe to the engine: when that closes, because the engine wants a stop or because it died,
//! the supervisor ends the process, its group and every descendant. It keeps the complete output
//! and, when the process exits by itself, an exit record in the directory of the attempt. The next
//! engine that starts the same attempt adopts that result instead of a second execution.
//!
//! **Invariant:** no instance of an attempt starts while a process of an earlier one lives, even if
//! engine and supervisor were killed. Everything an attempt started inherits a lock and the
//! variables `WF_ATTEMPT_KEY` and `WF_ATTEMPT_DIR`; the next supervisor ends every process that has
//! the lock or both variables, and only then starts. Processes of another store are left alone,
//! even with the same keys. (A process that closes the lock and clears a variable, and whose
//! supervisor was killed, escapes.) If two engines both believe they have the attempt, the later
//! holder wins.
//!
//! Collecting orphans and scanning the process table works on Linux only; other systems rely on the
//! process group and the lock.

mod attempt;
mod below;
mod control_group;
mod entry;
mod exec;
mod pool;
mod process_table;
mod program;
mod pump;
mod room;
mod running;
mod watch;
mod wire;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::ids::{AttemptKey, StreamId};

use crate::programs::Confinement;

pub use below::ProcessesBelow;
pub use control_group::ProcessLimit;
pub use exec::exec_main;
pub use pool::Pool;
pub use program::find_program;
pub(crate) use room::{AGAIN, is_full};
pub use running::{Finish, Running, Seen};
pub use wire::{End, ExitRecord, NotStarted, Stream, Written};

use attempt::AttemptDir;
use entry::{Claimant, Refused, enter};

/// The name of the hidden command that runs [`exec_main`].
pub const EXEC_COMMAND: &str = "__exec";
/// The default limit of one output in bytes.
pub const DEFAULT_OUTPUT_LIMIT: u64 = 16 << 30;

/// Starts processes under supervision.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// This program itself.
    pub program: PathBuf,
    /// The folder that holds a folder per run with a directory per attempt.
    pub dir: PathBuf,
}

/// The process to start. Not `Debug`: the environment holds secrets.
#[derive(Clone)]
pub struct Spec {
    /// The run.
    pub run: StreamId,
    /// The attempt; the process receives it as `WF_ATTEMPT_KEY`.
    pub key: AttemptKey,
    /// The number of restarts of the attempt; a later holder has a greater one.
    pub restarts: u32,
    /// Program and arguments; no shell.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The timeout.
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The limit of each output in bytes; a process that exceeds it is stopped.
    pub output_limit: u64,
    /// The confinement of the process and everything it starts.
    pub confinement: Option<Confinement>,
}

/// An attempt that was lost with its engine.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// The run.
    pub run: &'a StreamId,
    /// The attempt.
    pub key: &'a AttemptKey,
    /// The number of restarts.
    pub restarts: u32,
    /// The time between SIGTERM and SIGKILL for its processes.
    pub grace: Duration,
}

impl Supervisor {
    /// The result of an attempt whose process has exited, unless its outcome was settled. Starting
    /// the attempt again then returns this and runs nothing.
    pub fn record(&self, run: &StreamId, key: &AttemptKey) -> Option<ExitRecord> {
        let dir = self.attempt(run, key);
        (!dir.is_settled()).then(|| dir.record()).flatten()
    }

    /// Drops the outputs of an attempt whose outcome is in the log, and prevents a straggler that
    /// does not know it from starting the attempt again. Harmless for an attempt that was never
    /// started.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn settle(&self, run: &StreamId, key: &AttemptKey) -> std::io::Result<()> {
        self.attempt(run, key).settle()
    }

    /// Creates the directory of an attempt for its [files](Self::file).
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn prepare(&self, run: &StreamId, key: &AttemptKey) -> std::io::Result<()> {
        self.attempt(run, key).create()
    }

    /// Removes the directory of a pooled attempt that has ended. While a process that escaped holds
    /// it, only its outputs are removed.
    ///
    /// # Errors
    /// If the directory cannot be removed.
    pub fn remove(&self, run: &StreamId, key: &AttemptKey) -> std::io::Result<()> {
        self.attempt(run, key).remove()
    }

    /// Ends the processes that an earlier engine, which lost its lease of the run, has left of an
    /// attempt that is not restarted, and drops its outputs. Blocks until none of them is alive.
    /// Does nothing for an attempt that was never started.
    ///
    /// # Errors
    /// If a process stays alive or the directory cannot be used.
    pub fn end_left(&self, left: &Left<'_>) -> std::io::Result<()> {
        let mut dir = self.attempt(left.run, left.key);
        if !dir.path().is_dir() {
            return Ok(());
        }
        let claimant = Claimant {
            key: left.key,
            generation: left.restarts.saturating_add(1),
            grace: left.grace,
        };
        let mut pause = |time| {
            std::thread::sleep(time);
            ControlFlow::Continue(())
        };
        match enter(&mut dir, &claimant, &mut pause) {
            // A later holder has it, or knows its outcome.
            Ok(_) | Err(Refused::Superseded) => dir.settle(),
            Err(Refused::Io(error)) => Err(error),
            Err(refused) => Err(std::io::Error::other(refused.to_string())),
        }
    }

    /// Removes the files of a settled run.
    ///
    /// # Errors
    /// If the folder cannot be removed.
    pub fn forget(&self, run: &StreamId) -> std::io::Result<()> {
        match std::fs::remove_dir_all(self.dir.join(file_name(run.as_str()))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A file in the directory of an attempt that its process may write. It exists until the run is
    /// settled.
    pub fn file(&self, run: &StreamId, key: &AttemptKey, name: &str) -> PathBuf {
        self.attempt(run, key).path().join(name)
    }

    /// Whether a process started here, or its supervisor, is still alive. For attempts that lost
    /// their engine and have no successor.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn is_at_work(&self) -> std::io::Result<bool> {
        for run in folders(&self.dir)? {
            for attempt in folders(&run)? {
                if AttemptDir::new(attempt).is_held()? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn attempt(&self, run: &StreamId, key: &AttemptKey) -> AttemptDir {
        AttemptDir::new(
            self.dir
                .join(file_name(run.as_str()))
                .join(file_name(key.as_str())),
        )
    }
}

fn folders(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

/// The id itself if it is a valid file name, else its digest.
fn file_name(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !id.is_empty() && id.len() <= 100 && id.chars().all(is_plain) && !id.starts_with('.') {
        id.to_owned()
    } else {
        kernel::digest::Digest::compute(id.as_bytes()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_no_file_names_stay_inside_the_folder() {
        assert_eq!(file_name("run-1_a.b"), "run-1_a.b");
        for id in ["", "..", ".", "a/b", "../x", "a\0b", &"x".repeat(101)] {
            assert_eq!(file_name(id).len(), 64, "{id:?}");
        }
    }
}

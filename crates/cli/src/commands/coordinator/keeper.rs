//! Writes the files if the process that changes the log is killed before it does.
//!
//! A log and its files cannot change in one step. So a second process in its own group waits, and
//! holds the lock of the files together with the first: they share one open file. When the first
//! dies, the lock stays taken, the second writes the files, and only then can readers continue.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use kernel::coordinator::LeaseRule;
use rustix::fs::{FlockOperation, flock};

use super::folder::{ENGINE_LOCK, Folder, flock_whole, open_lock};
use super::options::Options;
use super::{Refused, views};

/// The name of the hidden command whose arguments [`keeper_main`] takes.
pub(crate) const KEEPER_COMMAND: &str = "__views";
/// Sent by a process whose files are complete.
const DONE: &[u8] = b".";
/// The argument that enforces the expiry of leases.
const ENFORCE: &str = "--enforce-leases";

/// The lock of the files, and the process that waits as long as this value lives.
pub(super) struct Keeper {
    lock: File,
    control: Option<ChildStdin>,
    /// None where no process could be started: the command works, and its files are written by the
    /// next command if this one is killed.
    _process: Option<Child>,
}

impl Keeper {
    /// Takes the lock, and starts the process.
    pub(super) fn start(dir: &Path, rule: LeaseRule) -> std::io::Result<Self> {
        let lock = open_lock(dir, ENGINE_LOCK)?;
        flock_whole(&lock, FlockOperation::LockExclusive)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(KEEPER_COMMAND).arg(dir);
        if rule == LeaseRule::Enforced {
            command.arg(ENFORCE);
        }
        let process = command
            .stdin(Stdio::piped())
            // Nothing is printed there: the lock stays taken while it is open.
            .stdout(Stdio::from(lock.try_clone()?))
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let mut process = process.ok();
        Ok(Self {
            lock,
            control: process.as_mut().and_then(|process| process.stdin.take()),
            _process: process,
        })
    }

    /// Takes the lock again.
    pub(super) fn lock(&self) -> std::io::Result<()> {
        flock_whole(&self.lock, FlockOperation::LockExclusive)
    }

    /// Lets readers of the files continue.
    pub(super) fn unlock(&self) {
        // It is also released with the last process that has it open.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(mut control) = self.control.take() {
            // A killed keeper receives nothing.
            let _ = control.write_all(DONE);
        }
        self.unlock();
    }
}

/// Waits until standard input ends, and then writes the files unless it was told that they are
/// written. Its standard output is the lock.
pub(crate) fn keeper_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let Some(dir) = args.next() else {
        return ExitCode::from(2);
    };
    let rule = if args.next().is_some_and(|word| word == ENFORCE) {
        LeaseRule::Enforced
    } else {
        LeaseRule::Contract
    };
    let mut said = Vec::new();
    let heard = std::io::stdin().read_to_end(&mut said);
    if heard.is_err() || said == DONE {
        return ExitCode::SUCCESS;
    }
    match finish(Path::new(&dir), rule) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn finish(dir: &Path, rule: LeaseRule) -> Result<(), Refused> {
    let fail = |error: std::io::Error| Refused(format!("io error: {error}"));
    let lock = std::io::stdout().as_fd().try_clone_to_owned();
    let lock = File::from(lock.map_err(fail)?);
    flock_whole(&lock, FlockOperation::LockExclusive).map_err(fail)?;
    let folder = Folder::read(dir, &Options::read(&[])?)?;
    if folder.is_left {
        return Ok(());
    }
    views::catch_up_locked(&folder, rule)
}

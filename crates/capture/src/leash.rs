//! A recorded command ends with its recorder: what goes on unrecorded is no part of the evidence.
//!
//! The command is started through this program once more, which asks the system for a SIGKILL at the
//! end of its parent and then becomes the command. What the command started itself is not reached
//! where the recorder is killed; an end in order stops the whole group. Linux only.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The name of the hidden command whose arguments [`leash_main`] takes.
pub const LEASH_COMMAND: &str = "__leash";

/// Becomes a command that ends with its parent: the parent's process id, program, arguments.
pub fn leash_main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = args.next().and_then(|id| id.to_str()?.parse::<i32>().ok());
    let Some(program) = args.next() else {
        return ExitCode::from(2);
    };
    if bind(parent).is_err() {
        return ExitCode::from(126);
    }
    // Returns only where it fails; that it could be started was looked at before.
    let _ = Command::new(program).args(args).exec();
    ExitCode::from(127)
}

#[cfg(target_os = "linux")]
fn bind(parent: Option<i32>) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before it could be asked about.
    let now = getppid().map(|id| id.as_raw_nonzero().get());
    match now == parent {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn bind(_parent: Option<i32>) -> io::Result<()> {
    Ok(())
}

/// The file that a program's name stands for, as the system would find it.
pub(crate) fn find(program: &str, path: Option<&str>, cwd: &Path) -> io::Result<PathBuf> {
    let not_found = || io::Error::new(io::ErrorKind::NotFound, "there is no such program");
    let is_program = |file: &Path| {
        let meta = file.metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let file = cwd.join(program);
        return match (file.exists(), is_program(&file)) {
            (true, true) => Ok(file),
            (true, false) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is no program, or may not be run",
            )),
            (false, _) => Err(not_found()),
        };
    }
    let folders = path
        .unwrap_or_default()
        .split(':')
        .map(|folder| cwd.join(folder));
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| is_program(file)).ok_or_else(not_found)
}

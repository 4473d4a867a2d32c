//! A recorded command ends with its recorder: what goes on unrecorded is no part of the evidence.
//!
//! The command is started through this program once more, which asks the system for a SIGKILL at the
//! end of its parent and then becomes the command. What the command started itself is not reached
//! where the recorder is killed; an end in order stops the whole group. Linux only.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
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

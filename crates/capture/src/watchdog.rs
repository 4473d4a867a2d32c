//! Ends a recorded command with its recorder: unrecorded work is not evidence.
//!
//! The command is started through this program, which asks the kernel for a SIGKILL at the end of
//! its parent, restricts its own network access to the proxy's port under an observer, and then
//! executes the command; on Linux only. A watch process, this program a third time, ends the
//! command's own children. It holds one end of a pipe to the recorder and kills the command's
//! process group when the recorder closes the other end or dies. In an orderly end, the recorder
//! stops the group itself, after the watch.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use runtime::programs::{Confinement, Files, Network, confine};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command as Starting};

use crate::observer::confine_under;
use crate::preload::FOLDER;

/// The name of the hidden command whose arguments [`watchdog_main`] takes.
pub const WATCHDOG_COMMAND: &str = "__watchdog";

/// The file in the scripts' folder with the reason for not executing the command.
pub(crate) const NOT_STARTED: &str = "not-started";

/// The argument after that name: a group ends when standard input is closed.
const WATCH: &str = "watch";

/// Instead of a port: unrestricted connections. Instead of an observer: none.
const NONE: &str = "-";

/// Executes a command that ends with its parent. The arguments are the parent's process id, the
/// allowed port, the name of the observer, a mark, the program and its arguments. On failure it
/// writes the mark and the reason to a file in the scripts' folder. Alternatively watches a group:
/// the word for it and the number of the group.
pub fn watchdog_main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || args.next()?.to_str()?.parse::<i32>().ok();
    let parent = match number() {
        Some(parent) => Some(parent),
        // An argument that is not a number is the word, followed by the number.
        None => return watch(number().and_then(Pid::from_raw)),
    };
    let (Some(port), Some(observer), Some(mark), Some(program)) =
        (args.next(), args.next(), args.next(), args.next())
    else {
        return ExitCode::from(2);
    };
    if bind(parent).is_err() {
        return ExitCode::from(126);
    }
    let why = match wall(port.to_str(), observer.to_str()) {
        Err(error) => format!("the network cannot be closed for it: {error}"),
        Ok(()) => {
            // Returns only on failure.
            let error = Command::new(program).args(args).exec();
            // The existence of the program was checked before.
            match error.kind() {
                io::ErrorKind::NotFound => {
                    "the interpreter that it names does not exist".to_owned()
                }
                _ => error.to_string(),
            }
        }
    };
    if let Some(folder) = std::env::var_os(FOLDER) {
        let text = format!("{} {why}", mark.to_string_lossy());
        // Without it the command has failed with this exit code.
        let _ = std::fs::write(Path::new(&folder).join(NOT_STARTED), text);
    }
    ExitCode::from(127)
}

/// The arguments before a program and its own arguments.
pub(crate) fn before(port: Option<u16>, observer: Option<&str>) -> [String; 4] {
    let port = port.map_or_else(|| NONE.to_owned(), |port| port.to_string());
    let parent = std::process::id().to_string();
    let observer = observer.unwrap_or(NONE).to_owned();
    [WATCHDOG_COMMAND.to_owned(), parent, port, observer]
}

/// Restricts this process, and the program it executes, to connections to one port.
fn wall(port: Option<&str>, observer: Option<&str>) -> io::Result<()> {
    if port == Some(NONE) {
        return Ok(());
    }
    let port = port.and_then(|port| port.parse().ok());
    let port = port.ok_or(io::ErrorKind::InvalidInput)?;
    if let Some(observer) = observer.filter(|observer| *observer != NONE) {
        return confine_under(observer, port);
    }
    confine(&Confinement {
        files: Files::All,
        network: Network::OnlyPort(port),
        bounds: None,
    })
}

/// Starts the watch over the group of a command. It ends the group if this process ends without
/// ending the watch. `None` where it cannot be started: then only the command itself ends with this
/// process.
pub(crate) fn watch_over(program: &Path, group: Pid) -> Option<Child> {
    let mut watch = Starting::new(program);
    watch
        .arg(WATCHDOG_COMMAND)
        .args([WATCH, &group.as_raw_nonzero().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In its own group, so that a signal from the terminal does not end the watch before the
        // recorder.
        .process_group(0)
        .kill_on_drop(true);
    watch.spawn().ok()
}

fn watch(group: Option<Pid>) -> ExitCode {
    let Some(group) = group else {
        return ExitCode::from(2);
    };
    // The other end never writes: this returns when it is closed.
    let _ = io::stdin().read(&mut [0]);
    // A group that has ended needs no signal.
    let _ = kill_process_group(group, Signal::KILL);
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn bind(parent: Option<i32>) -> io::Result<()> {
    use rustix::process::{getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before its signal was set up.
    let now = getppid().map(|id| id.as_raw_nonzero().get());
    if now == parent {
        Ok(())
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(not(target_os = "linux"))]
fn bind(_parent: Option<i32>) -> io::Result<()> {
    Ok(())
}

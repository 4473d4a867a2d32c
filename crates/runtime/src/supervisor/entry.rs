//! Entering the directory of an attempt, after ending any earlier instance.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kernel::ids::AttemptKey;
use rustix::process::{Pid, Signal, kill_process_group};

use super::attempt::{AttemptDir, Note};
use super::process_table::{self, Process};
use super::wire::ExitRecord;

/// How long killed processes may take to exit before the attempt is given up.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// How long a supervisor has, in addition to its own grace, to end its processes.
const SUPERVISOR_MARGIN: Duration = Duration::from_secs(1);

/// A supervisor that wants to enter.
pub(super) struct Claimant<'a> {
    pub key: &'a AttemptKey,
    pub generation: u32,
    /// The time between SIGTERM and SIGKILL for an earlier instance.
    pub grace: Duration,
}

/// Entry was granted.
pub(super) enum Entered {
    /// No process of the attempt runs. The heirs of the lock keep the next supervisor out; the gate
    /// must be dropped once a process has inherited the lock.
    Clear { lock: File, gate: File },
    /// The attempt had already exited.
    Ended(ExitRecord),
}

/// Entry was denied.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("a later holder of the run has this attempt")]
    Superseded,
    #[error(
        "an earlier instance of this attempt is still alive and could not be ended; end its \
         processes by hand, then resume the run"
    )]
    StillAlive,
    #[error("the attempt is no longer needed")]
    Stopped,
    #[error("the attempt directory cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Waits for a moment; breaks if a stop was requested.
pub(super) type Pause<'a> = &'a mut dyn FnMut(Duration) -> ControlFlow<()>;

/// Enters the directory of an attempt. Among claimants of different generations the greatest wins,
/// in any order of arrival; when this returns `Clear`, no process of an earlier instance is
/// alive.
pub(super) fn enter(
    dir: &mut AttemptDir,
    claimant: &Claimant<'_>,
    pause: Pause<'_>,
) -> Result<Entered, Refused> {
    let deadline = Instant::now() + claimant.grace + SUPERVISOR_MARGIN + KILL_LIMIT;
    loop {
        dir.create()?;
        let gate = dir.open_gate()?;
        while !try_lock(&gate)? {
            wait(Duration::from_millis(10), deadline, pause)?;
        }
        if dir.is_settled() {
            return Err(Refused::Superseded);
        }
        let earlier = dir.note();
        if earlier
            .as_ref()
            .is_some_and(|note| note.generation > claimant.generation)
        {
            return Err(Refused::Superseded);
        }
        let lock = dir.open_lock()?;
        let locked = try_lock(&lock)?;
        if let Some(record) = dir.record()
            && locked
        {
            return Ok(Entered::Ended(record));
        }
        if earlier.is_some() || !locked {
            let boot = process_table::boot();
            let earlier = earlier.filter(|note| note.boot == boot);
            end_earlier(dir, claimant, earlier.as_ref(), &lock, deadline, pause)?;
            if let Some(record) = dir.record() {
                return Ok(Entered::Ended(record));
            }
            dir.discard_record()?;
        }
        // The directory may have been removed between opening the lock and holding it.
        if dir.is_current(&lock)? {
            return Ok(Entered::Clear { lock, gate });
        }
        wait(Duration::ZERO, deadline, pause)?;
    }
}

/// Returns once `lock` is held and no process of an earlier instance is alive: they are terminated
/// first, then killed.
fn end_earlier(
    dir: &AttemptDir,
    claimant: &Claimant<'_>,
    earlier: Option<&Note>,
    lock: &File,
    deadline: Instant,
    pause: Pause<'_>,
) -> Result<(), Refused> {
    let holders = || process_table::holders(dir.path(), &dir.lock_path(), claimant.key.as_str());
    let supervisor = earlier
        .and_then(|note| note.supervisor)
        .filter(|&s| process_table::is_alive(s));
    let child = earlier.and_then(|note| note.child);
    let is_clear = || -> io::Result<bool> { Ok(try_lock(lock)? && holders().is_empty()) };
    if is_clear()? {
        return Ok(());
    }
    // A terminated supervisor ends everything itself and leaves no record. If its child were ended
    // first, that would look like an exit of its own.
    let patience = match supervisor {
        Some(supervisor) => {
            process_table::signal(supervisor, Signal::TERM)?;
            claimant.grace + SUPERVISOR_MARGIN
        }
        None => {
            signal_all(child, &holders(), Signal::TERM)?;
            claimant.grace
        }
    };
    let impatient = Instant::now() + patience;
    let mut step = Steps::new();
    while Instant::now() < impatient {
        wait(step.next(), deadline, pause)?;
        if is_clear()? {
            return Ok(());
        }
    }
    if let Some(supervisor) = supervisor {
        process_table::signal(supervisor, Signal::KILL)?;
        while process_table::is_alive(supervisor) {
            wait(Duration::from_millis(5), deadline, pause)?;
        }
    }
    let mut step = Steps::new();
    loop {
        signal_all(child, &holders(), Signal::KILL)?;
        wait(step.next(), deadline, pause)?;
        if is_clear()? {
            return Ok(());
        }
    }
}

/// Signals a recorded process group, as long as its leader lives, and every other process found.
fn signal_all(child: Option<Process>, others: &[Process], signal: Signal) -> io::Result<()> {
    if let Some(child) = child.filter(|&child| process_table::is_alive(child))
        && let Some(group) = Pid::from_raw(child.pid)
    {
        // Processes that are already gone are fine; any other error shows as processes that stay
        // alive.
        let _ = kill_process_group(group, signal);
    }
    others
        .iter()
        .try_for_each(|&process| process_table::signal(process, signal))
}

fn wait(time: Duration, deadline: Instant, pause: Pause<'_>) -> Result<(), Refused> {
    if Instant::now() >= deadline {
        return Err(Refused::StillAlive);
    }
    match pause(time) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Refused::Stopped),
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Growing waits, because each scan of the process table is expensive.
struct Steps(Duration);

impl Steps {
    fn new() -> Self {
        Self(Duration::from_millis(2))
    }

    fn next(&mut self) -> Duration {
        let step = self.0;
        self.0 = (step * 2).min(Duration::from_millis(200));
        step
    }
}

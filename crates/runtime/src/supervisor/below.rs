//! Ends processes that outlive the command they belong to, such as daemons.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::process_table::{self, Process};

/// How long ended processes may take to disappear after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// The pause between two looks at the process table.
const LOOKS: Duration = Duration::from_millis(10);

/// The processes below this one at a moment. Those that join later can be ended, also where they
/// left their group and session and their parent has exited.
#[derive(Debug)]
pub struct ProcessesBelow(Vec<Process>);

impl ProcessesBelow {
    /// Lists the processes below this one, and makes this process the parent of every orphan below
    /// it.
    ///
    /// # Errors
    /// If the kernel does not allow it.
    pub fn now() -> io::Result<Self> {
        process_table::collect_orphans()?;
        Ok(Self(process_table::descendants(&[])))
    }

    /// Waits for ended orphans. Without it, an orphan stays a zombie that still has its process id.
    /// Children that this process started itself are left to their owners: those in its own process
    /// group, and the given ones, which have groups of their own. Does not block on a child.
    pub fn reap_orphans(own: &[u32]) {
        for pid in process_table::zombies() {
            let is_own = u32::try_from(pid).is_ok_and(|pid| own.contains(&pid));
            if !is_own && let Some(pid) = Pid::from_raw(pid) {
                // Another thread may have waited for it.
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }

    /// Ends every process that joined since, except descendants of the listed ones: with SIGTERM, and
    /// after `grace` with SIGKILL. Returns how many there were; always 0 outside of Linux. Blocks.
    pub fn end_later(&self, grace: Duration) -> usize {
        let later = || process_table::descendants(&self.0);
        if later().is_empty() {
            return 0;
        }
        // Processes that were killed a moment ago may still be in the table.
        thread::sleep(LOOKS);
        let found = later().len();
        let kill_at = Instant::now() + grace;
        let until = kill_at + KILL_LIMIT;
        let mut asked = Vec::new();
        loop {
            let (left, now) = (later(), Instant::now());
            if left.is_empty() || now >= until {
                return found;
            }
            for process in left {
                if now >= kill_at {
                    let _ = process_table::signal(process, Signal::KILL);
                } else if !asked.contains(&process) {
                    let _ = process_table::signal(process, Signal::TERM);
                    asked.push(process);
                }
            }
            thread::sleep(LOOKS);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    /// A child that has ended and that nothing has waited for.
    fn ended(group: Option<i32>) -> Child {
        let mut command = Command::new("true");
        command.stdin(Stdio::null());
        if let Some(group) = group {
            command.process_group(group);
        }
        let child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).unwrap();
        child
    }

    #[test]
    fn only_orphans_are_reaped() {
        let [mut of_own_group, mut listed, mut orphan] = [None, Some(0), Some(0)].map(ended);
        ProcessesBelow::reap_orphans(&[listed.id()]);
        assert!(of_own_group.wait().unwrap().success());
        assert!(listed.wait().unwrap().success());
        assert!(orphan.wait().is_err(), "its exit code was taken");
    }
}

//! Confinement on Linux: Landlock for files, network and signals, seccomp for calls that Landlock
//! does not mediate, no capabilities, and resource limits.

mod calls;
mod rules;

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use seccomp_notify::Listener;

use super::confinement::{Bounds, Confinement, Files, Network, NotConfined};

/// Checks that all of it is supported.
pub(super) fn confinement() -> Result<(), NotConfined> {
    let needs = "it needs Linux 6.12 or later with Landlock and seccomp";
    rules::probe().map_err(|error| NotConfined(format!("{needs} ({error})")))?;
    has_filters(needs)
}

/// Checks that network confinement is supported.
pub(super) fn confines_network() -> Result<(), NotConfined> {
    let needs = "it needs Linux 6.7 or later with Landlock and seccomp";
    rules::probe_network().map_err(|error| NotConfined(format!("{needs} ({error})")))?;
    has_filters(needs)
}

fn has_filters(needs: &str) -> Result<(), NotConfined> {
    match std::fs::exists("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(true) => Ok(()),
        _ => Err(NotConfined(format!("{needs} (no seccomp filters)"))),
    }
}

pub(super) fn confine(confinement: &Confinement) -> io::Result<()> {
    if let Some(bounds) = &confinement.bounds {
        bound(bounds)?;
    }
    if confinement.files != Files::All {
        // Programs it starts must not read this process's memory.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    rules::restrict(confinement)?;
    if confinement.files != Files::All {
        let none = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            },
        )?;
    }
    calls::filter(confinement)
}

/// The observation of a confined program's connections.
#[derive(Debug)]
pub enum Observation {
    /// Each call that binds or connects a socket, sends to an address or makes a socket other than
    /// for TCP waits for an answer by this listener.
    By(Listener),
    /// The kernel refuses such calls without a report, for this reason.
    Missing(io::Error),
}

/// Confines the calling thread, and every program it starts from now on, to TCP connections to one
/// port, and observes its connections. Irreversible. The kernel refuses other TCP connections also if
/// the listener continues them; the listener must refuse other sockets.
///
/// # Errors
/// If the kernel cannot confine it. Then nothing may be started.
pub fn confine_observed(port: u16) -> io::Result<Observation> {
    let confinement = Confinement {
        files: Files::All,
        network: Network::OnlyPort(port),
        bounds: None,
    };
    rules::restrict(&confinement)?;
    match calls::observe() {
        Ok(listener) => Ok(Observation::By(listener)),
        Err(why) => {
            calls::filter(&confinement)?;
            Ok(Observation::Missing(why))
        }
    }
}

fn bound(bounds: &Bounds) -> io::Result<()> {
    // The first victim of the out-of-memory killer; ignored if /proc is not writable.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut limits = vec![
        (Resource::Data, bounds.memory),
        (Resource::Fsize, bounds.file),
        (Resource::Nofile, bounds.open_files),
        (Resource::Cpu, bounds.cpu_seconds),
        (Resource::Core, 0),
    ];
    if let Some(threads) = threads_of_user() {
        limits.push((Resource::Nproc, threads + bounds.processes));
    }
    for (resource, limit) in limits {
        // A lower existing limit stays.
        let now = rustix::process::getrlimit(resource);
        let least = |has: Option<u64>| Some(has.map_or(limit, |has| has.min(limit)));
        let new = Rlimit {
            current: least(now.current),
            maximum: least(now.maximum),
        };
        setrlimit(resource, new)?;
    }
    Ok(())
}

/// The number of threads of this process's user, which the kernel counts together. `None` for root,
/// whose processes it does not limit; their supervisor does, by a control group if it can.
fn threads_of_user() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::getuid();
    if user.is_root() {
        return None;
    }
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let own = processes.filter(|entry| {
        let is_process = entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit);
        is_process && (entry.metadata()).is_ok_and(|about| about.uid() == user.as_raw())
    });
    let threads = own.map(|entry| {
        std::fs::read_dir(entry.path().join("task")).map_or(0, |threads| threads.count() as u64)
    });
    Some(threads.sum())
}

//! Finding processes, and signalling the right ones.
//!
//! Only Linux exposes enough about other processes. On other systems nothing is found here: a
//! supervisor relies on the process group of its child and on the lock, and waits for a descendant
//! that left the group instead of killing it.

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
use elsewhere as system;

pub(super) use system::{
    boot, collect_orphans, descendants, find, holders, is_alive, signal, used, zombies,
};

/// A process, distinguished from a later one with the same id by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Process {
    /// Its id.
    pub pid: i32,
    /// Its start time in clock ticks since the boot.
    pub started: u64,
}

//! Which processes there are, and signals that reach the right one.
//!
//! Only Linux shows enough of other processes: elsewhere nothing is found here, a supervisor
//! relies on the process group of its child and on the lock alone, and a descendant that left
//! the group is waited for, not killed.

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
    boot, collect_orphans, descendants, find, holders, is_alive, signal, used,
};

/// A process, told from a later one with the same id by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Process {
    /// Its id.
    pub pid: i32,
    /// When it started, in clock ticks since the boot.
    pub started: u64,
}

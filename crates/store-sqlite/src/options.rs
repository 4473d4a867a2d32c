//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use store::{StoreClock, SystemClock};

/// When an acknowledged write is safe from a power cut. Both cases survive a kill of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every acknowledgement waits for the sync of its commit.
    #[default]
    Full,
    /// Commits are not synced one by one. A power cut or a crash of the operating system may lose
    /// the last acknowledged writes, newest first, and with them the record of effects carried out
    /// since. The remaining log is whole, never torn.
    Relaxed,
}

/// How the opener uses the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read and write; create the store if it does not exist.
    #[default]
    Create,
    /// Read and write an existing store.
    Write,
    /// Read an existing store. Every writing method is `Unavailable`, and a store of an older
    /// version is refused, because it cannot be migrated.
    Read,
}

/// Who else may have the file open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Any number of processes.
    #[default]
    Processes,
    /// No other process: the file stays locked while the store is open, no shared memory is used,
    /// and reads share the connection with writes. For file systems without shared memory maps.
    Exclusive,
}

/// How to open a [`SqliteStore`](crate::SqliteStore).
#[derive(Clone)]
pub struct Options {
    /// When a write counts as done.
    pub durability: Durability,
    /// Reading, writing, creating.
    pub access: Access,
    /// Who else may open the file.
    pub sharing: Sharing,
    /// The clock for leases, timers and expiries.
    pub clock: Arc<dyn StoreClock>,
    /// How long a transaction waits for another process before it is `Unavailable`.
    pub busy_timeout: Duration,
    /// How many reads run at a time, each on its own connection.
    pub readers: usize,
    /// A commit at this many pages copies the log into the file: fewer pages sync it more often.
    pub log_pages: u32,
    /// The name of a registered SQLite VFS to use instead of the default.
    pub vfs: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            access: Access::default(),
            sharing: Sharing::default(),
            clock: Arc::new(SystemClock),
            busy_timeout: Duration::from_secs(10),
            readers: 4,
            log_pages: 4_096,
            vfs: None,
        }
    }
}

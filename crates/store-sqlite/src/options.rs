//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use store::{StoreClock, SystemClock};

/// When an acknowledged write is safe from a power cut. From a kill of the process it is safe
/// in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every acknowledgement waits for the sync of its commit.
    #[default]
    Full,
    /// Commits are not synced one by one. A power cut or a crash of the operating system may
    /// lose the last acknowledged writes, newest first, and with them the knowledge of effects
    /// that were acted out since; what is left is whole, never torn.
    Relaxed,
}

/// What the opener wants to do with the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read and write; make the store if there is none.
    #[default]
    Create,
    /// Read and write a store that exists.
    Write,
    /// Read a store that exists. Every writing method is `Unavailable`, and a store of an older
    /// version is refused, because it cannot be migrated.
    Read,
}

/// Who else may have the file open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Any number of processes.
    #[default]
    Processes,
    /// Nobody: the file stays locked as long as the store is open, no shared memory is used and
    /// reads queue behind writes. For file systems without shared memory maps.
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
    /// The clock that holds, timers and expiries are measured by.
    pub clock: Arc<dyn StoreClock>,
    /// How long a transaction waits for another process before it is `Unavailable`.
    pub busy_timeout: Duration,
    /// How many reads run at a time, each on a connection of its own.
    pub readers: usize,
    /// At how many pages a commit copies the log into the file: fewer sync it more often.
    pub log_pages: u32,
    /// The name of a registered SQLite VFS to reach the file through, instead of the default.
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

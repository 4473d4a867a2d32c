//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use store::{Access, Durability, StoreClock, SystemClock};

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

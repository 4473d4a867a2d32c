//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use store::{Access, StoreClock};

/// How to open a [`PostgresStore`](crate::PostgresStore).
#[derive(Clone)]
pub struct Options {
    /// Reading, writing, creating.
    pub access: Access,
    /// How many connections are open at most, apart from the one that listens.
    pub connections: usize,
    /// How long a caller waits for a connection.
    pub connection_timeout: Duration,
    /// Only for tests: replaces the database's clock.
    pub clock: Option<Arc<dyn StoreClock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            access: Access::default(),
            connections: 8,
            connection_timeout: Duration::from_secs(10),
            clock: None,
        }
    }
}

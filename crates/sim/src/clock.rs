//! The clock of one process: what the world's clock showed when its turn began, and what its own
//! runtime's clock has moved on since.

use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::StoreClock;
use tokio::time::Instant;

/// When every world begins.
pub(crate) const START: Timestamp = Timestamp(1_750_000_000_000);

/// How far the clocks of two processes may be apart: a turn, in milliseconds.
pub(crate) const SKEW_MS: u64 = 12;

/// A process's view of the time.
pub(crate) struct ProcessClock(Mutex<Turn>);

struct Turn {
    began: Timestamp,
    since: Option<Instant>,
}

impl ProcessClock {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self(Mutex::new(Turn {
            began: now,
            since: None,
        }))
    }

    /// A turn begins. Called within the process's runtime, whose clock counts from here.
    pub(crate) fn begin(&self, now: Timestamp) {
        *self.0.lock() = Turn {
            began: now,
            since: Some(Instant::now()),
        };
    }
}

impl StoreClock for ProcessClock {
    fn now(&self) -> Timestamp {
        let turn = self.0.lock();
        match turn.since {
            Some(since) => turn.began.plus(since.elapsed()),
            None => turn.began,
        }
    }
}

//! The clock of one process: the world's time at the start of its turn, plus the time that its own
//! runtime's clock has advanced since.

use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::StoreClock;
use tokio::time::Instant;

/// The time at which every world begins.
pub(crate) const START: Timestamp = Timestamp(1_750_000_000_000);

/// Maximum difference between the clocks of two processes: a turn, in milliseconds.
pub(crate) const SKEW_MS: u64 = 12;

/// A process's view of the time.
pub(crate) struct ProcessClock {
    turn: Mutex<Turn>,
    /// Its error in milliseconds.
    off: i64,
}

struct Turn {
    began: Timestamp,
    since: Option<Instant>,
}

impl ProcessClock {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self::wrong_by(0, now)
    }

    /// A clock with an error of `off` milliseconds.
    pub(crate) fn wrong_by(off: i64, now: Timestamp) -> Self {
        let turn = Turn {
            began: now,
            since: None,
        };
        Self {
            turn: Mutex::new(turn),
            off,
        }
    }

    /// Begins a turn. Called within the process's runtime, whose clock counts from here.
    pub(crate) fn begin(&self, now: Timestamp) {
        *self.turn.lock() = Turn {
            began: now,
            since: Some(Instant::now()),
        };
    }
}

impl StoreClock for ProcessClock {
    fn now(&self) -> Timestamp {
        let turn = self.turn.lock();
        let shown = match turn.since {
            Some(since) => turn.began.plus(since.elapsed()),
            None => turn.began,
        };
        Timestamp(shown.0 + self.off)
    }
}

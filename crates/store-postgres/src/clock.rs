//! The database's clock, which decides about leases, timers and keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kernel::time::Timestamp;
use store::StoreClock;

/// An estimate further ahead than this is dropped: the database's clock was set back.
const STEP_MS: i64 = 1_000;
/// So is an older one: the clock of this machine may be faster.
const AGE: Duration = Duration::from_secs(5);

/// Every statement takes its time from the database. This is an estimate of that time for callers
/// that cannot wait for a statement. It runs ahead of the database by the drift of a few seconds.
pub(crate) struct Clock {
    test: Option<Arc<dyn StoreClock>>,
    seen: Mutex<(Instant, Timestamp)>,
}

impl Clock {
    pub(crate) fn new(test: Option<Arc<dyn StoreClock>>) -> Self {
        let seen = Mutex::new((Instant::now(), Timestamp(0)));
        Self { test, seen }
    }

    /// The time that a statement uses; `None` is the database's own.
    pub(crate) fn at(&self) -> Option<i64> {
        self.test.as_ref().map(|clock| clock.now().0)
    }

    /// Records the time of a statement that has just returned.
    pub(crate) fn saw(&self, at: Timestamp) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let age = seen.0.elapsed();
        let estimate = seen.1.plus(age);
        if at >= estimate || estimate.0 - at.0 > STEP_MS || age > AGE {
            *seen = (Instant::now(), at);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        if let Some(clock) = &self.test {
            return clock.now();
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.1.plus(seen.0.elapsed())
    }
}

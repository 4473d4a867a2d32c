//! The clock a store measures holds, timers and keys by.

use kernel::time::Timestamp;

/// A clock a store measures holds and timers by.
pub trait StoreClock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl StoreClock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands until it is moved, for tests.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct ManualClock(std::sync::atomic::AtomicI64);

#[cfg(feature = "testing")]
impl ManualClock {
    /// A clock that shows `at`.
    pub fn new(at: Timestamp) -> Self {
        Self(at.0.into())
    }

    /// Moves the clock to `at`, which may lie in the past.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, std::sync::atomic::Ordering::SeqCst);
    }

    /// Moves the clock on.
    pub fn advance(&self, by: std::time::Duration) {
        self.set(self.now().plus(by));
    }
}

#[cfg(feature = "testing")]
impl StoreClock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

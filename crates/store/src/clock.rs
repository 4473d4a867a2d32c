//! The clock for leases, timers and keys.

use kernel::time::Timestamp;

/// The clock that decides when leases expire, timers are due and keys lapse.
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

/// A clock for tests that moves only when it is set or advanced.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct ManualClock(std::sync::atomic::AtomicI64);

#[cfg(feature = "testing")]
impl ManualClock {
    /// A clock at time `at`.
    pub fn new(at: Timestamp) -> Self {
        Self(at.0.into())
    }

    /// Sets the clock to `at`, which may be in the past.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, std::sync::atomic::Ordering::SeqCst);
    }

    /// Moves the clock forward.
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

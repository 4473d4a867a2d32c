//! Waits for space on a full disk, so that a process does not fail because of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::pump::EngineEnd;
use super::wire::Report;

/// The interval of attempts to write.
pub(crate) const AGAIN: Duration = Duration::from_millis(200);

/// Retries writes to a full disk until they succeed or a stop is requested. The engine receives a
/// report of each failed one: several writers may wait at a time.
#[derive(Clone)]
pub(super) struct Room {
    engine: Arc<EngineEnd>,
    is_stopped: Arc<AtomicBool>,
}

impl Room {
    pub(super) fn new(engine: &Arc<EngineEnd>, is_stopped: &Arc<AtomicBool>) -> Self {
        Self {
            engine: engine.clone(),
            is_stopped: is_stopped.clone(),
        }
    }

    /// The result of a write that may be repeated. `error` finds its IO error.
    pub(super) fn for_write<T, E>(
        &self,
        mut write: impl FnMut() -> Result<T, E>,
        error: impl Fn(&E) -> Option<&io::Error>,
    ) -> Result<T, E> {
        let mut has_waited = false;
        loop {
            let written = write();
            let is_full = written.as_ref().err().and_then(&error).is_some_and(is_full);
            if !is_full || self.is_stopped.load(Ordering::Acquire) {
                if has_waited {
                    self.engine.report(&Report::Continues);
                }
                return written;
            }
            has_waited = true;
            self.engine.report(&Report::Stalled);
            thread::sleep(AGAIN);
        }
    }

    /// The same for a write without other errors.
    pub(super) fn for_io<T>(&self, write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.for_write(write, |error| Some(error))
    }
}

/// Whether a write failed for lack of space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

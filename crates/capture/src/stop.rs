//! Stops a command with the signal that its recorder received.

use std::sync::{Arc, OnceLock};

use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

/// A request to stop the command.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    token: CancellationToken,
    signal: Arc<OnceLock<Signal>>,
}

impl Stop {
    /// Requests a stop. The command receives the first signal.
    pub fn send(&self, signal: Signal) {
        let _ = self.signal.set(signal);
        self.token.cancel();
    }

    /// Waits for a stop request.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    /// Whether a stop was requested.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// The signal that was sent.
    pub(crate) fn signal(&self) -> Signal {
        self.signal.get().copied().unwrap_or(Signal::TERM)
    }
}

//! Open requests of a coordinator.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The status of a request. It only moves forward: pending, notified, and then one of two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DispatchStatus {
    /// The target was not notified.
    Pending,
    /// The target was notified.
    Notified,
    /// It succeeded.
    Delivered,
    /// It failed.
    Failed,
}

impl DispatchStatus {
    /// The name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Notified => "notified",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// Parses [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Notified, Self::Delivered, Self::Failed]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

impl fmt::Display for DispatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Number of requests by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// The target was not notified.
    pub pending: u64,
    /// The target was notified and has not finished.
    pub notified: u64,
    /// Succeeded, and still listed.
    pub delivered: u64,
    /// Failed, and still listed.
    pub failed: u64,
}

impl Backlog {
    /// The counter of a status.
    pub(super) fn count_mut(&mut self, status: DispatchStatus) -> &mut u64 {
        match status {
            DispatchStatus::Pending => &mut self.pending,
            DispatchStatus::Notified => &mut self.notified,
            DispatchStatus::Delivered => &mut self.delivered,
            DispatchStatus::Failed => &mut self.failed,
        }
    }

    /// Moves one request between two statuses.
    pub(super) fn moved(&mut self, from: DispatchStatus, to: DispatchStatus) {
        let left = self.count_mut(from);
        *left = left.saturating_sub(1);
        *self.count_mut(to) += 1;
    }
}

//! Open requests of a coordinator.

use serde::{Deserialize, Serialize};

crate::words! {
    /// The status of a request. It only moves forward: pending, notified, and then one of two ends.
    pub enum DispatchStatus {
        /// The target was not notified.
        Pending = "pending",
        /// The target was notified.
        Notified = "notified",
        /// It succeeded.
        Delivered = "delivered",
        /// It failed.
        Failed = "failed",
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

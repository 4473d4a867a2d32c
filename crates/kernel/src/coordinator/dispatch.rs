//! Requests as a coordinator keeps them while they are open.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a request stands. It moves on only: pending, notified, and then one of two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DispatchStatus {
    /// Nobody was told.
    Pending,
    /// Its target was told.
    Notified,
    /// It ended well.
    Delivered,
    /// It failed.
    Failed,
}

impl DispatchStatus {
    /// The word on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Notified => "notified",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// Reads what [`Self::as_str`] says.
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

/// How many requests stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Nobody was told.
    pub pending: u64,
    /// Somebody was told and has not finished.
    pub notified: u64,
    /// Ended well, and still shown.
    pub delivered: u64,
    /// Failed, and still shown.
    pub failed: u64,
}

impl Backlog {
    /// The number of a status.
    pub(super) fn count_mut(&mut self, status: DispatchStatus) -> &mut u64 {
        match status {
            DispatchStatus::Pending => &mut self.pending,
            DispatchStatus::Notified => &mut self.notified,
            DispatchStatus::Delivered => &mut self.delivered,
            DispatchStatus::Failed => &mut self.failed,
        }
    }

    /// One less here, one more there.
    pub(super) fn moved(&mut self, from: DispatchStatus, to: DispatchStatus) {
        let left = self.count_mut(from);
        *left = left.saturating_sub(1);
        *self.count_mut(to) += 1;
    }
}

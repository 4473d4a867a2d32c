//! When a snapshot may go: 90 days after it was captured; 180 days after a replay of it failed.

use kernel::time::Timestamp;

use super::calls::Attempt;
use super::document::{MatchStatus, ReplayStatus};

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 3_600_000;
/// Days a snapshot is kept.
pub const KEPT_DAYS: u64 = 90;
/// Days it is kept after a replay that failed.
pub const KEPT_DAYS_AFTER_FAILURE: u64 = 180;

/// The retention state of a snapshot at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is pinned.
    Pinned,
    /// Another snapshot needs it.
    Needed,
    /// The clock is earlier than the time of its capture: kept, and worth a look.
    ClockBehind,
    /// Kept up to and including a moment.
    Until(Timestamp),
    /// It may go since a moment.
    Expired(Timestamp),
}

/// The inputs of the retention rules.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// When it was captured.
    pub captured: Timestamp,
    /// The outcomes of replays in its file.
    pub replays: &'a ReplayStatus,
    /// The latest finished attempt, where its record exists.
    pub latest: Option<&'a Attempt>,
    /// It is pinned.
    pub is_pinned: bool,
    /// Another snapshot needs it.
    pub is_needed: bool,
}

impl Facts<'_> {
    /// The state at this moment.
    pub fn verdict(&self, now: Timestamp) -> Verdict {
        if self.is_pinned {
            return Verdict::Pinned;
        }
        if self.is_needed {
            return Verdict::Needed;
        }
        if now < self.captured {
            return Verdict::ClockBehind;
        }
        let until = self.until();
        if now > until {
            Verdict::Expired(until)
        } else {
            Verdict::Until(until)
        }
    }

    /// The last moment it is kept, by its age.
    pub fn until(&self) -> Timestamp {
        let until = self.captured.plus_ms(KEPT_DAYS * DAY_MS);
        let last = self.replays.last_replay.as_deref();
        match last.and_then(Timestamp::parse) {
            Some(last) if self.has_failed() => {
                until.max(last.plus_ms(KEPT_DAYS_AFTER_FAILURE * DAY_MS))
            }
            _ => until,
        }
    }

    /// Whether the latest replay failed. Without a recorded strategy, a partial match counts as
    /// failed, so that evidence is kept longer rather than shorter.
    fn has_failed(&self) -> bool {
        let status = self.replays.match_status;
        if status == MatchStatus::NoMatch {
            return true;
        }
        let last = self.replays.last_replay.as_deref();
        match self
            .latest
            .filter(|latest| Some(latest.at.as_str()) == last)
        {
            Some(latest) => latest.has_failed(),
            None => status == MatchStatus::PartialMatch,
        }
    }
}

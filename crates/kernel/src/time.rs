//! Points in time, as the kernel is told them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC. The kernel never reads a clock: each decision is
/// handed one of these, already made monotone per stream (`max(clock, last timestamp)`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This point in time moved by a duration; saturates.
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// This point in time moved by milliseconds; saturates.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Reads what [`Timestamp`] prints, or any other RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        Some(Self(at.as_millisecond()))
    }

    /// Milliseconds from `earlier` to this; 0 where `earlier` is later.
    pub fn ms_since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with milliseconds, as every face shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_rfc_3339_with_milliseconds() {
        assert_eq!(
            Timestamp(1_750_000_000_005).to_string(),
            "2025-06-15T15:06:40.005Z"
        );
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        let at = Timestamp(1_750_000_000_005);
        assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }
}

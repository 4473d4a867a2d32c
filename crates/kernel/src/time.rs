//! Points in time, as given to the kernel.

use std::fmt;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use jiff::{SpanRelativeTo, Unit};
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC. The kernel never reads a clock: each decision receives
/// one of these, already made monotone per stream (`max(clock, last timestamp)`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// The milliseconds of a duration in people's notation: `90s`, `15m`, `1h 30m`, `3 days`, `2w`. A
/// day has 24 hours. `None` for anything else, and for a negative duration.
pub fn span_ms(text: &str) -> Option<u64> {
    static PARSER: SpanParser = SpanParser::new();
    let span = PARSER.parse_span(text.trim()).ok()?;
    let days = SpanRelativeTo::days_are_24_hours();
    let ms = span.total((Unit::Millisecond, days)).ok()?;
    (ms >= 0.0).then_some(ms as u64)
}

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

    /// The time as headers of HTTP write it (RFC 9110, section 5.6.7). `None` if it cannot be
    /// represented.
    pub fn http_date(self) -> Option<String> {
        let at = jiff::Timestamp::from_millisecond(self.0).ok()?;
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        printer.timestamp_to_rfc9110_string(&at).ok()
    }

    /// Parses the end of a period. Later times than the last one that can be represented, before
    /// the end of the year 9999, are reduced to it.
    pub fn parse_end(text: &str) -> Option<Self> {
        Self::parse(text).or_else(|| {
            let pieces = jiff::fmt::temporal::Pieces::parse(text).ok()?;
            let is_whole = pieces.time().is_some() && pieces.offset().is_some();
            let last = jiff::Timestamp::MAX;
            let is_behind = pieces.date() >= last.to_zoned(jiff::tz::TimeZone::UTC).date();
            (is_whole && is_behind).then(|| Self(last.as_millisecond()))
        })
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

    #[test]
    fn an_end_after_the_last_time_is_clamped() {
        let last = Timestamp::parse_end("9999-12-30T22:00:00.999Z");
        assert!(last.is_some());
        for text in [
            "9999-12-30T22:00:01Z",
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999-12:00",
        ] {
            assert_eq!(Timestamp::parse_end(text), last, "{text}");
        }
        let text = "2026-03-19T02:00:00.000Z";
        assert_eq!(Timestamp::parse_end(text), Timestamp::parse(text));
        for text in [
            "9999-12-31",
            "9999-12-31T23:59:59",
            "9999-13-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "never",
        ] {
            assert_eq!(Timestamp::parse_end(text), None, "{text}");
        }
    }
}

//! Spans of time on the command line: `90s`, `15m`, `24h`, `30d`, `2w`, `1h 30m`.

use std::str::FromStr;
use std::time::Duration;

use kernel::time::span_ms;

/// A typed span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ms = span_ms(text).ok_or("write a number and a unit, such as 90s, 15m, 24h or 30d")?;
        Ok(Self(Duration::from_millis(ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.0.as_secs());
        assert_eq!(read("90s"), Ok(90));
        assert_eq!(read("0h"), Ok(0));
        assert_eq!(read("30d"), Ok(2_592_000));
        assert_eq!(read("2w"), Ok(1_209_600));
        assert_eq!(read("1h 30m"), Ok(5_400));
        for wrong in ["", "d", "30", "-1d", "999999999w", "3é"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

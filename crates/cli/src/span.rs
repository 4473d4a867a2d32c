//! Spans of time as people type them: `90s`, `15m`, `24h`, `30d`, `2w`.

use std::str::FromStr;
use std::time::Duration;

/// A span of time that was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a number and a unit, such as 90s, 15m, 24h, 30d or 2w".to_owned();
        let unit = text.chars().last().ok_or_else(wrong)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 7 * 86_400,
            _ => return Err(wrong()),
        };
        let number = &text[..text.len() - unit.len_utf8()];
        // More digits than anybody means; a product of these fits.
        if number.len() > 9 {
            return Err(wrong());
        }
        let number: u64 = number.parse().map_err(|_| wrong())?;
        Ok(Self(Duration::from_secs(number * seconds)))
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
        assert_eq!(read("999999999w"), Ok(999_999_999 * 604_800));
        for wrong in ["", "d", "30", "-1d", "1.5h", "1 d", "9999999999s", "3é"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

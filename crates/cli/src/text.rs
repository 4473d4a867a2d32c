//! Numbers and foreign text for display.

use std::str::FromStr;
use std::time::Duration;

use faces::transcript::day;
use kernel::time::Timestamp;

/// A typed number, from 1 on.
pub(crate) fn from_one<T: FromStr>(text: &str) -> Result<T, String> {
    let what = "write a whole number of at least 1";
    text.parse().map_err(|_| what.to_owned())
}

/// A duration in its two largest relevant units.
pub(crate) fn duration(time: Duration) -> String {
    let ms = time.as_millis();
    let seconds = time.as_secs();
    match seconds {
        _ if ms < 1_000 => format!("{ms} ms"),
        0..60 => format!("{}.{} s", seconds, (ms % 1_000) / 100),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Milliseconds as [`duration`].
pub(crate) fn ms(ms: u64) -> String {
    duration(Duration::from_millis(ms))
}

/// Elapsed time like a clock: `01:07`, `2:00:03`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..3_600 => format!("{:02}:{:02}", seconds / 60, seconds % 60),
        _ => format!(
            "{}:{:02}:{:02}",
            seconds / 3_600,
            seconds % 3_600 / 60,
            seconds % 60
        ),
    }
}

/// The age of a time.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let time = Duration::from_millis(now.ms_since(then));
    match time.as_secs() {
        0..5 => "just now".into(),
        seconds @ 5..60 => format!("{seconds} s ago"),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

/// The time now.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// The day of consecutively printed times.
#[derive(Debug)]
pub(crate) struct Days(String);

impl Days {
    /// For times after this one.
    pub(crate) fn after(now: Timestamp) -> Self {
        Self(day(now))
    }

    /// The day of the next time, if it differs from the previous one.
    pub(crate) fn turn(&mut self, at: Timestamp) -> Option<String> {
        let day = day(at);
        let is_new = day != self.0;
        self.0.clone_from(&day);
        is_new.then_some(day)
    }
}

/// Bytes in the largest unit with a figure of at least 1.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    let mut value = count as f64 / 1e3;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while value >= 999.95
        && let Some(larger) = units.next()
    {
        value /= 1e3;
        unit = Some(larger);
    }
    match unit {
        Some(unit) if count >= 1_000 => format!("{value:.1} {unit}"),
        _ => format!("{count} bytes"),
    }
}

/// `1 node`, `3 nodes`.
pub(crate) fn count(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Foreign text without terminal control: no escapes, no control characters. Tabs become a space,
/// line breaks stay.
pub(crate) fn plain(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string();
    let show = |c: char| match c {
        '\n' => c,
        '\t' => ' ',
        _ if c.is_control() => '\u{fffd}',
        // Characters that change the writing direction.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => c,
    };
    text.replace("\r\n", "\n").chars().map(show).collect()
}

/// Foreign text on one line of at most `width` characters.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let text = plain(text).replace('\n', " ");
    cut(text.trim(), width)
}

/// At most `width` characters; the last one marks a cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_shown_where_it_is_another_one() {
        const HOUR: u64 = 3_600_000;
        let now = Timestamp(0);
        let mut days = Days::after(now);
        assert_eq!(days.turn(now.plus_ms(23 * HOUR)), None);
        let tomorrow = now.plus_ms(25 * HOUR);
        assert_eq!(days.turn(tomorrow).as_deref(), Some("1970-01-02"));
        assert_eq!(days.turn(tomorrow), None);
    }

    #[test]
    fn durations_show_two_units() {
        let shown = |ms| duration(Duration::from_millis(ms));
        assert_eq!(shown(0), "0 ms");
        assert_eq!(shown(999), "999 ms");
        assert_eq!(shown(8_450), "8.4 s");
        assert_eq!(shown(61_000), "1 min 01 s");
        assert_eq!(shown(7_260_000), "2 h 01 min");
        assert_eq!(shown(90_000_000), "1 d 01 h");
        assert_eq!(clock(Duration::from_secs(67)), "01:07");
        assert_eq!(clock(Duration::from_secs(7_203)), "2:00:03");
    }

    #[test]
    fn sizes_change_unit_before_the_figure_grows_to_four_digits() {
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(999_960), "1.0 MB");
        assert_eq!(bytes(3_200_000_000), "3.2 GB");
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\u{7}"), "red");
        assert_eq!(plain("a\u{1}b\u{85}c"), "ab\u{fffd}c");
        assert_eq!(plain("a\r\nb\tc\u{202e}"), "a\nb c\u{fffd}");
        assert_eq!(one_line("  two\nlines ", 80), "two lines");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}

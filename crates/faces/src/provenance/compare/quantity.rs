//! Numbers with their units: one form for all notations of the same quantity.

/// The units of measurement: the words for one, its base unit, and the number of base units in it.
const MEASURES: &[(&[&str], &str, f64)] = &[
    (&["ns", "nanosecond", "nanoseconds"], "ns", 1.0),
    (
        &["µs", "μs", "us", "microsecond", "microseconds"],
        "ns",
        1e3,
    ),
    (&["ms", "msec", "millisecond", "milliseconds"], "ns", 1e6),
    (&["s", "sec", "secs", "second", "seconds"], "ns", 1e9),
    (&["min", "mins", "minute", "minutes"], "ns", 6e10),
    (&["h", "hr", "hrs", "hour", "hours"], "ns", 3.6e12),
    (&["day", "days"], "ns", 8.64e13),
    (&["week", "weeks"], "ns", 6.048e14),
    (&["month", "months"], "month", 1.0),
    (&["year", "years"], "month", 12.0),
    (&["bit", "bits"], "bit", 1.0),
    (&["B", "byte", "bytes"], "byte", 1.0),
    (&["kB", "KB", "kb", "kilobyte", "kilobytes"], "byte", 1e3),
    (&["MB", "mb", "megabyte", "megabytes"], "byte", 1e6),
    (&["GB", "gb", "gigabyte", "gigabytes"], "byte", 1e9),
    (&["TB", "tb", "terabyte", "terabytes"], "byte", 1e12),
    (&["KiB", "kibibyte", "kibibytes"], "byte", 1024.0),
    (&["MiB", "mebibyte", "mebibytes"], "byte", 1_048_576.0),
    (&["GiB", "gibibyte", "gibibytes"], "byte", 1_073_741_824.0),
    (
        &["TiB", "tebibyte", "tebibytes"],
        "byte",
        1_099_511_627_776.0,
    ),
    (&["Hz", "hertz"], "Hz", 1.0),
    (&["kHz"], "Hz", 1e3),
    (&["MHz"], "Hz", 1e6),
    (&["GHz"], "Hz", 1e9),
    (&["mm", "millimeter", "millimeters"], "mm", 1.0),
    (&["cm", "centimeter", "centimeters"], "mm", 10.0),
    (&["meter", "meters"], "mm", 1e3),
    (&["km", "kilometer", "kilometers"], "mm", 1e6),
    (&["mg", "milligram", "milligrams"], "mg", 1.0),
    (&["gram", "grams"], "mg", 1e3),
    (&["kg", "kilogram", "kilograms"], "mg", 1e6),
    (&["%", "percent", "pct"], "", 0.01),
    (&["am", "a.m"], "am", 1.0),
    (&["pm", "p.m"], "pm", 1.0),
    (&["$", "USD", "usd", "dollar", "dollars"], "$", 1.0),
    (&["€", "EUR", "eur", "euro", "euros"], "€", 1.0),
    (&["£", "GBP", "gbp"], "£", 1.0),
    (&["¥", "JPY", "yen"], "¥", 1.0),
    (&["°C", "celsius"], "°C", 1.0),
    (&["°F", "fahrenheit"], "°F", 1.0),
];

/// A number in the form for comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    /// Its digits, without separators of thousands.
    digits: String,
    /// The base unit, and the number of them.
    measure: Option<(&'static str, f64)>,
    /// Signs around the number other than a unit: a sign, `th`, `x`.
    affix: String,
}

impl Quantity {
    /// A whole number.
    pub(super) fn whole(value: u64) -> Self {
        Self::new(value.to_string(), String::new())
    }

    /// A place in an order.
    pub(super) fn ordinal(value: u64) -> Self {
        Self::new(value.to_string(), "th".to_owned())
    }

    fn new(digits: String, affix: String) -> Self {
        Self {
            digits,
            measure: None,
            affix,
        }
    }

    /// Parses a number from a word, with its attached unit.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let number = word.find(|c: char| c.is_ascii_digit())?;
        let (before, rest) = word.split_at(number);
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, ',' | '_' | '\'' | '.');
        let end = rest.find(|c: char| !is_of_number(c)).unwrap_or(rest.len());
        let (digits, behind) = rest.split_at(end);
        let digits = digits_of(digits)?;
        let mut quantity = Self::new(digits, String::new());
        match before {
            "" => {}
            "+" | "-" | "~" | "±" | "<" | ">" | "≤" | "≥" => {
                quantity.affix = before.to_owned()
            }
            money => {
                quantity.measure = Some(measure(money).filter(|_| money.chars().count() == 1)?)
            }
        }
        match behind {
            "" => {}
            "st" | "nd" | "rd" | "th" => quantity.affix.push_str("th"),
            "x" | "×" => quantity.affix.push('x'),
            "k" | "K" if !quantity.digits.contains('.') => quantity.digits.push_str("000"),
            unit => {
                if quantity.measure.is_some() {
                    return None;
                }
                quantity.measure = Some(measure(unit)?);
            }
        }
        Some(quantity)
    }

    /// The same with the next word as its unit; `None` if the word is not a unit, or there is one
    /// already.
    pub(super) fn measured_in(&self, word: &str) -> Option<Self> {
        if self.measure.is_some() || self.affix.ends_with("th") {
            return None;
        }
        Some(Self {
            measure: Some(measure(word)?),
            ..self.clone()
        })
    }

    /// The base unit.
    pub(super) fn unit(&self) -> Option<&'static str> {
        self.measure.map(|(unit, _)| unit)
    }

    /// The quantity multiplied by `times`: `7.2 million`.
    pub(super) fn times(&self, times: u64) -> Option<Self> {
        let is_plain = !self.affix.ends_with("th");
        let value = self.digits.parse::<f64>().ok().filter(|_| is_plain)?;
        Some(Self {
            digits: format!("{}", value * times as f64),
            ..self.clone()
        })
    }

    /// The whole number from 1 to 31, if it may be a day.
    pub(super) fn day(&self) -> Option<u32> {
        let is_day = self.measure.is_none() && matches!(&*self.affix, "" | "th");
        let day = self.digits.parse().ok().filter(|_| is_day)?;
        (1..=31).contains(&day).then_some(day)
    }

    /// The four digits, if it may be a year.
    pub(super) fn year(&self) -> Option<&str> {
        let is_year = self.measure.is_none() && self.affix.is_empty();
        Some(&*self.digits).filter(|digits| is_year && digits.len() == 4 && !digits.contains('.'))
    }

    /// Appends a group of three digits after a space: `10 000`.
    pub(super) fn continued(&self, digits: &str) -> Option<Self> {
        let is_group = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_open = self.measure.is_none() && self.affix.is_empty() && !self.digits.contains('.');
        let is_short = !self.digits.len().is_multiple_of(3) || self.digits.len() <= 3;
        (is_group && is_open && is_short).then(|| Self {
            digits: format!("{}{digits}", self.digits),
            ..self.clone()
        })
    }

    /// Its normal form.
    pub(super) fn text(&self) -> String {
        match (self.measure, self.digits.parse::<f64>()) {
            (Some((unit, each)), Ok(value)) => {
                let value = (value * each * 1e6).round() / 1e6;
                format!("{}{value}{unit}", self.affix)
            }
            _ => match self.affix.as_str() {
                "th" | "x" => format!("{}{}", self.digits, self.affix),
                affix => format!("{affix}{}", self.digits),
            },
        }
    }
}

fn measure(word: &str) -> Option<(&'static str, f64)> {
    let mut known = MEASURES.iter();
    let found = known.find(|(words, ..)| words.contains(&word))?;
    Some((found.1, found.2))
}

/// The digits of a number without separators of thousands; `None` for any other notation.
fn digits_of(number: &str) -> Option<String> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.is_some_and(|fraction| !is_digits(fraction)) {
        return None;
    }
    let mut groups = whole.split([',', '_', '\'']);
    let first = groups.next().filter(|first| is_digits(first))?;
    let mut digits = first.to_owned();
    let mut count = 0;
    for group in groups {
        if group.len() != 3 || !is_digits(group) {
            return None;
        }
        digits.push_str(group);
        count += 1;
    }
    let has_zero_ahead = first.len() > 1 && first.starts_with('0');
    if (count > 0 && first.len() > 3) || has_zero_ahead {
        return None;
    }
    if let Some(fraction) = fraction {
        digits.push('.');
        digits.push_str(fraction);
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(word: &str) -> Option<String> {
        Quantity::parse(word).map(|quantity| quantity.text())
    }

    #[test]
    fn one_text_for_each_quantity() {
        for (one, other) in [
            ("1,000", "1000"),
            ("1_000", "1'000"),
            ("10k", "10,000"),
            ("1500ms", "1.5s"),
            ("2h", "120min"),
            ("1MB", "1000KB"),
            ("2nd", "2th"),
        ] {
            assert_eq!(text(one), text(other), "{one} {other}");
            assert!(text(one).is_some(), "{one}");
        }
        for (one, other) in [
            ("5ms", "5s"),
            ("5%", "5"),
            ("$5", "€5"),
            ("1KB", "1KiB"),
            ("2.1", "2.10"),
            ("-5", "5"),
        ] {
            assert_ne!(text(one), text(other), "{one} {other}");
        }
        for no_number in ["1.2.3", "2024-01-02", "007", "1,2", "2FA", "10:30", "v2"] {
            assert_eq!(text(no_number), None, "{no_number}");
        }
        let five = Quantity::whole(5);
        assert_eq!(
            five.measured_in("seconds").map(|five| five.text()),
            text("5s")
        );
        assert_eq!(
            Quantity::whole(10).continued("000").map(|ten| ten.text()),
            text("10000")
        );
    }
}

//! Whether a value fits its field, and a suggestion if it does not.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::config_keys::Takes;
use super::variable::type_name;
use crate::control::schema::has_type;
use crate::limits::MAX_WAIT_MS;
use crate::problem::{ProblemCode, closest, type_words};
use crate::time::span_ms;

/// The fault of a value: its code and its message.
pub type Misfit = (ProblemCode, String);

/// The fault of a value for a key with these allowed values.
pub(super) fn misfit(takes: Takes, value: &Value) -> Option<Misfit> {
    match takes {
        Takes::Anything => None,
        Takes::Types(types) => {
            let fits = types
                .iter()
                .any(|name| has_type(&Value::from(*name), value));
            let names: Vec<&str> = types.iter().map(|name| type_words(name)).collect();
            (!fits).then(|| wrong_type(&names.join(" or "), value))
        }
        Takes::Words(words) => match value.as_str() {
            None => Some(wrong_type(&format!("one of {}", words.join(", ")), value)),
            Some(word) if words.contains(&word) => None,
            Some(word) => {
                let hint = closest(word, words.iter().copied());
                let hint = hint.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
                let text = format!("must be one of {}{hint}", words.join(", "));
                Some((ProblemCode::InvalidValue, text))
            }
        },
        Takes::Whole(least, most) => misnumbered(value, "a whole number", least..=most),
        Takes::Millis => mistimed(value, Unit::Milliseconds, 0..=MAX_WAIT_MS),
        Takes::Seconds => mistimed(value, Unit::Seconds, 1..=MAX_WAIT_MS / 1_000),
    }
}

/// The unit of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// In milliseconds.
    Milliseconds,
    /// In seconds.
    Seconds,
}

/// The fault of a duration. For a text such as `2 h` the message gives its number.
pub fn mistimed(value: &Value, unit: Unit, range: RangeInclusive<u64>) -> Option<Misfit> {
    let (unit, in_unit) = match unit {
        Unit::Milliseconds => ("milliseconds", 1),
        Unit::Seconds => ("seconds", 1_000),
    };
    let Some(text) = value.as_str() else {
        return misnumbered(value, &format!("a whole number of {unit}"), range);
    };
    let said = span_ms(text).map(|ms| ms / in_unit);
    let hint = match said.filter(|said| range.contains(said)) {
        Some(said) => format!("write {said} without quotes"),
        None => format!("write {} for a minute", 60_000 / in_unit),
    };
    let text = format!("must be a whole number of {unit}, not a string; {hint}");
    Some((ProblemCode::WrongType, text))
}

/// The fault of a number that has to be whole and within a range.
fn misnumbered(value: &Value, what: &str, range: RangeInclusive<u64>) -> Option<Misfit> {
    let Some(number) = value.as_f64() else {
        return Some(wrong_type(what, value));
    };
    let fits =
        number.fract() == 0.0 && number >= *range.start() as f64 && number <= *range.end() as f64;
    (!fits).then(|| {
        let text = format!("must be {what} from {} to {}", range.start(), range.end());
        (ProblemCode::InvalidValue, text)
    })
}

fn wrong_type(what: &str, value: &Value) -> Misfit {
    let text = format!("must be {what}, not {}", type_name(value));
    (ProblemCode::WrongType, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(takes: Takes, value: Value, expected: Option<&str>) {
        let said = misfit(takes, &value).map(|(_, text)| text);
        assert_eq!(said.as_deref(), expected, "{value}");
    }

    #[test]
    fn a_duration_given_as_text_suggests_its_number() {
        let must = "must be a whole number of milliseconds";
        for (text, ms) in [
            ("3 days", "259200000"),
            ("90s", "90000"),
            ("1h 30m", "5400000"),
        ] {
            let expected = format!("{must}, not a string; write {ms} without quotes");
            check(Takes::Millis, json!(text), Some(&expected));
        }
        let minute = format!("{must}, not a string; write 60000 for a minute");
        for text in ["soon", "-3 days", "9000 weeks", ""] {
            check(Takes::Millis, json!(text), Some(&minute));
        }
        check(
            Takes::Seconds,
            json!("2m"),
            Some("must be a whole number of seconds, not a string; write 120 without quotes"),
        );
    }

    #[test]
    fn a_number_keeps_to_its_bounds() {
        check(Takes::Whole(1, 5), json!(5.0), None);
        let bounds = Some("must be a whole number from 1 to 5");
        for number in [json!(0), json!(-1), json!(6), json!(1.5), json!(1e300)] {
            check(Takes::Whole(1, 5), number, bounds);
        }
        check(
            Takes::Whole(1, 5),
            json!(null),
            Some("must be a whole number, not null"),
        );
    }

    #[test]
    fn a_misspelt_word_suggests_the_nearest_one() {
        let takes = Takes::Words(&["fail", "accept"]);
        check(takes, json!("accept"), None);
        check(
            takes,
            json!("acept"),
            Some("must be one of fail, accept; did you mean `accept`?"),
        );
        check(
            takes,
            json!(1),
            Some("must be one of fail, accept, not a number"),
        );
        check(
            Takes::Types(&["array", "string"]),
            json!({}),
            Some("must be an array or a string, not an object"),
        );
    }
}

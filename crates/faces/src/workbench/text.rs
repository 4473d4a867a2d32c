//! Finds JSON that cannot be kept exactly: lone surrogates, and integers that JavaScript cannot
//! represent. They are rejected with their place instead of being changed.

use kernel::json::{self, position};

use super::Bad;

/// Digits up to which JavaScript represents every integer.
const SAFE_DIGITS: usize = 15;

/// Checks the text of a JSON document.
///
/// # Errors
/// The first such place.
pub(super) fn check(text: &[u8]) -> Result<(), Bad> {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at = match byte {
            b'"' => string(text, at)?,
            b'-' | b'0'..=b'9' => number(text, at)?,
            _ => at + 1,
        };
    }
    Ok(())
}

/// Checks the string that begins here; returns its end.
fn string(text: &[u8], begin: usize) -> Result<usize, Bad> {
    let mut at = begin + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => match unit(text, at) {
                Some(0xd800..=0xdbff) => match unit(text, at + 6) {
                    Some(0xdc00..=0xdfff) => at += 12,
                    _ => return Err(half(text, at)),
                },
                Some(0xdc00..=0xdfff) => return Err(half(text, at)),
                Some(_) => at += 6,
                None => at += 2,
            },
            _ => at += 1,
        }
    }
    Ok(at)
}

/// The code unit of a `\u....` escape.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Checks the number that begins here; returns its end.
fn number(text: &[u8], begin: usize) -> Result<usize, Bad> {
    let is_of_it = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let length = text[begin..].iter().take_while(|byte| is_of_it(byte));
    let end = begin + length.count();
    let written = std::str::from_utf8(&text[begin..end]).unwrap_or_default();
    let is_whole = written
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_digit());
    if written.len() <= SAFE_DIGITS || !is_whole || is_kept(written) {
        return Ok(end);
    }
    Err(Bad {
        at: Some(position(text, begin)),
        ..Bad::new(
            "INVALID_NUMBER",
            "the integer is larger than JavaScript can represent exactly; send it as a text",
        )
    })
}

/// Whether JavaScript preserves an integer: its own output for it has the same text, or the same
/// digits.
fn is_kept(written: &str) -> bool {
    match written.parse::<f64>() {
        Ok(double) if double.is_finite() => {
            json::canonical(&double) == written.as_bytes() || format!("{double:.0}") == written
        }
        // JSON itself refuses it.
        _ => true,
    }
}

fn half(text: &[u8], at: usize) -> Bad {
    Bad {
        at: Some(position(text, at)),
        ..Bad::new(
            "LONE_SURROGATE",
            "a text has half of a character (a lone surrogate); remove or complete it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<(&'static str, usize)> {
        let bad = check(text.as_bytes()).err()?;
        Some((bad.code, bad.at.map_or(0, |at| at.column)))
    }

    #[test]
    fn half_characters_are_refused_with_their_place() {
        for (text, place) in [
            (r#"["\ud800"]"#, 3),
            (r#"["a\udc00\ud800"]"#, 4),
            (r#"["\ud83d\u0041"]"#, 3),
        ] {
            assert_eq!(refused(text), Some(("LONE_SURROGATE", place)), "{text}");
        }
        for text in [r#"["\ud83d\ude00"]"#, r#"["\\ud800"]"#, r#"["\u0041"]"#] {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    #[test]
    fn integers_that_would_change_are_refused_with_their_place() {
        for text in ["[9007199254740993]", "[-9007199254740993]"] {
            assert_eq!(refused(text), Some(("INVALID_NUMBER", 2)), "{text}");
        }
        for text in [
            "[9007199254740992]",
            "[1152921504606847000]",
            "[1152921504606846976]",
            "[100000000000000000000]",
            "[0.12345678901234567890]",
            "[1e300]",
            r#"["9007199254740993"]"#,
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
    }
}

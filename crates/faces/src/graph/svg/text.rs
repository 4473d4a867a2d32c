//! Text in an SVG: its width, and its escaping.

use std::fmt::Write;

/// The approximate width of a text at a font size. Fonts differ, so this is an upper estimate.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.3,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' | 'I' => 0.38,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.92,
        'A'..='Z' | '&' | '#' | '≠' | '=' | '<' | '>' | '~' | '+' => 0.7,
        '\u{300}'..='\u{36f}' => 0.0,
        // Most later characters are as wide as they are high.
        '\u{1100}'.. => 1.05,
        _ => 0.59,
    }
}

/// A text cut to a width, with `…` for the removed part.
pub(super) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut left = room - em('…') * size;
    let mut out: String = text
        .chars()
        .take_while(|&c| {
            left -= em(c) * size;
            left >= 0.0
        })
        .collect();
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

/// A text cut in its middle to a width: the end of a condition tells more than the beginning.
pub(super) fn fit_ends(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let half = (room - em('…') * size) / 2.0;
    let take = |chars: &mut dyn Iterator<Item = char>| {
        let mut left = half;
        chars
            .take_while(|&c| {
                left -= em(c) * size;
                left >= 0.0
            })
            .collect::<Vec<_>>()
    };
    let begin = take(&mut text.chars());
    let end = take(&mut text.chars().rev());
    begin
        .into_iter()
        .chain(['…'])
        .chain(end.into_iter().rev())
        .collect()
}

/// Text escaped for XML. Characters that XML forbids are shown as `�`.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ if c.is_control() => out.push('\u{fffd}'),
            // These would change the direction of the surrounding text.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_text_comes_out() {
        assert_eq!(
            escape("<script>&\"'\u{0}\u{202e}\n"),
            "&lt;script&gt;&amp;&quot;&#39;\u{fffd}\\u{202e} "
        );
    }

    #[test]
    fn text_that_does_not_fit_gets_an_ellipsis() {
        let long = "a name that is far too long for any box";
        let cut = fit(long, 13.0, 100.0);
        assert!(cut.ends_with('…') && long.starts_with(cut.trim_end_matches('…')));
        assert!(width(&cut, 13.0) <= 100.0);
        let ends = fit_ends("nodes.draft.outputs.pages < 3", 11.0, 120.0);
        assert!(ends.starts_with("nodes") && ends.ends_with("< 3"), "{ends}");
        assert!(width(&ends, 11.0) <= 120.0);
        assert_eq!(fit("short", 13.0, 100.0), "short");
        assert_eq!(fit("短い名前がここに入る", 13.0, 60.0).chars().count(), 4);
    }
}

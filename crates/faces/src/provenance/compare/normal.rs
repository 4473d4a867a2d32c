//! One text for all ways to write the same: composed characters, line ends, white space, emphasis.

use icu_normalizer::ComposingNormalizer;

/// The text in its normal form.
pub(super) fn normal(text: &str) -> String {
    let composed = ComposingNormalizer::new_nfc().normalize(text).into_owned();
    let composed = composed.replace("\r\n", "\n");
    let mut out = String::with_capacity(composed.len());
    let (mut blank, mut in_fence) = (false, false);
    for line in composed.lines() {
        let line = line.trim_end();
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        if line.is_empty() {
            blank = !out.is_empty();
            continue;
        }
        if std::mem::take(&mut blank) {
            out.push('\n');
        }
        match in_fence || is_fence {
            true => out.push_str(line),
            false => out.push_str(&plain(line)),
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// A line without markdown's emphasis. An underscore or star within a word is no emphasis.
fn plain(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let mut out = String::with_capacity(line.len());
    for (at, &c) in chars.iter().enumerate() {
        if !matches!(c, '*' | '_') {
            out.push(c);
            continue;
        }
        let word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
        let mut before = at;
        while before > 0 && chars[before - 1] == c {
            before -= 1;
        }
        let mut after = at + 1;
        while chars.get(after) == Some(&c) {
            after += 1;
        }
        let (before, after) = (
            before.checked_sub(1).and_then(|at| chars.get(at)),
            chars.get(after),
        );
        let space = |c: Option<&char>| c.is_none_or(|c| c.is_whitespace());
        // A bullet or a sign of multiplication stands alone; a part of a name has letters around.
        if (space(before) && space(after)) || (word(before) && word(after)) {
            out.push(c);
        }
    }
    out
}

/// A text with each stretch of white space as one space.
pub(super) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

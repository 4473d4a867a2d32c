//! A text as the units it is compared by: sentences, headings, list items, table rows, code.

use super::normal::folded;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub kind: Kind,
    /// Its text, white space folded.
    pub text: String,
}

/// What a unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A fenced block, with its language.
    Code(String),
    Row,
    Heading(usize),
    Item(ItemKind),
    Sentence,
}

/// How a list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Bullet,
    Number,
}

impl Unit {
    /// Whether it is read for its meaning; code and tables count as they stand.
    pub(super) fn is_prose(&self) -> bool {
        !matches!(self.kind, Kind::Code(_) | Kind::Row)
    }
}

/// The units of a normal text, in order.
pub(super) fn units(normal: &str) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut paragraph = String::new();
    let mut code: Option<(String, String)> = None;
    for line in normal.lines() {
        let bare = line.trim();
        if let Some((language, text)) = &mut code {
            if bare.starts_with("```") {
                let kind = Kind::Code(std::mem::take(language));
                units.push(Unit {
                    kind,
                    text: text.trim_end().to_owned(),
                });
                code = None;
            } else {
                text.push_str(line);
                text.push('\n');
            }
            continue;
        }
        let bare = unquoted(bare);
        if let Some(language) = bare.strip_prefix("```") {
            sentences(&mut paragraph, &mut units);
            code = Some((language.trim().to_owned(), String::new()));
        } else if bare.is_empty() {
            sentences(&mut paragraph, &mut units);
        } else if let Some((level, text)) = heading(bare) {
            sentences(&mut paragraph, &mut units);
            let kind = Kind::Heading(level);
            units.push(Unit {
                kind,
                text: folded(text),
            });
        } else if bare.starts_with('|') {
            sentences(&mut paragraph, &mut units);
            // The line below a table's head says nothing.
            if !bare.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')) {
                units.push(Unit {
                    kind: Kind::Row,
                    text: folded(bare),
                });
            }
        } else if let Some((kind, text)) = item(bare) {
            sentences(&mut paragraph, &mut units);
            units.push(Unit {
                kind: Kind::Item(kind),
                text: folded(text),
            });
        } else {
            paragraph.push_str(bare);
            paragraph.push(' ');
        }
    }
    if let Some((language, text)) = code {
        units.push(Unit {
            kind: Kind::Code(language),
            text: text.trim_end().to_owned(),
        });
    }
    sentences(&mut paragraph, &mut units);
    units
}

/// A line without the sign of a quotation. Before a number it says how that compares.
fn unquoted(line: &str) -> &str {
    let inner = line.strip_prefix("> ").map(str::trim_start);
    let inner = inner.filter(|inner| !inner.starts_with(|c: char| c.is_ascii_digit()));
    inner.unwrap_or(line)
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, text))
}

fn item(line: &str) -> Option<(ItemKind, &str)> {
    for bullet in ["- ", "* ", "+ "] {
        if let Some(text) = line.strip_prefix(bullet) {
            return Some((ItemKind::Bullet, text));
        }
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..)?;
    let text = rest
        .strip_prefix(". ")
        .or_else(|| rest.strip_prefix(") "))?;
    (digits > 0 && digits <= 4).then_some((ItemKind::Number, text))
}

/// Abbreviations whose dot ends no sentence.
const SHORT: [&str; 12] = [
    "e.g.", "i.e.", "etc.", "cf.", "vs.", "mr.", "mrs.", "dr.", "no.", "fig.", "approx.", "st.",
];

fn sentences(paragraph: &mut String, units: &mut Vec<Unit>) {
    let text = std::mem::take(paragraph);
    let mut sentence = Vec::new();
    let mut push = |words: &mut Vec<&str>| {
        if !words.is_empty() {
            let text = std::mem::take(words).join(" ");
            units.push(Unit {
                kind: Kind::Sentence,
                text,
            });
        }
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        sentence.push(*word);
        let bare = word.trim_end_matches(['"', '\'', ')', ']', '»', '”', '’']);
        let ends = bare.ends_with(['.', '!', '?', '…']);
        let is_short = SHORT.contains(&bare.to_lowercase().as_str());
        // An initial, or what goes on in small letters.
        let goes_on = words
            .get(at + 1)
            .is_some_and(|next| next.starts_with(char::is_lowercase));
        if ends && !is_short && !(goes_on && bare.ends_with('.')) {
            push(&mut sentence);
        }
    }
    push(&mut sentence);
}

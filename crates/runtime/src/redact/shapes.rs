//! Shapes of services' tokens: the rows of [`services`](super::services) as patterns.

use std::ops::Range;

use super::Takes;
use super::services::{Alphabet, HOOKS, SERVICES, STRUCTURED, Service};

/// The shape of a credential.
pub(super) struct Shape {
    pub(super) replacement: &'static str,
    /// The pattern; if it has a group, only that is the credential.
    pub(super) pattern: String,
    /// The part that is replaced.
    pub(super) takes: Takes,
}

/// Private keys in PEM, also with their line breaks escaped.
const PEM: &str = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\:,.\-]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";

/// The position before a token: the beginning of a word, or the end of an escape that itself ends
/// with a letter or digit (`\n`, `\u0022`, `%3D`, a colour of a terminal).
const BEGIN: &str = r"(?:\\[nrt]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|\x1b\[[0-9;]{0,12}m|\b)";

/// The number of bytes of a match before its token.
pub(super) fn before(text: &[u8]) -> usize {
    match text {
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        [b'%', ..] => 3,
        [0x1b, ..] => text
            .iter()
            .position(|byte| *byte == b'm')
            .map_or(0, |at| at + 1),
        _ => 0,
    }
}

/// Every shape. Each begins with fixed characters, so that ordinary text is skipped quickly and a
/// stream holds back little.
pub(super) fn shapes() -> Vec<Shape> {
    let shape = |replacement, pattern: String, takes| Shape {
        replacement,
        pattern,
        takes,
    };
    let pem = shape("[REDACTED]", PEM.to_owned(), Takes::All);
    let structured = STRUCTURED.iter();
    let structured = structured.map(|(_, pattern)| {
        // A token may begin at the beginning of any word.
        let pattern = match pattern.strip_prefix(r"\b") {
            Some(rest) => format!("{BEGIN}{rest}"),
            None => (*pattern).to_owned(),
        };
        shape("[REDACTED]", pattern, Takes::Random)
    });
    let services = SERVICES.iter();
    let services = services.map(|service| {
        let (least, most) = (service.least, service.most);
        shape(
            "[REDACTED]",
            pattern(service),
            Takes::Within { least, most },
        )
    });
    let hooks = HOOKS.iter();
    let hooks = hooks.map(|pattern| shape("[REDACTED:url]", (*pattern).to_owned(), Takes::Random));
    std::iter::once(pem)
        .chain(structured)
        .chain(services)
        .chain(hooks)
        .collect()
}

/// The pattern of a service: its prefix at the beginning of a word, and all characters of the
/// token. The group is the part after the prefix.
fn pattern(service: &Service) -> String {
    let prefixes: Vec<String> = service.prefixes.split('|').map(escaped).collect();
    let class = match service.alphabet {
        Alphabet::Hex => "[0-9a-fA-F]",
        Alphabet::Upper => "[A-Z0-9]",
        Alphabet::Lower => "[a-z0-9]",
        Alphabet::Alnum => "[A-Za-z0-9]",
        Alphabet::Word => "[A-Za-z0-9_]",
        Alphabet::Dash => r"[A-Za-z0-9_\-]",
        Alphabet::Dots => r"[A-Za-z0-9_.\-]",
        Alphabet::Base64 => "[A-Za-z0-9+/=]",
        Alphabet::Padded => r"[A-Za-z0-9_.+/=\-]",
    };
    format!(
        r"{BEGIN}(?:{})({class}{{{},}})",
        prefixes.join("|"),
        service.least
    )
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if matches!(c, '.' | '+' | '$' | '/' | '-' | '_' | ':' | '~') || c.is_ascii_alphanumeric() {
            if matches!(c, '.' | '+' | '$') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
    }
    escaped
}

/// The part of a token that is replaced; `None` for an ordinary word with the same beginning, and
/// for a placeholder.
pub(super) fn random(text: &[u8], token: Range<usize>) -> Option<Range<usize>> {
    // Punctuation at the end of a sentence is not part of it.
    let behind = text[token.clone()].iter().rev();
    let behind = behind.take_while(|byte| matches!(byte, b'.' | b'-' | b'/'));
    let token = token.start..token.end - behind.count();
    looks_random(&text[token.clone()]).then_some(token)
}

/// The same for a token of a bounded length. A longer text may be a token and a name after `_`.
pub(super) fn random_within(
    text: &[u8],
    token: Range<usize>,
    least: usize,
    most: usize,
) -> Option<Range<usize>> {
    let found = random(text, token.clone());
    let length = found.as_ref().map_or(token.len(), Range::len);
    if length <= most {
        return found;
    }
    let bytes = &text[token.clone()];
    let mut ends = (least..=most.min(bytes.len())).rev();
    let end = ends.find(|end| bytes.get(*end) == Some(&b'_'))?;
    random(text, token.start..token.start + end)
}

/// Whether a text looks random: it has many different characters, none of them dominant, and a part
/// that is not a word.
pub(super) fn looks_random(bytes: &[u8]) -> bool {
    let mut counts = [0_usize; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let different = counts.iter().filter(|count| **count > 0).count();
    let most = counts.iter().max().copied().unwrap_or(0);
    let is_no_word = |part: &[u8]| {
        let has = |is: fn(&u8) -> bool| part.iter().any(is);
        let (small, capital) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
        let inner = part.get(1..).unwrap_or_default();
        let is_camel = small && inner.iter().any(u8::is_ascii_uppercase);
        let has_digit = has(u8::is_ascii_digit) && (small || capital);
        part.len() >= MIN_PART && (is_camel || has_digit || !small)
    };
    let mut parts = bytes.split(|byte| matches!(byte, b'-' | b'_' | b'.'));
    different >= 6 && most * 2 < bytes.len() && parts.any(is_no_word)
}

/// Characters of a part between signs below which it may be a word.
const MIN_PART: usize = 8;

//! Compares the shape of two texts, regardless of values.

use kernel::json::{self, Limits};
use kernel::limits::{MAX_JSON_DEPTH, MAX_SNAPSHOT_BYTES};
use serde_json::Value;

use super::text::Text;
use super::units::{ItemKind, Kind, Unit};
use super::yaml;

/// Whether a response has a structure: it is data, or mostly code.
pub(super) fn is_structured(text: &Text<'_>) -> bool {
    if text.data().is_some() || text.is_code() {
        return true;
    }
    let units = text.units();
    let code = units
        .iter()
        .filter(|unit| matches!(unit.kind, Kind::Code(_)));
    let code: usize = code.map(|unit| unit.text.len()).sum();
    let all: usize = units.iter().map(|unit| unit.text.len()).sum();
    code * 2 > all
}

/// Whether two texts have the same shape. Plain prose has none.
pub(super) fn same(a: &Text<'_>, b: &Text<'_>) -> bool {
    match (a.data(), b.data()) {
        (Some(a), Some(b)) => return same_value(a, b),
        (None, None) => {}
        _ => return false,
    }
    match (a.is_code(), b.is_code()) {
        (true, true) => return same_code(a.raw(), b.raw()),
        (false, false) => {}
        _ => return false,
    }
    let (a, b) = (outline(a), outline(b));
    !a.is_empty() && a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.is_like(b))
}

/// The role of a unit in the outline of a text.
#[derive(PartialEq, Eq)]
enum Part<'a> {
    Code(&'a str, &'a str),
    /// With the number of bars, counted once: a long row may be before many short ones.
    Row(usize),
    Heading(usize),
    Item(ItemKind),
}

impl<'a> Part<'a> {
    fn from_unit(unit: &'a Unit) -> Option<Self> {
        Some(match &unit.kind {
            Kind::Code(language) => Self::Code(language, &unit.text),
            Kind::Row => Self::Row(unit.text.matches('|').count()),
            Kind::Heading(level) => Self::Heading(*level),
            Kind::Item(kind, _) => Self::Item(*kind),
            Kind::Sentence => return None,
        })
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Code(language, a), Self::Code(with, b)) => {
                language == with
                    && match (in_format(language, a), in_format(language, b)) {
                        (Some(a), Some(b)) => same_value(&a, &b),
                        _ => same_code(a, b),
                    }
            }
            _ => self == other,
        }
    }
}

/// The outline of a text. Consecutive items of a list count once, and so do the rows of a table.
fn outline<'a>(text: &'a Text<'_>) -> Vec<Part<'a>> {
    let units = text.units().iter();
    let mut parts: Vec<Part<'a>> = units.filter_map(Part::from_unit).collect();
    parts.dedup_by(|next, part| matches!(next, Part::Item(_) | Part::Row(_)) && part == next);
    parts
}

/// Parses a bare text into a value, an object or a list: JSON, TOML with a table (assignments alone
/// may as well be a program), or YAML that cannot be prose.
pub(super) fn data(text: &str) -> Option<Value> {
    let is_header = |line: &str| line.starts_with('[') && line.ends_with(']');
    let toml = || {
        let has_header = text.lines().any(|line| is_header(line.trim()));
        let value = has_header.then(|| toml(text))??;
        let is_table = |value: &Value| match value {
            Value::Array(items) => items.iter().any(Value::is_object),
            value => value.is_object(),
        };
        let mut members = value.as_object()?.values();
        members.any(is_table).then_some(value)
    };
    json(text).or_else(toml).or_else(|| yaml::bare(text))
}

/// Parses a text in a named format, given by a fence or a file extension, into a value. A text in
/// any other named format stays a text; without a name, JSON is recognised.
pub(super) fn in_format(format: &str, text: &str) -> Option<Value> {
    match &*format.to_ascii_lowercase() {
        "json" | "jsonc" | "json5" | "" => json(text),
        "toml" => toml(text),
        "yaml" | "yml" => yaml::parse(text).filter(|value| !value.is_string()),
        _ => None,
    }
}

fn json(text: &str) -> Option<Value> {
    let limits = Limits {
        max_bytes: MAX_SNAPSHOT_BYTES,
        max_depth: MAX_JSON_DEPTH,
    };
    if text.trim_start().starts_with(['{', '[']) {
        json::parse(text.as_bytes(), limits).ok()
    } else {
        None
    }
}

fn toml(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(text).ok()?;
    serde_json::to_value(table).ok()
}

/// Whether two values have the same shape: the same keys, all kinds of numbers alike, and lists by
/// the shapes of their items, regardless of their length.
pub(super) fn same_value(a: &Value, b: &Value) -> bool {
    shape(a) == shape(b)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Null,
    Bool,
    Number,
    Text,
    List(Vec<Shape>),
    Object(Vec<(String, Shape)>),
}

fn shape(value: &Value) -> Shape {
    match value {
        Value::Null => Shape::Null,
        Value::Bool(_) => Shape::Bool,
        Value::Number(_) => Shape::Number,
        Value::String(_) => Shape::Text,
        Value::Array(items) => {
            let mut shapes: Vec<Shape> = items.iter().map(shape).collect();
            shapes.sort();
            shapes.dedup();
            Shape::List(shapes)
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| (name.clone(), shape(member)));
            let mut members: Vec<_> = members.collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Shape::Object(members)
        }
    }
}

/// A token of code, for any language.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Keyword(String),
    Name,
    Number,
    Text,
    Sign(char),
}

/// First words of a program line, if the rest of the line confirms it.
const OPENINGS: [&str; 16] = [
    "def ",
    "class ",
    "fn ",
    "pub ",
    "func ",
    "function ",
    "const ",
    "let ",
    "var ",
    "if ",
    "for ",
    "while ",
    "return ",
    "public ",
    "private ",
    "async ",
];

/// Whether a bare text is a program: most of its lines do not look like a sentence.
pub(super) fn is_code(text: &str) -> bool {
    if text.contains("```") {
        return false;
    }
    let is_comment = |line: &str| {
        ["//", "#", "/*", "*"]
            .iter()
            .any(|sign| line.starts_with(sign))
    };
    let (mut lines, mut sure, mut likely) = (0_usize, 0_usize, 0_usize);
    let mut all = text.lines().peekable();
    while let Some(whole) = all.next() {
        let line = whole.trim();
        let below = all.peek().copied().unwrap_or_default();
        if line.is_empty() || (is_comment(line) && !line.starts_with("#include")) {
            continue;
        }
        lines += 1;
        let is_signed = line.contains(['(', '{', '=', ';']);
        let begins = |openings: &[&str]| openings.iter().any(|word| line.starts_with(word));
        // A block of a language without braces: its content is neither a list nor a sentence.
        let opens = line.ends_with(':')
            && (begins(&OPENINGS) || begins(&["else:", "elif ", "try:", "with ", "except"]))
            && indent(below) > indent(whole)
            && !below.trim().starts_with(['-', '*', '+', '>'])
            && !below.trim().starts_with(|c: char| c.is_ascii_digit())
            && below.contains(['(', '=', '['])
            && !below.trim().ends_with(['.', '!', '?']);
        let is_sure = opens
            || line.ends_with(['{', '}', ';'])
            || line.starts_with("#include")
            || (begins(&OPENINGS)
                && is_signed
                && line.ends_with([':', ')', '=', '(', ',', '\'', '"']))
            || (begins(&["import ", "from ", "use "])
                && !line.ends_with('.')
                && line.split(' ').count() <= 6);
        let ends = line.ends_with([')', ']', '(', '[', ',', '"', '\'', ':']);
        if is_sure {
            sure += 1;
        } else if line.contains([';', '='])
            || (is_signed && ends)
            || line.starts_with([')', ']', '.', '@'])
        {
            likely += 1;
        }
    }
    sure > 0 && (sure + likely) * 3 >= lines * 2
}

/// Whether two texts have the same lines, except for white space at their ends.
pub(super) fn same_lines(a: &str, b: &str) -> bool {
    lines(a) == lines(b)
}

/// The lines of a piece of code without white space at their ends, and without a common
/// indentation.
pub(super) fn lines(code: &str) -> Vec<&str> {
    let lines = code.lines().map(str::trim_end);
    let margin = lines.clone().filter(|line| !line.is_empty()).map(indent);
    let margin = margin.min().unwrap_or(0);
    let mut lines: Vec<&str> = lines
        .map(|line| line.get(margin..).unwrap_or(line))
        .collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

/// The indentation of a line.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Whether two pieces of code are the same except for names, literals, comments and white space.
/// Without braces, indentation counts.
pub(super) fn same_code(a: &str, b: &str) -> bool {
    let is_held = |code: &str| code.contains('{');
    let is_nested_alike = (is_held(a) && is_held(b)) || depths(a) == depths(b);
    let (a, b) = (tokens(a), tokens(b));
    !a.is_empty() && a == b && is_nested_alike
}

/// The nesting depth of each line of code. Lines within brackets may have any indentation.
fn depths(code: &str) -> Vec<usize> {
    let (mut open, mut depths) = (vec![0_usize], Vec::new());
    let mut brackets = 0_usize;
    for line in lines(code) {
        let bare = line.trim_start();
        if bare.is_empty() || bare.starts_with('#') || bare.starts_with("//") {
            continue;
        }
        if brackets == 0 {
            let to_the_right = indent(line);
            open.retain(|known| *known <= to_the_right);
            if open.last() != Some(&to_the_right) {
                open.push(to_the_right);
            }
            depths.push(open.len());
        }
        for token in tokens(bare) {
            match token {
                Token::Sign('(' | '[' | '{') => brackets += 1,
                Token::Sign(')' | ']' | '}') => brackets = brackets.saturating_sub(1),
                _ => {}
            }
        }
    }
    depths
}

/// Keywords that structure a program in common languages.
const KEYWORDS: [&str; 58] = [
    "if",
    "else",
    "elif",
    "for",
    "while",
    "loop",
    "do",
    "return",
    "fn",
    "def",
    "func",
    "function",
    "class",
    "struct",
    "enum",
    "trait",
    "impl",
    "interface",
    "match",
    "case",
    "switch",
    "break",
    "continue",
    "let",
    "const",
    "var",
    "mut",
    "static",
    "pub",
    "public",
    "private",
    "protected",
    "use",
    "import",
    "from",
    "export",
    "package",
    "mod",
    "async",
    "await",
    "yield",
    "try",
    "catch",
    "except",
    "finally",
    "throw",
    "raise",
    "with",
    "lambda",
    "new",
    "in",
    "not",
    "and",
    "or",
    "null",
    "None",
    "true",
    "false",
];

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = code;
    let mut at_line_start = true;
    // Unclosed quotes of this line: each kind is searched for once only.
    let mut open = Vec::new();
    while let Some(c) = rest.chars().next() {
        let skip =
            |text: &str, end: &str, or: usize| text.find(end).map_or(or, |at| at + end.len());
        let is_line_comment =
            rest.starts_with("//") || c == '#' && (at_line_start || rest.starts_with("# "));
        let length = if c == '\n' {
            at_line_start = true;
            open.clear();
            rest = &rest[1..];
            continue;
        } else if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
            continue;
        } else if is_line_comment {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inner) = rest.strip_prefix("/*") {
            let length = 2 + skip(inner, "*/", inner.len());
            if rest[..length].contains('\n') {
                open.clear();
            }
            length
        } else if let Some(length) = literal(rest, c, &mut open) {
            tokens.push(Token::Text);
            length
        } else if c.is_ascii_digit() {
            tokens.push(Token::Number);
            rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '_'))
                .unwrap_or(rest.len())
        } else if c.is_alphabetic() || c == '_' {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let word = &rest[..end];
            tokens.push(if KEYWORDS.contains(&word) {
                Token::Keyword(word.to_owned())
            } else {
                Token::Name
            });
            end
        } else {
            tokens.push(Token::Sign(c));
            c.len_utf8()
        };
        at_line_start = false;
        rest = &rest[length..];
    }
    tokens
}

/// The length of the literal that begins with this quote, if there is one. After an unclosed quote,
/// a further one of the same kind is not closed either.
fn literal(rest: &str, sign: char, open: &mut Vec<char>) -> Option<usize> {
    if !matches!(sign, '"' | '\'' | '`') || open.contains(&sign) {
        return None;
    }
    let length = closes(rest, sign);
    if length.is_none() {
        open.push(sign);
    }
    length
}

/// The length of the literal that begins here, if it ends on its line. A lifetime does not.
fn closes(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

//! Problems of a document: all at once, each with a path into it.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::limits::MAX_PROBLEMS;

/// The kind of a problem, for programs. The texts are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// More bytes, elements or nesting than allowed.
    TooLarge,
    /// Nested deeper than allowed.
    TooDeep,
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// The text is not JSON.
    MalformedJson,
    /// An object has the same key twice.
    DuplicateKey,
    /// A required field is missing.
    MissingField,
    /// A field that this document does not have.
    UnknownField,
    /// A value of another JSON type than the field's.
    WrongType,
    /// A value of the right type that the field does not allow.
    InvalidValue,
    /// Two things have the same id or name.
    DuplicateId,
    /// A reference to an unknown id or name.
    UnknownReference,
    /// A node type that this engine does not have.
    UnknownType,
    /// An expression or pattern that does not compile.
    InvalidExpression,
    /// A cycle of edges that is not a loop.
    Cycle,
    /// A loop whose body is not closed.
    InvalidLoop,
    /// No node can ever start.
    NoStart,
    /// A required input is missing.
    MissingInput,
    /// A secret in plain text in a stored place.
    LiteralSecret,
    /// A setting that is kept but has no effect in this engine.
    NotDone,
}

impl ProblemCode {
    /// The stable text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::TooDeep => "too_deep",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::MalformedJson => "malformed_json",
            Self::DuplicateKey => "duplicate_key",
            Self::MissingField => "missing_field",
            Self::UnknownField => "unknown_field",
            Self::WrongType => "wrong_type",
            Self::InvalidValue => "invalid_value",
            Self::DuplicateId => "duplicate_id",
            Self::UnknownReference => "unknown_reference",
            Self::UnknownType => "unknown_type",
            Self::InvalidExpression => "invalid_expression",
            Self::Cycle => "cycle",
            Self::InvalidLoop => "invalid_loop",
            Self::NoStart => "no_start",
            Self::MissingInput => "missing_input",
            Self::LiteralSecret => "literal_secret",
            Self::NotDone => "not_done",
        }
    }
}

/// A place in a text, both counted from 1; columns count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The byte within the line.
    pub column: usize,
}

/// One fault, its place, and its correction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// JSON pointer (RFC 6901) to the value; empty for the whole document.
    pub path: String,
    /// The kind of problem.
    pub code: ProblemCode,
    /// For a person: the fault and its correction.
    pub message: String,
    /// The place in the text, if there is a text.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub at: Option<Position>,
    /// The id of the affected node.
    #[serde(rename = "nodeId", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl Problem {
    /// A problem at a path.
    pub fn new(path: impl Into<String>, code: ProblemCode, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            code,
            message: message.into(),
            at: None,
            node: None,
        }
    }
}

/// Adds the id of the affected node to every problem of a definition.
pub fn name_nodes(document: &Value, problems: &mut [Problem]) {
    for problem in problems {
        let index = problem.path.strip_prefix("/nodes/");
        let index = index.and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
        let node = index.and_then(|index| document.get("nodes")?.get(index));
        let id = node.and_then(|node| node.get("id")?.as_str());
        problem.node = id.map(str::to_owned);
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        if let Some(Position { line, column }) = self.at {
            write!(f, "line {line}, column {column}")?;
            if let Some(node) = &self.node {
                write!(f, ", node {}", quoted(node))?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

/// All faults of a document: at most [`MAX_PROBLEMS`] in full, the rest counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problems {
    /// In the order of discovery, which is mostly the order of the document.
    pub listed: Vec<Problem>,
    /// How many further problems there are.
    pub more: usize,
}

impl Problems {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a problem, or counts it when the list is full.
    pub fn push(&mut self, problem: Problem) {
        if self.listed.len() < MAX_PROBLEMS {
            self.listed.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Adds a problem from its parts.
    pub fn add(&mut self, path: impl Into<String>, code: ProblemCode, message: impl Into<String>) {
        self.push(Problem::new(path, code, message));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// `value` if the list is empty, else the problems.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl Extend<Problem> for Problems {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self {
            listed: vec![problem],
            more: 0,
        }
    }
}

impl fmt::Display for Problems {
    /// One problem per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.listed.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        match self.more {
            0 => Ok(()),
            1 => f.write_str("\nand one more problem"),
            n => write!(f, "\nand {n} more problems"),
        }
    }
}

impl std::error::Error for Problems {}

/// A place in a document, kept on the stack and written out only for a problem.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// As a JSON pointer.
    pub(crate) fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(parent, key) => pointer(&parent.pointer(), key),
            Self::Index(parent, index) => pointer(&parent.pointer(), index),
        }
    }
}

/// Appends an escaped token to a JSON pointer. Very long tokens are truncated.
pub fn pointer(base: &str, token: impl fmt::Display) -> String {
    const MAX_TOKEN: usize = 256;
    let token = token.to_string();
    let mut path = String::with_capacity(base.len() + 1 + token.len());
    path.push_str(base);
    path.push('/');
    for (n, c) in token.chars().enumerate() {
        if n == MAX_TOKEN {
            path.push('…');
            break;
        }
        match c {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            c => path.push(c),
        }
    }
    path
}

/// A type of JSON Schema with its article, for messages.
pub fn type_words(name: &str) -> &'static str {
    match name {
        "null" => "null",
        "boolean" => "true or false",
        "number" => "a number",
        "integer" => "a whole number",
        "string" => "a string",
        "array" => "an array",
        _ => "an object",
    }
}

/// A text from a document as a message may show it: in backticks, short and on one line.
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut out = String::from("`");
    for (n, c) in text.chars().enumerate() {
        if n == SHOWN {
            out.push('…');
            break;
        }
        out.push(if c.is_control() || c == '`' {
            '\u{fffd}'
        } else {
            c
        });
    }
    out.push('`');
    out
}

/// The most likely meaning of a misspelt word among the candidates.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are not typed by hand, and comparing them takes time.
    const MAX_WORD: usize = 64;
    if word.is_empty() || word.len() > MAX_WORD {
        return None;
    }
    let allowed = 1 + word.len() / 4;
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let bound = best.map_or(allowed, |(distance, _)| distance - 1);
        if candidate.len() <= MAX_WORD
            && let Some(distance) = distance_within(word, candidate, bound)
        {
            best = Some((distance, candidate));
            if distance == 0 {
                break;
            }
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The candidate that a word misspells, where other words are allowed: it differs by one letter, or
/// by two from nine letters on, and short candidates differ in case or number only.
pub fn misspelt<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let near = |candidate: &str| {
        let letters = candidate.len();
        let is_plural = word.strip_suffix('s') == Some(candidate);
        let bound = match letters {
            0..=5 => 0,
            6..=8 => 1,
            _ => 2,
        };
        is_plural || distance_within(word, candidate, bound).is_some()
    };
    let mut candidates = candidates.iter().copied();
    candidates.find(|candidate| word != *candidate && near(candidate))
}

/// A suggestion for an unknown word: the most likely candidate, and the list of all if it is short.
pub fn instead<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const SHOWN: usize = 12;
    let names: Vec<&str> = names.into_iter().collect();
    let meant = closest(word, names.iter().copied());
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| quoted(name)).collect();
    let more = match names.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match (meant, shown.as_slice()) {
        (_, []) => None,
        (Some(meant), [_]) => Some(format!("did you mean {}?", quoted(meant))),
        (Some(meant), all) => Some(format!(
            "did you mean {}? There are {}{more}",
            quoted(meant),
            all.join(", ")
        )),
        (None, [one]) => Some(format!("there is {one}")),
        (None, all) => Some(format!("there are {}{more}", all.join(", "))),
    }
}

/// The case-insensitive edit distance of two words, if it is at most `bound`. Two exchanged
/// neighbours count as one edit.
fn distance_within(a: &str, b: &str, bound: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > bound {
        return None;
    }
    let a = a.to_ascii_lowercase().into_bytes();
    let b = b.to_ascii_lowercase().into_bytes();
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (above[j] + 1)
                .min(row[j - 1] + 1)
                .min(above[j - 1] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        if row.iter().all(|&distance| distance > bound) {
            return None;
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().filter(|&distance| distance <= bound)
}

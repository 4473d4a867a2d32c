//! JSON: read strictly, kept as RFC 8785 canonical bytes.

mod canonical;
mod locate;

use std::cell::RefCell;
use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

pub use canonical::{as_doubles, canonical};
pub(crate) use canonical::{canonical_of, write_object, write_string, write_value};
pub use locate::{locate, replaced};

use crate::limits::{MAX_DEFINITION_BYTES, MAX_JSON_DEPTH, MAX_READ_DEPTH};
use crate::problem::{Path, Position, Problem, ProblemCode, Problems, quoted};

/// How large a document may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text.
    pub max_bytes: usize,
    /// Arrays and objects within one another. More than [`MAX_READ_DEPTH`] is not allowed.
    pub max_depth: usize,
}

impl Limits {
    /// The bounds of a workflow definition.
    pub const DEFINITION: Self = Self {
        max_bytes: MAX_DEFINITION_BYTES,
        max_depth: MAX_JSON_DEPTH,
    };
}

/// Reads a JSON text strictly: UTF-8, one value and nothing after it, no key twice in an object,
/// within bounds. Time and memory are in proportion to the bounds, not to the text.
///
/// Numbers are kept as `serde_json` does (64-bit integers, else doubles). An integer that this
/// would change, and a number that is too large for a double, is an error.
///
/// # Errors
/// The first place where the text is not JSON, or every repeated key with its path.
pub fn parse(bytes: &[u8], limits: Limits) -> Result<Value, Problems> {
    if bytes.len() > limits.max_bytes {
        return Err(Problem::new(
            "",
            ProblemCode::TooLarge,
            format!(
                "the document has {} bytes; at most {} are allowed",
                bytes.len(),
                limits.max_bytes
            ),
        )
        .into());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        at(
            position(bytes, error.valid_up_to()),
            ProblemCode::InvalidUtf8,
            "the text is not UTF-8; save it as UTF-8",
        )
    })?;
    if text.starts_with('\u{feff}') {
        return Err(at(
            Position { line: 1, column: 1 },
            ProblemCode::MalformedJson,
            "the text starts with a byte order mark; save it as UTF-8 without one",
        ));
    }
    check_depth(bytes, limits.max_depth.min(MAX_READ_DEPTH))?;
    check_integers(bytes)?;

    let problems = RefCell::new(Problems::new());
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let strict = Strict {
        path: &Path::Root,
        problems: &problems,
    };
    let value = strict
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| malformed(text, &error))?;
    problems.into_inner().or(value)
}

/// As `serde_json::from_slice`, for values that are nested up to [`MAX_READ_DEPTH`] deep.
///
/// # Errors
/// As `serde_json::from_slice`.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    match serde_json::from_slice(bytes) {
        // A text is seldom deep: only then its depth is counted before it is read without a limit.
        Err(error)
            if error.to_string().starts_with("recursion limit exceeded")
                && check_depth(bytes, MAX_READ_DEPTH).is_ok() =>
        {
            let mut deserializer = serde_json::Deserializer::from_slice(bytes);
            deserializer.disable_recursion_limit();
            let value = T::deserialize(&mut deserializer)?;
            deserializer.end().map(|()| value)
        }
        result => result,
    }
}

/// Whether a field has its default and is left out of the stored JSON.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How deep arrays and objects are nested in a value; 0 for anything else.
///
/// Takes as much stack as the value is deep, so only for values that were read or computed here.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn at(position: Position, code: ProblemCode, message: impl Into<String>) -> Problems {
    Problem {
        at: Some(position),
        ..Problem::new("", code, message)
    }
    .into()
}

/// The line and column of a byte of a text.
pub fn position(bytes: &[u8], offset: usize) -> Position {
    let before = &bytes[..offset];
    let line_start = before
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |newline| newline + 1);
    Position {
        line: 1 + before.iter().filter(|&&b| b == b'\n').count(),
        column: 1 + offset - line_start,
    }
}

/// Refuses deep nesting before anything recurses. Counts brackets outside of strings, which is
/// right for JSON, and for anything else an error follows anyway.
fn check_depth(bytes: &[u8], max_depth: usize) -> Result<(), Problems> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (offset, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > max_depth {
                    return Err(at(
                        position(bytes, offset),
                        ProblemCode::TooDeep,
                        format!("nested more than {max_depth} deep; flatten the document"),
                    ));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Refuses integers with more digits than a 64-bit integer or a double keeps.
///
/// # Errors
/// The first such integer, with its place.
pub fn check_integers(bytes: &[u8]) -> Result<(), Problems> {
    let (mut in_string, mut begin) = (false, None);
    let mut at_byte = 0;
    while let Some(byte) = bytes.get(at_byte) {
        match byte {
            b'\\' if in_string => at_byte += 1,
            b'"' => in_string = !in_string,
            _ => {}
        }
        let is_part = !in_string
            && matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
            && (begin.is_some() || matches!(byte, b'0'..=b'9' | b'-'));
        if is_part {
            begin.get_or_insert(at_byte);
        } else if let Some(begin) = begin.take() {
            check_integer(bytes, begin..at_byte)?;
        }
        at_byte += 1;
    }
    begin.map_or(Ok(()), |begin| check_integer(bytes, begin..bytes.len()))
}

fn check_integer(bytes: &[u8], place: std::ops::Range<usize>) -> Result<(), Problems> {
    let begin = place.start;
    let written = std::str::from_utf8(&bytes[place]).unwrap_or_default();
    let is_whole = written.len() > SAFE_DIGITS
        && written
            .trim_start_matches('-')
            .bytes()
            .all(|byte| byte.is_ascii_digit());
    let is_kept = |double: f64| {
        !double.is_finite()
            || canonical(&double) == written.as_bytes()
            || format!("{double:.0}") == written
    };
    if !is_whole || written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok() {
        return Ok(());
    }
    // One that is too large for a double is refused when it is read.
    match written.parse::<f64>() {
        Ok(double) if !is_kept(double) => Err(at(
            position(bytes, begin),
            ProblemCode::InvalidValue,
            "the integer has more than 64 bits and would change; write it as a string",
        )),
        _ => Ok(()),
    }
}

/// Every integer of this many digits has 64 bits.
const SAFE_DIGITS: usize = 18;

fn malformed(text: &str, error: &serde_json::Error) -> Problems {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let message = match message {
        _ if is_yaml(text) => {
            "this looks like YAML; write the same as JSON, such as `{ \"id\": \"build\" }`"
        }
        _ if is_comment(text, error) => "JSON has no comments; remove this one",
        "trailing characters" => "there is text after the end of the JSON value; remove it",
        "number out of range" => "the number is too large for JSON",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a string contains a raw control character, such as a line break; write it as \\n or \
             \\u…"
        }
        _ if text.trim_ascii().is_empty() => "the document is empty; a JSON value is needed",
        "trailing comma" => "there is a comma before the closing bracket; remove it",
        "key must be a string" => "a key must be a text in double quotes",
        "EOF while parsing an object" => "the text ends within an object; close it with `}`",
        "EOF while parsing a list" => "the text ends within an array; close it with `]`",
        "EOF while parsing a string" => "the text ends within a string; close it with `\"`",
        "EOF while parsing a value" => "the text ends where a value must follow",
        "expected value" => {
            "a value is expected here: an object, an array, a string in double quotes, a number, \
             true, false or null"
        }
        "expected ident" => {
            "a word must be true, false or null; put other words into double quotes"
        }
        "expected `:`" => "a `:` is expected between a key and its value",
        "expected `,` or `}`" => "a `,` or `}` is expected here; a comma may be missing",
        "expected `,` or `]`" => "a `,` or `]` is expected here; a comma may be missing",
        "invalid escape" => {
            "a string contains an escape that JSON does not have; write a backslash as `\\\\`"
        }
        "invalid number" => "this is not a JSON number; write 0.5 and 1, not .5 or 01",
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            "a string contains half of a surrogate pair; write the other half after it"
        }
        message => message,
    };
    let (line, column) = (error.line().max(1), error.column().max(1));
    at(
        Position { line, column },
        ProblemCode::MalformedJson,
        format!("not JSON: {message}"),
    )
}

/// Whether the first thing that is not JSON is a comment, of any usual language.
fn is_comment(text: &str, error: &serde_json::Error) -> bool {
    let line = text.lines().nth(error.line().saturating_sub(1));
    let column = error.column().saturating_sub(1);
    let rest = line.and_then(|line| line.get(column..));
    rest.is_some_and(|rest| ["//", "/*", "#"].iter().any(|sign| rest.starts_with(sign)))
}

/// Whether a text begins as YAML does and JSON does not: with a document marker, a list or a bare
/// key.
fn is_yaml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_end);
    let Some(first) = lines.find(|line| !line.is_empty() && !line.starts_with('#')) else {
        return false;
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_key = |(key, rest): (&str, &str)| {
        key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key.chars().all(is_word)
            && (rest.is_empty() || rest.starts_with(' '))
    };
    first == "---" || first.starts_with("- ") || first.split_once(':').is_some_and(is_key)
}

/// Reads a value and notes repeated keys.
#[derive(Clone, Copy)]
struct Strict<'a> {
    path: &'a Path<'a>,
    problems: &'a RefCell<Problems>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        match serde_json::Number::from_f64(value) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(E::custom("number out of range")),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = Path::Index(self.path, items.len());
            match seq.next_element_seed(Strict {
                path: &path,
                ..self
            })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = Path::Key(self.path, &key);
            let value = map.next_value_seed(Strict {
                path: &path,
                ..self
            })?;
            if object.contains_key(&key) {
                self.problems.borrow_mut().add(
                    path.pointer(),
                    ProblemCode::DuplicateKey,
                    format!("the key {} is here twice; keep one of them", quoted(&key)),
                );
                continue;
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
pub(crate) mod tests;

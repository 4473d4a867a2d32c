//! Walks a document by hand, so that all of its faults are found at once.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::fitting::{Unit, mistimed};
use super::validation_mode::ValidationMode;
use super::variable::type_name;
use crate::limits::MAX_NAME_BYTES;
use crate::problem::{Path, Problem, ProblemCode, Problems, closest, quoted};

/// Problems and warnings found during the walk.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) validation_mode: ValidationMode,
    pub(super) problems: RefCell<Problems>,
    pub(super) warnings: RefCell<Problems>,
}

impl Findings {
    pub(super) fn problem(&self, path: &Path<'_>, code: ProblemCode, message: impl Into<String>) {
        self.problems
            .borrow_mut()
            .add(path.pointer(), code, message);
    }

    /// As [`Findings::problem`], for a rule that does not apply to stored definitions.
    pub(super) fn rule(&self, path: &Path<'_>, code: ProblemCode, message: impl Into<String>) {
        if self.validation_mode == ValidationMode::New {
            self.problem(path, code, message);
        }
    }

    fn warning(&self, path: &Path<'_>, code: ProblemCode, message: impl Into<String>) {
        self.warnings
            .borrow_mut()
            .push(Problem::new(path.pointer(), code, message));
    }
}

/// Whether an object may have unknown keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// An unknown key is a problem.
    Closed,
    /// An unknown key is allowed, but one that resembles a known one is worth a warning.
    Open,
    /// An unknown key is allowed, but its author may expect an effect.
    Settings,
}

/// The fields of an object.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    findings: &'a Findings,
    pub(super) path: &'a Path<'a>,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The fields of a value that must be an object.
    pub(super) fn open(
        findings: &'a Findings,
        path: &'a Path<'a>,
        value: &'a Value,
        keys: Keys,
        known: &[&str],
    ) -> Option<Self> {
        let Value::Object(map) = value else {
            findings.problem(
                path,
                ProblemCode::WrongType,
                format!("must be an object, not {}", type_name(value)),
            );
            return None;
        };
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            let meant = closest(
                key,
                known
                    .iter()
                    .copied()
                    .filter(|known| !map.contains_key(*known)),
            );
            let path = Path::Key(path, key);
            let shown = quoted(key);
            match (keys, meant) {
                (Keys::Closed, Some(meant)) => findings.rule(
                    &path,
                    ProblemCode::UnknownField,
                    format!("unknown field {shown}; did you mean `{meant}`?"),
                ),
                (Keys::Closed, None) => findings.rule(
                    &path,
                    ProblemCode::UnknownField,
                    format!("unknown field {shown}; the fields are {}", known.join(", ")),
                ),
                (Keys::Open | Keys::Settings, Some(meant)) => findings.warning(
                    &path,
                    ProblemCode::UnknownField,
                    format!("the field {shown} is not read; did you mean `{meant}`?"),
                ),
                (Keys::Settings, None) => findings.warning(
                    &path,
                    ProblemCode::UnknownField,
                    format!(
                        "the field {shown} is not read; the fields are {}",
                        known.join(", ")
                    ),
                ),
                (Keys::Open, None) => {}
            }
        }
        Some(Self {
            findings,
            path,
            map,
        })
    }

    pub(super) fn findings(&self) -> &'a Findings {
        self.findings
    }

    /// Reports a problem of a field.
    pub(super) fn problem(&self, key: &str, code: ProblemCode, message: impl Into<String>) {
        self.findings
            .problem(&Path::Key(self.path, key), code, message);
    }

    /// Reports a breach of a rule, which applies to new definitions only.
    pub(super) fn rule(&self, key: &str, code: ProblemCode, message: impl Into<String>) {
        self.findings
            .rule(&Path::Key(self.path, key), code, message);
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// A required field.
    pub(super) fn required(&self, key: &'static str, what: &str) -> Option<&'a Value> {
        let value = self.map.get(key);
        if value.is_none() {
            self.findings.problem(
                self.path,
                ProblemCode::MissingField,
                format!("the field `{key}` is missing; add {what}"),
            );
        }
        value
    }

    fn typed<T>(
        &self,
        key: &str,
        value: Option<&'a Value>,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = value?;
        let read = read(value);
        if read.is_none() {
            self.problem(
                key,
                ProblemCode::WrongType,
                format!("must be {what}, not {}", type_name(value)),
            );
        }
        read
    }

    pub(super) fn text(&self, key: &'static str) -> Option<&'a str> {
        self.typed(key, self.get(key), "a string", Value::as_str)
    }

    pub(super) fn required_text(&self, key: &'static str) -> Option<&'a str> {
        self.typed(
            key,
            self.required(key, "a string"),
            "a string",
            Value::as_str,
        )
    }

    /// A field with an id or name: not empty, not too long, without control characters.
    pub(super) fn name(&self, key: &'static str) -> Option<&'a str> {
        let text = self.required_text(key)?;
        self.check_name(key, text).then_some(text)
    }

    /// As [`Fields::name`], for a field that may be missing.
    pub(super) fn optional_name(&self, key: &'static str) -> Option<&'a str> {
        let text = self.text(key)?;
        self.check_name(key, text).then_some(text)
    }

    fn check_name(&self, key: &str, text: &str) -> bool {
        if text.is_empty() {
            self.problem(key, ProblemCode::InvalidValue, "must not be empty");
            return false;
        }
        let wrong = if text.len() > MAX_NAME_BYTES {
            format!(
                "must have at most {MAX_NAME_BYTES} bytes, not {}",
                text.len()
            )
        } else if text.contains(char::is_control) {
            "must not contain control characters".to_owned()
        } else {
            return true;
        };
        self.rule(key, ProblemCode::InvalidValue, wrong);
        true
    }

    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        self.typed(key, self.get(key), "true or false", Value::as_bool)
    }

    pub(super) fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.get(key)?;
        let number = self.typed(key, Some(value), "an integer", |value| {
            value.as_f64().filter(|n| n.fract() == 0.0)
        })?;
        // Saturates, so that a value out of range stays out of range.
        let whole = value
            .as_u64()
            .unwrap_or(if number < 0.0 { 0 } else { number as u64 });
        if number < 0.0 || !range.contains(&whole) {
            self.rule(
                key,
                ProblemCode::InvalidValue,
                format!("must be from {} to {}", range.start(), range.end()),
            );
        }
        Some(whole.clamp(*range.start(), *range.end()))
    }

    /// A field with a number of milliseconds.
    pub(super) fn millis(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.get(key)?;
        if let Some((ProblemCode::WrongType, message)) =
            mistimed(value, Unit::Milliseconds, range.clone())
        {
            self.problem(key, ProblemCode::WrongType, message);
            return None;
        }
        self.integer(key, range)
    }

    pub(super) fn number(&self, key: &'static str) -> Option<f64> {
        self.typed(key, self.get(key), "a number", Value::as_f64)
    }

    pub(super) fn array(&self, key: &'static str) -> Option<&'a Vec<Value>> {
        self.typed(key, self.get(key), "an array", Value::as_array)
    }

    pub(super) fn required_array(&self, key: &'static str) -> Option<&'a Vec<Value>> {
        self.typed(
            key,
            self.required(key, "an array"),
            "an array",
            Value::as_array,
        )
    }

    pub(super) fn object(&self, key: &'static str) -> Option<&'a Map<String, Value>> {
        self.typed(key, self.get(key), "an object", Value::as_object)
    }

    pub(super) fn required_object(&self, key: &'static str) -> Option<&'a Map<String, Value>> {
        self.typed(
            key,
            self.required(key, "an object"),
            "an object",
            Value::as_object,
        )
    }

    /// A field with one of these words.
    pub(super) fn word(&self, key: &'static str, words: &[&str]) -> Option<&'a str> {
        let text = self.text(key)?;
        self.check_word(key, text, words)
    }

    /// A required field with one of these words.
    pub(super) fn required_word(&self, key: &'static str, words: &[&str]) -> Option<&'a str> {
        let text = self.required_text(key)?;
        self.check_word(key, text, words)
    }

    fn check_word(&self, key: &'static str, text: &'a str, words: &[&str]) -> Option<&'a str> {
        if words.contains(&text) {
            return Some(text);
        }
        let hint = match closest(text, words.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("it is one of {}", words.join(", ")),
        };
        self.problem(
            key,
            ProblemCode::InvalidValue,
            format!("{} is not allowed here; {hint}", quoted(text)),
        );
        None
    }

    /// The strings of an array field.
    pub(super) fn texts(&self, key: &'static str) -> Option<Vec<String>> {
        let items = self.array(key)?;
        let path = Path::Key(self.path, key);
        let mut texts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.findings.problem(
                    &Path::Index(&path, index),
                    ProblemCode::WrongType,
                    format!("must be a string, not {}", type_name(item)),
                ),
            }
        }
        Some(texts)
    }
}

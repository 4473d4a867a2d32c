//! Reads objects of a document and reports all problems at once.

use kernel::problem::{Problem, ProblemCode, Problems, closest, pointer, quoted};
use serde_json::{Map, Value};

/// An object with the path to it.
pub(super) struct Fields<'a> {
    pub(super) path: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The keys that may be misspelt. Other unknown keys may be another player's.
    pub(super) fn misspelt(&self, known: &[&str]) -> Vec<Problem> {
        let unknown = self
            .object
            .keys()
            .filter(|key| !known.contains(&key.as_str()));
        let problem = |key: &String| {
            let absent = known
                .iter()
                .copied()
                .filter(|known| !self.object.contains_key(*known));
            let meant = closest(key, absent)?;
            let what = format!(
                "the key {} has no effect; did you mean `{meant}`?",
                quoted(key)
            );
            Some(Problem::new(self.at(key), ProblemCode::UnknownField, what))
        };
        unknown.filter_map(problem).collect()
    }

    pub(super) fn open(path: String, value: &'a Value, problems: &mut Problems) -> Option<Self> {
        match value {
            Value::Object(object) => Some(Self { path, object }),
            other => {
                problems.add(path, ProblemCode::WrongType, wrong("an object", other));
                None
            }
        }
    }

    pub(super) fn at(&self, key: &str) -> String {
        pointer(&self.path, key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn wrong(&self, key: &str, what: &str, problems: &mut Problems) {
        let found = self.object.get(key).unwrap_or(&Value::Null);
        problems.add(self.at(key), ProblemCode::WrongType, wrong(what, found));
    }

    pub(super) fn missing(&self, key: &str, what: &str, problems: &mut Problems) {
        problems.add(
            self.at(key),
            ProblemCode::MissingField,
            format!("`{key}` is required: {what}"),
        );
    }

    /// A text, if it is present.
    pub(super) fn text(&self, key: &str, problems: &mut Problems) -> Option<&'a str> {
        match self.get(key)? {
            Value::String(text) => Some(text),
            _ => {
                self.wrong(key, "a text", problems);
                None
            }
        }
    }

    /// A required text.
    pub(super) fn required_text(
        &self,
        key: &str,
        what: &str,
        problems: &mut Problems,
    ) -> Option<&'a str> {
        if self.get(key).is_none() {
            self.missing(key, what, problems);
        }
        self.text(key, problems)
    }

    /// A Boolean, if it is present.
    pub(super) fn flag(&self, key: &str, problems: &mut Problems) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(flag) => Some(*flag),
            _ => {
                self.wrong(key, "true or false", problems);
                None
            }
        }
    }

    /// A whole number from `min` on, if it is present.
    pub(super) fn count(&self, key: &str, min: u64, problems: &mut Problems) -> Option<u64> {
        match self.get(key)?.as_u64() {
            Some(n) if n >= min => Some(n),
            _ => {
                self.wrong(key, &format!("a whole number of at least {min}"), problems);
                None
            }
        }
    }

    /// An array, if it is present.
    pub(super) fn array(&self, key: &str, problems: &mut Problems) -> Option<&'a Vec<Value>> {
        match self.get(key)? {
            Value::Array(items) => Some(items),
            _ => {
                self.wrong(key, "an array", problems);
                None
            }
        }
    }

    /// An object, if it is present.
    pub(super) fn object(
        &self,
        key: &str,
        problems: &mut Problems,
    ) -> Option<&'a Map<String, Value>> {
        match self.get(key)? {
            Value::Object(object) => Some(object),
            _ => {
                self.wrong(key, "an object", problems);
                None
            }
        }
    }

    /// Texts in an array; any other item is a problem.
    pub(super) fn texts(&self, key: &str, problems: &mut Problems) -> Vec<String> {
        let mut texts = Vec::new();
        for (index, item) in self.array(key, problems).into_iter().flatten().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                other => problems.add(
                    pointer(&self.at(key), index),
                    ProblemCode::WrongType,
                    wrong("a text", other),
                ),
            }
        }
        texts
    }
}

fn wrong(what: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) => &number.to_string(),
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    format!("must be {what}, not {found}")
}
